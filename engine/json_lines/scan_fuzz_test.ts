import { test } from 'node:test';
import { fuzz } from './scan_fuzz.ts';

test('lines are scanned as JSON.parse reads them', () => {
  for (let seed = 1; seed <= 20; seed += 1) fuzz(seed, 500);
});
