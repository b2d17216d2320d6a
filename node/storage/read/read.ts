/**
 * Answers of reads: series of the index with their chunks of memory and of filesets, as one bundle.
 *
 * Memory is copied first, some series at a time, and the filesets are pinned after it, without a wait in
 * between: a flush puts a fileset in use and drops its rows from memory in one step, so a row that was not
 * in memory when its series was copied is in a fileset. One that was is perhaps in both.
 */
import type { FetchResponse, TimeRange } from '#cluster/node/service.ts';
import { ByteCollector } from '#engine/store/byte_collector.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import { badRequest } from '#lib/errors.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { Work } from '#lib/turns/turns.ts';
import { FilesetCorrupt } from '../../persist/fileset/format.ts';
import { cutAnswer, keeperOf } from './answer_cut.ts';
import { readEntries, runBytesMax } from './file_entries.ts';
import type { Directory } from '../filesets/directory.ts';
import type { FileCache } from '../filesets/file_cache.ts';
import type { SeriesTags } from '../../index/namespace_index.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import type { QueryLimitCounter } from '../admission/query_limits.ts';
import type { ReadReservation } from '#lib/read_memory/read_memory.ts';
import { isRead, type ShardTable } from '../namespace/shards.ts';
import type { DatedFile } from '../tombstones/tombstones.ts';

/** Bytes of tags, IDs and chunks of one answer, so that a read cannot take the process down. */
export const fetchBytesMax: number = 1024 * 1024 * 1024;

/** Series that are copied in one go, first and at most. They may have a row each or a day of rows: how many it is goes by what the last ones took. */
const seriesAtOnceFirst = 64;
const seriesAtOnceMax = 2048;
/** What they take, about. */
const copyMillis = 1;
/** So many are copied also where others have used up this turn of the loop: a small query does not wait. */
const seriesOfSmall = 256;
/** Each of these copies is worth a look at the clock (units of work, lib/turns/turns.ts). */
const copyUnits = 20_000;
/** Filesets that are read at a time for one answer. */
export const filesAtOnce = 8;

/** What a series takes of memory and of an answer, before more is known. */
const chunkBytesGuess = 64;
/** Of so many series the names are measured, to know what all of them take. */
const seriesMeasured = 1024;
/** When more is needed than was foreseen, so much beyond what is foreseen now. */
const foreseenFactor = 1.25;

/** Of an answer while it is made. */
export type AnswerMemory = Pick<ReadReservation, 'bytes' | 'bytesMax' | 'growTo' | 'shrinkTo'>;

interface Range {
  readonly startNanos: UnixNanos;
  readonly endNanos: UnixNanos;
}

export interface ReadParts {
  readonly store: SampleStore;
  readonly cache: FileCache;
  /** What queries may do over a time. */
  readonly queries: QueryLimitCounter;
}

/** What one fileset has of the series that are asked for, in the order of the file. */
interface FilePart {
  readonly file: BlockFile;
  readonly directory: Directory;
  /** Places in the answer, and entries of the directory. */
  readonly places: Uint32Array;
  readonly entries: Uint32Array;
}

/**
 * Series with tags and IDs, and with their chunks that overlap the range, or without chunks.
 * @param slots ascending; of series that are there now
 * @param reservation grows to what it takes, and holds what the answer takes then
 * @param work gives way to others
 */
