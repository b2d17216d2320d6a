import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { plantedFaults } from './planted_faults.ts';

const root = join(import.meta.dirname, '..', '..', '..', '..');

test('what planted faults replace stands in the product once', () => {
  for (const { name, file, beside = [], ...change } of plantedFaults) {
    for (const { right, wrong } of [change, ...beside]) {
      const parts = readFileSync(join(root, file), 'utf8').split(right);
      assert.equal(parts.length, 2, `${name}: ${file} has it ${parts.length - 1} times`);
      assert.notEqual(right, wrong);
    }
  }
});
