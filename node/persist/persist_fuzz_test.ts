import { test } from 'node:test';
import { fuzz } from './persist_fuzz.ts';
import { fuzz as fuzzSealed } from './sealed_fuzz.ts';

test('damaged logs and filesets give what was written or a report, for many seeds', async () => {
  for (let seed = 1; seed <= 15; seed += 1) await fuzz(seed, 25);
});

test('damage with a right checksum, and damage beside whole records, for many seeds', async () => {
  for (let seed = 1; seed <= 4; seed += 1) await fuzzSealed(seed, 2);
});