export async function bundleOf(
  parts: ReadParts,
  namespace: NamespaceState,
  slots: Uint32Array,
  range: Range | null,
  reservation: AnswerMemory,
  work: Work,
): Promise<SeriesBundle> {
  const { signal } = work;
  work.foreseeSeries(slots.length);
  const asked = new AskedSeries(parts.store, namespace, slots);
  const chunkBytes = range === null ? 0 : chunkBytesGuess * slots.length;
  await reservation.growTo(
    Math.min(namesBytesGuess(namespace, slots) + chunkBytes, reservation.bytesMax),
    signal,
  );
  if (slots.length > seriesOfSmall && work.isLate()) await work.pause();
  if (range === null) {
    const { names } = await copyMemory(parts, asked, null, Number.POSITIVE_INFINITY, work);
    const chunkOffset = new Uint32Array(names.seriesCount + 1);
    await holdOnly(reservation, namesBytes(names), signal);
    return { ...names, chunkData: new Uint8Array(0), chunkOffset };
  }
  for (;;) {
    signal.throwIfAborted();
    const copied = await copyMemory(parts, asked, range, reservation.bytes, work);
    // Of a namespace that was truncated meanwhile nothing is answered, rather than some of it.
    if (asked.isTruncated && copied.slots.length > 0) continue;
    const read =
      copied.foreseenBytes === null
        ? new SeriesRead(parts, namespace, range, copied)
        : copied.foreseenBytes;
    if (typeof read === 'number') {
      // What is foreseen may be more than what comes: it is no reason to refuse.
      const isAll = reservation.bytes === reservation.bytesMax;
      const bytes = isAll ? read : Math.min(read, reservation.bytesMax);
      await reservation.growTo(bytes, signal);
      continue;
    }
    try {
      const bundle = await read.run(reservation, signal);
      if (bundle !== null) {
        await holdOnly(reservation, namesBytes(bundle) + bundle.chunkData.length, signal);
        return bundle;
      }
      // A fileset went away or was found to be damaged, so what there is now is read from the
      // start.
    } finally {
      read.unpin();
    }
  }
}

/** What was needed only on the way is given back. */
async function holdOnly(
  reservation: AnswerMemory,
  bytes: number,
  signal: AbortSignal,
): Promise<void> {
  await reservation.growTo(bytes, signal);
  reservation.shrinkTo(bytes);
}

export function namesBytes({ tagsData, tagsOffset, idData }: SeriesTags): number {
  // Two offsets of the columns, an ID scheme, and the offset of the chunks.
  return tagsData.length + idData.length + 13 * tagsOffset.length;
}

/** As some of the series have it. */
function namesBytesGuess({ index }: NamespaceState, slots: Uint32Array): number {
  const step = Math.max(1, Math.floor(slots.length / seriesMeasured));
  let bytes = 0;
  let measured = 0;
  for (let i = 0; i < slots.length; i += step) {
    bytes += index.tagsLength(slots[i]!) + 13;
    measured += 1;
  }
  return measured === 0 ? 0 : Math.ceil((bytes / measured) * slots.length);
}

/** The series of an answer. After each wait a slot may be another one's, or nobody's. */
class AskedSeries {
  readonly namespace: NamespaceState;
  readonly slots: Uint32Array;
  readonly #store: SampleStore;
  readonly #generations: Uint32Array;
  readonly #truncations: number;

  constructor(store: SampleStore, namespace: NamespaceState, slots: Uint32Array) {
    this.namespace = namespace;
    this.slots = slots;
    this.#store = store;
    this.#truncations = namespace.truncations;
    this.#generations = generationsOf(store, slots);
  }

  get isTruncated(): boolean {
    return this.namespace.truncations !== this.#truncations;
  }

