import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeRawChunk } from '#engine/codec/chunk.ts';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import { readMixedRows } from '#engine/store/read/mixed_rows.ts';
import { encodeTypedRows } from '#engine/typed/codec.ts';
import { inColumns } from '#engine/typed/codec_fuzz.ts';
import { histogramOfValue } from '#engine/typed/histogram.ts';
import { histogramValues } from '#engine/typed/samples_testing.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { type MixedRow, protocolSlices } from './mixed_rows.ts';

const begin = 1_700_000_000_000_000_000n;

/** Chunks of floats and histograms that overlap, some of several rows a millisecond. */
function chunksOf(numbers: SeededNumbers, chunkCount: number): Uint8Array[] {
  let from = begin;
  return Array.from({ length: chunkCount }, () => {
    from += BigInt(numbers.below(400)) * 700_000n;
    const rowCount = 1 + numbers.below(300);
    const stepNanos = [400_000n, 1_000_000n, 15_000_000n][numbers.below(3)]!;
    const timestampNanos = BigInt64Array.from(
      { length: rowCount },
      (_, i) => from + BigInt(i) * stepNanos,
    );
    if (numbers.below(2) === 0) {
      const values = Float64Array.from({ length: rowCount }, () => numbers.below(1000));
      return encodeRawChunk({ timestampNanos, values, version: 0 });
    }
    const rowVersions = Float64Array.from(timestampNanos, (nanos) => Number(versionAtNanos(nanos)));
    const values = histogramValues(numbers, rowCount, { perRow: 5, schema: 2 });
    return encodeTypedRows(inColumns({ timestampNanos, values, rowVersions, startNanos: null }));
  });
}

/** All at once. */
function definition(chunks: readonly Uint8Array[], range: readonly [bigint, bigint]): MixedRow[] {
  const { timestampNanos, values, typed } = readMixedRows(chunks, range);
  const bits = new BigUint64Array(values.buffer);
  const byMillis = new Map<number, MixedRow>();
  for (const [row, nanos] of timestampNanos.entries()) {
    const millis = Number(nanos / 1_000_000n);
    const value = typed[row] ?? null;
    if (value === null) byMillis.set(millis, { millis, valueBits: bits[row]! });
    else byMillis.set(millis, { millis, histogram: histogramOfValue(value) });
  }
  return [...byMillis.values()];
}

test('slices have what one reading of all has, and few rows each', () => {
  const numbers = new SeededNumbers(91);
  let slices = 0;
  for (let round = 0; round < 30; round++) {
    const chunks = chunksOf(numbers, 1 + numbers.below(20));
    const startNanos = begin + BigInt(numbers.below(300)) * 7_000_000n;
    const endNanos = startNanos + BigInt(numbers.below(4000)) * 1_300_000n;
    const range = round % 3 === 0 ? ([0n, 2n ** 70n] as const) : ([startNanos, endNanos] as const);
    const found: MixedRow[] = [];
    for (const rows of protocolSlices(new Uint8Array(Buffer.concat(chunks)), {
      startNanos: range[0],
      endNanos: range[1],
    })) {
      assert.ok(rows.length > 0);
      found.push(...rows);
      slices += 1;
    }
    const end = range[1] > 2n ** 63n - 1n ? 2n ** 63n - 1n : range[1];
    assert.deepEqual(found, definition(chunks, [range[0], end]), `round ${round}`);
  }
  assert.ok(slices > 40, `${slices}`);
});
