import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFloats } from '../store/chunk_merge.ts';
import { allTimes } from '../store/workshop.ts';
import { WindowFold } from './fold.ts';
import { floatsOfWindows, type ReadColumn } from './floats.ts';

const minute = 60_000_000_000n;
const begin = 1_700_000_040_000_000_000n;

/** Minutes and values, by the second. */
function windowsOf(rows: readonly (readonly [seconds: number, value: number])[]): Uint8Array {
  const fold = new WindowFold().begin(minute, 10_000);
  fold.add(
    BigInt64Array.from(rows, ([seconds]) => begin + BigInt(seconds) * 1_000_000_000n),
    Float64Array.from(rows, ([, value]) => value),
  );
  fold.end();
  return fold.chunks();
}

function samplesOf(chunks: readonly Uint8Array[], column: ReadColumn): [number, number][] {
  const { timestampNanos, values } = readFloats(floatsOfWindows(chunks, column), allTimes);
  return Array.from(timestampNanos, (nanos, i) => [Number(nanos - begin) / 1e9, values[i]!]);
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
});

test('a counter grows over windows by as much as over its rows', () => {
  const rows: [number, number][] = [];
  let value = 0;
  for (let i = 0; i < 2_000; i++) {
    value = i % 37 === 36 ? 1 : value + 2 + (i % 5);
    rows.push([i * 7, value]);
  }
  const grown = (samples: readonly (readonly [number, number])[]): number =>
    samples.slice(1).reduce((sum, [, now], i) => {
      const before = samples[i]![1];
      return sum + (now < before ? now : now - before);
    }, 0);
  const samples = samplesOf([windowsOf(rows)], 'counter');
  const ends = new Set(samples.map(([seconds]) => seconds));
  // Up to the first window's last row nobody counts.
  const first = [...rows].findIndex(([seconds]) => seconds > samples[0]![0]) - 1;
  assert.equal(grown(samples), grown(rows.slice(first)));
  assert.ok(ends.size > 230);
});
