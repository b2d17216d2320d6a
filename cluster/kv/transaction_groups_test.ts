import assert from 'node:assert/strict';
import { test } from 'node:test';
import { transactionGroups } from './transaction_groups.ts';

test('transactionGroups() keeps to the bound at both levels, and to the order', () => {
  for (const count of [0, 1, 128, 129, 252, 253, 302, 1_065, 4_095, 4_096]) {
    const operations = Array.from({ length: count }, (_, i) => i);
    const groups = transactionGroups(operations);
    assert.deepEqual(groups.flat(), operations);
    const left = groups.length === 1 ? 0 : groups.length;
    assert.ok(groups.every(({ length }) => length <= 128 - left));
    assert.equal(groups.length > 1, count > 128);
  }
  assert.throws(() => transactionGroups(new Array(4_097)), { code: 'BAD_REQUEST' });
});
