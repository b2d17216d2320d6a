import { test } from 'node:test';
import { fuzz } from './parser_fuzz.ts';

test('queries are parsed to what they mean, and others have an error with its place', async () => {
  for (let seed = 1; seed <= 8; seed += 1) await fuzz(seed, 30);
});
