/**
 * What closed filesets have of an answer (docs/INDEX.md, Closed spans): each is asked of its columns, and what they have in common
 * with each other and with the index is joined by the names of the series.
 *
 * Memory and open filesets are read first. A row that left them since is in a fileset that was closed since, or in a later volume
 * of a closed one, so it is here.
 */
import { isOfWindows } from '#cluster/namespaces/samples.ts';
import type { AggregateRequest, TimeRange } from '#cluster/node/service.ts';
import { mergeBundles } from '#cluster/session/bundle_merge.ts';
import type { Turning } from '#engine/aside/aside.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { assert } from '#lib/assert.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { seriesIdOf } from '#lib/series_id/from_tags.ts';
import { compareBytes } from '#lib/tags.ts';
import type { TagAggregate } from '../../index/query/aggregate.ts';
import { FilesetCorrupt } from '../../persist/fileset/format.ts';
import { ColumnsQuery } from '../../persist/series_columns/columns_query.ts';
import type { EntryNames, SeriesColumns } from '../../persist/series_columns/series_columns.ts';
import type { BlockFile } from '../filesets/namespace_files.ts';
import { withColumns } from '../filesets/with_columns.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { ShardTable } from '../namespace/shards.ts';
import type { DatedFile } from '../tombstones/tombstones.ts';
import { cutAnswer, keeperOf } from './answer_cut.ts';
import { readEntries } from './file_entries.ts';
import { type AnswerMemory, fetchBytesMax, namesBytes, type ReadParts, tooLarge } from './read.ts';

/** About what it takes to name an entry, in units of work (lib/turns/turns.ts). */
const nameUnits = 2_000;
/** About what it takes to look at an entry of the answer for a value. */
const valueUnits = 20;

export interface ClosedParts extends ReadParts {
  readonly shards: ShardTable;
}

/** What is asked. */
export interface ClosedRequest {
  readonly namespace: NamespaceState;
  readonly range: TimeRange;
  /** Shards that are served; null for all. */
  readonly shards: Uint32Array | null;
}

/** Ascending entries of a fileset. */
type EntriesOf = (columns: SeriesColumns) => Promise<Uint32Array>;

/**
 * Series of closed filesets beside those of the index.
 * @param open what index, memory and open filesets have
 * @param entriesOf makes what tells, of each closed fileset, which are asked for
 * @param limit of series; 0 for none
 * @param fetchData false: without chunks
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
  if (!isOfWindows(request.namespace.definition)) return { bundle: open, exhaustive: true };
  let asked: EntriesOf | null = null;
  const bundles: SeriesBundle[] = [open];
  let bytes = bytesOf(open);
  await eachClosed(request, work.signal, async (file, columns) => {
    const read = new ClosedRead(parts, request.namespace, file, columns);
    asked ??= await entriesOf();
    const entries = await asked(columns);
    if (entries.length === 0) return;
    const bundle = await read.bundle(
      entries,
      fetchData,
      async (more) => {
        bytes += more;
        if (bytes > fetchBytesMax) throw tooLarge();
        await reservation.growTo(Math.min(bytes, reservation.bytesMax), work.signal);
      },
      work,
    );
    bundles.push(bundle);
  });
  if (bundles.length === 1) return { bundle: open, exhaustive: true };
  const limits = { seriesMax: limit, bytesMax: fetchBytesMax };
  const merged = await mergeBundles(bundles, limits, work, unlimitedReadBytes);
  const { bundle, seriesMatched } = merged;
  await reservation.growTo(bytesOf(bundle), work.signal);
  reservation.shrinkTo(bytesOf(bundle));
  return { bundle, exhaustive: bundle.seriesCount === seriesMatched };
}

const bytesOf = (bundle: SeriesBundle): number => namesBytes(bundle) + bundle.chunkData.length;

/** Entries that match a query. @throws {TsdbError} as `ColumnsQuery.of` */
export async function entriesOfQuery(query: IndexQuery, turning: Turning): Promise<EntriesOf> {
  const asked = await ColumnsQuery.of(query, turning);
  return async (columns) => enumerated(await asked.entries(columns));
}

