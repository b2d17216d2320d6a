/**
 * Fields of typed values as columns (docs/formats/typed.md), written for reading: what the kernel must give, byte
 * for byte.
 */
import { ByteSink, ByteSource, malformed } from '../codec/chunk.ts';
import { decodeValues, encodeValues } from '../codec/columns_twin.ts';
import { typedColumnValuesMax } from '../codec/layout.ts';
import { decodeIntegers, encodeIntegers } from '../codec/integers_twin.ts';
import {
  fieldNumberMax,
  fieldType,
  typedBytesMax,
  typedDepthMax,
  typedFieldsMax,
  TypedValueReader,
  TypedValueWriter,
  type FieldType,
} from './typed_value.ts';

/** A field of one row. Of an int an int64, of a uint a uint64, of floats their bits. */
export interface Field {
  readonly number: number;
  readonly type: FieldType;
  readonly value: bigint | Uint8Array | Fields;
}

/** Ascending by number. */
export type Fields = readonly Field[];

/** The fields of a typed value, or of a message in one. */
export function fieldsOf(reader: TypedValueReader, bytes: Uint8Array): Fields {
  const fields: Field[] = [];
  while (reader.next()) {
    const { number, type, start, end } = reader;
    let value: Field['value'];
    if (type === fieldType.message) {
      value = fieldsOf(new TypedValueReader().openFields(bytes, start, end), bytes);
    } else if (type === fieldType.bytes) value = bytes.slice(start, end);
    else value = type === fieldType.int || type === fieldType.uint ? reader.integer : reader.bits;
    fields.push({ number, type, value });
  }
  return fields;
}

export function writeFields(writer: TypedValueWriter, fields: Fields): void {
  for (const { number, type, value } of fields) {
    if (type === fieldType.int) writer.int(number, value as bigint);
    else if (type === fieldType.uint) writer.uint(number, value as bigint);
    else if (type === fieldType.double) writer.doubleBits(number, value as bigint);
    else if (type === fieldType.float) writer.floatBits(number, Number(value as bigint));
    else if (type === fieldType.bytes) writer.bytes(number, value as Uint8Array);
    else {
      const inner = new TypedValueWriter().beginFields();
      writeFields(inner, value as Fields);
      writer.message(number, inner.finish());
    }
  }
}

/** In the byte of a column, above its type: which rows have the field. */
const presence = { all: 0, runs: 1, zeros: 2 } as const;
/** Of byte strings: each is written, not a dictionary of them. */
const eachFlag = 4;

interface Column {
  readonly number: number;
  readonly type: FieldType;
  /** Places in the level's rows. */
  readonly rows: number[];
  readonly values: Field['value'][];
}

/** Writes the fields of some rows. */
export function encodeColumns(sink: ByteSink, rows: readonly Fields[]): void {
  const columns = columnsOf(rows);
  const directory = new ByteSink();
  const bodies = new ByteSink();
  let numberBefore = 0;
  for (const column of columns) {
    const { form, bytes } = encodeColumn(column, rows.length);
    directory.varint(BigInt(column.number - numberBefore));
    directory.byte(column.type | (form << 3));
    directory.varint(BigInt(bytes.length));
    bodies.bytes(bytes);
    numberBefore = column.number;
  }
  sink.varint(BigInt(columns.length));
  sink.bytes(directory.finish());
  sink.bytes(bodies.finish());
}

function columnsOf(rows: readonly Fields[]): Column[] {
  const columns = new Map<string, Column>();
  for (const [row, fields] of rows.entries()) {
    for (const { number, type, value } of fields) {
      const key = `${number} ${type}`;
      let column = columns.get(key);
      if (column === undefined) columns.set(key, (column = { number, type, rows: [], values: [] }));
      column.rows.push(row);
      column.values.push(value);
    }
  }
  return [...columns.values()].sort((a, b) => a.number - b.number || a.type - b.type);
}

