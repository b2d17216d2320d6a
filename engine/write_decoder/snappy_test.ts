import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeSnappy, encodeSnappy, encodeSnappyParts } from './snappy.ts';

test('decodeSnappy() gives back what encodeSnappy() was given', () => {
  const random = new Uint8Array(70_000);
  for (let i = 0; i < random.length; i++) random[i] = Math.imul(i, 0x9e3779b1) >>> 24;
  const inputs = [
    new Uint8Array(0),
    new TextEncoder().encode('a'),
    new TextEncoder().encode('abcabcabcabcabcabcabcabcabcabcabcabc'),
    new Uint8Array(200_000),
    random,
    Buffer.concat([random, random, new Uint8Array(100), random.subarray(5)]),
  ];
  for (const input of inputs) {
    const encoded = encodeSnappy(input);
    assert.deepEqual(decodeSnappy(encoded, input.length), new Uint8Array(input));
    assert.ok(encoded.length <= 32 + input.length + input.length / 6);
  }
  assert.ok(encodeSnappy(new Uint8Array(200_000)).length < 10_000, 'repetitions are found');
});

test('decodeSnappy() reads each kind of element of the format', () => {
  const cases: [bytes: number[], text: string][] = [
    [[3, 2 << 2, 97, 98, 99], 'abc'],
    [[3, 60 << 2, 2, 97, 98, 99], 'abc'],
    [[3, 61 << 2, 2, 0, 97, 98, 99], 'abc'],
    [[3, 63 << 2, 2, 0, 0, 0, 97, 98, 99], 'abc'],
    [[7, 2 << 2, 97, 98, 99, 0b000_000_01, 3], 'abcabca'],
    [[6, 0, 97, (4 << 2) | 2, 1, 0], 'aaaaaa'],
    [[3, 0, 97, (1 << 2) | 3, 1, 0, 0, 0], 'aaa'],
  ];
  for (const [bytes, text] of cases) {
    assert.equal(Buffer.from(decodeSnappy(new Uint8Array(bytes), 100)).toString(), text);
  }
});

test('decodeSnappy() refuses what is cut off, points outside or is too long', () => {
  const cases: [bytes: number[], reason: RegExp][] = [
    [[], /length in front/],
    [[0x80], /length in front/],
    [[0xff, 0xff, 0xff, 0xff, 0x7f], /length in front/],
    [[0x80, 0x80, 0x80, 0x80, 0x80, 1], /length in front/],
    [[101], /longer than 100 bytes/],
    [[3, 2 << 2, 97, 98], /corrupt/],
    [[2, 2 << 2, 97, 98, 99], /corrupt/],
    [[4, 2 << 2, 97, 98, 99], /corrupt/],
    [[3, 63 << 2, 0xff, 0xff, 0xff, 0xff, 97], /corrupt/],
    [[3, 62 << 2, 0xff], /corrupt/],
    [[5, 0, 97, 0b000_000_01, 0], /corrupt/],
    [[5, 0, 97, 0b000_000_01, 2], /corrupt/],
    [[5, 0, 97, 0b000_000_01], /corrupt/],
    [[4, 0, 97, 0b000_000_01, 1], /corrupt/],
    [[5, 0, 97, (3 << 2) | 3, 1, 0, 0], /corrupt/],
    [[5, 0, 97, (3 << 2) | 3, 255, 255, 255, 255], /corrupt/],
  ];
  for (const [bytes, reason] of cases) {
    assert.throws(() => decodeSnappy(new Uint8Array(bytes), 100), {
      code: 'BAD_REQUEST',
      message: reason,
    });
  }
});

test('parts that are compressed one by one are one block', () => {
  const parts = [0, 1, 10, 70_000, 3].map((length, seed) =>
    Uint8Array.from({ length }, (_, i) => (i * seed) % 50),
  );
  const block = Buffer.concat([...encodeSnappyParts(parts)]);
  assert.deepEqual(Buffer.from(decodeSnappy(block, 1 << 20)), Buffer.concat(parts));
});
