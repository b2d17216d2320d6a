/** Functions from many values to one, by the names that Graphite has for them. */

/**
 * @param values those that are there, in order; the first `count` count. They are the reducer's to move.
 * @param total how many there are with those that are not there
 * @returns null when there is none
 */
export type Reducer = (values: Float64Array, count: number, total: number) => number | null;

function sumOf(values: Float64Array, count: number): number {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += values[i]!;
  return sum;
}

const average: Reducer = (values, count) => (count === 0 ? null : sumOf(values, count) / count);
const sum: Reducer = (values, count) => (count === 0 ? null : sumOf(values, count));
const last: Reducer = (values, count) => (count === 0 ? null : values[count - 1]!);

const min: Reducer = (values, count) => {
  if (count === 0) return null;
  let least = values[0]!;
  for (let i = 1; i < count; i++) if (values[i]! < least) least = values[i]!;
  return least;
};

const max: Reducer = (values, count) => {
  if (count === 0) return null;
  let most = values[0]!;
  for (let i = 1; i < count; i++) if (values[i]! > most) most = values[i]!;
  return most;
};

const range: Reducer = (values, count, total) =>
  count === 0 ? null : max(values, count, total)! - min(values, count, total)!;

const median: Reducer = (values, count) => medianOfSorted(values.subarray(0, count).sort());

/** Null when there is none. */
export function medianOfSorted(sorted: Float64Array): number | null {
  const count = sorted.length;
  if (count === 0) return null;
  const middle = count >> 1;
  return count % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** The one that sorts: for many values who calls it has to do that a part at a time. */
export function isMedian(reducer: Reducer): boolean {
  return reducer === median;
}

/** The first less all others. */
const diff: Reducer = (values, count) =>
  count === 0 ? null : 2 * values[0]! - sumOf(values, count);

const stddev: Reducer = (values, count) => {
  if (count === 0) return null;
  const mean = sumOf(values, count) / count;
  let squares = 0;
  for (let i = 0; i < count; i++) squares += (values[i]! - mean) ** 2;
  return Math.sqrt(squares / count);
};

/** None unless all are there. */
const multiply: Reducer = (values, count, total) => {
  if (count === 0 || count < total) return null;
  let product = values[0]!;
  for (let i = 1; i < count; i++) product *= values[i]!;
  return product;
};

/** What is not there counts as 0. */
const averageWithZeros: Reducer = (values, count, total) =>
  total === 0 ? null : sumOf(values, count) / total;

const table: Readonly<Record<string, Reducer>> = {
  average,
  avg: average,
  avg_zero: averageWithZeros,
  count: (_values, count) => count,
  current: last,
  diff,
  last,
  max,
  median,
  min,
  multiply,
  range,
  rangeOf: range,
  stddev,
  sum,
  total: sum,
};

/** In the order of their names. */
export const reducerNames: readonly string[] = Object.keys(table);

/** By a name, or by the old form of it with "Series" behind; undefined when there is none. */
export function reducerNamed(name: string): Reducer | undefined {
  const plain = plainReducerName(name);
  return Object.hasOwn(table, plain) ? table[plain] : undefined;
}

/** Without the "Series" that names had behind them. */
export function plainReducerName(name: string): string {
  return name.endsWith('Series') ? name.slice(0, -'Series'.length) : name;
}
