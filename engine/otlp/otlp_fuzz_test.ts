import { test } from 'node:test';
import { fuzz } from './otlp_fuzz.ts';

test('bodies of OTLP become the rows of the twin, whatever is known of their series', async () => {
  for (let seed = 1; seed <= 20; seed += 1) await fuzz(seed, 25);
});
