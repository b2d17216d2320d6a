import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Random } from '#lib/env/env.ts';
import { encodeRawChunk } from '../codec/chunk.ts';
import { Decoder } from './decoder.ts';
import { emptyBundle } from '../codec/series_bundle.ts';
import { StoreReader } from './reader.ts';
import { Store, type StoredChunks } from './store.ts';

const second = 1_000_000_000n;
const hour = 3600n * second;
const blockStart = 1_699_999_200n * second;
const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;
const random: Random = {
  u32: () => 7,
  bytes: (length) => new Uint8Array(length),
  fraction: () => 0.5,
};

function newStore(): Store {
  const store = new Store({ random, memoryBytesMax: 68 << 20 });
  store.setNamespace(0, {
    blockSizeNanos: 2n * hour,
    bufferPastNanos: 2n * hour,
    bufferFutureNanos: 2n * hour,
    retentionNanos: 48n * hour,
    coldWrites: false,
  });
  return store;
}

let version = 1000;
function write(store: Store, slot: number, ...values: number[]): void {
  const rows = {
    rowCount: values.length,
    slots: new Uint32Array(values.length).fill(slot),
    generations: new Uint32Array(values.length).fill(store.generation[slot]!),
    timestamps: BigInt64Array.from(values, (_, i) => blockStart + BigInt(i) * second),
    timeUnitNanos: 1,
    values: Float64Array.from(values),
  };
  store.append(rows, ++version, new Uint8Array(values.length));
}

function valuesOf(chunks: StoredChunks, index = 0): number[] {
  using decoder = new Decoder();
  const rows = decoder.decode({ ...emptyBundle, ...chunks }, index, ...allTimes);
  return Array.from(decoder.values.subarray(0, rows));
}

const places = (store: Store, ...slots: number[]): [Uint32Array, Uint32Array] => [
  Uint32Array.from(slots),
  Uint32Array.from(slots, (slot) => store.generation[slot]!),
];

test('a reader sees what was appended before it reads', () => {
  const store = newStore();
  const slot = store.createSeries(0);
  const reader = new StoreReader(store.openReader());
  write(store, slot, 1, 2);
  assert.deepEqual(valuesOf(reader.read(...places(store, slot), ...allTimes)), [1, 2]);
  write(store, slot, 1, 5, 7);
  assert.deepEqual(valuesOf(reader.read(...places(store, slot), ...allTimes)), [1, 5, 7]);
  assert.deepEqual(valuesOf(reader.readBlock(...places(store, slot), blockStart)), [1, 5, 7]);
});

test('a series that was released is empty, and so is another one in its slot', () => {
  const store = newStore();
  const reader = new StoreReader(store.openReader());
  const slot = store.createSeries(0);
  write(store, slot, 1, 2);
  const before = places(store, slot);
  store.releaseSeries(slot);
  assert.equal(reader.read(...before, ...allTimes).chunkData.length, 0);
  assert.equal(store.createSeries(0), slot);
  write(store, slot, 8);
  assert.equal(reader.read(...before, ...allTimes).chunkData.length, 0);
  assert.deepEqual(valuesOf(reader.read(...places(store, slot), ...allTimes)), [8]);
  const unknown = [Uint32Array.of(2 ** 32 - 1, 5000, slot), Uint32Array.of(1, 1, 99)] as const;
  assert.equal(reader.read(...unknown, ...allTimes).chunkData.length, 0);
});

test('what was marked for a flush is dropped unless it is written to after the mark', () => {
  const store = newStore();
  const reader = new StoreReader(store.openReader());
  const [a, b] = [store.createSeries(0), store.createSeries(0)];
  write(store, a, 1);
  write(store, b, 2);
  store.markFlush(Uint32Array.of(a, b), blockStart);
  write(store, b, 2, 3);
  const read = reader.readBlock(...places(store, a, b), blockStart);
  assert.deepEqual(valuesOf(read, 0), [1]);
  assert.equal(store.dropFlushed(Uint32Array.of(a, b), blockStart), 1);
  const left = reader.read(...places(store, a, b), ...allTimes);
  assert.deepEqual([valuesOf(left, 0), valuesOf(left, 1)], [[], [2, 3]]);
});

test('a series that is larger than the region of the reader is left to the store, others are not', () => {
  const store = newStore();
  const reader = new StoreReader(store.openReader());
  const [small, large, last] = [0, 0, 0].map(() => store.createSeries(0));
  write(store, small!, 1);
  write(store, last!, 2);
  const rows = 60_000;
  for (let part = 0; part < 2; part++) {
    const chunk = encodeRawChunk({
      timestampNanos: BigInt64Array.from(
        { length: rows },
        (_, i) => blockStart + BigInt(i + part * rows),
      ),
      values: Float64Array.from({ length: rows }, (_, i) => Math.sin(i)),
      version: 1,
    });
    store.insertChunks(large!, chunk);
  }
  const slots = places(store, small!, large!, last!);
  for (const read of [reader.read(...slots, ...allTimes), reader.readBlock(...slots, blockStart)]) {
    assert.deepEqual([...read.left], [1]);
    assert.deepEqual([valuesOf(read, 0), valuesOf(read, 1), valuesOf(read, 2)], [[1], [], [2]]);
  }
});

test('thousands of series of many rows are read in pieces', () => {
  const store = newStore();
  const reader = new StoreReader(store.openReader());
  const slots = Array.from({ length: 2500 }, () => store.createSeries(0));
  const values = Array.from({ length: 300 }, (_, i) => Math.sin(i));
  for (const slot of slots) write(store, slot, slot, ...values);
  const asked = places(store, ...slots);
  const { left, ...read } = reader.read(...asked, ...allTimes);
  assert.equal(left.length, 0);
  assert.deepEqual(read, store.read(asked[0], ...allTimes));
  assert.deepEqual(valuesOf(read, 2400), [slots[2400], ...values]);
  const { left: none, ...merged } = reader.readBlock(...asked, blockStart);
  assert.equal(none.length, 0);
  assert.deepEqual(merged, store.readBlock(asked[0], blockStart));
});

test('readers are limited, and a closed one gives its memory back', () => {
  const store = newStore();
  const before = store.memoryBytes;
  const windows = Array.from({ length: 16 }, () => store.openReader());
  assert.equal(store.memoryBytes, before + 16 * 2 ** 20);
  assert.throws(() => store.openReader(), { code: 'RESOURCE_EXHAUSTED' });
  for (const window of windows) store.closeReader(window);
  assert.equal(store.memoryBytes, before);
  assert.throws(() => store.closeReader(windows[0]!), /closed once/);
});
