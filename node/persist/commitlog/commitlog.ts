/**
 * The commit log: segments that are only ever appended to (docs/formats/commitlog.md), by one
 * sequencer. A segment whose write or sync failed is never trusted again: what was not known to be
 * on disk goes to a new one, and when that fails too the write is refused and nothing is pretended.
 */
import { assert } from '#lib/assert.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { DiskFile, Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import {
  encodeSegmentHeader,
  type MarkSince,
  recordHeaderBytes,
  type RowSpan,
  SegmentBuffer,
  segmentHeaderBytes,
  type SegmentMark,
} from './format.ts';

/** Where the segments of a data folder are. */
export function commitlogFolder(dataFolder: string): string {
  return `${dataFolder}/commitlogs`;
}

export interface CommitlogOptions {
  readonly folder: string;
  readonly incarnation: string;
  readonly boot: number;
  /** A segment is closed when its rows are longer than this and than its dictionary. */
  readonly segmentBytesMax: number;
  /**
   * 'always': durable when `write` resolves. 'interval': within `syncEveryMillis` or
   * `syncBytesMax`.
   */
  readonly sync: 'always' | 'interval';
  readonly syncEveryMillis: number;
  readonly syncBytesMax: number;
}

/** A commit log segment is closed when it is longer. */
export const segmentBytesMax: number = 64 * 1024 * 1024;

/**
 * Appends records to the buffer, and notes what they hold by `noteRows(buffer.segment, …)`. May be
 * called again for another segment when the first one failed, and must then do the same for that.
 */
export type WriteRecords = (buffer: SegmentBuffer) => void;

/** What one segment holds. */
export interface SegmentInfo {
  readonly number: number;
  readonly path: string;
  bytes: number;
  /**
   * Of these, those of series records, and how many series they are; 0 for a segment of an earlier
   * process.
   */
  dictionaryBytes: number;
  dictionarySeries: number;
  /** Unix milliseconds of the oldest row, by namespace. */
  readonly oldestMillis: Map<string, number>;
  /** Of the newest row, or of what it says of rows elsewhere. */
  readonly newestMillis: Map<string, number>;
  /** The same of all namespaces; infinite when there is none. */
  oldestOfAllMillis: number;
  newestOfAllMillis: number;
}

/**
 * After a failed attempt to open a segment the next one waits, so that a full disk is not hammered.
 */
const openAgainMillis = 100;

/** After refused writes a file of this size tells whether the disk takes some again. */
const probeBytes = 1 << 20;
const probeMillisMin = 1000;

/** What a disk loses at once, at least. */
const pageBytes = 4096;

/**
 * Marks tell the times of rows as coarsely, so that those of a namespace change once in that time,
 * and not with each group; blocks of usual sizes begin with a minute.
 */
const markMillis = 60_000;

/** When so much has changed since the last mark that says all, the next one says all again. */
const changedMin = 4;
const changedPart = 1 / 4;

/** A log that nobody writes to for so long notes that its end was synced. */
const markAfterMillis = 1000;

interface OpenSegment {
  readonly info: SegmentInfo;
  readonly file: DiskFile;
  readonly salt: number;
  /** End of what is written; when it is not trusted, of what was synced. */
  position: number;
  syncedPosition: number;
  /** Where the last group of records ends. */
  groupEnd: number;
  /** As the last mark that was written says: everything before it was synced. */
  markedEnd: number;
  /** The last mark that names all namespaces; null when there is none yet. */
  base: MarkBase | null;
}

interface MarkBase {
  /** Where its record begins in the file. */
  readonly at: number;
  /** Namespaces that it names. */
  readonly size: number;
  /** Namespaces of which it does not have all the times. */
  readonly changed: Set<string>;
}

const segmentName = /^commitlog-(\d+)\.db$/;

/** Numbers and paths of the segments in a folder, oldest first. */
export async function listSegments(
  env: Env,
  folder: string,
): Promise<{ readonly number: number; readonly path: string }[]> {
  const found: { number: number; path: string }[] = [];
  for (const name of await env.disk.list(folder)) {
    const match = segmentName.exec(name);
    if (match !== null) found.push({ number: Number(match[1]), path: `${folder}/${name}` });
  }
  return found.sort((a, b) => a.number - b.number);
}

