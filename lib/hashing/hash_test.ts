import assert from 'node:assert/strict';
import { test } from 'node:test';
import { murmur3, shardOf } from './hash.ts';

test('murmur3() gives the published vectors of MurmurHash3_x86_32', () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  assert.equal(murmur3(bytes('')), 0);
  assert.equal(murmur3(bytes(''), 1), 0x514e28b7);
  assert.equal(murmur3(bytes('test')), 0xba6bd213);
  assert.equal(murmur3(bytes('Hello, world!')), 0xc0363e43);
  assert.equal(murmur3(bytes('The quick brown fox jumps over the lazy dog')), 0x2e4ff723);
});

test('shardOf() stays below the number of shards', () => {
  for (let i = 0; i < 100; i++) assert.ok(shardOf(new TextEncoder().encode(`id${i}`), 64) < 64);
});
