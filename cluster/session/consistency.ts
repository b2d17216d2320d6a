/** Consistency levels and what they ask for, as pure arithmetic. */

export type WriteConsistency = 'one' | 'majority' | 'all';

export const writeConsistencies: readonly WriteConsistency[] = ['one', 'majority', 'all'];

export type ReadConsistency =
  | 'none'
  | 'one'
  | 'unstrict_majority'
  | 'majority'
  | 'unstrict_all'
  | 'all';

export const readConsistencies: readonly ReadConsistency[] = [
  'none',
  'one',
  'unstrict_majority',
  'majority',
  'unstrict_all',
  'all',
];

/** Replicas of a shard that must acknowledge a row. */
export function writeReplicasRequired(level: WriteConsistency, replicaFactor: number): number {
  switch (level) {
    case 'one':
      return 1;
    case 'majority':
      return majority(replicaFactor);
    case 'all':
      return replicaFactor;
    default:
      return level satisfies never;
  }
}

/**
 * Replicas of a shard whose answers a read waits for, and fewest with which it is still answered.
 */
export function readReplicasRequired(
  level: ReadConsistency,
  replicaFactor: number,
): { readonly wanted: number; readonly accepted: number } {
  switch (level) {
    case 'none':
      return { wanted: 1, accepted: 0 };
    case 'one':
      return { wanted: 1, accepted: 1 };
    case 'unstrict_majority':
      return { wanted: majority(replicaFactor), accepted: 1 };
    case 'majority':
      return { wanted: majority(replicaFactor), accepted: majority(replicaFactor) };
    case 'unstrict_all':
      return { wanted: replicaFactor, accepted: 1 };
    case 'all':
      return { wanted: replicaFactor, accepted: replicaFactor };
    default:
      return level satisfies never;
  }
}

/** More than half of the replicas. */
export function majority(replicaFactor: number): number {
  return Math.floor(replicaFactor / 2) + 1;
}