export class Commitlog implements AsyncDisposable {
  readonly #env: Env;
  readonly #log: Log;
  readonly #options: CommitlogOptions;
  readonly #buffer: SegmentBuffer = new SegmentBuffer();
  #current: OpenSegment | null = null;
  readonly #closed = new Map<number, SegmentInfo>();
  #nextNumber = 1;
  #openAgainAtMillis = 0;
  /** Written but not known to be on disk; only with sync 'interval'. */
  #unsynced: WriteRecords[] = [];
  #unsyncedBytes = 0;
  #syncedAtMillis: number;
  #writtenAtMillis = 0;
  /** When a page was begun whose mark tells of those before it. */
  #pageBegunAtMillis: number;
  /** What is known of earlier segments, and stands in no segment that was synced. */
  #earlier: SegmentMark[] = [];
  /** Why the newest write was refused; '' when it was not. */
  #refusal = '';
  /** The disk is tried now. */
  #probing: Promise<void> | null = null;
  #probedAtMillis = 0;
  /** Told of each `write` that succeeded how long it took, until the main loop heard of it. */
  onWritten: (seconds: number) => void = () => {};
  /** Counts of this process, for metrics. */
  readonly counts: {
    syncs: number;
    bytes: number;
    failures: number;
    segmentsOpened: number;
  } = { syncs: 0, bytes: 0, failures: 0, segmentsOpened: 0 };

  private constructor(env: Env, log: Log, options: CommitlogOptions) {
    this.#env = env;
    this.#log = log;
    this.#options = options;
    this.#syncedAtMillis = env.clock.monotonicMillis();
    this.#pageBegunAtMillis = this.#syncedAtMillis;
  }

