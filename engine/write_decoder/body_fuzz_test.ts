import { test } from 'node:test';
import { fuzz } from './body_fuzz.ts';

test('remote write bodies damaged in snappy and protobuf are read as the twin reads them', () => {
  for (let seed = 1; seed <= 3; seed += 1) fuzz(seed, 20);
});
