/**
 * Which blocks are flushed when, one at a time: closed ones at once, late rows when no more of them
 * come, whatever frees most when memory is short, and all on demand.
 */
import { BrokenInvariant } from '#lib/assert.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';
import type { UnixNanos } from '#lib/time.ts';
import { compactDue } from './compaction.ts';
import type { Database } from '../database.ts';
import { emptyFlushReport, flushBlock, type FlushReport } from './flush.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { Pace } from './pace.ts';

/** A closed block is flushed when no row came for this time: a backfill may be writing it. */
const closedQuietMillis = 10_000;
/** Late rows are flushed when no more came for this time, or at the latest after that. */
const coldQuietMillis = 60_000;
const coldDirtyMillisMax = 600_000;
/** Share of the main loop's time for flushes that nothing waits for. */
const backgroundShare = 0.2;

export interface DueBlock {
  readonly namespace: NamespaceState;
  readonly blockStartNanos: UnixNanos;
  readonly bytes: number;
  readonly why: 'closed' | 'late rows' | 'memory is short' | 'on demand';
}

/** What is known of rows that wait in memory. */
interface Waiting {
  rowCount: number;
  sinceMillis: number;
  changedAtMillis: number;
}

export class Flusher {
  readonly #database: Database;
  readonly #clock: Clock;
  /** By namespace ordinal and block. */
  #waiting = new Map<string, Waiting>();
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
  } = { blocks: 0, filesets: 0, series: 0, bytes: 0, failures: 0, compacted: 0 };

  constructor(database: Database) {
    this.#database = database;
    this.#clock = database.env.clock;
  }

  /**
   * Flushes all rows of memory, those of open blocks too.
   * @param names of namespaces; null for all
   * @throws {TsdbError} NOT_FOUND, BAD_REQUEST when a namespace is not flushed, UNAVAILABLE when
   *   the disk fails: what is not safe stays in memory
   */
  async flushAll(names: readonly string[] | null, signal: AbortSignal): Promise<FlushReport> {
    const database = this.#database;
    const namespaces =
      names?.map((name) => this.#flushed(name)) ??
      [...database.namespaces.values()].filter(({ options }) => options.flushEnabled);
    this.#asked += 1;
    try {
      return await this.#alone(async () => {
        const report = emptyFlushReport();
        const pace = new Pace(this.#clock, () => 1);
        for (const namespace of namespaces) {
          for (const { blockStartNanos } of database.store.blocks(namespace.ordinal)) {
            await this.#flush(namespace, blockStartNanos, pace, report, signal);
          }
        }
        return report;
      });
    } finally {
      this.#asked -= 1;
    }
  }

  #flushed(name: string): NamespaceState {
    const namespace = this.#database.namespaces.get(name);
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
      const database = this.#database;
      const report = emptyFlushReport();
      // Somebody may be waiting behind this.
      const isUrgent = (): boolean => this.#asked > 0 || database.memory.isShort;
      const pace = new Pace(this.#clock, () => (isUrgent() ? 1 : backgroundShare));
      for (const { namespace, blockStartNanos, why } of this.due()) {
        if (why === 'memory is short' && !database.memory.isStillShort) continue;
        try {
          await this.#flush(namespace, blockStartNanos, pace, report, signal);
        } catch (error) {
          if (error instanceof BrokenInvariant || signal.aborted) throw error;
          this.counts.failures += 1;
          const fields = { namespace: namespace.name, block: String(blockStartNanos), why };
          this.#database.log.warn(
            { ...fields, error: messageOf(error) },
            'block is not flushed yet',
          );
        }
      }
      const mayGoOn = (): boolean => !isUrgent();
      const compacted = await compactDue(database, { pace, mayGoOn }, signal);
      this.counts.compacted += compacted.replaced;
      return report;
    });
  }

  async #flush(
    namespace: NamespaceState,
    blockStartNanos: UnixNanos,
    pace: Pace,
    report: FlushReport,
    signal: AbortSignal,
  ): Promise<void> {
    const before = { ...report };
    try {
      await flushBlock(this.#database, namespace, blockStartNanos, { pace, report }, signal);
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

  /** What is to be flushed now, the most urgent first. */
  due(): DueBlock[] {
    const database = this.#database;
    const now = database.env.clock.nowNanos();
    const millis = this.#clock.monotonicMillis();
    const short = database.memory.isShort;
    const seen = new Map<string, Waiting>();
    const due: DueBlock[] = [];
    for (const namespace of database.namespaces.values()) {
      const { options, ordinal } = namespace;
      if (!options.flushEnabled) continue;
      const withFiles = new Set(
        namespace.files.all(null).flatMap((file) => namespace.files.blocksOf(file)),
      );
      for (const { blockStartNanos, rowCount, bytes } of database.store.blocks(ordinal)) {
        if (namespace.isExpired(blockStartNanos, now)) continue;
        const key = keyOf(namespace, blockStartNanos);
        const before = this.#waiting.get(key);
        const waiting =
          before === undefined
            ? { rowCount, sinceMillis: millis, changedAtMillis: millis }
            : before.rowCount === rowCount
              ? before
              : { ...before, rowCount, changedAtMillis: millis };
        seen.set(key, waiting);
        const isClosed =
          blockStartNanos + namespace.blockSizeNanos + options.retentionOptions.bufferPastNanos <=
          now;
        const isNew = !withFiles.has(blockStartNanos);
        const isQuiet =
          millis - waiting.changedAtMillis >= (isNew ? closedQuietMillis : coldQuietMillis) ||
          millis - waiting.sinceMillis >= coldDirtyMillisMax;
        const add = (why: DueBlock['why']) => due.push({ namespace, blockStartNanos, bytes, why });
        if (isClosed && isQuiet) add(isNew ? 'closed' : 'late rows');
        else if (short) add('memory is short');
      }
    }
    this.#waiting = seen;
    const rank = { closed: 0, 'late rows': 1, 'memory is short': 2, 'on demand': 3 } as const;
    return due.sort((a, b) => rank[a.why] - rank[b.why] || b.bytes - a.bytes);
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
