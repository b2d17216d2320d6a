/**
 * Reads the batch layout (docs/formats/batch.md) from bytes of any origin: nothing in them is
 * believed before it was compared with the length that is there.
 */
import { badRequest } from '#lib/errors.ts';
import type { RowsOfKind } from '../store/rows.ts';
import { decodeDeltaI64, decodeDeltaU32, decodeWholeF64 } from './columns.ts';
import {
  batchBytesMax,
  batchColumnsMax,
  batchFlag,
  batchFormatVersion,
  batchMagic,
  batchRowsMax,
  batchSectionsMax,
  batchVersionMax,
  columnEncoding,
  columnEntryBytes,
  columnId,
  headerBytes,
  sectionEntryBytes,
  sectionKind,
  timeUnitOfExponent,
  type TimeUnitNanos,
} from './format.ts';

/**
 * A batch that was read. Columns are views of its bytes where they lie raw and aligned, else
 * copies.
 */
export interface BatchView {
  /** Version of all its samples: a whole number below 2^53 (lib/hybrid_clock.ts). */
  readonly version: number;
  /** Rows have versions that are derived from it and their times (`derivedVersion`). */
  readonly derivesVersions: boolean;
  readonly rowCount: number;
  /** The node's slot of the series; where the generation is 0, an ordinal of this dictionary. */
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  /** In units of `timeUnitNanos`; the product may lie outside of int64 nanoseconds. */
  readonly timestamps: BigInt64Array;
  readonly timeUnitNanos: TimeUnitNanos;
  /** Any bits; read them through words where a NaN payload matters. */
  readonly values: Float64Array;
  readonly seriesCount: number;
  /** Canonical tags of dictionary entry i as they were sent: their form is not checked here. */
  seriesTags(i: number): Uint8Array;
  /** `idSchemeCode` of lib/series_id/scheme.ts as sent; not checked here. */
  seriesIdScheme(i: number): number;
  /** Explicit ID, or empty. */
  seriesId(i: number): Uint8Array;
  /**
   * By dictionary entry murmur3_32 of the ID. Only in batches of this process whose tags a write
   * decoder has checked: sorted, each name once and well-formed. Never of bytes.
   */
  readonly idHashes?: Uint32Array | undefined;
}

/** Rows with typed values (docs/TYPED_ROWS.md), of the same dictionary. */
export interface TypedBatchRows {
  /** At least 1. */
  readonly rowCount: number;
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  readonly timestamps: BigInt64Array;
  readonly timeUnitNanos: TimeUnitNanos;
  /** Unix nanoseconds, 0 for none; null when no row has one. */
  readonly startNanos: BigInt64Array | null;
  /** Where each value ends in `valueBytes`; whether values are canonical is not checked here. */
  readonly valueEnds: Uint32Array;
  readonly valueBytes: Uint8Array;
}

/** A batch whose reader knows typed rows and start times; one without any need not say so. */
export interface TypedBatchView extends BatchView {
  /** Of its float rows, as in `TypedBatchRows`. */
  readonly startNanos?: BigInt64Array | null;
  readonly typedRows?: TypedBatchRows | null;
}

/** A typed batch that was read: null says that there are none. */
export interface ReadTypedBatch extends TypedBatchView {
  readonly startNanos: BigInt64Array | null;
  readonly typedRows: TypedBatchRows | null;
}

/** The rows of a batch: floats, then typed ones; those of which there are none are left out. */
export function rowsOfBatch(batch: TypedBatchView): RowsOfKind[] {
  const { rowCount, startNanos = null, typedRows = null } = batch;
  const all: RowsOfKind[] = [];
  if (rowCount > 0) {
    const { slots, generations, timestamps, timeUnitNanos, values } = batch;
    const rows = { rowCount, slots, generations, timestamps, timeUnitNanos, values };
    all.push({ kind: 'float', rows: startNanos === null ? rows : { ...rows, startNanos } });
  }
  if (typedRows !== null) {
    const starts = typedRows.startNanos ?? new BigInt64Array(typedRows.rowCount);
    all.push({ kind: 'typed', rows: { ...typedRows, startNanos: starts } });
  }
  return all;
}

interface Section {
  readonly rowCount: number;
  readonly timeExponent: number;
  /** By column id. */
  readonly columns: ReadonlyMap<number, EncodedColumn>;
}

interface EncodedColumn {
  readonly encoding: number;
  readonly bytes: Uint8Array;
}

