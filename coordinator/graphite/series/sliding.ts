/** A reducer over the last rows of each row. */
import type { Work } from '#lib/turns/turns.ts';
import { inParts, inSteps, madeColumns, type RowMaker, rowsAtOnce } from './making.ts';
import { reduceAll, reduceRows } from './reduce.ts';
import type { Reducer } from '../math/reducers.ts';
import { reducerNamed } from '../math/reducers.ts';
import { type Columns, isEnough, setRow } from './series.ts';

/** Reducers that can be put together from those of two parts of the window. */
type Join = (a: number, b: number) => number;

const summing: readonly string[] = ['sum', 'total', 'average', 'avg'];
const joins: ReadonlyMap<string, Join> = new Map([
  ['max', (a, b) => (b > a ? b : a)],
  ['min', (a, b) => (b < a ? b : a)],
]);

/**
 * For each row from `first` on the reducer over that row and those before it, `windowRows` in all; those
 * before row 0 have no values.
 * @param xFilesFactor least share of the window that needs a value
 */
export async function reduceSliding(
  columns: Columns,
  name: string,
  windowRows: number,
  first: number,
  xFilesFactor: number,
  maker: RowMaker,
): Promise<Columns> {
  const { work } = maker;
  const rowCount = columns.values.length;
  const length = Math.max(0, rowCount - first);
  const countMin = countMinOf(windowRows, xFilesFactor);
  const result = await madeColumns(length, maker);
  // What stands beside the result for each row: sums or counts, and two columns of what is joined.
  const besideRows = joins.has(name) ? 3 : 1;
  for (let k = 0; k < besideRows; k++) await maker.reserve(rowCount);
  if (summing.includes(name)) {
    const isMean = name === 'average' || name === 'avg';
    await inSteps(slideSums(columns, windowRows, first, countMin, isMean, result), work);
  } else {
    const counts = await slidingCounts(columns.present, windowRows, work);
    const isRowEnough = (row: number) => counts[row]! >= countMin;
    const join = joins.get(name);
    if (name === 'median') {
      await slideMedian(columns, windowRows, first, isRowEnough, result, work);
    } else if (join === undefined) {
      await slideEach(columns, reducerNamed(name)!, windowRows, first, isRowEnough, result, maker);
    } else {
      const joined = await joinSliding(columns, join, windowRows, work);
      await inParts(length, work, (from, past) => {
        for (let i = from; i < past; i++) {
          if (!isRowEnough(first + i)) continue;
          result.values[i] = joined[first + i]!;
          result.present[i] = 1;
        }
      });
    }
  }
  maker.release(besideRows * rowCount);
  if (work.spend(12 * rowCount)) await work.pause();
  return result;
}

/** The least count that is enough. */
function countMinOf(windowRows: number, xFilesFactor: number): number {
  let count = Math.max(1, Math.floor(windowRows * xFilesFactor));
  // Up to one above the window, which no row has: then none is enough.
  while (count <= windowRows && !isEnough(count, windowRows, xFilesFactor)) count++;
  return count;
}

/** Rows with a value in the window that ends with each row. */
async function slidingCounts(
  present: Uint8Array,
  windowRows: number,
  work: Work,
): Promise<Uint32Array> {
  const counts = new Uint32Array(present.length);
  await inParts(present.length, work, (first, past) => {
    let count = first === 0 ? 0 : counts[first - 1]!;
    for (let i = first; i < past; i++) {
      count += present[i]!;
      if (i >= windowRows) count -= present[i - windowRows]!;
      counts[i] = count;
    }
  });
  return counts;
}

/**
 * Each window is the end of one stretch of `windowRows` and the beginning of the next: with both known for
 * every row there is one join a row, and no value is ever taken out of a sum again, which would lose digits.
 * A row whose window has no value gets anything.
 */
