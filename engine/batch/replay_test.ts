import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StoreRows } from '../store/rows.ts';
import { BatchBuilder, compactBatch } from './batch.ts';
import { BatchReplay, type ReplayedRows, replayedByReader, SlotMap } from './replay.ts';
import { fuzz } from './replay_fuzz.ts';
import { BatchEncoder } from './encoder.ts';

test('the replay kernel reads batches as its twin does, for many seeds', () => {
  for (let seed = 1; seed <= 4; seed++) fuzz(seed, 25);
});

test('rows of a log get the slots of this boot, a stale marker keeps its bits', () => {
  const replay = new BatchReplay();
  const map = new SlotMap();
  replay.setSeries(map, { slot: 5000, generation: 2 }, 1, 7);
  replay.setSeries(map, { slot: 3, generation: 1 }, null, 0);
  const bits = BigUint64Array.of(0x7ff0000000000002n, 0n, 0n, 0n);
  const rows = {
    rowCount: 4,
    slots: Uint32Array.of(5000, 3, 5000, 9),
    generations: Uint32Array.of(2, 1, 1, 1),
    timestamps: BigInt64Array.of(30n, 10n, 20n, 40n),
    values: new Float64Array(bits.buffer),
  };
  const read = replay.decode(map, new BatchEncoder().encode(77, rows, 1_000_000, false))!;
  const [part] = read.parts;
  const taken = floatsOf(part);
  assert.equal(taken.rowCount, 1);
  assert.equal(taken.slots[0], 1);
  assert.equal(taken.generations[0], 7);
  assert.equal(taken.timestamps[0], 30n);
  const { buffer, byteOffset } = taken.values;
  assert.equal(new BigUint64Array(buffer, byteOffset, 1)[0], bits[0]);
  assert.deepEqual(
    [part!.rowCount, part!.rowsNotHere, part!.rowsUnknown, part!.first, part!.last, read.version],
    [4, 1, 2, 10n, 40n, 77],
  );
});

test('what was set and batches are read when the memory has grown for the map', () => {
  const replay = new BatchReplay();
  const map = new SlotMap();
  replay.setSeries(map, { slot: 3, generation: 1 }, 8, 2);
  const rows = {
    rowCount: 2,
    slots: Uint32Array.of(3, 1_000_000),
    generations: Uint32Array.of(1, 1),
    timestamps: BigInt64Array.of(10n, 20n),
    values: Float64Array.of(1, 2),
  };
  const batch = new BatchEncoder().encode(77, rows, 1_000_000, false).slice();
  assert.equal(floatsOf(replay.decode(map, batch)!.parts[0]).slots[0], 8);
  replay.setSeries(map, { slot: 1_000_000, generation: 1 }, 9, 3);
  const read = floatsOf(replay.decode(map, batch)!.parts[0]);
  assert.deepEqual([...read.slots.subarray(0, 2)], [8, 9]);
  assert.deepEqual([...read.generations.subarray(0, 2)], [2, 3]);
  assert.deepEqual([...read.values.subarray(0, 2)], [1, 2]);
});

test('typed rows and start times get the slots of this boot, too', () => {
  const replay = new BatchReplay();
  const map = new SlotMap();
  replay.setSeries(map, { slot: 3, generation: 1 }, 8, 2);
  replay.setSeries(map, { slot: 4, generation: 1 }, null, 0);
  const columns = {
    rowCount: 3,
    slots: Uint32Array.of(9, 3, 4),
    generations: Uint32Array.of(1, 1, 1),
    timestamps: BigInt64Array.of(30n, 20n, 10n),
  };
  const builder = new BatchBuilder();
  builder.begin(77, true);
  const { rowCount, slots, generations, timestamps } = columns;
  const values = new Float64Array(BigUint64Array.of(1n, 0x7ff0000000000002n, 3n).buffer);
  const starts = BigInt64Array.of(1n, 2n, 3n);
  builder.setRows(rowCount, slots, generations, timestamps, 1_000_000, values, starts);
  builder.setTypedRows({
    ...columns,
    timeUnitNanos: 1_000,
    startNanos: null,
    valueEnds: Uint32Array.of(2, 5, 7),
    valueBytes: Uint8Array.of(2, 1, 2, 1, 9, 2, 1),
  });
  const bytes = compactBatch(builder.finish());
  assert.equal(replay.decode(map, bytes), null);
  const { version, derivesVersions, parts } = replayedByReader(replay, map, bytes);
  assert.deepEqual([version, derivesVersions], [77, true]);
  const counts = parts.map(({ rowsUnknown, rowsNotHere, first, last }) => ({
    ...{ rowsUnknown, rowsNotHere, first, last },
  }));
  const wanted = { rowsUnknown: 1, rowsNotHere: 1, first: 10n, last: 30n };
  assert.deepEqual(counts, [wanted, wanted]);
  const [floats, typed] = parts.map(({ taken }) => taken);
  const common = { rowCount: 1, slots: Uint32Array.of(8), generations: Uint32Array.of(2) };
  const placed = { ...common, timestamps: BigInt64Array.of(20n) };
  const { values: left, ...others } = floatsOf(parts[0]);
  assert.equal(new BigUint64Array(left.buffer, left.byteOffset, 1)[0], 0x7ff0000000000002n);
  assert.deepEqual(others, {
    ...placed,
    timeUnitNanos: 1_000_000,
    startNanos: BigInt64Array.of(2n),
  });
  assert.equal(floats!.kind, 'float');
  assert.deepEqual(typed, {
    kind: 'typed',
    rows: {
      ...placed,
      timeUnitNanos: 1_000,
      startNanos: BigInt64Array.of(0n),
      valueEnds: Uint32Array.of(3),
      valueBytes: Uint8Array.of(2, 1, 9),
    },
  });
});

function floatsOf(part: ReplayedRows | undefined): StoreRows {
  assert.ok(part?.taken.kind === 'float');
  return part.taken.rows;
}
