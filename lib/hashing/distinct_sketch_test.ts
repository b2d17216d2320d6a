import assert from 'node:assert/strict';
import { test } from 'node:test';
import { distinctCount, mergedSketch, sketchHashes, sketchOf } from './distinct_sketch.ts';
import { murmur3 } from './hash.ts';

const sketchOfRange = (from: number, end: number): Uint32Array =>
  sketchOf(Uint32Array.from({ length: end - from }, (_, i) => murmur3(Buffer.from(`${from + i}`))));

test('distinct texts of parts that share some are counted exactly while they are few', () => {
  assert.equal(distinctCount(sketchOf(new Uint32Array(0))), 0);
  assert.equal(distinctCount(sketchOf(Uint32Array.of(5, 1, 5))), 2);
  const merged = mergedSketch([
    sketchOfRange(0, 200),
    sketchOfRange(100, 300),
    sketchOfRange(0, 9),
  ]);
  assert.equal(distinctCount(merged), 300);
});

test('many distinct texts are counted to some parts of a hundred, in whatever parts they come', () => {
  for (const count of [1000, 20_000, 200_000]) {
    const parts = [sketchOfRange(0, count * 0.7), sketchOfRange(count * 0.3, count)];
    const merged = mergedSketch(parts);
    assert.equal(merged.length, sketchHashes);
    assert.deepEqual(merged, sketchOfRange(0, count));
    const found = distinctCount(merged);
    assert.ok(Math.abs(found - count) < 0.15 * count, `${found} of ${count}`);
  }
});
