/** Arithmetic of native histograms: answers of Prometheus to the last bit, and what holds for any histograms. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { customSchema } from '../typed/histogram.ts';
import { bench } from './histograms_bench.ts';
import { coarserIndex, exponentialBound, upperBound } from './bounds.ts';
import { fractionBetween, quantileOf, varianceOf } from './estimates.ts';
import { counterHint, FloatHistogram, reconciled } from './float_histogram.ts';
import { HistogramSum } from './histogram_sum.ts';
import {
  countedBy,
  numberOf,
  randomHistogram,
  readHistogram,
  writeHistogram,
  written,
  type WrittenHistogram,
} from './histograms_testing.ts';
import { textOf } from './text.ts';
import { trim } from './trim.ts';

interface Case {
  readonly op: string;
  readonly histograms: readonly WrittenHistogram[];
  readonly numbers: readonly string[];
  readonly answer: unknown;
}

/** Random histograms, overlapping zero buckets, empty buckets and NaN among them, as Prometheus 3.15 computes with them. */
const fixture = join(import.meta.dirname, '../../test/fixtures/histograms_prometheus_3.15.jsonl');
const cases = readFileSync(fixture, 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Case);

function answerOf({ op, histograms, numbers }: Case): unknown {
  const [first, ...others] = histograms.map(readHistogram) as [FloatHistogram, ...FloatHistogram[]];
  const [x, y] = numbers.map(numberOf) as [number, number];
  const other = others[0]!;
  const noted = ({ value, note }: { value: number; note: string }) => [
    written(value),
    note === 'none' ? 0 : 1,
  ];
  switch (op) {
    case 'add':
    case 'sub': {
      if (!first.isLike(other)) return 'incompatible';
      const outcome = op === 'add' ? first.add(other) : first.subtract(other);
      const has = (bit: number): boolean => (outcome & bit) !== 0;
      return [writeHistogram(first), has(reconciled.hints), has(reconciled.bounds)];
    }
    case 'sum': {
      const sum = new HistogramSum(first);
      for (const each of others) sum.add(each);
      return writeHistogram(sum.result());
    }
    case 'reset':
      return first.isResetAfter(other);
    case 'scale':
      return writeHistogram(first.scale(x));
    case 'divide':
      return writeHistogram(first.divide(x));
    case 'below':
    case 'above':
      return writeHistogram(trim(first, x, op));
    case 'quantile':
      return noted(quantileOf(x, first));
    case 'fraction':
      return noted(fractionBetween(x, y, first));
    default:
      return textOf(first);
  }
}

for (const op of new Set(cases.map((each) => each.op))) {
  test(`${op}: the answers of Prometheus, to the last bit`, () => {
    for (const each of cases) {
      if (each.op === op) assert.deepEqual(answerOf(each), each.answer, JSON.stringify(each));
    }
  });
}

test('bounds are powers of two and parts of them, the coarser ones among the finer', () => {
  assert.equal(exponentialBound(0, 3), 1);
  assert.equal(exponentialBound(8, 3), 2);
  // Prometheus' own rounding of the root of two.
  assert.equal(exponentialBound(4, 3), 1.414213562373095);
  assert.equal(exponentialBound(-1, -4), 2 ** -16);
  assert.equal(exponentialBound(1024, 0), Number.MAX_VALUE);
  assert.equal(exponentialBound(64, -4), Number.MAX_VALUE);
  assert.equal(exponentialBound(1025, 0), Infinity);
  assert.equal(exponentialBound(-1074, 0), Number.MIN_VALUE);
  assert.equal(exponentialBound(-1076, 0), 0);
  assert.equal(exponentialBound(2 ** 31 - 1, -4), Infinity);
  for (let index = -600; index < 600; index++) {
    assert.ok(exponentialBound(index, 8) > exponentialBound(index - 1, 8));
    assert.equal(exponentialBound(index, 5), exponentialBound(8 * index, 8));
    const coarser = coarserIndex(index, 8, 5);
    assert.ok(exponentialBound(coarser, 5) >= exponentialBound(index, 8));
    assert.ok(exponentialBound(coarser - 1, 5) < exponentialBound(index, 8));
  }
  const bounds = Float64Array.of(1, 5);
  const uppers = [-1, 0, 1, 2].map((index) => upperBound(index, customSchema, bounds));
  assert.deepEqual(uppers, [-Infinity, 1, 5, Infinity]);
});

