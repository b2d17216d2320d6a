import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { bench } from './batch_bench.ts';
import { fuzz } from './batch_fuzz.ts';
import { BatchBuilder, batchRowsMax, compactBatch, readBatch } from './batch.ts';

const text = (value: string): Uint8Array => new TextEncoder().encode(value);

/**
 * Values whose bits a number would lose or confuse: signalling NaN (stale marker), quiet NaN with
 * payload, -0.
 */
const delicateBits = [
  0x7ff0000000000002n,
  0x7ff8000000000001n,
  0xfff000000000bad1n,
  0x8000000000000000n,
  0x7ff0000000000000n,
  0x0000000000000001n,
];

function bitsOf(values: Float64Array): bigint[] {
  return [...new BigUint64Array(values.buffer, values.byteOffset, values.length)];
}

/** The batch that docs/formats/batch.md draws and test/fixtures/batch_v1.bin holds. */
function exampleBatch(): Uint8Array {
  const builder = new BatchBuilder();
  builder.begin(112_742_891_520_001);
  const ordinal = builder.addSeries(text('\u0008\0__name__\u0002\0up'), 1, text(''));
  builder.setRows(
    3,
    new Uint32Array([7, 8, ordinal]),
    new Uint32Array([2, 1, 0]),
    new BigInt64Array([1_700_000_000_000n, 1_700_000_000_000n, 1_700_000_000_000n]),
    1_000_000,
    new Float64Array(new BigUint64Array([0x3ff0000000000000n, 0x7ff0000000000002n, 0n]).buffer),
  );
  return builder.finish();
}

test('a batch is read as it was built', () => {
  const builder = new BatchBuilder();
  for (let round = 0; round < 2; round++) {
    builder.begin(1000 + round);
    const first = builder.addSeries(text('first tags'), 1, text(''));
    const second = builder.addSeries(text('second'), 0, text('explicit id'));
    const slots = new Uint32Array([5, first, second, 9]);
    const generations = new Uint32Array([1, 0, 0, 3]);
    const timestamps = new BigInt64Array([-1n, 2n ** 63n - 1n, -(2n ** 63n), 17n]);
    const values = new Float64Array([1.5, -2, 0, 1e300]);
    builder.setRows(4, slots, generations, timestamps, 1, values);
    const bytes = builder.finish();
    for (const encoded of [bytes, compactBatch(bytes)]) {
      const view = readBatch(encoded);
      assert.equal(view.version, 1000 + round);
      assert.equal(view.rowCount, 4);
      assert.deepEqual(view.slots, slots);
      assert.deepEqual(view.generations, generations);
      assert.deepEqual(view.timestamps, timestamps);
      assert.deepEqual(view.values, values);
      assert.equal(view.timeUnitNanos, 1);
      assert.equal(view.seriesCount, 2);
      assert.deepEqual([view.seriesIdScheme(0), view.seriesIdScheme(1)], [1, 0]);
      assert.equal(Buffer.from(view.seriesTags(0)).toString(), 'first tags');
      assert.equal(Buffer.from(view.seriesTags(1)).toString(), 'second');
      assert.equal(Buffer.from(view.seriesId(0)).toString(), '');
      assert.equal(Buffer.from(view.seriesId(1)).toString(), 'explicit id');
      assert.throws(() => view.seriesTags(2), RangeError);
    }
  }
});

test('a batch without rows, without series or without both is read', () => {
  const builder = new BatchBuilder();
  builder.begin(0);
  assert.equal(readBatch(builder.finish()).rowCount, 0);
  builder.begin(1);
  builder.addSeries(text('tags'), 2, text(''));
  const view = readBatch(builder.finish());
  assert.deepEqual([view.rowCount, view.seriesCount, view.seriesIdScheme(0)], [0, 1, 2]);
});

test('NaN payloads and the sign of zero survive raw, constant and compact columns', () => {
  const builder = new BatchBuilder();
  const bits = new BigUint64Array([...delicateBits, 0x3ff0000000000000n, ...delicateBits]);
  const rowCount = bits.length;
  builder.begin(1);
  builder.setRows(
    rowCount,
    new Uint32Array(rowCount),
    new Uint32Array(rowCount).fill(1),
    new BigInt64Array(rowCount),
    1_000_000,
    new Float64Array(bits.buffer),
  );
  const bytes = builder.finish();
  assert.deepEqual(bitsOf(readBatch(bytes).values), [...bits]);
  assert.deepEqual(bitsOf(readBatch(compactBatch(bytes)).values), [...bits]);
});

