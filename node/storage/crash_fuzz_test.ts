import { test } from 'node:test';
import { fuzz } from './crash_fuzz.ts';

test('crashes, failed syncs and a full disk lose nothing that was acknowledged', async () => {
  for (let seed = 1; seed <= 10; seed += 1) await fuzz(seed, 5);
});
