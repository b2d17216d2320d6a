/** Floats of a series to windows, from chunks as storage has them. */
import { TsdbError } from '#lib/errors.ts';
import { visitFloats } from '../store/chunk_merge.ts';
import type { MixedRows } from '../store/read/mixed_rows.ts';
import type { WindowFold } from './fold.ts';

export type TimeRange = readonly [startNanos: bigint, endNanos: bigint];

/**
 * Adds the floats of a series that have a time in the range.
 * @param parts chunks of floats alone, in any order
 * @throws {TsdbError} BAD_REQUEST when one is malformed
 */
export function foldFloats(fold: WindowFold, parts: readonly Uint8Array[], range: TimeRange): void {
  inHalves(range, (some) => {
    visitFloats(parts, some, ({ timestampNanos, values, lags }) => {
      if (typeof lags !== 'bigint') fold.add(timestampNanos, values, lags);
      else if (lags <= 0n) fold.add(timestampNanos, values);
      else fold.add(timestampNanos, values, new BigInt64Array(values.length).fill(lags));
    });
  });
}

/** Where there are more rows than can be decoded at once, one half of their time after the other. */
export function inHalves(range: TimeRange, add: (range: TimeRange) => void): void {
  try {
    add(range);
  } catch (error) {
    const [from, to] = range;
    const isDivisible = error instanceof TsdbError && error.code === 'RESOURCE_EXHAUSTED';
    if (!isDivisible || to - from < 2n) throw error;
    const middle = (from + to) / 2n;
    inHalves([from, middle], add);
    inHalves([middle, to], add);
  }
}

/** Adds rows that are floats, where typed ones may have taken their place. */
export function foldMixed(
  fold: WindowFold,
  { timestampNanos, values, lags, typed }: MixedRows,
): void {
  const places = typed.flatMap((value, i) => (value === null ? [i] : []));
  if (places.length === 0) return;
  const bits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
  const kept = BigUint64Array.from(places, (i) => bits[i]!);
  const [times, late] = [timestampNanos, lags].map((column) =>
    BigInt64Array.from(places, (i) => column[i]!),
  ) as [BigInt64Array, BigInt64Array];
  fold.add(times, new Float64Array(kept.buffer), late);
}
