/**
 * The replay kernel and its plain twin read the same rows from a batch, and a damaged one is never
 * read otherwise.
 */
import assert from 'node:assert/strict';
import { TsdbError } from '#lib/errors.ts';
import { BatchBuilder, compactBatch } from './batch.ts';
import { BatchReplay, type ReplayedBatch, replayedByReader, SlotMap } from './replay.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';

/** @param size number of batches */
export function fuzz(seed: number, size: number): void {
  const numbers = new SeededNumbers(seed);
  const pick = (below: number) => Math.floor((numbers.u32() / 2 ** 32) * below);
  const replay = new BatchReplay();
  const builder = new BatchBuilder();
  let taken = 0;
  for (let i = 0; i < size; i++) {
    replay.reset();
    const map = new SlotMap();
    const seriesCount = 1 + pick(3000);
    for (let slot = 0; slot < seriesCount; slot++) {
      const kind = pick(8);
      if (kind === 0) continue;
      const logged = { slot, generation: 1 + pick(2) };
      replay.setSeries(map, logged, kind === 1 ? null : pick(2 ** 31), pick(100));
    }
    const bytes = batchOf(builder, pick, seriesCount);
    for (const whole of [bytes, compactBatch(bytes)]) {
      if (checkSame(replay, map, whole)) taken += 1;
      const mutated = whole.slice();
      for (let n = 1 + pick(3); n > 0; n--) {
        const at = pick(pick(2) === 0 ? Math.min(160, whole.length) : whole.length);
        mutated[at] = pick(3) === 0 ? [0, 1, 127, 128, 255][pick(5)]! : pick(256);
      }
      checkSame(replay, map, mutated);
      checkSame(replay, map, mutated.subarray(0, pick(mutated.length)));
      checkSame(replay, null, whole);
    }
  }
  assert.equal(taken, 2 * size, 'whole batches without a dictionary are the kernel’s');
}

function batchOf(builder: BatchBuilder, pick: (below: number) => number, seriesCount: number) {
  const rowCount = 1 + pick(pick(4) === 0 ? 5000 : 40);
  const slots = new Uint32Array(rowCount);
  const generations = new Uint32Array(rowCount);
  const times = new BigInt64Array(rowCount);
  const bits = new BigUint64Array(rowCount);
  const value = new Float64Array(bits.buffer);
  const kind = pick(4);
  let time = pick(10) === 0 ? 2n ** 63n - 5n : BigInt(pick(2 ** 31));
  for (let row = 0; row < rowCount; row++) {
    slots[row] = kind === 0 ? row : pick(seriesCount + 2);
    generations[row] = 1 + (pick(10) === 0 ? pick(2) : 0);
    if (pick(6) === 0) time = BigInt.asIntN(64, time + BigInt(pick(2000) - 500));
    if (pick(100) === 0) time = -time;
    times[row] = time;
    if (pick(20) === 0) bits[row] = (BigInt(pick(2 ** 32)) << 32n) | 2n;
    else value[row] = pick(kind === 1 ? 2 ** 45 : 120) - (kind === 2 ? 60 : 0);
  }
  const unit = ([1, 1_000, 1_000_000, 1_000_000_000] as const)[pick(4)]!;
  builder.begin(pick(2 ** 32) * 2 ** pick(21));
  builder.setRows(rowCount, slots, generations, times, unit, value);
  return builder.finish();
}

/** @returns whether the kernel took it */
function checkSame(replay: BatchReplay, map: SlotMap | null, bytes: Uint8Array): boolean {
  const read = replay.decode(map, bytes);
  if (read === null) return false;
  let expected: ReplayedBatch;
  try {
    expected = replayedByReader(replay, map, bytes);
  } catch (error) {
    if (!(error instanceof TsdbError && error.code === 'BAD_REQUEST')) throw error;
    assert.fail(`the kernel reads what is malformed: ${error.message}`);
  }
  assert.deepEqual(plain(read), plain(expected));
  return true;
}

/** By bits: a number would lose a NaN's payload. */
function plain({ parts, ...batch }: ReplayedBatch) {
  return {
    ...batch,
    parts: parts.map(({ taken, ...part }) => {
      assert.equal(taken.kind, 'float');
      const { rowCount, slots, generations, timestamps, values } = taken.rows;
      const bits = new BigUint64Array(values.buffer, values.byteOffset, rowCount);
      return {
        ...part,
        slots: Array.from(slots.subarray(0, rowCount)),
        generations: Array.from(generations.subarray(0, rowCount)),
        timestamps: Array.from(timestamps.subarray(0, rowCount)),
        bits: Array.from(bits),
      };
    }),
  };
}
