import { test } from 'node:test';
import { fuzz } from './chunk_bytes_fuzz.ts';

test('chunks damaged in header and payload are read as the twin reads them', () => {
  for (let seed = 1; seed <= 3; seed += 1) fuzz(seed, 20);
});
