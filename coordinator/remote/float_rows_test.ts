import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeRawChunk } from '#engine/codec/chunk.ts';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import { Decoder } from '#engine/store/decoder.ts';
import { readMixedRows } from '#engine/store/read/mixed_rows.ts';
import { floatSlices } from './float_rows.ts';

const begin = 1_700_000_000_000_000_000n;
const int64Max = 2n ** 63n - 1n;

/** Chunks that overlap, some of several rows a millisecond. */
function chunksOf(numbers: SeededNumbers, chunkCount: number): Uint8Array[] {
  let from = begin;
  return Array.from({ length: chunkCount }, () => {
    from += BigInt(numbers.below(4_000)) * 700_000n;
    const rowCount = 1 + numbers.below(6_000);
    const stepNanos = [400_000n, 1_000_000n, 15_000_000n][numbers.below(3)]!;
    const timestampNanos = BigInt64Array.from(
      { length: rowCount },
      (_, i) => from + BigInt(i) * stepNanos,
    );
    const values = Float64Array.from({ length: rowCount }, () => numbers.below(1000));
    return encodeRawChunk({ timestampNanos, values, version: numbers.below(3) });
  });
}

type Row = readonly [millis: number, value: number];

/** All at once. */
function definition(chunks: readonly Uint8Array[], range: readonly [bigint, bigint]): Row[] {
  const { timestampNanos, values } = readMixedRows(chunks, range);
  const byMillis = new Map<number, number>();
  for (const [row, nanos] of timestampNanos.entries()) {
    byMillis.set(Number(nanos / 1_000_000n), values[row]!);
  }
  return [...byMillis];
}

test('slices of floats have what one reading of all has, and few rows each', () => {
  const numbers = new SeededNumbers(92);
  using decoder = new Decoder();
  let several = 0;
  for (let round = 0; round < 30; round++) {
    const chunks = chunksOf(numbers, 1 + numbers.below(20));
    const startNanos = begin + BigInt(numbers.below(300)) * 7_000_000n;
    const endNanos = startNanos + BigInt(numbers.below(40_000)) * 1_300_000n;
    const range = round % 3 === 0 ? ([0n, 2n ** 70n] as const) : ([startNanos, endNanos] as const);
    const found: Row[] = [];
    let slices = 0;
    const all = new Uint8Array(Buffer.concat(chunks));
    for (const rows of floatSlices(decoder, all, { startNanos: range[0], endNanos: range[1] })) {
      assert.ok(rows.rowCount > 0);
      const words = new BigUint64Array(rows.values.slice(0, rows.rowCount).buffer);
      for (let row = 0; row < rows.rowCount; row++) {
        found.push([rows.millis[row]!, rows.values[row]!]);
        const [low, high] = [rows.valueWords[2 * row]!, rows.valueWords[2 * row + 1]!];
        assert.equal((BigInt(high) << 32n) | BigInt(low), words[row]);
      }
      slices += 1;
    }
    if (slices > 1) several += 1;
    const end = range[1] > int64Max ? int64Max : range[1];
    assert.deepEqual(found, definition(chunks, [range[0], end]), `round ${round}`);
  }
  assert.ok(several > 5, `${several}`);
});