  /** Opens the folder; its segments are known to be older, and the first write opens a new one. */
  static async open(env: Env, log: Log, options: CommitlogOptions): Promise<Commitlog> {
    await env.disk.makeFolder(options.folder);
    const commitlog = new Commitlog(env, log, options);
    for (const { number, path } of await listSegments(env, options.folder)) {
      const bytes = (await env.disk.size(path)) ?? 0;
      commitlog.#closed.set(number, {
        number,
        path,
        bytes,
        dictionaryBytes: 0,
        dictionarySeries: 0,
        oldestMillis: new Map(),
        newestMillis: new Map(),
        oldestOfAllMillis: Infinity,
        newestOfAllMillis: -Infinity,
      });
      commitlog.#nextNumber = number + 1;
    }
    return commitlog;
  }

  /** Whether records may be asked for again after `write` has resolved: until the next sync. */
  get keepsRecords(): boolean {
    return this.#options.sync === 'interval';
  }

  /** All segments, oldest first; the last one may be open. */
  segments(): readonly SegmentInfo[] {
    const all = [...this.#closed.values()].sort((a, b) => a.number - b.number);
    if (this.#current !== null) all.push(this.#current.info);
    return all;
  }

  /** Goes on from this number at least: a snapshot stands for all segments before it. */
  continueFrom(number: number): void {
    this.#nextNumber = Math.max(this.#nextNumber, number);
  }

  /** Number of the segment that comes next when the open one is closed. */
  get nextSegment(): number {
    return this.#nextNumber;
  }

  /** Notes that a segment holds rows of a namespace of these times; segment 0 means none. */
  noteRows(segment: number, namespace: string, oldestMillis: number, newestMillis: number): void {
    const info = this.#infoOf(segment);
    if (info === undefined) return;
    const before = info.oldestMillis.get(namespace);
    if (before === undefined || oldestMillis < before) {
      info.oldestMillis.set(namespace, oldestMillis);
      info.oldestOfAllMillis = Math.min(info.oldestOfAllMillis, oldestMillis);
      this.#noteChange(info, namespace, before, oldestMillis);
    }
    this.noteNeeded(segment, namespace, newestMillis);
  }

  /** What the last whole mark says of a namespace may not be all any more. */
  #noteChange(info: SegmentInfo, namespace: string, before: number | undefined, now: number): void {
    if (before !== undefined && minuteOf(before) === minuteOf(now)) return;
    if (this.#current?.info === info) this.#current.base?.changed.add(namespace);
  }

  /** Notes that a segment says something of rows up to a time, which others hold. */
  noteNeeded(segment: number, namespace: string, newestMillis: number): void {
    const info = this.#infoOf(segment);
    if (info === undefined) return;
    const before = info.newestMillis.get(namespace);
    if (before === undefined || newestMillis > before) {
      info.newestMillis.set(namespace, newestMillis);
      info.newestOfAllMillis = Math.max(info.newestOfAllMillis, newestMillis);
      this.#noteChange(info, namespace, before, newestMillis);
    }
  }

  /**
   * Notes that a segment of an earlier process was read up to a byte, and lacked nothing. That
   * process may have been killed before it synced what it wrote, so it is synced here; when that
   * fails, nothing is said of the segment.
   */
  async noteReplayed(segment: number, end: number): Promise<void> {
    const info = this.#closed.get(segment);
    if (info === undefined) return;
    try {
      await using file = await this.#env.disk.open(info.path, 'write');
      await file.sync();
    } catch (error) {
      const fields = { path: info.path, error: messageOf(error) };
      this.#log.warn(fields, 'commit log segment that was read cannot be synced');
      return;
    }
    this.#earlier.push(markOf(info, end));
  }

  #infoOf(segment: number): SegmentInfo | undefined {
    return this.#current?.info.number === segment ? this.#current.info : this.#closed.get(segment);
  }

  /**
   * Appends records; with sync 'always' they are on disk when this resolves. Calls must not
   * overlap.
   *
   * @param syncNow whether they are so in any case; nothing may be waiting for a sync then
   * @returns the number of the segment that holds them
   * @throws {TsdbError} UNAVAILABLE when they could not be written; nothing of them counts then
   */
  async write(
    records: WriteRecords,
    syncNow: boolean = this.#options.sync === 'always',
  ): Promise<number> {
    assert(!syncNow || this.#unsynced.length === 0, 'what is synced at once is after a sync');
    const startedMillis = this.#env.clock.monotonicMillis();
    let segment: number;
    try {
      segment = await this.#writeOrMove(records, syncNow);
    } catch (error) {
      this.#refusal = messageOf(error);
      this.#probedAtMillis = this.#env.clock.monotonicMillis();
      throw error;
    }
    this.#refusal = '';
    this.onWritten((this.#env.clock.monotonicMillis() - startedMillis) / 1000);
    return segment;
  }

  /**
   * Why writes are refused, as far as is known; '' when they are not. After a refused one the disk
   * is tried with a file of its own, when this is asked and at most once a second: whoever sends
   * nothing because writes are refused would never hear that they are taken again. Nobody waits for
   * the disk, which may hang: the next question has the answer.
   */
  refusal(): string {
    const nowMillis = this.#env.clock.monotonicMillis();
    const isDue = this.#refusal !== '' && nowMillis - this.#probedAtMillis >= probeMillisMin;
    if (isDue && this.#probing === null) {
      this.#probedAtMillis = nowMillis;
      this.#probing = this.#probe().finally(() => {
        this.#probing = null;
      });
    }
    return this.#refusal;
  }

  /** A write that succeeds or fails meanwhile knows better. */
  async #probe(): Promise<void> {
    const before = this.#refusal;
    const path = `${this.#options.folder}/probe.tmp`;
    try {
      await this.#env.disk.remove(path);
      await using file = await this.#env.disk.open(path, 'create');
      await file.write(0, [new Uint8Array(probeBytes)]);
      await file.sync();
      if (this.#refusal === before) this.#refusal = '';
    } catch (error) {
      if (this.#refusal === before) this.#refusal = messageOf(refused(error));
    }
    await this.#env.disk.remove(path).catch(() => {});
  }

  /** Into the open segment, or into a new one when that is full or fails. */
  async #writeOrMove(records: WriteRecords, syncNow: boolean): Promise<number> {
    if (this.#current !== null && this.#isFull(this.#current)) await this.rotate();
    if (this.#current !== null) {
      try {
        return await this.#tryWrite(this.#current, [records], syncNow);
      } catch (error) {
        await this.#abandon(this.#current, error);
      }
    }
    const segment = await this.#openSegment();
    try {
      return await this.#tryWrite(segment, [...this.#unsynced, records], syncNow);
    } catch (error) {
      await this.#abandon(segment, error);
      throw refused(error);
    }
  }

  /**
   * Makes everything that was written durable, as a step of the sequencer.
   * @throws {TsdbError} UNAVAILABLE when it could not, also not in a new segment
   */
  async sync(): Promise<void> {
    if (this.#unsynced.length === 0) return;
    if (this.#current !== null) {
      try {
        await this.#syncSegment(this.#current);
        return;
      } catch (error) {
        await this.#abandon(this.#current, error);
      }
    }
    const segment = await this.#openSegment();
    try {
      await this.#tryWrite(segment, [...this.#unsynced], true);
    } catch (error) {
      await this.#abandon(segment, error);
      throw refused(error);
    }
  }

  /** With sync 'interval': whether the time for a sync has come. */
  syncIsDue(): boolean {
    return (
      this.#unsynced.length > 0 &&
      this.#env.clock.monotonicMillis() - this.#syncedAtMillis >= this.#options.syncEveryMillis
    );
  }

  /** Whether the log should note that its end was synced: nothing else came that would. */
  markIsDue(): boolean {
    const segment = this.#current;
    return (
      segment !== null &&
      this.#unsynced.length === 0 &&
      segment.markedEnd < segment.groupEnd &&
      this.#env.clock.monotonicMillis() - this.#writtenAtMillis >= markAfterMillis
    );
  }

  /** Notes that the end of the log was synced, as a step of the sequencer. */
  async mark(): Promise<void> {
    const segment = this.#current;
    if (segment === null || segment.markedEnd >= segment.groupEnd) return;
    this.#buffer.reset(segment.info.number, segment.salt);
    this.#beginPage(segment);
    this.#addWholeMark(segment);
    const bytes = this.#buffer.bytes();
    try {
      await segment.file.write(segment.position, [bytes]);
      await segment.file.sync();
      segment.position += bytes.length;
      segment.info.bytes = segment.position;
      segment.markedEnd = segment.groupEnd;
    } catch (error) {
      await this.#abandon(segment, error);
    }
  }

  /** What follows lies in another page: a bad one must not take rows and what tells of them. */
  #beginPage({ position }: OpenSegment): void {
    const left = -position & (pageBytes - 1);
    const padding = left > 0 && left < recordHeaderBytes ? left + pageBytes : left;
    if (padding > 0) this.#buffer.addPadding(padding);
    this.#pageBegunAtMillis = this.#env.clock.monotonicMillis();
  }

  /** Closes the open segment; the next write opens another. For snapshots and deletion. */
  async rotate(): Promise<void> {
    const segment = this.#current;
    if (segment === null) return;
    await this.sync();
    await this.mark();
    if (this.#current !== segment) return;
    this.#current = null;
    this.#close(segment);
    await segment.file.close();
  }

  #close({ info, syncedPosition }: OpenSegment): void {
    this.#closed.set(info.number, info);
    this.#earlier.push(markOf(info, syncedPosition));
  }

  /** Deletes the closed segments with these numbers. */
  async deleteSegments(numbers: readonly number[]): Promise<void> {
    for (const number of numbers) {
      const info = this.#closed.get(number);
      if (info === undefined) continue;
      await this.#env.disk.remove(info.path);
      this.#closed.delete(number);
    }
    this.#earlier = this.#earlier.filter(({ segment }) => this.#closed.has(segment));
  }

  /** Deletes every closed segment whose number is smaller: what they hold is kept elsewhere. */
  async deleteSegmentsBefore(number: number): Promise<void> {
    await this.deleteSegments([...this.#closed.keys()].filter((closed) => closed < number));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.sync();
    } catch (error) {
      this.#log.error({ error: messageOf(error) }, 'commit log could not be synced at the end');
    }
    await this.mark();
    await this.#probing;
    await this.#current?.file.close();
    this.#current = null;
  }

  /**
   * A million series take 250 MiB of dictionary, which a shorter segment would write again and
   * again.
   */
  #isFull({ position }: OpenSegment): boolean {
    const { dictionaryBytes } = this.#buffer;
    return position - dictionaryBytes >= Math.max(this.#options.segmentBytesMax, dictionaryBytes);
  }

  async #tryWrite(
    segment: OpenSegment,
    records: readonly WriteRecords[],
    syncNow: boolean,
  ): Promise<number> {
    this.#buffer.reset(segment.info.number, segment.salt);
    const marksEnd = this.#addMarks(segment);
    for (const write of records) write(this.#buffer);
    const bytes = this.#buffer.bytes();
    if (bytes.length === marksEnd) return segment.info.number;
    // Kept before the write, so that the new segment after a failure gets them too.
    if (!syncNow) {
      this.#unsynced = records.length > 1 ? [...records] : [...this.#unsynced, ...records];
      this.#unsyncedBytes += bytes.length;
    }
    try {
      await segment.file.write(segment.position, [bytes]);
    } catch (error) {
      // The caller gives these records once more; they must not be there twice.
      if (!syncNow) this.#unsynced.pop();
      throw error;
    }
    segment.position += bytes.length;
    segment.groupEnd = segment.position;
    segment.markedEnd = segment.syncedPosition;
    this.#writtenAtMillis = this.#env.clock.monotonicMillis();
    segment.info.bytes = segment.position;
    segment.info.dictionaryBytes = this.#buffer.dictionaryBytes;
    segment.info.dictionarySeries = this.#buffer.dictionarySeries;
    this.counts.bytes += bytes.length;
    if (syncNow) await this.#syncSegment(segment);
    else if (this.#unsyncedBytes >= this.#options.syncBytesMax || this.syncIsDue()) {
      try {
        await this.#syncSegment(segment);
      } catch (error) {
        this.#unsynced.pop();
        throw error;
      }
    }
    return segment.info.number;
  }

  /**
   * A group says first how much before it was synced, and where the rows of that lie.
   * @returns bytes of that
   */
  #addMarks(segment: OpenSegment): number {
    if (segment.position === segmentHeaderBytes) {
      for (const mark of this.#earlier) this.#buffer.addMark(mark);
    } else {
      // A log that never rests would have the rows of many seconds in its last page, and of them no
      // mark elsewhere.
      const now = this.#env.clock.monotonicMillis();
      const isDue = now - this.#pageBegunAtMillis >= markAfterMillis;
      if (isDue) this.#beginPage(segment);
      const { base } = segment;
      if (isDue || base === null || base.changed.size > changedMin + base.size * changedPart) {
        this.#addWholeMark(segment);
      } else this.#buffer.addMarkSince(markSinceOf(segment, base));
    }
    return this.#buffer.bytes().length;
  }

  #addWholeMark(segment: OpenSegment): void {
    const mark = markOf(segment.info, segment.syncedPosition);
    const at = segment.position + this.#buffer.byteLength;
    segment.base = { at, size: mark.spans.length, changed: new Set() };
    this.#buffer.addMark(mark);
  }

  async #syncSegment(segment: OpenSegment): Promise<void> {
    const end = segment.position;
    await segment.file.sync();
    segment.syncedPosition = end;
    this.#earlier = [];
    this.counts.syncs += 1;
    this.#unsynced = [];
    this.#unsyncedBytes = 0;
    this.#syncedAtMillis = this.#env.clock.monotonicMillis();
  }

  async #openSegment(): Promise<OpenSegment> {
    const now = this.#env.clock.monotonicMillis();
    if (now < this.#openAgainAtMillis) {
      throw new TsdbError('UNAVAILABLE', 'cannot write: the commit log cannot be written to now');
    }
    const number = this.#nextNumber;
    const path = `${this.#options.folder}/commitlog-${number}.db`;
    let file: DiskFile | null = null;
    try {
      const salt = this.#env.random.u32();
      const mode = this.#options.sync === 'always' ? 'createSynced' : 'create';
      file = await this.#env.disk.open(path, mode);
      const header = encodeSegmentHeader({
        salt,
        incarnation: this.#options.incarnation,
        boot: this.#options.boot,
        segment: number,
        createdNanos: this.#env.clock.nowNanos(),
        hasMarks: true,
      });
      await file.write(0, [header]);
      await file.sync();
      await this.#env.disk.syncFolder(this.#options.folder);
      this.#nextNumber = number + 1;
      this.counts.segmentsOpened += 1;
      this.#current = {
        info: {
          number,
          path,
          bytes: segmentHeaderBytes,
          dictionaryBytes: 0,
          dictionarySeries: 0,
          oldestMillis: new Map(),
          newestMillis: new Map(),
          oldestOfAllMillis: Infinity,
          newestOfAllMillis: -Infinity,
        },
        file,
        salt,
        position: segmentHeaderBytes,
        syncedPosition: segmentHeaderBytes,
        groupEnd: segmentHeaderBytes,
        markedEnd: segmentHeaderBytes,
        base: null,
      };
      return this.#current;
    } catch (error) {
      this.counts.failures += 1;
      this.#openAgainAtMillis = this.#env.clock.monotonicMillis() + openAgainMillis;
      await file?.close().catch(() => {});
      await this.#env.disk.remove(path).catch(() => {});
      throw refused(error);
    }
  }

  /** Gives a segment up after a failure. What was synced in it stays valid. */
  async #abandon(segment: OpenSegment, error: unknown): Promise<void> {
    this.counts.failures += 1;
    this.#current = null;
    const { info, file, syncedPosition } = segment;
    this.#log.error(
      { path: info.path, error: messageOf(error) },
      'commit log segment failed and is not written to any more',
    );
    // Rows that were acknowledged before their sync may still be there, so nothing is cut off then.
    const certain = this.#unsynced.length === 0;
    if (syncedPosition === segmentHeaderBytes && certain) {
      await file.close().catch(() => {});
      await this.#env.disk.remove(info.path).catch(() => {});
      this.#openAgainAtMillis = this.#env.clock.monotonicMillis() + openAgainMillis;
      return;
    }
    this.#close(segment);
    if (certain) {
      info.bytes = syncedPosition;
      // The torn end only costs space; reading skips it when this fails.
      await file.truncate(syncedPosition).catch(() => {});
    }
    await file.close().catch(() => {});
  }
}

