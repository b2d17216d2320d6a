import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WriteDecoder, WriteDecoderRows } from '#engine/write_decoder/write_decoder.ts';
import { type BodyRows, partsOfBody, rowsAtOnce, tagBytesAtOnce } from './parts.ts';

/** Rows of series with tags of so many bytes, by slot. @param asked gets each slot that is asked for */
function partsOf(slots: readonly number[], tagBytes: number, asked: number[] = []): BodyRows[] {
  const rowCount = slots.length;
  const samples = {
    rowCount,
    slots: Uint32Array.from(slots),
    generations: new Uint32Array(rowCount),
    timestamps: BigInt64Array.from(slots, (_, row) => BigInt(row)),
    values: new Float64Array(rowCount),
    startNanos: null,
  } as unknown as WriteDecoderRows;
  const decoder = {
    tagBytes(slot: number) {
      asked.push(slot);
      return tagBytes;
    },
  } as unknown as WriteDecoder;
  return [...partsOfBody(1 << 20, samples, null, decoder)].flat();
}

const rowsOf = (parts: readonly BodyRows[]): bigint[] =>
  parts.flatMap(({ timestamps, rowCount }) => [...timestamps.subarray(0, rowCount)]);

test('a long body is divided by its rows, and all of them are in a part', () => {
  const slots = Array.from({ length: 3 * rowsAtOnce + 5 }, (_, row) => row % 7);
  const parts = partsOf(slots, 10);
  assert.deepEqual(
    parts.map(({ rowCount }) => rowCount),
    [rowsAtOnce, rowsAtOnce, rowsAtOnce, 5],
  );
  assert.deepEqual(
    rowsOf(parts),
    slots.map((_, row) => BigInt(row)),
  );
});

test('long tags make parts shorter', () => {
  const slots = Array.from({ length: 100 }, (_, row) => row);
  const parts = partsOf(slots, tagBytesAtOnce / 16);
  assert.deepEqual(
    parts.map(({ rowCount }) => rowCount),
    [16, 16, 16, 16, 16, 16, 4],
  );
});

test('tags count once for rows of a series that follow each other, which are not asked for each', () => {
  const slots = Array.from({ length: 2_000 }, (_, row) => Math.floor(row / 1_000));
  const asked: number[] = [];
  const parts = partsOf(slots, tagBytesAtOnce / 4, asked);
  assert.deepEqual(
    parts.map(({ rowCount }) => rowCount),
    [2_000],
  );
  assert.deepEqual(asked, [0, 1]);
});
