import assert from 'node:assert/strict';
import { test } from 'node:test';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { chunkHeaders, kindsAll } from '../codec/chunk.ts';
import { decodeTypedChunk, encodeTypedChunk } from '../typed/chunk_twin.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { histogramValues } from '../typed/samples_testing.ts';
import { TypedValueWriter, valueKind } from '../typed/typed_value.ts';
import type { SampleStore } from './sample_store.ts';
import { StoreSet } from './set.ts';
import { Store, storeOutcome, type StoreNamespace, type StoreTypedRows } from './store.ts';
import { fuzz } from './store_typed_fuzz.ts';

const second = 1_000_000_000n;
const startNanos = 1_700_000_000n * second;
const namespace: StoreNamespace = {
  blockSizeNanos: 7200n * second,
  bufferPastNanos: 7200n * second,
  bufferFutureNanos: 7200n * second,
  retentionNanos: 100_000n * second,
  coldWrites: false,
};
const version = Number(versionAtNanos(startNanos)) + 640;

function makeStore(memoryBytesMax: number = 64 << 20): Store {
  const random = { u32: () => 1, bytes: (n: number) => new Uint8Array(n), fraction: () => 0 };
  const store = new Store({ random, memoryBytesMax });
  store.keepRowVersions(true);
  store.setNamespace(0, namespace);
  return store;
}

function rowsOf(
  store: SampleStore,
  rows: readonly (readonly [slot: number, nanos: bigint, value: Uint8Array])[],
): StoreTypedRows {
  let end = 0;
  return {
    rowCount: rows.length,
    slots: Uint32Array.from(rows, (row) => row[0]),
    generations: Uint32Array.from(rows, (row) => store.generation[row[0]] ?? 0),
    timestamps: BigInt64Array.from(rows, (row) => row[1]),
    timeUnitNanos: 1,
    startNanos: new BigInt64Array(rows.length),
    valueEnds: Uint32Array.from(rows, (row) => (end += row[2].length)),
    valueBytes: new Uint8Array(Buffer.concat(rows.map((row) => row[2]))),
  };
}

function write(store: SampleStore, rows: StoreTypedRows): Uint8Array {
  const outcomes = new Uint8Array(rows.rowCount);
  store.checkTyped(rows, 0, startNanos, outcomes);
  store.appendTyped(rows, version, outcomes);
  return outcomes;
}

/** Values of a series, by time. */
function valuesOf(store: SampleStore, slot: number): Uint8Array[] {
  const { chunkData } = store.read(Uint32Array.of(slot), -(2n ** 63n), 2n ** 63n - 1n);
  return [...chunkHeaders(chunkData, 0, chunkData.length, kindsAll)].flatMap(
    (header) => decodeTypedChunk(chunkData, header).values,
  );
}

const message = (value: bigint): Uint8Array =>
  new TypedValueWriter().begin(valueKind.message, 1).uint(1, value).finish();

test('typed rows alone, and among floats, are what the twin says', () => {
  for (let seed = 1; seed <= 6; seed++) fuzz(seed, 60);
});

test('a value that is not canonical is refused by row, and the others are written', () => {
  const store = makeStore();
  const slot = store.createSeries(0);
  const bad = [
    Uint8Array.of(),
    Uint8Array.of(2),
    // A float, an unknown kind, a number that is longer than it need be, fields that do not ascend, a cut one.
    Uint8Array.of(0, 0),
    Uint8Array.of(6, 0),
    Uint8Array.of(2, 1, 9, 0x81, 0),
    Uint8Array.of(2, 1, 17, 1, 9, 1),
    Uint8Array.of(2, 1, 10, 1, 2, 3),
  ];
  const rows = rowsOf(store, [
    ...bad.map((value, i) => [slot, startNanos + BigInt(i), value] as const),
    [slot, startNanos + second, message(7n)],
  ]);
  const outcomes = write(store, rows);
  assert.deepEqual([...outcomes], [...bad.map(() => storeOutcome.badValue), storeOutcome.written]);
  assert.deepEqual(valuesOf(store, slot), [message(7n)]);
});

