/**
 * Typed values: those that are no floats, as canonical strings of bytes (docs/TYPED_ROWS.md). One says of what kind
 * it is and has fields, ascending by number; what they mean is the business of who makes them (histogram.ts).
 */
import { assert } from '#lib/assert.ts';
import { badRequest } from '#lib/errors.ts';
import { fieldNumberMax, typedBytesMax, typedDepthMax, typedFieldsMax } from '../codec/layout.ts';

export { fieldNumberMax, typedBytesMax, typedDepthMax, typedFieldsMax } from '../codec/layout.ts';

/**
 * 0 is a float, which is none. Of two rows with equal versions the one of the higher kind stays; windows are apart,
 * since whatever somebody wrote stays before them.
 */
export const valueKind = { histogram: 1, message: 2, window: 3, exemplar: 4, metadata: 5 } as const;
const kindLast = valueKind.metadata;
export type ValueKind = (typeof valueKind)[keyof typeof valueKind];

/** How the value of a field is written. */
export const fieldType = { int: 0, uint: 1, double: 2, float: 3, bytes: 4, message: 5 } as const;
export type FieldType = (typeof fieldType)[keyof typeof fieldType];

const typeBits = 8;
/** Of a varint of 64 bits. */
const varintBytesMax = 10;

/** Appends fields in ascending order of their numbers; `finish` checks nothing of what they mean. */
export class TypedValueWriter {
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView;
  #length: number;
  #last: number;

  constructor() {
    this.#bytes = new Uint8Array(256);
    this.#view = new DataView(this.#bytes.buffer);
    this.#length = 0;
    this.#last = 0;
  }

  /** @param layout of the kind */
  begin(kind: ValueKind, layout: number): this {
    this.#length = 0;
    this.#byte(kind);
    this.#varint(layout);
    this.#last = 0;
    return this;
  }

  /** Fields of a message within another, which `message` takes. */
  beginFields(): this {
    this.#length = 0;
    this.#last = 0;
    return this;
  }

  /** @param value an int64 */
  int(number: number, value: bigint): this {
    this.#tag(number, fieldType.int);
    this.#bigVarint(BigInt.asUintN(64, (value << 1n) ^ (value >> 63n)));
    return this;
  }

  /** @param value a uint64 */
  uint(number: number, value: bigint): this {
    this.#tag(number, fieldType.uint);
    this.#bigVarint(value);
    return this;
  }

  /** A NaN keeps its bits where the engine does: `doubleBits` always does. */
  double(number: number, value: number): this {
    this.#tag(number, fieldType.double);
    this.#reserve(8);
    this.#view.setFloat64(this.#length, value, true);
    this.#length += 8;
    return this;
  }

  doubleBits(number: number, bits: bigint): this {
    this.#tag(number, fieldType.double);
    this.#reserve(8);
    this.#view.setBigUint64(this.#length, bits, true);
    this.#length += 8;
    return this;
  }

  /** @param bits of a float32 */
  floatBits(number: number, bits: number): this {
    this.#tag(number, fieldType.float);
    this.#reserve(4);
    this.#view.setUint32(this.#length, bits, true);
    this.#length += 4;
    return this;
  }

  bytes(number: number, value: Uint8Array): this {
    return this.#delimited(number, fieldType.bytes, value);
  }

  /** @param fields as a writer made them after `beginFields` */
  message(number: number, fields: Uint8Array): this {
    return this.#delimited(number, fieldType.message, fields);
  }

  /** A copy. */
  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }

  #delimited(number: number, type: FieldType, value: Uint8Array): this {
    this.#tag(number, type);
    this.#varint(value.length);
    this.#reserve(value.length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
    return this;
  }

  #tag(number: number, type: FieldType): void {
    assert(number > this.#last && number <= fieldNumberMax, 'fields ascend by number');
    this.#last = number;
    this.#varint(number * typeBits + type);
  }

  #byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  /** @param value a whole number below 2^53 */
  #varint(value: number): void {
    this.#reserve(varintBytesMax);
    let rest = value;
    for (; rest >= 128; rest = Math.floor(rest / 128)) {
      this.#bytes[this.#length++] = (rest % 128) | 128;
    }
    this.#bytes[this.#length++] = rest;
  }

  #bigVarint(value: bigint): void {
    if (value <= BigInt(Number.MAX_SAFE_INTEGER)) return this.#varint(Number(value));
    this.#reserve(varintBytesMax);
    let rest = value;
    for (; rest >= 128n; rest >>= 7n) this.#bytes[this.#length++] = Number(rest & 127n) | 128;
    this.#bytes[this.#length++] = Number(rest);
  }

  #reserve(count: number): void {
    if (this.#length + count <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(2 * this.#bytes.length, this.#length + count));
    larger.set(this.#bytes);
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }
}

