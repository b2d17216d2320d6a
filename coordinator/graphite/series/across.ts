/** Series become one: each row by a reducer over the same row of all of them. */
import type { Work } from '#lib/turns/turns.ts';
import type { Reducer } from '../math/reducers.ts';
import { reducerNamed } from '../math/reducers.ts';
import { type Columns, isEnough, newColumns, type Series, setRow } from './series.ts';

/** Rows of all series that are put side by side: a row alone would have each value come from memory with those of other rows. */
const rowsAtOnceMax = 16;
const valuesAtOnce = 65_536;

/** What is added up column by column. */
type Fold = 'sum' | 'min' | 'max' | 'count';

const folds: ReadonlyMap<string, Fold> = new Map([
  ['sum', 'sum'],
  ['total', 'sum'],
  ['average', 'sum'],
  ['avg', 'sum'],
  ['min', 'min'],
  ['max', 'max'],
  ['count', 'count'],
]);

/**
 * @param name of a reducer
 * @param list on one grid; shorter ones have no values at their end
 * @param xFilesFactor least share of the series that needs a value
 */
export async function reduceAcross(
  name: string,
  list: readonly Series[],
  length: number,
  xFilesFactor: number,
  work: Work,
): Promise<Columns> {
  const fold = folds.get(name);
  if (fold === undefined) {
    const reducer = reducerNamed(name)!;
    const checked: Reducer = (values, count, total) =>
      isEnough(count, total, xFilesFactor) ? reducer(values, count, total) : null;
    return await reduceEachRow(checked, list, length, work);
  }
  const { values, counts } = await foldColumns(fold, list, length, work);
  const present = new Uint8Array(length);
  const isAverage = name === 'average' || name === 'avg';
  for (let i = 0; i < length; i++) {
    if (!isEnough(counts[i]!, list.length, xFilesFactor)) values[i] = 0;
    else {
      present[i] = 1;
      if (isAverage) values[i] = values[i]! / counts[i]!;
    }
  }
  return { values, present };
}

/** As `reduceAcross`, for reducers that need all values of a row. */
export async function reduceEachRow(
  reducer: Reducer,
  list: readonly Series[],
  length: number,
  work: Work,
): Promise<Columns> {
  const columns = newColumns(length);
  const total = list.length;
  const rowsAtOnce = Math.max(1, Math.min(rowsAtOnceMax, Math.floor(valuesAtOnce / total)));
  const scratch = new Float64Array(rowsAtOnce * total);
  const counts = new Uint32Array(rowsAtOnce);
  for (let first = 0; first < length; first += rowsAtOnce) {
    const rows = Math.min(rowsAtOnce, length - first);
    counts.fill(0);
    for (const { values, present } of list) {
      for (let i = 0; i < rows; i++) {
        if (present[first + i] !== 1) continue;
        const count = counts[i]!;
        scratch[i * total + count] = values[first + i]!;
        counts[i] = count + 1;
      }
    }
    for (let i = 0; i < rows; i++) {
      const values = scratch.subarray(i * total, (i + 1) * total);
      setRow(columns, first + i, reducer(values, counts[i]!, total));
    }
    if (work.spend(8 * rows * total)) await work.pause();
  }
  return columns;
}

interface Folded {
  readonly values: Float64Array<ArrayBuffer>;
  /** Values of each row. */
  readonly counts: Uint32Array;
}

async function foldColumns(
  fold: Fold,
  list: readonly Series[],
  length: number,
  work: Work,
): Promise<Folded> {
  const values = new Float64Array(length);
  const counts = new Uint32Array(length);
  for (const series of list) {
    if (fold === 'sum') addTo(values, counts, series);
    else if (fold === 'count') countTo(counts, series);
    else takeExtremes(values, counts, series, fold === 'min' ? -1 : 1);
    if (work.spend(2 * series.values.length)) await work.pause();
  }
  if (fold === 'count') values.set(counts);
  return { values, counts };
}

function addTo(sums: Float64Array, counts: Uint32Array, { values, present }: Series): void {
  for (let i = 0; i < values.length; i++) {
    if (present[i] === 0) continue;
    sums[i] = sums[i]! + values[i]!;
    counts[i] = counts[i]! + 1;
  }
}

function countTo(counts: Uint32Array, { present }: Series): void {
  for (let i = 0; i < present.length; i++) counts[i] = counts[i]! + present[i]!;
}

/** @param sign 1 for the greatest, -1 for the least */
function takeExtremes(
  extremes: Float64Array,
  counts: Uint32Array,
  { values, present }: Series,
  sign: 1 | -1,
): void {
  for (let i = 0; i < values.length; i++) {
    if (present[i] === 0) continue;
    if (counts[i] === 0 || sign * values[i]! > sign * extremes[i]!) extremes[i] = values[i]!;
    counts[i] = counts[i]! + 1;
  }
}
