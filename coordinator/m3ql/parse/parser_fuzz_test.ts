import { test } from 'node:test';
import { fuzz } from './parser_fuzz.ts';

test('scripts are parsed to the trees that they were made of, and others have an error with its place', () => {
  for (let seed = 1; seed <= 10; seed += 1) fuzz(seed, 100);
});
