/** Takes the rows that deletions cover out of chunks (docs/STORAGE.md, 'Deletions'). */
import {
  type ChunkHeader,
  chunkHeaders,
  chunkKind,
  type ChunkRows,
  encodeRawChunk,
  kindsAll,
} from '#engine/codec/chunk.ts';
import {
  cutRows,
  decodeChunk,
  keepRows,
  mergeChunks,
  type RowCut,
} from '#engine/store/chunk_merge.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';

/** Rows with a time in its range and a version up to its own are deleted. */
export interface Cut extends RowCut {
  /**
   * Rows of a chunk that is newer than the deletion all stay, where it has one version for all of
   * them.
   */
  readonly keepsNewerChunks?: boolean;
}

/**
 * The chunks without the rows that are deleted: the very bytes when there is none.
 *
 * Rows of a chunk that keeps one version for all of them are deleted when that is not above the
 * deletion's. Where it is above, the chunk may have older rows too: they are told by their times,
 * which are about those of their versions.
 * @param chunks of one series, one after the other
 * @throws {TsdbError} BAD_REQUEST when a chunk is malformed
 */
export function cutChunks(chunks: Uint8Array, cuts: readonly Cut[]): Uint8Array {
  return cutEach(chunks, (bytes, header) => cutChunk(bytes, header, cuts));
}

const nanosMin = -(2n ** 63n);
const nanosMax = 2n ** 63n - 1n;

/**
 * The rows of [startNanos, endNanos), whatever their versions: the very bytes when these are all.
 * @param startNanos null: from the first on
 * @param endNanos null: up to the last one
 */
export function keepRange(
  chunks: Uint8Array,
  startNanos: bigint | null,
  endNanos: bigint | null,
): Uint8Array {
  const from = startNanos ?? nanosMin;
  const until = endNanos ?? nanosMax;
  return cutEach(chunks, (bytes, header) => {
    const { firstNanos, lastNanos } = header;
    if (firstNanos >= from && lastNanos < until) return bytes;
    if (lastNanos < from || firstNanos >= until) return null;
    if (hasOneVersion(header) || keepsVersions(header)) {
      return keepRows(bytes, from, until);
    }
    const version = Number.MAX_SAFE_INTEGER;
    return cutChunk(bytes, header, [
      { startNanos: nanosMin, endNanos: from, version },
      { startNanos: until, endNanos: nanosMax, version },
    ]);
  });
}

/** @param keep gives the very bytes when a chunk stays as it is, null or nothing when it goes */
function cutEach(
  chunks: Uint8Array,
  keep: (bytes: Uint8Array, header: ChunkHeader) => Uint8Array | null,
): Uint8Array {
  const parts: Uint8Array[] = [];
  let isCut = false;
  let start = 0;
  for (const header of chunkHeaders(chunks, 0, chunks.length, kindsAll)) {
    const { end } = header;
    const bytes = chunks.subarray(start, end);
    const kept = keep(bytes, header);
    if (kept !== bytes) isCut = true;
    if (kept !== null) parts.push(kept);
    start = end;
  }
  if (!isCut) return chunks;
  return parts.length === 1 ? parts[0]! : new Uint8Array(Buffer.concat(parts));
}

/** @returns the very bytes when nothing is deleted, null when all is */
function cutChunk(bytes: Uint8Array, header: ChunkHeader, cuts: readonly Cut[]): Uint8Array | null {
  const { firstNanos, lastNanos, version } = header;
  const overlapping = cuts.filter(
    ({ startNanos, endNanos }) => startNanos <= lastNanos && endNanos > firstNanos,
  );
  if (overlapping.length === 0) return bytes;
  const isCovered = overlapping.some(
    (cut) => cut.startNanos <= firstNanos && cut.endNanos > lastNanos && version <= cut.version,
  );
  if (isCovered) return null;
  if (keepsVersions(header)) {
    const kept = cutRows(bytes, overlapping);
    return kept.length === 0 ? null : kept;
  }
  const rows = decodeChunk(bytes);
  const places: number[] = [];
  for (let row = 0; row < header.rowCount; row += 1) {
    if (!overlapping.some((cut) => deletes(cut, rows, row, header))) places.push(row);
  }
  if (places.length === header.rowCount) return bytes;
  if (places.length === 0) return null;
  return encode(rows, places, header);
}

function deletes(cut: Cut, rows: Required<ChunkRows>, row: number, header: ChunkHeader): boolean {
  const nanos = rows.timestampNanos[row]!;
  if (nanos < cut.startNanos || nanos >= cut.endNanos) return false;
  if (rows.rowVersions[row]! <= cut.version) return true;
  if (!hasOneVersion(header) || cut.keepsNewerChunks === true) return false;
  return versionAtNanos(nanos) <= BigInt(cut.version);
}

/** All rows have the chunk's version. */
function hasOneVersion(header: ChunkHeader): boolean {
  return !header.hasRowVersions && !keepsVersions(header);
}

/** It is compressed and keeps the version of each row: floats, with starts or without, and typed rows. */
function keepsVersions({ kind }: ChunkHeader): boolean {
  return kind >= chunkKind.floatLags;
}

function encode(
  rows: Required<ChunkRows>,
  places: readonly number[],
  header: ChunkHeader,
): Uint8Array {
  const timestampNanos = BigInt64Array.from(places, (row) => rows.timestampNanos[row]!);
  // By bits, since a number would lose the payload of a signalling NaN.
  const { buffer, byteOffset, length } = rows.values;
  const from = new BigUint64Array(buffer, byteOffset, length);
  const bits = BigUint64Array.from(places, (row) => from[row]!);
  const values = new Float64Array(bits.buffer);
  if (hasOneVersion(header)) {
    const { version } = header;
    return mergeChunks([encodeRawChunk({ timestampNanos, values, version })]);
  }
  const rowVersions = Float64Array.from(places, (row) => rows.rowVersions[row]!);
  return encodeVersioned({ timestampNanos, values, rowVersions });
}

/** Raw chunks: several where versions are too far apart for one. */
function encodeVersioned(rows: Omit<Required<ChunkRows>, 'version'>): Uint8Array {
  const { timestampNanos, values, rowVersions } = rows;
  const parts: Uint8Array[] = [];
  for (let first = 0, end = 0; first < rowVersions.length; first = end) {
    let [lowest, highest] = [rowVersions[first]!, rowVersions[first]!];
    for (end = first + 1; end < rowVersions.length; end += 1) {
      const version = rowVersions[end]!;
      if (Math.max(highest, version) - Math.min(lowest, version) >= 2 ** 32) break;
      lowest = Math.min(lowest, version);
      highest = Math.max(highest, version);
    }
    parts.push(
      encodeRawChunk({
        timestampNanos: timestampNanos.slice(first, end),
        values: values.slice(first, end),
        version: highest,
        rowVersions: rowVersions.slice(first, end),
      }),
    );
  }
  return parts.length === 1 ? parts[0]! : new Uint8Array(Buffer.concat(parts));
}
