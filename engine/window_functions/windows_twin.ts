/**
 * The window functions from their definitions in Prometheus 3, over plain lists of points. For
 * tests: it shares nothing with the kernel and functions.ts but the request's form.
 *
 * A window holds the points in (reference - range, reference]. Stale markers are no points, but for
 * `instant`, which has no value where the newest point is one. Where a definition is a sum, this
 * one adds what Prometheus adds; the fast form may add in another order.
 */
import { mergeChunks } from '../codec/decoder_twin.ts';
import type { SeriesBundle } from '../codec/series_bundle.ts';
import type { RowBuffer } from './row.ts';
import type { WindowEvaluator, WindowFunction, WindowRequest } from './windows.ts';

interface Point {
  /** Unix milliseconds. */
  readonly time: number;
  readonly value: number;
  /** Of the value: a number does not keep those of every NaN. */
  readonly bits: bigint;
}

/** One window, which has `pointsMin` points or more. */
interface Window {
  readonly points: readonly Point[];
  readonly reference: number;
  readonly rangeMillis: number;
  /** When the query is evaluated, which an offset moves away from the reference. */
  readonly evaluationMillis: number;
  /** Those of this step. */
  readonly parameters: readonly number[];
}

/** A value, its bits, or null for none. */
type Answer = number | bigint | null;

interface Definition {
  readonly pointsMin: number;
  readonly of: (window: Window) => Answer;
}

const staleBits = 0x7ff0000000000002n;

export class WindowsTwin implements WindowEvaluator {
  /** What was decoded last: functions are asked for one after the other for the same series. */
  #decoded: { bundle: SeriesBundle; key: string; points: readonly Point[] } | null = null;

  evaluate(
    request: WindowRequest,
    bundle: SeriesBundle,
    index: number,
    startNanos: bigint,
    endNanos: bigint,
    target: RowBuffer,
    at: number,
  ): number {
    const points = this.#decode(bundle, index, startNanos, endNanos);
    const isInstant = request.function === 'instant' || request.function === 'instantTime';
    const seen = isInstant ? points : points.filter(({ bits }) => bits !== staleBits);
    evaluatePoints(request, seen, target, at);
    return points.length;
  }

  evaluateColumns(
    request: WindowRequest,
    timestampMillis: Float64Array,
    values: Float64Array,
    rowCount: number,
    target: RowBuffer,
    at: number,
  ): number {
    const points = pointsOf(Array.from(timestampMillis.subarray(0, rowCount)), values);
    evaluatePoints(request, points, target, at);
    return rowCount;
  }

  #decode(bundle: SeriesBundle, index: number, from: bigint, past: bigint): readonly Point[] {
    const key = `${index} ${from} ${past}`;
    if (this.#decoded?.bundle === bundle && this.#decoded.key === key) return this.#decoded.points;
    const [start, end] = [bundle.chunkOffset[index]!, bundle.chunkOffset[index + 1]!];
    const rows = mergeChunks(bundle.chunkData.subarray(start, end), from, past);
    const times = Array.from(rows.timestampNanos, millisOf);
    this.#decoded = { bundle, key, points: pointsOf(times, rows.values) };
    return this.#decoded.points;
  }
}

/** The millisecond in which a nanosecond lies. */
function millisOf(nanos: bigint): number {
  const rest = ((nanos % 1_000_000n) + 1_000_000n) % 1_000_000n;
  return Number((nanos - rest) / 1_000_000n);
}

function pointsOf(times: readonly number[], values: Float64Array): Point[] {
  const bits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
  return times.map((time, i) => ({ time, value: values[i]!, bits: bits[i]! }));
}

function evaluatePoints(
  request: WindowRequest,
  points: readonly Point[],
  target: RowBuffer,
  at: number,
): void {
  const { pointsMin, of } = definitions[request.function];
  for (let step = 0; step < request.stepCount; step++) {
    const reference = request.referenceStartMillis + step * request.referenceStepMillis;
    const opening = reference - request.rangeMillis;
    const inside = points.filter(({ time }) => time > opening && time <= reference);
    const answer =
      inside.length < pointsMin
        ? null
        : of({
            points: inside,
            reference,
            rangeMillis: request.rangeMillis,
            evaluationMillis: request.evaluationStartMillis + step * request.evaluationStepMillis,
            parameters: request.parameters.map((parameter) => parameter[step]!),
          });
    if (typeof answer === 'number') target.values[at + step] = answer;
    else target.bits[at + step] = answer ?? staleBits;
  }
}

