/** Data points of OTLP, one at a time: what they say becomes rows of their series. */
import { eachField, Refused } from '../labels/attributes.ts';
import {
  type Buckets,
  type HistogramFacts,
  HistogramMessage,
  wordsIn,
} from './histogram_message.ts';
import * as layout from '../wire/layout.ts';
import type { PartRows } from './part_rows.ts';
import { plainDecimal } from '../labels/plain_decimal.ts';
import {
  plainSeries,
  type PointContext,
  type PointSeries,
  type SeriesName,
} from './point_series.ts';
import { millisAt, startMillisAt } from '../wire/time.ts';
import type { OtlpSetting } from './types.ts';
import { Malformed, malformed, Places, type Wire } from '../wire/wire.ts';

/** Of a classic histogram, and quantiles of a summary: each is a series. */
export const bucketsMax = 1_024;

const noBuckets: Buckets = { at: -1, end: -1, offset: 0 };

/** Series of a point that has a sum, by the place of their slots. */
const countIndex = 0;
const sumIndex = 1;

export class Points {
  readonly #wire: Wire;
  readonly #series: PointSeries;
  readonly #rows: PartRows;
  readonly #convertsHistograms: boolean;
  readonly #places = new Places();
  readonly #inner = new Places();
  readonly #message = new HistogramMessage();
  #millis = 0;
  #startMillis = 0;
  #isStale = false;

  constructor(
    wire: Wire,
    series: PointSeries,
    rows: PartRows,
    { convertsHistograms }: Pick<OtlpSetting, 'convertsHistograms'>,
  ) {
    this.#wire = wire;
    this.#series = series;
    this.#rows = rows;
    this.#convertsHistograms = convertsHistograms;
  }

  /**
   * Takes the point in [at, end).
   * @returns its time in milliseconds; 0 when it has none, and is refused
   */
  take(kind: number, context: PointContext, at: number, end: number): number {
    const problem = this.#problemOf(kind, context, at, end);
    if (problem !== null) this.#rows.refuse(context.family.name, problem);
    this.#rows.endPoint();
    return this.#millis;
  }

