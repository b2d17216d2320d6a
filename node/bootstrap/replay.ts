/**
 * Streams snapshot and commit log into the engine. Each segment's dictionary gives the slots of
 * this boot for the slots of the one that wrote it; rows of series that are not here any more are
 * passed over.
 */
import {
  BatchReplay,
  type ReplayedBatch,
  replayedByReader,
  type ReplayedRows,
  SlotMap,
} from '#engine/batch/replay.ts';
import { appendChunks } from '#engine/store/read/chunk_contents.ts';
import { appendRows, type SampleStore, TooManyValues } from '#engine/store/sample_store.ts';
import type { Env } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { inOneGo } from '#lib/turns/steps.ts';
import { type Commitlog, commitlogFolder, listSegments } from '../persist/commitlog/commitlog.ts';
import {
  anyNamespace,
  type DictionaryEntry,
  type RowSpan,
  segmentHeaderBytes,
  type SegmentMark,
  type SeriesChunks,
} from '../persist/commitlog/format.ts';
import {
  type LogRecord,
  readSegment,
  readSegmentHeader,
  type SegmentProblem,
} from '../persist/commitlog/reader.ts';
import { listSnapshots, snapshotFolder } from '../persist/snapshot_file.ts';
import { appliedFromJson } from '../persist/tombstone_file.ts';
import type { Deletions } from '../storage/deletions/deletions.ts';
import type { NamespaceRemoval } from '../storage/deletions/namespace_removal.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';
import type { RetentionClock } from '../clock/retention_clock.ts';
import type { LoadedIndex } from './index_start.ts';
import {
  laterMark,
  type LogLoss,
  lossOfSegment,
  lossOfSnapshot,
  type SegmentReading,
  spansWithBase,
} from './log_loss.ts';

/** What it takes to replay a log. */
export interface ReplayParts {
  readonly env: Env;
  readonly log: Log;
  readonly dataFolder: string;
  readonly store: SampleStore;
  readonly commitlog: Commitlog;
  readonly retentionClock: RetentionClock;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly deletions: Pick<Deletions, 'noteSegment' | 'replay' | 'replayLost'>;
  readonly removal: Pick<NamespaceRemoval, 'takeOrdinal'>;
}

export interface ReplayReport {
  segments: number;
  rows: number;
  /** Series of the snapshot. */
  snapshotSeries: number;
  /** Of namespaces and shards that this node does not have, or past retention. */
  rowsPassedOver: number;
  /** Whose dictionary entry was lost to damage. */
  rowsWithoutSeries: number;
  /** Records whose checksum was right but that could not be read. */
  recordsMalformed: number;
  readonly problems: SegmentProblem[];
  /** Of the problems, those that cost acknowledged rows. */
  readonly lost: LogLoss[];
  /** By namespace: everything from before this time was deleted. */
  readonly truncatedAtNanos: Map<string, bigint>;
}

/** What a segment says of one namespace. */
interface SegmentNamespace {
  readonly name: string;
  /** Null when this node does not have it. */
  readonly state: NamespaceState | null;
  /** From slots of the segment to those of this boot. */
  readonly slots: SlotMap;
}

