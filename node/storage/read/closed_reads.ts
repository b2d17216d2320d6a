/**
 * What closed filesets have of an answer (docs/INDEX.md, Closed spans): each is asked of its columns, and what they have in common
 * with each other and with the index is joined by the names of the series.
 *
 * Memory and open filesets are read first. A row that left them since is in a fileset that was closed since, or in a later volume
 * of a closed one, so it is here.
 */
import { isOfWindows } from '#cluster/namespaces/samples.ts';
import type { Turning } from '#engine/aside/aside.ts';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { seriesIdOf } from '#lib/series_id/from_tags.ts';
import type { SeriesName } from '#lib/series_id/series_name.ts';
import { compareBytes } from '#lib/tags.ts';
import type { Work } from '#lib/turns/turns.ts';
import { popCount } from '../../index/query/slot_set.ts';
import { enumerateBits } from '../../index/tables/postings.ts';
import { ColumnsQuery } from '../../persist/series_columns/columns_query.ts';
import type { EntryNames, SeriesColumns } from '../../persist/series_columns/series_columns.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import type { DatedFile } from '../tombstones/tombstones.ts';
import { cutAnswer, keeperOf } from './answer_cut.ts';
import { AnswerNames } from './answer_names.ts';
import { type ClosedRequest, pinClosed, visitColumns } from './asked_columns.ts';
import { readEntries } from './file_entries.ts';
import {
  type AnswerMemory,
  fetchBytesMax,
  filesAtOnce,
  namesBytes,
  type ReadParts,
  tooLarge,
} from './read.ts';

/** About what it takes to name an entry, and to copy a series, in units of work (lib/turns/turns.ts). */
const nameUnits = 1_000;
const copyUnits = 30;
/** Names are held as they come, so many at a time. */
const namesBetweenHolds = 2_048;

/** Ascending entries of a closed fileset that are asked for. */
export type EntriesOf = (file: BlockFile, columns: SeriesColumns) => Promise<Uint32Array>;

/**
 * Series of closed filesets beside those of the index.
 * @param open what index, memory and open filesets have
 * @param entriesOf makes what tells of each closed fileset which are asked for
 * @param limit of series; 0 for none
 * @param fetchData false: without chunks
 * @param reservation has what `open` takes, and the answer in its place afterwards
 */
export async function withClosed(
  parts: ReadParts,
  request: ClosedRequest,
  open: SeriesBundle,
  entriesOf: () => Promise<EntriesOf>,
  { limit, fetchData }: { readonly limit: number; readonly fetchData: boolean },
  reservation: AnswerMemory,
  { work }: Turning,
): Promise<{ readonly bundle: SeriesBundle; readonly exhaustive: boolean }> {
  const { namespace } = request;
  const { files } = namespace;
  if (!isOfWindows(namespace.definition)) return { bundle: open, exhaustive: true };
  let asked: EntriesOf | null = null;
  for (;;) {
    if (namespace.truncations !== request.truncations) {
      return { bundle: emptyBundle, exhaustive: true };
    }
    const pinned = pinClosed(request);
    if (pinned.length === 0) return { bundle: open, exhaustive: true };
    try {
      asked ??= await entriesOf();
      const read = new ClosedRead(parts, request, open, limit, fetchData, reservation, work);
      for (const file of pinned) {
        work.signal.throwIfAborted();
        await read.find(file, asked);
      }
      const bundle = await read.bundle();
      const isStill = namespace.truncations === request.truncations;
      if (bundle !== null && isStill) return { bundle, exhaustive: read.isAll };
      // What is damaged is noted now, and is not read again; what was replaced meanwhile is read as it is now.
    } finally {
      for (const file of pinned) files.unpin(file);
    }
  }
}

const bytesOf = (bundle: SeriesBundle): number => namesBytes(bundle) + bundle.chunkData.length;

/** Entries that match a query. @throws {TsdbError} as `ColumnsQuery.of` */
export async function entriesOfQuery(query: IndexQuery, turning: Turning): Promise<EntriesOf> {
  const asked = await ColumnsQuery.of(query, turning);
  return async (_, columns) => {
    const bits = await asked.entries(columns);
    return enumerateBits(bits, popCount(bits));
  };
}

