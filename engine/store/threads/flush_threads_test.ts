import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlushThreads } from './flush_threads.ts';
import { StoreSet } from '../set.ts';
import { Store } from '../store.ts';

const second = 1_000_000_000n;
const blockStart = 1_699_999_200n * second;

function makeStore(): Store {
  const random = { u32: () => 1, bytes: (n: number) => new Uint8Array(n), fraction: () => 0 };
  return new Store({ random, memoryBytesMax: 64 << 20 });
}

function write(set: StoreSet, slots: Uint32Array, at: number): void {
  const rows = {
    rowCount: slots.length,
    slots,
    generations: slots.map((slot) => set.generation[slot]!),
    timestamps: new BigInt64Array(slots.length).fill(blockStart + BigInt(at) * second),
    timeUnitNanos: 1,
    values: Float64Array.from(slots, (slot) => slot + at),
  };
  set.append(rows, 1000 + at, new Uint8Array(slots.length));
}

test('threads flush the series of several stores, each store in its own, in the order that is asked', async () => {
  // Their size is given too small, so that each 1024 series open another store.
  const set = new StoreSet({ storeBytes: 2 << 20, storeCountMax: 3, open: makeStore });
  set.setNamespace(0, {
    blockSizeNanos: 7200n * second,
    bufferPastNanos: 7200n * second,
    bufferFutureNanos: 7200n * second,
    retentionNanos: 172_800n * second,
    coldWrites: false,
  });
  const failures: unknown[] = [];
  await using threads = new FlushThreads(set, { onFailure: (error) => failures.push(error) });
  const first = Uint32Array.from({ length: 500 }, () => set.createSeries(0));
  for (let at = 0; at < 5; at++) write(set, first, at);
  assert.deepEqual(
    await threads.flushBlock(first, blockStart),
    set.readBlock(first, blockStart),
    'while there is one store',
  );
  const more = Uint32Array.from({ length: 2500 }, () => set.createSeries(0));
  for (let at = 0; at < 5; at++) write(set, more, at);
  const mixed = Uint32Array.from(
    { length: 300 },
    (_, i) => (i % 2 === 0 ? first : more)[(i * 7) % 500]!,
  );
  const read = await threads.flushBlock(mixed, blockStart);
  assert.deepEqual(read, set.readBlock(mixed, blockStart));
  write(set, mixed.subarray(0, 20), 9);
  const asked = Uint32Array.from(new Set(mixed));
  assert.equal(
    set.dropFlushed(asked, blockStart),
    asked.length - new Set(mixed.subarray(0, 20)).size,
  );
  assert.deepEqual(failures, []);
});