/** @param at where a typed value begins, which ends at `past` */
export function valueLayout(bytes: Uint8Array, at: number, past: number): number {
  let layout = 0;
  for (let i = at + 1, scale = 1; i < past && i <= at + varintBytesMax; i++, scale *= 128) {
    const byte = bytes[i]!;
    layout += (byte & 127) * scale;
    if (byte < 128) break;
  }
  return layout;
}

/** A field, as `TypedValueReader` stands on it. */
export interface TypedField {
  readonly number: number;
  readonly type: FieldType;
  /** Of `int` and `uint`: the value; else 0. */
  readonly integer: bigint;
  /** Of `double` its 64 bits, of `float` its 32. */
  readonly bits: bigint;
  /** Of `bytes` and `message`: bytes[start .. end) of what was given to the reader. */
  readonly start: number;
  readonly end: number;
}

const noBytes = new Uint8Array(0);
const noView = new DataView(noBytes.buffer);

/**
 * Walks over a typed value, or over the fields of a message in one.
 * @throws {TsdbError} BAD_REQUEST where it is not canonical
 */
export class TypedValueReader implements TypedField {
  kind = 0;
  layout = 0;
  number = 0;
  type: FieldType = fieldType.int;
  /** Of numbers: both words of the value, or of its bits, unsigned. */
  low = 0;
  high = 0;
  start = 0;
  end = 0;
  #bytes: Uint8Array = noBytes;
  #view: DataView = noView;
  #at = 0;
  #past = 0;

  /** @param past where the value ends */
  open(bytes: Uint8Array, at: number = 0, past: number = bytes.length): this {
    this.openFields(bytes, at, past);
    if (past - at > typedBytesMax) throw this.#malformed(`is longer than ${typedBytesMax} bytes`);
    this.kind = this.#byte();
    if (this.kind < valueKind.histogram || this.kind > kindLast) {
      throw this.#malformed(`is of a kind that is not known: ${this.kind}`);
    }
    this.layout = this.#varint();
    return this;
  }

  /** The fields of a message that lie in [at, past). */
  openFields(bytes: Uint8Array, at: number, past: number): this {
    assert(at >= 0 && at <= past && past <= bytes.length, 'the range is inside the bytes');
    if (bytes !== this.#bytes) {
      this.#bytes = bytes;
      this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    }
    this.#at = at;
    this.#past = past;
    this.number = 0;
    return this;
  }

  /** One that walks over the fields of the message that this one stands on. */
  within(): TypedValueReader {
    const inner = new TypedValueReader();
    inner.#bytes = this.#bytes;
    inner.#view = this.#view;
    inner.#at = this.start;
    inner.#past = this.end;
    return inner;
  }

  /** Goes to the next field. @returns false when there is none */
  next(): boolean {
    if (this.#at === this.#past) return false;
    const tag = this.#varint();
    const number = Math.floor(tag / typeBits);
    const type = tag % typeBits;
    if (number <= this.number) throw this.#malformed('has fields that do not ascend');
    if (number > fieldNumberMax)
      throw this.#malformed(`has a field of too high a number: ${number}`);
    this.number = number;
    switch (type) {
      case fieldType.int: {
        this.#words();
        const sign = -(this.low & 1);
        this.low = (((this.low >>> 1) | (this.high << 31)) ^ sign) >>> 0;
        this.high = ((this.high >>> 1) ^ sign) >>> 0;
        break;
      }
      case fieldType.uint:
        this.#words();
        break;
      case fieldType.double: {
        const at = this.#take(8);
        this.low = this.#view.getUint32(at, true);
        this.high = this.#view.getUint32(at + 4, true);
        break;
      }
      case fieldType.float:
        this.low = this.#view.getUint32(this.#take(4), true);
        this.high = 0;
        break;
      case fieldType.bytes:
      case fieldType.message: {
        const length = this.#varint();
        this.start = this.#take(length);
        this.end = this.start + length;
        break;
      }
      default:
        throw this.#malformed(`has a field of a type that is not known: ${type}`);
    }
    this.type = type;
    return true;
  }

  get integer(): bigint {
    if (this.type > fieldType.uint) return 0n;
    const high = this.type === fieldType.int ? this.high | 0 : this.high;
    return (BigInt(high) << 32n) | BigInt(this.low);
  }

  get bits(): bigint {
    if (this.type !== fieldType.double && this.type !== fieldType.float) return 0n;
    return (BigInt(this.high) << 32n) | BigInt(this.low);
  }

  /** Of a field of type double. */
  get double(): number {
    bitsView.setUint32(0, this.high);
    bitsView.setUint32(4, this.low);
    return bitsView.getFloat64(0);
  }

  #take(count: number): number {
    if (count > this.#past - this.#at) throw this.#malformed('ends too early');
    this.#at += count;
    return this.#at - count;
  }

  #byte(): number {
    return this.#bytes[this.#take(1)]!;
  }

