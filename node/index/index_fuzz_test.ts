import { test } from 'node:test';
import { fuzz } from './index_fuzz.ts';

test('NamespaceIndex answers as its twin of plain tag maps does', async () => {
  for (let seed = 1; seed <= 20; seed++) await fuzz(seed, 40);
  for (let seed = 101; seed <= 103; seed++) await fuzz(seed, 600);
});