/** Replays the newest snapshot, then the segments that it does not replace, oldest first. */
export async function replayCommitlog(
  parts: ReplayParts,
  indexes: Map<string, LoadedIndex>,
  signal: AbortSignal,
): Promise<ReplayReport> {
  const report: ReplayReport = {
    segments: 0,
    rows: 0,
    snapshotSeries: 0,
    rowsPassedOver: 0,
    rowsWithoutSeries: 0,
    recordsMalformed: 0,
    problems: [],
    lost: [],
    truncatedAtNanos: new Map(),
  };
  const { env, dataFolder, commitlog, deletions } = parts;
  const segments = await listSegments(env, commitlogFolder(dataFolder));
  const snapshots = await listSnapshots(env.disk, snapshotFolder(dataFolder));
  /** By segment before the snapshot: namespaces whose rows in it count. */
  const kept = new Map<number, Set<string>>();
  const batches = new BatchReplay();
  for (const { path } of snapshots) {
    const replay = new SegmentReplay(parts, indexes, batches, 0, path, null, report);
    const reading = await replay.run(signal);
    const loss = lossOfSnapshot(reading, replay.hasEnd, replay.marks);
    // What an older one has the newest one had too.
    if (loss !== null && report.lost.length === 0) report.lost.push(loss);
    for (const [segment, names] of replay.kept) {
      kept.set(segment, (kept.get(segment) ?? new Set()).union(names));
    }
    if (replay.hasEnd) break;
    parts.log.error({ path }, 'snapshot is damaged; what can be read of it is used');
  }
  const first = snapshots[0]?.segment ?? 0;
  const replaced: number[] = [];
  const readings = new Map<number, SegmentReading>();
  const marks = new Map<number, SegmentMark>();
  for (const { number, path } of segments) {
    signal.throwIfAborted();
    const names = number < first ? (kept.get(number) ?? null) : null;
    if (number < first && names === null) {
      replaced.push(number);
      continue;
    }
    const replay = new SegmentReplay(parts, indexes, batches, number, path, names, report);
    readings.set(number, await replay.run(signal));
    for (const mark of replay.allMarks()) {
      marks.set(mark.segment, laterMark(marks.get(mark.segment), mark));
    }
    report.segments += 1;
  }
  for (const [number, reading] of readings) {
    const loss = lossOfSegment(reading, marks.get(number));
    if (loss !== null) report.lost.push(lossOf(loss, number < first ? kept.get(number)! : null));
    else await commitlog.noteReplayed(number, endOf(reading));
  }
  for (const namespace of parts.namespaces.values()) markLive(parts, namespace);
  for (const { path, reason } of report.lost) {
    parts.log.error({ path, reason }, 'rows that were acknowledged may be missing from the log');
  }
  if (report.lost.length > 0) deletions.replayLost();
  // There was no time to delete them. They must not count: of two of them, one may be back that the
  // other deleted.
  await commitlog.deleteSegments(replaced);
  return report;
}

/** @param only namespaces whose rows in the file count, of those that are known; null for all */
function lossOf(loss: LogLoss, only: ReadonlySet<string> | null): LogLoss {
  if (loss.spans === null || only === null) return loss;
  const spans = loss.spans.flatMap((span) => {
    if (only.has(span.namespace)) return [span];
    if (span.namespace !== anyNamespace) return [];
    return [...only].map((namespace) => ({ ...span, namespace }));
  });
  return { ...loss, spans };
}

/** Up to where nothing is amiss: what a crash tore must not pass for synced later on. */
function endOf({ bytes, problems }: SegmentReading): number {
  return problems.find(({ end }) => end > segmentHeaderBytes)?.start ?? bytes;
}

/** Series are live in the blocks in which memory has rows of them: noted once, not for each row. */
function markLive({ store }: ReplayParts, { ordinal, index }: NamespaceState): void {
  for (const { blockStartNanos } of store.blocks(ordinal)) {
    index.markLive(store.slotsOfBlock(ordinal, blockStartNanos), blockStartNanos);
  }
}