/** Entries of series with these IDs, which are looked for in the filesets of their shards. */
export function entriesOfIds(
  ids: readonly Uint8Array[],
  shardCount: number,
  { work }: Turning,
): EntriesOf {
  const idsOfShard = new Map<number, Uint8Array[]>();
  for (const id of ids) {
    const shard = murmur3(id) % shardCount;
    const some = idsOfShard.get(shard);
    if (some === undefined) idsOfShard.set(shard, [id]);
    else some.push(id);
  }
  for (const some of idsOfShard.values()) some.sort(compareBytes);
  return async ({ shard }, columns) => {
    const asked = idsOfShard.get(shard);
    if (asked === undefined) return new Uint32Array(0);
    const names = await columns.entryNames();
    const found: number[] = [];
    let low = 0;
    for (const id of asked) {
      low = firstFrom(names, columns.entryCount, id, low);
      if (low < columns.entryCount && compareIds(names, low, id) === 0) found.push(low);
      if (work.spend(nameUnits * Math.log2(columns.entryCount + 2))) await work.pause();
    }
    return Uint32Array.from(new Set(found));
  };
}

/** The first entry from `low` on whose ID is not below this one: entries are in the order of their IDs. */
function firstFrom(names: EntryNames, entryCount: number, id: Uint8Array, low: number): number {
  let [from, past] = [low, entryCount];
  while (from < past) {
    const middle = (from + past) >>> 1;
    if (compareIds(names, middle, id) < 0) from = middle + 1;
    else past = middle;
  }
  return from;
}

function compareIds(names: EntryNames, entry: number, id: Uint8Array): number {
  const { idScheme, tags, explicitId } = names.of(entry);
  return compareBytes(seriesIdOf(idScheme, tags, explicitId) ?? noBytes, id);
}

const noBytes = new Uint8Array(0);

/** What one closed fileset has of the answer, in the order of its data. */
interface ClosedPart {
  readonly file: BlockFile;
  readonly places: Uint32Array;
  readonly offsets: Float64Array;
  readonly lengths: Uint32Array;
  readonly checksums: Uint32Array;
}

/** One attempt to read series of closed filesets. */
class ClosedRead {
  readonly #parts: ReadParts;
  readonly #request: ClosedRequest;
  readonly #open: SeriesBundle;
  readonly #limit: number;
  readonly #fetchData: boolean;
  readonly #reservation: AnswerMemory;
  readonly #work: Work;
  readonly #found: ClosedPart[] = [];
  /** Made when there is something to be added to the open ones. */
  #names: AnswerNames | null = null;
  #chunkBytes = 0;
  /** Something went away before it could be asked. */
  #isStale = false;

  constructor(
    parts: ReadParts,
    request: ClosedRequest,
    open: SeriesBundle,
    limit: number,
    fetchData: boolean,
    reservation: AnswerMemory,
    work: Work,
  ) {
    this.#parts = parts;
    this.#request = request;
    this.#open = open;
    this.#limit = limit;
    this.#fetchData = fetchData;
    this.#reservation = reservation;
    this.#work = work;
  }

  /** Whether no series was left out. */
  get isAll(): boolean {
    return this.#names?.isAll ?? true;
  }

