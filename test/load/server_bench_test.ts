import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bench } from './server_bench.ts';

test('the benchmark of a whole server runs', async () => {
  const results = await bench('small');
  assert.deepEqual(
    results.map(({ name }) => name),
    ['server: remote write', 'server: json/write', 'server: gRPC, known series'],
  );
  for (const { value } of results) assert.ok(value >= 0);
});
