import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReducedRow } from '../aggregation_rules/rollups/reduce.ts';
import type { Tags } from '#lib/tags.ts';
import { WrittenWindows } from './written_windows.ts';

const series: readonly Tags[] = ['a', 'b', 'c'].map((value) => [{ name: 'app', value }]);
const rowsOf = (...values: readonly number[]): ReducedRow[] =>
  values.map((value, at) => ({ tags: series[at]!, seriesHash: at * 77, nanos: 10n, value }));
const zeros = (rows: readonly ReducedRow[]): ReducedRow[] =>
  rows.flatMap((row) => [row, { ...row, nanos: 15n, value: 0 }]);

test('what differs is written, with what follows from it', () => {
  const written = new WrittenWindows();
  written.note(10n, zeros(rowsOf(1, 2, 0)));
  assert.deepEqual(written.differing(10n, zeros(rowsOf(1, 2, 0))), []);
  assert.deepEqual(written.differing(10n, zeros(rowsOf(1, 3, 0))), zeros(rowsOf(1, 3)).slice(2));
  assert.deepEqual(written.differing(10n, rowsOf(1, 2, -0)), rowsOf(1, 2, -0).slice(2));
  assert.deepEqual(written.differing(20n, rowsOf(1)), rowsOf(1), 'of another window');
});

test('a window that there is no room for is told to differ, in whatever order its rows come', () => {
  const written = new WrittenWindows(4);
  written.note(10n, rowsOf(1, 2, 3));
  assert.equal(written.valuesCount, 3);
  const ofSecond = (...values: readonly number[]): ReducedRow[] =>
    rowsOf(...values).map((row) => ({ ...row, nanos: 20n }));
  written.note(20n, ofSecond(1, 2));
  assert.deepEqual(written.differing(20n, ofSecond(1, 2).reverse()), []);
  for (const values of [[2, 1], [1, 2, 0], [1], [1, 2.5]]) {
    assert.deepEqual(written.differing(20n, ofSecond(...values)), ofSecond(...values));
  }
  // Room that is free again.
  written.forget(10n);
  assert.equal(written.valuesCount, 0);
  written.note(20n, ofSecond(1, 2));
  assert.deepEqual(written.differing(20n, ofSecond(1, 3)), ofSecond(1, 3).slice(1));
  written.clear();
  assert.equal(written.valuesCount, 0);
});
