/**
 * Snapshots: the commit log compacted (docs/STORAGE.md). Rows of memory are written as they are,
 * and then the segments before go. Rows that come meanwhile are in the log after it, rows that a
 * flush takes meanwhile are in filesets.
 */
import { chunkHeaders, kindsAll } from '#engine/codec/chunk.ts';
import { packChunks } from '#engine/store/chunk_pack.ts';
import type { Commitlog, SegmentInfo } from '../../persist/commitlog/commitlog.ts';
import type { RowSpan, SeriesChunks, SegmentMark } from '../../persist/commitlog/format.ts';
import { makeDurableFolder } from '../../persist/folders.ts';
import {
  listSnapshots,
  removeOtherSnapshots,
  snapshotFolder,
  SnapshotWriter,
} from '../../persist/snapshot_file.ts';
import type { DoubtLedger } from '../../doubt/ledger.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { Sequencer } from '../write/sequencer.ts';
import type { Pace } from './pace.ts';
import { type SavedIndexParts, saveIndex } from './saved_index.ts';
import { type FoundSeries, seriesWithRows, type StoreWalkParts } from './store_walks.ts';

/** Series that are copied in one stretch of the main loop, fewer of them when they are long. */
const seriesAtOnceMax = 256;
/** So many are read at once, whatever they have: a stretch ends behind those that make it full. */
const seriesOfRead = 32;
/** Bytes of chunks that are copied in one stretch, and that share a record. */
const chunkBytesTarget = 8 * 1024 * 1024;
/** Bytes of the log from which on a snapshot is worth its work. */
const logBytesMin = 8 * 1024 * 1024;
const anyStart = -(2n ** 63n);
const anyEnd = 2n ** 63n - 1n;

/** What was copied to a snapshot. */
interface Copied {
  readonly series: number;
  readonly entries: number;
  readonly chunkBytes: number;
}

/** Deletions that are on their way through memory. */
export interface SnapshotSweeps {
  /** Memory may hold rows of a deletion whose record stands in the log. */
  readonly isSweeping: boolean;
  /** Runs a step when no sweep is under way, and again when it says null since one has begun. */
  whenSwept<T>(step: () => Promise<T | null>): Promise<T>;
}

/** What it takes to make snapshots. */
export interface SnapshotParts extends SavedIndexParts, StoreWalkParts {
  readonly commitlog: Commitlog;
  readonly sequencer: Sequencer;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  /** Those that are not in the registry any more, and are here until they are parked. */
  readonly lost: ReadonlyMap<string, NamespaceState>;
  readonly deletions: SnapshotSweeps;
  readonly doubts: Pick<DoubtLedger, 'save'>;
  /** Makes sure that deleted filesets stay away without the record of their deletion. */
  readonly syncDeletions: () => Promise<void>;
}

export interface SnapshotReport {
  readonly series: number;
  readonly bytes: number;
  readonly segmentsDeleted: number;
}

/**
 * Whether a snapshot would free more of the log than a minimum, and than it would write: names of
 * series that are still there would be written again, so they count as no gain.
 * @param seriesCount in memory
 * @param lastBytes of the last snapshot, 0 when there is none
 */
export function isSnapshotDue(
  segments: readonly Pick<SegmentInfo, 'bytes' | 'dictionaryBytes' | 'dictionarySeries'>[],
  seriesCount: number,
  lastBytes: number,
): boolean {
  let logBytes = 0;
  let namesBytes = 0;
  for (const { bytes, dictionaryBytes, dictionarySeries } of segments) {
    logBytes += bytes;
    if (dictionarySeries === 0) continue;
    const stillThere = Math.min(1, seriesCount / dictionarySeries);
    namesBytes = Math.max(namesBytes, stillThere * dictionaryBytes);
  }
  return logBytes - namesBytes >= Math.max(logBytesMin, lastBytes, namesBytes);
}

export class Snapshots {
  readonly #parts: SnapshotParts;
  #running: Promise<void> = Promise.resolve();
  /** Of the last one; null when it is not known. */
  #lastBytes: number | null = null;
  /** The log is to be compacted whether that frees something or not. */
  #isDemanded = false;
  /** Segments before the snapshot at hand that stay. */
  readonly #kept = new Set<number>();
  /** By namespace: changes of its filesets when its index was saved. */
  readonly #savedFilesets = new WeakMap<NamespaceState, number>();
  /** Counts of this process, for metrics. */
  readonly counts: { snapshots: number; bytes: number } = { snapshots: 0, bytes: 0 };

  constructor(parts: SnapshotParts) {
    this.#parts = parts;
  }

  /** Asks for a snapshot soon: what it replaces is damaged. */
  demand(): void {
    this.#isDemanded = true;
  }