const noColumns: Section = { rowCount: 0, timeExponent: 0, columns: new Map() };
const sampleColumns: readonly number[] = [
  columnId.slot,
  columnId.generation,
  columnId.timestamp,
  columnId.value,
];
const typedColumns: readonly number[] = [
  columnId.slot,
  columnId.generation,
  columnId.timestamp,
  columnId.typedEnd,
  columnId.typedBytes,
];
const dictionaryColumns: readonly number[] = [
  columnId.idScheme,
  columnId.idEnd,
  columnId.idBytes,
  columnId.tagsEnd,
  columnId.tagsBytes,
];

/**
 * Reads a batch of any sender. Every length, offset, order and dictionary ordinal is checked; what
 * dictionary entries say about tags and IDs is the receiver's to check. Typed rows and start times,
 * which the caller would lose, are refused.
 *
 * @param bytes borrowed as long as the view is used
 * @throws {TsdbError} BAD_REQUEST naming the part that is wrong
 */
export function readBatch(bytes: Uint8Array): BatchView {
  const { startNanos, typedRows, ...view } = readTypedBatch(bytes);
  if (typedRows !== null) throw broken('section kind is not taken', sectionKind.typedValues);
  if (startNanos !== null) throw broken('column is not taken', columnId.start);
  return view;
}

/** `readBatch` for who knows typed rows and start times. */
export function readTypedBatch(bytes: Uint8Array): ReadTypedBatch {
  const { version, derivesVersions, sections } = readSections(bytes);
  const samples = sections.get(sectionKind.floatSamples) ?? noColumns;
  const dictionary = sections.get(sectionKind.dictionary) ?? noColumns;
  const series = new Dictionary(dictionary);
  const typed = sections.get(sectionKind.typedValues) ?? noColumns;
  return {
    version,
    derivesVersions,
    ...rowsOf(samples, series.count),
    startNanos: startsOf(samples),
    typedRows: typed.rowCount === 0 ? null : typedRowsOf(typed, series.count),
    values: columnF64(samples, columnId.value, 'value'),
    seriesCount: series.count,
    seriesTags: (i) => series.tags(i),
    seriesIdScheme: (i) => series.idScheme(i),
    seriesId: (i) => series.id(i),
  };
}

/** What rows of both kinds have. */
function rowsOf(section: Section, seriesCount: number) {
  const { rowCount, timeExponent } = section;
  const timeUnitNanos = timeUnitOfExponent.get(timeExponent);
  if (timeUnitNanos === undefined) {
    throw broken('time unit exponent is not one of 0, 3, 6, 9', timeExponent);
  }
  const slots = columnU32(section, columnId.slot, 'slot');
  const generations = columnU32(section, columnId.generation, 'generation');
  for (let row = 0; row < rowCount; row++) {
    if (generations[row] === 0 && slots[row]! >= seriesCount) {
      throw broken(`row ${row} names a dictionary entry of ${seriesCount}`, slots[row]!);
    }
  }
  const timestamps = columnI64(section, columnId.timestamp, 'timestamp');
  return { rowCount, slots, generations, timestamps, timeUnitNanos };
}

function startsOf(section: Section): BigInt64Array | null {
  if (!section.columns.has(columnId.start)) return null;
  return columnI64(section, columnId.start, 'start');
}

function typedRowsOf(section: Section, seriesCount: number): TypedBatchRows {
  const valueBytes = columnBytes(section, columnId.typedBytes, 'typed values');
  return {
    ...rowsOf(section, seriesCount),
    startNanos: startsOf(section),
    valueEnds: columnEnds(section, columnId.typedEnd, 'typed end', valueBytes.length),
    valueBytes,
  };
}