async function joinSliding(
  { values, present }: Columns,
  join: Join,
  windowRows: number,
  work: Work,
): Promise<Float64Array> {
  const { length } = values;
  /** Of the rows from each one to the end of its stretch; `hasEnd` is 1 where there is a value. */
  const ends = new Float64Array(length);
  const hasEnd = new Uint8Array(length);
  // From the last row to the first one.
  await inParts(length, work, (first, past) => {
    for (let i = length - 1 - first; i >= length - past; i--) {
      const isLast = i === length - 1 || (i + 1) % windowRows === 0;
      const isAfter = !isLast && hasEnd[i + 1] === 1;
      if (present[i] === 1) ends[i] = isAfter ? join(values[i]!, ends[i + 1]!) : values[i]!;
      else if (isAfter) ends[i] = ends[i + 1]!;
      hasEnd[i] = present[i] === 1 || isAfter ? 1 : 0;
    }
  });
  const joined = new Float64Array(length);
  let begin = 0;
  let hasBegin = false;
  await inParts(length, work, (first, past) => {
    for (let i = first; i < past; i++) {
      if (i % windowRows === 0) hasBegin = false;
      if (present[i] === 1) {
        begin = hasBegin ? join(begin, values[i]!) : values[i]!;
        hasBegin = true;
      }
      const oldest = i - windowRows + 1;
      // A window that is a whole stretch is its own beginning.
      const isOne = oldest < 0 || oldest % windowRows === 0;
      const hasOlder = !isOne && hasEnd[oldest] === 1;
      if (hasOlder) joined[i] = hasBegin ? join(ends[oldest]!, begin) : ends[oldest]!;
      else joined[i] = begin;
    }
  });
  return joined;
}

/** As `joinSliding` for sums, or means: what is not there adds nothing. Each step goes through some thousand rows. */
function* slideSums(
  columns: Columns,
  windowRows: number,
  first: number,
  countMin: number,
  isMean: boolean,
  result: Columns,
): Generator<void, void> {
  const { length } = columns.values;
  const ends = new Float64Array(Math.min(windowRows, length) + 1);
  const sums = { columns, windowRows, first, countMin, isMean, result, ends, count: 0 };
  const rowsOfStep = Math.max(1, Math.floor(rowsAtOnce / windowRows)) * windowRows;
  for (let from = 0; from < length; from += rowsOfStep) {
    if (from > 0) yield;
    const past = Math.min(length, from + rowsOfStep);
    if (windowRows <= rowsAtOnce) sumStretches(sums, from, past);
    else yield* sumStretch(sums, from, past);
  }
}

interface SlidingSums {
  readonly columns: Columns;
  readonly windowRows: number;
  readonly first: number;
  readonly countMin: number;
  readonly isMean: boolean;
  readonly result: Columns;
  /** Of the rows from each one to the end of its stretch, for the one before. */
  readonly ends: Float64Array;
  /** Values of the window that ends with the last row. */
  count: number;
}

/** Stretches that have few rows. */
function sumStretches(sums: SlidingSums, from: number, past: number): void {
  for (let start = from; start < past; start += sums.windowRows) {
    const end = Math.min(past, start + sums.windowRows);
    sumForward(sums, start, start, end, 0);
    sumBackward(sums, start, end, start, 0);
  }
}

/** One that has many. */
function* sumStretch(sums: SlidingSums, start: number, past: number): Generator<void, void> {
  let sum = 0;
  for (let from = start; from < past; from += rowsAtOnce) {
    sum = sumForward(sums, start, from, Math.min(past, from + rowsAtOnce), sum);
    yield;
  }
  sum = 0;
  for (let end = past; end > start; end -= rowsAtOnce) {
    sum = sumBackward(sums, start, end, Math.max(start, end - rowsAtOnce), sum);
    yield;
  }
}

