/**
 * Quantiles of many values to within a hundredth of them: values are counted by the power that they are near to, so that
 * sketches of disjoint values add up.
 */
import { badRequest } from '#lib/errors.ts';

/** From one bucket to the next: what is told of a bucket is off by half of that at most. */
const ratio = 1.02;
const logRatio = Math.log(ratio);
/** Of `toNumbers`. */
const headFields = 5;
/** Values nearer to 0 are 0. */
const leastSize = 1e-300;

export class QuantileSketch {
  readonly #positive = new Map<number, number>();
  readonly #negative = new Map<number, number>();
  #zeros = 0;
  #count = 0;
  #min = Number.POSITIVE_INFINITY;
  #max = Number.NEGATIVE_INFINITY;

  /** Counts that it has. */
  get size(): number {
    return this.#positive.size + this.#negative.size;
  }

  /** Whole numbers and values: counts, least and greatest, then buckets with their counts. */
  toNumbers(): Float64Array<ArrayBuffer> {
    const { size } = this.#positive;
    const head = [this.#count, this.#zeros, this.#min, this.#max, size];
    return Float64Array.from([
      ...head,
      ...[...this.#positive].flat(),
      ...[...this.#negative].flat(),
    ]);
  }

  /** @throws {TsdbError} BAD_REQUEST when they are none of `toNumbers` */
  static ofNumbers(numbers: Float64Array): QuantileSketch {
    const [count, zeros, min, max, size] = numbers;
    const sketch = new QuantileSketch();
    const isHeadWhole = numbers.length >= headFields && numbers.length % 2 === headFields % 2;
    if (!isHeadWhole || !(size! >= 0 && headFields + 2 * size! <= numbers.length)) {
      throw badRequest(`sketch: ${numbers.length} numbers are none`);
    }
    [sketch.#count, sketch.#zeros, sketch.#min, sketch.#max] = [count!, zeros!, min!, max!];
    for (let at = headFields; at < numbers.length; at += 2) {
      const counts = at < headFields + 2 * size! ? sketch.#positive : sketch.#negative;
      counts.set(numbers[at]!, numbers[at + 1]!);
    }
    return sketch;
  }

  /** @param value a number; infinities are the largest ones. @param times how often it counts */
  add(value: number, times = 1): void {
    this.#count += times;
    if (value < this.#min) this.#min = value;
    if (value > this.#max) this.#max = value;
    if (Math.abs(value) < leastSize) this.#zeros += times;
    else if (value > 0) increase(this.#positive, bucketOf(value), times);
    else increase(this.#negative, bucketOf(-value), times);
  }

  addAll(other: QuantileSketch): void {
    this.#count += other.#count;
    this.#zeros += other.#zeros;
    if (other.#min < this.#min) this.#min = other.#min;
    if (other.#max > this.#max) this.#max = other.#max;
    for (const [bucket, count] of other.#positive) increase(this.#positive, bucket, count);
    for (const [bucket, count] of other.#negative) increase(this.#negative, bucket, count);
  }

  /** @param quantile 0 to 1; @returns NaN without values */
  quantile(quantile: number): number {
    if (this.#count === 0) return Number.NaN;
    // The value of which so large a part of all is not above it.
    let left = Math.max(1, Math.ceil(quantile * this.#count));
    if (left === 1) return this.#min;
    if (left >= this.#count) return this.#max;
    for (const bucket of ordered(this.#negative).reverse()) {
      left -= this.#negative.get(bucket)!;
      if (left <= 0) return this.#within(-valueOf(bucket));
    }
    left -= this.#zeros;
    if (left <= 0) return 0;
    for (const bucket of ordered(this.#positive)) {
      left -= this.#positive.get(bucket)!;
      if (left <= 0) return this.#within(valueOf(bucket));
    }
    return this.#max;
  }

  #within(value: number): number {
    return Math.min(this.#max, Math.max(this.#min, value));
  }
}

function bucketOf(size: number): number {
  return Math.ceil(Math.log(Math.min(size, Number.MAX_VALUE)) / logRatio);
}

/** As far from either end of the bucket. */
function valueOf(bucket: number): number {
  return (2 * Math.exp(bucket * logRatio)) / (1 + ratio);
}

function increase(counts: Map<number, number>, bucket: number, by: number): void {
  counts.set(bucket, (counts.get(bucket) ?? 0) + by);
}

const ordered = (counts: ReadonlyMap<number, number>): number[] =>
  [...counts.keys()].sort((a, b) => a - b);
