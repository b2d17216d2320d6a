/** Chunks of a series without what lies outside a range: storage gives all of a fileset that overlaps it. */
import { chunkHeaders, kindsAll } from '../../codec/chunk.ts';
import { keepRows } from '../chunk_merge.ts';

/**
 * @param chunks one after the other, of floats and typed rows
 * @returns the very bytes when all rows are inside
 * @throws {TsdbError} BAD_REQUEST when a chunk is malformed
 */
export function rowsInRange(
  chunks: Uint8Array,
  [startNanos, endNanos]: readonly [startNanos: bigint, endNanos: bigint],
): Uint8Array {
  const parts: Uint8Array[] = [];
  let isCut = false;
  let start = 0;
  for (const { firstNanos, lastNanos, end } of chunkHeaders(chunks, 0, chunks.length, kindsAll)) {
    const bytes = chunks.subarray(start, end);
    start = end;
    if (firstNanos >= startNanos && lastNanos < endNanos) parts.push(bytes);
    else {
      isCut = true;
      if (lastNanos >= startNanos && firstNanos < endNanos) {
        parts.push(keepRows(bytes, startNanos, endNanos));
      }
    }
  }
  return isCut ? new Uint8Array(Buffer.concat(parts)) : chunks;
}