function encodeColumn(column: Column, rowCount: number): { form: number; bytes: Uint8Array } {
  const { type, rows, values } = column;
  const sink = new ByteSink();
  const form = presenceOf(column, rowCount);
  if (form === presence.runs)
    for (const length of runsOf(rows, rowCount)) sink.varint(BigInt(length));
  if (type === fieldType.message) {
    encodeColumns(sink, values as Fields[]);
    return { form, bytes: sink.finish() };
  }
  if (type === fieldType.bytes) {
    const isEach = encodeBytes(sink, values as Uint8Array[]);
    return { form: form | (isEach ? eachFlag : 0), bytes: sink.finish() };
  }
  let numbers = values as bigint[];
  if (form === presence.zeros) {
    numbers = Array.from({ length: rowCount }, () => 0n);
    for (const [i, row] of rows.entries()) numbers[row] = values[i] as bigint;
  }
  if (type === fieldType.double || type === fieldType.float) encodeFloats(sink, numbers, type);
  else encodeNumbers(sink, numbers);
  return { form, bytes: sink.finish() };
}

/** Lengths of runs of absent and present rows by turns, the first of absent ones. */
function runsOf(rows: readonly number[], rowCount: number): number[] {
  const runs: number[] = [];
  let next = 0;
  for (let i = 0; i < rows.length; ) {
    const first = i;
    while (i < rows.length && rows[i]! - rows[first]! === i - first) i++;
    runs.push(rows[first]! - next, i - first);
    next = rows[i - 1]! + 1;
  }
  if (next < rowCount) runs.push(rowCount - next);
  return runs;
}

/**
 * What comes and goes is written as zero where it is not, if no zero stands for itself, and if it is there often
 * enough.
 */
function presenceOf({ type, rows, values }: Column, rowCount: number): number {
  if (rows.length === rowCount) return presence.all;
  const isNumber = type !== fieldType.bytes && type !== fieldType.message;
  if (
    isNumber &&
    rows.length * 2 >= rowCount &&
    runsOf(rows, rowCount).length > 4 + (rowCount >> 3) &&
    !values.includes(0n)
  ) {
    return presence.zeros;
  }
  return presence.runs;
}

export function encodeNumbers(sink: ByteSink, numbers: readonly bigint[]): void {
  const integers = numbers.map((number) => BigInt.asIntN(64, number));
  sink.zigzag(integers[0]!);
  if (integers.length > 1) encodeIntegers(sink, integers, 0n);
}

function encodeFloats(sink: ByteSink, bits: readonly bigint[], type: FieldType): void {
  const doubles = BigUint64Array.from(bits, (each) =>
    type === fieldType.float ? doubleBitsOf(each) : each,
  );
  const { control, bytes } = encodeValues(new Float64Array(doubles.buffer));
  sink.byte(control);
  sink.bytes(bytes);
}

/** @returns whether each was written, since most of them differ */
function encodeBytes(sink: ByteSink, values: readonly Uint8Array[]): boolean {
  const places = new Map<string, number>();
  const distinct: Uint8Array[] = [];
  const placeOf = values.map((value) => {
    const key = Buffer.from(value).toString('latin1');
    let place = places.get(key);
    if (place === undefined) {
      places.set(key, (place = distinct.length));
      distinct.push(value);
    }
    return place;
  });
  if (distinct.length > 1 && distinct.length * 2 > values.length) {
    encodeNumbers(
      sink,
      values.map(({ length }) => BigInt(length)),
    );
    for (const value of values) sink.bytes(value);
    return true;
  }
  sink.varint(BigInt(distinct.length));
  for (const value of distinct) {
    sink.varint(BigInt(value.length));
    sink.bytes(value);
  }
  if (distinct.length > 1) encodeNumbers(sink, placeOf.map(BigInt));
  return false;
}

/** Of the float64 that a float32 is: bit by bit, since an engine may change a NaN on the way. */
function doubleBitsOf(floatBits: bigint): bigint {
  const exponent = (floatBits >> 23n) & 255n;
  if (exponent === 255n) {
    return ((floatBits >> 31n) << 63n) | (2047n << 52n) | ((floatBits & 0x7fffffn) << 29n);
  }
  const [double] = Float64Array.from(new Float32Array(Uint32Array.of(Number(floatBits)).buffer));
  return new BigUint64Array(Float64Array.of(double!).buffer)[0]!;
}

