/**
 * Compares blocks of one shard with those of one peer, and takes what the peer has and this node
 * has not (docs/REPAIR.md). Each replica does so for itself, so that all of them come to have the
 * same.
 */
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import {
  type ComparedShard,
  compareState,
  type CompareRowsRequest,
  type CompareRowsResponse,
  differentRangesMax,
  markOf,
  type NodeService,
  type StreamDifferentRequest,
  type StreamShardPage,
} from '#cluster/node/service.ts';
import { digestSeries, idHashOf } from '#engine/store/row_digest.ts';
import { WorkSignal } from '#lib/env/wait.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { mergeFromPeers, pagesOf, type PeersParts } from '../bootstrap/peers.ts';
import type { MemoryBudget } from '../storage/admission/memory_budget.ts';
import { type BlockDigests, comparisonShare } from '../storage/comparison/block_digests.ts';
import { type RangeDigests, rangeOf } from '../storage/comparison/range_digests.ts';
import { Pace } from '../storage/flush/pace.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';
import { BlockWalk } from '../storage/read/block_walk.ts';

/** A peer that does not answer for longer is given up. */
const answerMillisMax = 20_000;
/** Of one request: two and a half megabytes. */
const knownMarksMax = 500_000;
/** What is taken from peers, so that it leaves room for writes. */
const fetchBytesPerSecondMax = 32 * 1024 * 1024;
/** What is taken from a peer before files are written; beyond it both go on together. */
const heldBytesMax = 64 * 1024 * 1024;

/** What it takes to compare, and to take what differs. */
export interface BlockRepairParts extends PeersParts {
  readonly log: Log;
  readonly digests: BlockDigests;
  readonly memory: Pick<MemoryBudget, 'isShort'>;
}

/** Counts of this process, for metrics. */
export interface RepairCounts {
  blocksCompared: number;
  blocksDiffered: number;
  seriesFetched: number;
  bytesFetched: number;
  filesets: number;
}

/** A node of a release that can compare. */
export type ComparingNode = Required<Pick<NodeService, 'compareRows' | 'streamDifferent'>>;

/** A shard of this node, and another owner of it. */
export interface Comparison {
  readonly namespace: NamespaceState;
  readonly shard: number;
  readonly peerId: string;
  readonly peer: ComparingNode;
  readonly onlyCompare: boolean;
}

/**
 * `skipped` was not compared, for a passing reason; of what is `expired` the peer has let its rows go; `changed` differed, and
 * this node took something; `failed` differed, and perhaps there is something to take.
 */
export type Outcome = 'equal' | 'differs' | 'changed' | 'failed' | 'skipped' | 'expired';

/** Names of `compareState` by number, for logs and metrics. */
const stateNames = new Map<number, string>(
  Object.entries(compareState).map(([name, state]) => [state, name]),
);

export class BlockRepair {
  readonly #parts: BlockRepairParts;
  readonly #counts: RepairCounts;
  readonly #onSkipped: (reason: string) => void;

  /** @param onSkipped told why a block was not compared */
  constructor(parts: BlockRepairParts, counts: RepairCounts, onSkipped: (reason: string) => void) {
    this.#parts = parts;
    this.#counts = counts;
    this.#onSkipped = onSkipped;
  }

  /**
   * @param startsNanos at most `comparedBlocksMax`
   * @param onOutcome called for each of them, as soon as it is known
   * @throws {TsdbError} what the peer rejects with
   */
  async run(
    comparison: Comparison,
    startsNanos: readonly bigint[],
    onOutcome: (startNanos: bigint, outcome: Outcome) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { digests } = this.#parts;
    const { namespace, shard, peer } = comparison;
    const skip = (start: bigint, reason: string): void => {
      this.#onSkipped(reason);
      onOutcome(start, reason === 'expired' ? 'expired' : 'skipped');
    };
    const ground = this.#groundOf(comparison);
    if (ground === null) {
      for (const start of startsNanos) skip(start, 'deletionsDiffer');
      return;
    }
    const own = new Map<bigint, RangeDigests>();
    for (const start of startsNanos) {
      signal.throwIfAborted();
      const isWhole = namespace.readyShards.hasBlocks(shard, new Set([start]));
      const sums = isWhole ? await digests.of(namespace, shard, start) : null;
      if (sums === null) skip(start, isWhole ? 'notReady' : 'notWhole');
      else own.set(start, sums);
    }
    if (own.size === 0) return;
    const asked = [...own.keys()];
    const request = { ...ground.of, blockStartsNanos: asked, rangeBits: null };
    const answer = await this.#ask(peer, request, signal);
    checkAnswer(answer, asked.length);
    for (const [i, start] of asked.entries()) {
      const reason = this.#problemOf(comparison, ground, answer, i);
      if (reason !== null) {
        skip(start, reason);
        continue;
      }
      const sums = own.get(start)!;
      const [low, high] = sums.root();
      this.#counts.blocksCompared += 1;
      if (answer.roots[2 * i] === low && answer.roots[2 * i + 1] === high) {
        onOutcome(start, 'equal');
        continue;
      }
      try {
        onOutcome(start, await this.#mend(comparison, ground, start, sums, signal));
      } catch (error) {
        // It rests, so that what fails with it does not keep others waiting.
        onOutcome(start, 'failed');
        throw error;
      }
    }
  }

  /** What both sides have to be equal in; null while it changes. */
  #groundOf({ namespace, shard }: Comparison): Ground | null {
    const { deletions, shards } = this.#parts;
    if (deletions.applying?.namespace === namespace.name) return null;
    return {
      truncations: namespace.truncations,
      deletionsRevision: namespace.tombstones.revision,
      of: {
        namespace: namespace.name,
        namespaceNumber: namespaceNumber(namespace.definition),
        shard,
        placementVersion: shards.version,
        deletionSequence: deletions.appliedSequence,
        deletionVersions: deletions.versionsOf(namespace.name),
        retentionNanos: namespace.retentionNanos,
      },
    };
  }

