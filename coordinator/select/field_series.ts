/** Series of messages taken apart: one of floats for each numeric field. */
import { bundleBytes } from '#cluster/node/bundle_pages.ts';
import { encodeRawChunk } from '#engine/codec/chunk.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { FieldColumns, type FieldRows, type NumericField } from '#engine/messages/field_columns.ts';
import type { MessageType } from '#engine/messages/schema.ts';
import { apart } from '#engine/store/typed_chunks.ts';
import { badRequest } from '#lib/errors.ts';
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

/** About what a row of a field takes, and a series, in units of work (lib/turns/turns.ts). */
const rowUnits = 25;
const seriesUnits = 500;

/** Series as they come, in parts that are put together once. */
class Parts {
  readonly #tags: Uint8Array[] = [];
  readonly #chunks: Uint8Array[][] = [];
  /** Of tags and chunks. */
  bytes = 0;

  get seriesCount(): number {
    return this.#tags.length;
  }

  add(tags: Uint8Array, chunks: Uint8Array[]): void {
    this.#tags.push(tags);
    this.#chunks.push(chunks);
    this.bytes += tags.length;
    for (const { length } of chunks) this.bytes += length;
  }

  bundle(): SeriesBundle {
    const seriesCount = this.#tags.length;
    const tagsOffset = new Uint32Array(seriesCount + 1);
    const chunkOffset = new Uint32Array(seriesCount + 1);
    for (const [i, tags] of this.#tags.entries()) tagsOffset[i + 1] = tagsOffset[i]! + tags.length;
    for (const [i, chunks] of this.#chunks.entries()) {
      chunkOffset[i + 1] = chunks.reduce((sum, { length }) => sum + length, chunkOffset[i]!);
    }
    return {
      seriesCount,
      tagsData: new Uint8Array(Buffer.concat(this.#tags)),
      tagsOffset,
      // Who reads fields needs no IDs, and none of these series has one.
      idScheme: new Uint8Array(seriesCount),
      idData: new Uint8Array(0),
      idOffset: new Uint32Array(seriesCount + 1),
      chunkData: new Uint8Array(Buffer.concat(this.#chunks.flat())),
      chunkOffset,
    };
  }
}

/**
 * @param bundle series of a namespace with a schema; its chunks are given back to the memory of the read
 * @param typeOf the schema of rows with a layout, null when they are not to be read
 * @param range of the rows; null when only the series are asked for: then a series has all fields
 * @returns series with at least a row; cut at the limit, unless that has to be kept
 * @throws {TsdbError} BAD_REQUEST over the limit on series, RESOURCE_EXHAUSTED
 */
export async function fieldSeries(
  bundle: SeriesBundle,
  { fields, withOthers }: FieldSelection,
  typeOf: (layout: number) => MessageType | null,
  range: SelectRange | null,
  limits: SelectLimits,
  work: Work,
): Promise<{ readonly bundle: SeriesBundle; readonly isCut: boolean }> {
  const columns = new FieldColumns(fields, typeOf);
  const { startNanos, endNanos } = within64Bits(range ?? { startNanos: 0n, endNanos: 0n });
  const parts = new Parts();
  let held = 0;
  let isCut = false;
  const add = async (tags: Uint8Array, chunks: Uint8Array[]): Promise<void> => {
    if (limits.seriesMax > 0 && parts.seriesCount === limits.seriesMax) {
      if (limits.requireExhaustive) throw tooManySeries(limits.seriesMax);
      isCut = true;
      return;
    }
    parts.add(tags, chunks);
    const more = parts.bytes - held;
    held = parts.bytes;
    if (limits.memory?.tryGrow(more) === false) await limits.memory.grow(more, work.signal);
    if (work.spend(seriesUnits)) await work.pause();
  };
  for (let i = 0; i < bundle.seriesCount && !isCut; i++) {
    const tags = bundle.tagsData.subarray(bundle.tagsOffset[i]!, bundle.tagsOffset[i + 1]!);
    const withField = taggerOf(tags);
    if (range === null) {
      if (withOthers) await add(tags.slice(), []);
      for (const { path } of fields) await add(withField(path), []);
      continue;
    }
    const chunks = bundle.chunkData.subarray(bundle.chunkOffset[i]!, bundle.chunkOffset[i + 1]!);
    const chunksOf = fields.map((): Uint8Array[] => []);
    const others: Uint8Array[] = withOthers
      ? apart([chunks]).floats.map((each) => each.slice())
      : [];
    for (const read of columns.read(chunks, [startNanos, endNanos])) {
      for (const [field, rows] of read.fields.entries()) {
        if (rows.values.length > 0) chunksOf[field]!.push(chunkOf(rows));
        if (work.spend(rowUnits * rows.values.length)) await work.pause();
      }
      if (withOthers && read.hasOthers) others.push(read.chunk.slice());
    }
    if (others.length > 0) await add(tags.slice(), others);
    for (const [field, some] of chunksOf.entries()) {
      if (some.length > 0) await add(withField(fields[field]!.path), some);
    }
  }
  const { memory } = limits;
  memory?.give(bundleBytes(bundle));
  const expanded = parts.bundle();
  await memory?.grow(bundleBytes(expanded), work.signal);
  memory?.give(held);
  return { bundle: expanded, isCut };
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

function chunkOf({ timestampNanos, values }: FieldRows): Uint8Array {
  return encodeRawChunk({ timestampNanos, values, version: 0 });
}
