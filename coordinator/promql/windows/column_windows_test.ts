import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WindowRequest } from '#engine/window_functions/windows.ts';
import { windowWork } from './column_windows.ts';

const request = (stepCount: number, rangeMillis: number, stepMillis: number): WindowRequest => ({
  function: 'sum',
  stepCount,
  referenceStartMillis: 0,
  referenceStepMillis: stepMillis,
  rangeMillis,
  evaluationStartMillis: 0,
  evaluationStepMillis: stepMillis,
  parameters: [],
});

test('the work of windows is a number of looks, so that queries give way by it', () => {
  // Each of ten windows has a tenth of the rows.
  assert.equal(windowWork(request(10, 60_000, 60_000), 500), 1_000);
  // Each has all of them.
  assert.equal(windowWork(request(10, 60_000, 0), 500), 5_500);
  // A range that comes to less than a millisecond.
  assert.equal(windowWork(request(1, 0, 60_000), 500), 500);
  assert.equal(windowWork(request(10, 0, 0), 500), 500);
});
