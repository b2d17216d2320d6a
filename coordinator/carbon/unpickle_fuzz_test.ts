import { test } from 'node:test';
import { fuzz } from './unpickle_fuzz.ts';

test('pickles come to the samples that they were made of, and damaged ones to a reason', () => {
  for (let seed = 1; seed <= 20; seed += 1) fuzz(seed, 50);
});
