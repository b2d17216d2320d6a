/**
 * Quantiles and fractions of classic histograms: series with a `le` label and cumulative counts.
 */
import { isAbsent } from '#engine/window_functions/row.ts';
import { metricNameTag } from '#lib/tags.ts';
import type { Context } from '../rows/context.ts';
import { Labels } from '../rows/labels.ts';
import { formatNumber } from '#engine/window_functions/number_format.ts';
import type { CallPlan } from '../plan/plan.ts';
import type { Span } from '../parse/position.ts';
import { Matrix, materialize } from '../rows/rows.ts';
import type { Rows } from '../rows/rows.ts';

/** Buckets of one histogram at one step, by ascending bound; reused from step to step. */
interface Buckets {
  readonly bounds: Float64Array;
  readonly counts: Float64Array;
  length: number;
}

/** Differences up to this relative size are rounding, not counts that fall. */
const smallDelta = 1e-12;

interface Histogram {
  readonly labels: Labels;
  readonly metricName: string;
  /** By ascending bound. */
  readonly members: { readonly row: number; readonly bound: number }[];
}

function parseBound(text: string): number | null {
  const lower = text.toLowerCase();
  if (/^\+?inf(inity)?$/.test(lower)) return Infinity;
  if (/^-inf(inity)?$/.test(lower)) return -Infinity;
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(lower)) return null;
  return Number(lower);
}

function histogramsOf(rows: Rows, span: Span, context: Context): Histogram[] {
  const dropped = new Set(['le']);
  const byKey = new Map<string, Histogram>();
  rows.labels.forEach((labels, row) => {
    const bound = parseBound(labels.get('le'));
    if (bound === null) {
      context.annotations.warn(
        `bucket label "le" is missing or has a malformed value of ${JSON.stringify(labels.get('le'))} for metric name ${JSON.stringify(labels.get(metricNameTag))}`,
        span,
      );
      return;
    }
    const key = labels.keyWithout(dropped);
    let histogram = byKey.get(key);
    if (histogram === undefined) {
      histogram = { labels: labels.drop(dropped), metricName: labels.name, members: [] };
      byKey.set(key, histogram);
    }
    histogram.members.push({ row, bound });
  });
  for (const histogram of byKey.values()) histogram.members.sort((a, b) => a.bound - b.bound);
  return [...byKey.values()];
}

/**
 * Reads the buckets at a step; equal bounds become one bucket.
 * @returns false when there are none
 */
