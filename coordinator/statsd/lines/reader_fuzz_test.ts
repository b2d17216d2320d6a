import { test } from 'node:test';
import { fuzz } from './reader_fuzz.ts';

test("statsd's packets are read as their lines are", () => {
  for (let seed = 1; seed <= 20; seed += 1) fuzz(seed, 300);
});
