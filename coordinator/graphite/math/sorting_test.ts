import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import { partsOf } from '../series/making_testing.ts';
import { sortNumbers } from './sorting.ts';

test('sortNumbers() sorts as the array does, and gives way', async () => {
  const random = new SeededRandom(7);
  for (const length of [0, 1, 1000, 16_384, 16_385, 50_000, 131_072]) {
    const values = Float64Array.from({ length }, () => {
      const kind = random.below(50);
      return kind === 0 ? NaN : kind === 1 ? -Infinity : random.below(100_000) / 8;
    });
    const should = values.slice().sort();
    const { work, pauses } = partsOf();
    assert.deepEqual(await sortNumbers(values, work), should);
    assert.ok(pauses() >= Math.floor(length / 16_384), `${length} numbers, ${pauses()} pauses`);
  }
});
