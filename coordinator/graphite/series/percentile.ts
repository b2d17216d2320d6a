/** The percentile that Graphite takes: by rank among one more than there are. */
import type { Columns } from './series.ts';

/**
 * @param sorted ascending, the first `count` count
 * @param percent above 0
 * @param isInterpolated between two ranks; else the upper one is taken
 * @returns null when there are no values
 */
export function percentileOfSorted(
  sorted: Float64Array,
  count: number,
  percent: number,
  isInterpolated: boolean,
): number | null {
  if (count === 0) return null;
  const exact = (percent / 100) * (count + 1);
  const below = Math.trunc(exact);
  const fraction = exact - below;
  const rank = isInterpolated ? below : below + Math.ceil(fraction);
  if (rank <= 0) return sorted[0]!;
  const value = sorted[Math.min(rank, count) - 1]!;
  if (!isInterpolated || rank >= count) return value;
  return value + fraction * (sorted[rank]! - value);
}

/** Of all values of a series, the upper one of two ranks. */
export function percentileOf({ values, present }: Columns, percent: number): number | null {
  const sorted = values.filter((_value, index) => present[index] === 1).sort();
  return percentileOfSorted(sorted, sorted.length, percent, false);
}
