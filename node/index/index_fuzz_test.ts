import { test } from 'node:test';
import { fuzz } from './index_fuzz.ts';

test('NamespaceIndex answers as its twin of plain tag maps does', () => {
  for (let seed = 1; seed <= 12; seed++) fuzz(seed, 40);
  for (let seed = 101; seed <= 103; seed++) fuzz(seed, 600);
});
