import { test } from 'node:test';
import { fuzz } from './scan_fuzz.ts';

test('what the scan of a row takes is what JSON.parse reads', () => {
  for (let seed = 1; seed <= 20; seed += 1) fuzz(seed, 500);
});