test('sums keep every observation, in whichever order', () => {
  const numbers = new SeededNumbers(190);
  for (let round = 0; round < 300; round++) {
    const isCustom = numbers.below(3) === 0;
    const all = Array.from({ length: 2 + numbers.below(5) }, () =>
      randomHistogram(numbers, isCustom),
    );
    const total = all.reduce((sum, { count }) => sum + count, 0);
    const plain = all[0]!.copy();
    const exact = new HistogramSum(all[0]!);
    for (const each of all.slice(1)) {
      plain.add(each);
      exact.add(each);
    }
    const backwards = all.at(-1)!.copy();
    for (const each of all.slice(0, -1).reverse()) backwards.add(each);
    for (const sum of [plain, backwards, exact.result()]) {
      assert.equal(sum.count, total);
      assert.equal(countedBy(sum), total, textOf(sum));
    }
    const sum = exact.result();
    assert.ok(sum.equals(plain), `${textOf(sum)} is not ${textOf(plain)}`);
    assert.equal(exact.copy().divide(2).result().count, total / 2);
    assert.ok(!all[0]!.isResetAfter(all[0]!) && !plain.isResetAfter(all[0]!));
  }
});

test('what is added can be taken away again', () => {
  const numbers = new SeededNumbers(191);
  for (let round = 0; round < 200; round++) {
    const isCustom = numbers.below(3) === 0;
    const [a, b] = [randomHistogram(numbers, isCustom), randomHistogram(numbers, isCustom)];
    const sum = a.copy();
    sum.add(b);
    const before = writeHistogram(a);
    const rest = sum.copy();
    rest.subtract(b);
    // In the form that both have in common.
    const expected = a.copy();
    expected.add(sum.copy().scale(0));
    assert.deepEqual(writeHistogram(rest.compact()), writeHistogram(expected.compact()));
    assert.deepEqual(writeHistogram(a), before, 'what is added to is copied before');
  }
});

test('small counts are not lost beside large ones', () => {
  const one = (count: number): FloatHistogram =>
    new FloatHistogram({
      schema: 0,
      count,
      sum: count,
      positive: { indexes: Int32Array.of(1), counts: Float64Array.of(count) },
    });
  const sum = new HistogramSum(one(1e16));
  for (const count of [1, 1, 1, -1e16]) sum.add(one(count));
  assert.equal(sum.result().count, 3);
  assert.equal(sum.result().positive.counts[0], 3);
  assert.ok(!sum.overflows);
  sum.add(one(Number.MAX_VALUE));
  sum.add(one(Number.MAX_VALUE));
  assert.ok(sum.overflows);
});

test('quantiles and fractions are the inverse of each other, and end at the bounds', () => {
  const numbers = new SeededNumbers(192);
  for (let round = 0; round < 300; round++) {
    const histogram = randomHistogram(numbers, numbers.below(3) === 0);
    if (histogram.count === 0) continue;
    const q = numbers.fraction();
    const { value } = quantileOf(q, histogram);
    const low = quantileOf(0, histogram).value;
    const high = quantileOf(1, histogram).value;
    assert.ok(low <= value && value <= high, `${low} ${value} ${high}: ${textOf(histogram)}`);
    assert.equal(fractionBetween(-Infinity, Infinity, histogram).value, 1);
    // A bucket without a bound, or without a width, has its part at one value.
    const isJump = histogram.isCustom
      ? value === high || value === low || value <= 0
      : value === 0 && histogram.zeroThreshold === 0;
    if (isJump) continue;
    const below = fractionBetween(-Infinity, value, histogram).value;
    assert.ok(Math.abs(below - q) < 1e-9, `${below} ${q}: ${textOf(histogram)}`);
  }
  const empty = new FloatHistogram({ schema: 0, count: 0, sum: 0 });
  assert.ok(Number.isNaN(quantileOf(0.5, empty).value));
  assert.equal(quantileOf(-0.1, empty).value, -Infinity);
  assert.equal(quantileOf(1.1, empty).value, Infinity);
});

