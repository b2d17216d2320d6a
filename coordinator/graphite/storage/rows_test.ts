import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowOf } from '../series/series.ts';
import { type Reduction, rowsBySteps, type Steps, stepsOf, type WindowRows } from './rows.ts';

function rows(
  pairs: readonly (readonly [seconds: number, value: number])[],
  steps: Steps,
  windows: WindowRows | null = null,
  reduction: Reduction = 'last',
): (number | null)[] {
  const columns = rowsBySteps(
    {
      count: pairs.length,
      timestampMillis: Float64Array.from(pairs, ([seconds]) => seconds * 1000),
      values: Float64Array.from(pairs, ([, value]) => value),
    },
    steps,
    windows,
    reduction,
  );
  return Array.from(columns.values, (_, index) => rowOf(columns, index));
}

test("a window has whisper's rows: behind from up to until", () => {
  assert.deepEqual(stepsOf(600, 900, 60), { startSeconds: 660, stepSeconds: 60, length: 5 });
  assert.deepEqual(stepsOf(610, 899, 60), { startSeconds: 660, stepSeconds: 60, length: 4 });
  assert.deepEqual(stepsOf(610, 620, 60), { startSeconds: 660, stepSeconds: 60, length: 1 });
});

test('samples in a step come to what is asked for; NaN is none', () => {
  const steps = { startSeconds: 60, stepSeconds: 60, length: 4 };
  const samples = [
    [59, 9],
    [60, 1],
    [100, 2],
    [119.999, 3],
    [130, NaN],
    [240, 5],
    [250, NaN],
    [300, 7],
  ] as const;
  assert.deepEqual(rows(samples, steps), [3, null, null, 5]);
  for (const [reduction, first] of [
    ['mean', 2],
    ['sum', 6],
    ['min', 1],
    ['max', 3],
    ['count', 3],
  ] as const) {
    const last = reduction === 'count' ? 1 : 5;
    assert.deepEqual(rows(samples, steps, null, reduction), [first, null, null, last], reduction);
  }
  assert.deepEqual(
    rows(
      [
        [60, Infinity],
        [61, -1],
      ],
      steps,
      null,
      'mean',
    ),
    [Infinity, null, null, null],
  );
});

test('windows belong to the step in which they begin, samples to the one in which they are', () => {
  const steps = { startSeconds: 300, stepSeconds: 300, length: 3 };
  // Windows end at 600 and 900, samples come from 900 on.
  const all = [
    [300, 1],
    [600, 2],
    [900, 3],
    [901, 10],
    [1000, 20],
  ] as const;
  const ofWindows = (millis: number) => ({
    beforeMillis: millis,
    samplesFromMillis: 900_001,
    resolutionMillis: 300_000,
  });
  assert.deepEqual(rows(all, steps, ofWindows(900_001), 'mean'), [2, 3, 15]);
  assert.deepEqual(rows(all, steps, ofWindows(900_001), 'count'), [2, 3, 2]);
  // A window that ends behind the first samples is of these, too.
  const overlapping = [...all, [1200, 40] as const];
  assert.deepEqual(rows(overlapping, steps, ofWindows(1_200_001), 'sum'), [2, 3, 40]);
});
