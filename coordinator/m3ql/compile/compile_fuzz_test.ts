import { test } from 'node:test';
import { fuzz } from './compile_fuzz.ts';

test('scripts of all functions come to trees, or to errors with their places', async () => {
  for (let seed = 1; seed <= 10; seed += 1) await fuzz(seed, 100);
});
