/** What has to hold of the samples of a histogram: those of one label set and time, which follow each other. */
import type { Sample } from './sample.ts';

export class HistogramPoints {
  #point: Point | null = null;
  #group = '';
  #time: number | null = null;

  /**
   * @param group labels without that of the bucket
   * @param bound upper bound of a bucket, null for another sample
   * @returns what is wrong, or null
   */
  add(sample: Sample, suffix: string, group: string, bound: number | null): string | null {
    if (this.#point === null || group !== this.#group || sample.time !== this.#time) {
      const problem = this.end();
      if (problem !== null) return problem;
      this.#point = new Point();
      this.#group = group;
      this.#time = sample.time;
    }
    return this.#point.add(suffix, sample.value, bound);
  }

  /** The same of the last ones. */
  end(): string | null {
    const problem = this.#point === null ? null : this.#point.problem();
    this.#point = null;
    return problem;
  }
}

class Point {
  #bound: number | null = null;
  #inBuckets = 0;
  #hasNegativeBound = false;
  #count: number | null = null;
  #sum: number | null = null;
  /** Of a gauge histogram, which may be negative. */
  #isGaugeSum = false;

  add(suffix: string, value: number, bound: number | null): string | null {
    if (bound !== null) {
      if (this.#bound !== null && bound <= this.#bound) return 'buckets are not in order';
      if (value < this.#inBuckets) return 'a bucket has less than the one before';
      this.#bound = bound;
      this.#inBuckets = value;
      if (bound < 0) this.#hasNegativeBound = true;
    } else if (suffix === '_count' || suffix === '_gcount') this.#count = value;
    else if (suffix === '_sum' || suffix === '_gsum') {
      this.#sum = value;
      this.#isGaugeSum = suffix === '_gsum';
    }
    return null;
  }

  problem(): string | null {
    if (this.#bound !== Infinity) return 'no bucket has le="+Inf"';
    if (this.#count !== null && this.#count !== this.#inBuckets) {
      return 'the count is not that of the bucket le="+Inf"';
    }
    if ((this.#sum === null) !== (this.#count === null)) {
      return 'of sum and count one is there alone';
    }
    if (this.#sum === null) return null;
    if (this.#hasNegativeBound && !this.#isGaugeSum) {
      return 'there is a sum, and a bucket has a negative bound';
    }
    if (!this.#hasNegativeBound && this.#isGaugeSum && this.#sum < 0) {
      return 'the sum is negative, and no bucket has a negative bound';
    }
    return null;
  }
}
