/** Which rollups a process makes: all, or those whose outputs fall into the shards of its shard set (docs/AGGREGATION.md). */
import { aggregatorService, type ClusterName, placementKey, rollupsPrefix } from '../kv/keys.ts';
import type { Compare } from '../kv/kv.ts';
import { instanceById, type Placement } from '../placement/placement.ts';

/** The placement of aggregators as it was read. */
export interface KnownAggregators {
  /** Null when there is none: coordinators make rollups. */
  readonly placement: Placement | null;
  /** Of its key; 0 when there is none. */
  readonly modRevision: number;
}

export interface RollupShare {
  /** Who has this key makes it. */
  readonly leaderKey: string;
  /** Behind the policy in the key of its mark. */
  readonly markSuffix: string;
  /** Into so many parts outputs are divided by their hashes. */
  readonly numShards: number;
  /** Those that are made here, ascending. */
  readonly shards: readonly number[];
  /** As long as this holds nobody else makes any of them. */
  readonly holds: Compare;
  /** Of aggregators, that it is of; null for coordinators. */
  readonly placement: Placement | null;
}

export function isSameShare(a: RollupShare, b: RollupShare): boolean {
  return a.leaderKey === b.leaderKey && a.holds.equals === b.holds.equals;
}

/** How many make rollups, each a share; none before it is known. */
export function shareCountOf(known: KnownAggregators | null): number {
  if (known === null) return 0;
  const { placement } = known;
  return placement === null
    ? 1
    : new Set(placement.instances.map(({ shardSetId }) => shardSetId)).size;
}

/** Null where aggregators do. */
export function shareOfCoordinators(
  cluster: ClusterName,
  { placement }: KnownAggregators,
): RollupShare | null {
  if (placement !== null) return null;
  return {
    leaderKey: `${rollupsPrefix(cluster)}leader`,
    markSuffix: '',
    numShards: 1,
    shards: [0],
    holds: { key: placementKey(cluster, aggregatorService), target: 'modRevision', equals: 0 },
    placement: null,
  };
}

/** Null where the instance has no shards. */
export function shareOfInstance(
  cluster: ClusterName,
  { placement, modRevision }: KnownAggregators,
  id: string,
): RollupShare | null {
  const instance = placement === null ? undefined : instanceById(placement, id);
  if (placement === null || instance === undefined || instance.shards.length === 0) return null;
  return {
    leaderKey: `${rollupsPrefix(cluster)}leader/${instance.shardSetId}`,
    markSuffix: `/${instance.shardSetId}`,
    numShards: placement.numShards,
    shards: instance.shards.map((shard) => shard.id),
    holds: {
      key: placementKey(cluster, aggregatorService),
      target: 'modRevision',
      equals: modRevision,
    },
    placement,
  };
}
