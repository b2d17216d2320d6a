/** The plain evaluator over rows whose windows are worked out by hand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dayMillis, hourMillis, type LoadSeries, minuteMillis } from './data.ts';
import { EvaluatedSeries, sourceAt } from './evaluator.ts';

/** A row a minute from the first minute after a full hour on; null for a stale marker. */
function evaluated(values: readonly (number | null)[]): EvaluatedSeries {
  const series: LoadSeries = {
    labels: { __name__: 'made', instance: 'made-0', zone: 'zone-0' },
    isCounter: true,
    isWhole: true,
    timesMillis: values.map((_, i) => dayMillis + (i + 1) * minuteMillis),
    values: values.map((value) => value ?? 0),
    isStale: values.map((value) => value === null),
  };
  return new EvaluatedSeries(series);
}

const at = (minutes: number): number => dayMillis + minutes * minuteMillis;

test('a counter that begins again inside a window and passes its last value loses nothing', () => {
  const series = evaluated([1, 2, 3, 4, 5, 9, 0, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]);
  const { counter } = series.columns('5m');
  assert.deepEqual(counter.values, [1, 5, 9, 0, 8, 13, 18]);
  assert.equal(counter.timesMillis[2], at(10) - 2);
  // 5 to 9, 0 to 18; the range of four windows begins with the first one.
  const increase = { name: 'increase', rangeMillis: 20 * minuteMillis } as const;
  assert.equal(series.at(increase, at(25), '5m'), 22);
  assert.equal(series.at({ ...increase, name: 'resets' }, at(25), '5m'), 1);
  // Of a range that is shorter a part of the same.
  assert.equal(series.at({ ...increase, rangeMillis: 5 * minuteMillis }, at(25), '5m'), 22 / 4);
});

test('a window that ends with a stale marker ends the series for instant selectors alone', () => {
  const series = evaluated([3, 4, null]);
  const look = { rangeMillis: 20 * minuteMillis };
  assert.equal(series.at({ name: 'instant', rangeMillis: 0 }, at(5), '5m'), null);
  assert.equal(series.at({ name: 'instant', rangeMillis: 0 }, at(2), 'samples'), 4);
  assert.equal(series.at({ name: 'last_over_time', ...look }, at(5), '5m'), 4);
  assert.equal(series.at({ name: 'count_over_time', ...look }, at(5), '5m'), 2);
  // With nothing before, it grows from its first row.
  assert.equal(series.at({ name: 'increase', ...look }, at(5), '5m'), 1);
});

test('rates of samples reach to the edges of the range, but not below 0', () => {
  const series = evaluated([5, 15, 25]);
  const rate = { name: 'rate', rangeMillis: 4 * minuteMillis } as const;
  // Half a minute before the first sample, and the minute after the last one, which is no more than is between two.
  assert.equal(series.at(rate, at(4), 'samples'), (20 * (3.5 / 2)) / 240);
});

test('a step is read from the finest source that has all that it looks at', () => {
  const floors = { samples: 100 * hourMillis, '5m': 50 * hourMillis, '1h': 0 };
  const max = { name: 'max_over_time', rangeMillis: 6 * hourMillis } as const;
  assert.equal(sourceAt(max, 106 * hourMillis, floors), 'samples');
  assert.equal(sourceAt(max, 106 * hourMillis - 1, floors), '5m');
  // The look-back before the range is two windows.
  const rate = { name: 'rate', rangeMillis: 6 * hourMillis } as const;
  assert.equal(sourceAt(rate, 56 * hourMillis + 10 * minuteMillis, floors), '5m');
  assert.equal(sourceAt(rate, 56 * hourMillis + 9 * minuteMillis, floors), '1h');
});