test('compact columns of a usual scrape take a fraction of the raw ones', () => {
  const rowCount = 2000;
  const builder = new BatchBuilder();
  builder.begin(1);
  const values = Float64Array.from({ length: rowCount }, (_, i) => (i * 37) % 100);
  builder.setRows(
    rowCount,
    Uint32Array.from({ length: rowCount }, (_, i) => i + 40),
    new Uint32Array(rowCount).fill(1),
    new BigInt64Array(rowCount).fill(1_700_000_000_000n),
    1_000_000,
    values,
  );
  const bytes = builder.finish();
  const compact = compactBatch(bytes);
  assert.ok(bytes.length < rowCount * 12 + 300, 'generation and timestamp are constants');
  assert.ok(compact.length < rowCount + 300, `one byte a value: ${compact.length}`);
  assert.deepEqual(readBatch(compact).values, values);
  assert.deepEqual(readBatch(compact).slots, readBatch(bytes).slots);
  assert.deepEqual(compactBatch(compact), compact);
});

test('readBatch() copies what is not aligned', () => {
  const bytes = exampleBatch();
  const shifted = Buffer.alloc(bytes.length + 8);
  for (const offset of [0, 1, 4]) {
    shifted.set(bytes, offset);
    const view = readBatch(shifted.subarray(offset, offset + bytes.length));
    assert.deepEqual([...view.slots], [7, 8, 0]);
    assert.equal(bitsOf(view.values)[1], 0x7ff0000000000002n);
  }
});

test('format version 1 is what test/fixtures/batch_v1.bin holds', () => {
  const golden = readFileSync(new URL('../../test/fixtures/batch_v1.bin', import.meta.url));
  assert.equal(Buffer.from(exampleBatch()).toString('hex'), golden.toString('hex'));
  const view = readBatch(golden);
  assert.equal(view.version, 112_742_891_520_001);
  assert.deepEqual([...view.slots], [7, 8, 0]);
  assert.deepEqual([...view.generations], [2, 1, 0]);
  assert.equal(view.timestamps[2], 1_700_000_000_000n);
  assert.equal(Buffer.from(view.seriesTags(0)).toString(), '\u0008\0__name__\u0002\0up');
});

test('readBatch() refuses a wrong batch and names what is wrong', () => {
  const good = exampleBatch();
  const change = (edit: (view: DataView) => void): Uint8Array => {
    const bytes = new Uint8Array(good);
    edit(new DataView(bytes.buffer));
    return bytes;
  };
  const cases: [Uint8Array, RegExp][] = [
    [new Uint8Array(0), /shorter than its header: 0/],
    [good.subarray(0, good.length - 8), /byte length differs/],
    [change((v) => v.setUint8(0, 65)), /magic is unknown/],
    [change((v) => v.setUint16(4, 2, true)), /format version is unknown: 2/],
    [change((v) => v.setFloat64(16, 0.5, true)), /version is not a whole number/],
    [change((v) => v.setFloat64(16, Number.NaN, true)), /version is not a whole number/],
    [change((v) => v.setUint8(24, 1)), /reserved header bytes/],
    [change((v) => v.setUint16(6, 9, true)), /too many sections: 9/],
    [change((v) => v.setUint8(32, 77)), /section kind is unknown: 77/],
    [change((v) => v.setUint8(48, 1)), /section kind appears twice|is missing|unknown in section/],
    [change((v) => v.setUint8(33, 4)), /time unit exponent/],
    [change((v) => v.setUint16(34, 3, true)), /column is missing: 4/],
    [change((v) => v.setUint32(36, batchRowsMax + 1, true)), /more than 1048576 rows/],
    [change((v) => v.setUint32(36, 4, true)), /column slot is not 16 bytes long: 12/],
    [change((v) => v.setUint32(40, 0xffff_fff8, true)), /column directory lies outside/],
    [change((v) => v.setUint32(68, 0xffff_fff8, true)), /column 1 lies outside/],
    [change((v) => v.setUint32(72, 0xffff_ffff, true)), /column 1 lies outside/],
    [change((v) => v.setUint8(64, 2)), /column appears twice: 2/],
    [change((v) => v.setUint8(64, 3)), /column appears twice: 3/],
    [change((v) => v.setUint8(64, 9)), /column is unknown in section kind 1: 9/],
    [change((v) => v.setUint8(65, 9)), /column slot has an unknown encoding: 9/],
    [change((v) => v.setUint8(65, 2)), /column slot is malformed/],
    [
      change((v) => v.setUint32(v.getUint32(68, true) + 8, 1, true)),
      /row 2 names a dictionary entry/,
    ],
  ];
  for (const [bytes, reason] of cases) {
    assert.throws(() => readBatch(bytes), { code: 'BAD_REQUEST', message: reason });
  }
});

test('BatchBuilder refuses more rows than a batch may have', () => {
  const builder = new BatchBuilder();
  builder.begin(1);
  const none = new Uint32Array(0);
  assert.throws(
    () =>
      builder.setRows(batchRowsMax + 1, none, none, new BigInt64Array(0), 1, new Float64Array(0)),
    { code: 'BAD_REQUEST' },
  );
});

test('generated batches come back as built, mutated ones are refused or whole', () => {
  for (let seed = 1; seed <= 3; seed++) fuzz(seed, 50);
});

test('the benchmark of batches runs', async () => {
  for (const { value } of await bench('small')) assert.ok(value >= 0);
});
