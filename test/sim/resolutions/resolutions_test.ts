import { test } from 'node:test';
import { fuzz } from './resolutions_fuzz.ts';

test('windows and rollups come to what their rows say, whatever befalls their cluster', async () => {
  for (const seed of [1, 2]) await fuzz(seed, 3);
});
