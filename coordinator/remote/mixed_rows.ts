/** Rows of a series that has histograms, at the protocol's resolution: a slice of time after the other. */
import { unitBegin } from '#engine/store/read/chunk_slices.ts';
import type { MixedRows } from '#engine/store/read/mixed_rows.ts';
import { mixedSlices } from '#engine/store/read/mixed_slices.ts';
import { type Histogram, histogramOfValue } from '#engine/typed/histogram.ts';
import { valueKind } from '#engine/typed/typed_value.ts';

/** What is neither a number nor a histogram has no place in the protocol. */
export type MixedRow =
  | { readonly millis: number; readonly valueBits: bigint }
  | { readonly millis: number; readonly histogram: Histogram };

const nanosPerMilli = 1_000_000n;

/**
 * @param chunks of both kinds, one after the other
 * @returns in ascending time; of several rows within a millisecond the last stays
 */
export function* protocolSlices(
  chunks: Uint8Array,
  range: { readonly startNanos: bigint; readonly endNanos: bigint },
): Generator<MixedRow[]> {
  for (const slice of mixedSlices(chunks, range, nanosPerMilli)) {
    const rows = rowsOf(slice);
    if (rows.length > 0) yield rows;
  }
}

function rowsOf({ timestampNanos, values, typed }: MixedRows): MixedRow[] {
  const bits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
  const rows: MixedRow[] = [];
  for (const [row, nanos] of timestampNanos.entries()) {
    const millis = Number(unitBegin(nanos, nanosPerMilli) / nanosPerMilli);
    const value = typed[row] ?? null;
    if (value !== null && value[0] !== valueKind.histogram) continue;
    if (rows.at(-1)?.millis === millis) rows.pop();
    if (value === null) rows.push({ millis, valueBits: bits[row]! });
    else rows.push({ millis, histogram: histogramOfValue(value) });
  }
  return rows;
}
