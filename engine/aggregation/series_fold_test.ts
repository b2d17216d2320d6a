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
import { bitsOfDouble, doubleOf } from '../typed/typed_value.ts';
import { windowOfValue } from '../typed/window.ts';
import { floatsOfWindows, type ReadColumn } from './floats.ts';
import { WindowFold } from './fold.ts';
import { windowEndOf } from './fold_twin.ts';
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
  const typed = rows.filter((row) => !floats.includes(row));
  if (typed.length > 0) {
    let end = 0;
    const values = typed.map(({ value }) =>
      value === 'stale histogram' ? staleHistogram : (value as Uint8Array),
    );
    parts.push(
      encodeTypedRows({
        timestampNanos: BigInt64Array.from(typed, ({ nanos }) => nanos),
        valueBytes: new Uint8Array(Buffer.concat(values)),
        valueEnds: Uint32Array.from(values, ({ length }) => (end += length)),
        rowVersions: Float64Array.from(typed, () => 0).fill(2 ** 40),
        startNanos: null,
      }),
    );
  }
  return parts;
}

function windowsOf(rows: readonly Row[], deletions: Float64Array | null = null) {
  const fold = new SeriesFold().begin(5n * minute, 1_000);
  // As a slice is folded: a stretch of time after the other.
  for (let from = start; from < start + 600n * minute; from += 120n * minute) {
    const range = [from + 1n, from + 120n * minute + 1n] as const;
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
  assert.equal(histogramWindowOfValue(made[0]!).sum, null);
  // Kinds of buckets that have nothing in common have no sum.
  const both = [...rows, { nanos: start + 2n * second, value: custom }];
  const mixed = readTyped(apart([windowsOf(both).chunks]).typed, allTimes).values;
  assert.equal(histogramWindowOfValue(mixed[0]!).sum, null);
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
  const read = (column: ReadColumn): unknown[] => {
    const made = readMixedRows(floatsOfWindows(apart([chunks]).typed, column), allTimes);
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
  assert.deepEqual(read('max'), [[2, 7]]);
  assert.equal(read('sum').length, 3);
});
