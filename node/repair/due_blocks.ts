/** Which blocks of a shard are to be compared with a peer, and when one that differed is again. */
import type { RepairStrategy } from './options.ts';

/** Longest rest of a block that differs again and again. */
const restMillisMax = 600_000;

/** What is known of a block from the last comparison with a peer. */
export interface ComparedBlock {
  /** What this node had in use of it then, told apart by identity; null for nothing. */
  readonly file: object | null;
  readonly atMillis: number;
  readonly isEqual: boolean;
  /** How often in a row it differed. */
  readonly differences: number;
  /** It is not compared before, unless a round is asked for. */
  readonly notBeforeMillis: number;
}

export interface DueOptions {
  readonly strategy: RepairStrategy;
  readonly nowMillis: number;
  /** What this node has in use of a block now. */
  readonly fileOf: (startNanos: bigint) => object | null;
}

/**
 * @param startsNanos blocks that may be compared
 * @returns those that are due, in the same order
 */
export function dueBlocks(
  startsNanos: readonly bigint[],
  compared: ReadonlyMap<bigint, ComparedBlock>,
  { strategy, nowMillis, fileOf }: DueOptions,
): bigint[] {
  const isDue = (start: bigint): boolean => {
    const known = compared.get(start);
    if (known === undefined) return true;
    if (!known.isEqual) return nowMillis >= known.notBeforeMillis;
    return strategy === 'full_sweep' || known.file !== fileOf(start);
  };
  const due = new Set(startsNanos.filter(isDue));
  const others = startsNanos.filter((start) => compared.get(start)?.isEqual === true);
  let oldest: bigint | null = null;
  for (const start of others) {
    const { atMillis } = compared.get(start)!;
    if (oldest === null || atMillis < compared.get(oldest)!.atMillis) oldest = start;
  }
  if (oldest !== null) due.add(oldest);
  return startsNanos.filter((start) => due.has(start));
}

/**
 * The state of a block that differed.
 * @param hasChanged whether this node took something from the peer: then it is looked at again soon
 */
export function differed(
  before: ComparedBlock | undefined,
  now: { readonly file: object | null; readonly atMillis: number; readonly hasChanged: boolean },
  throttleMillis: number,
): ComparedBlock {
  const differences = (before?.isEqual === false ? before.differences : 0) + 1;
  const { file, atMillis, hasChanged } = now;
  const isSoon = hasChanged && differences === 1;
  const restMillis = throttleMillis * 2 ** Math.min(differences - 1, 20);
  const notBeforeMillis = isSoon ? atMillis : atMillis + Math.min(restMillis, restMillisMax);
  return { file, atMillis, isEqual: false, differences, notBeforeMillis };
}
