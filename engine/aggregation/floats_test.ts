import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFloats } from '../store/chunk_merge.ts';
import { allTimes } from '../store/workshop.ts';
import { bitsOfDouble } from '../typed/typed_value.ts';
import { WindowFold } from './fold.ts';
import { floatsOfWindows, type ReadColumn, type ValueColumn } from './floats.ts';

const minute = 60_000_000_000n;
const begin = 1_700_000_040_000_000_000n;

const stale = new Float64Array(BigUint64Array.of(0x7ff0000000000002n).buffer)[0]!;

/** Minutes and values, by the second; what is NaN is a stale marker. */
function windowsOf(rows: readonly (readonly [seconds: number, value: number])[]): Uint8Array {
  const fold = new WindowFold().begin(minute, 10_000);
  fold.add(
    BigInt64Array.from(rows, ([seconds]) => begin + BigInt(seconds) * 1_000_000_000n),
    new Float64Array(
      BigUint64Array.from(rows, ([, value]) =>
        Number.isNaN(value) ? 0x7ff0000000000002n : bitsOfDouble(value),
      ).buffer,
    ),
  );
  fold.end();
  return fold.chunks();
}

function samplesOf(
  chunks: readonly Uint8Array[],
  column: ReadColumn | ValueColumn,
): [number, number][] {
  const { timestampNanos, values } = readFloats(floatsOfWindows(chunks, column, minute), allTimes);
  return Array.from(timestampNanos, (nanos, i) => [Number(nanos - begin) / 1e9, values[i]!]);
}

/** As `increase` counts, without what it guesses at the edges. */
function grownBy(samples: readonly (readonly [seconds: number, value: number])[]): number {
  return samples.slice(1).reduce((sum, [, now], i) => {
    const before = samples[i]![1];
    return sum + (now < before ? now : now - before);
  }, 0);
}

test('columns of windows are read as samples at the ends of the windows, of several replicas once', () => {
  const chunks = windowsOf([
    [10, 3],
    [20, 1],
    [70, 5],
    [100_000, 0],
  ]);
  const less = windowsOf([
    [10, 3],
    [70, 5],
  ]);
  const both = [less, chunks, chunks];
  assert.deepEqual(samplesOf(both, 'last'), [
    [60, 1],
    [120, 5],
    [100_020, 0],
  ]);
  assert.deepEqual(samplesOf(both, 'max'), [
    [60, 3],
    [120, 5],
    [100_020, 0],
  ]);
  assert.deepEqual(samplesOf(both, 'count'), [
    [60, 2],
    [120, 1],
    [100_020, 1],
  ]);
  assert.deepEqual(samplesOf(both, 'sum'), [
    [60, 4],
    [120, 5],
    [100_020, 0],
  ]);
  assert.deepEqual(samplesOf(both, 'mean'), [
    [60, 2],
    [120, 5],
    [100_020, 0],
  ]);
  const ended = windowsOf([
    [10, 3],
    [20, Number.NaN],
    [70, Number.NaN],
  ]);
  assert.deepEqual(samplesOf([ended], 'mean'), [[60, 3]], 'no number has no mean');
});

test('a counter grows over windows by as much as over its rows, from the first one on, however they are cut', () => {
  const rows: [number, number][] = [];
  let value = 0;
  for (let i = 0; i < 2_000; i++) {
    value = i % 37 === 36 ? 1 : value + 2 + (i % 5);
    rows.push([i * 7, value]);
  }
  const samples = samplesOf([windowsOf(rows)], 'counter');
  assert.equal(grownBy(samples), grownBy(rows));
  assert.ok(new Set(samples.map(([seconds]) => seconds)).size > 230);
  const slices = [0, 3000, 4020, 4080, 4140, 99_999].map((until, i, all) =>
    rows.filter(([seconds]) => seconds <= until && seconds > (all[i - 1] ?? -1)),
  );
  const chunks = slices.map(windowsOf);
  assert.deepEqual(samplesOf(chunks.reverse(), 'counter'), samples);
});

