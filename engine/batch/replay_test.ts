import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BatchReplay, SlotMap } from './replay.ts';
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
  assert.equal(read.rows.rowCount, 1);
  assert.equal(read.rows.slots[0], 1);
  assert.equal(read.rows.generations[0], 7);
  assert.equal(read.rows.timestamps[0], 30n);
  const { buffer, byteOffset } = read.rows.values;
  assert.equal(new BigUint64Array(buffer, byteOffset, 1)[0], bits[0]);
  assert.deepEqual(
    [read.rowCount, read.rowsNotHere, read.rowsUnknown, read.first, read.last, read.version],
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
  assert.equal(replay.decode(map, batch)!.rows.slots[0], 8);
  replay.setSeries(map, { slot: 1_000_000, generation: 1 }, 9, 3);
  const read = replay.decode(map, batch)!;
  assert.deepEqual([...read.rows.slots.subarray(0, 2)], [8, 9]);
  assert.deepEqual([...read.rows.generations.subarray(0, 2)], [2, 3]);
  assert.deepEqual([...read.rows.values.subarray(0, 2)], [1, 2]);
});
