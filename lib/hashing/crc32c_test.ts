import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32c } from './crc32c.ts';

/** One bit at a time, straight from the definition. */
function plain(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

test('crc32c() gives the published check values', () => {
  const ascending = Uint8Array.from({ length: 32 }, (_, index) => index);
  assert.equal(crc32c(new TextEncoder().encode('123456789')), 0xe3069283);
  assert.equal(crc32c(new Uint8Array(32)), 0x8a9136aa);
  assert.equal(crc32c(new Uint8Array(32).fill(0xff)), 0x62a8ab43);
  assert.equal(crc32c(ascending), 0x46dd794e);
});

test('crc32c() equals the bitwise definition at every length and split', () => {
  const bytes = Uint8Array.from({ length: 150 }, (_, index) => (index * 151 + 7) & 255);
  for (let length = 0; length <= bytes.length; length += 1) {
    const part = bytes.subarray(0, length);
    const expected = plain(part);
    assert.equal(crc32c(part), expected);
    assert.equal(crc32c(bytes, 0, 0, length), expected);
    for (let split = 0; split <= length; split += 5) {
      assert.equal(crc32c(part.subarray(split), crc32c(part.subarray(0, split))), expected);
      assert.equal(crc32c(bytes, crc32c(bytes, 0, 0, split), split, length), expected);
    }
  }
});
