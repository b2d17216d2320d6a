/**
 * Means of histograms: the sum divided, as long as that is within numbers, from then on a running mean. As Prometheus 3.15
 * does it for `avg` and `avg_over_time`.
 */
import { HistogramSum } from './histogram_sum.ts';
import type { FloatHistogram } from './float_histogram.ts';

/** Sums of what is together below this are within numbers, whatever they were added up from. */
const surelyWithin = 1e300;

export class HistogramMean {
  #sum: HistogramSum;
  #count = 1;
  /** No number of the sum is larger. */
  #magnitude: number;
  #isRunning = false;

  constructor(first: FloatHistogram) {
    this.#sum = new HistogramSum(first);
    this.#magnitude = magnitudeOf(first);
  }

  /** Of both sides. */
  get bucketCount(): number {
    return this.#sum.bucketCount;
  }

  isLike(histogram: FloatHistogram): boolean {
    return this.#sum.isLike(histogram);
  }

  /**
   * Adds one that is like the others.
   * @returns bits of `reconciled`
   */
  add(histogram: FloatHistogram): number {
    this.#count += 1;
    let outcome = 0;
    if (!this.#isRunning) {
      this.#magnitude += magnitudeOf(histogram);
      if (this.#magnitude < surelyWithin) return this.#sum.add(histogram);
      const before = this.#sum.copy();
      outcome = this.#sum.add(histogram);
      if (!this.#sum.overflows) return outcome;
      this.#isRunning = true;
      this.#sum = before.divide(this.#count - 1);
    }
    this.#sum.scale((this.#count - 1) / this.#count);
    return outcome | this.#sum.add(histogram.copy().divide(this.#count));
  }

  result(): FloatHistogram {
    return (this.#isRunning ? this.#sum : this.#sum.copy().divide(this.#count)).result();
  }
}

/** All that it counts together; NaN or Infinity when one is. */
function magnitudeOf(histogram: FloatHistogram): number {
  const { zeroCount, count, sum } = histogram;
  const all = Math.abs(zeroCount) + Math.abs(count) + Math.abs(sum);
  const { counts } = histogram.looseSide('positive');
  return all + absoluteSum(counts) + absoluteSum(histogram.looseSide('negative').counts);
}

function absoluteSum(counts: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < counts.length; i++) sum += Math.abs(counts[i]!);
  return sum;
}
