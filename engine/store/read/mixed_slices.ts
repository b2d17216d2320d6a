/** Rows of a series of floats and typed values, a slice of time after the other: for who goes through many of them. */
import { chunkSlices, type SliceLimits } from './chunk_slices.ts';
import { type MixedRows, readMixedRows } from './mixed_rows.ts';

/** Some milliseconds' work; bytes matter where values are large. */
const sliceLimits: SliceLimits = { rowsMax: 480, bytesMax: 16_384 };

/**
 * @param chunks of both kinds, one after the other
 * @param unitNanos rows of one such unit of time are in one slice
 * @returns slices with rows, in ascending time
 * @throws {TsdbError} as `readMixedRows`
 */
export function* mixedSlices(
  chunks: Uint8Array,
  range: { readonly startNanos: bigint; readonly endNanos: bigint },
  unitNanos: bigint = 1n,
): Generator<MixedRows> {
  for (const { parts, from, to } of chunkSlices(chunks, range, unitNanos, sliceLimits)) {
    const rows = readMixedRows(parts, [from, to]);
    if (rows.timestampNanos.length > 0) yield rows;
  }
}
