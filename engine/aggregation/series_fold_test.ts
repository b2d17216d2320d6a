import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FloatHistogram } from '../histograms/float_histogram.ts';
import { HistogramSum } from '../histograms/histogram_sum.ts';
import { readMixedRows } from '../store/read/mixed_rows.ts';
import { apart, readTyped } from '../store/typed_chunks.ts';
import { allTimes } from '../store/workshop.ts';
import { encodeTypedRows } from '../typed/codec.ts';
import {
  customSchema,
  type Histogram,
  histogramOfValue,
  staleBits,
  staleHistogram,
  valueOfHistogram,
} from '../typed/histogram.ts';
import { histogramWindowOfValue } from '../typed/histogram_window.ts';
import { bitsOfDouble, checkTypedValue, doubleOf } from '../typed/typed_value.ts';
import { windowOfValue } from '../typed/window.ts';
import { floatsOfWindows, type ReadColumn, type ValueColumn } from './floats.ts';
import { WindowFold } from './fold.ts';
import { windowEndOf } from './window_end.ts';
import { SeriesFold } from './series_fold.ts';

const second = 1_000_000_000n;
const minute = 60n * second;
const start = (1_700_000_000n / 300n) * 300n * second;

type Value = number | 'stale' | 'stale histogram' | Uint8Array;
interface Row {
  readonly nanos: bigint;
  readonly value: Value;
}

let seed = 11;
const random = (n: number): number => (seed = (seed * 48_271) % 2_147_483_647) % n;

function histogram(of: Partial<Histogram> = {}): Uint8Array {
  const indexes = [...new Set(Array.from({ length: 5 }, () => random(12) - 6))].sort(
    (a, b) => a - b,
  );
  const counts = indexes.map(() => 1 + random(100));
  return valueOfHistogram({
    isFloat: false,
    schema: random(3),
    hint: 0,
    zeroThreshold: 0.001,
    count: counts.reduce((a, b) => a + b, 2),
    zeroCount: 2,
    sumBits: bitsOfDouble(random(1_000) / 8),
    customBounds: new Float64Array(0),
    positive: { indexes: Int32Array.from(indexes), counts: Float64Array.from(counts) },
    negative: { indexes: new Int32Array(0), counts: new Float64Array(0) },
    ...of,
  });
}

/** Chunks as storage has them: of floats, and of typed rows. */
function partsOf(rows: readonly Row[]): Uint8Array[] {
  const parts: Uint8Array[] = [];
  const floats = rows.filter(({ value }) => typeof value === 'number' || value === 'stale');
  if (floats.length > 0) {
    const bits = BigUint64Array.from(floats, ({ value }) =>
      value === 'stale' ? staleBits : bitsOfDouble(value as number),
    );
    parts.push(
      new WindowFold().floats(
        BigInt64Array.from(floats, ({ nanos }) => nanos),
        new Float64Array(bits.buffer),
      ),
    );
  }
  const typed = rows
    .filter((row) => !floats.includes(row))
    .map(({ nanos, value }) => ({
      nanos,
      value: value === 'stale histogram' ? staleHistogram : (value as Uint8Array),
    }));
  // As many to a chunk as it has room for.
  const isLarge = typed.some(({ value }) => value.length > 50_000);
  for (const some of isLarge ? typed.map((row) => [row]) : [typed]) {
    if (some.length === 0) continue;
    let end = 0;
    parts.push(
      encodeTypedRows({
        timestampNanos: BigInt64Array.from(some, ({ nanos }) => nanos),
        valueBytes: new Uint8Array(Buffer.concat(some.map(({ value }) => value))),
        valueEnds: Uint32Array.from(some, ({ value }) => (end += value.length)),
        rowVersions: Float64Array.from(some, () => 0).fill(2 ** 40),
        startNanos: null,
      }),
    );
  }
  return parts;
}

