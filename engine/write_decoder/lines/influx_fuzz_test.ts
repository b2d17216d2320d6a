import { test } from 'node:test';
import { fuzz } from './influx_fuzz.ts';

test("Influx's lines are read as the twin reads them, and numbers as JavaScript does", () => {
  for (let seed = 1; seed <= 10; seed += 1) fuzz(seed, 60);
});
