import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chunkHeaders, encodeRawChunk, parseChunkHeader } from './chunk.ts';
import { encodeRowsChunk } from './chunk_rows.ts';
import { Decoder } from '../store/decoder.ts';
import { emptyBundle, type SeriesBundle } from './series_bundle.ts';

const staleMarkerBits = 0x7ff0000000000002n;

function bundleOf(...chunks: Uint8Array[]): SeriesBundle {
  const chunkData = new Uint8Array(Buffer.concat(chunks));
  return {
    ...emptyBundle,
    seriesCount: 1,
    chunkData,
    chunkOffset: Uint32Array.of(0, chunkData.length),
  };
}

function floats(...bits: bigint[]): Float64Array {
  return new Float64Array(BigUint64Array.from(bits).buffer);
}

test('a raw chunk keeps any nanosecond and any float bits', () => {
  const timestampNanos = BigInt64Array.of(-7n, 0n, 1n, 1_700_000_000_123_456_789n);
  const values = floats(staleMarkerBits, 0x8000000000000000n, 0x7ff8dead0000beefn, 1n);
  const chunk = encodeRawChunk({ timestampNanos, values, version: 77 });
  const decoder = new Decoder();
  const rows = decoder.decode(bundleOf(chunk), 0, -(2n ** 63n), 2n ** 63n - 1n);
  assert.equal(rows, 4);
  assert.deepEqual(decoder.timestampNanos.slice(0, rows), timestampNanos);
  assert.deepEqual(decoder.valueWords.slice(0, 2 * rows), new Uint32Array(values.buffer));
  assert.deepEqual(
    Array.from(decoder.timestampMillis).slice(0, rows),
    [-1, 0, 0, 1_700_000_000_123],
  );
});

test('a chunk header gives rows, range, version and unit back', () => {
  const chunk = encodeRawChunk({
    timestampNanos: BigInt64Array.of(1_000_000_000n, 31_000_000_000n),
    values: Float64Array.of(1, 2),
    version: 112_000_000_000_123,
  });
  const header = parseChunkHeader(chunk, 0, chunk.length);
  assert.equal(header.rowCount, 2);
  assert.equal(header.firstNanos, 1_000_000_000n);
  assert.equal(header.lastNanos, 31_000_000_000n);
  assert.equal(header.version, 112_000_000_000_123);
  assert.equal(header.timeUnitNanos, 1_000_000_000n);
  assert.equal(header.end, chunk.length);
});

test('of two rows with one timestamp the higher version stays, then the larger bits', () => {
  const at = (nanos: bigint[], values: number[], version: number) =>
    encodeRawChunk({
      timestampNanos: BigInt64Array.from(nanos),
      values: Float64Array.from(values),
      version,
    });
  const decoder = new Decoder();
  const decode = (...chunks: Uint8Array[]) => {
    const rows = decoder.decode(bundleOf(...chunks), 0, 0n, 100n);
    return Array.from(decoder.values).slice(0, rows);
  };
  const [old, recent] = [at([1n, 2n, 3n], [10, 20, 30], 5), at([2n, 4n], [7, 40], 6)];
  assert.deepEqual(decode(old, recent), [10, 7, 30, 40]);
  assert.deepEqual(decode(recent, old), [10, 7, 30, 40]);
  assert.deepEqual(decode(at([1n], [3], 5), at([1n], [-1], 5)), [-1]);
  assert.deepEqual(decode(at([1n], [3], 5), at([1n], [4], 5)), [4]);
});

for (const encode of [encodeRawChunk, encodeRowsChunk]) {
  test(`row versions decide, not the version of the chunk: ${encode.name}`, () => {
    const head = encode({
      timestampNanos: BigInt64Array.of(1n, 2n),
      values: Float64Array.of(1, 2),
      version: 9,
      rowVersions: Float64Array.of(3, 9),
    });
    const other = encodeRawChunk({
      timestampNanos: BigInt64Array.of(1n, 2n),
      values: Float64Array.of(100, 200),
      version: 5,
    });
    const decoder = new Decoder();
    const rows = decoder.decode(bundleOf(head, other), 0, 0n, 100n);
    assert.deepEqual(Array.from(decoder.values).slice(0, rows), [100, 2]);
  });
}

test('a chunk of rows takes two bytes for a row that goes on as the one before', () => {
  const rowCount = 240;
  const rows = {
    timestampNanos: BigInt64Array.from({ length: rowCount }, (_, i) => BigInt(i) * 15_000_000_000n),
    values: Float64Array.from({ length: rowCount }, (_, i) => 50 + (i % 7)),
    version: 77,
    rowVersions: new Float64Array(rowCount).fill(77),
  };
  const chunk = encodeRowsChunk(rows);
  assert.ok(chunk.length < 2 * rowCount + 40, String(chunk.length));
  const decoder = new Decoder();
  assert.equal(decoder.decode(bundleOf(chunk), 0, 0n, 2n ** 62n), rowCount);
  assert.deepEqual(decoder.values.slice(0, rowCount), rows.values);
  assert.deepEqual(decoder.timestampNanos.slice(0, rowCount), rows.timestampNanos);
});

test('decoding gives only the rows of the range, its end excluded', () => {
  const chunk = encodeRawChunk({
    timestampNanos: BigInt64Array.of(10n, 20n, 30n),
    values: Float64Array.of(1, 2, 3),
    version: 1,
  });
  const decoder = new Decoder();
  assert.equal(decoder.decode(bundleOf(chunk), 0, 10n, 30n), 2);
  assert.equal(decoder.decode(bundleOf(chunk), 0, 31n, 40n), 0);
});

test('a chunk that is cut or changed is refused as BAD_REQUEST', () => {
  const chunk = encodeRawChunk({
    timestampNanos: BigInt64Array.of(10n, 20n, 30n),
    values: Float64Array.of(1, 2, 3),
    version: 1,
  });
  for (let length = 1; length < chunk.length; length++) {
    assert.throws(() => [...chunkHeaders(chunk.slice(0, length))], { code: 'BAD_REQUEST' });
  }
  const unknownKind = chunk.slice();
  unknownKind[1] = 15;
  assert.throws(() => [...chunkHeaders(unknownKind)], /unknown kind/);
});

test('a decoder that takes over the memory of another one starts afresh', () => {
  const chunk = encodeRawChunk({
    timestampNanos: BigInt64Array.of(10n, 20n, 30n),
    values: Float64Array.of(1, 2, 3),
    version: 1,
  });
  const decodeOnce = () => {
    using decoder = new Decoder();
    const rows = decoder.decode(bundleOf(chunk), 0, 20n, 40n);
    return Array.from(decoder.values).slice(0, rows);
  };
  for (let i = 0; i < 20; i++) assert.deepEqual(decodeOnce(), [2, 3]);
});