test('typed rows of a set go to the store of their series', () => {
  const set = new StoreSet({ storeBytes: 2 << 20, storeCountMax: 3, open: () => makeStore() });
  set.setNamespace(0, namespace);
  set.keepRowVersions(true);
  const slots = Array.from({ length: 4000 }, () => set.createSeries(0));
  const rows = slots.map((slot, i) => [slot, startNanos, message(BigInt(i))] as const);
  const outcomes = write(set, rowsOf(set, [...rows, [123_456, startNanos, message(1n)]]));
  assert.equal(outcomes.at(-1), storeOutcome.unknownReference);
  assert.ok(outcomes.subarray(0, -1).every((outcome) => outcome === storeOutcome.written));
  for (const [i, slot] of slots.entries())
    assert.deepEqual(valuesOf(set, slot), [message(BigInt(i))]);
});

test('a full memory refuses typed rows, and what was admitted is kept', () => {
  const store = makeStore(20 << 20);
  const values = histogramValues(new SeededNumbers(1), 60, { perRow: 50, schema: 3 });
  const slots: number[] = [];
  const written = new Map<number, number>();
  let refused = 0;
  for (let i = 0; i < 60; i++) {
    for (let n = 0; i < 10 && n < 400; n++) slots.push(store.createSeries(0));
    const rows = slots.map((slot) => [slot, startNanos + BigInt(i) * second, values[i]!] as const);
    const outcomes = write(store, rowsOf(store, rows));
    for (const [place, slot] of slots.entries()) {
      if (outcomes[place] === storeOutcome.written) written.set(slot, (written.get(slot) ?? 0) + 1);
      else refused += 1;
    }
  }
  assert.ok(refused > 0, 'the memory was full');
  assert.ok(store.memoryBytes <= 20 << 20, `${store.memoryBytes}`);
  for (const slot of slots) assert.equal(valuesOf(store, slot).length, written.get(slot) ?? 0);
});

const wide = (value: bigint): Uint8Array => {
  const writer = new TypedValueWriter().begin(valueKind.message, 1);
  for (let number = 1; number <= 1000; number++) writer.uint(number, value + BigInt(number));
  return writer.finish();
};

test('a row that is written again and again leaves its block writable, and can be flushed', () => {
  const store = makeStore();
  const slot = store.createSeries(0);
  for (let i = 0; i < 3000; i++) {
    const rows = rowsOf(store, [[slot, startNanos, wide(BigInt(i))]]);
    const outcomes = new Uint8Array(1);
    store.checkTyped(rows, 0, startNanos, outcomes);
    assert.equal(outcomes[0], storeOutcome.written, `write ${i}`);
    store.appendTyped(rows, version + i, outcomes);
  }
  const { chunkData } = store.flushBlock(Uint32Array.of(slot), store.blockStarts(slot)[0]!);
  const [header] = chunkHeaders(chunkData, 0, chunkData.length, kindsAll);
  assert.deepEqual(decodeTypedChunk(chunkData, header!).values, [wide(2999n)]);
});

test('chunks that stand for more values than can be merged are refused, and the same one may come often', () => {
  const store = makeStore();
  const long = new TypedValueWriter()
    .begin(valueKind.message, 1)
    .bytes(1, new Uint8Array(4000))
    .finish();
  const bombAt = (nanos: bigint): Uint8Array => {
    const timestampNanos = BigInt64Array.from({ length: 250 }, (_, i) => nanos + BigInt(i));
    return encodeTypedChunk({
      timestampNanos,
      values: Array.from(timestampNanos, () => long),
      rowVersions: new Float64Array(250).fill(version),
      startNanos: null,
    });
  };
  const slot = store.createSeries(0);
  for (let i = 0; i < 200; i++) store.insertChunks(slot, bombAt(startNanos));
  assert.equal(valuesOf(store, slot).length % 250, 0);
  assert.throws(
    () => {
      for (let i = 1; i < 200; i++) store.insertChunks(slot, bombAt(startNanos + BigInt(i * 250)));
    },
    { code: 'RESOURCE_EXHAUSTED' },
  );
  const many = Array.from({ length: 200 }, (_, i) => bombAt(startNanos + BigInt(i * 250)));
  const other = store.createSeries(0);
  assert.throws(() => store.insertChunks(other, new Uint8Array(Buffer.concat(many))), {
    code: 'RESOURCE_EXHAUSTED',
  });
  assert.deepEqual(store.blockStarts(other), []);
  const { chunkData } = store.flushBlock(Uint32Array.of(slot), store.blockStarts(slot)[0]!);
  assert.ok(chunkData.length > 0);
});

