import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { Decoder } from './decoder.ts';
import { emptyBundle } from '../codec/series_bundle.ts';
import { openSampleStore } from './open.ts';
import { joinSlots, resultOf } from './rows.ts';
import type { SampleStore } from './sample_store.ts';
import { Store, storeOutcome, type StoreNamespace } from './store.ts';
import { StoreSet } from './set.ts';

const second = 1_000_000_000n;
const startNanos = 1_700_000_000n * second;
const namespace: StoreNamespace = {
  blockSizeNanos: 600n * second,
  bufferPastNanos: 600n * second,
  bufferFutureNanos: 120n * second,
  retentionNanos: 1800n * second,
  coldWrites: false,
};
const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;
const staleMarkerBits = 0x7ff0000000000002n;

/** Their size is given too small, so that all of them are opened one after the other at once. */
function setOf(storeCountMax: number): SampleStore {
  const set = new StoreSet({ storeBytes: 2 << 20, storeCountMax, open: makeStore });
  set.setNamespace(0, namespace);
  return set;
}

function makeStore(): Store {
  const random = { u32: () => 1, bytes: (n: number) => new Uint8Array(n), fraction: () => 0 };
  const store = new Store({ random, memoryBytesMax: 64 << 20 });
  store.setNamespace(0, namespace);
  return store;
}

/**
 * A set of three stores beside one store. Series are numbered in the order in which they were made.
 */
class Sides {
  readonly one: SampleStore = makeStore();
  readonly set: SampleStore = setOf(3);
  readonly slots: [one: number, set: number][] = [];
  readonly #decoder = new Decoder();

  create(): void {
    this.slots.push([this.one.createSeries(0), this.set.createSeries(0)]);
  }

