import assert from 'node:assert/strict';
import { test } from 'node:test';
import { adler32 } from './adler32.ts';

const utf8 = (text: string) => new Uint8Array(Buffer.from(text));

test('sums are those that are known', () => {
  assert.equal(adler32(utf8('')), 1);
  assert.equal(adler32(utf8('Wikipedia')), 0x11e60398);
  assert.equal(adler32(new Uint8Array(1 << 20).fill(255)), expected(1 << 20));
});

test('bytes may come in parts', () => {
  const bytes = new Uint8Array(100_000).map((_, at) => at * 7);
  const first = adler32(bytes.subarray(0, 33_333));
  assert.equal(adler32(bytes.subarray(33_333), first), adler32(bytes));
});

/** By the definition, for bytes that are all 255. */
function expected(count: number): number {
  const a = (1n + 255n * BigInt(count)) % 65_521n;
  const b = (BigInt(count) + (255n * BigInt(count) * BigInt(count + 1)) / 2n) % 65_521n;
  return Number((b << 16n) | a);
}
