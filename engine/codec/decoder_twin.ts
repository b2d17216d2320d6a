/** The obvious way to merge chunks: a map of timestamps. The kernel is held equal to it. */
import {
  chunkHeaders,
  chunkKind,
  decodeRawChunk,
  type ChunkHeader,
  type ChunkRows,
} from './chunk.ts';
import { decodeRowsChunk } from './chunk_rows.ts';
import { decodeFloatChunk } from './codec_twin.ts';

export interface MergedRows {
  readonly timestampNanos: BigInt64Array;
  readonly values: Float64Array;
  readonly rowVersions: Float64Array;
}

/**
 * Whether a row replaces another with the same timestamp: by the higher version, then by the larger
 * value bits as an unsigned 64-bit number.
 */
export function replaces(
  candidate: { version: number; bits: bigint },
  held: { version: number; bits: bigint },
): boolean {
  if (candidate.version !== held.version) return candidate.version > held.version;
  return candidate.bits > held.bits;
}

/** Rows of one chunk of any kind. @throws {TsdbError} BAD_REQUEST */
export function decodeChunkRows(bytes: Uint8Array, header: ChunkHeader): Required<ChunkRows> {
  if (header.kind === chunkKind.rawFloat) return decodeRawChunk(bytes, header);
  if (header.kind === chunkKind.rows) return decodeRowsChunk(bytes, header);
  return decodeFloatChunk(bytes, header);
}

/**
 * Rows of all chunks in [startNanos, endNanos), ascending, every timestamp once.
 * @throws {TsdbError} BAD_REQUEST when a chunk is malformed
 */
export function mergeChunks(chunks: Uint8Array, startNanos: bigint, endNanos: bigint): MergedRows {
  const rowOfTime = new Map<bigint, { version: number; bits: bigint }>();
  for (const header of chunkHeaders(chunks)) {
    if (header.lastNanos < startNanos || header.firstNanos >= endNanos) continue;
    const rows = decodeChunkRows(chunks, header);
    const bits = new BigUint64Array(rows.values.buffer, rows.values.byteOffset, header.rowCount);
    for (let i = 0; i < header.rowCount; i++) {
      const nanos = rows.timestampNanos[i]!;
      if (nanos < startNanos || nanos >= endNanos) continue;
      const candidate = { version: rows.rowVersions[i]!, bits: bits[i]! };
      const held = rowOfTime.get(nanos);
      if (held === undefined || replaces(candidate, held)) rowOfTime.set(nanos, candidate);
    }
  }
  const timestampNanos = BigInt64Array.from(rowOfTime.keys()).sort();
  const bits = new BigUint64Array(timestampNanos.length);
  const rowVersions = new Float64Array(timestampNanos.length);
  timestampNanos.forEach((nanos, i) => {
    const row = rowOfTime.get(nanos)!;
    bits[i] = row.bits;
    rowVersions[i] = row.version;
  });
  return { timestampNanos, values: new Float64Array(bits.buffer), rowVersions };
}