  /** Of those in [first, past) the ones that are still here. */
  here(first: number, past: number): Uint32Array {
    const { generation } = this.#store;
    const { index } = this.namespace;
    if (this.isTruncated) return new Uint32Array(0);
    return this.slots
      .subarray(first, past)
      .filter((slot, i) => generation[slot] === this.#generations[first + i] && index.has(slot));
  }
}

/** What was in memory. */
interface CopiedMemory {
  readonly slots: Uint32Array;
  /** When they were copied. */
  readonly generations: Uint32Array;
  readonly names: SeriesTags;
  readonly memory: MemoryPart;
  /** What all will probably take, where it is more than it may: then the rest is not copied. */
  readonly foreseenBytes: number | null;
}

/**
 * Names and memory of series, giving way.
 * @param range null for names alone
 * @param bytesMax of names and of what memory has
 */
async function copyMemory(
  { store }: ReadParts,
  asked: AskedSeries,
  range: Range | null,
  bytesMax: number,
  work: Work,
): Promise<CopiedMemory> {
  const { slots: all, namespace } = asked;
  const slots: Uint32Array[] = [];
  const generations: Uint32Array[] = [];
  const names: SeriesTags[] = [];
  const offsets: Uint32Array[] = [];
  const target = new ByteCollector();
  let bytesOfNames = 0;
  let foreseenBytes: number | null = null;
  let atOnce = seriesAtOnceFirst;
  for (let first = 0, past = 0; foreseenBytes === null; first = past) {
    const startedMillis = work.clock.monotonicMillis();
    past = Math.min(first + atOnce, all.length);
    const some = asked.here(first, past);
    const ofSome = namespace.index.tagsOf(some);
    slots.push(some);
    generations.push(generationsOf(store, some));
    names.push(ofSome);
    bytesOfNames += namesBytes(ofSome);
    if (range !== null) {
      const perSeries = first === 0 ? 0 : target.length / first;
      const room = Math.max(bytesMax - bytesOfNames, 0);
      target.expect(Math.min(perSeries * all.length, fetchBytesMax, room));
      offsets.push(store.readInto(target, some, range.startNanos, range.endNanos));
      if (target.length > fetchBytesMax) throw tooLarge();
    }
    const bytes = bytesOfNames + target.length;
    if (bytes > bytesMax) {
      foreseenBytes = Math.ceil((foreseenFactor * bytes * all.length) / past);
    }
    const isDue = work.spend(copyUnits);
    if (past === all.length) break;
    const millis = work.clock.monotonicMillis() - startedMillis;
    if (millis > 2 * copyMillis) atOnce = Math.max(1, atOnce >>> 1);
    else if (millis < copyMillis / 2) atOnce = Math.min(2 * atOnce, seriesAtOnceMax);
    if (isDue) await work.pause();
  }
  const chunks = target.view();
  return {
    slots: joined(slots),
    generations: joined(generations),
    names: joinedTags(names),
    memory: new MemoryPart(joinedOffsets(offsets, chunks.length), chunks),
    foreseenBytes,
  };
}

function joined(parts: readonly Uint32Array[]): Uint32Array {
  if (parts.length === 1) return parts[0]!;
  const all = new Uint32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Where the bytes of each series begin, of parts without their last one, and where all end. */
function joinedOffsets(parts: readonly Uint32Array[], end: number): Uint32Array {
  const starts = joined(parts.map((part) => part.subarray(0, part.length - 1)));
  const offsets = new Uint32Array(starts.length + 1);
  offsets.set(starts);
  offsets[starts.length] = end;
  return offsets;
}

function joinedTags(parts: readonly SeriesTags[]): SeriesTags {
  const [only] = parts;
  if (parts.length === 1) return only!;
  const seriesCount = parts.reduce((sum, each) => sum + each.seriesCount, 0);
  const tagsOffset = new Uint32Array(seriesCount + 1);
  const idOffset = new Uint32Array(seriesCount + 1);
  const idScheme = new Uint8Array(seriesCount);
  let at = 0;
  for (const part of parts) {
    const [tagsStart, idStart] = [tagsOffset[at]!, idOffset[at]!];
    idScheme.set(part.idScheme, at);
    for (let i = 1; i <= part.seriesCount; i += 1) {
      tagsOffset[at + i] = tagsStart + part.tagsOffset[i]!;
      idOffset[at + i] = idStart + part.idOffset[i]!;
    }
    at += part.seriesCount;
  }
  const concatenated = (datas: readonly Uint8Array[], length: number): Uint8Array => {
    const data = new Uint8Array(length);
    let end = 0;
    for (const each of datas) {
      data.set(each, end);
      end += each.length;
    }
    return data;
  };
  return {
    seriesCount,
    tagsData: concatenated(
      parts.map(({ tagsData }) => tagsData),
      tagsOffset[seriesCount]!,
    ),
    tagsOffset,
    idScheme,
    idData: concatenated(
      parts.map(({ idData }) => idData),
      idOffset[seriesCount]!,
    ),
    idOffset,
  };
}

/** One attempt to read series. */
class SeriesRead {
  readonly #parts: ReadParts;
  readonly #namespace: NamespaceState;
  readonly #slots: Uint32Array;
  readonly #generations: Uint32Array;
  readonly #names: SeriesTags;
  readonly #memory: MemoryPart;
  /** By shard: places of its series in the answer. */
  readonly #placesOfShard: Map<number, Uint32Array>;
  readonly #files: BlockFile[] = [];
  /** Bytes by place: of memory, and of all so far. */
  readonly #lengths: Float64Array;
  #isDamaged = false;

  /** Pins the filesets. @param copied just now, without a wait in between */
  constructor(
    parts: ReadParts,
    namespace: NamespaceState,
    range: Range,
    { slots, generations, names, memory }: CopiedMemory,
  ) {
    this.#parts = parts;
    this.#namespace = namespace;
    this.#slots = slots;
    this.#generations = generations;
    this.#names = names;
    this.#memory = memory;
    this.#placesOfShard = byShard(namespace, slots);
    for (const shard of this.#placesOfShard.keys()) {
      const { startNanos, endNanos } = range;
      this.#files.push(...namespace.files.pinRange(shard, startNanos, endNanos, 'open'));
    }
    this.#files.sort((a, b) => Number(a.blockStartNanos - b.blockStartNanos));
    this.#lengths = new Float64Array(slots.length);
  }

  unpin(): void {
    for (const file of this.#files) this.#namespace.files.unpin(file);
  }

  /** @returns null when it must be tried again */
  async run(reservation: AnswerMemory, signal: AbortSignal): Promise<SeriesBundle | null> {
    const memory = this.#memory;
    const names = this.#names;
    const slots = this.#slots;
    if (this.#files.length === 0) {
      return { ...names, chunkData: memory.bytes, chunkOffset: memory.offsets };
    }
    const fileParts: FilePart[] = [];
    for (const file of this.#files) {
      signal.throwIfAborted();
      const part = await this.#matchFile(file);
      if (part === 'again') return null;
      if (part !== null) fileParts.push(part);
    }
    this.#countReads(fileParts);
    const chunkOffset = this.#layOut();
    const chunkBytes = chunkOffset.at(-1)!;
    const fileBytes = chunkBytes - memory.bytes.length;
    await reservation.growTo(
      namesBytes(names) +
        memory.bytes.length +
        chunkBytes +
        Math.min(fileBytes, filesAtOnce * runBytesMax),
      signal,
    );
    // All of it is written below, so it is not filled with zeros first.
    const chunkData = new Uint8Array(Buffer.allocUnsafeSlow(chunkBytes).buffer);
    /** By place: where the next bytes go. Chunks of files come first, in order of time. */
    const next = chunkOffset.slice(0, slots.length);
    const targets = fileParts.map(({ places, directory, entries }) =>
      places.map((place, i) => {
        const at = next[place]!;
        next[place] = at + directory.lengths[entries[i]!]!;
        return at;
      }),
    );
    memory.copyTo(chunkData, next);
    for (let first = 0; first < fileParts.length; first += filesAtOnce) {
      signal.throwIfAborted();
      const some = fileParts.slice(first, first + filesAtOnce);
      const read = some.map((part, i) => this.#readPart(part, chunkData, targets[first + i]!));
      await Promise.all(read);
    }
    if (this.#isDamaged) return null;
    const { tombstones, expiredBeforeNanos } = this.#namespace;
    const bundle = { ...names, chunkData, chunkOffset };
    const isWhole = (file: BlockFile): boolean => file.blockStartNanos >= expiredBeforeNanos;
    if (tombstones.all.length === 0 && this.#files.every(isWhole)) return bundle;
    const answered = fileParts.map(({ file, places, directory, entries }, i) => ({
      file,
      places,
      targets: targets[i]!,
      lengths: entries.map((entry) => directory.lengths[entry]!),
    }));
    const keeper = (file: DatedFile) => keeperOf(file, tombstones, expiredBeforeNanos);
    return cutAnswer(bundle, keeper, answered);
  }

  /** @throws {TsdbError} RESOURCE_EXHAUSTED when queries read more than they may */
  #countReads(fileParts: readonly FilePart[]): void {
    let series = 0;
    let bytes = 0;
    for (const { entries, directory } of fileParts) {
      series += entries.length;
      for (const entry of entries) bytes += directory.lengths[entry]!;
    }
    this.#parts.queries.add('diskRead', series);
    this.#parts.queries.add('diskBytesRead', bytes);
  }

  /** Where each series' bytes begin, with the end of the last one. */
  #layOut(): Uint32Array {
    const memory = this.#memory;
    const lengths = this.#lengths;
    const slots = this.#slots;
    const chunkOffset = new Uint32Array(slots.length + 1);
    let total = 0;
    for (let i = 0; i < slots.length; i += 1) {
      total += lengths[i]! + memory.offsets[i + 1]! - memory.offsets[i]!;
      if (total > fetchBytesMax) throw tooLarge();
      chunkOffset[i + 1] = total;
    }
    return chunkOffset;
  }

  async #matchFile(file: BlockFile): Promise<FilePart | null | 'again'> {
    const namespace = this.#namespace;
    const slots = this.#slots;
    const generations = this.#generations;
    const lengths = this.#lengths;
    let directory: Directory;
    try {
      directory = await namespace.files.directories.of(file);
    } catch (error) {
      if (!(error instanceof FilesetCorrupt)) throw error;
      // When its folder was removed meanwhile it is not in use any more.
      if (file.retired === null) namespace.files.setAside(file, error.message);
      return 'again';
    }
    // A slot may be another series' by now.
    const { generation } = this.#parts.store;
    const candidates = this.#placesOfShard.get(file.shard)!;
    const wanted = Uint32Array.from(candidates, (place) => slots[place]!);
    const places: number[] = [];
    const entries: number[] = [];
    directory.match(wanted, (position, entry) => {
      const place = candidates[position]!;
      if (generation[slots[place]!] !== generations[place]) return;
      places.push(place);
      entries.push(entry);
      lengths[place]! += directory.lengths[entry]!;
    });
    if (places.length === 0) return null;
    const order = Uint32Array.from(places, (_, i) => i).sort(
      (a, b) => directory.offsets[entries[a]!]! - directory.offsets[entries[b]!]!,
    );
    return {
      file,
      directory,
      places: order.map((i) => places[i]!),
      entries: order.map((i) => entries[i]!),
    };
  }

  async #readPart(part: FilePart, out: Uint8Array, targets: Uint32Array): Promise<void> {
    const { file, directory, entries } = part;
    const ranges = {
      offsets: Float64Array.from(entries, (entry) => directory.offsets[entry]!),
      lengths: entries.map((entry) => directory.lengths[entry]!),
      checksums: entries.map((entry) => directory.checksums[entry]!),
    };
    const { files } = this.#namespace;
    if (await readEntries(this.#parts.cache, files, file, ranges, out, targets)) return;
    directory.leaveOutAt(file.damaged);
    this.#isDamaged = true;
  }
}

/** Chunks of the store, series by series. */
class MemoryPart {
  readonly offsets: Uint32Array;
  readonly bytes: Uint8Array;

  constructor(offsets: Uint32Array, bytes: Uint8Array) {
    this.offsets = offsets;
    this.bytes = bytes;
  }

  /** Copies each series' chunks to where they belong. */
  copyTo(out: Uint8Array, targets: Uint32Array): void {
    const { offsets, bytes } = this;
    for (let i = 0; i < targets.length; i += 1) {
      if (offsets[i] === offsets[i + 1]) continue;
      out.set(bytes.subarray(offsets[i]!, offsets[i + 1]!), targets[i]);
    }
  }
}

function generationsOf(store: SampleStore, slots: Uint32Array): Uint32Array {
  const { generation } = store;
  return slots.map((slot) => generation[slot]!);
}

/** By shard: places of its series, ascending. */
function byShard(namespace: NamespaceState, slots: Uint32Array): Map<number, Uint32Array> {
  const { index } = namespace;
  const shards = new Uint32Array(slots.length);
  const counts = new Map<number, number>();
  for (let place = 0; place < slots.length; place += 1) {
    const shard = index.shard(slots[place]!);
    shards[place] = shard;
    counts.set(shard, (counts.get(shard) ?? 0) + 1);
  }
  const places = new Map<number, Uint32Array>();
  const ends = new Map<number, number>();
  for (const [shard, count] of counts) {
    places.set(shard, new Uint32Array(count));
    ends.set(shard, 0);
  }
  for (let place = 0; place < slots.length; place += 1) {
    const shard = shards[place]!;
    const end = ends.get(shard)!;
    places.get(shard)![end] = place;
    ends.set(shard, end + 1);
  }
  return places;
}

export function tooLarge(): Error {
  return badRequest(
    `cannot read: the answer holds more than ${fetchBytesMax} bytes; ask for fewer series or less time`,
  );
}

/**
 * Shards for which an answer of this node is whole: those that are so at its begin and were not
 * lost until its end. One that was repaired meanwhile may be ready again, with rows that the answer
 * has not.
 */
export class WholeShards {
  readonly #namespace: NamespaceState;
  readonly #shards: ShardTable;
  readonly #placementVersion: number;
  /** Where blocks start that have something of the answer; null for all. */
  readonly #starts: TimeRange | null;
  /** By shard, how often it had been lost. */
  readonly #lossesAtBegin = new Map<number, number>();

  /**
   * To be made before the index is asked. @param range of the answer; null for all times @param
   * wanted null for all @param placementVersion of the reader; 0 when it counts no replicas
   */
  constructor(
    namespace: NamespaceState,
    shards: ShardTable,
    range: TimeRange | null,
    wanted: Uint32Array | null,
    placementVersion: number,
  ) {
    this.#namespace = namespace;
    this.#shards = shards;
    this.#placementVersion = placementVersion;
    // A block before it may reach into the range.
    const reachNanos = namespace.blockSizeNanos - 1n;
    this.#starts = range && { startNanos: range.startNanos - reachNanos, endNanos: range.endNanos };
    const asked = wanted === null ? null : new Set(wanted);
    for (const { id } of shards.all()) {
      if (!this.#isWhole(id) || asked?.has(id) === false) continue;
      this.#lossesAtBegin.set(id, namespace.readyShards.losses(id));
    }
  }

  atEnd(): FetchResponse['shards'] {
    const { readyShards } = this.#namespace;
    const whole: number[] = [];
    for (const [id, losses] of this.#lossesAtBegin) {
      if (this.#isWhole(id) && readyShards.losses(id) === losses) whole.push(id);
    }
    return Uint32Array.from(whole);
  }

  #isWhole(shard: number): boolean {
    if (!this.#shards.counts) return false;
    const owned = this.#shards.get(shard);
    if (owned === undefined || !isRead(owned)) return false;
    if (this.#shards.readerIsStale(shard, this.#placementVersion)) return false;
    const { readyShards } = this.#namespace;
    if (this.#starts === null) return readyShards.has(shard);
    return readyShards.hasBlocksFrom(shard, this.#starts.startNanos, this.#starts.endNanos);
  }
}