  #problemOf(kind: number, context: PointContext, at: number, end: number): string | null {
    try {
      return this.#read(kind, context, at, end);
    } catch (error) {
      // Nothing of a point is among the rows before all of it was read.
      if (error instanceof Malformed) return 'a point is malformed';
      throw error;
    }
  }

  #read(kind: number, context: PointContext, at: number, end: number): string | null {
    switch (kind) {
      case layout.kind.gauge:
        return this.#number(context, at, end, false);
      case layout.kind.sum:
        return this.#number(context, at, end, true);
      case layout.kind.summary:
        return this.#summary(context, at, end);
      case layout.kind.exponential:
        return this.#exponential(context, at, end);
      default:
        return this.#histogram(context, at, end);
    }
  }

  /** What all have. @returns false when there is no time */
  #facts(at: number, end: number, types: Uint8Array, flags: number): boolean {
    const places = this.#places;
    this.#millis = 0;
    places.read(this.#wire, at, end, types);
    const { view } = this.#wire;
    const { time, startTime } = layout.point;
    this.#millis = places.has(time) ? millisAt(view, places.value[time]!) : 0;
    this.#startMillis = places.has(startTime) ? startMillisAt(view, places.value[startTime]!) : 0;
    this.#isStale = false;
    if (places.has(flags)) {
      const bits = this.#wire.varint(places.value[flags]!, end);
      this.#isStale = bits % 2 === layout.noRecordedValue;
    }
    return this.#millis !== 0;
  }

  #number(context: PointContext, at: number, end: number, isSum: boolean): string | null {
    const { attributes, double, exemplars, flags, int } = layout.number;
    if (!this.#facts(at, end, layout.numberTypes, flags)) return noTime;
    const places = this.#places;
    const isInt = places.has(int);
    if (!this.#isStale && !isInt && !places.has(double)) return 'a point has no value';
    const entry = this.#series.of(context, places, attributes, context.entry, 0, plainNames);
    if (entry === 0) return this.#series.problem;
    const slot = this.#series.slot(entry, 0);
    // A gauge has no begin.
    const startMillis = isSum ? this.#startMillis : 0;
    const { view } = this.#wire;
    if (this.#isStale) this.#rows.addStale(slot, this.#millis, startMillis);
    else if (isInt) {
      this.#rows.add(slot, this.#millis, intOf(view, places.value[int]!), startMillis);
    } else {
      const valueAt = places.value[double]!;
      const high = view.getUint32(valueAt + 4, true);
      this.#rows.addBits(slot, this.#millis, view.getUint32(valueAt, true), high, startMillis);
    }
    if (isSum && places.has(exemplars)) this.#exemplars(at, end, exemplars, () => slot);
    return null;
  }

  #histogram(context: PointContext, at: number, end: number): string | null {
    const { bounds, bucketCounts, flags } = layout.histogram;
    if (!this.#facts(at, end, layout.histogramTypes, flags)) return noTime;
    const boundsAt = this.#words(bounds);
    const countsAt = this.#words(bucketCounts);
    const boundCount = boundsAt.at < 0 ? 0 : wordsIn(boundsAt.at, boundsAt.end);
    const bucketCount = countsAt.at < 0 ? 0 : wordsIn(countsAt.at, countsAt.end);
    if (
      bucketCount !== boundCount + 1 &&
      !(bucketCount === 0 && (this.#isStale || boundCount === 0))
    ) {
      return `bucket_counts: not one more than explicit_bounds, ${boundCount}: ${bucketCount}`;
    }
    if (boundCount >= bucketsMax)
      return `explicit_bounds: more than ${bucketsMax - 1}: ${boundCount}`;
    return this.#convertsHistograms
      ? this.#customHistogram(context, at, end, countsAt, boundsAt)
      : this.#classic(context, at, end, countsAt, boundsAt);
  }

  #classic(
    context: PointContext,
    at: number,
    end: number,
    counts: Buckets,
    bounds: Buckets,
  ): string | null {
    const { attributes, count, exemplars, sum } = layout.histogram;
    const places = this.#places;
    const hasSum = places.has(sum);
    const hasBounds = bounds.at >= 0;
    const parent = this.#series.part(
      context.entry,
      hasSum ? 1 : 2,
      hasBounds ? bounds.at : 0,
      hasBounds ? bounds.end : 0,
    );
    const names = (): SeriesName[] => this.#bucketNames(bounds, hasSum);
    const entry = this.#series.of(context, places, attributes, parent, 0, names);
    if (entry === 0) return this.#series.problem;
    const { view } = this.#wire;
    const total = places.has(count) ? this.#word(places.value[count]!) : 0;
    this.#add(entry, countIndex, total);
    let index = 1;
    if (hasSum) {
      const sumAt = places.value[sum]!;
      this.#addWords(entry, index++, view.getUint32(sumAt, true), view.getUint32(sumAt + 4, true));
    }
    const firstBucket = index;
    const bucketCount = this.#series.slotCount(entry) - firstBucket;
    let cumulative = 0;
    for (let bucket = 0; bucket < bucketCount - 1; bucket++) {
      if (counts.at >= 0) cumulative += this.#word(counts.at + 8 * bucket);
      this.#add(entry, index++, cumulative);
    }
    this.#add(entry, index, total);
    if (places.has(exemplars)) {
      this.#exemplars(at, end, exemplars, (value) => {
        let bucket = 0;
        while (bucket < bucketCount - 1 && value > view.getFloat64(bounds.at + 8 * bucket, true))
          bucket += 1;
        return this.#series.slot(entry, firstBucket + bucket);
      });
    }
    return null;
  }

  /** @throws {Refused} when they do not ascend */
  #bucketNames(bounds: Buckets, hasSum: boolean): SeriesName[] {
    const names = [series('_count')];
    if (hasSum) names.push(series('_sum'));
    let before = -Infinity;
    for (let at = bounds.at; at >= 0 && at < bounds.end; at += 8) {
      const bound = this.#wire.view.getFloat64(at, true);
      if (!(bound > before && bound < Infinity)) {
        throw new Refused(
          `explicit_bounds: not finite numbers that ascend: ${bound} after ${before}`,
        );
      }
      before = bound;
      names.push(series('_bucket', 'le', plainDecimal(bound)));
    }
    names.push(series('_bucket', 'le', '+Inf'));
    return names;
  }

  #customHistogram(
    context: PointContext,
    at: number,
    end: number,
    counts: Buckets,
    bounds: Buckets,
  ): string | null {
    const { attributes, count, exemplars, sum } = layout.histogram;
    const entry = this.#series.of(context, this.#places, attributes, context.entry, 0, plainNames);
    if (entry === 0) return this.#series.problem;
    const facts = this.#histogramFacts(context, count, sum);
    return this.#addHistogram(entry, at, end, exemplars, () =>
      this.#message.custom(this.#wire, facts, counts, bounds),
    );
  }

  #exponential(context: PointContext, at: number, end: number): string | null {
    const {
      attributes,
      count,
      exemplars,
      flags,
      negative,
      positive,
      scale,
      sum,
      zeroCount,
      zeroThreshold,
    } = layout.exponential;
    if (!this.#facts(at, end, layout.exponentialTypes, flags)) return noTime;
    const places = this.#places;
    const entry = this.#series.of(context, places, attributes, context.entry, 0, plainNames);
    if (entry === 0) return this.#series.problem;
    const wire = this.#wire;
    const signed = places.has(scale) ? signedOf(wire.varint(places.value[scale]!, end)) : 0;
    const threshold = places.has(zeroThreshold)
      ? wire.view.getFloat64(places.value[zeroThreshold]!, true)
      : 0;
    const facts = this.#histogramFacts(context, count, sum);
    const above = this.#buckets(positive);
    const below = this.#buckets(negative);
    const zerosAt = places.value[zeroCount]!;
    return this.#addHistogram(entry, at, end, exemplars, () =>
      this.#message.exponential(wire, facts, signed, zerosAt, threshold, above, below),
    );
  }

  #histogramFacts({ family }: PointContext, count: number, sum: number): HistogramFacts {
    return {
      timestampMillis: this.#millis,
      startMillis: this.#startMillis,
      isDelta: family.isDelta,
      isStale: this.#isStale,
      sumAt: this.#places.value[sum]!,
      countAt: this.#places.value[count]!,
    };
  }

  #addHistogram(
    entry: number,
    at: number,
    end: number,
    exemplars: number,
    message: () => Uint8Array,
  ): string | null {
    const slot = this.#series.slot(entry, 0);
    try {
      const problem = this.#rows.addHistogram(slot, message());
      if (problem !== null) return problem;
    } catch (error) {
      if (error instanceof Refused) return error.message;
      throw error;
    }
    if (this.#places.has(exemplars)) this.#exemplars(at, end, exemplars, () => slot);
    return null;
  }

  #summary(context: PointContext, at: number, end: number): string | null {
    const { attributes, count, flags, quantiles, sum } = layout.summary;
    if (!this.#facts(at, end, layout.summaryTypes, flags)) return noTime;
    const places = this.#places;
    const levels: bigint[] = [];
    const values: number[] = [];
    const { view } = this.#wire;
    if (places.count[quantiles]! > bucketsMax) {
      return `quantile_values: more than ${bucketsMax}: ${places.count[quantiles]}`;
    }
    if (places.has(quantiles)) {
      this.#each(at, end, quantiles, (from, past) => {
        const inner = this.#inner;
        inner.read(this.#wire, from, past, layout.quantileTypes);
        const { quantile, value } = layout.quantile;
        levels.push(inner.has(quantile) ? view.getBigUint64(inner.value[quantile]!, true) : 0n);
        values.push(inner.value[value]!);
      });
    }
    const parent = this.#series.partOfWords(context.entry, 3, levels);
    const names = (): SeriesName[] => summaryNames(levels);
    const entry = this.#series.of(context, places, attributes, parent, 0, names);
    if (entry === 0) return this.#series.problem;
    const wordsOf = (valueAt: number): readonly [number, number] =>
      valueAt < 0 ? [0, 0] : [view.getUint32(valueAt, true), view.getUint32(valueAt + 4, true)];
    this.#add(entry, countIndex, places.has(count) ? this.#word(places.value[count]!) : 0);
    this.#addWords(entry, sumIndex, ...wordsOf(places.value[sum]!));
    for (const [index, valueAt] of values.entries()) {
      this.#addWords(entry, sumIndex + 1 + index, ...wordsOf(valueAt));
    }
    return null;
  }

  /** A sample of one of the series of a point, or what ends it. */
  #add(entry: number, index: number, value: number): void {
    const slot = this.#series.slot(entry, index);
    if (this.#isStale) this.#rows.addStale(slot, this.#millis, this.#startMillis);
    else this.#rows.add(slot, this.#millis, value, this.#startMillis);
  }

  #addWords(entry: number, index: number, low: number, high: number): void {
    const slot = this.#series.slot(entry, index);
    if (this.#isStale) this.#rows.addStale(slot, this.#millis, this.#startMillis);
    else this.#rows.addBits(slot, this.#millis, low, high, this.#startMillis);
  }

  /** A count. */
  #word(at: number): number {
    const { view } = this.#wire;
    return view.getUint32(at + 4, true) * 2 ** 32 + view.getUint32(at, true);
  }

  /** A list of numbers of eight bytes, which stands in one field. */
  #words(number: number): Buckets {
    const places = this.#places;
    if (!places.has(number) || places.value[number] === places.end[number]) return noBuckets;
    if (places.count[number]! > 1) throw malformed();
    return { at: places.value[number]!, end: places.end[number]!, offset: 0 };
  }

  #buckets(number: number): Buckets {
    const places = this.#places;
    if (!places.has(number)) return noBuckets;
    const inner = this.#inner;
    inner.read(this.#wire, places.value[number]!, places.end[number]!, layout.bucketsTypes);
    const { counts, offset } = layout.buckets;
    if (places.count[number]! > 1 || inner.count[counts]! > 1) throw malformed();
    if (!inner.has(counts)) return noBuckets;
    const end = inner.end[counts]!;
    const first = inner.has(offset)
      ? signedOf(this.#wire.varint(inner.value[offset]!, places.end[number]!))
      : 0;
    return { at: inner.value[counts]!, end, offset: first };
  }

  #exemplars(at: number, end: number, number: number, slotOf: (value: number) => number): void {
    const { decoder, exemplars } = this.#rows;
    this.#each(at, end, number, (from, past) =>
      exemplars.take(
        this.#wire,
        from,
        past,
        this.#millis,
        slotOf,
        (slot) => decoder.generation[slot]!,
      ),
    );
  }

  #each(at: number, end: number, number: number, take: (from: number, past: number) => void): void {
    eachField(this.#wire, at, end, (field, _type, from, past) => {
      if (field === number) take(from, past);
    });
  }
}

/** Rounded once. */
function intOf(view: DataView, at: number): number {
  return view.getInt32(at + 4, true) * 2 ** 32 + view.getUint32(at, true);
}

const noTime = 'time_unix_nano: not set';

const plainNames = (): readonly SeriesName[] => plainSeries;

function series(suffix: string, label = '', value = ''): SeriesName {
  return { suffix, label, value };
}

/** @throws {Refused} when a level stands twice */
function summaryNames(levels: readonly bigint[]): SeriesName[] {
  const texts = [...new Float64Array(BigUint64Array.from(levels).buffer)].map(plainDecimal);
  if (new Set(texts).size < texts.length)
    throw new Refused('quantile_values: a quantile stands twice');
  return [series('_count'), series('_sum'), ...texts.map((text) => series('', 'quantile', text))];
}

/** A sint32. */
function signedOf(value: number): number {
  const low = value >>> 0;
  return (low >>> 1) ^ -(low & 1);
}
