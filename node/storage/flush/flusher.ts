/** Flushes blocks, one at a time: those that are due (due_blocks.ts), and all of them on demand. */
import { isOfWindows, windowsWaitNanos } from '#cluster/namespaces/samples.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { MemoryBudget } from '../admission/memory_budget.ts';
import type { RetentionClock } from '../../clock/retention_clock.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { closeDue } from './closing.ts';
import { compactDue, type CompactionParts } from './compaction.ts';
import {
  type BlockInMemory,
  type DueBlock,
  dueBlocks,
  type WaitingRows,
  waitingRows,
} from './due_blocks.ts';
import { emptyFlushReport, flushBlock, type FlushParts, type FlushReport } from './flush.ts';
import { Pace } from './pace.ts';
import { sumsOfBlocks } from './store_walks.ts';

/** Share of the main loop's time for flushes that nothing waits for. */
const backgroundShare = 0.2;

const nanosPerMilli = 1_000_000n;

/** What it takes to flush what is due. */
export interface FlusherParts extends FlushParts, CompactionParts {
  readonly memory: MemoryBudget;
  readonly retentionClock: RetentionClock;
}

/** A block with rows in memory, and whose it is. */
interface FlushedBlock {
  readonly namespace: NamespaceState;
  /** Of the namespace when it had the block. */
  readonly truncations: number;
  readonly blockStartNanos: UnixNanos;
}

type WaitingBlock = BlockInMemory & FlushedBlock;

export class Flusher {
  readonly #parts: FlusherParts;
  readonly #clock: Clock;
  /** By namespace ordinal and block. */
  #waiting = new Map<string, WaitingRows>();
  /** Flushes on demand that wait or run. */
  #asked = 0;
  /** When the last of the flushes that wait is done. */
  #tail: Promise<void> = Promise.resolve();
  /** Counts of this process, for metrics. */
  readonly counts: {
    blocks: number;
    filesets: number;
    series: number;
    bytes: number;
    failures: number;
    /** Filesets that long ones stand for now. */
    compacted: number;
    closed: number;
  } = { blocks: 0, filesets: 0, series: 0, bytes: 0, failures: 0, compacted: 0, closed: 0 };

  constructor(parts: FlusherParts) {
    this.#parts = parts;
    this.#clock = parts.env.clock;
  }

  /**
   * Flushes all rows of memory, those of open blocks too.
   * @param names of namespaces; null for all
   * @throws {TsdbError} NOT_FOUND, BAD_REQUEST when a namespace is not flushed, UNAVAILABLE when
   *   the disk fails: what is not safe stays in memory
   */
  async flushAll(names: readonly string[] | null, signal: AbortSignal): Promise<FlushReport> {
    const parts = this.#parts;
    const namespaces =
      names?.map((name) => this.#flushed(name)) ??
      [...parts.namespaces.values()].filter(({ options }) => options.flushEnabled);
    this.#asked += 1;
    try {
      return await this.#alone(async () => {
        const report = emptyFlushReport();
        const pace = new Pace(this.#clock, () => 1);
        for (const namespace of namespaces) {
          if (namespace.isDropped) continue;
          const { ordinal, truncations } = namespace;
          for (const { blockStartNanos } of parts.store.blocks(ordinal)) {
            await this.#flush({ namespace, truncations, blockStartNanos }, pace, report, signal);
          }
        }
        return report;
      });
    } finally {
      this.#asked -= 1;
    }
  }