/** Everything of a segment before a byte was synced, and where the rows lie that it was told of. */
function markOf(info: SegmentInfo, syncedEnd: number): SegmentMark {
  const spans = spansOf(info, info.oldestMillis.keys());
  return { segment: info.number, syncedEnd, spans };
}

/** The same for who can read the mark at the base. A log of truncations alone has no rows. */
function markSinceOf({ info, syncedPosition }: OpenSegment, base: MarkBase): MarkSince {
  const spans = spansOf(info, base.changed);
  const hasRows = info.oldestOfAllMillis <= info.newestOfAllMillis;
  return {
    segment: info.number,
    syncedEnd: syncedPosition,
    spans,
    baseAt: base.at,
    firstNanos: hasRows ? firstNanosOf(info.oldestOfAllMillis) : 0n,
    lastNanos: hasRows ? lastNanosOf(info.newestOfAllMillis) : -1n,
  };
}

function spansOf(info: SegmentInfo, namespaces: Iterable<string>): RowSpan[] {
  const spans: RowSpan[] = [];
  for (const namespace of namespaces) {
    const oldest = info.oldestMillis.get(namespace);
    // It may say something of rows that others hold.
    if (oldest === undefined) continue;
    const lastNanos = lastNanosOf(info.newestMillis.get(namespace)!);
    spans.push({ namespace, firstNanos: firstNanosOf(oldest), lastNanos });
  }
  return spans;
}

function minuteOf(millis: number): number {
  return Math.floor(millis / markMillis);
}

function firstNanosOf(millis: number): bigint {
  return BigInt(minuteOf(millis) * markMillis) * 1_000_000n;
}

function lastNanosOf(millis: number): bigint {
  return BigInt((minuteOf(millis) + 1) * markMillis) * 1_000_000n - 1n;
}

function refused(error: unknown): TsdbError {
  if (error instanceof TsdbError) return error;
  return new TsdbError('UNAVAILABLE', `cannot write to the commit log: ${messageOf(error)}`, {
    cause: error,
  });
}
