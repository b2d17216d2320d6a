/**
 * The two compact column encodings of the batch layout (docs/formats/batch.md).
 *
 *     delta   first element raw | tokens: zigzag(difference) << 1 | isRun, then run length - 2 when it is one
 *     whole   flags u8 | tokens: 0 and eight raw bytes, or whole number + 1
 *
 * Numbers are little-endian base-128 varints below 2^53. Encoders write to a borrowed target and
 * give up (-1) when the outcome would not be shorter than the raw column; decoders answer null to
 * malformed bytes.
 */

/** Differences and whole numbers must be smaller; a token then stays below 2^53. */
const magnitudeMax = 2 ** 50;
/** Longest token: a varint of 53 bits. */
const varintBytesMax = 8;
const flagZigzag = 1;

interface Cursor {
  readonly bytes: Uint8Array;
  at: number;
}

function putVarint(target: Uint8Array, offset: number, value: number): number {
  while (value >= 128) {
    target[offset++] = (value % 128) | 128;
    value = Math.floor(value / 128);
  }
  target[offset++] = value;
  return offset;
}

/** Next varint, or -1 when it is cut off or larger than 2^53 - 1. */
function takeVarint(cursor: Cursor): number {
  const { bytes } = cursor;
  let at = cursor.at;
  const end = Math.min(bytes.length, at + varintBytesMax);
  let value = 0;
  let scale = 1;
  while (at < end) {
    const byte = bytes[at++]!;
    value += (byte & 127) * scale;
    if (byte < 128) {
      cursor.at = at;
      return value <= Number.MAX_SAFE_INTEGER ? value : -1;
    }
    scale *= 128;
  }
  return -1;
}

function zigzag(value: number): number {
  return value < 0 ? -2 * value - 1 : 2 * value;
}

function unzigzag(value: number): number {
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}

/** Bytes that an encoder may write past the raw size before it notices. */
export const encodeSlackBytes = 32;

/**
 * Writes a column of u32 elements (`wordsPerElement` 1) or i64 elements (2) as differences.
 * @param words the column's memory, little-endian
 * @param target at least the raw size plus `encodeSlackBytes` long
 * @returns bytes written from 0, or -1 when raw is shorter
 */
export function encodeDelta(
  words: Uint32Array,
  wordsPerElement: 1 | 2,
  target: Uint8Array,
): number {
  const rawBytes = words.length * 4;
  if (words.length === 0) return -1;
  let offset = 0;
  for (let i = 0; i < wordsPerElement; i++) {
    for (let shift = 0; shift < 32; shift += 8) target[offset++] = words[i]! >>> shift;
  }
  let runDelta = 0;
  let runLength = 0;
  for (let at = wordsPerElement; at < words.length; at += wordsPerElement) {
    let delta = words[at]! - words[at - wordsPerElement]!;
    if (wordsPerElement === 2) delta += ((words[at + 1]! | 0) - (words[at - 1]! | 0)) * 2 ** 32;
    if (delta >= magnitudeMax || delta <= -magnitudeMax) return -1;
    if (delta === runDelta && runLength > 0) {
      runLength++;
      continue;
    }
    if (runLength > 0) offset = putRun(target, offset, runDelta, runLength);
    if (offset >= rawBytes) return -1;
    runDelta = delta;
    runLength = 1;
  }
  if (runLength > 0) offset = putRun(target, offset, runDelta, runLength);
  return offset < rawBytes ? offset : -1;
}

function putRun(target: Uint8Array, offset: number, delta: number, length: number): number {
  const token = zigzag(delta) * 2;
  if (length === 1) return putVarint(target, offset, token);
  return putVarint(target, putVarint(target, offset, token + 1), length - 2);
}

/** Reads one token into the pair [difference, run length]; false when malformed. */
function takeRun(
  cursor: Cursor,
  rowsLeft: number,
  run: { delta: number; length: number },
): boolean {
  const token = takeVarint(cursor);
  if (token < 0) return false;
  run.delta = unzigzag(Math.floor(token / 2));
  run.length = 1;
  if (token % 2 === 1) {
    const more = takeVarint(cursor);
    if (more < 0) return false;
    run.length = more + 2;
  }
  return run.length <= rowsLeft;
}

