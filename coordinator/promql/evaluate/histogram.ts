/**
 * Quantiles and fractions of histograms: native ones, and classic ones, which are series with a `le` label and cumulative
 * counts.
 */
import {
  type Estimate,
  fractionBetween,
  quantileOf as nativeQuantile,
} from '#engine/histograms/estimates.ts';
import type { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { noteQuantiles } from '../windows/window_notes.ts';
import { formatGeneral, formatTwoDigits } from '#engine/window_functions/number_format.ts';
import { absentBits, isAbsent } from '#engine/window_functions/row.ts';
import { isoSeconds } from '#lib/time.ts';
import type { Span } from '../words/position.ts';
import type { CallPlan, Grid } from '../plan/plan.ts';
import { hasFloat, histogramOf, makeCells } from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import { Labels } from '../rows/labels.ts';
import { labelsUnits, mapPaced } from '../rows/paced.ts';
import { Matrix, materialize, mergeSameLabels, notReady, Rows } from '../rows/rows.ts';
import { executionError } from '../words/errors.ts';
import { bucketFraction, bucketQuantile, type Buckets, type Forced } from './classic_buckets.ts';

interface Histogram {
  /** Without name and `le`. */
  readonly labels: Labels;
  readonly metricName: string;
  /** Rows of buckets by ascending bound. */
  readonly members: { readonly row: number; readonly bound: number }[];
  /** Row of native histograms under the same labels; -1 for none. */
  native: number;
}

/** What a function makes of a histogram at a step. */
interface Estimates {
  readonly ofBuckets: (buckets: Buckets, step: number, histogram: Histogram) => number;
  readonly ofNative: (histogram: FloatHistogram, step: number) => Estimate;
}

function parseBound(text: string): number | null {
  const lower = text.toLowerCase();
  if (/^\+?inf(inity)?$/.test(lower)) return Infinity;
  if (/^-inf(inity)?$/.test(lower)) return -Infinity;
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(lower)) return null;
  const bound = Number(lower);
  // What is beyond all numbers is not meant as infinite.
  return Number.isFinite(bound) ? bound : null;
}

const le: ReadonlySet<string> = new Set(['le']);

/** Of a metric's name in messages: only names that are kept to the end are known by then. */
function ofMetric(name: string, { features }: Context): string {
  return features.delayedNameRemoval && name !== ''
    ? ` for metric name ${JSON.stringify(name)}`
    : '';
}

/** About what it takes to look at a row's labels and to make those of its histogram, in units of work. */
const rowUnits = 3 * labelsUnits;

async function histogramsOf(matrix: Matrix, span: Span, context: Context): Promise<Histogram[]> {
  const { pacer } = context;
  const { buffer, stepCount } = matrix;
  const byKey = new Map<string, Histogram>();
  const natives: Histogram[] = [];
  const nativeOfKey = new Map<string, number>();
  for (const [row, labels] of matrix.labels.entries()) {
    if (pacer.spend(rowUnits + stepCount)) await pacer.pause();
    if (hasNative(matrix, row)) nativeOfKey.set(labels.key, row);
    if (!hasFloat(buffer, row * stepCount, stepCount)) continue;
    const bound = parseBound(labels.get('le'));
    if (bound === null) {
      context.annotations.warn(
        `bucket label "le" is missing or has a malformed value of ${JSON.stringify(labels.get('le'))}${ofMetric(labels.name, context)}`,
        span,
      );
      continue;
    }
    const series = labels.dropOnly(le);
    let histogram = byKey.get(series.key);
    if (histogram === undefined) {
      if (pacer.take(series.bytesWith('', ''))) await pacer.room();
      histogram = { labels: series, metricName: labels.name, members: [], native: -1 };
      byKey.set(series.key, histogram);
    }
    histogram.members.push({ row, bound });
  }
  for (const { members } of byKey.values()) {
    members.sort((a, b) => a.bound - b.bound);
    if (pacer.spend(members.length * labelsUnits)) await pacer.pause();
  }
  for (const [key, row] of nativeOfKey) {
    const classic = byKey.get(key);
    if (classic !== undefined) classic.native = row;
    else {
      const labels = matrix.labels[row]!;
      natives.push({ labels, metricName: labels.name, members: [], native: row });
    }
  }
  return [...byKey.values(), ...natives];
}

function hasNative({ buffer, stepCount }: Matrix, row: number): boolean {
  if (buffer.histograms === null) return false;
  for (let step = 0; step < stepCount; step++) {
    if (histogramOf(buffer, row * stepCount + step) !== null) return true;
  }
  return false;
}

/**
 * Reads the buckets at a step; equal bounds become one bucket.
 * @returns false when there are none
 */
