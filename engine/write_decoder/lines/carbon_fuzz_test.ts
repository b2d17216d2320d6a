import { test } from 'node:test';
import { fuzz } from './carbon_fuzz.ts';

test("Carbon's lines are read as the twin reads them", () => {
  for (let seed = 1; seed <= 10; seed += 1) fuzz(seed, 60);
});
