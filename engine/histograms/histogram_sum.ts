/**
 * Sums of many histograms that lose nothing by rounding (Neumaier's variant of Kahan's summation, bucket by bucket): for
 * `sum`, `avg` and their like over time. The order of steps is that of Prometheus 3.15 (`KahanAdd`).
 */
import { assert } from '#lib/assert.ts';
import { commonBounds, sameBounds } from './bounds.ts';
import {
  addExactly,
  compacted,
  coarsened,
  exactSumOf,
  layoutOfBounds,
  placesAmong,
  type SummedBuckets,
} from './buckets.ts';
import {
  beyondZero,
  FloatHistogram,
  reconciled,
  widerZero,
  withoutZero,
  type ZeroAndSides,
} from './float_histogram.ts';

const place = { zero: 0, count: 1, sum: 2 } as const;

export interface SummedNumber {
  readonly value: number;
  /** By rounding. */
  readonly lost: number;
}

export class HistogramSum {
  /** Its hint, schema, zero threshold and bounds; what it counts is in the arrays below. */
  readonly #form: FloatHistogram;
  #counts: Float64Array;
  #lost: Float64Array;
  #positive: SummedBuckets;
  #negative: SummedBuckets;

  constructor(first: FloatHistogram) {
    this.#form = first.copy();
    this.#counts = Float64Array.of(first.zeroCount, first.count, first.sum);
    this.#lost = new Float64Array(3);
    this.#positive = summed(first.looseSide('positive'));
    this.#negative = summed(first.looseSide('negative'));
  }

  /**
   * One that goes on from what has been added up.
   * @param form of what was added
   */
  static of(
    form: FloatHistogram,
    count: SummedNumber,
    sum: SummedNumber,
    zeroCount: SummedNumber,
    positive: SummedBuckets,
    negative: SummedBuckets,
  ): HistogramSum {
    const whole = new HistogramSum(form);
    whole.#counts = Float64Array.of(zeroCount.value, count.value, sum.value);
    whole.#lost = Float64Array.of(zeroCount.lost, count.lost, sum.lost);
    whole.#positive = positive;
    whole.#negative = negative;
    return whole;
  }