  /** Whether a snapshot is worth its work now. */
  async isDue(): Promise<boolean> {
    if (this.#isDemanded) return true;
    const { env, commitlog, dataFolder, store } = this.#parts;
    this.#lastBytes ??= (await listSnapshots(env.disk, snapshotFolder(dataFolder)))[0]?.bytes ?? 0;
    return isSnapshotDue(commitlog.segments(), store.seriesCount, this.#lastBytes);
  }

  /**
   * Writes a snapshot and deletes the segments and snapshots that it replaces.
   * @throws {TsdbError} UNAVAILABLE when the log cannot be closed; what the disk rejects with: the
   * log stays
   */
  async take(pace: Pace, signal: AbortSignal): Promise<SnapshotReport> {
    const before = this.#running;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#running = promise;
    try {
      await before;
      return await this.#takeAlone(pace, signal);
    } finally {
      resolve();
    }
  }

  async #takeAlone(pace: Pace, signal: AbortSignal): Promise<SnapshotReport> {
    const { env, dataFolder, identity, sequencer, commitlog, deletions } = this.#parts;
    const folder = snapshotFolder(dataFolder);
    await makeDurableFolder(env.disk, dataFolder, folder);
    const segment = await deletions.whenSwept(() =>
      sequencer.exclusive(async () => {
        if (deletions.isSweeping) return null;
        await commitlog.rotate();
        return commitlog.nextSegment;
      }),
    );
    const { incarnation, boot } = identity;
    await using writer = await SnapshotWriter.open(env, folder, { segment, incarnation, boot });
    this.#kept.clear();
    // First and last, so that damage of one end does not leave open of which times rows are gone.
    const mark = this.#markOf(segment);
    writer.buffer.addMark(mark);
    let series = 0;
    let entries = 0;
    let chunkBytes = 0;
    for (const namespace of this.#here()) {
      // It went while others were copied; its number in the store may be another one's by now.
      if (!this.#here().includes(namespace)) continue;
      if (!namespace.options.snapshotEnabled) {
        this.#keepSegments(namespace, segment, writer);
        continue;
      }
      const copied = await this.#copyNamespace(namespace, writer, pace, signal);
      series += copied.series;
      entries += copied.entries;
      chunkBytes += copied.chunkBytes;
    }
    await this.#saveIndexes(segment, signal);
    await this.#parts.syncDeletions();
    // What is damaged in the log is seen no more when that is gone.
    await this.#parts.doubts.save();
    writer.buffer.addMark(mark);
    const bytes = await writer.finish(entries, chunkBytes);
    this.#lastBytes = bytes;
    this.#isDemanded = false;
    this.counts.snapshots += 1;
    this.counts.bytes += bytes;
    const kept = this.#kept;
    const gone = commitlog
      .segments()
      .map(({ number }) => number)
      .filter((number) => number < segment && !kept.has(number));
    await sequencer.exclusive(() => commitlog.deleteSegments(gone));
    await removeOtherSnapshots(env.disk, folder, segment);
    return { series, bytes, segmentsDeleted: gone.length };
  }

  /** Namespaces with rows in memory that must not be lost. */
  #here(): NamespaceState[] {
    return [...this.#parts.namespaces.values(), ...this.#parts.lost.values()];
  }

  /**
   * Where the rows lie that the snapshot will stand for: those of memory now, also of namespaces
   * whose rows stay in segments, since these count only by what the snapshot says of them.
   */
  #markOf(segment: number): SegmentMark {
    const { store } = this.#parts;
    const spans: RowSpan[] = [];
    for (const { name, ordinal, blockSizeNanos } of this.#here()) {
      const starts = store.blocks(ordinal).map(({ blockStartNanos }) => blockStartNanos);
      starts.sort((a, b) => Number(a - b));
      for (const firstNanos of starts) {
        const last = spans.at(-1);
        const lastNanos = firstNanos + blockSizeNanos - 1n;
        const follows = last?.namespace === name && last.lastNanos + 1n === firstNanos;
        if (follows) spans.pop();
        spans.push({
          namespace: name,
          firstNanos: follows ? last.firstNanos : firstNanos,
          lastNanos,
        });
      }
    }
    return { segment, syncedEnd: 0, spans };
  }

  /** Before the snapshot counts: an older index knows nothing of deletions whose records go now. */
  async #saveIndexes(segment: number, signal: AbortSignal): Promise<void> {
    for (const namespace of this.#parts.namespaces.values()) {
      const { changes } = namespace.files;
      await saveIndex(this.#parts, namespace, segment, signal);
      this.#savedFilesets.set(namespace, changes);
    }
  }

  /** Called when the saved index of a namespace has all of its filesets. */
  noteSaved(namespace: NamespaceState): void {
    this.#savedFilesets.set(namespace, namespace.files.changes);
  }

  /** Whether filesets came or went since the indexes were saved: a start would walk them. */
  get isIndexOld(): boolean {
    for (const namespace of this.#parts.namespaces.values()) {
      if (namespace.files.changes !== (this.#savedFilesets.get(namespace) ?? 0)) return true;
    }
    return false;
  }

  async #copyNamespace(
    namespace: NamespaceState,
    writer: SnapshotWriter,
    pace: Pace,
    signal: AbortSignal,
  ): Promise<Copied> {
    const { truncations } = namespace;
    const sum = { series: 0, entries: 0, chunkBytes: 0 };
    // Rows that had come when the log went on in a new segment are here all the while, or in filesets.
    const found = seriesWithRows(this.#parts, namespace, null, pace, signal);
    for await (const some of found) {
      for (let first = 0; first < some.slots.length; ) {
        signal.throwIfAborted();
        // What was deleted is told by the log after the snapshot; there is nothing left to copy.
        if (namespace.truncations !== truncations) return sum;
        const copied = this.#copySeries(namespace, some, first, writer);
        first = copied.end;
        sum.series += copied.series;
        sum.entries += copied.entries;
        sum.chunkBytes += copied.chunkBytes;
        await writer.drain();
        await pace.rest(signal);
      }
    }
    return sum;
  }

  /** Copies series from one on, as many as make a stretch; `end` is where to go on. */
  #copySeries(
    namespace: NamespaceState,
    { slots, generations }: FoundSeries,
    first: number,
    { buffer }: SnapshotWriter,
  ): Copied & { readonly end: number } {
    const { store } = this.#parts;
    const { index } = namespace;
    const { generation } = store;
    const ordinal = namespace.ordinalIn(buffer);
    const copied: SeriesChunks[] = [];
    let chunkBytes = 0;
    let end = first;
    const past = Math.min(first + seriesAtOnceMax, slots.length);
    while (end < past && chunkBytes < chunkBytesTarget) {
      const from = end;
      end = Math.min(end + seriesOfRead, past);
      const some = slots
        .subarray(from, end)
        .filter((slot, i) => generation[slot] === generations[from + i])
        // One that leaves with its shard is out of the index before its slot is given back.
        .filter((slot) => index.has(slot));
      const { chunkData, chunkOffset } = packChunks(
        store.read(some, anyStart, anyEnd),
        store.keepsRowVersions,
      );
      chunkBytes += chunkData.length;
      for (const [i, slot] of some.entries()) {
        const chunks = chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!);
        if (chunks.length === 0) continue;
        copied.push({ slot, generation: generation[slot]!, chunks });
        const head = {
          slot,
          generation: generation[slot]!,
          idScheme: index.idScheme(slot),
          explicitId: index.explicitId(slot),
        };
        buffer.addSeriesOf(ordinal, head, index.tagsLength(slot), (target, at) =>
          index.copyTags(slot, target, at),
        );
      }
    }
    let entries = 0;
    for (const record of recordsOf(copied)) {
      buffer.addChunks(ordinal, record);
      entries += record.length;
    }
    return { series: copied.length, entries, chunkBytes, end };
  }

  /**
   * Segments with rows that are neither in the snapshot nor in filesets stay, and the snapshot
   * names them.
   */
  #keepSegments(namespace: NamespaceState, before: number, writer: SnapshotWriter): void {
    const { commitlog, store } = this.#parts;
    if (store.blocks(namespace.ordinal).length === 0) return;
    const kept = commitlog
      .segments()
      .filter(({ number, newestMillis }) => number < before && newestMillis.has(namespace.name))
      .map(({ number }) => number);
    for (const number of kept) this.#kept.add(number);
    writer.buffer.addKept(namespace.ordinalIn(writer.buffer), kept);
  }
}

/**
 * Entries of records, each a little longer than the target at most: a series with more chunks has
 * several entries.
 */
function* recordsOf(all: readonly SeriesChunks[]): Generator<SeriesChunks[], void, void> {
  let record: SeriesChunks[] = [];
  let bytes = 0;
  for (const { slot, generation, chunks } of all) {
    for (const part of partsOf(chunks)) {
      record.push({ slot, generation, chunks: part });
      bytes += part.length;
      if (bytes < chunkBytesTarget) continue;
      yield record;
      record = [];
      bytes = 0;
    }
  }
  if (record.length > 0) yield record;
}

/** Chunks of one series in parts, whole ones in each. */
function* partsOf(chunks: Uint8Array): Generator<Uint8Array, void, void> {
  let start = 0;
  if (chunks.length > chunkBytesTarget) {
    for (const { end } of chunkHeaders(chunks, 0, chunks.length, kindsAll)) {
      if (end - start < chunkBytesTarget) continue;
      yield chunks.subarray(start, end);
      start = end;
    }
  }
  if (start < chunks.length) yield chunks.subarray(start);
}