  /** A number below 2^53. */
  #varint(): number {
    this.#words();
    const value = this.high * 2 ** 32 + this.low;
    if (value > Number.MAX_SAFE_INTEGER) throw this.#malformed('has too large a number');
    return value;
  }

  /** Reads a varint into `low` and `high`. */
  #words(): void {
    let low = 0;
    let high = 0;
    for (let i = 0; i < varintBytesMax; i++) {
      const byte = this.#byte();
      const part = byte & 127;
      if (i < 4) low |= part << (7 * i);
      else if (i === 4) {
        low |= part << 28;
        high = part >> 4;
      } else high |= part << (7 * i - 32);
      if (byte >= 128) continue;
      if (byte === 0 && i > 0) {
        throw this.#malformed('has a number that is longer than it need be');
      }
      if (i === varintBytesMax - 1 && byte > 1) break;
      this.low = low >>> 0;
      this.high = high >>> 0;
      return;
    }
    throw this.#malformed('has a number of more than 64 bits');
  }

  #malformed(reason: string): Error {
    return badRequest(`cannot read typed value: it ${reason}: at byte ${this.#at}`);
  }
}

const bitsView = new DataView(new ArrayBuffer(8));

/** The float64 of these bits; whether a signalling NaN stays one is up to the engine. */
export function doubleOf(bits: bigint): number {
  bitsView.setBigUint64(0, bits, true);
  return bitsView.getFloat64(0, true);
}

export function bitsOfDouble(value: number): bigint {
  bitsView.setFloat64(0, value, true);
  return bitsView.getBigUint64(0, true);
}

/**
 * Checks one whole, but for what its fields mean.
 * @throws {TsdbError} BAD_REQUEST
 */
export function checkTypedValue(
  bytes: Uint8Array,
  at: number = 0,
  past: number = bytes.length,
): void {
  const reader = new TypedValueReader().open(bytes, at, past);
  let left = typedFieldsMax;
  const walk = (level: TypedValueReader, depth: number): void => {
    while (level.next()) {
      left -= 1;
      if (left < 0)
        throw badRequest(`cannot read typed value: it has more than ${typedFieldsMax} fields`);
      if (level.type !== fieldType.message) continue;
      if (depth === typedDepthMax) {
        throw badRequest(`cannot read typed value: messages nest more than ${typedDepthMax} deep`);
      }
      walk(level.within(), depth + 1);
    }
  };
  walk(reader, 0);
}

/** A row of a typed value, as the order of two has it. */
export interface OrderedTypedRow {
  readonly version: number;
  readonly value: Uint8Array;
  /** Unix nanoseconds, 0 for none. */
  readonly startNanos: bigint;
}

/** Above 0 when the first of two rows of one time stays, below 0 when the second one does; 0 when they are equal. */
export function orderOfTypedRows(a: OrderedTypedRow, b: OrderedTypedRow): number {
  return (
    orderOfWindows(a.value, b.value) ||
    a.version - b.version ||
    Buffer.compare(a.value, b.value) ||
    Number(a.startNanos - b.startNanos)
  );
}

/**
 * Windows say themselves what they are made of: one that has heard of a later deletion stays, then the one of more rows, then
 * that of rows which were written later, be its version what it may. What somebody wrote stays before every window.
 */
function orderOfWindows(a: Uint8Array, b: Uint8Array): number {
  const [aIs, bIs] = [a[0] === valueKind.window, b[0] === valueKind.window];
  if (!aIs && !bIs) return 0;
  if (aIs !== bIs) return aIs ? -1 : 1;
  const [ofA, ofB] = [a, b].map(orderFields) as [bigint[], bigint[]];
  for (const [i, left] of ofA.entries()) {
    if (left !== ofB[i]!) return left > ofB[i]! ? 1 : -1;
  }
  return 0;
}

/** The first fields of a window (window.ts), up to lags; behind one that no window has there is nothing to be found. */
function orderFields(value: Uint8Array): bigint[] {
  const fields = [0n, 0n, 0n];
  const reader = new TypedValueReader().open(value);
  while (reader.next() && reader.number <= fields.length && reader.type === fieldType.uint) {
    fields[reader.number - 1] = reader.integer;
  }
  return fields;
}
