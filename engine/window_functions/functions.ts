/** Each window function over columns and located windows; one table by name. */
import { quantileOf } from './quickselect.ts';
import { absentBits } from './row.ts';
import type { RowBuffer } from './row.ts';
import type { Evaluate, WindowColumns, WindowFunction, WindowRequest } from './windows.ts';
import { extrapolatedRate, instantChange } from './rate.ts';

const scratchRowsMin = 256;

/** Value of the rows [start, end), at least `rowsMin` of them. */
type OfWindow = (
  columns: WindowColumns,
  start: number,
  end: number,
  request: WindowRequest,
  step: number,
) => number;

function perWindow(rowsMin: number, ofWindow: OfWindow): Evaluate {
  return (columns, request, target, at) => {
    const { starts, ends } = columns;
    for (let step = 0; step < request.stepCount; step++) {
      const start = starts[step]!;
      const end = ends[step]!;
      if (end - start < rowsMin) target.bits[at + step] = absentBits;
      else target.values[at + step] = ofWindow(columns, start, end, request, step);
    }
  };
}

function sumOf({ values }: WindowColumns, start: number, end: number): number {
  let sum = 0;
  let compensation = 0;
  for (let i = start; i < end; i++) {
    const value = values[i]!;
    const next = sum + value;
    if (next === Infinity || next === -Infinity) compensation = 0;
    else if (Math.abs(sum) >= Math.abs(value)) compensation += sum - next + value;
    else compensation += value - next + sum;
    sum = next;
  }
  return sum === Infinity || sum === -Infinity ? sum : sum + compensation;
}

/** Mean as sum by count; where the sum overflows, as a running mean. */
function avgOf({ values }: WindowColumns, start: number, end: number): number {
  let sum = values[start]!;
  let compensation = 0;
  for (let i = start + 1; i < end; i++) {
    const value = values[i]!;
    const next = sum + value;
    if (next === Infinity || next === -Infinity) {
      return runningMean(values, i, end, i - start, sum, compensation);
    }
    if (Math.abs(sum) >= Math.abs(value)) compensation += sum - next + value;
    else compensation += value - next + sum;
    sum = next;
  }
  const count = end - start;
  return sum / count + compensation / count;
}

/** Goes on from the sum of `seen` rows with rows [start, end). */
function runningMean(
  values: Float64Array,
  start: number,
  end: number,
  seen: number,
  sum: number,
  compensation: number,
): number {
  let mean = sum / seen;
  let lost = compensation / seen;
  let count = seen;
  for (let i = start; i < end; i++) {
    count++;
    const share = (count - 1) / count;
    const scaled = mean * share;
    const step = values[i]! / count;
    mean = scaled + step;
    lost = compensated(lost * share, scaled, step, mean);
  }
  return mean + lost;
}

function minOf({ values }: WindowColumns, start: number, end: number): number {
  let least = values[start]!;
  for (let i = start + 1; i < end; i++) {
    const value = values[i]!;
    if (value < least || least !== least) least = value;
  }
  return least;
}

function maxOf({ values }: WindowColumns, start: number, end: number): number {
  let greatest = values[start]!;
  for (let i = start + 1; i < end; i++) {
    const value = values[i]!;
    if (value > greatest || greatest !== greatest) greatest = value;
  }
  return greatest;
}

/** What the sum of the two loses by rounding; nothing is kept of an infinite sum. */
function compensated(compensation: number, sum: number, value: number, next: number): number {
  if (next === Infinity || next === -Infinity) return 0;
  return (
    compensation + (Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum)
  );
}

/** Variance by Welford's running form, both accumulators compensated. */
function varianceOf({ values }: WindowColumns, start: number, end: number): number {
  let mean = 0;
  let meanCompensation = 0;
  let squares = 0;
  let squaresCompensation = 0;
  for (let i = start; i < end; i++) {
    const value = values[i]!;
    const delta = value - (mean + meanCompensation);
    const meanStep = delta / (i - start + 1);
    const meanNext = mean + meanStep;
    meanCompensation = compensated(meanCompensation, mean, meanStep, meanNext);
    mean = meanNext;
    const square = delta * (value - (mean + meanCompensation));
    const squaresNext = squares + square;
    squaresCompensation = compensated(squaresCompensation, squares, square, squaresNext);
    squares = squaresNext;
  }
  return (squares + squaresCompensation) / (end - start);
}

