import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RangeDigests, rangeBitsFor, rangeBitsMax, rangeOf } from './range_digests.ts';

const digestOf = (i: number) => ({
  idHash: Math.imul(i, 0x9e3779b1) >>> 0,
  low: BigInt.asUintN(64, BigInt(i) * 0x9e3779b97f4a7c15n),
  high: BigInt(i) << 40n,
});

function sumsOf(rangeBits: number, from: number, end: number): RangeDigests {
  const digests = new RangeDigests(rangeBits);
  for (let i = from; i < end; i += 1) digests.add(digestOf(i));
  return digests;
}

test('ranges have some 64 series, within limits', () => {
  assert.deepEqual([0, 1, 64, 65, 128, 100_000, 1e9].map(rangeBitsFor), [
    0,
    0,
    0,
    1,
    1,
    11,
    rangeBitsMax,
  ]);
  assert.deepEqual([rangeOf(2 ** 32 - 1, 0), rangeOf(2 ** 32 - 1, 3)], [0, 7]);
});

test('replicas with other numbers of ranges compare at the smaller one', () => {
  const fine = sumsOf(9, 0, 5000);
  for (const bits of [0, 3, 8]) {
    assert.deepEqual(fine.folded(bits).sums, sumsOf(bits, 0, 5000).sums);
  }
  assert.deepEqual(fine.root(), sumsOf(0, 0, 5000).sums);
});

test('what is taken off again leaves no trace, and ranges that differ are named', () => {
  const digests = sumsOf(4, 0, 1000);
  const other = digests.copy();
  for (let i = 1000; i < 1003; i += 1) other.add(digestOf(i));
  const ranges = new Set([1000, 1001, 1002].map((i) => rangeOf(digestOf(i).idHash, 4)));
  assert.deepEqual(
    digests.differing(other.lowSums()),
    [...ranges].sort((a, b) => a - b),
  );
  for (let i = 1000; i < 1003; i += 1) other.remove(digestOf(i));
  assert.deepEqual(digests.differing(other.lowSums()), []);
});
