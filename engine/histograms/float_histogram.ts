/**
 * Histograms as queries compute with them: counts are floats and may be negative, what is added together is brought to one
 * form before. Semantics and the order of sums are those of Prometheus 3.15 (model/histogram/float_histogram.go), so
 * that results are its own to the last bit.
 */
import { assert } from '#lib/assert.ts';
import {
  type Buckets,
  customSchema,
  type Histogram,
  sumOf as sumOfValue,
} from '../typed/histogram.ts';
import { commonBounds, exponentialBound, sameBounds } from './bounds.ts';
import {
  addExactly,
  coarsened,
  compacted,
  layoutOfBounds,
  noBuckets,
  placesAmong,
  sumOf,
  type SummedBuckets,
  tailOf,
} from './buckets.ts';

/** What is known of a counter's reset between a histogram and the one before it. */
export const counterHint = { unknown: 0, reset: 1, notReset: 2, gauge: 3 } as const;
export type CounterHint = (typeof counterHint)[keyof typeof counterHint];

/** What happened when one was added to another, for the annotations of a query: bits. */
export const reconciled = {
  nothing: 0,
  /** One says reset and the other says none. */
  hints: 1,
  /** Custom bounds differed, and those that both have are left. */
  bounds: 2,
} as const;

const noBounds = new Float64Array(0);

export interface HistogramParts {
  readonly hint?: CounterHint;
  readonly schema: number;
  readonly zeroThreshold?: number;
  readonly zeroCount?: number;
  readonly count: number;
  readonly sum: number;
  readonly customBounds?: Float64Array;
  readonly positive?: Buckets;
  readonly negative?: Buckets;
}

/**
 * Methods that change it say so; arrays are never changed but replaced, so that a copy costs nothing.
 *
 * One that is `loose` is made of numbers that share a layout with others, of which most may be empty here: they are left
 * out when somebody asks for its buckets. Who adds many of them up asks for `looseSide`, and gets the shared layout.
 */
export class FloatHistogram {
  hint: CounterHint;
  schema: number;
  /** The zero bucket holds what is not larger, by its absolute value. */
  zeroThreshold: number;
  zeroCount: number;
  count: number;
  sum: number;
  /** Of the custom schema, which has neither a zero bucket nor a negative side; else empty. */
  customBounds: Float64Array;
  #positive: Buckets;
  #negative: Buckets;
  #isLoose: boolean;

  constructor(parts: HistogramParts) {
    this.hint = parts.hint ?? counterHint.unknown;
    this.schema = parts.schema;
    this.zeroThreshold = parts.zeroThreshold ?? 0;
    this.zeroCount = parts.zeroCount ?? 0;
    this.count = parts.count;
    this.sum = parts.sum;
    this.customBounds = parts.customBounds ?? noBounds;
    this.#positive = parts.positive ?? noBuckets;
    this.#negative = parts.negative ?? noBuckets;
    this.#isLoose = false;
  }

  /** @param parts of which empty buckets are left out when they are asked for */
  static loose(parts: HistogramParts): FloatHistogram {
    const histogram = new FloatHistogram(parts);
    histogram.#isLoose = true;
    return histogram;
  }

