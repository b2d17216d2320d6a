import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import {
  customSchema,
  type Histogram,
  histogramOfValue,
  isStaleHistogram,
  valueOfHistogram,
  resetHint,
  schemaMax,
  schemaMin,
  staleBits,
  staleHistogram,
  sumOf,
} from './histogram.ts';
import { bitsOfDouble, checkTypedValue, valueKind, TypedValueWriter } from './typed_value.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const none = { indexes: new Int32Array(0), counts: new Float64Array(0) };

const empty: Histogram = {
  isFloat: false,
  schema: 0,
  hint: resetHint.unknown,
  zeroThreshold: 0,
  count: 0,
  zeroCount: 0,
  sumBits: 0n,
  customBounds: new Float64Array(0),
  positive: none,
  negative: none,
};

function buckets(...pairs: readonly (readonly [index: number, count: number])[]) {
  return {
    indexes: Int32Array.from(pairs, ([index]) => index),
    counts: Float64Array.from(pairs, ([, count]) => count),
  };
}

test('a histogram is its fields that are not zero, and its buckets that are not empty', () => {
  const histogram: Histogram = {
    ...empty,
    schema: 3,
    hint: resetHint.gauge,
    zeroThreshold: 0.5,
    count: 10,
    zeroCount: 1,
    sumBits: bitsOfDouble(-2),
    positive: buckets([-1, 2], [0, 0], [1, 3]),
    negative: buckets([0, 4]),
  };
  const value = valueOfHistogram(histogram);
  assert.equal(
    hex(value),
    [
      '01 00',
      // Schema, hint, threshold, count, zero count, sum.
      '08 06  11 03  1a 000000000000e03f  21 0a  29 01  32 00000000000000c0',
      // Bucket 0 of the negative side is 17, -1 of the positive one 18, 1 of it 20.
      '8901 04  9101 02  a101 03',
    ]
      .join('')
      .replaceAll(' ', ''),
  );
  checkTypedValue(value);
  const read = histogramOfValue(value);
  assert.deepEqual(read, { ...histogram, positive: buckets([-1, 2], [1, 3]) });
  assert.deepEqual(histogramOfValue(valueOfHistogram(empty)), empty);
});

test('a stale marker has one value', () => {
  assert.ok(isStaleHistogram(valueOfHistogram({ ...empty, sumBits: staleBits })));
  const { sumBits } = histogramOfValue(staleHistogram);
  assert.equal(sumBits, staleBits);
  assert.ok(Number.isNaN(sumOf({ ...empty, sumBits })));
  const more = valueOfHistogram({ ...empty, sumBits: staleBits, count: 1 });
  assert.throws(() => histogramOfValue(more), /stale marker with more/);
});

test('zeros and NaNs of float histograms keep their bits', () => {
  const histogram: Histogram = {
    ...empty,
    isFloat: true,
    count: Number.NaN,
    zeroCount: -0,
    sumBits: bitsOfDouble(-0),
    positive: buckets([5, 0.25], [6, -0]),
  };
  const read = histogramOfValue(valueOfHistogram(histogram));
  assert.deepEqual(read, histogram);
  assert.ok(Object.is(read.zeroCount, -0) && Object.is(read.positive.counts[1], -0));
});

test('custom bounds', () => {
  const histogram: Histogram = {
    ...empty,
    schema: customSchema,
    count: 3,
    sumBits: bitsOfDouble(7),
    customBounds: Float64Array.of(0.1, 1, 10),
    positive: buckets([0, 1], [3, 2]),
  };
  assert.deepEqual(histogramOfValue(valueOfHistogram(histogram)), histogram);
  const refused = (more: Partial<Histogram>, reason: RegExp): void =>
    assert.throws(() => valueOfHistogram({ ...histogram, ...more }), {
      code: 'BAD_REQUEST',
      message: reason,
    });
  refused({ positive: buckets([4, 1]) }, /beyond its 3 custom bounds/);
  refused({ positive: buckets([-1, 1]) }, /beyond its 3 custom bounds/);
  refused({ negative: buckets([0, 1]) }, /negative buckets/);
  refused({ zeroCount: 1 }, /zero bucket/);
  refused({ customBounds: Float64Array.of(1, 1) }, /do not ascend: 1 after 1/);
  refused({ customBounds: Float64Array.of(Number.NaN) }, /custom bound 0 is NaN/);
  refused({ schema: 2 }, /custom bounds with schema 2/);
});

