import { test } from 'node:test';
import { fuzz } from './exposition_fuzz.ts';

test("lines of Prometheus' text and of OpenMetrics are read as the twin reads them", () => {
  for (let seed = 1; seed <= 10; seed += 1) fuzz(seed, 60);
});
