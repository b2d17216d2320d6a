import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Random } from '#lib/env/env.ts';
import { encodeRawChunk } from '../../codec/chunk.ts';
import { StoreThread } from './thread.ts';
import { Store } from '../store.ts';

const second = 1_000_000_000n;
const hour = 3600n * second;
const blockStart = 1_699_999_200n * second;
const random: Random = {
  u32: () => 7,
  bytes: (length) => new Uint8Array(length),
  fraction: () => 0.5,
};

function storeOf(seriesCount: number): { store: Store; slots: Uint32Array } {
  const store = new Store({ random, memoryBytesMax: 68 << 20 });
  store.setNamespace(0, {
    blockSizeNanos: 2n * hour,
    bufferPastNanos: 2n * hour,
    bufferFutureNanos: 2n * hour,
    retentionNanos: 48n * hour,
    coldWrites: false,
  });
  const slots = Uint32Array.from({ length: seriesCount }, () => store.createSeries(0));
  for (let i = 0; i < 300; i++) write(store, slots, i, Math.sin(i));
  return { store, slots };
}

let version = 1000;
function write(store: Store, slots: Uint32Array, at: number, value: number): void {
  const rows = {
    rowCount: slots.length,
    slots,
    generations: slots.map((slot) => store.generation[slot]!),
    timestamps: new BigInt64Array(slots.length).fill(blockStart + BigInt(at) * second),
    timeUnitNanos: 1,
    values: Float64Array.from(slots, (slot) => value + slot),
  };
  store.append(rows, ++version, new Uint8Array(slots.length));
}

/** A thread and why it has failed. */
function threadOf(store: Store): { thread: StoreThread; failures: unknown[] } {
  const failures: unknown[] = [];
  return {
    thread: new StoreThread(store, { onFailure: (error) => failures.push(error) }),
    failures,
  };
}

test('a thread flushes as the store does, also several requests at a time', async () => {
  const { store, slots } = storeOf(300);
  const { thread, failures } = threadOf(store);
  await using _ = thread;
  const parts = [slots.slice(0, 128), slots.slice(128, 256), slots.slice(256)];
  const read = await Promise.all(parts.map((part) => thread.flushBlock(part, blockStart)));
  write(store, slots.slice(0, 10), 300, 1);
  assert.equal(store.dropFlushed(slots, blockStart), 290);
  assert.deepEqual(failures, []);
  const { store: same } = storeOf(300);
  for (const [i, part] of parts.entries()) {
    const { chunkOffset, chunkData } = same.flushBlock(part, blockStart);
    assert.deepEqual(read[i]!.chunkOffset, chunkOffset);
    // Versions of rows differ between the two.
    assert.equal(read[i]!.chunkData.length, chunkData.length);
  }
});

test('what is asked for when the thread ends is done by the store', async () => {
  const { store, slots } = storeOf(200);
  const before = store.memoryBytes;
  const { thread } = threadOf(store);
  const asked = thread.flushBlock(slots, blockStart);
  assert.ok(store.memoryBytes > before);
  await thread[Symbol.asyncDispose]();
  const { chunkData, chunkOffset } = await asked;
  assert.deepEqual({ chunkData, chunkOffset }, store.readBlock(slots, blockStart));
  assert.deepEqual(await thread.flushBlock(slots, blockStart), { chunkData, chunkOffset });
  assert.equal(store.dropFlushed(slots, blockStart), 200);
});

test('a series that was released while the thread was asked has no chunks', async () => {
  const { store, slots } = storeOf(3);
  const { thread } = threadOf(store);
  const asked = thread.flushBlock(slots, blockStart);
  store.releaseSeries(slots[1]!);
  await thread[Symbol.asyncDispose]();
  const { chunkOffset } = await asked;
  assert.equal(chunkOffset[1], chunkOffset[2]);
  assert.ok(chunkOffset[1]! > 0 && chunkOffset[3]! > chunkOffset[2]!);
});

test('without memory for the region of the thread the store does its work', async () => {
  const { store, slots } = storeOf(10);
  for (let i = 0; i < 16; i++) store.openReader();
  const { thread, failures } = threadOf(store);
  await using _ = thread;
  const read = await thread.flushBlock(slots, blockStart);
  assert.deepEqual(read, store.readBlock(slots, blockStart));
  await thread.flushBlock(slots, blockStart);
  assert.equal(failures.length, 1, 'it is told once');
});

test('a series that is too large for the thread is read by the store, in its place', async () => {
  const { store, slots } = storeOf(5);
  const { thread, failures } = threadOf(store);
  await using _ = thread;
  for (let part = 0; part < 2; part++) {
    const chunk = encodeRawChunk({
      timestampNanos: BigInt64Array.from({ length: 60_000 }, (_, i) => {
        return blockStart + 301n * second + BigInt(part * 60_000 + i);
      }),
      values: Float64Array.from({ length: 60_000 }, (_, i) => Math.sin(i)),
      version: 1,
    });
    store.insertChunks(slots[2]!, chunk);
  }
  const read = await thread.flushBlock(slots, blockStart);
  assert.ok(read.chunkOffset[3]! - read.chunkOffset[2]! > 900_000);
  const { chunkData, chunkOffset } = store.readBlock(slots, blockStart);
  assert.deepEqual(read, { chunkData, chunkOffset });
  assert.deepEqual(failures, []);
});