function readBuckets(
  histogram: Histogram,
  { buffer, stepCount }: Matrix,
  step: number,
  buckets: Buckets,
): boolean {
  buckets.length = 0;
  const { values, words, histograms } = buffer;
  for (const { row, bound } of histogram.members) {
    const cell = row * stepCount + step;
    if (isAbsent(words, cell) || histograms?.[cell] !== undefined) continue;
    const last = buckets.length - 1;
    if (last >= 0 && buckets.bounds[last] === bound) {
      buckets.counts[last] = buckets.counts[last]! + values[cell]!;
    } else {
      buckets.bounds[buckets.length] = bound;
      buckets.counts[buckets.length] = values[cell]!;
      buckets.length++;
    }
  }
  return buckets.length > 0;
}

/** About what an estimate of a native histogram takes, in units of work (lib/turns/turns.ts). */
const nativeUnits = 200;

async function overHistograms(
  rows: Rows,
  span: Span,
  context: Context,
  { ofBuckets, ofNative }: Estimates,
): Promise<Rows> {
  const { pacer, annotations } = context;
  const matrix = await materialize(rows, pacer);
  const histograms = await histogramsOf(matrix, span, context);
  const { stepCount } = matrix;
  if (pacer.hold(histograms.length * stepCount)) await pacer.room();
  const { delayedNameRemoval } = context.features;
  const labelsOfAll = await mapPaced(
    histograms,
    ({ labels }) => (delayedNameRemoval ? labels.losingName(true) : labels.withoutName()),
    pacer.work,
  );
  const result = await Matrix.makePaced(labelsOfAll, stepCount, pacer);
  for (const [index, histogram] of histograms.entries()) {
    const { members, metricName, native: row } = histogram;
    const size = members.length;
    const buckets = { bounds: new Float64Array(size), counts: new Float64Array(size), length: 0 };
    for (let step = 0; step < stepCount; step++) {
      const hasBuckets = readBuckets(histogram, matrix, step, buckets);
      const native = row < 0 ? null : histogramOf(matrix.buffer, row * stepCount + step);
      const cell = index * stepCount + step;
      if (hasBuckets && native !== null) {
        annotations.warn(
          `vector contains a mix of classic and native histograms${ofMetric(metricName, context)}`,
          span,
        );
      } else if (hasBuckets) result.buffer.values[cell] = ofBuckets(buckets, step, histogram);
      else if (native !== null) {
        const { value, note } = ofNative(native, step);
        result.buffer.values[cell] = value;
        if (note !== 'none') {
          annotations.info(`${estimateNotes[note]}${ofMetric(metricName, context)}`, span);
        }
      }
      if (pacer.spend(size + (native === null ? 0 : nativeUnits))) await pacer.pause();
    }
  }
  return mergeSameLabels(result, pacer);
}

const estimateNotes = {
  'nan-is-the-result': 'input to histogram_quantile has NaN observations, result is NaN',
  'nan-skews': 'input to histogram_quantile has NaN observations, result is skewed higher',
  'nan-left-out':
    'input to histogram_fraction has NaN observations, which are excluded from all fractions',
} as const;

export async function histogramQuantile(
  plan: CallPlan,
  quantiles: Float64Array,
  rows: Rows,
  context: Context,
): Promise<Rows> {
  noteQuantiles(quantiles, plan.args[0]!.span, context.annotations);
  return quantilesOf(plan.grid, quantiles, rows, plan.args[1]!.span, context);
}

async function quantilesOf(
  { startMillis, stepMillis }: Grid,
  quantiles: Float64Array,
  rows: Rows,
  span: Span,
  context: Context,
): Promise<Rows> {
  const forcings = new Forcings();
  const result = await overHistograms(rows, span, context, {
    ofBuckets: (buckets, step, { metricName }) =>
      bucketQuantile(quantiles[step]!, buckets, (forced) => {
        forcings.add(ofMetric(metricName, context), startMillis + step * stepMillis, forced);
      }),
    ofNative: (histogram, step) => nativeQuantile(quantiles[step]!, histogram),
  });
  forcings.note(span, context);
  return result;
}

