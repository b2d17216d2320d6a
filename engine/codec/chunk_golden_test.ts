import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parseChunkHeader } from './chunk.ts';
import { decodeChunk } from '../store/chunk_merge.ts';
import { Decoder } from '../store/decoder.ts';
import { decodeChunkRows } from './decoder_twin.ts';
import { emptyBundle } from './series_bundle.ts';

const folder = new URL('../../test/fixtures/', import.meta.url);
const names = readdirSync(folder)
  .filter((file) => /^chunk_v\d+_.*\.bin$/.test(file))
  .map((file) => file.slice(0, -'.bin'.length));

interface Golden {
  readonly version: number;
  /** Unix nanoseconds, value bits in hexadecimal, and the row's version when it has its own. */
  readonly rows: readonly [nanos: string, bits: string, version?: number][];
}

test('there are golden chunks', () => {
  assert.ok(names.length >= 19);
});

for (const name of names) {
  test(`${name} reads as it did when it was written`, () => {
    const bytes = new Uint8Array(readFileSync(new URL(`${name}.bin`, folder)));
    const golden = JSON.parse(readFileSync(new URL(`${name}.json`, folder), 'utf8')) as Golden;
    const nanos = BigInt64Array.from(golden.rows, (row) => BigInt(row[0]));
    const bits = BigUint64Array.from(golden.rows, (row) => BigInt(`0x${row[1]}`));

    const header = parseChunkHeader(bytes, 0, bytes.length);
    assert.equal(header.version, golden.version);
    const twin = decodeChunkRows(bytes, header);
    assert.deepEqual(twin.timestampNanos, nanos);
    assert.deepEqual(new BigUint64Array(twin.values.buffer), bits);
    const versions = golden.rows.map((row) => row[2] ?? golden.version);
    assert.deepEqual(Array.from(twin.rowVersions), versions);
    assert.deepEqual(Array.from(decodeChunk(bytes).rowVersions), versions);

    const decoder = new Decoder();
    const chunkOffset = Uint32Array.of(0, bytes.length);
    const bundle = { ...emptyBundle, seriesCount: 1, chunkData: bytes, chunkOffset };
    const rows = decoder.decode(bundle, 0, -(2n ** 63n), 2n ** 63n - 1n);
    assert.deepEqual(decoder.timestampNanos.slice(0, rows), nanos);
    const words = new Uint32Array(decoder.valueWords.slice(0, 2 * rows));
    assert.deepEqual(new BigUint64Array(words.buffer), bits);
  });
}