class SegmentReplay {
  readonly #parts: ReplayParts;
  /** Taken away when the namespace is truncated. */
  readonly #indexes: Map<string, LoadedIndex>;
  readonly #batches: BatchReplay;
  /** Start of the node that wrote the segment; -1 when its header is damaged. */
  #boot = -1;
  readonly #number: number;
  readonly #path: string;
  readonly #report: ReplayReport;
  /** Namespaces whose records count; null for all. */
  readonly #only: ReadonlySet<string> | null;
  readonly #namespaces = new Map<number, SegmentNamespace>();
  /** By segment: namespaces that the snapshot leaves to it. */
  readonly kept: Map<number, Set<string>> = new Map();
  /** What it says of segments before it; of a snapshot all that it says. */
  readonly marks: SegmentMark[] = [];
  /** What it says of itself, as far as it knows most. */
  #ownMark: SegmentMark | undefined;
  /** Spans of its whole marks, by where they stand. */
  readonly #wholeMarks = new Map<number, readonly RowSpan[]>();
  readonly #problems: SegmentProblem[] = [];
  #recordsMalformed = 0;
  /** By namespace. */
  readonly #spansWithoutSeries = new Map<string, RowSpan>();
  #lacksNamespaces = false;
  /** What a snapshot has, to be compared with its end record. */
  #chunkSeries = 0;
  #chunkBytes = 0;
  /** Zeros: all rows are to be applied. */
  #outcomes = new Uint8Array(4096);
  /** The end record of a snapshot was there, and agrees with all before it. */
  hasEnd = false;

  constructor(
    parts: ReplayParts,
    indexes: Map<string, LoadedIndex>,
    batches: BatchReplay,
    number: number,
    path: string,
    only: ReadonlySet<string> | null,
    report: ReplayReport,
  ) {
    this.#parts = parts;
    this.#indexes = indexes;
    this.#batches = batches;
    this.#number = number;
    this.#path = path;
    this.#only = only;
    this.#report = report;
  }

  allMarks(): readonly SegmentMark[] {
    return this.#ownMark === undefined ? this.marks : [...this.marks, this.#ownMark];
  }

