/** The percentile that Graphite takes: by rank among one more than there are. */
import { selectRank } from '#engine/window_functions/quickselect.ts';
import { sortNumbers } from '../math/sorting.ts';
import { type RowMaker, rowsAtOnce } from './making.ts';
import { presentValues, withValues } from './reduce.ts';
import type { Columns } from './series.ts';

/**
 * Of the first `count` values, whose order is lost; NaN is above all numbers.
 * @param percent above 0
 * @param isInterpolated between two ranks; else the upper one is taken
 * @returns null when there are no values
 */
export function percentileOf(
  values: Float64Array,
  count: number,
  percent: number,
  isInterpolated: boolean,
): number | null {
  if (count === 0) return null;
  const numbers = numbersFirst(values, count);
  const valueOfRank = (rank: number) =>
    rank > numbers ? NaN : selectRank(values, numbers, rank - 1);
  return percentileByRanks(valueOfRank, count, percent, isInterpolated);
}

/** @param count above 0 */
function percentileByRanks(
  valueOfRank: (rank: number) => number,
  count: number,
  percent: number,
  isInterpolated: boolean,
): number {
  const exact = (percent / 100) * (count + 1);
  const below = Math.trunc(exact);
  const fraction = exact - below;
  const rank = isInterpolated ? below : below + Math.ceil(fraction);
  if (rank <= 0) return valueOfRank(1);
  const value = valueOfRank(Math.min(rank, count));
  if (!isInterpolated || rank >= count) return value;
  return value + fraction * (valueOfRank(rank + 1) - value);
}

/** Moves NaN behind the numbers. @returns how many numbers there are */
function numbersFirst(values: Float64Array, count: number): number {
  let numbers = 0;
  for (let i = 0; i < count; i++) {
    const value = values[i]!;
    if (Number.isNaN(value)) continue;
    values[i] = values[numbers]!;
    values[numbers++] = value;
  }
  return numbers;
}

/** Of all values of a series, the upper one of two ranks. */
export async function percentileOfRows(
  columns: Columns,
  percent: number,
  maker: RowMaker,
): Promise<number | null> {
  const { length } = columns.values;
  if (length <= rowsAtOnce) {
    const scratch = new Float64Array(length);
    return percentileOf(scratch, presentValues(columns, 0, length, scratch), percent, false);
  }
  return await withValues(columns, maker, async (values) => {
    if (values.length === 0) return null;
    // What is in order has NaN behind all numbers.
    const sorted = await sortNumbers(values, maker.work);
    return percentileByRanks((rank) => sorted[rank - 1]!, values.length, percent, false);
  });
}
