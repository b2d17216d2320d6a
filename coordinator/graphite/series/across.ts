/** Series become one: each row by a reducer over the same row of all of them. */
import type { Reducer } from '../math/reducers.ts';
import { reducerNamed } from '../math/reducers.ts';
import { inParts, madeColumns, type RowMaker } from './making.ts';
import { type Columns, isEnough, type Series, setRow } from './series.ts';

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
  maker: RowMaker,
): Promise<Columns> {
  const fold = folds.get(name);
  if (fold === undefined) {
    const reducer = reducerNamed(name)!;
    const checked: Reducer = (values, count, total) =>
      isEnough(count, total, xFilesFactor) ? reducer(values, count, total) : null;
    return await reduceEachRow(checked, list, length, maker);
  }
  const columns = await madeColumns(length, maker);
  const { values, present } = columns;
  await maker.reserve(length);
  /** Values of each row. */
  const counts = new Uint32Array(length);
  await foldColumns(fold, list, values, counts, maker);
  const isAverage = name === 'average' || name === 'avg';
  await inParts(length, maker.work, (first, past) => {
    for (let i = first; i < past; i++) {
      if (!isEnough(counts[i]!, list.length, xFilesFactor)) values[i] = 0;
      else {
        present[i] = 1;
        if (isAverage) values[i] = values[i]! / counts[i]!;
      }
    }
  });
  maker.release(length);
  return columns;
}

/** As `reduceAcross`, for reducers that need all values of a row. */
export async function reduceEachRow(
  reducer: Reducer,
  list: readonly Series[],
  length: number,
  maker: RowMaker,
): Promise<Columns> {
  const { work } = maker;
  const columns = await madeColumns(length, maker);
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

/** Adds up all series. @param counts of the values of each row */
async function foldColumns(
  fold: Fold,
  list: readonly Series[],
  values: Float64Array,
  counts: Uint32Array,
  maker: RowMaker,
): Promise<void> {
  const { work } = maker;
  for (const series of list) {
    await inParts(series.values.length, work, (first, past) => {
      if (fold === 'sum') addTo(values, counts, series, first, past);
      else if (fold === 'count') countTo(counts, series, first, past);
      else takeExtremes(values, counts, series, fold === 'min' ? -1 : 1, first, past);
    });
    if (work.spend(2 * series.values.length)) await work.pause();
  }
  if (fold !== 'count') return;
  await inParts(counts.length, work, (first, past) => {
    values.set(counts.subarray(first, past), first);
  });
}

function addTo(
  sums: Float64Array,
  counts: Uint32Array,
  { values, present }: Series,
  first: number,
  past: number,
): void {
  for (let i = first; i < past; i++) {
    if (present[i] === 0) continue;
    sums[i] = sums[i]! + values[i]!;
    counts[i] = counts[i]! + 1;
  }
}

function countTo(counts: Uint32Array, { present }: Series, first: number, past: number): void {
  for (let i = first; i < past; i++) counts[i] = counts[i]! + present[i]!;
}

/** @param sign 1 for the greatest, -1 for the least */
function takeExtremes(
  extremes: Float64Array,
  counts: Uint32Array,
  { values, present }: Series,
  sign: 1 | -1,
  first: number,
  past: number,
): void {
  for (let i = first; i < past; i++) {
    if (present[i] === 0) continue;
    if (counts[i] === 0 || sign * values[i]! > sign * extremes[i]!) extremes[i] = values[i]!;
    counts[i] = counts[i]! + 1;
  }
}
