import assert from 'node:assert/strict';
import { test } from 'node:test';
import { histogramChunks } from '#coordinator/remote/histogram_chunk.ts';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import {
  customSchema,
  type Histogram,
  histogramOfValue,
  resetHint,
  staleBits,
  staleHistogram,
} from '#engine/typed/histogram.ts';
import { customHistogramValues, histogramValues } from '#engine/typed/samples_testing.ts';
import fc from '#test/property_testing.ts';
import { damageOf } from './damage.ts';
import { histogramRows } from './histogram_chunk.ts';

const damage = damageOf('chunks/000001');

/** What a series goes through. */
function valuesOf(numbers: SeededNumbers): Uint8Array[] {
  const values: Uint8Array[] = [];
  for (let parts = 1 + numbers.below(4); parts > 0; parts--) {
    const count = 1 + numbers.below(140);
    const shape = { perRow: 1 + numbers.below(100), schema: numbers.below(8) - 2 };
    const kind = numbers.below(6);
    if (kind === 0) values.push(...customHistogramValues(numbers, count));
    else if (kind === 1) values.push(staleHistogram);
    else if (kind === 2)
      values.push(...histogramValues(numbers, count, { ...shape, isGauge: true }));
    else if (kind === 3)
      values.push(...histogramValues(numbers, count, { ...shape, scale: 1 / 3 }));
    else values.push(...histogramValues(numbers, count, shape));
  }
  return values;
}

test('histograms of our own encoder are read back bit for bit', () => {
  const numbers = new SeededNumbers(17);
  const seen = new Set<string>();
  for (let series = 0; series < 60; series++) {
    let millis = 1_700_000_000_000 + numbers.below(1000);
    const all = valuesOf(numbers).map((value) => {
      millis += 15_000 + (numbers.below(4) === 0 ? numbers.below(50) : 0);
      return { millis, histogram: histogramOfValue(value) };
    });
    for (const { encoding, rows, data } of histogramChunks(all)) {
      const read = histogramRows(data, encoding === 3, damage);
      assert.deepEqual(
        [...read.millis],
        rows.map((row) => row.millis),
      );
      const flags = data[2]!;
      for (const [row, { histogram }] of rows.entries()) {
        const isCounter = histogram.hint !== resetHint.gauge && histogram.sumBits !== staleBits;
        // A reset that the counts show is told by the chunk.
        const isReset = isCounter && row === 0 && flags === 0x80;
        const hint = isReset ? resetHint.reset : histogram.hint;
        assert.deepEqual(read.histograms[row], { ...histogram, hint });
        seen.add(`${encoding} ${flags} ${histogram.schema === customSchema}`);
      }
    }
  }
  const combinations = ['2 0 false', '2 128 false', '2 192 false', '2 0 true', '3 0 false'];
  for (const each of combinations) assert.ok(seen.has(each), `${each} is tried`);
});

const base: Histogram = {
  isFloat: false,
  schema: 3,
  hint: resetHint.unknown,
  zeroThreshold: 2 ** -128,
  count: 12,
  zeroCount: 1,
  sumBits: 0x4000_0000_0000_0000n,
  customBounds: new Float64Array(0),
  positive: { indexes: Int32Array.of(-5, -4, 7), counts: Float64Array.of(3, 4, 4) },
  negative: { indexes: new Int32Array(0), counts: new Float64Array(0) },
};

test('thresholds, bounds and bits of all sizes are read back', () => {
  for (const histogram of [
    { ...base, zeroThreshold: 0 },
    { ...base, zeroThreshold: 2 ** -243 },
    { ...base, zeroThreshold: 1024 },
    { ...base, zeroThreshold: 0.3 },
    { ...base, negative: { indexes: Int32Array.of(1000), counts: Float64Array.of(2 ** 51) } },
    { ...base, isFloat: true, count: NaN, sumBits: 0x7ff8_0000_0000_0001n },
    {
      ...base,
      schema: customSchema,
      zeroThreshold: 0,
      zeroCount: 0,
      customBounds: Float64Array.of(-1, 0, 0.005, 33_554.43, 33_554.431, 1e300),
      positive: { indexes: Int32Array.of(0, 6), counts: Float64Array.of(5, 7) },
    },
  ]) {
    const next = { ...histogram, count: histogram.count + 2 };
    const rows = [histogram, next].map((each, i) => ({ millis: 1000 * i, histogram: each }));
    const [chunk] = histogramChunks(rows);
    const { histograms } = histogramRows(chunk!.data, chunk!.encoding === 3, damage);
    assert.deepEqual(histograms, [histogram, next]);
  }
});

