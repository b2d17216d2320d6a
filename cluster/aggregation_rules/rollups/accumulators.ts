/**
 * What rows of many series come to in one window of a rollup: numbers that add up in any order and from any number of parts.
 * One is `accumulatorFields` numbers of an array, all 0 when it is of no rows; quantiles have a sketch beside it.
 */
import { assert } from '#lib/assert.ts';
import type { AggregationType } from '../aggregation_types.ts';
import { QuantileSketch } from './quantile_sketch.ts';

const field = {
  /** Of rows, those that are no numbers (NaN) among them, which count for nothing else. */
  count: 0,
  /** Of rows that are numbers. */
  numbers: 1,
  sum: 2,
  /** Squares of the distances from the mean, added up. */
  squares: 3,
  min: 4,
  max: 5,
  /** Of the last row, from a time that all parts of a window share; the greatest value of those of one time. */
  lastTime: 6,
  last: 7,
} as const;

/** Numbers of one accumulator. */
export const accumulatorFields = 8;

/** Types whose values can be told of an accumulator. */
const values: Partial<Readonly<Record<AggregationType, (of: Float64Array, at: number) => number>>> =
  {
    Last: (of, at) => of[at + field.last]!,
    Min: (of, at) => of[at + field.min]!,
    Max: (of, at) => of[at + field.max]!,
    Mean: (of, at) => of[at + field.sum]! / of[at + field.numbers]!,
    Count: (of, at) => of[at + field.count]!,
    Sum: (of, at) => of[at + field.sum]!,
    SumSq: (of, at) =>
      of[at + field.squares]! +
      (of[at + field.sum]! * of[at + field.sum]!) / of[at + field.numbers]!,
    Stdev: (of, at) => {
      const numbers = of[at + field.numbers]!;
      return numbers < 2 ? 0 : Math.sqrt(of[at + field.squares]! / (numbers - 1));
    },
  };

/** What of a type is told by a sketch. */
const quantiles: Partial<Readonly<Record<AggregationType, number>>> = {
  Median: 0.5,
  P10: 0.1,
  P20: 0.2,
  P25: 0.25,
  P30: 0.3,
  P40: 0.4,
  P50: 0.5,
  P60: 0.6,
  P70: 0.7,
  P75: 0.75,
  P80: 0.8,
  P90: 0.9,
  P95: 0.95,
  P99: 0.99,
  P999: 0.999,
  P9999: 0.9999,
};

export function isQuantile(type: AggregationType): boolean {
  return type in quantiles;
}

/** One window of an output. */
export interface WindowPart {
  /** An accumulator. */
  readonly numbers: Float64Array;
  /** Null where no type is a quantile. */
  readonly sketch: QuantileSketch | null;
}

export function emptyPart(types: readonly AggregationType[]): WindowPart {
  return {
    numbers: new Float64Array(accumulatorFields),
    sketch: types.some(isQuantile) ? new QuantileSketch() : null,
  };
}

export function addToPart(part: WindowPart, other: WindowPart): void {
  addPart(part.numbers, 0, other.numbers, 0);
  if (other.sketch !== null) part.sketch?.addAll(other.sketch);
}

export function addValue({ numbers, sketch }: WindowPart, time: number, value: number): void {
  addRow(numbers, 0, time, value);
  if (sketch !== null && !Number.isNaN(value)) sketch.add(value);
}

export function valueOfPart({ numbers, sketch }: WindowPart, type: AggregationType): number {
  const quantile = quantiles[type];
  return quantile === undefined ? valueOf(numbers, 0, type) : sketch!.quantile(quantile);
}

/** @param time of the row, from a time that all parts of the window share */
export function addRow(of: Float64Array, at: number, time: number, value: number): void {
  const count = of[at + field.count]!;
  of[at + field.count] = count + 1;
  const isLast =
    count === 0 ||
    time > of[at + field.lastTime]! ||
    (time === of[at + field.lastTime]! && isGreater(value, of[at + field.last]!));
  if (isLast) {
    of[at + field.lastTime] = time;
    of[at + field.last] = value;
  }
  if (Number.isNaN(value)) return;
  const numbers = of[at + field.numbers]!;
  const sum = of[at + field.sum]!;
  of[at + field.numbers] = numbers + 1;
  of[at + field.sum] = sum + value;
  if (numbers === 0) {
    of[at + field.min] = value;
    of[at + field.max] = value;
    return;
  }
  const distance = value - sum / numbers;
  of[at + field.squares] =
    of[at + field.squares]! + (distance * distance * numbers) / (numbers + 1);
  if (value < of[at + field.min]!) of[at + field.min] = value;
  if (value > of[at + field.max]!) of[at + field.max] = value;
}

/** Adds another part of the same window. */
export function addPart(of: Float64Array, at: number, other: Float64Array, otherAt: number): void {
  const otherCount = other[otherAt + field.count]!;
  if (otherCount === 0) return;
  const count = of[at + field.count]!;
  if (count === 0) {
    for (let i = 0; i < accumulatorFields; i++) of[at + i] = other[otherAt + i]!;
    return;
  }
  of[at + field.count] = count + otherCount;
  const [time, otherTime] = [of[at + field.lastTime]!, other[otherAt + field.lastTime]!];
  const otherLast = other[otherAt + field.last]!;
  if (otherTime > time || (otherTime === time && isGreater(otherLast, of[at + field.last]!))) {
    of[at + field.lastTime] = otherTime;
    of[at + field.last] = otherLast;
  }
  const otherNumbers = other[otherAt + field.numbers]!;
  if (otherNumbers === 0) return;
  const numbers = of[at + field.numbers]!;
  const [sum, otherSum] = [of[at + field.sum]!, other[otherAt + field.sum]!];
  of[at + field.numbers] = numbers + otherNumbers;
  of[at + field.sum] = sum + otherSum;
  const otherMin = other[otherAt + field.min]!;
  const otherMax = other[otherAt + field.max]!;
  if (numbers === 0) {
    of[at + field.squares] = other[otherAt + field.squares]!;
    of[at + field.min] = otherMin;
    of[at + field.max] = otherMax;
    return;
  }
  const distance = otherSum / otherNumbers - sum / numbers;
  const between = (distance * distance * numbers * otherNumbers) / (numbers + otherNumbers);
  of[at + field.squares] = of[at + field.squares]! + other[otherAt + field.squares]! + between;
  if (otherMin < of[at + field.min]!) of[at + field.min] = otherMin;
  if (otherMax > of[at + field.max]!) of[at + field.max] = otherMax;
}

/** Any number comes after NaN. */
function isGreater(a: number, b: number): boolean {
  return a > b || (Number.isNaN(b) && !Number.isNaN(a));
}

/** A copy of what is told of one window, whose times are counted from so much later. */
export function partFrom({ numbers, sketch }: WindowPart, later: number): WindowPart {
  const copy = numbers.slice();
  copy[field.lastTime] = copy[field.lastTime]! - later;
  return { numbers: copy, sketch };
}

export function isEmpty(of: Float64Array, at: number): boolean {
  return of[at + field.count] === 0;
}

/** @returns NaN where no row is a number, but for `Count` and `Last`, which are of all rows */
export function valueOf(of: Float64Array, at: number, type: AggregationType): number {
  const value = values[type];
  assert(value !== undefined, 'rules ask for types that accumulators have');
  const isOfAll = type === 'Count' || type === 'Last';
  return !isOfAll && of[at + field.numbers] === 0 ? Number.NaN : value(of, at);
}