/** Rows [from, until) of a stretch. @param before sum of those of its rows before @returns the sum with these */
function sumForward(
  sliding: SlidingSums,
  start: number,
  from: number,
  until: number,
  before: number,
): number {
  const { windowRows, first, countMin, isMean, ends } = sliding;
  const { values, present } = sliding.columns;
  const { values: sums, present: isThere } = sliding.result;
  let { count } = sliding;
  let sum = before;
  for (let i = from; i < until; i++) {
    if (present[i] === 1) {
      sum += values[i]!;
      count += 1;
    }
    if (i >= windowRows) count -= present[i - windowRows]!;
    if (i < first || count < countMin) continue;
    // A window that is a whole stretch has none of the one before.
    const older = i + 1 - start === windowRows ? 0 : ends[i + 1 - start]!;
    sums[i - first] = isMean ? (older + sum) / count : older + sum;
    isThere[i - first] = 1;
  }
  sliding.count = count;
  return sum;
}

/** Rows [downTo, past) from the last one on, as `sumForward`: sums to the end of the stretch. */
function sumBackward(
  { columns: { values, present }, ends }: SlidingSums,
  start: number,
  past: number,
  downTo: number,
  before: number,
): number {
  let sum = before;
  for (let i = past - 1; i >= downTo; i--) {
    if (present[i] === 1) sum += values[i]!;
    ends[i - start] = sum;
  }
  return sum;
}

async function slideEach(
  columns: Columns,
  reducer: Reducer,
  windowRows: number,
  first: number,
  isRowEnough: (row: number) => boolean,
  result: Columns,
  maker: RowMaker,
): Promise<void> {
  const { values, present: isThere } = columns;
  const scratch = new Float64Array(Math.min(windowRows, values.length, rowsAtOnce));
  /** Of the values alone: rows without one are none of the window's. */
  const present: Reducer = (values, count) => reducer(values, count, count);
  for (let i = 0; i < result.values.length; i++) {
    const row = first + i;
    if (!isRowEnough(row)) continue;
    const start = Math.max(0, row - windowRows + 1);
    const past = row + 1;
    if (past - start <= rowsAtOnce) {
      setRow(result, i, reduceRows(columns, start, past, present, scratch));
    } else {
      const window = {
        values: values.subarray(start, past),
        present: isThere.subarray(start, past),
      };
      setRow(result, i, await reduceAll(window, present, maker));
    }
    if (maker.work.spend(10 * (past - start))) await maker.work.pause();
  }
}

/** The values of the window are kept in order: one is taken out and one put in for each row. */
async function slideMedian(
  { values, present }: Columns,
  windowRows: number,
  first: number,
  isRowEnough: (row: number) => boolean,
  result: Columns,
  work: Work,
): Promise<void> {
  const sorted = new Float64Array(Math.min(windowRows, values.length) + 1);
  let count = 0;
  for (let row = 0; row < values.length; row++) {
    const left = row - windowRows;
    if (left >= 0 && present[left] === 1) {
      const place = placeOf(sorted, count, values[left]!);
      sorted.copyWithin(place, place + 1, count);
      count -= 1;
    }
    if (present[row] === 1) {
      const place = placeOf(sorted, count, values[row]!);
      sorted.copyWithin(place + 1, place, count);
      sorted[place] = values[row]!;
      count += 1;
    }
    if (row >= first && isRowEnough(row)) {
      const middle = count >> 1;
      const value = sorted[middle]!;
      result.values[row - first] = count % 2 === 1 ? value : (sorted[middle - 1]! + value) / 2;
      result.present[row - first] = 1;
    }
    if (work.spend(30 + count / 4)) await work.pause();
  }
}

/** Of the first one that is not below a value; NaN is above all. */
function placeOf(sorted: Float64Array, count: number, value: number): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const other = sorted[middle]!;
    const isBelow = Number.isNaN(value) ? !Number.isNaN(other) : other < value;
    if (isBelow) low = middle + 1;
    else high = middle;
  }
  return low;
}
