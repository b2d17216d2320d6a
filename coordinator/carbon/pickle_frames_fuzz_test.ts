import { test } from 'node:test';
import { fuzz } from './pickle_frames_fuzz.ts';

test('messages come to what they are by themselves, however they are cut into reads', async () => {
  for (let seed = 1; seed <= 10; seed += 1) await fuzz(seed, 40);
});
