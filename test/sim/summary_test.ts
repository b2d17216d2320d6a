import assert from 'node:assert/strict';
import { test } from 'node:test';
import { added, emptySummary, missingSeeds, type SeedRange, type Summary } from './summary.ts';

function summaryOf(seeds: readonly SeedRange[], code = 'c', more: Partial<Summary> = {}): Summary {
  const runs = seeds.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  return { ...emptySummary('x', 20, `commit of ${code}`, code), seeds, runs, ...more };
}

test('summaries add up what they counted, and join their seeds', () => {
  const failure = (seed: number) => ({ seed, error: 'e', again: 'a' });
  const one = summaryOf([[1, 10]], 'c', { counts: { a: 1, b: 2 }, failures: [failure(7)] });
  const other = summaryOf(
    [
      [11, 12],
      [20, 20],
    ],
    'd',
    { counts: { b: 3 }, failures: [failure(2)] },
  );
  const sum = added(one, other);
  assert.deepEqual(sum.seeds, [
    [1, 12],
    [20, 20],
  ]);
  assert.deepEqual(sum.counts, { a: 1, b: 5 });
  assert.deepEqual(
    sum.failures.map(({ seed }) => seed),
    [2, 7],
  );
  assert.deepEqual([sum.runs, sum.codes], [13, ['c', 'd']]);
});

test('a seed counts once for what is run, whatever the commit, and again for another code', () => {
  const one = summaryOf([[1, 10]]);
  assert.throws(() => added(one, summaryOf([[10, 11]])), /seeds 10 to 11 are in both/);
  assert.throws(() => added(one, summaryOf([[10, 11]], 'c', { commits: ['e'] })), /in both/);
  assert.equal(added(one, summaryOf([[10, 11]], 'd')).runs, 12);
  assert.throws(() => added(one, { ...one, size: 4 }), /another size: 20 and 4/);
});

test('what is missing are the seeds between those that are done, in parts', () => {
  const done = summaryOf([
    [3, 4],
    [8, 20],
  ]);
  assert.deepEqual(
    [...missingSeeds(done, [1, 10], 2)],
    [
      [1, 2],
      [5, 6],
      [7, 7],
    ],
  );
  assert.deepEqual([...missingSeeds(done, [9, 22], 20)], [[21, 22]]);
  assert.deepEqual([...missingSeeds(summaryOf([]), [5, 5], 3)], [[5, 5]]);
  assert.deepEqual([...missingSeeds(done, [10, 12], 20)], []);
});
