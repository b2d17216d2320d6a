/** Typed chunks of a series that come from several replicas, whose chunks begin and end elsewhere: put in order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeTypedRows } from '../typed/codec.ts';
import { TypedValueWriter, valueKind } from '../typed/typed_value.ts';
import { readTyped, typedInOrder } from './typed_chunks.ts';
import { allTimes } from './workshop.ts';

const start = 1_800_000_000_000_000_000n;
const second = 1_000_000_000n;
const valueBytes = 20_000;

function chunkOf(first: number, count: number, version: number): Uint8Array {
  const values = Array.from({ length: count }, (_, i) =>
    new TypedValueWriter()
      .begin(valueKind.message, 5)
      .bytes(1, new Uint8Array(valueBytes).fill((first + i) % 251))
      .uint(2, BigInt(version))
      .finish(),
  );
  let end = 0;
  return encodeTypedRows({
    timestampNanos: BigInt64Array.from(values, (_, i) => start + BigInt(first + i) * second),
    valueBytes: new Uint8Array(Buffer.concat(values)),
    valueEnds: Uint32Array.from(values, ({ length }) => (end += length)),
    rowVersions: new Float64Array(count).fill(version),
    startNanos: null,
  });
}

test('replicas of a series with 40 MiB of values are put in order, whatever their chunks', () => {
  const rowsOfChunk = 25;
  const rowCount = 2_100;
  const parts: Uint8Array[] = [];
  for (const [shift, version] of [
    [0, 7e12],
    [7, 7e12 + 1],
  ] as const) {
    for (let first = shift; first < rowCount; first += rowsOfChunk) {
      parts.push(chunkOf(first, Math.min(rowsOfChunk, rowCount - first), version));
    }
  }
  let expected = 0;
  for (const chunk of typedInOrder(parts, allTimes)) {
    const { timestampNanos, values } = readTyped([chunk], allTimes);
    for (const [row, nanos] of timestampNanos.entries()) {
      assert.equal(nanos, start + BigInt(expected) * second);
      const newest = new TypedValueWriter()
        .begin(valueKind.message, 5)
        .bytes(1, new Uint8Array(valueBytes).fill(expected % 251))
        .uint(2, BigInt(expected < 7 ? 7e12 : 7e12 + 1))
        .finish();
      assert.equal(Buffer.compare(values[row]!, newest), 0, `row ${expected}`);
      expected += 1;
    }
  }
  assert.equal(expected, rowCount);
});