  #slotsOf(series: readonly number[], side: 0 | 1): Uint32Array {
    return Uint32Array.from(series, (index) => this.slots[index]![side]);
  }

  /** @returns outcomes, which both sides agree on */
  write(series: readonly number[], nanos: bigint, bits: readonly bigint[], version: number) {
    const outcomes = ([0, 1] as const).map((side) => {
      const store = side === 0 ? this.one : this.set;
      const slots = this.#slotsOf(series, side);
      const rows = {
        rowCount: series.length,
        slots,
        generations: slots.map((slot) => store.generation[slot]!),
        timestamps: new BigInt64Array(series.length).fill(nanos),
        timeUnitNanos: 1,
        values: new Float64Array(BigUint64Array.from(bits).buffer),
      };
      const outcome = new Uint8Array(series.length);
      store.check(rows, 0, nanos, outcome);
      store.append(rows, version, outcome);
      return outcome;
    });
    assert.deepEqual(outcomes[1], outcomes[0]);
    return outcomes[1]!;
  }

  #rows(chunks: ReturnType<SampleStore['read']>, index: number): string[] {
    const count = this.#decoder.decode({ ...emptyBundle, ...chunks }, index, ...allTimes);
    const { timestampNanos, valueWords } = this.#decoder;
    return Array.from(
      { length: count },
      (_, i) => `${timestampNanos[i]}:${valueWords[2 * i]}:${valueWords[2 * i + 1]}`,
    );
  }

  assertSame(
    series: readonly number[],
    read: (store: SampleStore, slots: Uint32Array) => ReturnType<SampleStore['read']>,
  ): void {
    const [one, set] = [
      read(this.one, this.#slotsOf(series, 0)),
      read(this.set, this.#slotsOf(series, 1)),
    ];
    series.forEach((index, i) => {
      assert.deepEqual(this.#rows(set, i), this.#rows(one, i), `series ${index}`);
    });
  }

  assertSameSeries(find: (store: SampleStore) => Uint32Array): number[] {
    const [one, set] = ([0, 1] as const).map((side) => {
      const found = new Set(find(side === 0 ? this.one : this.set));
      return this.slots.flatMap((slots, index) => (found.has(slots[side]) ? [index] : []));
    });
    assert.deepEqual(set, one);
    return set!;
  }

  dropFlushed(series: readonly number[], block: bigint): void {
    const [one, set] = [this.#slotsOf(series, 0), this.#slotsOf(series, 1)];
    assert.equal(this.set.dropFlushed(set, block), this.one.dropFlushed(one, block));
  }

  release(index: number): void {
    const [[one, set]] = this.slots.splice(index, 1) as [[number, number]];
    this.one.releaseSeries(one);
    this.set.releaseSeries(set);
  }
}

test('a set of stores answers as one store does', () => {
  const sides = new Sides();
  const numbers = new SeededNumbers(5);
  for (let i = 0; i < 5000; i++) sides.create();
  const all = Array.from(sides.slots.keys());
  const pick = (count: number) =>
    Array.from({ length: count }, () => numbers.below(sides.slots.length));
  for (let round = 0; round < 60; round++) {
    const nanos = startNanos + BigInt(round) * 30n * second;
    const series = round % 7 === 0 ? all.filter((index) => index < sides.slots.length) : pick(900);
    const unique = [...new Set(series)];
    const bits = unique.map(() =>
      numbers.below(9) === 0 ? staleMarkerBits : BigInt(numbers.u32()),
    );
    sides.write(unique, nanos, bits, 1000 + round);
    if (round % 5 === 0) {
      sides.assertSame(pick(300), (store, slots) => store.read(slots, ...allTimes));
      for (const { blockStartNanos: block } of sides.set.blocks(0)) {
        const flushed = sides.assertSameSeries((store) => store.slotsOfBlock(0, block));
        const some = flushed.filter(() => numbers.below(3) === 0);
        if (round % 10 !== 0) continue;
        sides.assertSame(some, (store, slots) => store.flushBlock(slots, block));
        sides.dropFlushed(some, block);
      }
      assert.deepEqual(sides.set.blocks(0), sides.one.blocks(0));
      const [ofSet, ofOne] = [sides.set, sides.one].map((store) =>
        resultOf(store.sumsInSteps(0, 100)).map(({ blockStartNanos, rowCount }) => [
          blockStartNanos,
          rowCount,
        ]),
      );
      assert.deepEqual(ofSet, ofOne);
      sides.assertSameSeries((store) => joinSlots([...store.slotsInSteps(0, null, 100)]));
    }
    if (round % 20 === 10) sides.assertSameSeries((store) => store.expire(0, nanos));
    if (round % 20 === 15)
      sides.assertSameSeries((store) => resultOf(store.expireInSteps(0, nanos, 100)));
    if (round % 4 === 0)
      for (let i = 0; i < 100; i++) sides.release(numbers.below(sides.slots.length));
    if (round % 8 === 0) for (let i = 0; i < 300; i++) sides.create();
    assert.equal(sides.set.sampleCount, sides.one.sampleCount);
    assert.equal(sides.set.seriesCount, sides.slots.length);
  }
  assert.equal(new Set(sides.slots.map(([, slot]) => slot)).size, sides.slots.length);
});

test('a set refuses references that it never gave, and chunks go to the series of their slot', () => {
  const set = setOf(2);
  const slots = Array.from({ length: 3000 }, () => set.createSeries(0));
  const rows = {
    rowCount: 3,
    slots: Uint32Array.of(slots[2500]!, 4_000_000_000, slots[10]!),
    generations: Uint32Array.of(1, 1, 2),
    timestamps: new BigInt64Array(3).fill(startNanos),
    timeUnitNanos: 1,
    values: Float64Array.of(1, 2, 3),
  };
  const outcomes = new Uint8Array(3);
  assert.equal(set.check(rows, 0, startNanos, outcomes), 2);
  const { written, unknownReference } = storeOutcome;
  assert.deepEqual([...outcomes], [written, unknownReference, unknownReference]);
  set.append(rows, 7, outcomes);
  const [block] = set.blockStarts(slots[2500]!);
  const { chunkData } = set.readBlock(Uint32Array.of(slots[2500]!), block!);
  set.insertChunks(slots[11]!, chunkData);
  const { chunkOffset } = set.read(Uint32Array.of(slots[11]!, slots[10]!), ...allTimes);
  assert.ok(chunkOffset[1]! > 0);
  assert.equal(chunkOffset[2], chunkOffset[1]);
});

test('a further store is opened when the others are half full, and all are filled', () => {
  const random = { u32: () => 1, bytes: (n: number) => new Uint8Array(n), fraction: () => 0 };
  const storeBytes = 16 << 20;
  const stores: Store[] = [];
  const open = (): Store => {
    const store = new Store({ random, memoryBytesMax: storeBytes });
    stores.push(store);
    return store;
  };
  const set = new StoreSet({ storeBytes, storeCountMax: 3, open });
  set.setNamespace(0, namespace);
  const slots = new Set<number>();
  const create = (): void => {
    const slot = set.createSeries(0);
    assert.ok(!slots.has(slot));
    slots.add(slot);
  };
  while (stores.length === 1) create();
  assert.ok(stores[0]!.memoryBytes > storeBytes / 2 && stores[0]!.memoryBytes < storeBytes * 0.6);
  assert.throws(
    () => {
      for (let i = 0; i < 1_000_000; i++) create();
    },
    { code: 'RESOURCE_EXHAUSTED' },
  );
  assert.equal(stores.length, 3);
  assert.equal(set.seriesCount, slots.size);
  for (const store of stores) assert.ok(store.seriesCount > slots.size / 4);
});

test('memory above that of one store is shared by several', () => {
  const random = { u32: () => 1, bytes: (n: number) => new Uint8Array(n), fraction: () => 0 };
  assert.ok(openSampleStore({ random, memoryBytesMax: 64 << 20 }) instanceof Store);
  assert.ok(openSampleStore({ random, memoryBytesMax: 7 * 2 ** 30 }) instanceof StoreSet);
});
