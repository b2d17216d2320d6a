import { test } from 'node:test';
import { fuzz } from './json_fuzz.ts';

test('OTLP in JSON comes to the bytes of protobuf, and a wrong value to an error that names it', () => {
  for (let seed = 1; seed <= 10; seed += 1) fuzz(seed, 200);
});