  #flushed(name: string): NamespaceState {
    const namespace = this.#parts.namespaces.get(name);
    if (namespace === undefined) {
      const shown = JSON.stringify(name);
      throw new TsdbError('NOT_FOUND', `cannot flush: there is no namespace ${shown} on this node`);
    }
    if (namespace.options.flushEnabled) return namespace;
    throw badRequest(`cannot flush: flushEnabled of the namespace is false: ${name}`);
  }

  /**
   * Flushes what is due, a block at a time, then brings short blocks together to long filesets.
   * Failures are logged and tried again when this is called again.
   */
  runDue(signal: AbortSignal): Promise<FlushReport> {
    return this.#alone(async () => {
      const parts = this.#parts;
      const report = emptyFlushReport();
      // Somebody may be waiting after this.
      const isUrgent = (): boolean => this.#asked > 0 || parts.memory.isShort;
      const pace = new Pace(this.#clock, () => (isUrgent() ? 1 : backgroundShare));
      for (const { block, why } of await this.due(pace, signal)) {
        const { namespace, blockStartNanos } = block;
        if (why === 'memory is short' && !parts.memory.isStillShort) continue;
        try {
          await this.#flush(block, pace, report, signal);
        } catch (error) {
          if (error instanceof BrokenInvariant || signal.aborted) throw error;
          this.counts.failures += 1;
          const fields = { namespace: namespace.name, block: String(blockStartNanos), why };
          this.#parts.log.warn({ ...fields, error: messageOf(error) }, 'block is not flushed yet');
        }
      }
      const mayGoOn = (): boolean => !isUrgent();
      const compacted = await compactDue(parts, { pace, mayGoOn }, signal);
      this.counts.compacted += compacted.replaced;
      this.counts.closed += await closeDue(parts, { pace, mayGoOn }, signal);
      return report;
    });
  }

  async #flush(
    { namespace, truncations, blockStartNanos }: FlushedBlock,
    pace: Pace,
    report: FlushReport,
    signal: AbortSignal,
  ): Promise<void> {
    const before = { ...report };
    try {
      const options = { truncations, pace, report };
      await flushBlock(this.#parts, namespace, blockStartNanos, options, signal);
      // Rows that come from now on wait from now on.
      this.#waiting.delete(keyOf(namespace, blockStartNanos));
    } catch (error) {
      const isKnown = error instanceof TsdbError || error instanceof BrokenInvariant;
      if (isKnown || signal.aborted) throw error;
      throw new TsdbError('UNAVAILABLE', `cannot flush: ${messageOf(error)}`, { cause: error });
    } finally {
      const { counts } = this;
      counts.blocks += report.blocks - before.blocks;
      counts.filesets += report.filesets - before.filesets;
      counts.series += report.series - before.series;
      counts.bytes += report.bytes - before.bytes;
    }
  }

  /**
   * What is to be flushed now, the most urgent first.
   * @throws the signal's reason
   */
  async due(pace: Pace, signal: AbortSignal): Promise<DueBlock<WaitingBlock>[]> {
    const { env, memory, retentionClock } = this.#parts;
    const nowNanos = env.clock.nowNanos();
    const nowMillis = env.clock.monotonicMillis();
    const blocks = await this.#blocksInMemory(retentionClock.nowNanos(), nowMillis, pace, signal);
    memory.noteFlushable(blocks.reduce((sum, { bytes }) => sum + bytes, 0));
    const memoryIsShort = memory.isShort;
    return dueBlocks(blocks, { nowNanos, nowMillis, memoryIsShort });
  }

  /** Blocks of namespaces that are flushed, but for those past retention. */
  async #blocksInMemory(
    retentionNowNanos: UnixNanos,
    nowMillis: number,
    pace: Pace,
    signal: AbortSignal,
  ): Promise<WaitingBlock[]> {
    const { namespaces } = this.#parts;
    const seen = new Map<string, WaitingRows>();
    const blocks: WaitingBlock[] = [];
    // Rows of several namespaces make the same windows, which wait as those have it that are kept shortest.
    const shortest = [...namespaces.values()]
      .filter(({ definition }) => !isOfWindows(definition))
      .map(({ retentionNanos }) => retentionNanos)
      .reduce((a, b) => (b < a ? b : a), 2n ** 62n);
    for (const namespace of namespaces.values()) {
      if (!namespace.options.flushEnabled) continue;
      const sums = await sumsOfBlocks(this.#parts, namespace, pace, signal);
      if (sums === null || namespace.isDropped) continue;
      const { options, files, blockSizeNanos, definition, retentionNanos, truncations } = namespace;
      const withFiles = new Set(files.all(null).flatMap((file) => files.blocksOf(file)));
      const { bufferPastNanos } = options.retentionOptions;
      const closesAfterNanos = blockSizeNanos + bufferPastNanos;
      // Windows wait as long, and no longer.
      const waitNanos = windowsWaitNanos(isOfWindows(definition) ? retentionNanos : shortest);
      const waitMillisMax = Number(waitNanos / nanosPerMilli);
      for (const { blockStartNanos, rowCount, bytes } of sums) {
        if (namespace.isExpired(blockStartNanos, retentionNowNanos)) continue;
        const key = keyOf(namespace, blockStartNanos);
        const waiting = waitingRows(this.#waiting.get(key), rowCount, nowMillis);
        seen.set(key, waiting);
        blocks.push({
          namespace,
          truncations,
          blockStartNanos,
          closesNanos: blockStartNanos + closesAfterNanos,
          hasFileset: withFiles.has(blockStartNanos),
          bytes,
          waiting,
          waitMillisMax,
        });
      }
    }
    this.#waiting = seen;
    return blocks;
  }

  /** One flush at a time. */
  async #alone<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#tail;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#tail = promise;
    try {
      await before;
      return await work();
    } finally {
      resolve();
    }
  }
}

function keyOf({ ordinal }: NamespaceState, blockStartNanos: UnixNanos): string {
  return `${ordinal}/${blockStartNanos}`;
}