test('what is no histogram is refused', () => {
  const refused = (more: Partial<Histogram>, reason: RegExp): void =>
    assert.throws(() => valueOfHistogram({ ...empty, ...more }), {
      code: 'BAD_REQUEST',
      message: reason,
    });
  refused({ schema: schemaMax + 1 }, /schema is not one of -4 to 8 or -53: 9/);
  refused({ schema: schemaMin - 1 }, /schema is not/);
  refused({ count: 1.5 }, /count is no whole number below 2\^64: 1.5/);
  refused({ count: -1 }, /count is no whole/);
  refused({ zeroCount: 2 ** 64 }, /zero count is no whole/);
  refused({ positive: buckets([2, 1], [2, 1]) }, /do not ascend/);
  refused({ negative: buckets([2, -3]) }, /bucket 2 is no whole/);
  refused({ isFloat: true, negative: buckets([2, -3]) }, /bucket 2 is negative: -3/);
  const value = (): TypedValueWriter => new TypedValueWriter().begin(valueKind.histogram, 0);
  const malformed = (bytes: Uint8Array, reason: RegExp): void =>
    assert.throws(() => histogramOfValue(bytes), { code: 'BAD_REQUEST', message: reason });
  malformed(new TypedValueWriter().begin(valueKind.message, 1).finish(), /typed value of kind 2/);
  malformed(
    new TypedValueWriter().begin(valueKind.histogram, 2).finish(),
    /layout is not known: 2/,
  );
  malformed(value().int(1, 0n).finish(), /field 1 stands although it is zero/);
  malformed(value().uint(2, 2n).finish(), /hint is not one that is kept: 2/);
  malformed(value().uint(4, 0n).finish(), /field 4 stands although it is zero/);
  malformed(value().double(4, 1).finish(), /field 4 is of type 2, not 1/);
  malformed(value().bytes(7, new Uint8Array(7)).finish(), /custom bounds take 7 bytes/);
  malformed(value().uint(8, 1n).finish(), /field is not known: 8/);
  malformed(value().uint(16, 0n).finish(), /field 16 stands/);
});

test('every histogram has one value, and comes back from it', () => {
  const random = new SeededRandom(21);
  const side = (isFloat: boolean, isCustom: boolean) => {
    const pairs: [number, number][] = [];
    let index = isCustom ? -1 : random.below(60) - 30;
    for (let i = random.below(20); i > 0; i--) {
      index += 1 + random.below(3);
      const whole = random.below(random.pick([2, 100, 2 ** 31])) * random.pick([1, 1, 2 ** 21]);
      pairs.push([index, isFloat ? whole / 3 : whole]);
    }
    return buckets(...pairs);
  };
  for (let round = 0; round < 500; round++) {
    const isFloat = random.below(2) === 0;
    const isCustom = random.below(4) === 0;
    const histogram: Histogram = {
      isFloat,
      schema: isCustom ? customSchema : schemaMin + random.below(schemaMax - schemaMin + 1),
      hint: random.pick(Object.values(resetHint)),
      zeroThreshold: isCustom ? 0 : random.pick([0, 2 ** -128, 1]),
      count: random.below(1000),
      zeroCount: isCustom ? 0 : random.below(3),
      sumBits: bitsOfDouble(random.pick([0, 12.5, Number.NaN, Number.POSITIVE_INFINITY])),
      customBounds: isCustom
        ? Float64Array.from({ length: 80 }, (_, i) => i / 4)
        : new Float64Array(0),
      positive: side(isFloat, isCustom),
      negative: isCustom ? none : side(isFloat, false),
    };
    const value = valueOfHistogram(histogram);
    checkTypedValue(value);
    const read = histogramOfValue(value);
    const withoutEmpty = ({ indexes, counts }: Histogram['positive']) =>
      buckets(
        ...Array.from(indexes, (index, i) => [index, counts[i]!] as const).filter(
          ([, count]) => count !== 0,
        ),
      );
    assert.deepEqual(read, {
      ...histogram,
      positive: withoutEmpty(histogram.positive),
      negative: withoutEmpty(histogram.negative),
    });
    assert.equal(hex(valueOfHistogram(read)), hex(value));
  }
});
