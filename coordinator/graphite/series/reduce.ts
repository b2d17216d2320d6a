/** All rows of a series, or some of them, become one value. */
import type { Reducer } from '../math/reducers.ts';
import type { Columns } from './series.ts';

/**
 * Of the rows [start, end).
 * @param scratch at least as long as that
 */
export function reduceRows(
  columns: Columns,
  start: number,
  end: number,
  reducer: Reducer,
  scratch: Float64Array,
): number | null {
  return reducer(scratch, presentValues(columns, start, end, scratch), end - start);
}

/** Puts the values that are there in the rows [start, end) to the front of `scratch`. @returns how many */
export function presentValues(
  { values, present }: Columns,
  start: number,
  end: number,
  scratch: Float64Array,
): number {
  let count = 0;
  for (let i = start; i < end; i++) {
    if (present[i] === 1) scratch[count++] = values[i]!;
  }
  return count;
}

/** Of all rows. */
export function reduceAll(columns: Columns, reducer: Reducer): number | null {
  const { length } = columns.values;
  return reduceRows(columns, 0, length, reducer, new Float64Array(length));
}