/** @returns the column, or null when the bytes are malformed */
export function decodeDeltaU32(bytes: Uint8Array, rowCount: number): Uint32Array | null {
  if (bytes.length < 4) return null;
  const column = new Uint32Array(rowCount);
  let value = (bytes[0]! | (bytes[1]! << 8) | (bytes[2]! << 16) | (bytes[3]! << 24)) >>> 0;
  column[0] = value;
  const cursor = { bytes, at: 4 };
  const run = { delta: 0, length: 0 };
  let row = 1;
  while (row < rowCount) {
    if (!takeRun(cursor, rowCount - row, run)) return null;
    for (const end = row + run.length; row < end; row++) {
      value += run.delta;
      if (value < 0 || value > 0xffff_ffff) return null;
      column[row] = value;
    }
  }
  return cursor.at === bytes.length ? column : null;
}

/** @returns the column, or null when the bytes are malformed */
export function decodeDeltaI64(bytes: Uint8Array, rowCount: number): BigInt64Array | null {
  if (bytes.length < 8) return null;
  const column = new BigInt64Array(rowCount);
  const words = new Uint32Array(column.buffer);
  new Uint8Array(column.buffer).set(bytes.subarray(0, 8));
  let low = words[0]!;
  let high = words[1]! | 0;
  const cursor = { bytes, at: 8 };
  const run = { delta: 0, length: 0 };
  let row = 1;
  while (row < rowCount) {
    if (!takeRun(cursor, rowCount - row, run)) return null;
    for (const end = row + run.length; row < end; row++) {
      const sum = low + run.delta;
      const carry = Math.floor(sum / 2 ** 32);
      low = sum - carry * 2 ** 32;
      high += carry;
      if (high !== (high | 0)) return null;
      words[2 * row] = low;
      words[2 * row + 1] = high;
    }
  }
  return cursor.at === bytes.length ? column : null;
}

/**
 * Writes a column of float64 values, whole numbers short, all others bit for bit.
 * @param target at least the raw size plus `encodeSlackBytes` long
 * @returns bytes written from 0, or -1 when raw is shorter
 */
export function encodeWhole(values: Float64Array, target: Uint8Array): number {
  const rawBytes = values.length * 8;
  const bytes = new Uint8Array(values.buffer, values.byteOffset, rawBytes);
  const signed = values.some((value) => value < 0);
  let offset = 0;
  target[offset++] = signed ? flagZigzag : 0;
  for (let row = 0; row < values.length; row++) {
    const value = values[row]!;
    const isWhole =
      value === Math.trunc(value) &&
      value < magnitudeMax &&
      value > -magnitudeMax &&
      !Object.is(value, -0);
    if (isWhole) {
      offset = putVarint(target, offset, (signed ? zigzag(value) : value) + 1);
    } else {
      target[offset++] = 0;
      for (let at = row * 8; at < row * 8 + 8; at++) target[offset++] = bytes[at]!;
    }
    if (offset >= rawBytes) return -1;
  }
  return offset;
}

/** @returns the column, or null when the bytes are malformed */
export function decodeWholeF64(bytes: Uint8Array, rowCount: number): Float64Array | null {
  if (bytes.length < 1 || (bytes[0]! & ~flagZigzag) !== 0) return null;
  const signed = bytes[0] === flagZigzag;
  const column = new Float64Array(rowCount);
  const columnBytes = new Uint8Array(column.buffer);
  const cursor = { bytes, at: 1 };
  for (let row = 0; row < rowCount; row++) {
    const token = takeVarint(cursor);
    if (token < 0) return null;
    if (token > 0) {
      column[row] = signed ? unzigzag(token - 1) : token - 1;
      continue;
    }
    if (bytes.length - cursor.at < 8) return null;
    for (let i = 0; i < 8; i++) columnBytes[row * 8 + i] = bytes[cursor.at++]!;
  }
  return cursor.at === bytes.length ? column : null;
}