/** Least squares line through the rows: slope a second and the value at `originMillis`. */
function regressionOf(
  { times, values }: WindowColumns,
  start: number,
  end: number,
  originMillis: number,
): { slope: number; intercept: number } {
  const first = values[start]!;
  let isConstant = true;
  let x = 0;
  let xLost = 0;
  let y = 0;
  let yLost = 0;
  let xy = 0;
  let xyLost = 0;
  let xx = 0;
  let xxLost = 0;
  for (let i = start; i < end; i++) {
    const value = values[i]!;
    if (value !== first) isConstant = false;
    const seconds = (times[i]! - originMillis) / 1000;
    const xNext = x + seconds;
    xLost = compensated(xLost, x, seconds, xNext);
    x = xNext;
    const yNext = y + value;
    yLost = compensated(yLost, y, value, yNext);
    y = yNext;
    const product = seconds * value;
    const xyNext = xy + product;
    xyLost = compensated(xyLost, xy, product, xyNext);
    xy = xyNext;
    const square = seconds * seconds;
    const xxNext = xx + square;
    xxLost = compensated(xxLost, xx, square, xxNext);
    xx = xxNext;
  }
  if (isConstant) {
    return Number.isFinite(first) ? { slope: 0, intercept: first } : { slope: NaN, intercept: NaN };
  }
  const count = end - start;
  const sumX = x + xLost;
  const sumY = y + yLost;
  const covariance = xy + xyLost - (sumX * sumY) / count;
  const variance = xx + xxLost - (sumX * sumX) / count;
  const slope = covariance / variance;
  return { slope, intercept: sumY / count - (slope * sumX) / count };
}

/** Room in which an order statistic puts the values of a window; grows as windows need it. */
class Scratch {
  #values: Float64Array = new Float64Array(scratchRowsMin);

  get bytes(): number {
    return this.#values.byteLength;
  }

  /** Borrowed until the next call. */
  of(count: number): Float64Array {
    if (this.#values.length < count) this.#values = new Float64Array(count * 2);
    return this.#values;
  }

  copyOf(values: Float64Array, start: number, end: number): Float64Array {
    const target = this.of(end - start);
    for (let i = start; i < end; i++) target[i - start] = values[i]!;
    return target;
  }
}

/** Median of the distances from the median. */
function madOf(scratch: Scratch, { values }: WindowColumns, start: number, end: number): number {
  const count = end - start;
  for (let i = start; i < end; i++) if (Number.isNaN(values[i]!)) return NaN;
  const distances = scratch.copyOf(values, start, end);
  const median = quantileOf(0.5, distances, count);
  for (let i = 0; i < count; i++) distances[i] = Math.abs(values[start + i]! - median);
  return quantileOf(0.5, distances, count);
}

function doubleExponentialOf(
  { values }: WindowColumns,
  start: number,
  end: number,
  smoothing: number,
  trendFactor: number,
): number {
  let previous = 0;
  let level = values[start]!;
  let trend = values[start + 1]! - values[start]!;
  for (let i = start + 1; i < end; i++) {
    if (i > start + 1) trend = trendFactor * (level - previous) + (1 - trendFactor) * trend;
    previous = level;
    level = smoothing * values[i]! + (1 - smoothing) * (level + trend);
  }
  return level;
}

function timeOfExtreme(
  { times, values }: WindowColumns,
  start: number,
  end: number,
  sign: 1 | -1,
): number {
  let best = start;
  for (let i = start + 1; i < end; i++) {
    const held = values[best]!;
    if (sign * values[i]! >= sign * held || held !== held) best = i;
  }
  return times[best]! / 1000;
}

/** How often a row differs from the one before, by exact prefix counts. */
function countPairs(
  scratch: Scratch,
  counts: (previous: number, value: number) => boolean,
): Evaluate {
  return (columns, request, target, at) => {
    const { values, rowCount, starts, ends } = columns;
    const prefix = scratch.of(rowCount);
    let total = 0;
    prefix[0] = 0;
    for (let i = 1; i < rowCount; i++) {
      if (counts(values[i - 1]!, values[i]!)) total++;
      prefix[i] = total;
    }
    for (let step = 0; step < request.stepCount; step++) {
      const start = starts[step]!;
      const end = ends[step]!;
      if (end <= start) target.bits[at + step] = absentBits;
      else target.values[at + step] = prefix[end - 1]! - prefix[start]!;
    }
  };
}

function unavailable(): never {
  throw new Error('instant lookups have columns with stale markers of their own');
}

/** Window functions of one evaluator, with scratch of its own. */
export class WindowFunctions {
  readonly #scratch: Scratch;
  readonly #table: Readonly<Record<WindowFunction, Evaluate>>;

