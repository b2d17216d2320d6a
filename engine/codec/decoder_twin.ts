/** The obvious way to merge chunks: a map of timestamps. The kernel is held equal to it. */
import {
  chunkHeaders,
  chunkKind,
  decodeRawChunk,
  kindsFloat,
  type ChunkHeader,
  type ChunkRows,
} from './chunk.ts';
import { decodeRowsChunk } from './chunk_rows.ts';
import { decodeFloatChunk, decodeFloatStartsChunk, type StartedRows } from './codec_twin.ts';

export interface MergedRows {
  readonly timestampNanos: BigInt64Array;
  readonly values: Float64Array;
  readonly rowVersions: Float64Array;
  readonly startNanos: BigInt64Array;
}

interface Row {
  readonly version: number;
  readonly bits: bigint;
  readonly start: bigint;
}

/**
 * Whether a row replaces another with the same timestamp: by the higher version, then by the larger
 * value bits as an unsigned 64-bit number, then by the later start time.
 */
export function replaces(candidate: Row, held: Row): boolean {
  if (candidate.version !== held.version) return candidate.version > held.version;
  if (candidate.bits !== held.bits) return candidate.bits > held.bits;
  return candidate.start > held.start;
}

/** Rows of one chunk of any kind of floats. @throws {TsdbError} BAD_REQUEST */
export function decodeChunkRows(bytes: Uint8Array, header: ChunkHeader): StartedRows {
  if (header.kind === chunkKind.floatStarts) return decodeFloatStartsChunk(bytes, header);
  return { ...decodePlainRows(bytes, header), startNanos: new BigInt64Array(header.rowCount) };
}

function decodePlainRows(bytes: Uint8Array, header: ChunkHeader): Required<ChunkRows> {
  if (header.kind === chunkKind.rawFloat) return decodeRawChunk(bytes, header);
  if (header.kind === chunkKind.rows) return decodeRowsChunk(bytes, header);
  return decodeFloatChunk(bytes, header);
}

/**
 * Rows of all chunks in [startNanos, endNanos), ascending, every timestamp once.
 * @throws {TsdbError} BAD_REQUEST when a chunk is malformed
 */
export function mergeChunks(chunks: Uint8Array, startNanos: bigint, endNanos: bigint): MergedRows {
  const rowOfTime = new Map<bigint, Row>();
  for (const header of chunkHeaders(chunks, 0, chunks.length, kindsFloat)) {
    if (header.lastNanos < startNanos || header.firstNanos >= endNanos) continue;
    const rows = decodeChunkRows(chunks, header);
    const bits = new BigUint64Array(rows.values.buffer, rows.values.byteOffset, header.rowCount);
    for (let i = 0; i < header.rowCount; i++) {
      const nanos = rows.timestampNanos[i]!;
      if (nanos < startNanos || nanos >= endNanos) continue;
      const start = rows.startNanos[i]!;
      const candidate = { version: rows.rowVersions[i]!, bits: bits[i]!, start };
      const held = rowOfTime.get(nanos);
      if (held === undefined || replaces(candidate, held)) rowOfTime.set(nanos, candidate);
    }
  }
  const timestampNanos = BigInt64Array.from(rowOfTime.keys()).sort();
  const bits = new BigUint64Array(timestampNanos.length);
  const rowVersions = new Float64Array(timestampNanos.length);
  const starts = new BigInt64Array(timestampNanos.length);
  timestampNanos.forEach((nanos, i) => {
    const row = rowOfTime.get(nanos)!;
    bits[i] = row.bits;
    rowVersions[i] = row.version;
    starts[i] = row.start;
  });
  const values = new Float64Array(bits.buffer);
  return { timestampNanos, values, rowVersions, startNanos: starts };
}
