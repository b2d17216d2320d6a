/** Estimates from the buckets of a classic histogram at one step: cumulative counts by upper bound. */

/** By ascending bound; reused from step to step. */
export interface Buckets {
  readonly bounds: Float64Array;
  readonly counts: Float64Array;
  length: number;
}

/** Where counts fell from one bucket to the next, and were made to stay. */
export interface Forced {
  readonly minBound: number;
  readonly maxBound: number;
  readonly maxDifference: number;
}

/** Differences up to this relative size are rounding, not counts that fall. */
const smallDelta = 1e-12;

function almostEqual(a: number, b: number): boolean {
  if (a === b) return true;
  const size = Math.abs(a) + Math.abs(b);
  const difference = Math.abs(a - b);
  if (a === 0 || b === 0 || size < Number.MIN_VALUE) return difference < smallDelta * 2.2e-308;
  return difference / Math.min(size, Number.MAX_VALUE) < smallDelta;
}

/**
 * Counts must not fall from bucket to bucket; where they do, the larger one stays.
 * @returns null when nothing but rounding was corrected
 */
function makeMonotonic({ bounds, counts, length }: Buckets): Forced | null {
  let previous = counts[0]!;
  let [minBound, maxBound, maxDifference] = [Infinity, -Infinity, 0];
  for (let i = 1; i < length; i++) {
    const count = counts[i]!;
    if (count === previous) continue;
    if (almostEqual(previous, count)) counts[i] = previous;
    else if (count < previous) {
      counts[i] = previous;
      minBound = Math.min(minBound, bounds[i]!);
      maxBound = Math.max(maxBound, bounds[i]!);
      maxDifference = Math.max(maxDifference, previous - count);
    } else previous = count;
  }
  return minBound === Infinity && maxBound === -Infinity
    ? null
    : { minBound, maxBound, maxDifference };
}

/** @param onForced called when counts had to be made monotonic */
export function bucketQuantile(
  q: number,
  buckets: Buckets,
  onForced: (forced: Forced) => void,
): number {
  if (Number.isNaN(q)) return NaN;
  if (q < 0) return -Infinity;
  if (q > 1) return Infinity;
  const { bounds, counts } = buckets;
  if (bounds[buckets.length - 1] !== Infinity) return NaN;
  const forced = makeMonotonic(buckets);
  if (forced !== null) onForced(forced);
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
export function bucketFraction(lower: number, upper: number, buckets: Buckets): number {
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
