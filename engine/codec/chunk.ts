/**
 * Chunks: rows of one series inside one block, self-delimiting and never changed once they exist
 * (docs/formats/chunk.md). This file has the header and raw chunks; the compressed payload is in
 * codec_twin.ts and, for speed, in engine/codec/kernel/codec.ts.
 */
import { assert } from '#lib/assert.ts';
import { badRequest } from '#lib/errors.ts';
import { versionAtNanos, versionMax } from '#lib/hybrid_clock.ts';
import {
  chunkRowsMax,
  kindFloat,
  kindFloatLags,
  kindFloatStarts,
  kindRawFloat,
  kindRows,
  kindTyped,
  kindsPlain,
} from './layout.ts';

export { kindsAll, kindsFloat, kindsPlain } from './layout.ts';
/** Rows that one chunk can hold; a longer run is several chunks. */
export { chunkRowsMax } from './layout.ts';

/** What the payload is. 0 is never a kind, so zeroed memory never parses as a chunk. */
export const chunkKind: {
  readonly rawFloat: typeof kindRawFloat;
  readonly float: typeof kindFloat;
  readonly rows: typeof kindRows;
  readonly floatLags: typeof kindFloatLags;
  readonly typed: typeof kindTyped;
  readonly floatStarts: typeof kindFloatStarts;
} = {
  /** Columns as they are: int64 nanoseconds, float64 bits, and the rows' versions when flagged. */
  rawFloat: kindRawFloat,
  /** docs/formats/codec.md */
  float: kindFloat,
  /** One row after the other, each with its version, as they were appended (chunk_rows.ts). */
  rows: kindRows,
  /**
   * As float, with versions that are as far from the rows' times: all by the same lag, or each by its
   * own.
   */
  floatLags: kindFloatLags,
  /** Typed values, by columns (docs/formats/typed.md). */
  typed: kindTyped,
  /** As float lags, with a start time for each row. */
  floatStarts: kindFloatStarts,
};

export type ChunkKind = (typeof chunkKind)[keyof typeof chunkKind];

const unitNanosOfCode = [1n, 1_000n, 1_000_000n, 1_000_000_000n] as const;
const int64Min = -(2n ** 63n);
const int64Max = 2n ** 63n - 1n;

export interface ChunkHeader {
  readonly kind: ChunkKind;
  /**
   * Rows have versions of their own: always those of kind rows, never those of kind float; of kinds with
   * lags they have all one lag without it.
   */
  readonly hasRowVersions: boolean;
  /** All timestamps are multiples of it; 1, 1000, 1e6 or 1e9. */
  readonly timeUnitNanos: bigint;
  /** At least 1. */
  readonly rowCount: number;
  readonly firstNanos: bigint;
  /** Inclusive; equal to the first when there is one row. */
  readonly lastNanos: bigint;
  /** No row has a higher version. */
  readonly version: number;
  /** The payload is bytes[payloadStart .. end), and the next chunk begins at end. */
  readonly payloadStart: number;
  readonly end: number;
}

/** Rows in strictly ascending time. */
export interface ChunkRows {
  readonly timestampNanos: BigInt64Array;
  readonly values: Float64Array;
  /** Highest version of the rows, or one that none of them is above. */
  readonly version: number;
  /** Version of each row, none above `version`; without it every row has `version`. */
  readonly rowVersions?: Float64Array;
}

/** Appends bytes; grows as needed. For twins and tests, where clarity goes before speed. */
export class ByteSink {
  #bytes: Uint8Array<ArrayBuffer>;
  length: number;

  constructor() {
    this.#bytes = new Uint8Array(256);
    this.length = 0;
  }

  #reserve(count: number): void {
    if (this.length + count <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.length + count));
    larger.set(this.#bytes);
    this.#bytes = larger;
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.length++] = value;
  }

  bytes(values: Uint8Array): void {
    this.#reserve(values.length);
    this.#bytes.set(values, this.length);
    this.length += values.length;
  }

  /** LEB128 of an unsigned 64-bit number. */
  varint(value: bigint): void {
    let rest = BigInt.asUintN(64, value);
    while (rest >= 128n) {
      this.byte(Number(rest & 127n) | 128);
      rest >>= 7n;
    }
    this.byte(Number(rest));
  }

  /** Signed: small magnitudes of both signs become short. */
  zigzag(value: bigint): void {
    this.varint(zigzagOf(value));
  }

  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.length);
  }
}

/** Maps 0, -1, 1, -2, … to 0, 1, 2, 3, … within 64 bits. */
export function zigzagOf(value: bigint): bigint {
  const signed = BigInt.asIntN(64, value);
  return BigInt.asUintN(64, (signed << 1n) ^ (signed >> 63n));
}

export function unzigzag(code: bigint): bigint {
  return BigInt.asIntN(64, (code >> 1n) ^ -(code & 1n));
}

/** Reads what `ByteSink` writes; every read is checked against the end. */
export class ByteSource {
  readonly bytes: Uint8Array;
  offset: number;
  readonly end: number;

