/**
 * Answers to peers that compare their rows with those of this node (docs/REPAIR.md). It answers for
 * what it has whole, and only to who has applied the same deletions and has the same retention:
 * whatever else differs would not be a difference that somebody has to mend.
 */
import { namesEarlier } from '#cluster/namespaces/numbers.ts';
import {
  type ComparedShard,
  comparedBlocksMax,
  compareState,
  type CompareRowsRequest,
  type CompareRowsResponse,
  differentRangesMax,
  markOf,
  type OfNamespace,
  type StreamDifferentRequest,
  type StreamShardPage,
} from '#cluster/node/service.ts';
import { digestSeries, idHashOf } from '#engine/store/row_digest.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { Env } from '#lib/env/env.ts';
import { ChildSignal } from '#lib/env/wait.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import type { Admission } from '../admission/admission.ts';
import type { Deletions } from '../deletions/deletions.ts';
import { Pace } from '../flush/pace.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { isRead, type ShardTable } from '../namespace/shards.ts';
import { BlockWalk } from '../read/block_walk.ts';
import { PageBuilder, streamPageBytesTarget } from '../read/page_builder.ts';
import { comparisonShare, type BlockDigests } from './block_digests.ts';
import { type RangeDigests, rangeBitsMax, rangeOf } from './range_digests.ts';

/** Comparisons of peers that are under way; more are refused. */
const comparisonsMax = 8;
/** So long an answer waits for sums; those that take longer are there when they are asked for again. */
const readyMillisMax = 5_000;
/** The same for one that is late already: what is in memory is there at once. */
const lateMillisMax = 50;
/** A peer that hears nothing for longer gives up, so pages may be empty. */
const pageMillisMax = 5_000;

/** What it takes to answer. */
export interface ComparisonsParts {
  readonly env: Env;
  readonly store: SampleStore;
  readonly shards: ShardTable;
  readonly admission: Admission;
  readonly deletions: Pick<Deletions, 'appliedSequence' | 'applying' | 'hasAll'>;
  readonly digests: BlockDigests;
  /**
   * The namespace that is named, or a later one of the name.
   * @throws {TsdbError} NOT_FOUND, UNAVAILABLE
   */
  readonly namespaceOf: (request: OfNamespace, signal: AbortSignal) => Promise<NamespaceState>;
}

export class Comparisons {
  readonly #parts: ComparisonsParts;
  #underWay = 0;

  constructor(parts: ComparisonsParts) {
    this.#parts = parts;
  }

  /** @throws {TsdbError} BAD_REQUEST, NOT_FOUND, UNAVAILABLE, RESOURCE_EXHAUSTED */
  async compareRows(
    request: CompareRowsRequest,
    signal: AbortSignal,
  ): Promise<CompareRowsResponse> {
    const { blockStartsNanos, rangeBits } = request;
    checkCount('block_starts_nanos', blockStartsNanos.length, comparedBlocksMax);
    if (rangeBits !== null) {
      checkRangeBits(rangeBits);
      if (blockStartsNanos.length !== 1) {
        throw badRequest(
          `cannot compare rows: ranges are of one block: ${blockStartsNanos.length}`,
        );
      }
    }
    using _ = this.#begin();
    const namespace = await this.#namespaceOf(request, signal);
    const states = new Uint8Array(blockStartsNanos.length);
    const roots = new BigUint64Array(2 * blockStartsNanos.length);
    let ranges: RangeDigests | null = null;
    const { truncations } = namespace;
    const { clock } = this.#parts.env;
    const endMillis = clock.monotonicMillis() + readyMillisMax;
    for (const [i, start] of blockStartsNanos.entries()) {
      checkStart(namespace, start);
      states[i] = this.#stateOf(namespace, request, start);
      if (states[i] !== compareState.compared) continue;
      const millis = Math.max(endMillis - clock.monotonicMillis(), lateMillisMax);
      const digests = await this.#inTime(namespace, request.shard, start, millis, signal);
      if (digests === null) {
        states[i] = compareState.notReady;
        continue;
      }
      roots.set(digests.root(), 2 * i);
      if (rangeBits !== null) ranges = digests.folded(Math.min(rangeBits, digests.rangeBits));
    }
    // What was deleted, lost or found damaged meanwhile may be in the sums of some.
    blockStartsNanos.forEach((start, i) => {
      if (states[i] !== compareState.compared) return;
      states[i] = this.#stateOf(namespace, request, start);
      if (namespace.truncations !== truncations) states[i] = compareState.notReady;
    });
    return {
      states,
      roots,
      rangeBits: ranges?.rangeBits ?? 0,
      ranges: ranges?.lowSums() ?? new BigUint64Array(0),
    };
  }