  async run(signal: AbortSignal): Promise<SegmentReading> {
    const { disk } = this.#parts.env;
    const path = this.#path;
    this.#batches.reset();
    const header = await readSegmentHeader(disk, path);
    const bytes = (await disk.size(path)) ?? 0;
    this.#boot = typeof header === 'string' ? -1 : header.boot;
    const records = readSegment(disk, path, (problem) => this.#reportProblem(problem));
    for await (const record of records) {
      signal.throwIfAborted();
      if (record.kind === 'malformed') {
        this.#noteMalformed('its lengths are wrong', 'record of the commit log cannot be read');
        continue;
      }
      if (record.kind === 'mark' || record.kind === 'markSince') {
        this.#addMark(record);
        continue;
      }
      if (record.kind === 'namespace') {
        const counts = this.#only?.has(record.name) ?? true;
        this.#namespaces.set(record.ordinal, {
          name: record.name,
          state: counts ? (this.#parts.namespaces.get(record.name) ?? null) : null,
          slots: new SlotMap(),
        });
        continue;
      }
      if (record.kind === 'end') {
        const { seriesCount, chunkBytes } = record;
        this.hasEnd = seriesCount === this.#chunkSeries && chunkBytes === this.#chunkBytes;
        continue;
      }
      const namespace = this.#namespaces.get(record.namespaceOrdinal);
      switch (record.kind) {
        case 'series':
          if (namespace !== undefined) this.#addSeries(namespace, record.entries);
          break;
        case 'batch':
          this.#addBatch(namespace, record.batch);
          break;
        case 'kept':
          for (const segment of record.segments) {
            const names = this.kept.get(segment) ?? new Set();
            if (namespace !== undefined) names.add(namespace.name);
            this.kept.set(segment, names);
          }
          break;
        case 'chunks':
          this.#addChunks(namespace, record.series);
          break;
        case 'truncate':
          if (namespace !== undefined && (this.#only?.has(namespace.name) ?? true)) {
            this.#truncate(namespace, record.atNanos);
          }
          break;
        case 'delete':
          if (namespace !== undefined && (this.#only?.has(namespace.name) ?? true)) {
            this.#deleteRows(namespace, record.json);
          }
          break;
        default:
          record satisfies never;
      }
    }
    return {
      path,
      bytes,
      hasMarks: typeof header === 'string' ? null : header.hasMarks,
      problems: this.#problems,
      recordsMalformed: this.#recordsMalformed,
      spansWithoutSeries: [...this.#spansWithoutSeries.values()],
      lacksNamespaces: this.#lacksNamespaces,
    };
  }

  #addMark(record: Extract<LogRecord, { kind: 'mark' | 'markSince' }>): void {
    const { segment, syncedEnd } = record;
    let { spans } = record;
    if (segment !== this.#number || this.#number === 0) {
      this.marks.push({ segment, syncedEnd, spans });
      return;
    }
    if (record.kind === 'mark') this.#wholeMarks.set(record.at, spans);
    else spans = spansWithBase(record, this.#wholeMarks.get(record.baseAt));
    this.#ownMark = laterMark(this.#ownMark, { segment, syncedEnd, spans });
    // It knows of the rows before it, whatever became of their series.
    this.#spansWithoutSeries.clear();
    this.#lacksNamespaces = false;
  }

  #noteMalformed(error: string, what: string): void {
    this.#recordsMalformed += 1;
    this.#report.recordsMalformed += 1;
    this.#parts.log.error({ path: this.#path, error }, what);
  }

  #reportProblem(problem: SegmentProblem): void {
    const { kind, start, end } = problem;
    const { log } = this.#parts;
    const fields = { path: this.#path, start, end };
    this.#problems.push(problem);
    this.#report.problems.push(problem);
    if (kind === 'torn tail') log.info(fields, 'commit log segment ends in a torn write');
    else log.error({ ...fields, kind }, 'commit log segment is damaged; the rest of it is read');
  }

  #addSeries(namespace: SegmentNamespace, entries: readonly DictionaryEntry[]): void {
    const { state, slots } = namespace;
    if (state === null) return;
    const index = this.#indexes.get(namespace.name);
    const saved = index?.boot === this.#boot ? index : null;
    for (const entry of entries) {
      let slot = saved === null ? -1 : saved.slotOf(entry.slot, entry.generation);
      if (slot === -1) slot = state.resolveHere(entry);
      if (slot < 0) this.#batches.setSeries(slots, entry, null, 0);
      else this.#batches.setSeries(slots, entry, slot, this.#parts.store.generation[slot]!);
    }
  }

  #addChunks(namespace: SegmentNamespace | undefined, all: readonly SeriesChunks[]): void {
    for (const { slot: from, generation, chunks } of all) {
      this.#chunkSeries += 1;
      this.#chunkBytes += chunks.length;
      if (namespace === undefined || namespace.state === null) continue;
      const series = this.#batches.entryOf(namespace.slots, from, generation);
      // Its entry is missing: that was reported with what it stood in.
      if (series === null) continue;
      if (series.slot === null) continue;
      try {
        this.#insert(series.slot, chunks);
      } catch (error) {
        if (!(error instanceof TsdbError && error.code === 'BAD_REQUEST')) throw error;
        this.#noteMalformed(error.message, 'chunks of a snapshot cannot be read');
        continue;
      }
      this.#report.snapshotSeries += 1;
    }
  }