test('observations that are NaN are in no bucket, and the answer says so', () => {
  const histogram = new FloatHistogram({
    schema: 0,
    count: 6,
    sum: Number.NaN,
    positive: { indexes: Int32Array.of(0, 1), counts: Float64Array.of(2, 2) },
  });
  // Prometheus 3.15 takes the bounds of the last bucket for those of the one that it has found.
  assert.deepEqual(quantileOf(0.25, histogram), { value: 2 ** -0.25, note: 'nan-skews' });
  assert.deepEqual(quantileOf(0.9, histogram), { value: Number.NaN, note: 'nan-is-the-result' });
  assert.deepEqual(fractionBetween(0.5, 1, histogram), { value: 2 / 6, note: 'nan-left-out' });
});

test('a counter is reset when anything but its sum has become less', () => {
  const before = new FloatHistogram({
    schema: 2,
    zeroThreshold: 0.001,
    zeroCount: 1,
    count: 6,
    sum: 10,
    positive: { indexes: Int32Array.of(1, 2, 5), counts: Float64Array.of(2, 0, 3) },
  });
  const changed = (change: Partial<FloatHistogram>): FloatHistogram =>
    Object.assign(before.copy(), { count: 9 }, change);
  const positive = (...counts: number[]) => ({
    indexes: Int32Array.of(1, 2, 5),
    counts: Float64Array.from(counts),
  });
  const isReset = (change: Partial<FloatHistogram>): boolean =>
    changed(change).isResetAfter(before);
  assert.ok(!isReset({}));
  assert.ok(!isReset({ sum: -5 }));
  assert.ok(isReset({ count: 5 }));
  assert.ok(isReset({ zeroCount: 0 }));
  assert.ok(isReset({ positive: positive(1, 7, 3) }));
  assert.ok(
    !isReset({ positive: { indexes: Int32Array.of(1, 5), counts: Float64Array.of(2, 3) } }),
  );
  assert.ok(isReset({ positive: { indexes: Int32Array.of(1), counts: Float64Array.of(9) } }));
  assert.ok(isReset({ zeroThreshold: 0 }));
  assert.ok(isReset({ schema: 3 }));
  assert.ok(!changed({}).ofSchema(0).isResetAfter(before), 'a coarser schema has the same counts');
  assert.ok(isReset({ hint: counterHint.reset }));
  assert.ok(!isReset({ hint: counterHint.notReset, count: 0 }));
  const custom = new FloatHistogram({ schema: customSchema, count: 9, sum: 1 });
  assert.ok(custom.isResetAfter(before) && before.isResetAfter(custom));
});

test('the variance is taken from the middles of buckets', () => {
  const histogram = new FloatHistogram({
    schema: customSchema,
    count: 4,
    sum: 8,
    customBounds: Float64Array.of(0, 2, 4),
    positive: { indexes: Int32Array.of(1, 2), counts: Float64Array.of(2, 2) },
  });
  assert.equal(varianceOf(histogram), 1);
  const around = new FloatHistogram({
    schema: 0,
    zeroThreshold: 1,
    zeroCount: 3,
    count: 3,
    sum: 0,
  });
  assert.equal(varianceOf(around), 0);
});

test('text shows what is not empty', () => {
  const histogram = new FloatHistogram({
    schema: 0,
    zeroThreshold: 0.001,
    zeroCount: 2,
    count: 1e6,
    sum: -0.5,
    positive: { indexes: Int32Array.of(1, 2), counts: Float64Array.of(0, 1.5) },
    negative: { indexes: Int32Array.of(0), counts: Float64Array.of(3) },
  });
  assert.equal(
    textOf(histogram),
    '{count:1e+06, sum:-0.5, [-1,-0.5):3, [-0.001,0.001]:2, (2,4]:1.5}',
  );
  const less = histogram.scale(-1);
  assert.match(textOf(less), /, \[-0\.001,0\.001\]:-2, /, 'what is below 0 too');
});

test('the benchmark runs', async () => {
  for (const { value } of await bench('small')) assert.ok(value > 0);
});