const first = ({ points }: Window): Point => points[0]!;
const last = ({ points }: Window): Point => points[points.length - 1]!;
const valuesOf = ({ points }: Window): number[] => points.map(({ value }) => value);
/** Each point but the last with the one after it. */
const pairsOf = ({ points }: Window): [Point, Point][] =>
  points.slice(1).map((point, i) => [points[i]!, point]);

/**
 * Sum of the terms with what rounding took from it (Neumaier); an infinite sum has lost nothing.
 */
function sumOf(terms: readonly number[]): number {
  let sum = 0;
  let lost = 0;
  for (const term of terms) {
    const next = sum + term;
    const [large, small] = Math.abs(sum) >= Math.abs(term) ? [sum, term] : [term, sum];
    lost = Math.abs(next) === Infinity ? 0 : lost + (large - next + small);
    sum = next;
  }
  return Math.abs(sum) === Infinity ? sum : sum + lost;
}

/** Mean; where the sum is too large for a number, of shares that are not. */
function meanOf(values: readonly number[]): number {
  const sum = sumOf(values);
  if (Number.isFinite(sum)) return sum / values.length;
  return sumOf(values.map((value) => value / values.length));
}

/** Mean of the squared distances from the mean. */
function varianceOf(values: readonly number[]): number {
  const mean = meanOf(values);
  return meanOf(values.map((value) => (value - mean) ** 2));
}

/** The least value, or the greatest; NaN only when all are. Of equal ones (0 and -0) the first. */
function extremeOf(values: readonly number[], isBetter: (a: number, b: number) => boolean): number {
  const numbers = values.filter((value) => !Number.isNaN(value));
  return numbers.reduce((best, value) => (isBetter(value, best) ? value : best), numbers[0] ?? NaN);
}

const isLess = (a: number, b: number): boolean => a < b;
const isGreater = (a: number, b: number): boolean => a > b;

/** Seconds of the last point that has the extreme value. */
function timeOfExtreme(window: Window, isBetter: (a: number, b: number) => boolean): number {
  const extreme = extremeOf(valuesOf(window), isBetter);
  const point = window.points.findLast(({ value }) => value === extreme) ?? last(window);
  return point.time / 1000;
}

/** The quantile by linear interpolation between the two nearest ranks; NaN ranks lowest. */
function quantileOf(quantile: number, values: readonly number[]): number {
  if (Number.isNaN(quantile)) return NaN;
  if (quantile < 0) return -Infinity;
  if (quantile > 1) return Infinity;
  const numbers = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  const sorted = [...values.filter((value) => Number.isNaN(value)), ...numbers];
  const rank = quantile * (sorted.length - 1);
  const lower = Math.floor(rank);
  const upper = Math.min(lower + 1, sorted.length - 1);
  const weight = rank - lower;
  return sorted[lower]! * (1 - weight) + sorted[upper]! * weight;
}

/** Median of the distances from the median; NaN when there is a NaN. */
function madOf(values: readonly number[]): number {
  if (values.some((value) => Number.isNaN(value))) return NaN;
  const median = quantileOf(0.5, values);
  return quantileOf(
    0.5,
    values.map((value) => Math.abs(value - median)),
  );
}

/**
 * The change from the first to the last point, with what a counter lost at its resets, as if the
 * points reached to the edges of the window. They are taken to where an edge is no farther from
 * them than 1.1 of their mean distance, else half a mean distance; a counter's not below zero.
 */
function changeOf(window: Window, isCounter: boolean, isRate: boolean): number | null {
  const { reference, rangeMillis, points } = window;
  const seconds = (last(window).time - first(window).time) / 1000;
  if (seconds === 0) return null;
  let change = last(window).value - first(window).value;
  if (isCounter) {
    for (const [before, after] of pairsOf(window)) {
      if (after.value < before.value) change += before.value;
    }
  }
  const meanSeconds = seconds / (points.length - 1);
  const reach = (edgeSeconds: number): number =>
    edgeSeconds >= meanSeconds * 1.1 ? meanSeconds / 2 : edgeSeconds;
  let toStart = reach((first(window).time - (reference - rangeMillis)) / 1000);
  const toEnd = reach((reference - last(window).time) / 1000);
  if (isCounter && change > 0 && first(window).value >= 0) {
    const toZero = seconds * (first(window).value / change);
    if (toZero < toStart) toStart = toZero;
  }
  const factor = (seconds + toStart + toEnd) / seconds;
  return change * (isRate ? factor / (rangeMillis / 1000) : factor);
}

/** The last two points: their difference, or for a counter its rate. */
function lastChangeOf({ points }: Window, isRate: boolean): number | null {
  const [before, after] = points.slice(-2) as [Point, Point];
  const seconds = (after.time - before.time) / 1000;
  if (seconds === 0) return null;
  if (!isRate) return after.value - before.value;
  const isReset = after.value < before.value;
  return (isReset ? after.value : after.value - before.value) / seconds;
}

