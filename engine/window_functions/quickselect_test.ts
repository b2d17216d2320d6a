import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { quantileOf } from './quickselect.ts';

/** By sorting, NaN first. */
function quantileBySort(q: number, values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => {
    if (Number.isNaN(a)) return Number.isNaN(b) ? 0 : -1;
    return Number.isNaN(b) ? 1 : a - b;
  });
  const rank = q * (sorted.length - 1);
  const lower = Math.floor(rank);
  const weight = rank - lower;
  const upper = Math.min(sorted.length - 1, lower + 1);
  return sorted[lower]! * (1 - weight) + sorted[upper]! * weight;
}

test('quantileOf() gives what sorting gives, with NaN as the smallest value', () => {
  const random = new SeededNumbers(7);
  for (let round = 0; round < 5000; round++) {
    const values = Array.from({ length: 1 + random.below(20) }, () =>
      random.below(6) === 0 ? NaN : random.below(8),
    );
    const q = random.below(5) === 0 ? 1 : random.fraction();
    assert.ok(
      Object.is(quantileOf(q, Float64Array.from(values), values.length), quantileBySort(q, values)),
      `q ${q} of ${values.join(' ')}`,
    );
  }
});

test('quantileOf() answers quantiles outside of 0 to 1 as infinite', () => {
  assert.equal(quantileOf(-0.1, Float64Array.of(1), 1), -Infinity);
  assert.equal(quantileOf(1.1, Float64Array.of(1), 1), Infinity);
  assert.ok(Number.isNaN(quantileOf(NaN, Float64Array.of(1), 1)));
  assert.ok(Number.isNaN(quantileOf(0.5, new Float64Array(0), 0)));
});
