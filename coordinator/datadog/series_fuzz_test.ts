import { test } from 'node:test';
import { fuzz } from './series_fuzz.ts';

test('bodies of both versions come to the rows and refusals of the twin', async () => {
  for (let seed = 1; seed <= 10; seed += 1) await fuzz(seed, 100);
});
