/**
 * Up to where rollups are made, in the key-value store: of each policy the end of the last window that is final, as each
 * share (share.ts) has it. Shares change, and outputs are divided into other numbers of shards, so who takes some over looks at
 * the marks of all, and who has some no longer keeps what its mark said of them until somebody else is further. Whoever makes
 * the first windows of a policy says for all from where on.
 */
import { TsdbError } from '#lib/errors.ts';
import type { StoragePolicy } from '../aggregation_rules/rules.ts';
import { type ClusterName, rollupsPrefix } from '../kv/keys.ts';
import type { Compare, KeyValue, Kv, Operation } from '../kv/kv.ts';
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
    return finalEndOf((await this.#list(policy, signal)).flatMap(marksOf), share);
  }

  /** @returns false when somebody else makes these rollups by now */
  async write(
    policy: StoragePolicy,
    finalEndNanos: bigint,
    { share, createRevision }: Leadership,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { leaderKey, markSuffix, numShards, shards, holds } = share;
    const keyOfAll = this.#keyOf(policy);
    const key = `${keyOfAll}${markSuffix}`;
    const items = await this.#list(policy, signal);
    const own = items.find((item) => item.key === key);
    const others = items.filter((item) => item !== own).flatMap(marksOf);
    const next = { finalEndNanos, numShards, shards };
    const before = own === undefined ? [] : keptOf(marksOf(own), next, others);
    const compares: Compare[] = [
      { key: leaderKey, target: 'createRevision', equals: createRevision },
      holds,
    ];
    const put: Operation = { kind: 'put', key, value: stored(next, before) };
    if (items.length === 0 && key !== keyOfAll) {
      const ofAll = stored({ finalEndNanos, numShards: 1, shards: [0] }, []);
      const { succeeded } = await this.#kv.transact(
        [...compares, { key: keyOfAll, target: 'createRevision', equals: 0 }],
        [put, { kind: 'put', key: keyOfAll, value: ofAll }],
        signal,
      );
      if (succeeded) return true;
      // Or somebody else has said it meanwhile.
    }
    return (await this.#kv.transact(compares, [put], signal)).succeeded;
  }

  async #list(policy: StoragePolicy, signal: AbortSignal): Promise<KeyValue[]> {
    const key = this.#keyOf(policy);
    const { items } = await this.#kv.list(key, signal);
    return items.filter((item) => item.key === key || item.key.startsWith(`${key}/`));
  }

  #keyOf({ resolutionNanos, retentionNanos }: StoragePolicy): string {
    return `${rollupsPrefix(this.#cluster)}final/${resolutionNanos}:${retentionNanos}`;
  }
}

function stored(mark: Mark, before: readonly Mark[]): Uint8Array {
  const json = ({ finalEndNanos, numShards, shards }: Mark): object => ({
    finalEndNanos: String(finalEndNanos),
    numShards,
    shards: rangesOf(shards),
  });
  const kept = before.length === 0 ? {} : { before: before.map(json) };
  return Buffer.from(JSON.stringify({ ...json(mark), ...kept }));
}

/** The last one of whose key it is first, then of what it had before. */
function marksOf(item: KeyValue): Mark[] {
  const json = parsed(item);
  const before = json['before'] ?? [];
  if (!Array.isArray(before)) throw damaged(item);
  return [json, ...before].map((one) => markOf(item, one as Record<string, unknown>));
}

function markOf(item: KeyValue, json: Record<string, unknown>): Mark {
  const { finalEndNanos, numShards, shards } = json;
  const ids = typeof shards === 'string' ? shardsOfRanges(shards) : null;
  const isMark =
    typeof finalEndNanos === 'string' &&
    /^\d{1,19}$/.test(finalEndNanos) &&
    Number.isInteger(numShards) &&
    ids !== null;
  if (!isMark) throw damaged(item);
  return { finalEndNanos: BigInt(finalEndNanos), numShards: numShards as number, shards: ids };
}

function parsed(item: KeyValue): Record<string, unknown> {
  // As marks were before there were shares.
  const ofAll = { numShards: 1, shards: '0' };
  try {
    return { ...ofAll, ...(JSON.parse(Buffer.from(item.value).toString()) as object) };
  } catch {
    throw damaged(item);
  }
}

const damaged = ({ key }: KeyValue): TsdbError =>
  new TsdbError('INTERNAL', `value of key ${key} is damaged: it is no mark of rollups`);

/**
 * What a mark has to go on saying when the next one takes its place: of outputs that are not of that, how far they are, until
 * others say that these are further. (Of two that say the same both go on, so that neither relies on the other.)
 */
function keptOf(before: readonly Mark[], next: Mark, others: readonly Mark[]): Mark[] {
  const said = [...others, next];
  const { numShards } = next;
  const furthest = (of: readonly Mark[], shard: number): bigint =>
    of
      .filter((mark) => mark.numShards === numShards && mark.shards.includes(shard))
      .reduce((end, { finalEndNanos }) => (finalEndNanos > end ? finalEndNanos : end), -1n);
  const all = Array.from({ length: numShards }, (_, shard) => shard);
  return before.flatMap((mark) => {
    const isNeeded = (shard: number): boolean => furthest(said, shard) <= mark.finalEndNanos;
    if (mark.numShards !== numShards) return all.some(isNeeded) ? [mark] : [];
    const shards = mark.shards.filter(
      (shard) => !next.shards.includes(shard) && furthest(others, shard) <= mark.finalEndNanos,
    );
    return shards.length === 0 ? [] : [{ ...mark, shards }];
  });
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
