import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chunkHeaders, encodeRawChunk } from '../codec/chunk.ts';
import { keepRows, mergeChunks } from './chunk_merge.ts';
import { fuzz } from './chunk_merge_fuzz.ts';
import { encodeFloatChunk } from '../codec/codec_twin.ts';
import { mergeChunks as rowsOf } from '../codec/decoder_twin.ts';

const second = 1_000_000_000n;
const start = 1_700_000_000n * second;
const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;

function rows(from: number, to: number, value: number, version: number) {
  const times = Array.from({ length: to - from }, (_, i) => start + BigInt(from + i) * second);
  return {
    timestampNanos: BigInt64Array.from(times),
    values: new Float64Array(times.length).fill(value),
    version,
  };
}

test('chunks become one, whose rows are those that win', () => {
  const merged = mergeChunks([
    encodeFloatChunk(rows(100, 300, 2, 20)),
    encodeRawChunk(rows(0, 150, 1, 10)),
    encodeFloatChunk(rows(140, 145, 3, 30)),
    encodeFloatChunk(rows(400, 401, 7, 5)),
  ]);
  const headers = [...chunkHeaders(merged)];
  assert.deepEqual(
    headers.map((header) => [header.rowCount, header.version]),
    [[301, 30]],
  );
  const { values, timestampNanos } = rowsOf(merged, ...allTimes);
  assert.equal(timestampNanos.at(-1), start + 400n * second);
  assert.deepEqual(
    [values[99], values[100], values[139], values[140], values[145]],
    [1, 2, 2, 3, 2],
  );
});

test('what is cut to a range does not beat what has rewritten it', () => {
  const before = rows(0, 10, 1, 1_000);
  const rowVersions = Float64Array.from({ length: 10 }, (_, row) => 100 * row + 100);
  const chunk = encodeRawChunk({ ...before, rowVersions });
  const rewritten = encodeRawChunk(rows(0, 2, 2, 500));
  for (const past of [3, 9, 10]) {
    const [from, end] = [start, start + BigInt(past) * second] as const;
    const { values } = rowsOf(mergeChunks([keepRows(chunk, from, end), rewritten]), ...allTimes);
    assert.deepEqual([...values.subarray(0, 3)], [2, 2, 1]);
  }
});

test('of equal versions the larger bits stay, and nothing of a NaN is lost', () => {
  const parts = [5, 0, -0].map((value) => {
    const part = rows(0, 3, value, 9);
    if (Object.is(value, 0)) new BigUint64Array(part.values.buffer).fill(0x7ff0000000000002n);
    return encodeFloatChunk(part);
  });
  const bitsOf = (order: readonly number[]) => {
    const { values } = rowsOf(mergeChunks(order.map((i) => parts[i]!)), ...allTimes);
    return [...new BigUint64Array(values.buffer)];
  };
  const orders = [
    [0, 1, 2],
    [2, 1, 0],
    [1, 0, 2],
  ];
  for (const order of orders) assert.deepEqual(bitsOf(order), Array(3).fill(2n ** 63n));
  assert.deepEqual(bitsOf([0, 1]), Array(3).fill(0x7ff0000000000002n));
});

test('a row version far below that of its chunk is not taken for one above it', () => {
  const old = {
    ...rows(0, 2, 1, 2 ** 40),
    rowVersions: Float64Array.of(2 ** 40 - 2 ** 31, 2 ** 40),
  };
  const merged = mergeChunks([encodeRawChunk(old), encodeFloatChunk(rows(0, 2, 2, 2 ** 40 - 1))]);
  assert.deepEqual([...rowsOf(merged, ...allTimes).values], [2, 1]);
});

test('long merges have long chunks, each with the version of its own rows', () => {
  const merged = mergeChunks([
    encodeFloatChunk(rows(0, 6000, 1, 10)),
    encodeFloatChunk(rows(6000, 9000, 2, 20)),
    encodeFloatChunk(rows(8990, 8991, 3, 30)),
  ]);
  assert.deepEqual(
    [...chunkHeaders(merged)].map((header) => [header.rowCount, header.version]),
    [
      [3000, 10],
      [3000, 10],
      [3000, 30],
    ],
  );
});

test('nothing merges to nothing, and a damaged chunk is refused', () => {
  assert.equal(mergeChunks([]).length, 0);
  const chunk = encodeFloatChunk(rows(0, 50, 1, 10));
  assert.throws(() => mergeChunks([chunk, chunk.slice(0, -1)]), { code: 'BAD_REQUEST' });
  assert.throws(() => mergeChunks([Uint8Array.of(0)]), { code: 'BAD_REQUEST' });
  assert.deepEqual(mergeChunks([chunk, chunk]), chunk);
});

test('kernel and map agree over random and damaged parts', () => {
  fuzz(3, 60);
});
