import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readTyped } from '../store/typed_chunks.ts';
import { allTimes } from '../store/workshop.ts';
import { type AggregatedWindow, countOf, windowOfValue } from '../typed/window.ts';
import { fuzz } from './fold_fuzz.ts';
import { WindowFold } from './fold.ts';

const minute = 60_000_000_000n;
const begin = 1_700_000_040_000_000_000n;
const stale = new Float64Array(BigUint64Array.of(0x7ff0000000000002n).buffer)[0]!;
const fold = new WindowFold();

type Rows = readonly (readonly [seconds: number, value: number])[];

function columnsOf(rows: Rows): [BigInt64Array, Float64Array] {
  const bits = new BigUint64Array(rows.length);
  const values = new Float64Array(bits.buffer);
  for (const [i, [, value]] of rows.entries()) {
    if (value === 0 || !Number.isNaN(value)) values[i] = value;
    else bits[i] = 0x7ff0000000000002n;
  }
  return [
    BigInt64Array.from(rows, ([seconds]) => begin + BigInt(seconds * 1000) * 1_000_000n),
    values,
  ];
}

/** Windows of a minute by the second of their ends. */
function windowsOf(rows: Rows): Map<number, AggregatedWindow & { readonly count: number }> {
  fold.begin(minute, 100).add(...columnsOf(rows));
  fold.end();
  const { timestampNanos, values } = readTyped([fold.chunks()], allTimes);
  return new Map(
    values.map((value, i) => {
      const window = windowOfValue(value);
      const seconds = Number((timestampNanos[i]! - begin) / 1_000_000_000n);
      return [seconds, { ...window, count: countOf(window) }];
    }),
  );
}

test('a window has the rows after its begin up to its end, which is its time', () => {
  const windows = windowsOf([
    [0, 1],
    [0.001, 2],
    [30, 5],
    [60, 4],
    [60.001, 8],
    [600, 16],
  ]);
  assert.deepEqual([...windows.keys()], [0, 60, 120, 600]);
  const { count, last, min, max, sum } = windows.get(60)!;
  assert.deepEqual({ count, last, min, max, sum }, { count: 3, last: 4, min: 2, max: 5, sum: 11 });
});

test('a stale marker is the last of its window, beside the number before it, and counts for nothing else', () => {
  const windows = windowsOf([
    [10, 3],
    [20, stale],
    [70, stale],
    [130, stale],
    [140, 9],
    [190, 4],
    [200, stale],
    [210, 5],
    [220, stale],
    [250, 0],
    [260, stale],
  ]);
  const lasts = [...windows.values()].map(({ count, last, lastNumber, sum }) => ({
    count,
    last,
    lastNumber,
    sum,
  }));
  assert.deepEqual(lasts, [
    { count: 1, last: Number.NaN, lastNumber: 3, sum: 3 },
    { count: 0, last: Number.NaN, lastNumber: 0, sum: 0 },
    { count: 1, last: 9, lastNumber: 0, sum: 9 },
    { count: 2, last: Number.NaN, lastNumber: 5, sum: 9 },
    { count: 1, last: Number.NaN, lastNumber: 0, sum: 0 },
  ]);
});

test('what a counter had come to before it began again inside a window is kept, beside its first row', () => {
  const resetsOf = (rows: Rows): (readonly [number, number])[] =>
    [...windowsOf(rows).values()].map(({ resets, first }) => [resets, first]);
  assert.deepEqual(
    resetsOf([
      [30, 100],
      [70, 110],
      [80, 5],
      [110, 120],
    ]),
    [
      [0, 0],
      [110, 110],
    ],
  );
  // Twice in a window, among enough rows.
  const twice = [50, 7, 60, 8].map((value, i) => [i + 1, value] as const);
  const steady = Array.from({ length: 20 }, (_, i) => [20 + i, 9 + i] as const);
  assert.deepEqual(resetsOf([...twice, ...steady]), [[110, 50]]);
  // With its first row it did not begin again inside, whatever came before: a window is of its own rows alone.
  assert.deepEqual(
    resetsOf([
      [30, 100],
      [70, 10],
      [110, 200],
    ]),
    [
      [0, 0],
      [0, 0],
    ],
  );
  // A gauge falls all the time, and may be below zero.
  const gauge = Array.from({ length: 30 }, (_, i) => [i + 1, 50 + 10 * (i % 2)] as const);
  assert.deepEqual(resetsOf(gauge), [[0, 0]]);
  assert.deepEqual(
    resetsOf([
      [1, 5],
      [2, -3],
      [3, 4],
    ]),
    [[0, 0]],
  );
});

test('windows of a series are as many as were said, and a series may have none', () => {
  assert.equal(fold.begin(minute, 0).end(), 0);
  assert.equal(fold.chunks().length, 0);
  const rows = Array.from({ length: 5000 }, (_, i) => [60 * i, i] as const);
  fold.begin(minute, 5000).add(...columnsOf(rows));
  assert.equal(fold.end(), 5000);
  const { values } = readTyped([fold.chunks(new Float64Array(5000).fill(7))], allTimes);
  assert.equal(values.length, 5000);
  assert.deepEqual(windowOfValue(values[4999]!), {
    deletions: 7n,
    rows: 1,
    lags: 0,
    others: 0,
    last: 4999,
    min: 4999,
    max: 4999,
    sum: 4999,
    resets: 0,
    lastNumber: 0,
    first: 0,
  });
});

test('the kernel folds as its twin does', () => {
  for (let seed = 1; seed <= 8; seed++) fuzz(seed, 40);
});
