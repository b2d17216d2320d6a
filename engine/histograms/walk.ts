/** The buckets of a histogram by their bounds, from the lowest one to the highest. */
import { upperBound } from './bounds.ts';
import type { FloatHistogram } from './float_histogram.ts';

export class BucketWalk {
  /** Of the bucket that it is at. */
  lower = 0;
  upper = 0;
  count = 0;
  isZero = false;
  /** Whether the bounds belong to it. */
  hasLower = false;
  hasUpper = false;
  /** How many buckets there are: those of the negative side, the zero bucket unless it is empty, the positive side. */
  readonly size: number;
  readonly #histogram: FloatHistogram;
  readonly #isCut: boolean;
  readonly #negative: number;
  readonly #zero: number;

  /**
   * @param overlap what part of a bucket lies within the zero bucket is cut off, or kept
   * @param hasZero whether the zero bucket is one of them; a count below 0 is none to who computes with it
   */
  constructor(
    histogram: FloatHistogram,
    overlap: 'cut' | 'kept',
    hasZero: boolean = histogram.zeroCount > 0,
  ) {
    this.#histogram = histogram;
    this.#isCut = overlap === 'cut';
    this.#negative = histogram.negative.indexes.length;
    this.#zero = hasZero ? 1 : 0;
    this.size = this.#negative + this.#zero + histogram.positive.indexes.length;
  }

  /** The count of one of them, without its bounds, which cost more. */
  countAt(place: number): number {
    const { negative, positive, zeroCount } = this.#histogram;
    if (place < this.#negative) return negative.counts[this.#negative - 1 - place]!;
    const past = place - this.#negative - this.#zero;
    return past < 0 ? zeroCount : positive.counts[past]!;
  }

  /** Goes to one of them, by its place. */
  at(place: number): this {
    const past = place - this.#negative - this.#zero;
    this.isZero = past < 0 && place >= this.#negative;
    if (this.isZero) this.#atZero();
    else if (past < 0) this.#atNegative(this.#negative - 1 - place);
    else this.#atPositive(past);
    return this;
  }

  #atZero(): void {
    const { zeroThreshold, zeroCount } = this.#histogram;
    [this.lower, this.upper, this.count] = [-zeroThreshold, zeroThreshold, zeroCount];
    [this.hasLower, this.hasUpper] = [true, true];
  }

  #atNegative(i: number): void {
    const { schema, customBounds, zeroThreshold, negative } = this.#histogram;
    const index = negative.indexes[i]!;
    this.count = negative.counts[i]!;
    this.lower = -upperBound(index, schema, customBounds);
    this.upper = -upperBound(index - 1, schema, customBounds);
    if (this.#isCut && this.upper > -zeroThreshold && this.upper < 0) this.upper = -zeroThreshold;
    [this.hasLower, this.hasUpper] = [true, false];
  }

  #atPositive(i: number): void {
    const { schema, customBounds, zeroThreshold, positive, isCustom } = this.#histogram;
    const index = positive.indexes[i]!;
    this.count = positive.counts[i]!;
    this.lower = upperBound(index - 1, schema, customBounds);
    this.upper = upperBound(index, schema, customBounds);
    if (this.#isCut && this.lower < zeroThreshold && this.lower > 0) this.lower = zeroThreshold;
    [this.hasLower, this.hasUpper] = [isCustom && index === 0, true];
  }
}
