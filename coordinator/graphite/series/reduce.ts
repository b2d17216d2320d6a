/** All rows of a series, or some of them, become one value. */
import type { Work } from '#lib/turns/turns.ts';
import { isMedian, medianOfSorted, type Reducer } from '../math/reducers.ts';
import { sortNumbers } from '../math/sorting.ts';
import { inParts, type RowMaker, rowsAtOnce } from './making.ts';
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

/** Rows with a value. */
export async function presentCount({ present }: Columns, work: Work): Promise<number> {
  let count = 0;
  await inParts(present.length, work, (first, past) => {
    let inPart = 0;
    for (let i = first; i < past; i++) inPart += present[i]!;
    count += inPart;
  });
  return count;
}

/** Of all rows. */
export async function reduceAll(
  columns: Columns,
  reducer: Reducer,
  maker: RowMaker,
): Promise<number | null> {
  const { length } = columns.values;
  if (length <= rowsAtOnce) {
    return reduceRows(columns, 0, length, reducer, new Float64Array(length));
  }
  return await withValues(columns, maker, async (values) => {
    if (!isMedian(reducer)) return reducer(values, values.length, length);
    return medianOfSorted(await sortNumbers(values, maker.work));
  });
}

/** What is made of the values that are there, which are its own to move; for long columns. */
export async function withValues<Made>(
  columns: Columns,
  maker: RowMaker,
  make: (values: Float64Array) => Promise<Made>,
): Promise<Made> {
  const { work } = maker;
  const count = await presentCount(columns, work);
  // Twice as much, for what is sorted.
  await maker.reserve(count);
  await maker.reserve(count);
  const values = new Float64Array(count);
  let place = 0;
  await inParts(columns.values.length, work, (first, past) => {
    place += presentValues(columns, first, past, values.subarray(place));
  });
  const made = await make(values);
  maker.release(2 * count);
  return made;
}
