import { test } from 'node:test';
import { fuzz } from './listener_fuzz.ts';

test('commands come to what each is by itself, however they are cut into reads', async () => {
  for (let seed = 1; seed <= 10; seed += 1) await fuzz(seed, 50);
});