/** Sections by kind, whose columns lie inside of the batch at aligned offsets. */
export function readSections(given: Uint8Array): {
  readonly version: number;
  readonly derivesVersions: boolean;
  readonly sections: ReadonlyMap<number, Section>;
} {
  if (given.length < headerBytes) throw broken('shorter than its header', given.length);
  if (given.length > batchBytesMax) throw broken(`longer than ${batchBytesMax}`, given.length);
  const bytes = given.byteOffset % 8 === 0 ? given : new Uint8Array(given);
  const words = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (words.getUint32(0, true) !== batchMagic) throw broken('magic is unknown', words.getUint32(0));
  const format = words.getUint16(4, true);
  if (format !== batchFormatVersion) throw broken('format version is unknown', format);
  const byteLength = words.getUint32(8, true);
  if (byteLength !== bytes.length) {
    throw broken(`byte length differs from the ${bytes.length} that came`, byteLength);
  }
  const version = words.getFloat64(16, true);
  if (!Number.isInteger(version) || version < 0 || version > batchVersionMax) {
    throw broken('version is not a whole number below 2^53', version);
  }
  const flags = words.getUint32(12, true);
  if ((flags & ~batchFlag.derivesVersions) !== 0 || words.getBigUint64(24, true) !== 0n) {
    throw broken('reserved header bytes are not zero', '');
  }
  const sectionCount = words.getUint16(6, true);
  if (sectionCount > batchSectionsMax) throw broken('too many sections', sectionCount);
  if (sectionCount * sectionEntryBytes > byteLength - headerBytes) {
    throw broken('section table is cut off', sectionCount);
  }
  const sections = new Map<number, Section>();
  for (let i = 0; i < sectionCount; i++) {
    const entry = headerBytes + i * sectionEntryBytes;
    const kind = words.getUint8(entry);
    if (sections.has(kind)) throw broken('section kind appears twice', kind);
    sections.set(kind, readSection(bytes, words, entry, kind));
  }
  return { version, derivesVersions: flags !== 0, sections };
}

function readSection(bytes: Uint8Array, words: DataView, entry: number, kind: number): Section {
  let required: readonly number[];
  if (kind === sectionKind.floatSamples) required = sampleColumns;
  else if (kind === sectionKind.dictionary) required = dictionaryColumns;
  else if (kind === sectionKind.typedValues) required = typedColumns;
  else throw broken('section kind is unknown', kind);
  const mayStart = kind !== sectionKind.dictionary;
  const rowCount = words.getUint32(entry + 4, true);
  if (rowCount > batchRowsMax) throw broken(`more than ${batchRowsMax} rows`, rowCount);
  const columnCount = words.getUint16(entry + 2, true);
  if (columnCount > batchColumnsMax) throw broken('too many columns', columnCount);
  const directory = words.getUint32(entry + 8, true);
  if (directory % 8 !== 0 || directory > bytes.length) {
    throw broken('column directory lies outside of the batch', directory);
  }
  if (columnCount * columnEntryBytes > bytes.length - directory) {
    throw broken('column directory is cut off', columnCount);
  }
  const columns = new Map<number, EncodedColumn>();
  for (let i = 0; i < columnCount; i++) {
    const at = directory + i * columnEntryBytes;
    const id = words.getUint8(at);
    if (!required.includes(id) && !(mayStart && id === columnId.start)) {
      throw broken(`column is unknown in section kind ${kind}`, id);
    }
    if (columns.has(id)) throw broken('column appears twice', id);
    const offset = words.getUint32(at + 4, true);
    const length = words.getUint32(at + 8, true);
    if (offset % 8 !== 0 || offset > bytes.length || length > bytes.length - offset) {
      throw broken(
        `column ${id} lies outside of the batch, offset and length`,
        `${offset}, ${length}`,
      );
    }
    columns.set(id, {
      encoding: words.getUint8(at + 1),
      bytes: bytes.subarray(offset, offset + length),
    });
  }
  for (const id of required) if (!columns.has(id)) throw broken('column is missing', id);
  return { rowCount, timeExponent: words.getUint8(entry + 1), columns };
}

/** Entries of a dictionary section. */
class Dictionary {
  readonly count: number;
  readonly #idSchemes: Uint8Array;
  readonly #idEnds: Uint32Array;
  readonly #idBytes: Uint8Array;
  readonly #tagsEnds: Uint32Array;
  readonly #tagsBytes: Uint8Array;

  constructor(section: Section) {
    this.count = section.rowCount;
    this.#idSchemes = columnU8(section, columnId.idScheme, 'ID scheme');
    this.#idBytes = columnBytes(section, columnId.idBytes, 'ID bytes');
    this.#idEnds = columnEnds(section, columnId.idEnd, 'ID end', this.#idBytes.length);
    this.#tagsBytes = columnBytes(section, columnId.tagsBytes, 'tags');
    this.#tagsEnds = columnEnds(section, columnId.tagsEnd, 'tags end', this.#tagsBytes.length);
  }

  idScheme(i: number): number {
    return this.#idSchemes[this.#checked(i)]!;
  }

  id(i: number): Uint8Array {
    this.#checked(i);
    return this.#idBytes.subarray(i === 0 ? 0 : this.#idEnds[i - 1]!, this.#idEnds[i]!);
  }

