/** The obvious way to digest rows: one by one, in numbers of any length. The kernel is held equal to it. */
import { mergeChunks } from '../codec/decoder_twin.ts';
import { fieldType, TypedValueReader } from '../typed/typed_value.ts';
import type { SeriesDigest } from './row_digest.ts';

const seedLow = 0x9e3779b97f4a7c15n;
const seedHigh = 0xc2b2ae3d27d4eb4fn;

function wrap(x: bigint): bigint {
  return BigInt.asUintN(64, x);
}

function mix(x: bigint): bigint {
  let mixed = wrap(x);
  mixed = wrap((mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
  mixed = wrap((mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
  return mixed ^ (mixed >> 31n);
}

function rotatedLeft(x: bigint, bits: bigint): bigint {
  return wrap((x << bits) | (x >> (64n - bits)));
}

function hashOf(id: Uint8Array): { low: bigint; high: bigint } {
  const length = BigInt(id.length);
  let low = mix(seedLow + length);
  let high = mix(seedHigh + length);
  const padded = new Uint8Array(Math.ceil(id.length / 8) * 8);
  padded.set(id);
  for (const word of new BigUint64Array(padded.buffer)) {
    low = mix(low ^ word);
    high = mix(high + word);
  }
  return { low, high };
}

/** A typed row that stays of those with one time. */
export interface TypedRow {
  readonly nanos: bigint;
  readonly startNanos: bigint;
  readonly value: Uint8Array;
}

/** As `digestSeries()` of typed rows alone. */
export function digestTypedByRows(id: Uint8Array, rows: Iterable<TypedRow>): SeriesDigest {
  const hash = hashOf(id);
  let low = 0n;
  let high = 0n;
  for (const { nanos, startNanos, value } of rows) {
    const plain = mix(nanos + hash.low);
    const time = startNanos === 0n ? plain : mix(plain + startNanos);
    const reader = new TypedValueReader().open(value);
    const head = mix(BigInt(reader.layout) * 8n + BigInt(reader.kind));
    const content = mix(head + hashOfFields(reader, value));
    low = wrap(low + mix(time ^ content));
    high = wrap(high + mix(wrap(rotatedLeft(time, 29n) + content) ^ hash.high));
  }
  return { idHash: Number(hash.low >> 32n), low, high };
}

function hashOfFields(reader: TypedValueReader, bytes: Uint8Array): bigint {
  let sum = 0n;
  while (reader.next()) {
    const tag = BigInt(reader.number) * 8n + BigInt(reader.type);
    sum = wrap(sum + mix(mix(tag) + contentOf(reader, bytes)));
  }
  return sum;
}

function contentOf(reader: TypedValueReader, bytes: Uint8Array): bigint {
  switch (reader.type) {
    case fieldType.int:
      // As it is written: zigzag.
      return wrap((reader.integer << 1n) ^ (reader.integer >> 63n));
    case fieldType.uint:
      return reader.integer;
    case fieldType.bytes:
      return hashOfBytes(bytes.subarray(reader.start, reader.end));
    case fieldType.message: {
      const inner = new TypedValueReader().openFields(bytes, reader.start, reader.end);
      return hashOfFields(inner, bytes);
    }
    default:
      return reader.bits;
  }
}

function hashOfBytes(bytes: Uint8Array): bigint {
  const padded = new Uint8Array(Math.ceil(bytes.length / 8) * 8);
  padded.set(bytes);
  let hash = BigInt(bytes.length);
  for (const word of new BigUint64Array(padded.buffer)) hash = mix(hash + word);
  return hash;
}

/** As `digestSeries()`. @throws {TsdbError} BAD_REQUEST when a chunk is malformed */
export function digestByRows(
  id: Uint8Array,
  parts: readonly Uint8Array[],
  startNanos: bigint,
  endNanos: bigint,
): SeriesDigest {
  const chunks = new Uint8Array(Buffer.concat(parts));
  const merged = mergeChunks(chunks, startNanos, endNanos);
  const { timestampNanos, values } = merged;
  const bits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
  const hash = hashOf(id);
  let low = 0n;
  let high = 0n;
  timestampNanos.forEach((nanos, row) => {
    const start = merged.startNanos[row]!;
    const plain = mix(nanos + hash.low);
    const time = start === 0n ? plain : mix(plain + start);
    low = wrap(low + mix(time ^ bits[row]!));
    high = wrap(high + mix(wrap(rotatedLeft(time, 29n) + bits[row]!) ^ hash.high));
  });
  return { idHash: Number(hash.low >> 32n), low, high };
}
