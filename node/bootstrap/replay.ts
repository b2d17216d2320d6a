/**
 * Streams snapshot and commit log into the engine. Each segment's dictionary gives the slots of this boot for the
 * slots of the one that wrote it; rows of series that are not here any more are passed over.
 */
import { type BatchView, readBatch } from '#engine/batch.ts';
import type { StoreRows } from '#engine/store.ts';
import { TsdbError } from '#lib/errors.ts';
import { listSegments } from '../persist/commitlog.ts';
import type { DictionaryEntry, SeriesChunks } from '../persist/commitlog_format.ts';
import { readSegment, type SegmentProblem } from '../persist/commitlog_reader.ts';
import { listSnapshots, snapshotFolder } from '../persist/snapshot_file.ts';
import { appliedFromJson } from '../persist/tombstone_file.ts';
import { commitlogFolder, type Database } from '../storage/database.ts';
import type { NamespaceState } from '../storage/namespace.ts';
import { markRowsLive, spanOf } from '../storage/write.ts';

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
  /** By namespace: everything from before this time was deleted. */
  readonly truncatedAtNanos: Map<string, bigint>;
}

/** Where a slot of the segment went. */
const slotUnknown = 0;
const slotPassedOver = 0xffffffff;

/** What a segment says of one namespace. */
interface SegmentNamespace {
  readonly name: string;
  /** Null when this node does not have it. */
  readonly state: NamespaceState | null;
  /** By slot of the segment: slot of this boot + 1, or one of the two above. */
  slots: Uint32Array;
  generations: Uint32Array;
}

/** Replays the newest snapshot, then the segments that it does not replace, oldest first. */
export async function replayCommitlog(
  database: Database,
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
    truncatedAtNanos: new Map(),
  };
  const { env, options } = database;
  const segments = await listSegments(env, commitlogFolder(options.dataFolder));
  const snapshots = await listSnapshots(env.disk, snapshotFolder(options.dataFolder));
  /** By segment before the snapshot: namespaces whose rows in it count. */
  const kept = new Map<number, Set<string>>();
  for (const { path } of snapshots) {
    const replay = new SegmentReplay(database, 0, path, null, report);
    await replay.run(signal);
    for (const [segment, names] of replay.kept) {
      kept.set(segment, (kept.get(segment) ?? new Set()).union(names));
    }
    if (replay.hasEnd) break;
    database.log.error({ path }, 'snapshot is damaged; what can be read of it is used');
    if (report.problems.every((problem) => problem.path !== path)) {
      report.problems.push({ path, kind: 'corrupt records', start: 0, end: 0 });
    }
  }
  const first = snapshots[0]?.segment ?? 0;
  const replaced: number[] = [];
  for (const { number, path } of segments) {
    signal.throwIfAborted();
    const names = number < first ? (kept.get(number) ?? null) : null;
    if (number < first && names === null) {
      replaced.push(number);
      continue;
    }
    await new SegmentReplay(database, number, path, names, report).run(signal);
    report.segments += 1;
  }
  if (report.problems.some(({ kind }) => kind !== 'torn tail')) database.deletions.replayAll();
  // There was no time to delete them. They must not count: of two of them, one may be back that the other deleted.
  await database.commitlog.deleteSegments(replaced);
  return report;
}

class SegmentReplay {
  private readonly database: Database;
  private readonly number: number;
  private readonly path: string;
  private readonly report: ReplayReport;
  /** Namespaces whose records count; null for all. */
  private readonly only: ReadonlySet<string> | null;
  private readonly namespaces = new Map<number, SegmentNamespace>();
  /** By segment: namespaces that the snapshot leaves to it. */
  readonly kept: Map<number, Set<string>> = new Map();
  /** What a snapshot has, to be compared with its end record. */
  private chunkSeries = 0;
  private chunkBytes = 0;
  /** The end record of a snapshot was there, and agrees with all before it. */
  hasEnd = false;

