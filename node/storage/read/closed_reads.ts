/**
 * What closed filesets have of an answer (docs/INDEX.md, Closed spans): each is asked of its columns, and what they have in common
 * with each other and with the index is joined by the names of the series.
 *
 * Memory and open filesets are read first. A row that left them since is in a fileset that was closed since, or in a later volume
 * of a closed one, so it is here.
 */
import { isOfWindows } from '#cluster/namespaces/samples.ts';
import type { AggregateRequest, TimeRange } from '#cluster/node/service.ts';
import type { Turning } from '#engine/aside/aside.ts';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { seriesIdOf } from '#lib/series_id/from_tags.ts';
import { copyOfName, type SeriesName } from '#lib/series_id/series_name.ts';
import { compareBytes } from '#lib/tags.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { TagAggregate } from '../../index/query/aggregate.ts';
import { popCount } from '../../index/query/slot_set.ts';
import { enumerateBits } from '../../index/tables/postings.ts';
import { FilesetCorrupt } from '../../persist/fileset/format.ts';
import { ColumnsQuery } from '../../persist/series_columns/columns_query.ts';
import { textsOfBlock } from '../../persist/series_columns/format.ts';
import type { EntryNames, SeriesColumns } from '../../persist/series_columns/series_columns.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import type { NamespaceFiles } from '../filesets/namespace_files.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { DatedFile } from '../tombstones/tombstones.ts';
import { cutAnswer, keeperOf } from './answer_cut.ts';
import { readEntries } from './file_entries.ts';
import {
  type AnswerMemory,
  fetchBytesMax,
  filesAtOnce,
  namesBytes,
  type ReadParts,
  tooLarge,
} from './read.ts';

/** About what it takes to name an entry, in units of work (lib/turns/turns.ts). */
const nameUnits = 1_000;
/** About what it takes to look at a value. */
const valueUnits = 40;
/** What a name takes in memory beside its bytes, while an answer is made. */
const nameOverheadBytes = 200;