  constructor(bytes: Uint8Array, offset: number, end: number) {
    assert(offset >= 0 && offset <= end && end <= bytes.length, 'the range is inside the bytes');
    this.bytes = bytes;
    this.offset = offset;
    this.end = end;
  }

  byte(): number {
    if (this.offset >= this.end) throw malformed('ends too early', this.offset);
    return this.bytes[this.offset++]!;
  }

  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.byte();
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) {
        if (value >= 2n ** 64n) break;
        return value;
      }
    }
    throw malformed('has a number of more than 64 bits', this.offset);
  }

  zigzag(): bigint {
    return unzigzag(this.varint());
  }

  take(count: number): Uint8Array {
    if (count > this.end - this.offset) throw malformed('ends too early', this.offset);
    this.offset += count;
    return this.bytes.subarray(this.offset - count, this.offset);
  }
}

export function malformed(reason: string, offset: number): Error {
  return badRequest(`cannot read chunk: it ${reason}: at byte ${offset}`);
}

function isKind(kind: number, kinds: number): kind is ChunkKind {
  return ((kinds >> kind) & 1) === 1;
}

/** Versions of its rows are as far from their times, each by its own lag or all by one. */
function hasLags(kind: ChunkKind): boolean {
  return kind >= chunkKind.floatLags;
}

/** 0 ns, 1 µs, 2 ms, 3 s: the coarsest unit that all times are multiples of. */
export function timeUnitCodeOf(timestampNanos: Iterable<bigint>): number {
  let code = 3;
  for (const nanos of timestampNanos) {
    while (code > 0 && nanos % unitNanosOfCode[code]! !== 0n) code--;
    if (code === 0) break;
  }
  return code;
}

/** Puts header and payload together. */
export function frameChunk(
  header: {
    kind: ChunkKind;
    hasRowVersions: boolean;
    timeUnitCode: number;
    rowCount: number;
    firstNanos: bigint;
    lastNanos: bigint;
    version: number;
  },
  payload: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const unit = unitNanosOfCode[header.timeUnitCode]!;
  const body = new ByteSink();
  body.byte(header.kind | (header.timeUnitCode << 4) | (header.hasRowVersions ? 64 : 0));
  body.varint(BigInt(header.rowCount - 1));
  body.zigzag(header.firstNanos / unit);
  body.varint((header.lastNanos - header.firstNanos) / unit);
  body.zigzag(BigInt(header.version) - versionAtNanos(header.lastNanos));
  body.bytes(payload);
  const chunk = new ByteSink();
  chunk.varint(BigInt(body.length));
  chunk.bytes(body.finish());
  return chunk.finish();
}

/**
 * Reads the header of the chunk at `offset`; the payload is not looked at, except that the length
 * of a raw one must fit.
 * @param end where the bytes of the series end
 * @param kinds that the caller knows (`kindsPlain`, `kindsFloat`, `kindsAll`); others are refused
 * @throws {TsdbError} BAD_REQUEST
 */
export function parseChunkHeader(
  bytes: Uint8Array,
  offset: number,
  end: number,
  kinds: number = kindsPlain,
): ChunkHeader {
  const outer = new ByteSource(bytes, offset, end);
  const length = outer.varint();
  if (length > BigInt(outer.end - outer.offset))
    throw malformed('is longer than its bytes', offset);
  const source = new ByteSource(bytes, outer.offset, outer.offset + Number(length));
  const tag = source.byte();
  const kind = tag & 15;
  const hasRowVersions = (tag & 64) !== 0;
  if (tag & 128 || !isKind(kind, kinds)) {
    throw malformed(`has an unknown kind: ${tag}`, offset);
  }
  if (hasRowVersions ? kind === chunkKind.float : kind === chunkKind.rows) {
    throw malformed('has or lacks row versions against its kind', offset);
  }
  const unit = unitNanosOfCode[(tag >> 4) & 3]!;
  const rowCountLess = source.varint();
  if (rowCountLess >= BigInt(chunkRowsMax)) throw malformed('has too many rows', offset);
  const rowCount = Number(rowCountLess) + 1;
  const firstNanos = source.zigzag() * unit;
  const lastNanos = firstNanos + source.varint() * unit;
  if (firstNanos < int64Min || lastNanos > int64Max) {
    throw malformed('has a time outside of 64 bits', offset);
  }
  if ((rowCount === 1) !== (firstNanos === lastNanos)) {
    throw malformed('has first and last times that disagree with its rows', offset);
  }
  if (hasLags(kind) && hasRowVersions && rowCount === 1) {
    throw malformed('has one row with a version beside its own', offset);
  }
  const version = source.zigzag() + versionAtNanos(lastNanos);
  if (version < 0n || version > BigInt(versionMax)) throw malformed('has a bad version', offset);
  if (hasLags(kind) && !hasRowVersions) {
    const lag = version - versionAtNanos(lastNanos);
    if (lag + versionAtNanos(firstNanos) < 0n) throw malformed('has a bad version', offset);
  }
  if (kind === chunkKind.rawFloat) {
    const rowBytes = hasRowVersions ? 20 : 16;
    if (source.end - source.offset !== rowCount * rowBytes) {
      throw malformed('has a raw payload of a wrong length', offset);
    }
  } else if (kind === chunkKind.rows && source.end - source.offset < 8 + rowCount * 2) {
    throw malformed('has fewer bytes than its rows need', offset);
  }
  return {
    kind,
    hasRowVersions,
    timeUnitNanos: unit,
    rowCount,
    firstNanos,
    lastNanos,
    version: Number(version),
    payloadStart: source.offset,
    end: source.end,
  };
}

