import assert from 'node:assert/strict';
import { test } from 'node:test';
import type {
  WriteDecoder,
  WriteDecoderHistograms,
  WriteDecoderRows,
} from '#engine/write_decoder/write_decoder.ts';
import {
  type BodyRows,
  partsOfBody,
  rowsAtOnce,
  tagBytesAtOnce,
  typedRowsAtOnce,
  valueBytesAtOnce,
} from './parts.ts';

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

/** Rows of the parts of a body that has histograms alone. */
function histogramParts(rowCount: number, valueBytes: number): number[] {
  const columns = { slots: new Uint32Array(rowCount), generations: new Uint32Array(rowCount) };
  const none = { rowCount: 0, ...columns, timestamps: new BigInt64Array(0), startNanos: null };
  const histograms = {
    ...columns,
    rowCount,
    timestamps: new BigInt64Array(rowCount),
    startNanos: null,
    valueEnds: Uint32Array.from({ length: rowCount }, (_, row) => (row + 1) * valueBytes),
    valueBytes: new Uint8Array(rowCount * valueBytes),
  } as unknown as WriteDecoderHistograms;
  const samples = { ...none, values: new Float64Array(0) } as unknown as WriteDecoderRows;
  const decoder = { tagBytes: () => 10 } as unknown as WriteDecoder;
  const parts = [...partsOfBody(1000, samples, histograms, decoder)].flat();
  return parts.map((part) => part.rowCount).filter((count) => count > 0);
}

test('histograms are divided by their rows and the bytes of their values, in a small body too', () => {
  assert.deepEqual(histogramParts(typedRowsAtOnce, 20), [typedRowsAtOnce]);
  assert.deepEqual(histogramParts(typedRowsAtOnce + 3, 20), [typedRowsAtOnce, 3]);
  assert.deepEqual(histogramParts(10, valueBytesAtOnce / 4), [4, 4, 2]);
});