  tags(i: number): Uint8Array {
    this.#checked(i);
    return this.#tagsBytes.subarray(i === 0 ? 0 : this.#tagsEnds[i - 1]!, this.#tagsEnds[i]!);
  }

  #checked(i: number): number {
    if (!(i >= 0 && i < this.count)) throw new RangeError(`dictionary has no entry: ${i}`);
    return i;
  }
}

function columnU32(section: Section, id: number, name: string): Uint32Array {
  const { rowCount } = section;
  if (rowCount === 0) return new Uint32Array(0);
  const { encoding, bytes } = section.columns.get(id)!;
  if (encoding === columnEncoding.delta) {
    return decodeDeltaU32(bytes, rowCount) ?? refuse(name);
  }
  const elements = wholeElements(section, id, name, 4);
  const column = new Uint32Array(elements.buffer, elements.byteOffset, elements.length >>> 2);
  return encoding === columnEncoding.raw ? column : new Uint32Array(rowCount).fill(column[0]!);
}

function columnI64(section: Section, id: number, name: string): BigInt64Array {
  const { rowCount } = section;
  if (rowCount === 0) return new BigInt64Array(0);
  const { encoding, bytes } = section.columns.get(id)!;
  if (encoding === columnEncoding.delta) {
    return decodeDeltaI64(bytes, rowCount) ?? refuse(name);
  }
  const elements = wholeElements(section, id, name, 8);
  const column = new BigInt64Array(elements.buffer, elements.byteOffset, elements.length >>> 3);
  return encoding === columnEncoding.raw ? column : new BigInt64Array(rowCount).fill(column[0]!);
}

function columnF64(section: Section, id: number, name: string): Float64Array {
  const { rowCount } = section;
  if (rowCount === 0) return new Float64Array(0);
  const { encoding, bytes } = section.columns.get(id)!;
  if (encoding === columnEncoding.whole) {
    return decodeWholeF64(bytes, rowCount) ?? refuse(name);
  }
  const elements = wholeElements(section, id, name, 8);
  if (encoding === columnEncoding.raw) {
    return new Float64Array(elements.buffer, elements.byteOffset, rowCount);
  }
  // By words, for a number would lose a signalling NaN.
  const bits = new BigUint64Array(elements.buffer, elements.byteOffset, 1);
  return new Float64Array(new BigUint64Array(rowCount).fill(bits[0]!).buffer);
}

function columnU8(section: Section, id: number, name: string): Uint8Array {
  if (section.rowCount === 0) return new Uint8Array(0);
  const elements = wholeElements(section, id, name, 1);
  const raw = section.columns.get(id)!.encoding === columnEncoding.raw;
  return raw ? elements : new Uint8Array(section.rowCount).fill(elements[0]!);
}

/** Bytes of which another column holds the ends. */
function columnBytes(section: Section, id: number, name: string): Uint8Array {
  const column = section.columns.get(id);
  if (column === undefined) return new Uint8Array(0);
  if (column.encoding !== columnEncoding.raw) {
    throw broken(`column ${name} has an unknown encoding`, column.encoding);
  }
  return column.bytes;
}

/** Ends of byte ranges: ascending, the last one is the length of the bytes. */
function columnEnds(section: Section, id: number, name: string, byteLength: number): Uint32Array {
  const ends = columnU32(section, id, name);
  let last = 0;
  for (let i = 0; i < ends.length; i++) {
    if (ends[i]! < last) throw broken(`column ${name} is not ascending at ${i}`, ends[i]!);
    last = ends[i]!;
  }
  if (last !== byteLength) throw broken(`column ${name} does not end at ${byteLength}`, last);
  return ends;
}

/** Bytes of a raw or constant column, whose length fits. */
function wholeElements(
  section: Section,
  id: number,
  name: string,
  elementBytes: number,
): Uint8Array {
  const { encoding, bytes } = section.columns.get(id)!;
  let count: number;
  if (encoding === columnEncoding.raw) count = section.rowCount;
  else if (encoding === columnEncoding.constant) count = 1;
  else throw broken(`column ${name} has an unknown encoding`, encoding);
  if (bytes.length !== count * elementBytes) {
    throw broken(`column ${name} is not ${count * elementBytes} bytes long`, bytes.length);
  }
  return bytes;
}

function refuse(name: string): never {
  throw broken(`column ${name} is malformed in its encoding`, '');
}

function broken(reason: string, value: number | string): Error {
  return badRequest(`cannot read batch: ${reason}${value === '' ? '' : `: ${value}`}`);
}
