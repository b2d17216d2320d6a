/** Series of messages taken apart: one of floats for each numeric field. */
import { bundleBytes } from '#cluster/node/bundle_pages.ts';
import { encodeRawChunk } from '#engine/codec/chunk.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { FieldColumns } from '#engine/messages/field_columns.ts';
import type { NumericField } from '#engine/messages/numeric_fields.ts';
import type { MessageType } from '#engine/messages/schema.ts';
import { FloatsBeside } from '#engine/store/read/decided.ts';
import { apart, eachTypedInOrder } from '#engine/store/typed_chunks.ts';
import { badRequest } from '#lib/errors.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { decodeTags, encodeTags } from '#lib/tags.ts';
import type { Work } from '#lib/turns/turns.ts';
import { within64Bits } from './namespace_source.ts';
import type { SelectLimits, SelectRange } from './storage.ts';

/** Label that names a field of a message by its path. */
export const fieldLabel = '__field__';

export interface FieldSelection {
  readonly fields: readonly NumericField[];
  /** What are no messages is asked for, too. */
  readonly withOthers: boolean;
}

/** About what a row of a field takes, a field of a chunk, and a series, in units of work (lib/turns/turns.ts). */
const rowUnits = 25;
const fieldUnits = 50;
const seriesUnits = 500;

/** Rows of a field that are collected before they are a chunk. */
const chunkRowsMost = 4_096;
/** Of those there is room for so many at least. */
const rowsRoomLeast = 16;
/** About what an array takes beside its elements. */
const arrayBytes = 100;

/** Rows of a field of a series, as they come. */
class Rows {
  readonly #version: number;
  #timestampNanos = new BigInt64Array(0);
  #values = new Float64Array(0);
  #count = 0;
  readonly #chunks: Uint8Array[] = [];

  /** @param version of all of them, where several have one time */
  constructor(version: number) {
    this.#version = version;
  }

