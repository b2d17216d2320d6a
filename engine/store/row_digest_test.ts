import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeFloatChunk } from '../codec/codec_twin.ts';
import { digestSeries } from './row_digest.ts';
import { fuzz, inputsOfRound } from './row_digest_fuzz.ts';

const id = new TextEncoder().encode('cpu{host="a"}');
const second = 1_000_000_000n;
const start = 1_700_000_000n * second;
const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;

function chunk(values: readonly number[], version: number): Uint8Array {
  const timestampNanos = BigInt64Array.from(values, (_, i) => start + BigInt(i) * second);
  return encodeFloatChunk({ timestampNanos, values: Float64Array.from(values), version });
}

test('a digest is stored and compared between releases, so it never changes', () => {
  assert.deepEqual(digestSeries(id, [chunk([1, 2, 3], 7)], ...allTimes), {
    idHash: 3448410321,
    low: 13796155480555210998n,
    high: 451167786749013844n,
  });
});

test('no rows have the digest 0', () => {
  const { low, high } = digestSeries(id, [], ...allTimes);
  assert.deepEqual([low, high], [0n, 0n]);
  const before = digestSeries(id, [chunk([1, 2], 7)], start - second, start);
  assert.deepEqual([before.low, before.high], [0n, 0n]);
});

test('of two rows with one time the one that wins counts, whatever versions there are', () => {
  const wanted = digestSeries(id, [chunk([5, 2], 9)], ...allTimes);
  const parts = [chunk([5], 4), chunk([1, 2], 3)];
  assert.deepEqual(digestSeries(id, parts, ...allTimes), wanted);
  assert.deepEqual(digestSeries(id, parts.toReversed(), ...allTimes), wanted);
});

test('values that change places are told', () => {
  const one = digestSeries(id, [chunk([1, 2], 1)], ...allTimes);
  const other = digestSeries(id, [chunk([2, 1], 1)], ...allTimes);
  assert.notEqual(one.low, other.low);
  assert.notEqual(one.high, other.high);
});

test('a chunk that is malformed is refused', () => {
  const bad = chunk([1, 2, 3], 7);
  bad[bad.length - 1]! ^= 0xff;
  assert.throws(() => digestSeries(id, [bad.subarray(0, 9)], ...allTimes), { code: 'BAD_REQUEST' });
});

test('digests are those of their twin, and the same however the rows lie in chunks', () => {
  for (let seed = 1; seed <= 3; seed++) fuzz(seed, Math.ceil(400 / inputsOfRound));
});
