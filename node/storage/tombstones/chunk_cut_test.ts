import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chunkHeaders, encodeRawChunk } from '#engine/codec/chunk.ts';
import { encodeFloatChunk } from '#engine/codec/codec_twin.ts';
import { decodeChunkRows } from '#engine/codec/decoder_twin.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { cutChunks } from './chunk_cut.ts';

const second = 1_000_000_000n;
const start = 1_800_000_000n * second;
/** Version of a write at a time. */
const versionAt = (nanos: bigint): number => Number(versionAtNanos(nanos));
/** Prometheus's stale marker: a signalling NaN, which no conversion to a number survives. */
const staleBits = 0x7ff0000000000002n;

function columns(count: number) {
  const timestampNanos = BigInt64Array.from(
    { length: count },
    (_, i) => start + BigInt(i) * second,
  );
  const bits = new BigUint64Array(count);
  const values = new Float64Array(bits.buffer);
  for (let i = 0; i < count; i += 1) {
    if (i % 3 === 0) bits[i] = staleBits;
    else values[i] = i;
  }
  return { timestampNanos, values, bits };
}

function rowsOf(chunks: Uint8Array): { seconds: number[]; bits: bigint[] } {
  const seconds: number[] = [];
  const all: bigint[] = [];
  for (const header of chunkHeaders(chunks)) {
    const { timestampNanos, values } = decodeChunkRows(chunks, header);
    const bits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
    timestampNanos.forEach((nanos, i) => {
      seconds.push(Number((nanos - start) / second));
      all.push(bits[i]!);
    });
  }
  return { seconds, bits: all };
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

test('a range is cut out of a compressed chunk, and all bits of the others stay', () => {
  const { timestampNanos, values, bits } = columns(100);
  const expected = bits.slice();
  const chunk = encodeFloatChunk({ timestampNanos, values, version: versionAt(start) });
  const startNanos = start + 10n * second;
  const endNanos = start + 90n * second;
  const kept = cutChunks(chunk, [{ startNanos, endNanos, version: versionAt(start) }]);
  const rows = rowsOf(kept);
  assert.deepEqual(
    rows.seconds,
    upTo(100).filter((i) => i < 10 || i >= 90),
  );
  assert.deepEqual(
    rows.bits,
    rows.seconds.map((i) => expected[i]),
  );
});

test('the very bytes come back when nothing is cut, and nothing when all is', () => {
  const { timestampNanos, values } = columns(50);
  const version = versionAt(start + 100n * second);
  const chunk = encodeFloatChunk({ timestampNanos, values, version });
  const all = { startNanos: 0n, endNanos: 2n ** 62n };
  assert.equal(cutChunks(chunk, []), chunk);
  assert.equal(cutChunks(chunk, [{ ...all, startNanos: start + 50n * second, version }]), chunk);
  assert.equal(cutChunks(chunk, [{ ...all, version: versionAt(start) - 1 }]), chunk);
  assert.equal(cutChunks(chunk, [{ ...all, version }]).length, 0);
});

test('rows with versions of their own are cut by these, not by the highest one', () => {
  const { timestampNanos, values } = columns(10);
  const base = versionAt(start);
  const rowVersions = Float64Array.from(upTo(10), (i) => (i === 4 ? base + 1000 : base + i));
  const chunk = encodeRawChunk({ timestampNanos, values, version: base + 1000, rowVersions });
  const all = { startNanos: 0n, endNanos: 2n ** 62n };
  const kept = cutChunks(chunk, [{ ...all, version: base + 6 }]);
  assert.deepEqual(rowsOf(kept).seconds, [4, 7, 8, 9]);
  const [header] = chunkHeaders(kept);
  assert.deepEqual(
    [...decodeChunkRows(kept, header!).rowVersions],
    [1000, 7, 8, 9].map((v) => base + v),
  );
});

test('a compressed chunk that is newer than the deletion loses the rows of times before it', () => {
  const { timestampNanos, values } = columns(100);
  const chunk = encodeFloatChunk({
    timestampNanos,
    values,
    version: versionAt(start + 100n * second),
  });
  const version = versionAt(start + 60n * second);
  const kept = cutChunks(chunk, [{ startNanos: 0n, endNanos: 2n ** 62n, version }]);
  assert.deepEqual(
    rowsOf(kept).seconds,
    upTo(100).filter((i) => i > 60),
  );
});

test('chunks one after the other are cut one by one', () => {
  const chunks = [0, 1, 2].map((part) => {
    const { timestampNanos, values } = columns(10);
    const moved = timestampNanos.map((nanos) => nanos + BigInt(part) * 10n * second);
    return encodeFloatChunk({ timestampNanos: moved, values, version: versionAt(start) });
  });
  const startNanos = start + 5n * second;
  const cut = { startNanos, endNanos: start + 25n * second, version: versionAt(start) };
  const kept = cutChunks(new Uint8Array(Buffer.concat(chunks)), [cut]);
  assert.deepEqual(
    rowsOf(kept).seconds,
    upTo(30).filter((i) => i < 5 || i >= 25),
  );
});
