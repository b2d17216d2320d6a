/** Floats with start times in a store: what it keeps of them, in whatever order and however full it is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chunkHeaders, chunkKind, kindsFloat } from '../codec/chunk.ts';
import { mergeChunks as mergeByMap } from '../codec/decoder_twin.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { decodeChunk, keepRows, mergeChunks } from './chunk_merge.ts';
import { digestSeries } from './row_digest.ts';
import type { SampleStore } from './sample_store.ts';
import { StoreSet } from './set.ts';
import { Store, storeOutcome, type StoreNamespace, type StoreRows } from './store.ts';

const second = 1_000_000_000n;
const hour = 3600n * second;
const block = 1_699_999_200n * second;
const now = block + 1200n * second;
const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;

const rules: StoreNamespace = {
  blockSizeNanos: 2n * hour,
  bufferPastNanos: hour,
  bufferFutureNanos: hour,
  retentionNanos: 48n * hour,
  coldWrites: true,
};

function newStore(memoryBytesMax = 64 << 20): Store {
  const random = { u32: () => 7, bytes: (n: number) => new Uint8Array(n), fraction: () => 0.5 };
  const store = new Store({ random, memoryBytesMax });
  store.keepRowVersions(true);
  store.setNamespace(0, rules);
  return store;
}

type Sent = [slot: number, nanos: bigint, value: number, start: bigint];

function rowsOf(store: SampleStore, rows: readonly Sent[]): StoreRows {
  return {
    rowCount: rows.length,
    slots: Uint32Array.from(rows, ([slot]) => slot),
    generations: Uint32Array.from(rows, ([slot]) => store.generation[slot]!),
    timestamps: BigInt64Array.from(rows, ([, nanos]) => nanos),
    timeUnitNanos: 1,
    values: Float64Array.from(rows, ([, , value]) => value),
    startNanos: BigInt64Array.from(rows, ([, , , start]) => start),
  };
}

/** @returns outcomes */
function write(store: SampleStore, rows: readonly Sent[], version: number): Uint8Array {
  const sent = rowsOf(store, rows);
  const outcomes = new Uint8Array(rows.length);
  store.check(sent, 0, now, outcomes);
  store.append(sent, version, outcomes);
  return outcomes;
}

/** `time: value start` of all rows, times from the block's start in seconds, starts from the row's time. */
function told(chunks: Uint8Array): string[] {
  const { timestampNanos, values, startNanos } = mergeByMap(chunks, ...allTimes);
  return Array.from(timestampNanos, (nanos, row) => {
    const start = startNanos[row] === 0n ? 'none' : `${(startNanos[row]! - nanos) / second}`;
    return `${(nanos - block) / second}: ${values[row]} ${start}`;
  });
}

const readAll = (store: SampleStore, slot: number): Uint8Array =>
  store.read(Uint32Array.of(slot), ...allTimes).chunkData;
const flushed = (store: Store, slot: number): Uint8Array =>
  store.flushBlock(Uint32Array.of(slot), block).chunkData;

test('a counter keeps the start of each row through heads, seals and flushes', () => {
  const store = newStore();
  const slot = store.createSeries(0);
  const wanted: string[] = [];
  for (let i = 0; i < 700; i++) {
    const nanos = block + BigInt(i) * second;
    // It starts anew at 400; some rows before say nothing.
    const start = i < 5 ? 0n : i < 400 ? block - 60n * second : block + 399n * second;
    write(store, [[slot, nanos, i % 400, start]], 1000 + i);
    const told = start === 0n ? 'none' : `${(start - nanos) / second}`;
    wanted.push(`${i}: ${i % 400} ${told}`);
  }
  assert.deepEqual(told(readAll(store, slot)), wanted);
  const long = flushed(store, slot);
  assert.deepEqual(told(long), wanted);
  const headers = [...chunkHeaders(long, 0, long.length, kindsFloat)];
  assert.deepEqual(
    headers.map(({ kind }) => kind),
    [chunkKind.floatStarts],
  );
  assert.equal(decodeChunk(long).startNanos?.[500], block + 399n * second);
  assert.deepEqual(told(keepRows(long, block, block + 3n * second)), wanted.slice(0, 3));
  const [plain] = chunkHeaders(keepRows(long, block, block + 3n * second));
  assert.equal(plain!.kind, chunkKind.floatLags, 'without one a chunk is as it ever was');
});

test('what never changes costs a few bytes a chunk', () => {
  const [plain, started] = [0n, block - 3_600_123_456_789n].map((start) => {
    const store = newStore();
    const slot = store.createSeries(0);
    for (let i = 0; i < 240; i++) {
      write(store, [[slot, block + BigInt(i) * 15n * second, i * 7, start]], 1000 + i);
    }
    return flushed(store, slot).length;
  });
  assert.ok(started! - plain! <= 12, `${started} bytes, ${plain} without`);
});