  /** Why the answer for block `i` is not to be used; null when it is. */
  #problemOf(
    comparison: Comparison,
    ground: Ground,
    answer: CompareRowsResponse,
    i: number,
  ): string | null {
    if (!this.#holds(comparison, ground)) return 'deletionsDiffer';
    const state = answer.states[i]!;
    return state === compareState.compared ? null : (stateNames.get(state) ?? 'notReady');
  }

  /** Whether what this node has added up still stands. */
  #holds(comparison: Comparison, ground: Ground): boolean {
    const now = this.#groundOf(comparison);
    return (
      now !== null &&
      !comparison.namespace.isDropped &&
      now.truncations === ground.truncations &&
      now.of.deletionSequence === ground.of.deletionSequence &&
      now.deletionsRevision === ground.deletionsRevision &&
      now.of.retentionNanos === ground.of.retentionNanos
    );
  }

  async #ask(
    peer: Comparison['peer'],
    request: CompareRowsRequest,
    signal: AbortSignal,
  ): Promise<CompareRowsResponse> {
    const work = new WorkSignal(this.#parts.env, answerMillisMax, signal);
    try {
      return await peer.compareRows(request, work.signal);
    } finally {
      work.end();
    }
  }

  /** Finds out in which ranges the block differs, and takes the series that do. */
  async #mend(
    comparison: Comparison,
    ground: Ground,
    start: bigint,
    own: RangeDigests,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const request = { ...ground.of, blockStartsNanos: [start], rangeBits: own.rangeBits };
    const answer = await this.#ask(comparison.peer, request, signal);
    checkAnswer(answer, 1);
    const reason = this.#problemOf(comparison, ground, answer, 0);
    if (reason !== null) {
      this.#onSkipped(reason);
      return 'skipped';
    }
    if (answer.rangeBits > own.rangeBits || answer.ranges.length !== 2 ** answer.rangeBits) {
      throw badRequest(`cannot compare rows: a peer gave ranges that nobody asked for`);
    }
    const ranges = own.folded(answer.rangeBits).differing(answer.ranges);
    // Its rows have changed since it gave their sum.
    if (ranges.length === 0) return 'equal';
    this.#counts.blocksDiffered += 1;
    let filesets = 0;
    let series = 0;
    // The ranges of a peer with fewer series are wider, and have more of ours: a request stays as large.
    const rangesMax = Math.max(1, differentRangesMax >> (own.rangeBits - answer.rangeBits));
    for (let first = 0; first < ranges.length; first += rangesMax) {
      const some = {
        ...ground.of,
        blockStartNanos: start,
        rangeBits: answer.rangeBits,
        ranges: Uint32Array.from(ranges.slice(first, first + rangesMax)),
        salt: this.#salt(),
        namesOnly: comparison.onlyCompare,
      };
      const marks = await this.#marks(comparison.namespace, some, signal);
      // Who has so few series that one of its ranges is as wide sends few that are known.
      const known = marks.length > knownMarksMax ? new Uint32Array(0) : marks;
      const request: StreamDifferentRequest = { ...some, known };
      if (!this.#holds(comparison, ground)) return 'skipped';
      const taken = await this.#take(comparison, ground, request, signal);
      series += taken.series;
      filesets += taken.filesets;
    }
    const { namespace, shard, peerId, onlyCompare } = comparison;
    const fields = {
      namespace: namespace.name,
      shard,
      block: String(start),
      peer: peerId,
      ranges: ranges.length,
      series,
    };
    if (onlyCompare) this.#parts.log.warn(fields, 'replicas differ, and are only compared');
    else if (filesets > 0)
      this.#parts.log.info(fields, 'rows that were missing are taken from a peer');
    return filesets > 0 ? 'changed' : 'differs';
  }

  #salt(): bigint {
    const { random } = this.#parts.env;
    return (BigInt(random.u32()) << 32n) | BigInt(random.u32()) | 1n;
  }

  /** Marks of the own series of these ranges, ascending. */
  async #marks(
    namespace: NamespaceState,
    request: Omit<StreamDifferentRequest, 'known'>,
    signal: AbortSignal,
  ): Promise<Uint32Array> {
    const { shard, blockStartNanos: start, rangeBits, ranges, salt } = request;
    const { env, store } = this.#parts;
    const wanted = new Uint8Array(2 ** rangeBits);
    for (const range of ranges) wanted[range] = 1;
    const pace = this.#pace();
    await using walk = new BlockWalk({ store, disk: env.disk }, namespace, shard, start, {
      wants: (id) => wanted[rangeOf(idHashOf(id), rangeBits)] === 1,
      rest: () => pace.rest(signal),
    });
    const marks: number[] = [];
    const endNanos = start + namespace.blockSizeNanos;
    for (let series = await walk.next(); series !== null; series = await walk.next()) {
      const { low } = digestSeries(series.id, series.chunks, start, endNanos);
      marks.push(markOf(low, salt));
      await pace.rest(signal);
    }
    if (walk.hasMetDamage) {
      throw new TsdbError('UNAVAILABLE', 'cannot compare rows: some are damaged on this node');
    }
    return Uint32Array.from(marks).sort();
  }

  async #take(
    comparison: Comparison,
    ground: Ground,
    request: StreamDifferentRequest,
    signal: AbortSignal,
  ): Promise<{ readonly series: number; readonly filesets: number }> {
    const { namespace, shard, peer, onlyCompare } = comparison;
    const counts = { series: 0 };
    const open = (stop: AbortSignal): AsyncIterable<StreamShardPage> =>
      peer.streamDifferent(request, stop);
    const { clock } = this.#parts.env;
    await using pages = this.#counted(pagesOf(open, clock, signal), counts, signal);
    if (onlyCompare) {
      for await (const _ of pages);
      return { series: counts.series, filesets: 0 };
    }
    // Who writes files of the shard keeps others from it, so usually all is here before.
    const here: StreamShardPage[] = [];
    let bytes = 0;
    while (bytes < heldBytesMax) {
      const next = await pages.next();
      if (next.done === true) break;
      here.push(next.value);
      bytes += next.value.bundle.chunkData.length + next.value.bundle.tagsData.length;
    }
    if (counts.series === 0) return { series: 0, filesets: 0 };
    // What came has not seen a deletion that was applied since.
    if (!this.#holds(comparison, ground)) throw changedMeanwhile(namespace);
    const stream = async function* (): AsyncGenerator<StreamShardPage, void, undefined> {
      yield* here;
      yield* pages;
    };
    const options = {
      streams: [stream],
      onlyBlocks: new Set([request.blockStartNanos]),
      pace: this.#pace(),
    };
    const { filesets } = await mergeFromPeers(this.#parts, namespace, shard, options, signal);
    this.#counts.filesets += filesets;
    return { series: counts.series, filesets };
  }

  /** Counts what comes, and takes no more of it than the limit allows. */
  async *#counted(
    pages: AsyncIterable<StreamShardPage>,
    counts: { series: number },
    signal: AbortSignal,
  ): AsyncGenerator<StreamShardPage, void, undefined> {
    const { clock } = this.#parts.env;
    for await (const page of pages) {
      const { seriesCount, tagsData, chunkData } = page.bundle;
      const bytes = tagsData.length + chunkData.length;
      counts.series += seriesCount;
      this.#counts.seriesFetched += seriesCount;
      this.#counts.bytesFetched += bytes;
      yield page;
      await clock.sleep((1000 * bytes) / fetchBytesPerSecondMax, signal);
    }
  }

  #pace(): Pace {
    const { env, memory } = this.#parts;
    // A flush may wait for the shard's files.
    return new Pace(env.clock, () => (memory.isShort ? 1 : comparisonShare));
  }
}

function changedMeanwhile({ name }: NamespaceState): TsdbError {
  const reason = `cannot compare rows: some were deleted meanwhile: ${name}`;
  return new TsdbError('UNAVAILABLE', reason);
}

interface Ground {
  readonly truncations: number;
  /** As `NamespaceTombstones.revision`. */
  readonly deletionsRevision: number;
  readonly of: ComparedShard;
}

function checkAnswer({ states, roots }: CompareRowsResponse, blocks: number): void {
  if (states.length === blocks && roots.length === 2 * blocks) return;
  throw badRequest(`cannot compare rows: a peer answered for other blocks: ${states.length}`);
}
