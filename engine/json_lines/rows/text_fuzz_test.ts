import { test } from 'node:test';
import { fuzz } from './text_fuzz.ts';

test('lines in chunks are the rows of JSON.parse, by the kernel and by its twin', () => {
  for (let seed = 1; seed <= 10; seed += 1) fuzz(seed, 60);
});
