/** Late rows of blocks with many rows, which are merged by stretches. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { storeOutcome } from './rows.ts';
import type { Store } from './store.ts';
import { blockStart, decoded, hour, newStore, read, rowsOf } from './store_testing.ts';

const milli = 1_000_000n;
/** Written an hour after the block has ended: rows derive steps of four seconds. */
const batchVersion = Number(versionAtNanos(blockStart + 3n * hour));

type Row = [slot: number, nanos: bigint, value: number];

/** A store whose series has so many rows, one a millisecond, and what should be in it. */
function longBlock(rowCount: number, keepsRowVersions: boolean) {
  const store = newStore({ coldWrites: true }, 512 << 20);
  store.keepRowVersions(keepsRowVersions);
  const slot = store.createSeries(0);
  const model = new Map<bigint, number>();
  let version = batchVersion;
  const put = (rows: Row[], isDerived: boolean): void => {
    const outcomes = new Uint8Array(rows.length);
    if (!isDerived) version += 1;
    store.append(rowsOf(store, rows), version, outcomes, isDerived);
    for (const [i, [, nanos, value]] of rows.entries()) {
      if (outcomes[i] === storeOutcome.written) model.set(nanos, value);
    }
  };
  for (let from = 0; from < rowCount; from += 10_000) {
    const nanosOf = (i: number): bigint => blockStart + BigInt(from + i) * milli;
    put(
      Array.from({ length: 10_000 }, (_, i): Row => [slot, nanosOf(i), i % 50]),
      keepsRowVersions,
    );
  }
  return { store, slot, model, put };
}

function assertHolds(store: Store, slot: number, model: ReadonlyMap<bigint, number>): void {
  const expected = [...model].sort(([a], [b]) => (a < b ? -1 : 1));
  assert.deepEqual(read(store, slot), expected);
  assert.deepEqual(decoded(store.readBlock(Uint32Array.of(slot), blockStart)), expected);
}

for (const keepsRowVersions of [true, false]) {
  test(`late rows of a long block are all there, ${keepsRowVersions ? 'rows keep their versions' : 'chunks have one version'}`, () => {
    for (let seed = 1; seed <= 3; seed++) {
      const numbers = new SeededNumbers(seed);
      const { store, slot, model, put } = longBlock(100_000, keepsRowVersions);
      let next = 100_000;
      for (let round = 0; round < 12; round++) {
        // All over the block, or in a part of it; times that there are and others; the next ones now and then.
        const span = numbers.below(2) === 0 ? 100_000 : 1 + numbers.below(20_000);
        const first = numbers.below(100_000 - span + 1);
        const rows = Array.from({ length: 1 + numbers.below(3_000) }, (): Row => {
          if (numbers.below(10) === 0)
            return [slot, blockStart + BigInt(next++) * milli, numbers.below(9)];
          const micros = (first + numbers.below(span)) * 1000 + numbers.below(2) * 500;
          return [slot, blockStart + BigInt(micros) * 1000n, numbers.below(1000)];
        });
        // Of two rows of one version and time the larger one stays.
        const isDerived = keepsRowVersions && numbers.below(2) === 0;
        const once = isDerived ? rows : [...new Map(rows.map((row) => [row[1], row])).values()];
        put(once, isDerived);
      }
      assertHolds(store, slot, model);
    }
  });
}

test('late rows are applied in steps, those of a long block in many', () => {
  const stepsOf = (rowCount: number): number => {
    const { store, slot } = longBlock(rowCount, true);
    const late = Array.from(
      { length: 5_000 },
      (_, i): Row => [slot, blockStart + BigInt(i * Math.floor(rowCount / 5_000)) * milli + 7n, i],
    );
    const outcomes = new Uint8Array(late.length);
    let steps = 0;
    for (const _ of store.appendInSteps(rowsOf(store, late), batchVersion, outcomes, true)) {
      steps += 1;
    }
    assert.deepEqual(outcomes, new Uint8Array(late.length));
    return steps;
  };
  assert.equal(stepsOf(10_000), 1);
  assert.equal(stepsOf(100_000), Math.ceil(5_000 / 64) - 1);
});

test('rows in order of a block that is longer than all room that is left are admitted', () => {
  const store = newStore({ coldWrites: true }, 72 << 20);
  store.keepRowVersions(true);
  const slot = store.createSeries(0);
  const nanosOf = (i: number): bigint => blockStart + BigInt(i) * milli;
  for (let from = 0; from < 614_400; from += 10_240) {
    const rows = rowsOf(
      store,
      Array.from({ length: 10_240 }, (_, i): Row => [slot, nanosOf(from + i), i % 50]),
    );
    const outcomes = new Uint8Array(rows.rowCount);
    assert.equal(store.check(rows, 0, blockStart + 2n * hour, outcomes), 0, `from row ${from}`);
    store.append(rows, batchVersion, outcomes, true);
  }
});

test('of rows that all have the last time of a long block the largest one stays', () => {
  const { store, slot, model, put } = longBlock(60_000, true);
  const last = blockStart + 59_999n * milli;
  put([[slot, last - 500_000n, 3]], true);
  put(
    Array.from({ length: 3_000 }, (_, i): Row => [slot, last, 1_000 + i]),
    true,
  );
  put(
    Array.from({ length: 3_000 }, (_, i): Row => [slot, last, 3_000 - i]),
    true,
  );
  assert.equal(model.get(last), 3_999);
  assertHolds(store, slot, model);
});
