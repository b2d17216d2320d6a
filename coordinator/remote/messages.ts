/**
 * Messages of the remote-read protocol as bytes, by hand: sample values are copied as words, so
 * that a stale marker, a NaN with a payload, passes unchanged. Field numbers are those of the
 * protocol's definition; unknown fields are skipped, as protobuf asks.
 */
import { badRequest } from '#lib/errors.ts';
import type { Tags } from '#lib/tags.ts';
import type { Matcher } from '../select/storage.ts';

export interface ReadQuery {
  /** Both inclusive. */
  readonly startMillis: number;
  readonly endMillis: number;
  readonly matchers: readonly Matcher[];
  /** What is made of the rows, as the client hints; '' when it does not say. */
  readonly function: string;
}

export interface ReadRequest {
  readonly queries: readonly ReadQuery[];
  /** In the order of the client's preference; empty means samples. */
  readonly acceptedResponseTypes: readonly ('samples' | 'streamedXorChunks')[];
}

/** Queries in one request; more are refused. */
const queriesMax = 1_000;
/** Fields in one request, those of its queries and matchers included; more are refused. */
const fieldsMax = 100_000;

const matcherKinds = ['=', '!=', '=~', '!~'] as const;

/**
 * Reads a request.
 * @throws {TsdbError} BAD_REQUEST when the bytes are not such a message
 */
export function decodeReadRequest(bytes: Uint8Array): ReadRequest {
  const queries: ReadQuery[] = [];
  const acceptedResponseTypes: ('samples' | 'streamedXorChunks')[] = [];
  const accept = (value: bigint): void => {
    if (value === 0n) acceptedResponseTypes.push('samples');
    else if (value === 1n) acceptedResponseTypes.push('streamedXorChunks');
  };
  const count = new FieldCount();
  for (const field of fieldsOf(bytes, count)) {
    if (field.number === 1 && field.bytes !== null) {
      if (queries.length === queriesMax) throw malformed(`more than ${queriesMax} queries`);
      queries.push(decodeQuery(field.bytes, count));
    } else if (field.number === 2) {
      if (field.bytes === null) accept(field.value);
      else for (const value of varintsOf(field.bytes, count)) accept(value);
    }
  }
  return { queries, acceptedResponseTypes };
}

function decodeQuery(bytes: Uint8Array, count: FieldCount): ReadQuery {
  let startMillis = 0;
  let endMillis = 0;
  const matchers: Matcher[] = [];
  let hinted = '';
  for (const field of fieldsOf(bytes, count)) {
    if (field.number === 1) startMillis = millisOf(field.value);
    else if (field.number === 2) endMillis = millisOf(field.value);
    else if (field.number === 3 && field.bytes !== null) {
      matchers.push(decodeMatcher(field.bytes, count));
    } else if (field.number === 4 && field.bytes !== null) {
      hinted = functionOfHints(field.bytes, count);
    }
  }
  return { startMillis, endMillis, matchers, function: hinted };
}

function functionOfHints(bytes: Uint8Array, count: FieldCount): string {
  let name = '';
  for (const field of fieldsOf(bytes, count)) {
    if (field.number === 2 && field.bytes !== null) name = textOf(field.bytes);
  }
  return name;
}

function millisOf(value: bigint): number {
  return Number(BigInt.asIntN(64, value));
}

function decodeMatcher(bytes: Uint8Array, count: FieldCount): Matcher {
  let kind = 0;
  let name = '';
  let value = '';
  for (const field of fieldsOf(bytes, count)) {
    if (field.number === 1) kind = Number(field.value);
    else if (field.number === 2 && field.bytes !== null) name = textOf(field.bytes);
    else if (field.number === 3 && field.bytes !== null) value = textOf(field.bytes);
  }
  const known = matcherKinds[kind];
  if (known === undefined) throw malformed(`unknown type of matcher: ${kind}`);
  return { kind: known, name, value };
}

interface Field {
  readonly number: number;
  /** Of a varint; 0 for others. */
  readonly value: bigint;
  /** Of a length-delimited field, else null. */
  readonly bytes: Uint8Array | null;
}

/** Of the fields of a request. */
class FieldCount {
  #count = 0;