  get positive(): Buckets {
    if (this.#isLoose) this.compact();
    return this.#positive;
  }

  set positive(buckets: Buckets) {
    this.#positive = buckets;
  }

  get negative(): Buckets {
    if (this.#isLoose) this.compact();
    return this.#negative;
  }

  set negative(buckets: Buckets) {
    this.#negative = buckets;
  }

  /** The buckets of a side, perhaps with empty ones. */
  looseSide(side: 'positive' | 'negative'): Buckets {
    return side === 'positive' ? this.#positive : this.#negative;
  }

  static ofValue(histogram: Histogram): FloatHistogram {
    return new FloatHistogram({ ...histogram, sum: sumOfValue(histogram) });
  }

  get isCustom(): boolean {
    return this.schema === customSchema;
  }

  copy(): FloatHistogram {
    const { hint, schema, zeroThreshold, zeroCount, count, sum, customBounds } = this;
    const numbers = { hint, schema, zeroThreshold, zeroCount, count, sum, customBounds };
    const sides = { positive: this.#positive, negative: this.#negative };
    const copy = new FloatHistogram({ ...numbers, ...sides });
    copy.#isLoose = this.#isLoose;
    return copy;
  }

  /** Multiplies what is counted; by less than zero it is no counter any more. Changes it. */
  scale(factor: number): this {
    return this.#each((value) => value * factor, factor);
  }

  /** Divided by zero, no bucket is left. Changes it. */
  divide(divisor: number): this {
    this.#each((value) => value / divisor, divisor);
    if (divisor === 0) [this.positive, this.negative] = [noBuckets, noBuckets];
    return this;
  }

  #each(change: (value: number) => number, by: number): this {
    // Of what is empty something else than nothing would come.
    if (this.#isLoose && !(Number.isFinite(by) && by !== 0)) this.compact();
    this.zeroCount = change(this.zeroCount);
    this.count = change(this.count);
    this.sum = change(this.sum);
    const changed = ({ indexes, counts }: Buckets): Buckets =>
      indexes.length === 0 ? noBuckets : { indexes, counts: counts.map(change) };
    this.#positive = changed(this.#positive);
    this.#negative = changed(this.#negative);
    if (by < 0) this.hint = counterHint.gauge;
    return this;
  }

  /** Whether the two can be added: both have custom bounds, or both have none. */
  isLike(other: FloatHistogram): boolean {
    return this.isCustom === other.isCustom;
  }

  /**
   * Adds one that is like it. Changes it.
   * @returns bits of `reconciled`
   */
  add(other: FloatHistogram): number {
    return this.#combine(other, 1);
  }

  /** As `add`. That a difference is no counter is for the caller to say. */
  subtract(other: FloatHistogram): number {
    return this.#combine(other, -1);
  }

  #combine(other: FloatHistogram, sign: 1 | -1): number {
    let outcome = this.combineHint(other);
    if (!this.isCustom) {
      const others = this.#reconcileZero(other);
      this.zeroCount += sign * others;
    }
    this.count += sign * other.count;
    this.sum += sign * other.sum;
    if (!this.isCustom) {
      const schema = Math.min(this.schema, other.schema);
      for (const side of ['positive', 'negative'] as const) {
        const own = coarsened(this[side], this.schema, schema);
        const others = beyondZero(other, side, this.zeroThreshold);
        this[side] = sumOf(own, coarsened(others, other.schema, schema), sign);
      }
      this.schema = schema;
    } else if (sameBounds(this.customBounds, other.customBounds)) {
      this.positive = sumOf(this.positive, other.positive, sign);
    } else {
      const bounds = commonBounds(this.customBounds, other.customBounds);
      const counts = new Float64Array(bounds.length + 1);
      addAmong(counts, this, bounds, 1);
      addAmong(counts, other, bounds, sign);
      this.positive = compacted({ indexes: layoutOfBounds(bounds), counts });
      this.customBounds = bounds;
      outcome |= reconciled.bounds;
    }
    return outcome;
  }

  /** The hint of what it and another make together. Changes it. */
  combineHint({ hint }: FloatHistogram): number {
    if (hint === this.hint || this.hint === counterHint.gauge) return reconciled.nothing;
    if (hint === counterHint.gauge) {
      this.hint = counterHint.gauge;
      return reconciled.nothing;
    }
    const isCollision = hint !== counterHint.unknown && this.hint !== counterHint.unknown;
    this.hint = counterHint.unknown;
    return isCollision ? reconciled.hints : reconciled.nothing;
  }

  /**
   * Makes the zero bucket so wide that that of the other fits in, and the other way round. Changes it.
   * @returns the zero count that the other would have
   */
  #reconcileZero(other: FloatHistogram): number {
    let [otherCount, otherThreshold] = [other.zeroCount, other.zeroThreshold];
    assert(otherThreshold >= 0 && this.zeroThreshold >= 0, 'zero thresholds can be compared');
    while (otherThreshold !== this.zeroThreshold) {
      if (otherThreshold < this.zeroThreshold) {
        [otherCount, otherThreshold] = other.zeroOfThreshold(this.zeroThreshold);
      }
      if (this.zeroThreshold < otherThreshold) {
        [this.zeroCount, this.zeroThreshold] = this.zeroOfThreshold(otherThreshold);
        this.positive = withoutZero(this.positive, this.schema, this.zeroThreshold);
        this.negative = withoutZero(this.negative, this.schema, this.zeroThreshold);
      }
    }
    return otherCount;
  }

  /**
   * Its zero count if its zero bucket were wider, and how wide it is then: a bucket that is not empty is within it or
   * not.
   */
  zeroOfThreshold(wished: number): [count: number, threshold: number] {
    const { sums, threshold } = widerZero(this, wished, 0);
    return [sums[0]!, threshold];
  }

  /** Without empty buckets. Changes it. */
  compact(): this {
    this.#positive = compacted(this.#positive);
    this.#negative = compacted(this.#negative);
    this.#isLoose = false;
    return this;
  }

  /** In a coarser schema, or its own; what its hint says is lost then. */
  ofSchema(schema: number): FloatHistogram {
    if (schema === this.schema) return this.copy();
    assert(!this.isCustom && schema < this.schema, 'only exponential buckets become coarser');
    const copy = this.copy();
    copy.hint = counterHint.unknown;
    copy.schema = schema;
    copy.positive = coarsened(this.positive, this.schema, schema);
    copy.negative = coarsened(this.negative, this.schema, schema);
    return copy;
  }

  /** Whether anything is larger than numbers are, for which a mean has to be taken in another way. */
  get overflows(): boolean {
    const isBeyond = (value: number): boolean => value === Infinity || value === -Infinity;
    const { zeroCount, count, sum, positive, negative, customBounds } = this;
    return (
      [zeroCount, count, sum].some(isBeyond) ||
      [positive.counts, negative.counts, customBounds].some((values) => values.some(isBeyond))
    );
  }

  /**
   * Whether a counter was reset between another one and this one: as its hint says, or when anything but the sum has
   * become less, or its buckets have changed as they do in no other way.
   */
  isResetAfter(previous: FloatHistogram): boolean {
    if (this.hint === counterHint.reset) return true;
    if (this.hint === counterHint.notReset) return false;
    if (this.count < previous.count) return true;
    if (this.isCustom) {
      if (!previous.isCustom) return true;
      if (!sameBounds(this.customBounds, previous.customBounds)) {
        return hasLessAmongCommon(this, previous);
      }
    }
    if (this.schema > previous.schema || this.zeroThreshold < previous.zeroThreshold) return true;
    const [zeroCount, threshold] = previous.zeroOfThreshold(this.zeroThreshold);
    if (threshold !== this.zeroThreshold || this.zeroCount < zeroCount) return true;
    return (['positive', 'negative'] as const).some((side) => {
      if (this.isCustom) return hasLess(this[side], previous[side]);
      const before = beyondZero(previous, side, threshold);
      return hasLess(this[side], coarsened(before, previous.schema, this.schema));
    });
  }

  /** Whether both have the same buckets and bits, hints aside; empty buckets are not looked at. */
  equals(other: FloatHistogram): boolean {
    const hasSame = (a: number, b: number): boolean => Object.is(a, b);
    const [a, b] = [this.copy().compact(), other.copy().compact()];
    return (
      a.schema === b.schema &&
      hasSame(a.count, b.count) &&
      hasSame(a.sum, b.sum) &&
      a.zeroThreshold === b.zeroThreshold &&
      hasSame(a.zeroCount, b.zeroCount) &&
      sameBounds(a.customBounds, b.customBounds) &&
      (['positive', 'negative'] as const).every(
        (side) =>
          a[side].indexes.length === b[side].indexes.length &&
          a[side].indexes.every((index, i) => index === b[side].indexes[i]) &&
          a[side].counts.every((count, i) => hasSame(count, b[side].counts[i]!)),
      )
    );
  }
}

/**
 * The buckets that its zero bucket does not take in when it becomes wider. It is before they become coarser that this can be
 * told: Prometheus 3.15 counts twice what is below the threshold in a coarser bucket that reaches beyond it.
 */
export function beyondZero(
  histogram: FloatHistogram,
  side: 'positive' | 'negative',
  threshold: number,
): Buckets {
  const { schema, [side]: buckets } = histogram;
  if (threshold === histogram.zeroThreshold) return buckets;
  const { indexes } = buckets;
  let within = 0;
  while (within < indexes.length && exponentialBound(indexes[within]!, schema) <= threshold) {
    within++;
  }
  return tailOf(buckets, within);
}

/** Empties the buckets that are within the zero bucket, and drops what is empty. */
export function withoutZero<T extends Buckets | SummedBuckets>(
  buckets: T,
  schema: number,
  threshold: number,
): T {
  const { indexes } = buckets;
  let within = 0;
  while (within < indexes.length && exponentialBound(indexes[within]! - 1, schema) < threshold) {
    within++;
  }
  return compacted(tailOf(buckets, within));
}

/** What `widerZero` reads. */
export interface ZeroAndSides {
  readonly schema: number;
  readonly zeroThreshold: number;
  readonly zeroCount: number;
  readonly positive: Buckets | SummedBuckets;
  readonly negative: Buckets | SummedBuckets;
}

/**
 * A zero bucket of at least a threshold: its count and what that has lost by rounding.
 * @param zeroLost what the count has lost so far
 */
export function widerZero(
  histogram: ZeroAndSides,
  wished: number,
  zeroLost: number,
): { readonly sums: Float64Array; readonly lost: Float64Array; readonly threshold: number } {
  const { schema, zeroThreshold, zeroCount } = histogram;
  assert(wished >= zeroThreshold, 'a zero bucket only becomes wider');
  const [sums, lost] = [new Float64Array(1), new Float64Array(1)];
  let threshold = wished;
  for (;;) {
    sums[0] = zeroCount;
    lost[0] = zeroLost;
    if (threshold === zeroThreshold) return { sums, lost, threshold };
    threshold = addWithin(sums, lost, histogram.positive, schema, threshold);
    const widest = addWithin(sums, lost, histogram.negative, schema, threshold);
    if (widest === threshold) return { sums, lost, threshold };
    // What was added of the positive side is too little now.
    threshold = widest;
  }
}

/** @returns the threshold, or the bound of a bucket that is not empty and has it within */
function addWithin(
  sums: Float64Array,
  lost: Float64Array,
  buckets: Buckets | SummedBuckets,
  schema: number,
  threshold: number,
): number {
  for (const [i, index] of buckets.indexes.entries()) {
    if (exponentialBound(index - 1, schema) >= threshold) break;
    const count = buckets.counts[i]!;
    addExactly(sums, lost, 0, count);
    if ('lost' in buckets) addExactly(sums, lost, 0, buckets.lost[i]!);
    const bound = exponentialBound(index, schema);
    if (bound > threshold) return count === 0 ? threshold : bound;
  }
  return threshold;
}

function addAmong(
  counts: Float64Array,
  { positive, customBounds }: FloatHistogram,
  bounds: Float64Array,
  sign: 1 | -1,
): void {
  const places = placesAmong(positive.indexes, customBounds, bounds);
  for (const [i, place] of places.entries()) counts[place]! += sign * positive.counts[i]!;
}

function hasLessAmongCommon(a: FloatHistogram, b: FloatHistogram): boolean {
  const bounds = commonBounds(a.customBounds, b.customBounds);
  const [counts, before] = [a, b].map((histogram) => {
    const sums = new Float64Array(bounds.length + 1);
    addAmong(sums, histogram, bounds, 1);
    return sums;
  }) as [Float64Array, Float64Array];
  return counts.some((count, i) => count < before[i]!);
}

/** Whether any bucket has less than before, or is missing. */
function hasLess(now: Buckets, before: Buckets): boolean {
  for (let i = 0, at = 0; i < before.indexes.length; i++) {
    const index = before.indexes[i]!;
    while (at < now.indexes.length && now.indexes[at]! < index) at++;
    const count = before.counts[i]!;
    if (now.indexes[at] === index ? now.counts[at]! < count : count !== 0) return true;
  }
  return false;
}