/** The least squares line through the points: its slope a second, and its value at a time. */
function lineOf(window: Window, originMillis: number): { slope: number; intercept: number } {
  const y = valuesOf(window);
  if (y.every((value) => value === y[0])) {
    return Number.isFinite(y[0]) ? { slope: 0, intercept: y[0]! } : { slope: NaN, intercept: NaN };
  }
  const x = window.points.map(({ time }) => (time - originMillis) / 1000);
  const n = x.length;
  const [sumX, sumY] = [sumOf(x), sumOf(y)];
  const covariance = sumOf(x.map((seconds, i) => seconds * y[i]!)) - (sumX * sumY) / n;
  const slope = covariance / (sumOf(x.map((seconds) => seconds ** 2)) - (sumX * sumX) / n);
  return { slope, intercept: sumY / n - (slope * sumX) / n };
}

/** Holt's double exponential smoothing: a level and a trend, each a mean of new and old. */
function smoothedOf(window: Window): number {
  const [smoothing, trendFactor] = window.parameters as [number, number];
  const values = valuesOf(window);
  const levels = [values[0]!];
  let trend = values[1]! - values[0]!;
  for (let i = 1; i < values.length; i++) {
    const [level, levelBefore] = [levels[i - 1]!, levels[i - 2]];
    if (levelBefore !== undefined) {
      trend = trendFactor * (level - levelBefore) + (1 - trendFactor) * trend;
    }
    levels.push(smoothing * values[i]! + (1 - smoothing) * (level + trend));
  }
  return levels.at(-1)!;
}

const definitions: Readonly<Record<WindowFunction, Definition>> = {
  instant: { pointsMin: 1, of: (window) => last(window).bits },
  instantTime: {
    pointsMin: 1,
    of: (window) => (last(window).bits === staleBits ? null : last(window).time / 1000),
  },
  rate: { pointsMin: 2, of: (window) => changeOf(window, true, true) },
  increase: { pointsMin: 2, of: (window) => changeOf(window, true, false) },
  delta: { pointsMin: 2, of: (window) => changeOf(window, false, false) },
  irate: { pointsMin: 2, of: (window) => lastChangeOf(window, true) },
  idelta: { pointsMin: 2, of: (window) => lastChangeOf(window, false) },
  changes: {
    pointsMin: 1,
    of: (window) =>
      pairsOf(window).filter(
        ([{ value: a }, { value: b }]) => a !== b && !(Number.isNaN(a) && Number.isNaN(b)),
      ).length,
  },
  resets: {
    pointsMin: 1,
    of: (window) => pairsOf(window).filter(([before, after]) => after.value < before.value).length,
  },
  sum: { pointsMin: 1, of: (window) => sumOf(valuesOf(window)) },
  avg: { pointsMin: 1, of: (window) => meanOf(valuesOf(window)) },
  min: { pointsMin: 1, of: (window) => extremeOf(valuesOf(window), isLess) },
  max: { pointsMin: 1, of: (window) => extremeOf(valuesOf(window), isGreater) },
  count: { pointsMin: 1, of: ({ points }) => points.length },
  last: { pointsMin: 1, of: (window) => last(window).bits },
  first: { pointsMin: 1, of: (window) => first(window).bits },
  present: { pointsMin: 1, of: () => 1 },
  stddev: { pointsMin: 1, of: (window) => Math.sqrt(varianceOf(valuesOf(window))) },
  stdvar: { pointsMin: 1, of: (window) => varianceOf(valuesOf(window)) },
  deriv: { pointsMin: 2, of: (window) => lineOf(window, first(window).time).slope },
  predictLinear: {
    pointsMin: 2,
    of: (window) => {
      const { slope, intercept } = lineOf(window, window.evaluationMillis);
      return slope * window.parameters[0]! + intercept;
    },
  },
  quantile: {
    pointsMin: 1,
    of: (window) => quantileOf(window.parameters[0]!, valuesOf(window)),
  },
  mad: { pointsMin: 1, of: (window) => madOf(valuesOf(window)) },
  doubleExponential: { pointsMin: 2, of: smoothedOf },
  timeOfFirst: { pointsMin: 1, of: (window) => first(window).time / 1000 },
  timeOfLast: { pointsMin: 1, of: (window) => last(window).time / 1000 },
  timeOfMin: { pointsMin: 1, of: (window) => timeOfExtreme(window, isLess) },
  timeOfMax: { pointsMin: 1, of: (window) => timeOfExtreme(window, isGreater) },
};
