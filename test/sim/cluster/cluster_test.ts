import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fuzz } from './cluster_fuzz.ts';
import { type Feature, openRuns } from './features.ts';
import { runCluster } from './run.ts';

test('a seed gives the same run each time', async () => {
  const options = { seed: 1, size: 3, features: new Set<Feature>(), onTrace: null };
  assert.deepEqual(await runCluster(options), await runCluster(options));
});

test('simulated clusters lose nothing that was acknowledged', async () => {
  for (const seed of [1, 2, 3]) await fuzz(seed, 4);
});

test('what is known to fail still fails: who mends it takes it out of open.txt', async () => {
  for (const { feature, seed, size, why } of openRuns()) {
    const run = runCluster({ seed, size, features: new Set([feature]), onTrace: null });
    await assert.rejects(run, Error, `${feature}: ${why}`);
  }
});