/** Entries of series with these IDs. */
export function entriesOfIds(ids: readonly Uint8Array[]): EntriesOf {
  return async (columns) => {
    const names = await columns.entryNames();
    const found = new Set<number>();
    for (const id of ids) {
      const entry = entryOfId(names, columns.entryCount, id);
      if (entry >= 0) found.add(entry);
    }
    return Uint32Array.from(found).sort();
  };
}

/** Entries are in the order of their IDs. */
function entryOfId(names: EntryNames, entryCount: number, id: Uint8Array): number {
  let [low, high] = [0, entryCount];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const { idScheme, tags, explicitId } = names.of(middle);
    const order = compareBytes(seriesIdOf(idScheme, tags, explicitId) ?? noBytes, id);
    if (order === 0) return middle;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return -1;
}

const noBytes = new Uint8Array(0);

function enumerated(bits: Uint32Array): Uint32Array {
  const entries: number[] = [];
  for (let i = 0; i < bits.length; i++) {
    for (let word = bits[i]!; word !== 0; word &= word - 1) {
      entries.push(32 * i + 31 - Math.clz32(word & -word));
    }
  }
  return Uint32Array.from(entries);
}

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
  await eachClosed(request, work.signal, async (_, columns) => {
    asked ??= await ColumnsQuery.of(query, turning);
    const bits = await asked.entries(columns);
    if (bits.every((word) => word === 0)) return;
    hasClosed = true;
    for (const name of columns.names) {
      if (tagNames.length > 0 && !tagNames.includes(name)) continue;
      const column = (await columns.column(name))!;
      const numbers = new Uint8Array(column.valueCount + 1);
      for (let entry = 0; entry < columns.entryCount; entry++) {
        if ((bits[entry >>> 5]! & (1 << (entry & 31))) !== 0) numbers[column.numberAt(entry)] = 1;
      }
      if (work.spend(valueUnits * columns.entryCount)) await work.pause();
      if (!numbers.includes(1, 1)) continue;
      let values = found.get(name);
      if (values === undefined) found.set(name, (values = new Set()));
      if (namesOnly) continue;
      const all = values;
      column.eachValue(1, (bytes, start, end, number) => {
        if (numbers[number] === 1) all.add(textOf(bytes, start, end));
        return true;
      });
    }
  });
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

/** Each closed fileset of the range, pinned while it is visited; one that is damaged is set aside. */
async function eachClosed(
  { namespace, range, shards }: ClosedRequest,
  signal: AbortSignal,
  visit: (file: BlockFile, columns: SeriesColumns) => Promise<void>,
): Promise<void> {
  const { files } = namespace;
  const { startNanos, endNanos } = range;
  const ids = shards === null ? files.shardIds() : [...shards];
  const pinned = ids.flatMap((shard) => files.pinRange(shard, startNanos, endNanos, 'closed'));
  try {
    for (const file of pinned) {
      signal.throwIfAborted();
      try {
        await withColumns(files, file, (columns) => visit(file, columns));
      } catch (error) {
        if (!(error instanceof FilesetCorrupt)) throw error;
        // When its folder was removed meanwhile it is not in use any more. What is missing is told as lost.
        if (file.retired === null) files.setAside(file, error.message);
      }
    }
  } finally {
    for (const file of pinned) files.unpin(file);
  }
}

/** Some series of one closed fileset. */
class ClosedRead {
  readonly #parts: ReadParts;
  readonly #namespace: NamespaceState;
  readonly #file: BlockFile;
  readonly #columns: SeriesColumns;

  constructor(
    parts: ReadParts,
    namespace: NamespaceState,
    file: BlockFile,
    columns: SeriesColumns,
  ) {
    this.#parts = parts;
    this.#namespace = namespace;
    this.#file = file;
    this.#columns = columns;
  }