/** As a slice is folded: a stretch of time after the other. */
function windowsOf(
  rows: readonly Row[],
  deletions: Float64Array | null = null,
  resolutionNanos = 5n * minute,
  stretchNanos = 120n * minute,
) {
  const fold = new SeriesFold().begin(resolutionNanos, 1_000);
  for (let from = start; from < start + 600n * minute; from += stretchNanos) {
    const range = [from + 1n, from + stretchNanos + 1n] as const;
    const some = rows.filter(({ nanos }) => nanos >= range[0] && nanos < range[1]);
    if (some.length > 0) fold.add(partsOf(some), range);
  }
  const count = fold.end();
  const ends = [...fold.endNanos];
  const chunks = fold.chunks(deletions);
  return { count, ends, chunks };
}

const isOfHistograms = (value: Uint8Array): boolean => value[1] === 1;

test('windows of histograms have the last one, the sum of all and how many they were', () => {
  for (let round = 0; round < 30; round++) {
    const rows: Row[] = [];
    for (let nanos = start + second; nanos < start + 590n * minute; nanos += 40n * second) {
      const kind = random(12);
      if (kind === 0) continue;
      const value: Value =
        kind === 1
          ? 'stale histogram'
          : kind === 2
            ? 'stale'
            : kind === 3 && round % 3 === 0
              ? random(50)
              : histogram();
      rows.push({ nanos, value });
    }
    const { count, ends, chunks } = windowsOf(rows);
    const { timestampNanos, values } = readTyped(apart([chunks]).typed, allTimes);
    const byEnd = Map.groupBy(rows, ({ nanos }) => windowEndOf(nanos, 5n * minute));
    assert.deepEqual(ends, [...byEnd.keys()]);
    assert.deepEqual([...timestampNanos], ends);
    assert.equal(count, ends.length);
    for (const [i, value] of values.entries()) {
      const within = byEnd.get(ends[i]!)!;
      const histograms = within.filter((row) => row.value instanceof Uint8Array);
      const lastOf = within.findLast(
        (row) => row.value !== 'stale' && row.value !== 'stale histogram',
      );
      const endsStale = String(within.at(-1)!.value).startsWith('stale');
      if (!(lastOf?.value instanceof Uint8Array)) {
        const window = windowOfValue(value);
        const numbers = within.filter((row) => typeof row.value === 'number');
        assert.equal(window.rows, within.length);
        assert.equal(window.others, within.length - numbers.length);
        assert.equal(bitsOfDouble(window.last) === staleBits, endsStale);
        continue;
      }
      assert.ok(isOfHistograms(value));
      const window = histogramWindowOfValue(value);
      assert.deepEqual(
        [window.rows, window.others, window.endsStale],
        [within.length, within.length - histograms.length, endsStale],
      );
      assert.deepEqual(window.last, lastOf.value);
      const all = histograms.map((row) =>
        FloatHistogram.ofValue(histogramOfValue(row.value as Uint8Array)),
      );
      const sum = new HistogramSum(all[0]!);
      for (const each of all.slice(1)) sum.add(each);
      assert.ok(FloatHistogram.ofValue(histogramOfValue(window.sum!)).equals(sum.result()));
      assert.equal(window.sum![1], 0, 'whole counts stay whole');
    }
  }
});

test('whoever makes them, equal rows are equal bytes; and each says the deletion that it was made without', () => {
  const rows = Array.from(
    { length: 300 },
    (_, i): Row => ({
      nanos: start + BigInt(i) * 60n * second + second,
      value: i % 50 === 49 ? 'stale' : histogram(),
    }),
  );
  const whole = windowsOf(rows).chunks;
  assert.deepEqual(windowsOf(rows).chunks, whole);
  const { ends } = windowsOf(rows);
  const deletions = Float64Array.from(ends, (_, i) => (i === 3 ? 12_345 : 0));
  const { values } = readTyped(apart([windowsOf(rows, deletions).chunks]).typed, allTimes);
  assert.deepEqual(
    values.map((value) => Number(histogramWindowOfValue(value).deletions)),
    [...deletions],
  );
});