test('of two rows that differ in the start alone the later one stays, on each replica', () => {
  const [early, late] = [block - 100n * second, block - 10n * second];
  const digests = [
    [early, late],
    [late, early],
  ].map((order) => {
    const store = newStore();
    const slot = store.createSeries(0);
    for (const start of order) {
      write(store, [[slot, block + 5n * second, 1, start]], 1000);
      // It is in the area, in the head, or late.
      write(store, [[slot, block + 9n * second, 2, start]], 1001);
      write(store, [[slot, block + 7n * second, 3, start]], 1002);
    }
    assert.deepEqual(told(readAll(store, slot)), ['5: 1 -15', '7: 3 -17', '9: 2 -19']);
    return digestSeries(Uint8Array.of(1), [flushed(store, slot)], ...allTimes);
  });
  assert.deepEqual(digests[0], digests[1]);
});

test('chunks of both kinds are merged by the order of rows', () => {
  const store = newStore();
  const [a, b] = [store.createSeries(0), store.createSeries(0)];
  const times = Array.from({ length: 50 }, (_, i) => block + BigInt(i) * second);
  for (const [i, nanos] of times.entries()) {
    write(store, [[a, nanos, i, 0n]], 2000);
    write(store, [[b, nanos, i, nanos - second]], i % 2 === 0 ? 1999 : 2001);
  }
  const merged = mergeChunks([flushed(store, a), flushed(store, b)]);
  const wanted = times.map((_, i) => `${i}: ${i} ${i % 2 === 0 ? 'none' : '-1'}`);
  assert.deepEqual(told(merged), wanted);
});

test('late rows are taken as those without starts are, and a range without an end is empty', () => {
  const store = newStore();
  const slot = store.createSeries(0);
  for (let i = 0; i < 3000; i++) {
    write(store, [[slot, block + BigInt(i) * second, Math.sqrt(i), 0n]], 1000 + i);
  }
  const late = Array.from({ length: 2000 }, (_, i): Sent => {
    return [slot, block + BigInt(i) * second + 5n, i, 5n];
  });
  assert.ok(write(store, late, 9000).every((outcome) => outcome === storeOutcome.written));
  write(store, [[slot, block + 77n, 1, 5n]], 9001);
  const [from, end] = [block + 35n * second, block + 15n * second];
  const { chunkData } = store.read(Uint32Array.of(slot), from, end);
  assert.equal(mergeByMap(chunkData, from, end).timestampNanos.length, 0);
});

test('a set of stores keeps them, whichever has the series', () => {
  const set = new StoreSet({ storeBytes: 2 << 20, storeCountMax: 3, open: () => newStore() });
  set.setNamespace(0, rules);
  set.keepRowVersions(true);
  const slots = Array.from({ length: 9 }, () => set.createSeries(0));
  write(
    set,
    slots.map((slot, i): Sent => [slot, block + 5n * second, i, block - BigInt(i) * second]),
    1000,
  );
  for (const [i, slot] of slots.entries()) {
    const { chunkData } = set.read(Uint32Array.of(slot), ...allTimes);
    assert.deepEqual(told(chunkData), [`5: ${i} ${-5 - i}`]);
  }
});

test('a store that is full refuses rows with start times, and does not trap', () => {
  const store = newStore(8 << 20);
  const numbers = new SeededNumbers(3);
  const slots = Array.from({ length: 3000 }, () => store.createSeries(0));
  let refused = 0;
  let version = 1000;
  for (let round = 0; round < 900 && refused < 20_000; round++) {
    const nanos = block + BigInt(round) * second;
    const rows = slots.map((slot): Sent => {
      const kind = numbers.below(4);
      const start = kind === 0 ? 0n : kind === 1 ? nanos - BigInt(numbers.u32()) : block;
      const late = numbers.below(20) === 0 ? BigInt(numbers.below(round + 1)) * second : 0n;
      return [slot, nanos - late, numbers.normal(), start];
    });
    const outcomes = write(store, rows, (version += 1000));
    refused += outcomes.filter((outcome) => outcome === storeOutcome.resourceExhausted).length;
  }
  assert.ok(refused >= 20_000, `${refused}`);
  assert.ok(store.memoryBytes < (8 << 20) + (32 << 20));
  for (const slot of slots.slice(0, 100)) {
    assert.deepEqual(told(readAll(store, slot)), told(flushed(store, slot)));
  }
});
