import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyTable } from './key_table.ts';

const keyOf = (i: number): Uint8Array => Buffer.from(`key ${i}`);

test('keys are found with what was noted of them, until all are forgotten', () => {
  const table = new KeyTable();
  for (let i = 0; i < 20_000; i++) {
    const key = keyOf(i);
    table.add(key, key.length, Math.imul(i, 0x9e3779b1), i % 7);
  }
  for (let i = 0; i < 20_000; i++) {
    const key = keyOf(i);
    assert.equal(table.valueOf(table.find(key, key.length, Math.imul(i, 0x9e3779b1))), i % 7);
  }
  const other = keyOf(20_001);
  assert.equal(table.find(other, other.length, 5), -1);
  table.clear();
  const first = keyOf(0);
  assert.equal(table.find(first, first.length, 0), -1);
});

test('of keys that all have one hash few are kept, and others are found as before', () => {
  const table = new KeyTable();
  const other = keyOf(-1);
  table.add(other, other.length, 1, 3);
  for (let i = 0; i < 10_000; i++) {
    const key = keyOf(i);
    table.add(key, key.length, 12345, i);
  }
  assert.ok(table.count < 100, `${table.count}`);
  assert.equal(table.valueOf(table.find(other, other.length, 1)), 3);
});
