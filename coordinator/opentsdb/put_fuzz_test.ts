import { test } from 'node:test';
import { fuzz } from './put_fuzz.ts';

test('bodies come to the rows of their good points, and to a refusal of each other one', async () => {
  for (let seed = 1; seed <= 10; seed += 1) await fuzz(seed, 80);
});
