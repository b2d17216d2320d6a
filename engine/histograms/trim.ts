/**
 * Histograms without the observations beyond a value (`</` and `>/` of PromQL). A bucket that has the value within keeps the
 * part that its distribution says; where counts have changed the sum is estimated from the middle of each bucket. As
 * Prometheus 3.15 does it (`TrimBuckets`).
 */
import type { Buckets } from '../typed/histogram.ts';
import { fractionBelow } from './estimates.ts';
import type { FloatHistogram } from './float_histogram.ts';
import { BucketWalk } from './walk.ts';

/** What is kept: what is below the value, or what is above it. */
export type KeptSide = 'below' | 'above';

interface Bounds {
  readonly lower: number;
  readonly upper: number;
}

interface Bucket extends Bounds {
  readonly count: number;
}

interface Kept {
  readonly count: number;
  /** What each observation is taken to be. */
  readonly middle: number;
}

/** Changes it. */
export function trim(histogram: FloatHistogram, value: number, side: KeptSide): FloatHistogram {
  const { isCustom, negative, positive } = histogram;
  const walk = new BucketWalk(histogram, 'kept');
  const counts = { negative: negative.counts.slice(), positive: positive.counts.slice() };
  const sums = new TrimSums();
  // Positive buckets first, and outwards from zero, as sums are rounded there.
  const hasAny = (each: Buckets): boolean => each.counts.some((count) => count !== 0);
  const first = walk.size - positive.indexes.length;
  const trimSide = (name: 'negative' | 'positive', i: number, place: number): void => {
    const { lower, upper, count } = walk.at(place);
    if (count === 0) return;
    const isPositive = name === 'positive';
    counts[name][i] = sums.keep(
      count,
      keptOf({ lower, upper, count }, value, side, isPositive, isCustom),
    );
  };
  for (let i = 0; i < positive.indexes.length; i++) trimSide('positive', i, first + i);
  for (let i = 0; i < negative.indexes.length; i++) {
    trimSide('negative', i, negative.indexes.length - 1 - i);
  }
  if (histogram.zeroCount > 0) {
    const { lower, upper, count } = walk.at(negative.indexes.length);
    const [below, above] = [hasAny(negative), hasAny(positive)];
    const bounds = { lower: above && !below ? 0 : lower, upper: below && !above ? 0 : upper };
    histogram.zeroCount = sums.keep(count, keptOfZero({ ...bounds, count }, value, side));
  }
  if (!sums.hasChanged) return histogram;
  histogram.negative = { ...negative, counts: counts.negative };
  histogram.positive = { ...positive, counts: counts.positive };
  [histogram.count, histogram.sum] = [sums.count, sums.sum];
  return histogram.compact();
}

class TrimSums {
  count = 0;
  sum = 0;
  hasChanged = false;

  /** @returns how many are kept */
  keep(before: number, { count, middle }: Kept): number {
    this.count += count;
    this.sum += middle * count;
    if (count !== before) this.hasChanged = true;
    return count;
  }
}

function keptOf(
  bucket: Bucket,
  value: number,
  side: KeptSide,
  isPositive: boolean,
  isCustom: boolean,
): Kept {
  const { lower, upper, count } = bucket;
  const isWhole = side === 'below' ? upper <= value : lower >= value;
  if (isWhole) return { count, middle: middleOf(bucket, isPositive, isCustom) };
  const isDivided = side === 'below' ? lower < value : upper > value;
  if (!isDivided) return { count: 0, middle: 0 };
  if (lower === -Infinity) return keptOfLowest(bucket, value, side);
  if (upper === Infinity) {
    // How the observations beyond the last bound are spread nobody knows.
    return side === 'below' ? { count: 0, middle: lower } : { count, middle: value };
  }
  const below = count * fractionBelow(bucket, value, isCustom);
  return side === 'below'
    ? { count: below, middle: middleOf({ lower, upper: value }, isPositive, isCustom) }
    : { count: count - below, middle: middleOf({ lower: value, upper }, isPositive, isCustom) };
}

/** A bucket without a lower bound begins at 0 when its upper one is above. */
function keptOfLowest({ upper, count }: Bucket, value: number, side: KeptSide): Kept {
  const hasPart = upper > 0 && upper !== Infinity;
  if (side === 'below') {
    if (value > 0 && hasPart) return { count: (count * value) / upper, middle: value / 2 };
    if (upper <= 0) return { count, middle: value };
  } else if (value >= 0 && hasPart) {
    return { count: count * (1 - value / upper), middle: (value + upper) / 2 };
  }
  return { count: 0, middle: Number.isFinite(upper) ? upper : 0 };
}

function keptOfZero({ lower, upper, count }: Bucket, value: number, side: KeptSide): Kept {
  const middle = (lower + upper) / 2;
  if (side === 'below') {
    if (value <= lower) return { count: 0, middle: 0 };
    if (value >= upper) return { count, middle };
    return { count: count * ((value - lower) / (upper - lower)), middle: (lower + value) / 2 };
  }
  if (value <= lower) return { count, middle };
  if (value >= upper) return { count: 0, middle: 0 };
  return { count: count * ((upper - value) / (upper - lower)), middle: (value + upper) / 2 };
}

function middleOf({ lower, upper }: Bounds, isPositive: boolean, isCustom: boolean): number {
  if (!Number.isFinite(lower)) {
    if (!Number.isFinite(upper)) return 0;
    return upper > 0 ? upper / 2 : upper;
  }
  if (!Number.isFinite(upper)) return lower;
  if (isCustom) return (lower + upper) / 2;
  const mean = Math.sqrt(Math.abs(lower * upper));
  return isPositive ? mean : -mean;
}