  /**
   * @param count of the rows of both columns
   * @returns bytes that are held more than before
   */
  add(timestampNanos: BigInt64Array, values: Float64Array, count: number): number {
    const before = this.#count;
    this.#count += count;
    let bytes = 0;
    if (this.#count > this.#values.length) {
      const room = Math.max(this.#count, 2 * this.#values.length, rowsRoomLeast);
      bytes = 16 * (room - this.#values.length) + (before === 0 ? 2 * arrayBytes : 0);
      this.#timestampNanos = grownTo(new BigInt64Array(room), this.#timestampNanos);
      this.#values = grownTo(new Float64Array(room), this.#values);
    }
    for (let row = 0; row < count; row++) {
      this.#timestampNanos[before + row] = timestampNanos[row]!;
      this.#values[before + row] = values[row]!;
    }
    return this.#count < chunkRowsMost ? bytes : bytes + this.#close();
  }

  /** @returns bytes that are held more than before */
  addChunk(chunk: Uint8Array): number {
    this.#chunks.push(chunk);
    return chunk.length + arrayBytes;
  }

  #close(): number {
    const before = 16 * this.#values.length + 2 * arrayBytes;
    const timestampNanos = this.#timestampNanos.subarray(0, this.#count);
    const values = this.#values.subarray(0, this.#count);
    const version = this.#version;
    const bytes = this.addChunk(encodeRawChunk({ timestampNanos, values, version }));
    this.#timestampNanos = new BigInt64Array(0);
    this.#values = new Float64Array(0);
    this.#count = 0;
    return bytes - before;
  }

  /** What there is. @returns bytes that are held more than before */
  end(): { readonly chunks: readonly Uint8Array[]; readonly bytes: number } {
    const bytes = this.#count > 0 ? this.#close() : 0;
    return { chunks: this.#chunks, bytes };
  }
}

function grownTo<Column extends BigInt64Array | Float64Array>(
  larger: Column,
  column: Column,
): Column {
  larger.set(column as BigInt64Array & Float64Array);
  return larger;
}

/** By which a series is told from others with its tags. */
interface SeriesId {
  readonly scheme: number;
  readonly bytes: Uint8Array;
}

/** Of a field: no series that is stored is one. */
const noId: SeriesId = { scheme: idSchemeCode.explicit, bytes: new Uint8Array(0) };

/** Series as they come, in parts that are put together once; what they take is taken of the read's memory. */
class Parts {
  readonly #limits: SelectLimits;
  readonly #work: Work;
  readonly #tags: Uint8Array[] = [];
  readonly #ids: SeriesId[] = [];
  readonly #chunks: (readonly Uint8Array[])[] = [];
  #held = 0;
  /** There were more than the limit. */
  isCut = false;

  constructor(limits: SelectLimits, work: Work) {
    this.#limits = limits;
    this.#work = work;
  }

  /**
   * Whether a series more may come, after those that are there and `openCount` that are being made.
   * @throws {TsdbError} BAD_REQUEST over the limit, when the answer has to be exhaustive
   */
  hasRoom(openCount: number): boolean {
    const { seriesMax, requireExhaustive } = this.#limits;
    if (seriesMax === 0 || this.#tags.length + openCount < seriesMax) return true;
    if (requireExhaustive) throw tooManySeries(seriesMax);
    this.isCut = true;
    return false;
  }

  /** @returns whether so many bytes are held now; else `hold` waits for them */
  tryHold(bytes: number): boolean {
    const { memory } = this.#limits;
    if (bytes < 0) memory?.give(-bytes);
    else if (memory?.tryGrow(bytes) === false) return false;
    this.#held += bytes;
    return true;
  }

  async hold(bytes: number): Promise<void> {
    if (this.tryHold(bytes)) return;
    await this.#limits.memory?.grow(bytes, this.#work.signal);
    this.#held += bytes;
  }

  async add(tags: Uint8Array, chunks: readonly Uint8Array[], id: SeriesId = noId): Promise<void> {
    this.#tags.push(tags);
    this.#ids.push(id);
    this.#chunks.push(chunks);
    await this.hold(tags.length + id.bytes.length + arrayBytes);
    if (this.#work.spend(seriesUnits)) await this.#work.pause();
  }

  /** @param source what they were made of, whose memory is given back */
  async end(source: SeriesBundle): Promise<SeriesBundle> {
    const { memory } = this.#limits;
    const seriesCount = this.#tags.length;
    const tagsOffset = new Uint32Array(seriesCount + 1);
    const idOffset = new Uint32Array(seriesCount + 1);
    const chunkOffset = new Uint32Array(seriesCount + 1);
    for (const [i, { bytes }] of this.#ids.entries()) idOffset[i + 1] = idOffset[i]! + bytes.length;
    for (const [i, tags] of this.#tags.entries()) tagsOffset[i + 1] = tagsOffset[i]! + tags.length;
    for (const [i, chunks] of this.#chunks.entries()) {
      chunkOffset[i + 1] = chunks.reduce((sum, { length }) => sum + length, chunkOffset[i]!);
    }
    const bundle = {
      seriesCount,
      tagsData: new Uint8Array(tagsOffset[seriesCount]!),
      tagsOffset,
      idScheme: Uint8Array.from(this.#ids, ({ scheme }) => scheme),
      idData: new Uint8Array(idOffset[seriesCount]!),
      idOffset,
      chunkData: new Uint8Array(chunkOffset[seriesCount]!),
      chunkOffset,
    };
    await memory?.grow(bundleBytes(bundle), this.#work.signal);
    for (const [i, tags] of this.#tags.entries()) {
      bundle.tagsData.set(tags, tagsOffset[i]);
      bundle.idData.set(this.#ids[i]!.bytes, idOffset[i]);
      let at = chunkOffset[i]!;
      for (const chunk of this.#chunks[i]!) {
        bundle.chunkData.set(chunk, at);
        at += chunk.length;
      }
      if (this.#work.spend(seriesUnits + ((at - chunkOffset[i]!) >> 3))) await this.#work.pause();
    }
    memory?.give(this.#held + bundleBytes(source));
    return bundle;
  }
}

/** Of a series as it is stored. */
const othersPlace = -1;

interface Expanding {
  readonly selection: FieldSelection;
  readonly columns: FieldColumns;
  readonly version: number;
  readonly range: readonly [startNanos: bigint, endNanos: bigint];
  readonly parts: Parts;
  readonly work: Work;
}

/** How the rows of a namespace are read. */
export interface FieldReading {
  /** The schema of rows with a layout, null when they are not to be read. */
  readonly typeOf: (layout: number) => MessageType | null;
  /** Of what other namespaces have of the same field and time the highest one counts. */
  readonly version: number;
}

/**
 * @param bundle series of a namespace with a schema; its chunks are given back to the memory of the read
 * @returns series with at least a row; cut at the limit, unless that has to be kept
 * @throws {TsdbError} BAD_REQUEST over the limit on series, RESOURCE_EXHAUSTED
 */
export async function fieldSeries(
  bundle: SeriesBundle,
  selection: FieldSelection,
  { typeOf, version }: FieldReading,
  range: SelectRange,
  limits: SelectLimits,
  work: Work,
): Promise<{ readonly bundle: SeriesBundle; readonly isCut: boolean }> {
  const { startNanos, endNanos } = within64Bits(range);
  const parts = new Parts(limits, work);
  const columns = new FieldColumns(selection.fields, typeOf);
  const within = [startNanos, endNanos] as const;
  const expanding = { selection, columns, version, range: within, parts, work };
  for (let i = 0; i < bundle.seriesCount && !parts.isCut; i++) {
    const chunks = bundle.chunkData.subarray(bundle.chunkOffset[i]!, bundle.chunkOffset[i + 1]!);
    await expand(tagsAt(bundle, i), idAt(bundle, i), chunks, expanding);
  }
  return { bundle: await parts.end(bundle), isCut: parts.isCut };
}

/**
 * As `fieldSeries`, where only the series are asked for: each has all fields.
 * @param known series that others have answered, by their tags; those of this answer are added
 */
export async function allFieldSeries(
  bundle: SeriesBundle,
  { fields, withOthers }: FieldSelection,
  known: Set<string>,
  limits: SelectLimits,
  work: Work,
): Promise<{ readonly bundle: SeriesBundle; readonly isCut: boolean }> {
  const parts = new Parts(limits, work);
  const add = async (tags: Uint8Array, id?: SeriesId): Promise<void> => {
    const key = Buffer.from(tags.buffer, tags.byteOffset, tags.length).toString('latin1');
    if (known.has(key) || !parts.hasRoom(0)) return;
    known.add(key);
    await parts.hold(key.length);
    await parts.add(tags, [], id);
  };
  for (let i = 0; i < bundle.seriesCount && !parts.isCut; i++) {
    const tags = tagsAt(bundle, i);
    const withField = taggerOf(tags);
    // A series without a message would be known by its rows alone: it is one of messages as long as these are asked for.
    if (withOthers && fields.length === 0) await add(tags.slice(), idAt(bundle, i));
    for (const { path } of fields) {
      if (parts.isCut) break;
      await add(withField(path));
    }
  }
  return { bundle: await parts.end(bundle), isCut: parts.isCut };
}

const tagsAt = ({ tagsData, tagsOffset }: SeriesBundle, i: number): Uint8Array =>
  tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!);

function idAt({ idScheme, idData, idOffset }: SeriesBundle, i: number): SeriesId {
  return { scheme: idScheme[i]!, bytes: idData.slice(idOffset[i]!, idOffset[i + 1]!) };
}

async function expand(
  tags: Uint8Array,
  id: SeriesId,
  chunks: Uint8Array,
  { selection, columns, version, range, parts, work }: Expanding,
): Promise<void> {
  const { fields, withOthers } = selection;
  const { floats, typed } = apart([chunks]);
  const beside = new FloatsBeside(floats);
  /** By the place of the field. */
  const open = new Map<number, Rows>();
  const rowsAt = (place: number): Rows | null => {
    let rows = open.get(place);
    if (rows === undefined) {
      if (!parts.hasRoom(open.size)) return null;
      rows = new Rows(version);
      open.set(place, rows);
    }
    return rows;
  };
  const addOther = async (chunk: Uint8Array): Promise<void> => {
    await parts.hold(rowsAt(othersPlace)?.addChunk(chunk.slice()) ?? 0);
    if (work.spend(seriesUnits + (chunk.length >> 3))) await work.pause();
  };
  for (const chunk of eachTypedInOrder(typed, range)) {
    for (const staying of apart([beside.stayingOf(chunk)]).typed) {
      const read = columns.read(staying, range);
      for (let place = 0; place < fields.length; place++) {
        const rowCount = read.read(place);
        if (rowCount > 0) {
          const bytes = rowsAt(place)?.add(read.timestampNanos, read.values, rowCount) ?? 0;
          if (!parts.tryHold(bytes)) await parts.hold(bytes);
        }
        if (work.spend(fieldUnits + rowUnits * rowCount)) await work.pause();
      }
      if (withOthers && read.hasOthers) await addOther(staying);
    }
  }
  if (withOthers) for (const chunk of beside.staying()) await addOther(chunk);
  const withField = taggerOf(tags);
  for (const [place, rows] of [...open].sort(([a], [b]) => a - b)) {
    const { chunks: made, bytes } = rows.end();
    await parts.hold(bytes);
    if (place === othersPlace) await parts.add(tags.slice(), made, id);
    else await parts.add(withField(fields[place]!.path), made);
  }
}

function tooManySeries(seriesMax: number): Error {
  return badRequest(
    `query exceeded limit: require_exhaustive=true, series_limit=${seriesMax}, series_matched=at least ${seriesMax + 1}, of which each field of a message is one; the limit is that of the request, or limits.perQuery.maxFetchedSeries of the coordinator`,
  );
}

/** Tags with a field. */
function taggerOf(canonical: Uint8Array): (path: string) => Uint8Array {
  const tags = decodeTags(canonical);
  return (path) => encodeTags([...tags, { name: fieldLabel, value: path }]);
}
