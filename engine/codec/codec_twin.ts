/**
 * The float codec written for reading (docs/formats/codec.md): what engine/codec/kernel/codec.ts
 * must give, byte for byte. 64-bit numbers are bigints that wrap; bits are taken one by one.
 */
import { assert } from '#lib/assert.ts';
import {
  ByteSink,
  ByteSource,
  chunkKind,
  frameChunk,
  malformed,
  type ChunkHeader,
  type ChunkKind,
  type ChunkRows,
} from './chunk.ts';
import {
  decodeStarts,
  decodeTimes,
  decodeValues,
  decodeVersions,
  encodeLags,
  encodeStarts,
  encodeTimes,
  encodeValues,
  irregularTimesFlag,
} from './columns_twin.ts';

/** Rows with a start time each, in Unix nanoseconds; 0 for none. */
export interface StartedRows extends Required<ChunkRows> {
  readonly startNanos: BigInt64Array;
}

/**
 * Rows as a compressed chunk of kind float.
 * @param rows 1 to `chunkRowsMax` rows in strictly ascending time, of which only the highest
 * version stays
 */
export function encodeFloatChunk(rows: ChunkRows): Uint8Array<ArrayBuffer> {
  return encodeRows(chunkKind.float, rows, null, null);
}

/**
 * Rows as a compressed chunk of kind float lags.
 * @param rows 1 to `chunkRowsMax` rows in strictly ascending time
 */
export function encodeFloatLagsChunk(rows: Required<ChunkRows>): Uint8Array<ArrayBuffer> {
  return encodeRows(chunkKind.floatLags, rows, rows.rowVersions, null);
}

/**
 * Rows as a compressed chunk of kind float starts.
 * @param rows 1 to `chunkRowsMax` rows in strictly ascending time
 */
export function encodeFloatStartsChunk(rows: StartedRows): Uint8Array<ArrayBuffer> {
  return encodeRows(chunkKind.floatStarts, rows, rows.rowVersions, rows.startNanos);
}

function encodeRows(
  kind: ChunkKind,
  rows: ChunkRows,
  rowVersions: Float64Array | null,
  startNanos: BigInt64Array | null,
): Uint8Array<ArrayBuffer> {
  const { timestampNanos, values } = rows;
  const times = encodeTimes(timestampNanos);
  const { control, bytes: valueBytes } = encodeValues(values);
  const payload = new ByteSink();
  payload.byte(control | (times.isRegular ? 0 : irregularTimesFlag));
  payload.bytes(times.bytes);
  payload.bytes(valueBytes);
  const lags = rowVersions === null ? null : encodeLags(timestampNanos, rowVersions);
  if (lags !== null) payload.bytes(lags.bytes);
  if (startNanos !== null) encodeStarts(payload, startNanos, timestampNanos);
  return frameChunk(
    {
      kind,
      hasRowVersions: lags?.hasRowVersions ?? false,
      timeUnitCode: times.unitCode,
      rowCount: timestampNanos.length,
      firstNanos: timestampNanos[0]!,
      lastNanos: timestampNanos.at(-1)!,
      version: lags?.version ?? rows.version,
    },
    payload.finish(),
  );
}

/**
 * Rows of a compressed chunk.
 * @throws {TsdbError} BAD_REQUEST when the payload is malformed
 */
export function decodeFloatChunk(bytes: Uint8Array, header: ChunkHeader): Required<ChunkRows> {
  const { kind } = header;
  assert(kind === chunkKind.float || kind === chunkKind.floatLags, 'the chunk is compressed');
  const source = new ByteSource(bytes, header.payloadStart, header.end);
  return ended(source, decodeRows(source, header));
}

/**
 * Rows of a chunk of kind float starts.
 * @throws {TsdbError} BAD_REQUEST when the payload is malformed
 */
export function decodeFloatStartsChunk(bytes: Uint8Array, header: ChunkHeader): StartedRows {
  assert(header.kind === chunkKind.floatStarts, 'the chunk has starts');
  const source = new ByteSource(bytes, header.payloadStart, header.end);
  const rows = decodeRows(source, header);
  const startNanos = decodeStarts(source, rows.timestampNanos);
  return ended(source, { ...rows, startNanos });
}

function decodeRows(source: ByteSource, header: ChunkHeader): Required<ChunkRows> {
  const { kind, rowCount, version } = header;
  const control = source.byte();
  const timestampNanos = decodeTimes(source, header, (control & irregularTimesFlag) !== 0);
  const bits = decodeValues(source, rowCount, control);
  const rowVersions =
    kind === chunkKind.float
      ? new Float64Array(rowCount).fill(version)
      : decodeVersions(source, header, timestampNanos);
  return { timestampNanos, values: new Float64Array(bits.buffer), version, rowVersions };
}

function ended<Rows>(source: ByteSource, rows: Rows): Rows {
  if (source.offset !== source.end) throw malformed('has bytes after its rows', source.offset);
  return rows;
}
