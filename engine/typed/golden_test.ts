import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { kindsAll, parseChunkHeader } from '../codec/chunk.ts';
import { decodeFloatStartsChunk } from '../codec/codec_twin.ts';
import { decodeTypedChunk, type TypedRows } from './chunk_twin.ts';
import { decodeTypedRows } from './codec.ts';
import { inColumns } from './codec_fuzz.ts';

const folder = new URL('../../test/fixtures/', import.meta.url);

/** Unix nanoseconds, the value, its version, and the start time in nanoseconds where there are some. */
type GoldenRow<Value> = readonly [nanos: string, value: Value, version: number, start?: string];

function golden<Value>(name: string): { chunk: Uint8Array; rows: readonly GoldenRow<Value>[] } {
  const chunk = new Uint8Array(readFileSync(new URL(`${name}.bin`, folder)));
  const { rows } = JSON.parse(readFileSync(new URL(`${name}.json`, folder), 'utf8')) as {
    rows: readonly GoldenRow<Value>[];
  };
  return { chunk, rows };
}

const columnsOf = (rows: readonly GoldenRow<unknown>[]) => ({
  timestampNanos: BigInt64Array.from(rows, ([nanos]) => BigInt(nanos)),
  rowVersions: Float64Array.from(rows, ([, , version]) => version),
  startNanos: rows[0]![3] === undefined ? null : BigInt64Array.from(rows, (row) => BigInt(row[3]!)),
});

const names = readdirSync(folder)
  .filter((file) => /^typed_v\d+_.*\.bin$/.test(file))
  .map((file) => file.slice(0, -'.bin'.length));

test('there are golden typed chunks', () => {
  assert.ok(names.length >= 8);
});

for (const name of names) {
  test(`${name} reads as it did when it was written`, () => {
    const { chunk, rows } = golden<string>(name);
    const wanted: TypedRows = {
      ...columnsOf(rows),
      values: rows.map(([, hex]) => new Uint8Array(Buffer.from(hex, 'hex'))),
    };
    const header = parseChunkHeader(chunk, 0, chunk.length, kindsAll);
    assert.deepEqual(decodeTypedChunk(chunk, header), wanted);
    assert.deepEqual(decodeTypedRows(chunk), inColumns(wanted));
  });
}

test('starts_v3_floats reads as it did when it was written', () => {
  const { chunk, rows } = golden<number>('starts_v3_floats');
  const header = parseChunkHeader(chunk, 0, chunk.length, kindsAll);
  const { version, ...read } = decodeFloatStartsChunk(chunk, header);
  assert.deepEqual(read, {
    ...columnsOf(rows),
    values: Float64Array.from(rows, ([, value]) => value),
  });
  assert.equal(version, header.version);
});
