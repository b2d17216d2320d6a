import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bench } from './recovery_bench.ts';

test('a server answers right after a kill, a clean stop and from filesets, and the benchmark says how soon', async () => {
  const results = await bench('small');
  assert.deepEqual(
    results.map(({ name }) => name),
    ['kill -9', 'clean stop', 'filesets'].flatMap((ending) => [
      `recovery after ${ending}: CPU`,
      `recovery after ${ending}: wall`,
    ]),
  );
  for (const { value } of results) assert.ok(value > 0);
});