/** The float32 that is this float64, or null when none is. */
function floatBitsOf(doubleBits: bigint): bigint | null {
  const exponent = (doubleBits >> 52n) & 2047n;
  const floatBits =
    exponent === 2047n
      ? ((doubleBits >> 63n) << 31n) | (255n << 23n) | ((doubleBits >> 29n) & 0x7fffffn)
      : BigInt(
          new Uint32Array(
            Float32Array.from(new Float64Array(BigUint64Array.of(doubleBits).buffer)).buffer,
          )[0]!,
        );
  return doubleBitsOf(floatBits) === doubleBits ? floatBits : null;
}

/** Counts what columns give against what a chunk may have. */
export class ColumnBudget {
  #values = 0;
  #bytes = 0;
  readonly #fieldsOfRow: Uint32Array;

  constructor(rowCount: number) {
    this.#fieldsOfRow = new Uint32Array(rowCount);
  }

  takeValues(count: number, offset: number): void {
    this.#values += count;
    if (this.#values > typedColumnValuesMax) throw malformed('has too many values', offset);
  }

  /** Of byte strings, which are in the typed values as often as rows have them. */
  takeBytes(count: number, offset: number): void {
    this.#bytes += count;
    if (this.#bytes > typedBytesMax) throw malformed('has too long values', offset);
  }

  takeField(row: number, offset: number): void {
    this.#fieldsOfRow[row]! += 1;
    if (this.#fieldsOfRow[row]! > typedFieldsMax) throw malformed('has too many fields', offset);
  }
}

/**
 * Reads the fields of some rows.
 * @param rowsOfChunk places in the chunk of the level's rows
 * @throws {TsdbError} BAD_REQUEST
 */
export function decodeColumns(
  source: ByteSource,
  rowsOfChunk: readonly number[],
  budget: ColumnBudget,
  depth: number,
): Fields[] {
  const fields: Field[][] = rowsOfChunk.map(() => []);
  const heads = decodeDirectory(source);
  for (const { number, type, form, length } of heads) {
    const start = source.offset;
    source.take(length);
    const body = new ByteSource(source.bytes, start, start + length);
    const rows = decodePresence(body, form & 3, rowsOfChunk.length);
    const level = rows.map((row) => rowsOfChunk[row]!);
    const values = decodeColumn(body, type, form, level, rowsOfChunk.length, budget, depth);
    if (body.offset !== body.end) throw malformed('has bytes after a column', body.offset);
    let count = 0;
    for (const [i, row] of rows.entries()) {
      const value = values[i]!;
      if ((form & 3) === presence.zeros && value === 0n) continue;
      const before = fields[row]!.at(-1);
      if (before?.number === number) throw malformed('has a field twice', start);
      budget.takeField(rowsOfChunk[row]!, start);
      fields[row]!.push({ number, type, value });
      count++;
    }
    if (count === 0) throw malformed('has a column without values', start);
  }
  return fields;
}

interface ColumnHead {
  readonly number: number;
  readonly type: FieldType;
  readonly form: number;
  readonly length: number;
}

function decodeDirectory(source: ByteSource): ColumnHead[] {
  const count = source.varint();
  // Each takes three bytes.
  if (count * 3n > BigInt(source.end - source.offset)) {
    throw malformed('has more columns than bytes', source.offset);
  }
  const heads: ColumnHead[] = [];
  let [number, typeBefore] = [0n, 8];
  for (let i = 0n; i < count; i++) {
    const step = source.varint();
    const byte = source.byte();
    const type = byte & 7;
    number += step;
    if (type > fieldType.message || number > BigInt(fieldNumberMax)) {
      throw malformed('has a column of an unknown type or number', source.offset);
    }
    if (step === 0n && type <= typeBefore) {
      throw malformed('has columns that do not ascend', source.offset);
    }
    typeBefore = type;
    const form = byte >> 3;
    const isEach = (form & eachFlag) !== 0;
    const isNumber = type !== fieldType.bytes && type !== fieldType.message;
    if (
      form > 7 ||
      (form & 3) > presence.zeros ||
      (isEach && type !== fieldType.bytes) ||
      ((form & 3) === presence.zeros && !isNumber)
    ) {
      throw malformed('has a column of an unknown form', source.offset);
    }
    const length = source.varint();
    if (length > BigInt(source.end - source.offset)) {
      throw malformed('has a column that is longer than its bytes', source.offset);
    }
    heads.push({ number: Number(number), type: type as FieldType, form, length: Number(length) });
  }
  return heads;
}

/** @returns places in the level's rows; where absent rows are zeros all of them */
function decodePresence(source: ByteSource, form: number, rowCount: number): number[] {
  if (form !== presence.runs) return Array.from({ length: rowCount }, (_, row) => row);
  const rows: number[] = [];
  let next = 0;
  for (let isPresent = false; next < rowCount; isPresent = !isPresent) {
    const length = source.varint();
    if (length > BigInt(rowCount - next) || (length === 0n && (isPresent || next > 0))) {
      throw malformed('has a bad run of rows', source.offset);
    }
    const end = next + Number(length);
    if (isPresent) for (let row = next; row < end; row++) rows.push(row);
    next = end;
  }
  if (rows.length === 0) throw malformed('has a column without values', source.offset);
  return rows;
}

function decodeColumn(
  source: ByteSource,
  type: FieldType,
  form: number,
  level: readonly number[],
  rowCount: number,
  budget: ColumnBudget,
  depth: number,
): readonly Field['value'][] {
  const count = (form & 3) === presence.zeros ? rowCount : level.length;
  budget.takeValues(count, source.offset);
  switch (type) {
    case fieldType.message:
      if (depth === typedDepthMax) throw malformed('has messages too deep', source.offset);
      return decodeColumns(source, level, budget, depth + 1);
    case fieldType.bytes:
      return decodeBytes(source, count, (form & eachFlag) !== 0, budget);
    case fieldType.int:
      return decodeNumbers(source, count);
    case fieldType.uint:
      return decodeNumbers(source, count).map((number) => BigInt.asUintN(64, number));
    default: {
      const control = source.byte();
      if (control & 128) throw malformed('has floats of an unknown form', source.offset);
      const bits = [...decodeValues(source, count, control)];
      if (type === fieldType.double) return bits;
      return bits.map((each) => {
        const narrow = floatBitsOf(each);
        if (narrow === null) throw malformed('has a float of more than 32 bits', source.offset);
        return narrow;
      });
    }
  }
}

export function decodeNumbers(source: ByteSource, count: number): bigint[] {
  const first = source.zigzag();
  return count === 1 ? [first] : decodeIntegers(source, count, first, 0n);
}

function decodeBytes(
  source: ByteSource,
  count: number,
  isEach: boolean,
  budget: ColumnBudget,
): Uint8Array[] {
  if (isEach) {
    return decodeNumbers(source, count).map((length) => {
      if (length < 0n || length > BigInt(source.end - source.offset)) {
        throw malformed('has bytes that are longer than their column', source.offset);
      }
      budget.takeBytes(Number(length), source.offset);
      return source.take(Number(length)).slice();
    });
  }
  const distinctCount = source.varint();
  if (distinctCount === 0n || distinctCount > BigInt(count)) {
    throw malformed('has a bad dictionary', source.offset);
  }
  const distinct: Uint8Array[] = [];
  for (let i = 0n; i < distinctCount; i++) {
    const length = source.varint();
    if (length > BigInt(source.end - source.offset)) {
      throw malformed('has bytes that are longer than their column', source.offset);
    }
    distinct.push(source.take(Number(length)).slice());
  }
  const places =
    distinct.length === 1 ? Array.from({ length: count }, () => 0n) : decodeNumbers(source, count);
  return places.map((place) => {
    if (place < 0n || place >= distinctCount) {
      throw malformed('has a place beyond its dictionary', source.offset);
    }
    const value = distinct[Number(place)]!;
    budget.takeBytes(value.length, source.offset);
    return value;
  });
}
