/**
 * What a histogram tells of the observations that it has counted, each bucket as if they were spread evenly in it:
 * between custom bounds and around zero over its width, else over the logarithms of its bounds. As Prometheus 3.15
 * computes them (promql/quantile.go).
 */
import { addExactly } from './buckets.ts';
import type { FloatHistogram } from './float_histogram.ts';
import { BucketWalk } from './walk.ts';

/** What a user should know of an estimate: observations that were NaN are in no bucket. */
export type EstimateNote = 'none' | 'nan-skews' | 'nan-is-the-result' | 'nan-left-out';

export interface Estimate {
  readonly value: number;
  readonly note: EstimateNote;
}

const plain = (value: number): Estimate => ({ value, note: 'none' });

/** Below which value the part `q` of all observations is. */
export function quantileOf(q: number, histogram: FloatHistogram): Estimate {
  if (q < 0) return plain(-Infinity);
  if (q > 1) return plain(Infinity);
  const { count: total, isCustom } = histogram;
  if (total === 0 || Number.isNaN(q)) return plain(Number.NaN);
  const hasNaN = Number.isNaN(histogram.sum);
  // From the nearer end, which loses less; NaN counts as the largest of all.
  const isForward = hasNaN || q < 0.5;
  const walk = new BucketWalk(histogram, 'cut');
  const rank = (isForward ? q : 1 - q) * total;
  let [counted, step] = [0, 0];
  for (; step < walk.size; step++) {
    const count = walk.countAt(isForward ? step : walk.size - 1 - step);
    counted += count;
    if (count !== 0 && counted >= rank) break;
  }
  // Without one that reaches the rank it is the last one.
  const place = Math.min(step, walk.size - 1);
  const found = { lower: 0, upper: 0, count: 0 };
  if (place >= 0) {
    const { lower, upper, count } = walk.at(isForward ? place : walk.size - 1 - place);
    Object.assign(found, { lower, upper, count });
  }
  if (isCustom) {
    if (found.lower === -Infinity) {
      if (found.upper <= 0) return plain(found.upper);
      found.lower = 0;
    } else if (found.upper === Infinity) return plain(found.lower);
  } else if (found.lower < 0 && found.upper > 0) {
    Object.assign(found, zeroBoundsOf(histogram, found.lower, found.upper));
  }
  counted = Math.min(counted, total);
  if (counted < rank) {
    return hasNaN ? { value: Number.NaN, note: 'nan-is-the-result' } : plain(found.upper);
  }
  const within = isForward ? rank - (counted - found.count) : counted - rank;
  let note: EstimateNote = 'none';
  if (hasNaN) {
    for (step += 1; step < walk.size; step++) counted += walk.countAt(step);
    if (counted < total) note = 'nan-skews';
  }
  return { value: valueWithin(found, within / found.count, isCustom), note };
}

/** A side that has no buckets at all has no part of the zero bucket either. */
function zeroBoundsOf(
  { negative, positive }: FloatHistogram,
  lower: number,
  upper: number,
): { lower: number; upper: number } {
  const [below, above] = [negative.indexes.length > 0, positive.indexes.length > 0];
  return { lower: above && !below ? 0 : lower, upper: below && !above ? 0 : upper };
}

function valueWithin(
  { lower, upper }: { lower: number; upper: number },
  fraction: number,
  isCustom: boolean,
): number {
  if (isCustom || (lower <= 0 && upper >= 0)) return lower + (upper - lower) * fraction;
  const logLower = Math.log2(Math.abs(lower));
  const logUpper = Math.log2(Math.abs(upper));
  if (lower > 0) return 2 ** (logLower + (logUpper - logLower) * fraction);
  return -(2 ** (logUpper + (logLower - logUpper) * (1 - fraction)));
}

/** Which part of a bucket is below a value within it. */
export function fractionBelow(
  { lower, upper }: { lower: number; upper: number },
  value: number,
  isLinear: boolean,
): number {
  if (isLinear) return (value - lower) / (upper - lower);
  const logLower = Math.log2(Math.abs(lower));
  const logUpper = Math.log2(Math.abs(upper));
  const logValue = Math.log2(Math.abs(value));
  if (value > 0) return (logValue - logLower) / (logUpper - logLower);
  return 1 - (logValue - logUpper) / (logLower - logUpper);
}

/** Which part of all observations is between two values. */
export function fractionBetween(lower: number, upper: number, histogram: FloatHistogram): Estimate {
  const { count: total, isCustom } = histogram;
  if (total === 0 || Number.isNaN(lower) || Number.isNaN(upper)) return plain(Number.NaN);
  if (lower >= upper) return plain(0);
  const walk = new BucketWalk(histogram, 'cut');
  let [counted, rank, step] = [0, 0, 0];
  let lowerRank: number | null = null;
  let upperRank: number | null = null;
  for (; step < walk.size; step++) {
    const { count } = walk.at(step);
    const bucket = { lower: walk.lower, upper: walk.upper };
    counted += count;
    const isAroundZero = bucket.lower <= 0 && bucket.upper >= 0;
    if (isAroundZero) Object.assign(bucket, zeroBoundsOf(histogram, bucket.lower, bucket.upper));
    const rankOf = (value: number): number | null => {
      if (bucket.lower >= value) return rank;
      if (bucket.upper <= value) return null;
      // An infinite bucket cannot be divided: all of the lowest one is below, none of the highest.
      if (bucket.lower === -Infinity && (isCustom || isAroundZero)) return count;
      return rank + count * fractionBelow(bucket, value, isCustom || isAroundZero);
    };
    lowerRank ??= rankOf(lower);
    upperRank ??= rankOf(upper);
    if (lowerRank !== null && upperRank !== null) break;
    rank += count;
  }
  let note: EstimateNote = 'none';
  if (Number.isNaN(histogram.sum)) {
    for (step += 1; step < walk.size; step++) counted += walk.countAt(step);
    if (counted < total) note = 'nan-left-out';
  } else counted = total;
  const from = Math.min(lowerRank ?? counted, counted);
  const to = Math.min(upperRank ?? counted, counted);
  return { value: (to - from) / total, note };
}

/** The variance, each observation taken to be in the middle of its bucket. */
export function varianceOf(histogram: FloatHistogram): number {
  const { sum, count: total, isCustom } = histogram;
  const mean = sum / total;
  const [variance, lost] = [new Float64Array(1), new Float64Array(1)];
  const walk = new BucketWalk(histogram, 'cut');
  for (let place = 0; place < walk.size; place++) {
    const { lower, upper, count } = walk.at(place);
    if (count === 0) continue;
    let value = 0;
    if (isCustom) value = (upper + lower) / 2;
    else if (lower > 0 || upper < 0) value = Math.sign(upper) * Math.sqrt(upper * lower);
    const delta = value - mean;
    addExactly(variance, lost, 0, count * delta * delta);
  }
  return (variance[0]! + lost[0]!) / total;
}