  constructor(
    database: Database,
    number: number,
    path: string,
    only: ReadonlySet<string> | null,
    report: ReplayReport,
  ) {
    this.database = database;
    this.number = number;
    this.path = path;
    this.only = only;
    this.report = report;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { disk } = this.database.env;
    const records = readSegment(disk, this.path, (problem) => this.reportProblem(problem));
    for await (const record of records) {
      signal.throwIfAborted();
      if (record.kind === 'namespace') {
        const counts = this.only?.has(record.name) ?? true;
        this.namespaces.set(record.ordinal, {
          name: record.name,
          state: counts ? (this.database.namespaces.get(record.name) ?? null) : null,
          slots: new Uint32Array(0),
          generations: new Uint32Array(0),
        });
        continue;
      }
      if (record.kind === 'end') {
        const { seriesCount, chunkBytes } = record;
        this.hasEnd = seriesCount === this.chunkSeries && chunkBytes === this.chunkBytes;
        continue;
      }
      const namespace = this.namespaces.get(record.namespaceOrdinal);
      switch (record.kind) {
        case 'series':
          if (namespace !== undefined) this.addSeries(namespace, record.entries);
          break;
        case 'batch':
          this.addBatch(namespace, record.batch);
          break;
        case 'kept':
          for (const segment of record.segments) {
            const names = this.kept.get(segment) ?? new Set();
            if (namespace !== undefined) names.add(namespace.name);
            this.kept.set(segment, names);
          }
          break;
        case 'chunks':
          this.addChunks(namespace, record.series);
          break;
        case 'truncate':
          if (namespace !== undefined && (this.only?.has(namespace.name) ?? true)) {
            this.truncate(namespace, record.atNanos);
          }
          break;
        case 'delete':
          if (namespace !== undefined && (this.only?.has(namespace.name) ?? true)) {
            this.deleteRows(namespace, record.json);
          }
          break;
        default:
          record satisfies never;
      }
    }
  }

  private reportProblem(problem: SegmentProblem): void {
    const { kind, start, end } = problem;
    const { log } = this.database;
    const fields = { path: this.path, start, end };
    this.report.problems.push(problem);
    if (kind === 'torn tail') log.info(fields, 'commit log segment ends in a torn write');
    else log.error({ ...fields, kind }, 'commit log segment is damaged; the rest of it is read');
  }

  private addSeries(namespace: SegmentNamespace, entries: readonly DictionaryEntry[]): void {
    const { state } = namespace;
    if (state === null) return;
    for (const entry of entries) {
      const slot = state.resolve(entry, Number.POSITIVE_INFINITY);
      if (entry.slot >= namespace.slots.length) growTo(namespace, entry.slot + 1);
      namespace.slots[entry.slot] = slot < 0 ? slotPassedOver : slot + 1;
      namespace.generations[entry.slot] = entry.generation;
    }
  }

  private addChunks(namespace: SegmentNamespace | undefined, all: readonly SeriesChunks[]): void {
    const { store } = this.database;
    for (const { slot: from, generation, chunks } of all) {
      this.chunkSeries += 1;
      this.chunkBytes += chunks.length;
      const state = namespace?.state ?? null;
      const slot = namespace?.slots[from] ?? slotUnknown;
      if (state === null || slot === slotPassedOver) continue;
      if (slot === slotUnknown || namespace!.generations[from] !== generation) {
        this.report.recordsMalformed += 1;
        continue;
      }
      try {
        store.insertChunks(slot - 1, chunks);
      } catch (error) {
        if (!(error instanceof TsdbError && error.code === 'BAD_REQUEST')) throw error;
        this.report.recordsMalformed += 1;
        const fields = { path: this.path, error: error.message };
        this.database.log.error(fields, 'chunks of a snapshot cannot be read');
        continue;
      }
      for (const start of store.blockStarts(slot - 1)) state.index.markLiveOne(slot - 1, start);
      this.report.snapshotSeries += 1;
    }
  }