  /** @param take told how many bytes more it takes, before it does */
  async bundle(
    entries: Uint32Array,
    fetchData: boolean,
    take: (bytes: number) => Promise<void>,
    work: Turning['work'],
  ): Promise<SeriesBundle> {
    const places = await this.#columns.places();
    const offsets = Float64Array.from(entries, (entry) => places.offset(entry));
    // What is damaged is not served, its neighbours are.
    const kept = [...entries.keys()].filter((i) => !this.#file.damaged.has(offsets[i]!));
    const names = await this.#names(entries, kept, work);
    await take(namesBytes(names));
    const chunkOffset = new Uint32Array(kept.length + 1);
    if (!fetchData) return { ...names, chunkData: new Uint8Array(0), chunkOffset };
    for (const [place, i] of kept.entries()) {
      const end = chunkOffset[place]! + places.lengths[entries[i]!]!;
      if (end > fetchBytesMax) throw tooLarge();
      chunkOffset[place + 1] = end;
    }
    const chunkBytes = chunkOffset[kept.length]!;
    await take(2 * chunkBytes);
    this.#parts.queries.add('diskRead', kept.length);
    this.#parts.queries.add('diskBytesRead', chunkBytes);
    const chunkData = new Uint8Array(chunkBytes);
    const ranges = {
      offsets: Float64Array.from(kept, (i) => offsets[i]!),
      lengths: Uint32Array.from(kept, (i) => places.lengths[entries[i]!]!),
      checksums: Uint32Array.from(kept, (i) => places.checksums[entries[i]!]!),
    };
    const targets = chunkOffset.slice(0, kept.length);
    const { files, tombstones, expiredBeforeNanos } = this.#namespace;
    const file = this.#file;
    const isRead = await work.outside(
      readEntries(this.#parts.cache, files, file, ranges, chunkData, targets),
    );
    // Without what is damaged, which is noted now.
    if (!isRead && file.retired === null) return this.bundle(entries, fetchData, take, work);
    const bundle = { ...names, chunkData, chunkOffset };
    if (!isRead)
      return { ...bundle, chunkData: new Uint8Array(0), chunkOffset: chunkOffset.fill(0) };
    const keeper = (one: DatedFile) => keeperOf(one, tombstones, expiredBeforeNanos);
    const answered = {
      file,
      places: Uint32Array.from(kept.keys()),
      targets,
      lengths: ranges.lengths,
    };
    return cutAnswer(bundle, keeper, [answered]);
  }

  async #names(
    entries: Uint32Array,
    kept: readonly number[],
    work: Turning['work'],
  ): Promise<Omit<SeriesBundle, 'chunkData' | 'chunkOffset'>> {
    const names = await this.#columns.entryNames();
    const tags: Uint8Array[] = [];
    const ids: Uint8Array[] = [];
    const seriesCount = kept.length;
    const tagsOffset = new Uint32Array(seriesCount + 1);
    const idOffset = new Uint32Array(seriesCount + 1);
    const idScheme = new Uint8Array(seriesCount);
    for (const [place, i] of kept.entries()) {
      const name = names.of(entries[i]!);
      tags.push(name.tags.slice());
      ids.push(name.explicitId.slice());
      tagsOffset[place + 1] = tagsOffset[place]! + name.tags.length;
      idOffset[place + 1] = idOffset[place]! + name.explicitId.length;
      idScheme[place] = name.idScheme;
      if (work.spend(nameUnits)) await work.pause();
    }
    const [tagsData, idData] = [tags, ids].map((all) => new Uint8Array(Buffer.concat(all)));
    assert(tagsData!.length === tagsOffset[seriesCount], 'tags are as long as they are');
    return { seriesCount, tagsData: tagsData!, tagsOffset, idScheme, idData: idData!, idOffset };
  }
}
