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
  const read = replay.decode(map, new BatchEncoder().encode(77, rows, 1_000_000))!;
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
