/**
 * Requests of the remote-read protocol, by hand. Field numbers are those of the protocol's definition; unknown
 * fields are skipped, as protobuf asks.
 */
import { badRequest } from '#lib/errors.ts';
import type { Matcher } from '../select/storage.ts';

export interface ReadQuery {
  /** Both inclusive. */
  readonly startMillis: number;
  readonly endMillis: number;
  readonly matchers: readonly Matcher[];
  /** What comes next of a range of rows, as the client hints; '' for none, or when it does not say. */
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

/** Without a range of the selector itself the function is around a subquery, or of a vector: it looks at values. */
function functionOfHints(bytes: Uint8Array, count: FieldCount): string {
  let name = '';
  let rangeMillis = 0;
  for (const field of fieldsOf(bytes, count)) {
    if (field.number === 2 && field.bytes !== null) name = textOf(field.bytes);
    else if (field.number === 7) rangeMillis = millisOf(field.value);
  }
  return rangeMillis > 0 ? name : '';
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
