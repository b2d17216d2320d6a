import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isPrintable } from './printable.ts';

const printableHere = /[\p{L}\p{M}\p{N}\p{P}\p{S}]/u;

test('characters are printable by their categories in Unicode 15.0, and newer ones are not', () => {
  const newer: number[] = [];
  for (let codePoint = 0x80; codePoint <= 0x10ffff; codePoint += 1) {
    const isHere = printableHere.test(String.fromCodePoint(codePoint));
    if (isPrintable(codePoint)) assert.ok(isHere, codePoint.toString(16));
    else if (isHere) newer.push(codePoint);
  }
  // Unicode 15.1 has 627 more, and each version since some thousands.
  const [major, minor] = process.versions['unicode']!.split('.').map(Number);
  if (major === 15) assert.equal(newer.length, minor === 0 ? 0 : 627);
  // Ideographs that came with 15.1, and a garay letter of 16.0, are none whatever the runtime knows.
  for (const codePoint of [0x2ebf0, 0x10d4a]) assert.equal(isPrintable(codePoint), false);
  const of = (text: string) => Array.from(text, (each) => isPrintable(each.codePointAt(0)!));
  assert.deepEqual(of('¡üж漢😀\u0301'), Array(6).fill(true));
  assert.deepEqual(of('\u0080\u00a0\u00ad\u200b\u2028\u3000\ue000\ufffe'), Array(8).fill(false));
});