/** Bits as a text, a byte at the end filled up. */
function bytesOf(bits: string): Uint8Array {
  const text = bits.replaceAll(/[^01]/g, '');
  return Uint8Array.from({ length: Math.ceil(text.length / 8) }, (_, i) =>
    Number.parseInt(text.slice(8 * i, 8 * i + 8).padEnd(8, '0'), 2),
  );
}

const u16 = (value: number): string => value.toString(2).padStart(16, '0');
const u64 = (value: bigint): string => value.toString(2).padStart(64, '0');

test('a stale marker ends the rows of a chunk, without buckets', () => {
  // Two rows of whole counts: threshold 0, schema 0, one positive span of one bucket from 0 on.
  const layout = '00000000 0 10001 10001 0 0';
  const first = `0 10010 0 ${u64(0x4000_0000_0000_0000n)} 10010`;
  const xor = u64(0x4000_0000_0000_0000n ^ staleBits);
  const second = `10001 10110 0 11 00000 000000 ${xor}`;
  const read = histogramRows(
    bytesOf(`${u16(2)} 01000000 ${layout} ${first} ${second}`),
    false,
    damage,
  );
  assert.deepEqual([...read.millis], [0, 1]);
  assert.deepEqual(read.histograms[0], {
    ...base,
    schema: 0,
    zeroThreshold: 0,
    count: 2,
    zeroCount: 0,
    positive: { indexes: Int32Array.of(0), counts: Float64Array.of(2) },
  });
  assert.deepEqual(read.histograms[1], histogramOfValue(staleHistogram));
});

test('layouts that cannot be are refused', () => {
  const refuse = (bits: string, message: RegExp) => {
    assert.throws(() => histogramRows(bytesOf(bits), false, damage), {
      code: 'BAD_REQUEST',
      message,
    });
  };
  const head = `${u16(1)} 00000000 00000000`;
  refuse(`${u16(0)} 00000000`, /chunk has no rows/);
  refuse(`${head} 1110 000001001`, /schema of histograms is not known: 9/);
  refuse(`${head} 0 11111110 ${'1'.repeat(56)}`, /too short for 72057594037927940 spans/);
  refuse(`${head} 0 10001 11111110 ${'1'.repeat(56)}`, /too short for 72057594037927940 buckets/);
  refuse(`${head} 0 10010 10001 0 10001 10111 ${'0'.repeat(80)}`, /buckets do not ascend/);
  refuse(
    `${head} 0 10001 10001 11111110 ${(2n ** 40n).toString(2).padStart(56, '0')} ${'0'.repeat(99)}`,
    /buckets are beyond 32 bits/,
  );
  refuse(`${head} 0 10001 10001 0 0 0 0 0 ${u64(0n)} 10111`, /bucket has a negative count: -1/);
});

test('a chunk that is cut, or any bytes, are refused or rows that ascend', () => {
  const numbers = new SeededNumbers(5);
  const values = histogramValues(numbers, 30, { perRow: 20, schema: 2 });
  const rows = values.map((value, i) => ({
    millis: 1000 * i,
    histogram: histogramOfValue(value),
  }));
  const [chunk] = histogramChunks(rows);
  for (let end = 0; end < chunk!.data.length; end++) {
    assert.throws(() => histogramRows(chunk!.data.subarray(0, end), false, damage), {
      code: 'BAD_REQUEST',
    });
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 120 }), fc.boolean(), (data, isFloat) => {
      data[0] = 0;
      try {
        const { millis } = histogramRows(data, isFloat, damage);
        assert.ok(millis.every((each, i) => i === 0 || each > millis[i - 1]!));
      } catch (error) {
        assert.equal((error as { code?: string }).code, 'BAD_REQUEST');
      }
    }),
    { numRuns: 3000 },
  );
});