/**
 * Headers of the chunks that lie one after the other in bytes[offset .. end).
 * @throws {TsdbError} BAD_REQUEST at the first that is malformed
 */
export function* chunkHeaders(
  bytes: Uint8Array,
  offset: number = 0,
  end: number = bytes.length,
  kinds: number = kindsPlain,
): Generator<ChunkHeader> {
  for (let next = offset; next < end; ) {
    const header = parseChunkHeader(bytes, next, end, kinds);
    yield header;
    next = header.end;
  }
}

/**
 * Rows as a raw chunk: nothing is compressed. For heads, whose rows change soon anyway.
 * @param rows 1 to `chunkRowsMax` rows in strictly ascending time
 */
export function encodeRawChunk(rows: ChunkRows): Uint8Array<ArrayBuffer> {
  const rowCount = rows.timestampNanos.length;
  assert(rowCount >= 1 && rowCount <= chunkRowsMax, 'a chunk has 1 to 65536 rows');
  assert(rows.values.length === rowCount, 'columns have one length');
  for (let i = 1; i < rowCount; i++) {
    assert(rows.timestampNanos[i]! > rows.timestampNanos[i - 1]!, 'times are strictly ascending');
  }
  const payload = new ByteSink();
  payload.bytes(bytesOf(rows.timestampNanos));
  payload.bytes(bytesOf(rows.values));
  if (rows.rowVersions !== undefined) {
    assert(rows.rowVersions.length === rowCount, 'columns have one length');
    const below = new Uint32Array(rowCount);
    for (let i = 0; i < rowCount; i++) {
      const less = rows.version - rows.rowVersions[i]!;
      assert(less >= 0 && less < 2 ** 32, 'row versions are near below the version of the chunk');
      below[i] = less;
    }
    payload.bytes(bytesOf(below));
  }
  return frameChunk(
    {
      kind: chunkKind.rawFloat,
      hasRowVersions: rows.rowVersions !== undefined,
      timeUnitCode: timeUnitCodeOf([rows.timestampNanos[0]!, rows.timestampNanos[rowCount - 1]!]),
      rowCount,
      firstNanos: rows.timestampNanos[0]!,
      lastNanos: rows.timestampNanos[rowCount - 1]!,
      version: rows.version,
    },
    payload.finish(),
  );
}

/**
 * Rows of a raw chunk, copied.
 * @throws {TsdbError} BAD_REQUEST when times do not ascend or disagree with the header
 */
export function decodeRawChunk(bytes: Uint8Array, header: ChunkHeader): Required<ChunkRows> {
  assert(header.kind === chunkKind.rawFloat, 'the chunk is raw');
  const { rowCount, payloadStart } = header;
  const column = (start: number, length: number) => bytes.slice(start, start + length).buffer;
  const timestampNanos = new BigInt64Array(column(payloadStart, rowCount * 8) as ArrayBuffer);
  const values = new Float64Array(column(payloadStart + rowCount * 8, rowCount * 8) as ArrayBuffer);
  const rowVersions = new Float64Array(rowCount).fill(header.version);
  if (header.hasRowVersions) {
    const below = new Uint32Array(
      column(payloadStart + rowCount * 16, rowCount * 4) as ArrayBuffer,
    );
    for (let i = 0; i < rowCount; i++) rowVersions[i] = header.version - below[i]!;
  }
  checkTimes(timestampNanos, header);
  if (rowVersions.some((version) => version < 0)) {
    throw malformed('has a bad row version', payloadStart);
  }
  return { timestampNanos, values, version: header.version, rowVersions };
}

/** @throws {TsdbError} BAD_REQUEST when times do not ascend or disagree with the header */
export function checkTimes(timestampNanos: BigInt64Array, header: ChunkHeader): void {
  const { rowCount, payloadStart } = header;
  for (let i = 1; i < rowCount; i++) {
    if (timestampNanos[i]! <= timestampNanos[i - 1]!) {
      throw malformed('has times that do not ascend', payloadStart);
    }
  }
  if (
    timestampNanos[0] !== header.firstNanos ||
    timestampNanos[rowCount - 1] !== header.lastNanos
  ) {
    throw malformed('has times that disagree with its header', payloadStart);
  }
}

function bytesOf(column: BigInt64Array | Float64Array | Uint32Array): Uint8Array {
  return new Uint8Array(column.buffer, column.byteOffset, column.byteLength);
}