  /** @throws {TsdbError} BAD_REQUEST when they are too many */
  addOne(): void {
    this.#count += 1;
    if (this.#count > fieldsMax) throw malformed(`more than ${fieldsMax} fields`);
  }
}

function* fieldsOf(bytes: Uint8Array, count: FieldCount): Iterable<Field> {
  const reader = new Reader(bytes);
  while (reader.at < bytes.length) {
    count.addOne();
    const key = Number(reader.varint());
    const number = Math.floor(key / 8);
    switch (key % 8) {
      case 0:
        yield { number, value: reader.varint(), bytes: null };
        break;
      case 1:
        reader.take(8);
        break;
      case 2:
        yield { number, value: 0n, bytes: reader.take(Number(reader.varint())) };
        break;
      case 5:
        reader.take(4);
        break;
      default:
        throw malformed(`unknown wire type: ${key % 8}`);
    }
  }
}

function* varintsOf(bytes: Uint8Array, count: FieldCount): Iterable<bigint> {
  const reader = new Reader(bytes);
  while (reader.at < bytes.length) {
    count.addOne();
    yield reader.varint();
  }
}

class Reader {
  readonly #bytes: Uint8Array;
  at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#bytes[this.at];
      if (byte === undefined) throw malformed('a number is cut off');
      this.at += 1;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asUintN(64, value);
    }
    throw malformed('a number is too long');
  }

  take(length: number): Uint8Array {
    if (length > this.#bytes.length - this.at) throw malformed('a field is cut off');
    this.at += length;
    return this.#bytes.subarray(this.at - length, this.at);
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true });

function textOf(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    throw badRequest('cannot read remote-read request: text is not UTF-8', { cause: error });
  }
}

function malformed(reason: string): Error {
  return badRequest(`cannot read remote-read request: ${reason}`);
}

/** A message under construction; grows by doubling. */
export class MessageWriter {
  #bytes: Uint8Array;
  #view: DataView;
  #length = 0;

  constructor(bytesExpected = 1024) {
    this.#bytes = new Uint8Array(bytesExpected);
    this.#view = new DataView(this.#bytes.buffer);
  }

  get byteLength(): number {
    return this.#length;
  }

  /** The bytes so far: a view that the next write may leave behind. */
  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  clear(): void {
    this.#length = 0;
  }

  #reserve(count: number): void {
    if (this.#length + count <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length + count));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }

  /** @param value whole, at least 0, below 2^53 */
  uvarint(value: number): void {
    this.#reserve(8);
    let rest = value;
    while (rest >= 128) {
      this.#bytes[this.#length++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#length++] = rest;
  }

  /** A field of type int64; negative numbers take ten bytes, as the format has it. */
  int64Field(number: number, value: number): void {
    this.uvarint(number * 8);
    if (value >= 0) {
      this.uvarint(value);
      return;
    }
    this.uvarintBig(BigInt.asUintN(64, BigInt(value)));
  }

  /** A field of type uint64. */
  uvarintField(number: number, value: bigint): void {
    this.uvarint(number * 8);
    this.uvarintBig(value);
  }

  /** @param value below 2^64 */
  uvarintBig(value: bigint): void {
    if (value < 2n ** 53n) {
      this.uvarint(Number(value));
      return;
    }
    this.#reserve(10);
    let rest = value;
    for (; rest >= 128n; rest >>= 7n) this.#bytes[this.#length++] = Number(rest & 127n) | 128;
    this.#bytes[this.#length++] = Number(rest);
  }

  bytesField(number: number, bytes: Uint8Array): void {
    this.bytesHead(number, bytes.length);
    this.raw(bytes);
  }

  /** What stands in front of so many bytes of a field. */
  bytesHead(number: number, length: number): void {
    this.uvarint(number * 8 + 2);
    this.uvarint(length);
  }

  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** A field of type double from the two words of its bits. */
  doubleField(number: number, low: number, high: number): void {
    this.uvarint(number * 8 + 1);
    this.#reserve(8);
    this.#view.setUint32(this.#length, low, true);
    this.#view.setUint32(this.#length + 4, high, true);
    this.#length += 8;
  }

  uint32BigEndian(value: number): void {
    this.#reserve(4);
    this.#view.setUint32(this.#length, value, false);
    this.#length += 4;
  }
}

/** Labels of a series, each as field 1 of the message that holds it. */
export function writeLabels(writer: MessageWriter, tags: Tags): void {
  const label = new MessageWriter(128);
  const encoder = new TextEncoder();
  for (const { name, value } of tags) {
    label.clear();
    label.bytesField(1, encoder.encode(name));
    label.bytesField(2, encoder.encode(value));
    writer.bytesField(1, label.finish());
  }
}