/** What is asked. */
export interface ClosedRequest {
  readonly namespace: NamespaceState;
  readonly range: TimeRange;
  /** Shards that are served; null for all. */
  readonly shards: Uint32Array | null;
  /** How often all had been deleted when the index was asked: of what it was before and after nothing is answered. */
  readonly truncations: number;
}

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
      const names = new AnswerNames(open, limit);
      const read = new ClosedRead(parts, namespace, names, bytesOf(open), reservation, work);
      for (const file of pinned) {
        work.signal.throwIfAborted();
        await read.find(file, asked, fetchData);
      }
      const bundle = await read.bundle(open);
      const isStill = namespace.truncations === request.truncations;
      if (bundle !== null && isStill) return { bundle, exhaustive: names.isAll };
      // What is damaged is noted now, and is not read again; what was replaced meanwhile is read as it is now.
    } finally {
      for (const file of pinned) namespace.files.unpin(file);
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
    const found: number[] = [];
    let low = 0;
    for (const id of idsOfShard.get(shard) ?? []) {
      const names = await columns.entryNames();
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

/**
 * Names and values of closed filesets beside those of the index, sorted by bytes.
 * @param open what the index has, its first ones where it has more than the limit
 */
export async function withClosedTags(
  request: ClosedRequest,
  { query, tagNames, namesOnly, limit }: AggregateRequest,
  open: { readonly tags: readonly TagAggregate[]; readonly exhaustive: boolean },
  turning: Turning,
): Promise<{ readonly tags: TagAggregate[]; readonly exhaustive: boolean }> {
  const whole = { tags: [...open.tags], exhaustive: open.exhaustive };
  if (!isOfWindows(request.namespace.definition)) return whole;
  const found = new Map<string, Set<string>>();
  let hasClosed = false;
  let asked: ColumnsQuery | null = null;
  const { work } = turning;
  await eachClosed(request, work.signal, async (columns) => {
    asked ??= await ColumnsQuery.of(query, turning);
    const bits = await asked.entries(columns);
    if (bits.every((word) => word === 0)) return;
    hasClosed = true;
    for (const name of columns.names) {
      if (tagNames.length > 0 && !tagNames.includes(name)) continue;
      const column = (await columns.column(name))!;
      const seen = column.valuesOf(bits);
      if (work.spend(column.lookedAt)) await work.pause();
      if (!seen.includes(1)) continue;
      let values = found.get(name);
      if (values === undefined) found.set(name, (values = new Set()));
      if (namesOnly) continue;
      for (let next = 1; next <= column.valueCount; ) {
        next = column.eachOfBlock(next, (bytes, start, end, number) => {
          if (seen[number] === 1) values.add(textOf(bytes, start, end));
        });
        if (work.spend(valueUnits * textsOfBlock)) await work.pause();
      }
    }
  });
  if (request.namespace.truncations !== request.truncations) return { tags: [], exhaustive: true };
  if (!hasClosed) return whole;
  for (const { name, values } of open.tags) {
    const known = found.get(name);
    if (known === undefined) found.set(name, new Set(values));
    else for (const value of values) known.add(value);
  }
  return cutTags(found, limit, open.exhaustive);
}

function textOf(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8');
}

/** The limit counts names and values, in the order of the answer. */
function cutTags(
  found: ReadonlyMap<string, ReadonlySet<string>>,
  limit: number,
  isWhole: boolean,
): { tags: TagAggregate[]; exhaustive: boolean } {
  const tags: TagAggregate[] = [];
  let room = limit > 0 ? limit : Number.POSITIVE_INFINITY;
  for (const name of sortedByBytes(found.keys())) {
    if (room === 0) return { tags, exhaustive: false };
    room -= 1;
    const values = sortedByBytes(found.get(name)!);
    tags.push({ name, values: values.length > room ? values.slice(0, room) : values });
    if (values.length > room) return { tags, exhaustive: false };
    room -= values.length;
  }
  return { tags, exhaustive: isWhole };
}

function sortedByBytes(texts: Iterable<string>): string[] {
  return Array.from(texts, (text) => ({ text, bytes: Buffer.from(text) }))
    .sort((a, b) => Buffer.compare(a.bytes, b.bytes))
    .map(({ text }) => text);
}

/** Closed filesets of the range, pinned: of each shard by ascending block. */
function pinClosed({ namespace, range, shards }: ClosedRequest): BlockFile[] {
  const { files, expiredBeforeNanos } = namespace;
  // The rest of a fileset may be past retention.
  const startNanos = range.startNanos > expiredBeforeNanos ? range.startNanos : expiredBeforeNanos;
  const ids = shards === null ? files.shardIds() : [...shards];
  return ids.flatMap((shard) => files.pinRange(shard, startNanos, range.endNanos, 'closed'));
}

/** Visits each closed fileset of the range; one that is damaged is set aside. */
async function eachClosed(
  request: ClosedRequest,
  signal: AbortSignal,
  visit: (columns: SeriesColumns) => Promise<void>,
): Promise<void> {
  const { files } = request.namespace;
  const pinned = pinClosed(request);
  try {
    for (const file of pinned) {
      signal.throwIfAborted();
      await visitColumns(files, file, visit);
    }
  } finally {
    for (const file of pinned) files.unpin(file);
  }
}

/** @returns false when the fileset is damaged: it is set aside, and what is missing is told as lost */
async function visitColumns(
  files: NamespaceFiles,
  file: BlockFile,
  visit: (columns: SeriesColumns) => Promise<void>,
): Promise<boolean> {
  try {
    await files.columns.visit(file, visit);
    return true;
  } catch (error) {
    if (!(error instanceof FilesetCorrupt)) throw error;
    // When its folder was removed meanwhile it is not in use any more.
    if (file.retired === null) files.setAside(file, error.message);
    return false;
  }
}

/** Names of the series of an answer, each once, and how many of them there may be. */
class AnswerNames {
  readonly #limit: number;
  /** Place in the answer by name, one character a byte. */
  readonly #places = new Map<string, number>();
  readonly #openCount: number;
  /** Those that are beside the open ones. */
  readonly more: SeriesName[] = [];
  /** Of tags and IDs of those. */
  bytes = 0;
  /** No series was left out. */
  isAll = true;

  constructor(open: SeriesBundle, limit: number) {
    this.#limit = limit;
    this.#openCount = open.seriesCount;
    const tags = Buffer.from(open.tagsData.buffer, open.tagsData.byteOffset, open.tagsData.length);
    const ids = Buffer.from(open.idData.buffer, open.idData.byteOffset, open.idData.length);
    for (let i = 0; i < open.seriesCount; i++) {
      const name = tags.toString('latin1', open.tagsOffset[i]!, open.tagsOffset[i + 1]!);
      const id = ids.toString('latin1', open.idOffset[i]!, open.idOffset[i + 1]!);
      this.#places.set(keyOf(name, open.idScheme[i]!, id), i);
    }
  }

  get count(): number {
    return this.#openCount + this.more.length;
  }

  /** Place of a series, which is made when it is new; -1 beyond the limit. @param name borrowed */
  placeOf(name: SeriesName): number {
    const key = keyOf(latin1Of(name.tags), name.idScheme, latin1Of(name.explicitId));
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    const place = this.count;
    if (this.#limit > 0 && place >= this.#limit) {
      this.isAll = false;
      return -1;
    }
    this.#places.set(key, place);
    this.more.push(copyOfName(name));
    this.bytes += name.tags.length + name.explicitId.length;
    return place;
  }
}

const keyOf = (tags: string, idScheme: number, id: string): string =>
  `${tags}${String.fromCharCode(idScheme)}${id}`;

function latin1Of({ buffer, byteOffset, length }: Uint8Array): string {
  return length === 0 ? '' : Buffer.from(buffer, byteOffset, length).toString('latin1');
}

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
  readonly #namespace: NamespaceState;
  readonly #names: AnswerNames;
  readonly #reservation: AnswerMemory;
  readonly #work: Work;
  readonly #openBytes: number;
  readonly #found: ClosedPart[] = [];
  #chunkBytes = 0;
  /** Something went away before it could be asked. */
  #isStale = false;

  constructor(
    parts: ReadParts,
    namespace: NamespaceState,
    names: AnswerNames,
    openBytes: number,
    reservation: AnswerMemory,
    work: Work,
  ) {
    this.#parts = parts;
    this.#namespace = namespace;
    this.#names = names;
    this.#reservation = reservation;
    this.#work = work;
    this.#openBytes = openBytes;
  }

  /** Finds series of a fileset, which is pinned. */
  async find(file: BlockFile, asked: EntriesOf, fetchData: boolean): Promise<void> {
    let part: ClosedPart | null = null;
    const { files } = this.#namespace;
    const isAsked = await visitColumns(files, file, async (columns) => {
      const entries = await asked(file, columns);
      part = entries.length === 0 ? null : await this.#placed(file, columns, entries);
    });
    // Retired without having been damaged: another one has its blocks now.
    if (!isAsked && file.retired !== 'set aside') this.#isStale = true;
    if (!fetchData || part === null) return;
    const { lengths } = part as ClosedPart;
    for (const length of lengths) this.#chunkBytes += length;
    if (this.#chunkBytes > fetchBytesMax) throw tooLarge();
    this.#found.push(part);
    await this.#hold(0);
  }

  async #placed(
    file: BlockFile,
    columns: SeriesColumns,
    entries: Uint32Array,
  ): Promise<ClosedPart> {
    const columnPlaces = await columns.places();
    const names = await columns.entryNames();
    const kept: number[] = [];
    const places: number[] = [];
    for (const entry of entries) {
      // What is damaged is not served, its neighbours are.
      if (file.damaged.has(columnPlaces.offset(entry))) continue;
      const place = this.#names.placeOf(names.of(entry));
      if (this.#work.spend(nameUnits)) await this.#work.pause();
      if (place < 0) continue;
      kept.push(entry);
      places.push(place);
    }
    return {
      file,
      places: Uint32Array.from(places),
      offsets: Float64Array.from(kept, (entry) => columnPlaces.offset(entry)),
      lengths: Uint32Array.from(kept, (entry) => columnPlaces.lengths[entry]!),
      checksums: Uint32Array.from(kept, (entry) => columnPlaces.checksums[entry]!),
    };
  }

  /** Takes memory for names, which are held twice on the way, and so many bytes beside what index and memory have. */
  async #hold(bytes: number): Promise<void> {
    const { count, bytes: nameBytes } = this.#names;
    const needed = this.#openBytes + 3 * nameBytes + nameOverheadBytes * count + bytes;
    if (needed > this.#reservation.bytes) await this.#reservation.growTo(needed, this.#work.signal);
  }

  /** @returns null when it must be tried again */
  async bundle(open: SeriesBundle): Promise<SeriesBundle | null> {
    if (this.#isStale) return null;
    const { more, count, bytes } = this.#names;
    const hasData = this.#found.length > 0;
    if (more.length === 0 && !hasData) return open;
    const lengths = new Float64Array(count);
    for (const part of this.#found) {
      for (const [i, place] of part.places.entries()) lengths[place]! += part.lengths[i]!;
    }
    const chunkOffset = new Uint32Array(count + 1);
    let total = 0;
    for (let place = 0; place < count; place++) {
      total += lengths[place]!;
      if (place < open.seriesCount)
        total += open.chunkOffset[place + 1]! - open.chunkOffset[place]!;
      if (total > fetchBytesMax) throw tooLarge();
      chunkOffset[place + 1] = total;
    }
    await this.#hold(total + bytes);
    // All of it is written below, so it is not filled with zeros first.
    const chunkData = new Uint8Array(Buffer.allocUnsafeSlow(total).buffer);
    const next = chunkOffset.slice(0, count);
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
    }
    const isRead = await this.#work.outside(this.#readAll(chunkData, targets));
    if (!isRead) return null;
    const names = joinedNames(open, more);
    const whole = { ...names, chunkData, chunkOffset };
    const cut = this.#cut(whole, targets);
    await this.#reservation.growTo(bytesOf(cut), this.#work.signal);
    this.#reservation.shrinkTo(bytesOf(cut));
    return cut;
  }

  /** @returns whether all could be read: what could not is noted as damage, or was replaced */
  async #readAll(out: Uint8Array, targets: readonly Uint32Array[]): Promise<boolean> {
    const { cache, queries } = this.#parts;
    const { files } = this.#namespace;
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
    const { tombstones, expiredBeforeNanos } = this.#namespace;
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

/** Names of the open series, and then the others. */
function joinedNames(
  open: SeriesBundle,
  more: readonly SeriesName[],
): Omit<SeriesBundle, 'chunkData' | 'chunkOffset'> {
  const seriesCount = open.seriesCount + more.length;
  const tagsOffset = new Uint32Array(seriesCount + 1);
  const idOffset = new Uint32Array(seriesCount + 1);
  const idScheme = new Uint8Array(seriesCount);
  tagsOffset.set(open.tagsOffset);
  idOffset.set(open.idOffset);
  idScheme.set(open.idScheme);
  for (const [i, name] of more.entries()) {
    const place = open.seriesCount + i;
    tagsOffset[place + 1] = tagsOffset[place]! + name.tags.length;
    idOffset[place + 1] = idOffset[place]! + name.explicitId.length;
    idScheme[place] = name.idScheme;
  }
  const tagsData = new Uint8Array(tagsOffset[seriesCount]!);
  const idData = new Uint8Array(idOffset[seriesCount]!);
  tagsData.set(open.tagsData.subarray(0, tagsOffset[open.seriesCount]!));
  idData.set(open.idData.subarray(0, idOffset[open.seriesCount]!));
  for (const [i, { tags, explicitId }] of more.entries()) {
    tagsData.set(tags, tagsOffset[open.seriesCount + i]!);
    idData.set(explicitId, idOffset[open.seriesCount + i]!);
  }
  return { seriesCount, tagsData, tagsOffset, idScheme, idData, idOffset };
}