  #insert(slot: number, chunks: Uint8Array): void {
    const { store } = this.#parts;
    try {
      store.insertChunks(slot, chunks);
    } catch (error) {
      // Admission looks at a block as it is, with what is on its way beside it: together they may be some more.
      if (!(error instanceof TooManyValues)) throw error;
      appendChunks(store, slot, chunks);
    }
  }

  #addBatch(namespace: SegmentNamespace | undefined, bytes: Uint8Array): void {
    const report = this.#report;
    const map = namespace?.slots ?? null;
    const batch = this.#batches.decode(map, bytes) ?? this.#readBatch(map, bytes);
    for (const part of batch?.parts ?? []) {
      if (namespace === undefined) {
        this.#lacksNamespaces = true;
        report.rowsWithoutSeries += part.rowCount;
      } else this.#addRows(namespace, batch!, part);
    }
  }

  #addRows(
    namespace: SegmentNamespace,
    { version, derivesVersions }: ReplayedBatch,
    part: ReplayedRows,
  ): void {
    const report = this.#report;
    const { commitlog, retentionClock, store } = this.#parts;
    const unit = BigInt(part.timeUnitNanos);
    const [oldestNanos, newestNanos] = [part.first * unit, part.last * unit];
    const oldestMillis = Number(oldestNanos / 1_000_000n);
    const newestMillis = Number(newestNanos / 1_000_000n);
    commitlog.noteRows(this.#number, namespace.name, oldestMillis, newestMillis);
    if (part.rowsUnknown > 0) this.#noteWithoutSeries(namespace.name, oldestNanos, newestNanos);
    const { state } = namespace;
    const now = retentionClock.nowNanos();
    if (state === null || newestNanos + state.blockSizeNanos <= now - state.retentionNanos) {
      report.rowsPassedOver += part.rowCount;
      return;
    }
    report.rowsWithoutSeries += part.rowsUnknown;
    report.rowsPassedOver += part.rowsNotHere;
    const { rowCount } = part.taken.rows;
    if (rowCount === 0) return;
    if (this.#outcomes.length < rowCount) this.#outcomes = new Uint8Array(rowCount);
    // Who was superseded then was sent again, and whoever is now has lost against a row that is here.
    const superseded = inOneGo(
      appendRows(store, part.taken, version, this.#outcomes, derivesVersions),
    );
    if (superseded > 0) this.#outcomes.fill(0);
    report.rows += rowCount;
  }

  #noteWithoutSeries(namespace: string, firstNanos: bigint, lastNanos: bigint): void {
    const spans = this.#spansWithoutSeries;
    const known = spans.get(namespace);
    spans.set(namespace, {
      namespace,
      firstNanos:
        known !== undefined && known.firstNanos < firstNanos ? known.firstNanos : firstNanos,
      lastNanos: known !== undefined && known.lastNanos > lastNanos ? known.lastNanos : lastNanos,
    });
  }

  /** The batches that the kernel does not take. */
  #readBatch(map: SlotMap | null, bytes: Uint8Array): ReplayedBatch | null {
    try {
      return replayedByReader(this.#batches, map, bytes);
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      this.#noteMalformed(error.message, 'commit log record cannot be read');
      return null;
    }
  }

  /** What stands before the record was swept when it was written. */
  #deleteRows({ name, state }: SegmentNamespace, json: string): void {
    const parts = this.#parts;
    try {
      const applied = appliedFromJson(JSON.parse(json));
      parts.deletions.noteSegment(this.#number, name, applied);
      if (state === null) return;
      markLive(parts, state);
      parts.deletions.replay(state, applied);
    } catch (error) {
      const isMalformed = error instanceof TsdbError && error.code === 'BAD_REQUEST';
      if (!isMalformed && !(error instanceof SyntaxError)) throw error;
      // It holds no rows, and the key-value store has it too.
      this.#report.recordsMalformed += 1;
      const fields = { path: this.#path, error: error.message };
      parts.log.error(fields, 'deletion of the commit log cannot be read');
    }
  }

  /**
   * Later rows of the segment bring their dictionary entries again, for its writer forgot them too.
   */
  #truncate(namespace: SegmentNamespace, atNanos: bigint): void {
    const { truncatedAtNanos } = this.#report;
    // The segment is needed as long as what it deletes may be elsewhere.
    const { commitlog } = this.#parts;
    commitlog.noteNeeded(this.#number, namespace.name, Number(atNanos / 1_000_000n));
    const before = truncatedAtNanos.get(namespace.name);
    if (before === undefined || before < atNanos) truncatedAtNanos.set(namespace.name, atNanos);
    this.#batches.clear(namespace.slots);
    this.#indexes.delete(namespace.name);
    namespace.state?.truncate(atNanos, this.#parts.removal.takeOrdinal('delete'));
  }
}
