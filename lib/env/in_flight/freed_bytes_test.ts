import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freeBytes } from './freed_bytes.ts';

test('many bytes are freed at once, where they are all of their buffer', () => {
  const bytes = new Uint8Array(64 << 10);
  const { buffer } = bytes;
  freeBytes(bytes);
  assert.equal(bytes.length, 0);
  assert.equal(buffer.detached, true);
});

test('bytes that are a part of others are left, and so are few', () => {
  const bytes = new Uint8Array(64 << 10);
  freeBytes(bytes.subarray(1));
  const few = Buffer.from('of the pool that all share');
  freeBytes(few);
  assert.equal(bytes.length, 64 << 10);
  assert.equal(few.toString(), 'of the pool that all share');
});