/** Several quantiles at once, which a label tells apart. */
export async function histogramQuantiles(
  plan: CallPlan,
  label: string,
  quantiles: readonly Float64Array[],
  rows: Rows,
  context: Context,
): Promise<Rows> {
  const { pacer } = context;
  const [input] = plan.args;
  for (const [i, each] of quantiles.entries()) {
    noteQuantiles(each, plan.args[i + 2]!.span, context.annotations);
  }
  const matrix = await materialize(rows, pacer);
  const labels: Labels[] = [];
  const parts: QuantilePart[] = [];
  for (const each of quantiles) {
    const found = await quantilesOf(plan.grid, each, matrix, input!.span, context);
    if (found.count > 0 && (label === '' || !label.isWellFormed())) {
      throw executionError(`invalid quantile label name in histogram_quantiles(): ${label}`);
    }
    // A quantile that changes from step to step has a row for each of its values.
    for (const quantile of new Set(each)) {
      parts.push({ rows: found, quantiles: each, quantile, firstRow: labels.length });
      const value = formatOpenMetrics(quantile);
      for (const one of found.labels) {
        if (pacer.take(one.bytesWith(label, value))) await pacer.room();
        labels.push(one.with(label, value).losingName(one.losesName));
        if (pacer.spend(rowUnits)) await pacer.pause();
      }
    }
  }
  return mergeSameLabels(new QuantileRows(labels, parts, plan.grid.stepCount), pacer);
}

/** Estimates at the steps at which their quantile is this one. */
interface QuantilePart {
  readonly rows: Rows;
  readonly quantiles: Float64Array;
  readonly quantile: number;
  /** Of the rows of all parts. */
  readonly firstRow: number;
}

/** The rows of all parts, each made when it is asked for. */
class QuantileRows extends Rows {
  readonly #parts: readonly QuantilePart[];

  constructor(labels: readonly Labels[], parts: readonly QuantilePart[], stepCount: number) {
    super(labels, stepCount, makeCells(stepCount), { loadSteps: stepCount, isMadeAnew: true });
    this.#parts = parts;
  }

  /** The last part that begins before the row, or at it. */
  #partOf(index: number): QuantilePart {
    let first = 0;
    let past = this.#parts.length;
    while (past - first > 1) {
      const middle = (first + past) >>> 1;
      if (this.#parts[middle]!.firstRow <= index) first = middle;
      else past = middle;
    }
    return this.#parts[first]!;
  }

  load(index: number): number {
    const { rows, quantiles, quantile, firstRow } = this.#partOf(index);
    const at = rows.load(index - firstRow);
    if (at === notReady) return notReady;
    const { bits } = this.buffer;
    for (let step = 0; step < this.stepCount; step++) {
      const isOfStep = Object.is(quantiles[step], quantile) || quantiles[step] === quantile;
      bits[step] = isOfStep ? rows.buffer.bits[at + step]! : absentBits;
    }
    return 0;
  }

  prepare(index: number): Promise<void> {
    const { rows, firstRow } = this.#partOf(index);
    return rows.prepare(index - firstRow);
  }
}

/** Whole numbers with a digit behind the point, as labels of quantiles have them. */
function formatOpenMetrics(value: number): string {
  if (value === 1 || value === 0 || value === -1) return value.toFixed(1);
  const text = formatGeneral(value);
  return /[.eN]|Inf/.test(text) ? text : `${text}.0`;
}

/** Counts that had to be made monotonic, of all histograms and steps together. */
class Forcings {
  readonly #byMetric = new Map<string, Forced & { from: number; to: number; count: number }>();

  add(metric: string, timeMillis: number, forced: Forced): void {
    const known = this.#byMetric.get(metric);
    this.#byMetric.set(metric, {
      from: Math.min(known?.from ?? timeMillis, timeMillis),
      to: Math.max(known?.to ?? timeMillis, timeMillis),
      count: (known?.count ?? 0) + 1,
      minBound: Math.min(known?.minBound ?? Infinity, forced.minBound),
      maxBound: Math.max(known?.maxBound ?? -Infinity, forced.maxBound),
      maxDifference: Math.max(known?.maxDifference ?? 0, forced.maxDifference),
    });
  }

  note(span: Span, { annotations }: Context): void {
    for (const [metric, all] of this.#byMetric) {
      const { from, to, count, minBound, maxBound, maxDifference } = all;
      const buckets = `from buckets ${formatGeneral(minBound)} to ${formatGeneral(maxBound)}`;
      const difference = formatTwoDigits(maxDifference);
      const times = `from ${isoSeconds(from)} to ${isoSeconds(to)}`;
      annotations.info(
        `input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)${metric}, ${buckets}, with a max diff of ${difference}, over ${count} samples ${times}`,
        span,
      );
    }
  }
}

export function histogramFraction(
  plan: CallPlan,
  lower: Float64Array,
  upper: Float64Array,
  rows: Rows,
  context: Context,
): Promise<Rows> {
  return overHistograms(rows, plan.args[2]!.span, context, {
    ofBuckets: (buckets, step) => bucketFraction(lower[step]!, upper[step]!, buckets),
    ofNative: (histogram, step) => fractionBetween(lower[step]!, upper[step]!, histogram),
  });
}