function readBuckets(
  histogram: Histogram,
  matrix: Matrix,
  step: number,
  buckets: Buckets,
): boolean {
  buckets.length = 0;
  const { values, words } = matrix.buffer;
  for (const { row, bound } of histogram.members) {
    const cell = row * matrix.stepCount + step;
    if (isAbsent(words, cell)) continue;
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

function almostEqual(a: number, b: number): boolean {
  if (a === b) return true;
  const size = Math.abs(a) + Math.abs(b);
  const difference = Math.abs(a - b);
  if (a === 0 || b === 0 || size < Number.MIN_VALUE) return difference < smallDelta * 2.2e-308;
  return difference / Math.min(size, Number.MAX_VALUE) < smallDelta;
}

/**
 * Counts must not fall from bucket to bucket; where they do, the larger one stays.
 * @returns whether more than rounding was corrected
 */
function makeMonotonic({ counts, length }: Buckets): boolean {
  let previous = counts[0]!;
  let forced = false;
  for (let i = 1; i < length; i++) {
    const count = counts[i]!;
    if (count === previous) continue;
    if (almostEqual(previous, count)) counts[i] = previous;
    else if (count < previous) {
      counts[i] = previous;
      forced = true;
    } else previous = count;
  }
  return forced;
}

/** @param onForced called when counts had to be made monotonic */
function bucketQuantile(q: number, buckets: Buckets, onForced: () => void): number {
  if (Number.isNaN(q)) return NaN;
  if (q < 0) return -Infinity;
  if (q > 1) return Infinity;
  const { bounds, counts } = buckets;
  if (bounds[buckets.length - 1] !== Infinity) return NaN;
  if (makeMonotonic(buckets)) onForced();
  if (buckets.length < 2) return NaN;
  const last = buckets.length - 1;
  const observations = counts[last]!;
  if (observations === 0) return NaN;
  let rank = q * observations;
  let bucket = 0;
  while (bucket < last && !(counts[bucket]! >= rank)) bucket++;
  if (bucket === last) return bounds[last - 1]!;
  if (bucket === 0 && bounds[0]! <= 0) return bounds[0]!;
  let start = 0;
  let count = counts[bucket]!;
  if (bucket > 0) {
    start = bounds[bucket - 1]!;
    count -= counts[bucket - 1]!;
    rank -= counts[bucket - 1]!;
  }
  return start + (bounds[bucket]! - start) * (rank / count);
}

/** Share of the observations between two values, linear inside of buckets. */
function bucketFraction(lower: number, upper: number, buckets: Buckets): number {
  const { bounds, counts, length } = buckets;
  if (bounds[length - 1] !== Infinity) return NaN;
  const total = counts[length - 1]!;
  if (total === 0 || Number.isNaN(total) || Number.isNaN(lower) || Number.isNaN(upper)) return NaN;
  if (lower >= upper) return 0;
  return (rankOf(upper, buckets) - rankOf(lower, buckets)) / total;
}

/** Number of observations at or below the value. */
function rankOf(value: number, { bounds, counts, length }: Buckets): number {
  let rank = 0;
  for (let i = 0; i < length; i++) {
    const end = bounds[i]!;
    const start = i > 0 ? bounds[i - 1]! : end > 0 ? 0 : -Infinity;
    if (start >= value) return rank;
    if (end > value) {
      // A bucket without a width lends nothing to values inside of it.
      if (start === -Infinity) return counts[i]!;
      if (end === Infinity) return rank;
      return rank + ((counts[i]! - rank) * (value - start)) / (end - start);
    }
    rank = counts[i]!;
  }
  return Math.min(rank, counts[length - 1]!);
}

async function overHistograms(
  rows: Rows,
  span: Span,
  context: Context,
  valueOf: (buckets: Buckets, step: number, histogram: Histogram) => number,
): Promise<Rows> {
  const matrix = await materialize(rows, context.pacer);
  const histograms = histogramsOf(matrix, span, context);
  const { stepCount } = matrix;
  if (context.pacer.hold(histograms.length * stepCount)) await context.pacer.room();
  const result = Matrix.make(
    histograms.map((histogram) => histogram.labels),
    stepCount,
  );
  for (const [index, histogram] of histograms.entries()) {
    const size = histogram.members.length;
    const buckets = {
      bounds: new Float64Array(size),
      counts: new Float64Array(size),
      length: 0,
    };
    for (let step = 0; step < stepCount; step++) {
      if (!readBuckets(histogram, matrix, step, buckets)) continue;
      result.buffer.values[index * stepCount + step] = valueOf(buckets, step, histogram);
      if (context.pacer.spend(size)) await context.pacer.pause();
    }
  }
  return result;
}

export function histogramQuantile(
  plan: CallPlan,
  quantiles: Float64Array,
  rows: Rows,
  context: Context,
): Promise<Rows> {
  const bad = quantiles.find((q) => Number.isNaN(q) || q < 0 || q > 1);
  if (bad !== undefined) {
    context.annotations.warn(
      `quantile value should be between 0 and 1, got ${formatNumber(bad)}`,
      plan.args[0]!.span,
    );
  }
  const { span } = plan.args[1]!;
  return overHistograms(rows, span, context, (buckets, step, histogram) =>
    bucketQuantile(quantiles[step]!, buckets, () => {
      context.annotations.info(
        `input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile) for metric name ${JSON.stringify(histogram.metricName)}`,
        span,
      );
    }),
  );
}

export function histogramFraction(
  plan: CallPlan,
  lower: Float64Array,
  upper: Float64Array,
  rows: Rows,
  context: Context,
): Promise<Rows> {
  return overHistograms(rows, plan.args[2]!.span, context, (buckets, step) =>
    bucketFraction(lower[step]!, upper[step]!, buckets),
  );
}