test('a histogram with as many buckets as a value may have leaves room for a coarser sum', () => {
  const indexes = Int32Array.from({ length: 3_000 }, (_, i) => i);
  const counts = new Float64Array(3_000).fill(1);
  const wide = (more: Partial<Histogram>): Uint8Array =>
    histogram({ schema: 8, count: 3_002, positive: { indexes, counts }, ...more });
  const rows = [{ nanos: start + second, value: wide({}) }];
  const { values } = readTyped(apart([windowsOf(rows).chunks]).typed, allTimes);
  const { sum, last } = histogramWindowOfValue(values[0]!);
  assert.equal(histogramOfValue(last).positive.indexes.length, 3_000);
  const coarser = histogramOfValue(sum!);
  assert.ok(coarser.schema < 8 && coarser.count === 3_002);
  const custom = wide({
    schema: customSchema,
    zeroThreshold: 0,
    zeroCount: 0,
    count: 3_000,
    customBounds: Float64Array.from(indexes),
  });
  const of = [{ nanos: start + second, value: custom }];
  const made = readTyped(apart([windowsOf(of).chunks]).typed, allTimes).values;
  const ofCustom = histogramWindowOfValue(made[0]!);
  assert.deepEqual(ofCustom.last, custom);
  const halved = histogramOfValue(ofCustom.sum!);
  const bounds = [...indexes.keys()].filter((bound) => bound % 4 === 3);
  assert.deepEqual([...halved.customBounds], bounds);
  assert.deepEqual([...halved.positive.indexes], [...bounds.keys()]);
  assert.deepEqual(new Set(halved.positive.counts), new Set([4]));
  // Kinds of buckets that have nothing in common have no sum.
  const both = [...rows, { nanos: start + 2n * second, value: custom }];
  const mixed = apart([windowsOf(both).chunks]).typed;
  assert.equal(histogramWindowOfValue(readTyped(mixed, allTimes).values[0]!).sum, null);
  // A mean is of those that were added up.
  assert.deepEqual(floatsOfWindows(mixed, 'summed', 300n * second), []);
  assert.equal(floatsOfWindows(mixed, 'count', 300n * second).length, 1);
});

test('windows have room for the largest histograms: they become coarser', () => {
  const custom = (boundCount: number, bucketCount: number): Uint8Array =>
    histogram({
      schema: customSchema,
      zeroThreshold: 0,
      zeroCount: 0,
      count: bucketCount,
      customBounds: Float64Array.from({ length: boundCount }, (_, i) => i / 8),
      positive: {
        // The one beyond all bounds among them.
        indexes: Int32Array.from(
          { length: bucketCount },
          (_, i) => boundCount + 1 - bucketCount + i,
        ),
        counts: new Float64Array(bucketCount).fill(1),
      },
    });
  for (const value of [custom(65_536, 10), custom(4_200, 4_085), custom(65_536, 4_085)]) {
    const rows = [0n, 1n].map((i) => ({ nanos: start + (i + 1n) * second, value }));
    const made = readTyped(apart([windowsOf(rows).chunks]).typed, allTimes).values;
    assert.equal(made.length, 1);
    checkTypedValue(made[0]!);
    const { last, sum } = histogramWindowOfValue(made[0]!);
    const asked = histogramOfValue(value);
    for (const [of, times] of [
      [last, 1],
      [sum!, 2],
    ] as const) {
      const { positive, customBounds, count } = histogramOfValue(of);
      const total = positive.counts.reduce((a, b) => a + b);
      assert.deepEqual([total, count], [times * asked.count, times * asked.count]);
      assert.equal(customBounds.at(-1), asked.customBounds.at(-1));
      // What is beyond the last bound stays there.
      assert.equal(positive.indexes.at(-1), customBounds.length);
      assert.equal(positive.counts.at(-1), times);
    }
    assert.equal(
      asked.positive.indexes.length > 4_072,
      last !== value && last.length < value.length,
    );
  }
});

