/** The two histograms of a window as values that it has room for: they become coarser until it has. */
import { counterHint, FloatHistogram } from '../histograms/float_histogram.ts';
import {
  type Buckets,
  customSchema,
  type Histogram,
  histogramOfValue,
  resetHint,
  type ResetHint,
  schemaMin,
  valueOfHistogram,
} from '../typed/histogram.ts';
import { bitsOfDouble, typedBytesMax, typedFieldsMax } from '../typed/typed_value.ts';

/** Of the fields of a window, or of a histogram, those that are no buckets. */
const otherFieldsMax = 8;
/** Buckets of both. */
const bucketsMax = typedFieldsMax - 3 * otherFieldsMax;
/** A bucket has a number and a count. */
const bucketBytesMax = 20;
/** Custom bounds of both. */
const boundsMax = Math.floor((typedBytesMax - bucketBytesMax * typedFieldsMax) / 8);

/** The sum, of which less is asked, becomes coarser first, until the last one has so much of what there is. */
const partOfLast = 7 / 8;

export interface WindowHistograms {
  /** Typed values of kind 1. */
  readonly last: Uint8Array;
  readonly sum: Uint8Array | null;
}

/**
 * @param sum null where there is none
 * @param isOfFloats one of those that were added up is
 */
export function histogramsInWindow(
  lastValue: Uint8Array,
  sum: FloatHistogram | null,
  isOfFloats: boolean,
): WindowHistograms {
  const asked = histogramOfValue(lastValue);
  let last = FloatHistogram.ofValue(asked);
  let total = sum?.compact() ?? null;
  for (const [count, most] of [
    [bucketsOf, bucketsMax],
    [boundsOf, boundsMax],
  ] as const) {
    while (count(last) > most * partOfLast)
      last = coarser(last) ?? withFewer(last, most * partOfLast);
    while (total !== null && count(last) + count(total) > most) total = coarser(total);
  }
  const isSame =
    last.schema === asked.schema &&
    last.customBounds === asked.customBounds &&
    last.positive.indexes.length === asked.positive.indexes.length &&
    last.negative.indexes.length === asked.negative.indexes.length;
  return {
    last: isSame ? lastValue : valueOf(last, asked.isFloat, asked.hint),
    sum: total === null ? null : valueOf(total, isOfFloats, hintOfSum(total)),
  };
}

const bucketsOf = ({ positive, negative }: FloatHistogram): number =>
  positive.indexes.length + negative.indexes.length;
const boundsOf = ({ customBounds }: FloatHistogram): number => customBounds.length;

/** Pairs of buckets become one; null where there is no coarser schema. */
function coarser(histogram: FloatHistogram): FloatHistogram | null {
  const { schema, customBounds, positive } = histogram;
  if (schema !== customSchema) {
    return schema === schemaMin ? null : histogram.ofSchema(schema - 1).compact();
  }
  // With the last bound, so that what is beyond it stays apart.
  const isKept = (bound: number): boolean => (customBounds.length - 1 - bound) % 2 === 0;
  const merged = histogram.copy();
  merged.customBounds = customBounds.filter((_, bound) => isKept(bound));
  merged.positive = joined(positive, (index) => {
    // Of the first bound that is kept and not below that of the bucket.
    const bound = isKept(index) ? index : index + 1;
    return Math.floor(bound / 2);
  });
  return merged.compact();
}

/**
 * Of the coarsest schema no number has so many buckets, but a client may say that it has: those furthest from 1 are put into
 * the last that there is room for.
 */
function withFewer(histogram: FloatHistogram, bucketsMost: number): FloatHistogram {
  const fewer = histogram.copy();
  const most = Math.floor(bucketsMost / 2);
  const cut = (buckets: Buckets): Buckets => {
    const { indexes } = buckets;
    if (indexes.length <= most) return buckets;
    const outermost = indexes[most - 1]!;
    return joined(buckets, (index) => Math.min(index, outermost));
  };
  fewer.positive = cut(fewer.positive);
  fewer.negative = cut(fewer.negative);
  return fewer.compact();
}

/** @param placeOf ascends with the index */
function joined({ indexes, counts }: Buckets, placeOf: (index: number) => number): Buckets {
  const places: number[] = [];
  const sums: number[] = [];
  for (const [i, index] of indexes.entries()) {
    const place = placeOf(index);
    if (places.at(-1) === place) sums[sums.length - 1]! += counts[i]!;
    else {
      places.push(place);
      sums.push(counts[i]!);
    }
  }
  return { indexes: Int32Array.from(places), counts: Float64Array.from(sums) };
}

/** Sums are gauges where one may be less than the one before. */
const hintOfSum = ({ hint }: FloatHistogram): ResetHint =>
  hint === counterHint.gauge ? resetHint.gauge : resetHint.unknown;

/** Whole where all of its counts are. */
function valueOf(histogram: FloatHistogram, isOfFloats: boolean, hint: ResetHint): Uint8Array {
  const { schema, zeroThreshold, zeroCount, count, customBounds, positive, negative } = histogram;
  const isWhole = (value: number): boolean => Number.isSafeInteger(value) && !Object.is(value, -0);
  const areWhole =
    !isOfFloats &&
    isWhole(count) &&
    isWhole(zeroCount) &&
    positive.counts.every(isWhole) &&
    negative.counts.every(isWhole);
  const value: Histogram = {
    isFloat: !areWhole,
    schema,
    hint,
    zeroThreshold,
    count,
    zeroCount,
    sumBits: bitsOfDouble(histogram.sum),
    customBounds,
    positive,
    negative,
  };
  return valueOfHistogram(value);
}
