import { test } from 'node:test';
import { fuzz as fuzzBodies } from './write_decoder/body_fuzz.ts';
import { fuzz as fuzzChunks } from './codec/chunk_bytes_fuzz.ts';

test('remote write bodies damaged in snappy and protobuf are read as the twin reads them', () => {
  for (let seed = 1; seed <= 3; seed += 1) fuzzBodies(seed, 20);
});

test('chunks damaged in header and payload are read as the twin reads them', () => {
  for (let seed = 1; seed <= 3; seed += 1) fuzzChunks(seed, 20);
});