  /** Finds series of a fileset, which is pinned. */
  async find(file: BlockFile, asked: EntriesOf): Promise<void> {
    let part: ClosedPart | null = null;
    const { namespace, range } = this.#request;
    const { files } = namespace;
    const isAsked = await visitColumns(files, file, async (columns) => {
      const entries = await asked(file, columns);
      part = entries.length === 0 ? null : await this.#placed(file, columns, entries);
    });
    // Another one may have its blocks now.
    if (!isAsked && files.blocksOf(file).some((start) => files.get(file.shard, start) !== null)) {
      this.#isStale = true;
    }
    if (!this.#fetchData || part === null) return;
    const found: ClosedPart = part;
    const blocks = files.blocksOf(file).filter((startNanos) => {
      const endNanos = startNanos + namespace.blockSizeNanos;
      return startNanos < range.endNanos && endNanos > range.startNanos;
    });
    this.#parts.queries.add('seriesBlocks', found.places.length * blocks.length);
    for (const length of found.lengths) this.#chunkBytes += length;
    if (this.#chunkBytes > fetchBytesMax) throw tooLarge();
    this.#found.push(found);
    await this.#hold(0);
  }

  async #placed(
    file: BlockFile,
    columns: SeriesColumns,
    entries: Uint32Array,
  ): Promise<ClosedPart> {
    const work = this.#work;
    work.foreseeSeries(entries.length);
    const hashOf = (name: SeriesName): number => this.#request.namespace.index.hashOfName(name);
    const answer = (this.#names ??= await AnswerNames.of(this.#open, this.#limit, hashOf, work));
    const before = answer.more;
    const columnPlaces = await columns.places();
    const names = await columns.entryNames();
    const kept: number[] = [];
    const places: number[] = [];
    for (const entry of entries) {
      // What is damaged is not served, its neighbours are.
      if (file.damaged.has(columnPlaces.offset(entry))) continue;
      const place = answer.placeOf(names.of(entry));
      if (work.spend(nameUnits)) await work.pause();
      if (place < 0) continue;
      if (kept.push(entry) % namesBetweenHolds === 0) await this.#hold(0);
      places.push(place);
    }
    if (!this.#fetchData) this.#parts.queries.add('metadata', answer.more - before);
    await this.#hold(0);
    return {
      file,
      places: Uint32Array.from(places),
      offsets: Float64Array.from(kept, (entry) => columnPlaces.offset(entry)),
      lengths: Uint32Array.from(kept, (entry) => columnPlaces.lengths[entry]!),
      checksums: Uint32Array.from(kept, (entry) => columnPlaces.checksums[entry]!),
    };
  }

  /** Takes memory for what was found, and so many bytes beside it. */
  async #hold(bytes: number): Promise<void> {
    const needed = bytesOf(this.#open) + (this.#names?.heldBytes ?? 0) + bytes;
    if (needed > fetchBytesMax) throw tooLarge();
    if (needed > this.#reservation.bytes) await this.#reservation.growTo(needed, this.#work.signal);
  }

  /** @returns null when it must be tried again */
  async bundle(): Promise<SeriesBundle | null> {
    const open = this.#open;
    const names = this.#names;
    if (this.#isStale) return null;
    if (names === null || (names.more === 0 && this.#found.length === 0)) return open;
    const chunkOffset = this.#layOut(names.count);
    const total = chunkOffset.at(-1)!;
    await this.#hold(total);
    // All of it is written below, so it is not filled with zeros first.
    const chunkData = new Uint8Array(Buffer.allocUnsafeSlow(total).buffer);
    const next = chunkOffset.slice(0, names.count);
    const targets = this.#found.map((part) =>
      part.places.map((place, i) => {
        const at = next[place]!;
        next[place] = at + part.lengths[i]!;
        return at;
      }),
    );
    for (let i = 0; i < open.seriesCount; i++) {
      const [start, end] = [open.chunkOffset[i]!, open.chunkOffset[i + 1]!];
      if (start < end) chunkData.set(open.chunkData.subarray(start, end), next[i]!);
      if (this.#work.spend(copyUnits)) await this.#work.pause();
    }
    const isRead = await this.#work.outside(this.#readAll(chunkData, targets));
    if (!isRead) return null;
    const bundle = this.#cut({ ...names.joined(), chunkData, chunkOffset }, targets);
    await this.#reservation.growTo(bytesOf(bundle), this.#work.signal);
    this.#reservation.shrinkTo(bytesOf(bundle));
    return bundle;
  }

  /** Where the chunks of each series begin, with the end of the last one: those of filesets, and then the open ones. */
  #layOut(count: number): Uint32Array {
    const { seriesCount, chunkOffset } = this.#open;
    const lengths = new Float64Array(count);
    for (const { places, lengths: ofPart } of this.#found) {
      for (let i = 0; i < places.length; i++) lengths[places[i]!]! += ofPart[i]!;
    }
    const offsets = new Uint32Array(count + 1);
    let total = 0;
    for (let place = 0; place < count; place++) {
      total += lengths[place]!;
      if (place < seriesCount) total += chunkOffset[place + 1]! - chunkOffset[place]!;
      if (total > fetchBytesMax) throw tooLarge();
      offsets[place + 1] = total;
    }
    return offsets;
  }

  /** @returns whether all could be read: what could not is noted as damage, or was replaced */
  async #readAll(out: Uint8Array, targets: readonly Uint32Array[]): Promise<boolean> {
    const { cache, queries } = this.#parts;
    const { files } = this.#request.namespace;
    let isWhole = true;
    for (let first = 0; first < this.#found.length; first += filesAtOnce) {
      this.#work.signal.throwIfAborted();
      const some = this.#found.slice(first, first + filesAtOnce);
      for (const { lengths } of some) {
        queries.add('diskRead', lengths.length);
        queries.add(
          'diskBytesRead',
          lengths.reduce((sum, length) => sum + length, 0),
        );
      }
      const read = await Promise.all(
        some.map((part, i) => readEntries(cache, files, part.file, part, out, targets[first + i]!)),
      );
      if (read.includes(false)) isWhole = false;
    }
    return isWhole;
  }

  /** Without what is deleted, or past retention. */
  #cut(bundle: SeriesBundle, targets: readonly Uint32Array[]): SeriesBundle {
    const { tombstones, expiredBeforeNanos } = this.#request.namespace;
    const isWhole = ({ file }: ClosedPart): boolean => file.blockStartNanos >= expiredBeforeNanos;
    if (tombstones.all.length === 0 && this.#found.every(isWhole)) return bundle;
    const keeper = (one: DatedFile) => keeperOf(one, tombstones, expiredBeforeNanos);
    const answered = this.#found.map(({ file, places, lengths }, i) => ({
      file,
      places,
      targets: targets[i]!,
      lengths,
    }));
    return cutAnswer(bundle, keeper, answered);
  }
}