test('of a batch with more than a block may have only so much is taken as can be merged', () => {
  const wide = (first: number): Uint8Array => {
    const writer = new TypedValueWriter().begin(valueKind.message, 1);
    for (let number = 1; number <= 4_000; number++) writer.uint(number, BigInt(first + number));
    return writer.finish();
  };
  const store = makeStore();
  const [slot, other] = [store.createSeries(0), store.createSeries(0)];
  const rows = rowsOf(
    store,
    Array.from({ length: 600 }, (_, i) => {
      return [i % 2 === 0 ? slot : other, startNanos + BigInt(i) * second, wide(i)] as const;
    }),
  );
  const outcomes = write(store, rows);
  const taken = [0, 1].map(
    (odd) =>
      outcomes.filter((outcome, i) => i % 2 === odd && outcome === storeOutcome.written).length,
  );
  assert.ok(
    taken.every((count) => count > 50 && count < 200),
    `${taken}`,
  );
  const { chunkData } = store.flushBlock(Uint32Array.of(slot), store.blockStarts(slot)[0]!);
  const flushed = [...chunkHeaders(chunkData, 0, chunkData.length, kindsAll)];
  assert.equal(
    flushed.reduce((sum, { rowCount }) => sum + rowCount, 0),
    taken[0],
  );
});

test('batches that are checked before the first of them is applied count together', () => {
  const store = makeStore();
  const slot = store.createSeries(0);
  const wide = (first: number): Uint8Array => {
    const writer = new TypedValueWriter().begin(valueKind.message, 1);
    for (let number = 1; number <= 4_000; number++) writer.uint(number, BigInt(first + number));
    return writer.finish();
  };
  const checked = (first: number): (() => number) => {
    const rows = rowsOf(
      store,
      Array.from({ length: 60 }, (_, i) => {
        return [slot, startNanos + BigInt(first + i) * second, wide(first + i)] as const;
      }),
    );
    const outcomes = new Uint8Array(60);
    store.checkTyped(rows, 0, startNanos, outcomes);
    return () => {
      store.appendTyped(rows, version, outcomes);
      return outcomes.filter((outcome) => outcome === storeOutcome.written).length;
    };
  };
  store.beginGroup(0);
  const first = [checked(0), checked(60)];
  store.beginGroup(1);
  const then = [checked(120), checked(180), checked(240)];
  let taken = 0;
  for (const apply of first) taken += apply();
  store.endGroup(0);
  for (const apply of then) taken += apply();
  store.endGroup(1);
  assert.ok(taken >= 60 && taken < 200, `${taken}`);
  const { chunkData } = store.flushBlock(Uint32Array.of(slot), store.blockStarts(slot)[0]!);
  const flushed = [...chunkHeaders(chunkData, 0, chunkData.length, kindsAll)];
  assert.equal(
    flushed.reduce((sum, { rowCount }) => sum + rowCount, 0),
    taken,
  );

  // What was applied, or given up, counts no more than it is there.
  const other = store.createSeries(0);
  for (let i = 0; i < 20; i++) {
    store.beginGroup(0);
    const row = [other, startNanos, wide(0)] as const;
    const outcomes = new Uint8Array(40);
    const rows = rowsOf(
      store,
      Array.from({ length: 40 }, () => row),
    );
    assert.equal(store.checkTyped(rows, 0, startNanos, outcomes), 0, `batch ${i}`);
    store.endGroup(0);
  }
});

test('a block that was admitted is flushed when the memory is full', () => {
  const store = makeStore();
  const slot = store.createSeries(0);
  const long = (): Uint8Array =>
    new TypedValueWriter().begin(valueKind.message, 1).bytes(1, new Uint8Array(200_000)).finish();
  const writeUntilRefused = (slots: () => number): number => {
    for (let i = 0; i < 2000; i++) {
      const row = [slots(), startNanos + BigInt(i) * second, long()] as const;
      if (write(store, rowsOf(store, [row]))[0] !== storeOutcome.written) return i;
    }
    return assert.fail('nothing is refused');
  };
  const count = writeUntilRefused(() => slot);
  assert.ok(count > 20, `${count}`);
  writeUntilRefused(() => store.createSeries(0));
  const { chunkData } = store.flushBlock(Uint32Array.of(slot), store.blockStarts(slot)[0]!);
  const flushed = [...chunkHeaders(chunkData, 0, chunkData.length, kindsAll)];
  assert.equal(
    flushed.reduce((sum, { rowCount }) => sum + rowCount, 0),
    count,
  );
});