  /** @throws {TsdbError} as `compareRows`, and UNAVAILABLE when the block is not to be compared */
  async *streamDifferent(
    request: StreamDifferentRequest,
    signal: AbortSignal,
  ): AsyncGenerator<StreamShardPage, void, undefined> {
    const { shard, blockStartNanos: start, rangeBits, ranges, known, salt, namesOnly } = request;
    checkRangeBits(rangeBits);
    checkCount('ranges', ranges.length, differentRangesMax);
    const isAscending = known.every((mark, i) => i === 0 || mark >= known[i - 1]!);
    if (!isAscending) throw badRequest('cannot compare rows: known is not ascending');
    if (salt % 2n === 0n) throw badRequest(`cannot compare rows: salt is not odd: ${salt}`);
    using _ = this.#begin();
    const namespace = await this.#namespaceOf(request, signal);
    checkStart(namespace, start);
    const { truncations } = namespace;
    const check = (): void => {
      const state = this.#stateOf(namespace, request, start);
      if (state === compareState.compared && namespace.truncations === truncations) return;
      throw new TsdbError('UNAVAILABLE', `cannot stream: block is not to be compared: ${state}`);
    };
    check();
    const wanted = new Uint8Array(2 ** rangeBits);
    for (const range of ranges) wanted[range] = 1;
    const { store, env } = this.#parts;
    const pace = new Pace(env.clock, () => comparisonShare / Math.max(this.#underWay, 1));
    await using walk = new BlockWalk({ store, disk: env.disk }, namespace, shard, start, {
      wants: (id) => wanted[rangeOf(idHashOf(id), rangeBits)] === 1,
      rest: () => pace.rest(signal),
    });
    let page = new PageBuilder();
    let pageBegunMillis = env.clock.monotonicMillis();
    for (let series = await walk.next(); series !== null; series = await walk.next()) {
      signal.throwIfAborted();
      const { low, high } = digestSeries(
        series.id,
        series.chunks,
        start,
        start + namespace.blockSizeNanos,
      );
      const isEmpty = low === 0n && high === 0n;
      const isKnown = hasMark(known, markOf(low, salt));
      if (!isEmpty && !isKnown) page.add(series.name, namesOnly ? [] : series.chunks);
      await pace.rest(signal);
      const isLate = env.clock.monotonicMillis() - pageBegunMillis > pageMillisMax;
      if (page.bytes < streamPageBytesTarget && !isLate) continue;
      yield { bundle: page.finish() };
      page = new PageBuilder();
      pageBegunMillis = env.clock.monotonicMillis();
    }
    if (page.seriesCount > 0) yield { bundle: page.finish() };
    check();
    if (walk.hasMetDamage) {
      throw new TsdbError('UNAVAILABLE', 'cannot stream: rows of the block are damaged here');
    }
  }

  #begin(): Disposable {
    if (this.#underWay >= comparisonsMax) {
      const reason = `server is overloaded: ${comparisonsMax} comparisons under way`;
      throw new TsdbError('RESOURCE_EXHAUSTED', reason);
    }
    this.#underWay += 1;
    return {
      [Symbol.dispose]: () => {
        this.#underWay -= 1;
      },
    };
  }

  async #namespaceOf(request: ComparedShard, signal: AbortSignal): Promise<NamespaceState> {
    const { admission, namespaceOf } = this.#parts;
    const namespace = await namespaceOf(request, signal);
    if (namesEarlier(request, namespace.definition)) {
      const reason = `cannot compare rows: namespace was made again: ${namespace.name}`;
      throw new TsdbError('UNAVAILABLE', reason);
    }
    await admission.placementVersion(request.placementVersion, signal);
    return namespace;
  }

  #stateOf(namespace: NamespaceState, request: ComparedShard, start: bigint): number {
    const { shards, deletions } = this.#parts;
    const { shard, deletionSequence, retentionNanos } = request;
    const isApplying = deletions.applying?.namespace === namespace.name;
    if (isApplying || deletions.appliedSequence !== deletionSequence) {
      return compareState.deletionsDiffer;
    }
    if (!deletions.hasAll(namespace.name, request.deletionVersions ?? [])) {
      return compareState.deletionsDiffer;
    }
    if (namespace.retentionNanos !== retentionNanos) return compareState.retentionDiffers;
    const owned = shards.get(shard);
    const isWhole =
      shards.counts &&
      !namespace.isDropped &&
      owned !== undefined &&
      isRead(owned) &&
      namespace.readyShards.hasBlocks(shard, new Set([start]));
    if (!isWhole) return compareState.notWhole;
    return start < namespace.expiredBeforeNanos ? compareState.expired : compareState.compared;
  }

  /** The sums of a block, null when they are not to be had soon; they are made all the same. */
  async #inTime(
    namespace: NamespaceState,
    shard: number,
    start: bigint,
    millis: number,
    signal: AbortSignal,
  ): Promise<RangeDigests | null> {
    const { digests, env } = this.#parts;
    const known = digests.known(namespace, shard, start);
    if (known !== null) return known;
    const stop = new ChildSignal(signal);
    const late = env.clock
      .sleep(millis, stop.signal)
      .then(() => null)
      .catch(() => null);
    try {
      return await Promise.race([digests.of(namespace, shard, start), late]);
    } finally {
      stop.end();
      signal.throwIfAborted();
    }
  }
}

function checkCount(field: string, count: number, countMax: number): void {
  if (count <= countMax) return;
  throw badRequest(`cannot compare rows: ${field} are more than ${countMax}: ${count}`);
}

function checkRangeBits(rangeBits: number): void {
  if (rangeBits <= rangeBitsMax) return;
  throw badRequest(`cannot compare rows: range_bits is above ${rangeBitsMax}: ${rangeBits}`);
}

function checkStart(namespace: NamespaceState, start: bigint): void {
  if (namespace.blockStartOf(start) === start) return;
  throw badRequest(`cannot compare rows: block_starts_nanos has no start of a block: ${start}`);
}

/** @param marks ascending */
function hasMark(marks: Uint32Array, mark: number): boolean {
  let low = 0;
  let high = marks.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (marks[middle]! < mark) low = middle + 1;
    else high = middle;
  }
  return marks[low] === mark;
}