test('of a window that ends with a stale marker the number before it is read where numbers are asked for', () => {
  const chunks = [
    windowsOf([
      [10, 3],
      [20, 4],
      [50, stale],
      [70, stale],
      [130, 9],
      [140, 13],
      [150, 0],
      [170, stale],
    ]),
  ];
  assert.deepEqual(samplesOf(chunks, 'last').slice(0, 2), [
    [60, Number.NaN],
    [120, Number.NaN],
  ]);
  assert.deepEqual(samplesOf(chunks, 'number'), [
    [60, 4],
    [180, 0],
  ]);
  assert.deepEqual(samplesOf(chunks, 'count'), [
    [60, 2],
    [180, 3],
  ]);
  assert.deepEqual(samplesOf(chunks, 'counter'), [
    [59.999, 3],
    [60, 4],
    [179.998, 13],
    [179.999, 0],
    [180, 0],
  ]);
});

test('values of windows are a column of theirs, but for stale markers where a series ends', () => {
  const chunks = [
    windowsOf([
      [10, 3],
      [20, 5],
      [30, 1],
      [70, 8],
      [80, stale],
      [130, stale],
      [190, 2],
    ]),
  ];
  const wanted = { min: [1, 2], max: [5, 2], sum: [9, 2], count: [3, 1], mean: [3, 2] };
  for (const value of ['min', 'max', 'sum', 'count', 'mean'] as const) {
    const [first, other] = wanted[value];
    assert.deepEqual(samplesOf(chunks, { value, ends: true }), [
      [60, first],
      [120, Number.NaN],
      [180, Number.NaN],
      [240, other],
    ]);
    const bits = readFloats(floatsOfWindows(chunks, { value, ends: true }, minute), allTimes);
    assert.equal(bitsOfDouble(stale), 0x7ff0000000000002n);
    assert.equal(new BigUint64Array(bits.values.slice().buffer)[1], 0x7ff0000000000002n, value);
    // Without them, numbers alone, as the plain column has them.
    assert.deepEqual(samplesOf(chunks, { value, ends: false }), samplesOf(chunks, value));
  }
  const ends = begin + 120_000_000_000n;
  const cut = floatsOfWindows(chunks, { value: 'max', ends: true }, minute, [ends, ends + 1n]);
  assert.equal(readFloats(cut, allTimes).values.length, 1);
});

test('a counter that has passed what it had come to before grows by both, at times that no other row has', () => {
  const rows: [number, number][] = [
    [10, 90],
    [50, 100],
    // To 110, and from 0 on to 1000 and to 5: the one window ends above what it had come to, the other below.
    [70, 110],
    [80, 7],
    [115, 1000],
    [125, 1100],
    [130, 2],
    [170, 5],
  ];
  const samples = samplesOf([windowsOf(rows)], 'counter');
  assert.deepEqual(samples, [
    // With nothing before, it grows from its first row.
    [59.999, 90],
    [60, 100],
    [119.998, 110],
    [119.999, 0],
    [120, 1000],
    [179.998, 1100],
    [179.999, 0],
    [180, 5],
  ]);
  assert.equal(grownBy(samples), 10 + 10 + 1000 + 100 + 5);
});

test('a counter that began again with the first row of a window loses nothing', () => {
  const rows: [number, number][] = [
    [10, 90],
    [50, 100],
    // To above 100, and after that to above 260 with another beginning within.
    [70, 3],
    [115, 250],
    [130, 260],
    [190, 7],
    [200, 300],
    [210, 4],
    [240, 310],
    // To below 310: functions see that.
    [250, 20],
    [300, 30],
  ];
  const samples = samplesOf([windowsOf(rows)], 'counter');
  assert.deepEqual(samples.slice(2), [
    [119.999, 3],
    [120, 250],
    [180, 260],
    [239.997, 7],
    [239.998, 300],
    [239.999, 0],
    [240, 310],
    [300, 30],
  ]);
  assert.equal(grownBy(samples), grownBy(rows));
});

test('a window goes on from one that is two windows before it; any other begins anew, whatever else was read', () => {
  const rows: [number, number][] = [
    [50, 100],
    [130, 110],
    [170, 120],
    [310, 130],
    [350, 140],
    [370, -5],
    [410, 150],
  ];
  const samples = samplesOf([windowsOf(rows)], 'counter');
  assert.deepEqual(samples, [
    [60, 100],
    [180, 120],
    [359.999, 130],
    [360, 140],
    [420, 150],
  ]);
  const alone = samplesOf([windowsOf(rows.slice(3))], 'counter');
  assert.deepEqual(alone, samples.slice(2));
});