  private addBatch(namespace: SegmentNamespace | undefined, bytes: Uint8Array): void {
    const { report, database } = this;
    const batch = this.readBatch(bytes);
    if (batch === null || batch.rowCount === 0) return;
    if (namespace === undefined) {
      report.rowsWithoutSeries += batch.rowCount;
      return;
    }
    const span = spanOf(batch);
    const newestNanos = span.last * BigInt(batch.timeUnitNanos);
    database.commitlog.noteRows(this.number, namespace.name, Number(newestNanos / 1_000_000n));
    const { state } = namespace;
    const now = database.env.clock.nowNanos();
    if (state === null || newestNanos + state.blockSizeNanos <= now - state.retentionNanos) {
      report.rowsPassedOver += batch.rowCount;
      return;
    }
    const rows = this.rowsHere(namespace, batch);
    if (rows.rowCount === 0) return;
    database.store.append(rows, batch.version, new Uint8Array(rows.rowCount));
    markRowsLive(state, rows, rows.rowCount === batch.rowCount ? span : spanOf(rows));
    report.rows += rows.rowCount;
  }

  private readBatch(bytes: Uint8Array): BatchView | null {
    try {
      return readBatch(bytes);
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      this.report.recordsMalformed += 1;
      const fields = { path: this.path, error: error.message };
      this.database.log.error(fields, 'commit log record cannot be read');
      return null;
    }
  }

  /** The rows with the slots of this boot, in place; rows of series that are not here are left out. */
  private rowsHere(namespace: SegmentNamespace, batch: BatchView): StoreRows {
    const { rowCount, slots, generations, timestamps } = batch;
    const { generation } = this.database.store;
    // Values move by their bits, since a number would lose the payload of a signalling NaN.
    const bits = new BigUint64Array(batch.values.buffer, batch.values.byteOffset, rowCount);
    let taken = 0;
    for (let row = 0; row < rowCount; row += 1) {
      const from = slots[row]!;
      const to = from < namespace.slots.length ? namespace.slots[from]! : slotUnknown;
      if (to === slotUnknown || namespace.generations[from] !== generations[row]) {
        this.report.rowsWithoutSeries += 1;
        continue;
      }
      if (to === slotPassedOver) {
        this.report.rowsPassedOver += 1;
        continue;
      }
      slots[taken] = to - 1;
      generations[taken] = generation[to - 1]!;
      if (taken !== row) {
        timestamps[taken] = timestamps[row]!;
        bits[taken] = bits[row]!;
      }
      taken += 1;
    }
    const { timeUnitNanos, values } = batch;
    return { rowCount: taken, slots, generations, timestamps, timeUnitNanos, values };
  }

  /** What stands before the record was swept when it was written. */
  private deleteRows({ name, state }: SegmentNamespace, json: string): void {
    const { database } = this;
    try {
      const applied = appliedFromJson(JSON.parse(json));
      database.deletions.noteSegment(this.number, name, applied);
      if (state !== null) database.deletions.replay(state, applied);
    } catch (error) {
      if (!(error instanceof TsdbError || error instanceof SyntaxError)) throw error;
      this.report.recordsMalformed += 1;
      const fields = { path: this.path, error: error.message };
      database.log.error(fields, 'deletion of the commit log cannot be read');
    }
  }

  /** Later rows of the segment bring their dictionary entries again, for its writer forgot them too. */
  private truncate(namespace: SegmentNamespace, atNanos: bigint): void {
    const { truncatedAtNanos } = this.report;
    // The segment is needed as long as what it deletes may be elsewhere.
    this.database.commitlog.noteRows(this.number, namespace.name, Number(atNanos / 1_000_000n));
    const before = truncatedAtNanos.get(namespace.name);
    if (before === undefined || before < atNanos) truncatedAtNanos.set(namespace.name, atNanos);
    namespace.slots.fill(slotUnknown);
    namespace.state?.truncate(atNanos);
  }
}

function growTo(namespace: SegmentNamespace, length: number): void {
  const size = Math.max(length, namespace.slots.length * 2, 1024);
  const slots = new Uint32Array(size);
  slots.set(namespace.slots);
  namespace.slots = slots;
  const generations = new Uint32Array(size);
  generations.set(namespace.generations);
  namespace.generations = generations;
}
