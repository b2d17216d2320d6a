import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hash128 } from './hash128.ts';

function hexOf(bytes: Uint8Array, seed: number): string {
  const out = new Uint32Array(4);
  hash128(bytes, seed, out);
  return [...out].map((word) => word.toString(16).padStart(8, '0')).join(' ');
}

test('hash128() is MurmurHash3_x86_128', () => {
  const counted = (length: number): Uint8Array => Uint8Array.from({ length }, (_, i) => i);
  for (const [bytes, seed, hex] of [
    [Buffer.from(''), 0, '00000000 00000000 00000000 00000000'],
    [Buffer.from('a'), 0, 'a794933c 5556b01b 5556b01b 5556b01b'],
    [Buffer.from('hello'), 123, '13707469 8c971fb3 1dd3917b 1dd3917b'],
    [
      Buffer.from('The quick brown fox jumps over the lazy dog'),
      0,
      '2f1583c3 ecee2c67 5d7bf66c e5e91d2c',
    ],
    [counted(31), 0xdeadbeef, '7da5b562 49df3935 9dccb66e a0855be7'],
    [counted(16), 7, '52f05a95 524f53e7 a72c7f19 0605924f'],
  ] as const) {
    assert.equal(hexOf(bytes, seed), hex);
  }
});