  copy(): HistogramSum {
    const copy = new HistogramSum(this.#form);
    copy.#counts = this.#counts.slice();
    copy.#lost = this.#lost.slice();
    copy.#positive = copied(this.#positive);
    copy.#negative = copied(this.#negative);
    return copy;
  }

  isLike(other: FloatHistogram): boolean {
    return this.#form.isLike(other);
  }

  /**
   * Adds one that is like it.
   * @returns bits of `reconciled`
   */
  add(other: FloatHistogram): number {
    const form = this.#form;
    let outcome = form.combineHint(other);
    if (!form.isCustom) {
      const [others, lost] = this.#reconcileZero(other);
      addExactly(this.#counts, this.#lost, place.zero, others);
      addExactly(this.#counts, this.#lost, place.zero, lost);
    }
    addExactly(this.#counts, this.#lost, place.count, other.count);
    addExactly(this.#counts, this.#lost, place.sum, other.sum);
    if (!form.isCustom) this.#addExponential(other);
    else if (sameBounds(form.customBounds, other.customBounds)) {
      this.#positive = exactSumOf(this.#positive, other.looseSide('positive'));
    } else {
      this.#addAmongCommon(other);
      outcome |= reconciled.bounds;
    }
    return outcome;
  }

  #addExponential(other: FloatHistogram): void {
    const form = this.#form;
    const schema = Math.min(form.schema, other.schema);
    const added = (own: SummedBuckets, side: 'positive' | 'negative'): SummedBuckets => {
      const mine = coarsened(own, form.schema, schema);
      const isSameZero = other.zeroThreshold === form.zeroThreshold;
      const theirs = isSameZero
        ? other.looseSide(side)
        : beyondZero(other, side, form.zeroThreshold);
      if (other.schema === schema) return exactSumOf(mine, theirs);
      return exactSumOf(mine, coarsened(summed(theirs), other.schema, schema));
    };
    this.#positive = added(this.#positive, 'positive');
    this.#negative = added(this.#negative, 'negative');
    form.schema = schema;
  }

  #addAmongCommon(other: FloatHistogram): void {
    const form = this.#form;
    const bounds = commonBounds(form.customBounds, other.customBounds);
    const counts = new Float64Array(bounds.length + 1);
    const lost = new Float64Array(bounds.length + 1);
    const own = this.#positive;
    for (const [i, at] of placesAmong(own.indexes, form.customBounds, bounds).entries()) {
      addExactly(counts, lost, at, own.counts[i]!);
      addExactly(counts, lost, at, own.lost[i]!);
    }
    const { indexes } = other.positive;
    for (const [i, at] of placesAmong(indexes, other.customBounds, bounds).entries()) {
      addExactly(counts, lost, at, other.positive.counts[i]!);
    }
    this.#positive = compacted({ indexes: layoutOfBounds(bounds), counts, lost });
    form.customBounds = bounds;
  }

  /** As in `FloatHistogram`. @returns the zero count that the other would have, and what that has lost */
  #reconcileZero(other: FloatHistogram): [count: number, lost: number] {
    const form = this.#form;
    let { zeroCount: others, zeroThreshold: threshold } = other;
    let lost = 0;
    assert(threshold >= 0 && form.zeroThreshold >= 0, 'zero thresholds can be compared');
    while (threshold !== form.zeroThreshold) {
      if (threshold < form.zeroThreshold) {
        const wider = widerZero(other, form.zeroThreshold, 0);
        [others, lost, threshold] = [wider.sums[0]!, wider.lost[0]!, wider.threshold];
      }
      if (form.zeroThreshold < threshold) this.#widenZero(threshold);
    }
    return [others, lost];
  }

  #widenZero(wished: number): void {
    const form = this.#form;
    const { schema, zeroThreshold } = form;
    const own: ZeroAndSides = {
      schema,
      zeroThreshold,
      zeroCount: this.#counts[place.zero]!,
      positive: this.#positive,
      negative: this.#negative,
    };
    const { sums, lost, threshold } = widerZero(own, wished, this.#lost[place.zero]!);
    this.#counts[place.zero] = sums[0]!;
    this.#lost[place.zero] = lost[0]!;
    form.zeroThreshold = threshold;
    this.#positive = withoutZero(this.#positive, schema, threshold);
    this.#negative = withoutZero(this.#negative, schema, threshold);
  }

  /** Changes it. */
  scale(factor: number): this {
    return this.#each((value) => value * factor);
  }

  /** Changes it. @param divisor not 0 */
  divide(divisor: number): this {
    assert(divisor !== 0, 'sums are divided by how many they are');
    return this.#each((value) => value / divisor);
  }

  #each(change: (value: number) => number): this {
    const changed = ({ indexes, counts, lost }: SummedBuckets): SummedBuckets => ({
      indexes,
      counts: counts.map(change),
      lost: lost.map(change),
    });
    this.#counts = this.#counts.map(change);
    this.#lost = this.#lost.map(change);
    this.#positive = changed(this.#positive);
    this.#negative = changed(this.#negative);
    return this;
  }

  /** Of both sides. */
  get bucketCount(): number {
    return this.#positive.counts.length + this.#negative.counts.length;
  }

  /** Without what was lost: whether that is beyond all numbers tells `overflows`. */
  get overflows(): boolean {
    return this.#histogram((buckets) => buckets, this.#counts).overflows;
  }

  /** The sum, with empty buckets. */
  result(): FloatHistogram {
    const counts = this.#counts.map((count, i) => count + this.#lost[i]!);
    return this.#histogram(
      ({ indexes, counts: each, lost }) => ({
        indexes,
        counts: each.map((count, i) => count + lost[i]!),
      }),
      counts,
    );
  }

  #histogram(
    sideOf: (buckets: SummedBuckets) => FloatHistogram['positive'],
    counts: Float64Array,
  ): FloatHistogram {
    const histogram = this.#form.copy();
    [histogram.zeroCount, histogram.count, histogram.sum] = counts as unknown as [
      number,
      number,
      number,
    ];
    histogram.positive = sideOf(this.#positive);
    histogram.negative = sideOf(this.#negative);
    return histogram;
  }
}

function summed({ indexes, counts }: FloatHistogram['positive']): SummedBuckets {
  return { indexes, counts: counts.slice(), lost: new Float64Array(counts.length) };
}

function copied({ indexes, counts, lost }: SummedBuckets): SummedBuckets {
  return { indexes, counts: counts.slice(), lost: lost.slice() };
}