  constructor() {
    this.#scratch = new Scratch();
    this.#table = tableOf(this.#scratch);
  }

  /** Bytes held between calls. */
  get memoryBytes(): number {
    return this.#scratch.bytes;
  }

  evaluate(columns: WindowColumns, request: WindowRequest, target: RowBuffer, at: number): void {
    this.#table[request.function](columns, request, target, at);
  }
}

const tableOf = (scratch: Scratch): Readonly<Record<WindowFunction, Evaluate>> => ({
  instant: unavailable,
  instantTime: unavailable,
  rate: extrapolatedRate(true, true),
  increase: extrapolatedRate(true, false),
  delta: extrapolatedRate(false, false),
  irate: instantChange(true),
  idelta: instantChange(false),
  changes: countPairs(
    scratch,
    (previous, value) => previous !== value && (previous === previous || value === value),
  ),
  resets: countPairs(scratch, (previous, value) => value < previous),
  sum: perWindow(1, sumOf),
  avg: perWindow(1, avgOf),
  min: perWindow(1, minOf),
  max: perWindow(1, maxOf),
  count: perWindow(1, (_, start, end) => end - start),
  last: perWindow(1, ({ values }, _, end) => values[end - 1]!),
  first: perWindow(1, ({ values }, start) => values[start]!),
  present: perWindow(1, () => 1),
  stddev: perWindow(1, (columns, start, end) => Math.sqrt(varianceOf(columns, start, end))),
  stdvar: perWindow(1, varianceOf),
  deriv: perWindow(2, (columns, start, end) => {
    return regressionOf(columns, start, end, columns.times[start]!).slope;
  }),
  predictLinear: perWindow(2, (columns, start, end, request, step) => {
    const origin = request.evaluationStartMillis + step * request.evaluationStepMillis;
    const { slope, intercept } = regressionOf(columns, start, end, origin);
    return slope * request.parameters[0]![step]! + intercept;
  }),
  quantile: perWindow(1, ({ values }, start, end, request, step) => {
    return quantileOf(
      request.parameters[0]![step]!,
      scratch.copyOf(values, start, end),
      end - start,
    );
  }),
  mad: perWindow(1, (columns, start, end) => madOf(scratch, columns, start, end)),
  doubleExponential: perWindow(2, (columns, start, end, request, step) => {
    const [smoothing, trendFactor] = request.parameters;
    return doubleExponentialOf(columns, start, end, smoothing![step]!, trendFactor![step]!);
  }),
  timeOfFirst: perWindow(1, ({ times }, start) => times[start]! / 1000),
  timeOfLast: perWindow(1, ({ times }, _, end) => times[end - 1]! / 1000),
  timeOfMin: perWindow(1, (columns, start, end) => timeOfExtreme(columns, start, end, -1)),
  timeOfMax: perWindow(1, (columns, start, end) => timeOfExtreme(columns, start, end, 1)),
});
