import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hash128 } from './hash128.ts';

function wordsOf(bytes: Uint8Array, key: readonly [number, number]): Uint32Array {
  const out = new Uint32Array(4);
  hash128(bytes, key, out);
  return out;
}

test('the first two words of hash128() are HalfSipHash-2-4', () => {
  // Of the key 00 01 … 07 and the bytes 00 01 …
  const key = [0x03020100, 0x07060504] as const;
  for (const [length, hex] of [
    [0, '218d1f59b9b83cc8'],
    [1, 'be552412f8387315'],
    [2, '064f39ef7c50eb57'],
    [3, 'ce0f1a45f7060679'],
    [4, 'd5e78a175be52ea1'],
    [5, 'cb9d7c3f2f3db580'],
  ] as const) {
    const words = wordsOf(
      Uint8Array.from({ length }, (_, i) => i),
      key,
    );
    assert.equal(Buffer.from(words.buffer, 0, 8).toString('hex'), hex, `${length} bytes`);
  }
});

test('two texts that murmur3 gives one hash with any seed have hashes of their own', () => {
  const [a, b] = [
    '\x16\x01jMxxxxxxxxSzB\x027\x01\x27\x12xxxxxxxxxxxx',
    '\x1e$$8xxxxxxxx\u0494-?7\x01:fxxxxxxxxxxxx',
  ].map((text) => wordsOf(Buffer.from(text), [1, 2]));
  for (let i = 0; i < 4; i++) assert.notEqual(a![i], b![i]);
  assert.notDeepEqual(a, wordsOf(Buffer.from('x'), [1, 2]));
  assert.notDeepEqual(wordsOf(Buffer.from('x'), [1, 3]), wordsOf(Buffer.from('x'), [1, 2]));
});
