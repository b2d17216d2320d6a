/** Histograms for tests: random ones by seed, and the way in which answers of Prometheus are written down. */
import type { SeededNumbers } from '../codec/samples_testing.ts';
import { type Buckets, customSchema } from '../typed/histogram.ts';
import { bitsOfDouble, doubleOf } from '../typed/typed_value.ts';
import { exponentialBound } from './bounds.ts';
import { type CounterHint, FloatHistogram } from './float_histogram.ts';

interface WrittenSide {
  readonly i: readonly number[];
  readonly c: readonly string[];
}

/** Numbers as hexadecimal bits, or `nan`. */
export interface WrittenHistogram {
  readonly hint: number;
  readonly schema: number;
  /** Zero threshold and count. */
  readonly zt: string;
  readonly zc: string;
  readonly count: string;
  readonly sum: string;
  readonly bounds: readonly string[];
  readonly p: WrittenSide;
  readonly n: WrittenSide;
}

export function numberOf(written: string): number {
  return written === 'nan' ? Number.NaN : doubleOf(BigInt(`0x${written}`));
}

export function written(value: number): string {
  return Number.isNaN(value) ? 'nan' : bitsOfDouble(value).toString(16);
}

export function readHistogram(from: WrittenHistogram): FloatHistogram {
  const side = ({ i, c }: WrittenSide): Buckets => ({
    indexes: Int32Array.from(i),
    counts: Float64Array.from(c, numberOf),
  });
  return new FloatHistogram({
    hint: from.hint as CounterHint,
    schema: from.schema,
    zeroThreshold: numberOf(from.zt),
    zeroCount: numberOf(from.zc),
    count: numberOf(from.count),
    sum: numberOf(from.sum),
    customBounds: Float64Array.from(from.bounds, numberOf),
    positive: side(from.p),
    negative: side(from.n),
  });
}

/** Without empty buckets. */
export function writeHistogram(histogram: FloatHistogram): WrittenHistogram {
  const { hint, schema, zeroThreshold, zeroCount, count, sum, customBounds, positive, negative } =
    histogram.copy().compact();
  const side = ({ indexes, counts }: Buckets): WrittenSide => ({
    i: [...indexes],
    c: Array.from(counts, written),
  });
  return {
    hint,
    schema,
    zt: written(zeroThreshold),
    zc: written(zeroCount),
    count: written(count),
    sum: written(sum),
    bounds: Array.from(customBounds, written),
    p: side(positive),
    n: side(negative),
  };
}

/** Of whole counts, whose sums are exact. */
export function randomHistogram(numbers: SeededNumbers, isCustom: boolean): FloatHistogram {
  const customBounds = isCustom
    ? Float64Array.of(0.5, 1, 2, 5, 10, 100).filter(() => numbers.below(4) > 0)
    : new Float64Array(0);
  const schema = isCustom ? customSchema : numbers.below(10) - 3;
  const side = (): Buckets => {
    const indexes: number[] = [];
    let index = isCustom ? 0 : numbers.below(40) - 30;
    for (let i = numbers.below(15); i > 0; i--) {
      if (isCustom && index > customBounds.length) break;
      indexes.push(index);
      index += 1 + (numbers.below(3) === 0 ? numbers.below(30) : 0);
    }
    return {
      indexes: Int32Array.from(indexes),
      counts: Float64Array.from(indexes, () => numbers.below(100)),
    };
  };
  const positive = side();
  const negative = side();
  const none: Buckets = { indexes: new Int32Array(0), counts: new Float64Array(0) };
  // No bucket reaches into the zero bucket.
  const indexes = [positive, negative].map((buckets) => buckets.indexes[0] ?? 9);
  const lowest = isCustom ? 0 : exponentialBound(Math.min(...indexes) - 1, schema);
  const wished = [0, 2 ** -128, 0.001, 1, 1.3][numbers.below(5)]!;
  const zeroCount = isCustom ? 0 : numbers.below(50);
  const histogram = new FloatHistogram({
    schema,
    zeroThreshold: isCustom ? 0 : Math.min(lowest, wished),
    zeroCount,
    count: 0,
    sum: numbers.below(10_000),
    customBounds,
    positive,
    negative: isCustom ? none : negative,
  });
  histogram.count = countedBy(histogram);
  return histogram;
}

/** What all of its buckets have. */
export function countedBy({ zeroCount, positive, negative }: FloatHistogram): number {
  const total = (counts: Float64Array): number => counts.reduce((sum, count) => sum + count, 0);
  return zeroCount + total(positive.counts) + total(negative.counts);
}
