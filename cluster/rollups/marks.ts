/**
 * Up to where rollups are made, in the key-value store: of each policy the end of the last window that is final, as each
 * share (share.ts) has it. Shares change, and outputs are divided into other numbers of shards, so who takes some over looks at
 * the marks of all.
 */
import { TsdbError } from '#lib/errors.ts';
import type { StoragePolicy } from '../aggregation_rules/rules.ts';
import { type ClusterName, rollupsPrefix } from '../kv/keys.ts';
import type { Kv } from '../kv/kv.ts';
import { rangesOf, shardsOfRanges } from '../placement/shard_ranges.ts';
import type { RollupShare } from './share.ts';

/** Who makes rollups is who has the key of a share. */
export interface Leadership {
  readonly share: RollupShare;
  readonly createRevision: number;
}

interface Mark {
  readonly finalEndNanos: bigint;
  readonly numShards: number;
  readonly shards: readonly number[];
}

export class RollupMarks {
  readonly #kv: Pick<Kv, 'list' | 'transact'>;
  readonly #cluster: ClusterName;

  constructor(kv: Pick<Kv, 'list' | 'transact'>, cluster: ClusterName) {
    this.#kv = kv;
    this.#cluster = cluster;
  }

  /**
   * Up to where all outputs of a share are made; null where that is not known of some.
   * @throws {TsdbError} INTERNAL naming the key whose value is damaged
   */
  async read(
    policy: StoragePolicy,
    share: RollupShare,
    signal: AbortSignal,
  ): Promise<bigint | null> {
    const key = this.#keyOf(policy);
    const { items } = await this.#kv.list(key, signal);
    const marks = items
      .filter((item) => item.key === key || item.key.startsWith(`${key}/`))
      .map((item) => markOf(item.key, item.value));
    return finalEndOf(marks, share);
  }

  /** @returns false when somebody else makes these rollups by now */
  async write(
    policy: StoragePolicy,
    finalEndNanos: bigint,
    { share, createRevision }: Leadership,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { leaderKey, markSuffix, numShards, shards, holds } = share;
    const fields = { finalEndNanos: String(finalEndNanos), numShards, shards: rangesOf(shards) };
    const value = Buffer.from(JSON.stringify(fields));
    const { succeeded } = await this.#kv.transact(
      [{ key: leaderKey, target: 'createRevision', equals: createRevision }, holds],
      [{ kind: 'put', key: `${this.#keyOf(policy)}${markSuffix}`, value }],
      signal,
    );
    return succeeded;
  }

  #keyOf({ resolutionNanos, retentionNanos }: StoragePolicy): string {
    return `${rollupsPrefix(this.#cluster)}final/${resolutionNanos}:${retentionNanos}`;
  }
}

function markOf(key: string, value: Uint8Array): Mark {
  const { finalEndNanos, numShards, shards } = parsed(value);
  const ids = typeof shards === 'string' ? shardsOfRanges(shards) : null;
  const isMark =
    typeof finalEndNanos === 'string' &&
    /^\d{1,19}$/.test(finalEndNanos) &&
    Number.isInteger(numShards) &&
    ids !== null;
  if (isMark) {
    return {
      finalEndNanos: BigInt(finalEndNanos),
      numShards: numShards as number,
      shards: ids,
    };
  }
  throw new TsdbError('INTERNAL', `value of key ${key} is damaged: it is no mark of rollups`);
}

function parsed(value: Uint8Array): Record<'finalEndNanos' | 'numShards' | 'shards', unknown> {
  // As marks were before there were shares.
  const ofAll = { finalEndNanos: null, numShards: 1, shards: '0' };
  try {
    return { ...ofAll, ...(JSON.parse(Buffer.from(value).toString()) as object) };
  } catch {
    return ofAll;
  }
}

/** Exported for tests. */
export function finalEndOf(marks: readonly Mark[], share: RollupShare): bigint | null {
  // Of each shard what is said last: a share of before may have had it.
  const byCount = new Map<number, Map<number, bigint>>();
  for (const { finalEndNanos, numShards, shards } of marks) {
    const ends = byCount.get(numShards) ?? new Map<number, bigint>();
    byCount.set(numShards, ends);
    for (const shard of shards) {
      const known = ends.get(shard);
      if (known === undefined || known < finalEndNanos) ends.set(shard, finalEndNanos);
    }
  }
  // Of outputs that were divided in another way, where all of that are made.
  const floors = [...byCount]
    .filter(([numShards, ends]) => numShards !== share.numShards && ends.size === numShards)
    .map(([, ends]) => [...ends.values()].reduce((a, b) => (b < a ? b : a)));
  const own = byCount.get(share.numShards);
  let least: bigint | null = null;
  for (const shard of share.shards) {
    const known = [...floors, ...(own?.has(shard) === true ? [own.get(shard)!] : [])];
    if (known.length === 0) return null;
    const end = known.reduce((a, b) => (b > a ? b : a));
    if (least === null || end < least) least = end;
  }
  return least;
}