test('histograms that no number can be like are folded all the same', () => {
  const sparse = (schema: number, bucketCount: number, first: number): Uint8Array =>
    histogram({
      schema,
      count: bucketCount,
      zeroCount: 0,
      positive: {
        indexes: Int32Array.from(
          { length: bucketCount },
          (_, i) => first + 1_000_000 * i - 2 ** 30,
        ),
        counts: new Float64Array(bucketCount).fill(1),
      },
    });
  for (const values of [
    [sparse(-4, 2_000, 0), sparse(-4, 2_000, 7)],
    [sparse(-4, 2_140, 0)],
    [sparse(8, 2_100, 0), sparse(8, 2_100, 500_000)],
  ]) {
    const rows = values.map((value, i) => ({ nanos: start + BigInt(i + 1) * second, value }));
    const made = readTyped(apart([windowsOf(rows).chunks]).typed, allTimes).values;
    checkTypedValue(made[0]!);
    const { last, sum } = histogramWindowOfValue(made[0]!);
    assert.equal(histogramOfValue(last).count, histogramOfValue(values.at(-1)!).count);
    if (sum === null) continue;
    const { positive, count } = histogramOfValue(sum);
    assert.equal(
      positive.counts.reduce((a, b) => a + b),
      count,
    );
  }
});

test('what comes later in a long window counts, whichever stretches it comes in', () => {
  const hour = 60n * minute;
  const first = { nanos: start + hour, value: histogram() };
  for (const later of [5, 'stale'] as const) {
    const rows: Row[] = [first, { nanos: start + 5n * hour, value: later }];
    const long = 20n * hour;
    const apartInTime = windowsOf(rows, null, long).chunks;
    assert.deepEqual(apartInTime, windowsOf(rows, null, long, 10n * hour).chunks);
    const [value] = readTyped(apart([apartInTime]).typed, allTimes).values;
    if (later === 5) assert.equal(windowOfValue(value!).last, 5);
    else assert.ok(histogramWindowOfValue(value!).endsStale);
  }
});

test('columns of windows of histograms are rows of histograms, and counts of them', () => {
  const [a, b] = [histogram(), histogram()];
  const rows: Row[] = [
    { nanos: start + second, value: a },
    { nanos: start + 2n * second, value: b },
    { nanos: start + 301n * second, value: a },
    { nanos: start + 302n * second, value: 'stale' },
    { nanos: start + 601n * second, value: 7 },
  ];
  const { chunks, ends } = windowsOf(rows);
  const read = (column: ReadColumn | ValueColumn): unknown[] => {
    const made = readMixedRows(
      floatsOfWindows(apart([chunks]).typed, column, 300n * second),
      allTimes,
    );
    const bits = new BigUint64Array(made.values.slice().buffer);
    return [...made.timestampNanos].map((nanos, i) => {
      const value = made.typed[i] ?? (bits[i] === staleBits ? 'stale' : doubleOf(bits[i]!));
      return [ends.indexOf(nanos), value];
    });
  };
  assert.deepEqual(read('number'), [
    [0, b],
    [1, a],
    [2, 7],
  ]);
  assert.deepEqual(read('counter'), read('number'));
  // There is no greatest of them: whatever the column is, their value is the last one.
  for (const value of ['min', 'max', 'sum', 'count', 'mean'] as const) {
    const number = [2, value === 'count' ? 1 : 7];
    assert.deepEqual(read({ value, ends: false }), [...read('number').slice(0, 2), number]);
    assert.deepEqual(read({ value, ends: true }), [...read('last').slice(0, 2), number]);
  }
  assert.deepEqual(read('last'), [
    [0, b],
    [1, staleHistogram],
    [2, 7],
  ]);
  assert.deepEqual(read('count'), [
    [0, 2],
    [1, 1],
    [2, 1],
  ]);
  assert.deepEqual(read('summed'), read('count'));
  assert.deepEqual(read('max'), [[2, 7]]);
  assert.equal(read('sum').length, 3);
});
