/** A store at the end of its memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BrokenInvariant } from '#lib/assert.ts';
import { reserveOf, Store, storeOutcome, type StoreNamespace } from './store.ts';
import type { StoreExports } from './store_exports.ts';
import { blockStart, decoded, hour, newStore, read, second, write } from './store_testing.ts';

test('a store over its memory budget refuses new series and rows, and keeps what it has', () => {
  const store = newStore({ bufferPastNanos: hour }, 8 << 20);
  const slots: number[] = [];
  assert.throws(
    () => {
      for (;;) {
        const slot = store.createSeries(0);
        slots.push(slot);
        for (let i = 0; i < 5; i++) write(store, [[slot, blockStart + BigInt(i), i]]);
      }
    },
    { code: 'RESOURCE_EXHAUSTED' },
  );
  assert.ok(slots.length > 100);
  let refused = 0;
  for (let i = 5; i < 200 && refused === 0; i++) {
    const outcomes = write(
      store,
      slots.map((slot) => [slot, blockStart + BigInt(i), (i * 7919) % 1000]),
    );
    refused = outcomes.filter((outcome) => outcome === storeOutcome.resourceExhausted).length;
  }
  assert.ok(refused > 0);
  assert.ok(store.memoryBytes <= 8 << 20);
  assert.deepEqual(
    read(store, slots[50]!)
      .slice(0, 5)
      .map((row) => row[1]),
    [0, 1, 2, 3, 4],
  );
});

/**
 * A chunk of so many rows every millisecond with one value, which a few bytes tell
 * (docs/formats/codec.md).
 */
function longRegularChunk(firstMillis: number, rows: number): number[] {
  const varint = (value: bigint): number[] =>
    value < 128n ? [Number(value)] : [Number(value & 127n) | 128, ...varint(value >> 7n)];
  const zigzag = (value: bigint) => (value >= 0n ? 2n * value : -2n * value - 1n);
  const last = BigInt(firstMillis + rows - 1) * 1_000_000n;
  const [kindAndUnit, regular, oneLine] = [2 | (2 << 4), 0, 0];
  const body = [
    kindAndUnit,
    ...varint(BigInt(rows - 1)),
    ...varint(zigzag(BigInt(firstMillis))),
    ...varint(BigInt(rows - 1)),
    ...varint(zigzag(5n - last / 15625n)),
    regular,
    ...varint(zigzag(7n)),
    oneLine,
    ...varint(0n),
  ];
  return [...varint(BigInt(body.length)), ...body];
}

const dayStart = 1_699_920_000n * second;
const day: Partial<StoreNamespace> = {
  blockSizeNanos: 24n * hour,
  bufferPastNanos: 48n * hour,
  retentionNanos: 96n * hour,
};

/** Rows every millisecond from the day's begin on. */
function insertRows(store: Store, slot: number, rows: number): void {
  const chunkRows = 65_536;
  const startMillis = Number(dayStart / 1_000_000n);
  for (let row = 0; row < rows; row += chunkRows) {
    const count = Math.min(chunkRows, rows - row);
    store.insertChunks(slot, Uint8Array.from(longRegularChunk(startMillis + row, count)));
  }
}

const { written, resourceExhausted } = storeOutcome;

test('a block takes no more rows of a series than a query decodes; the other ones go on', () => {
  const store = newStore(day, 2 ** 32);
  const [long, other] = [store.createSeries(0), store.createSeries(0)];
  insertRows(store, long, 2 ** 24);
  assert.equal(store.sampleCount, 2 ** 24);
  const late = dayStart + 12_345n;
  const outcomes = write(store, [
    [long, late, 1],
    [other, late, 2],
    [long, dayStart - hour, 3],
  ]);
  assert.deepEqual(outcomes, [resourceExhausted, written, written]);
  assert.deepEqual(read(store, other), [[late, 2]]);
  assert.deepEqual(read(store, long, dayStart - hour, dayStart), [[dayStart - hour, 3]]);
});

test('rows that memory could not merge are refused, and a block that it cannot merge is not read for a file', () => {
  const store = newStore(day, 64 << 20);
  const [long, other] = [store.createSeries(0), store.createSeries(0)];
  const rows = 1_500_000;
  // The current block, whose head takes rows without a merge until it is sealed.
  assert.deepEqual(write(store, [[long, dayStart + second, 1]]), [written]);
  insertRows(store, long, rows);
  const late = dayStart + 12_345n;
  assert.deepEqual(write(store, [[long, late, 1]]), [resourceExhausted]);
  const behind = dayStart + BigInt(rows) * 1_000_000n;
  const outcomes = Array.from(
    { length: 1000 },
    (_, i) => write(store, [[long, behind + BigInt(i) * second, i]])[0],
  );
  assert.deepEqual([outcomes[0], outcomes.at(-1)], [written, resourceExhausted]);
  assert.throws(() => store.flushBlock(Uint32Array.of(long), dayStart), {
    code: 'RESOURCE_EXHAUSTED',
    message: /memory is over its budget: slot 0/,
  });
  assert.deepEqual(write(store, [[other, late, 2]]), [written]);
  assert.deepEqual(decoded(store.flushBlock(Uint32Array.of(other), dayStart)), [[late, 2]]);
});

/** A store that calls other functions in the place of some of its kernel's. */
function storeOn(
  othersOf: (kernel: StoreExports) => Partial<StoreExports>,
  make: () => Store,
): Store {
  const { Instance } = WebAssembly;
  WebAssembly.Instance = class {
    readonly exports: Record<string, unknown>;
    constructor(...[module, imports]: ConstructorParameters<typeof Instance>) {
      const { exports } = new Instance(module, imports);
      this.exports = { ...exports, ...othersOf(exports as unknown as StoreExports) };
    }
  };
  try {
    return make();
  } finally {
    WebAssembly.Instance = Instance;
  }
}

test('a store keeps an eighth of its memory in reserve, 1 to 256 MiB', () => {
  const reserves = [8, 64, 1024, 2047, 2048, 3072].map((mebibytes) =>
    reserveOf(mebibytes * 2 ** 20),
  );
  assert.deepEqual(
    reserves.map((bytes) => bytes / 2 ** 20),
    [1, 8, 128, 255.875, 256, 256],
  );
});

test('a store works above two GiB of its memory', () => {
  // The stage is the end of a very large one, most of which is untouched and has no memory behind
  // it; what is made after it lies beyond.
  const unused = 2 ** 31;
  const used = 64 << 20;
  const withLargeStage = (kernel: StoreExports): Partial<StoreExports> => ({
    stage: (bytes) => {
      assert.ok(bytes <= used);
      return (kernel.stage(unused + used) >>> 0) + unused;
    },
  });
  const store = storeOn(withLargeStage, () => newStore({ bufferPastNanos: hour }, 3 * 2 ** 30));
  const slot = store.createSeries(0);
  write(store, [[slot, blockStart, 1]]);
  assert.ok(store.memoryBytes > unused);
  const rows = 20_000;
  const many = Array.from({ length: rows }, (_, i): [number, bigint, number] => [
    slot,
    blockStart + BigInt(i + 1) * 1_000_000n,
    i,
  ]);
  assert.ok(write(store, many).every((outcome) => outcome === written));
  assert.equal(read(store, slot).length, rows + 1);
  assert.deepEqual(store.slotsOfBlock(0, blockStart), Uint32Array.of(slot));
  const { chunkData } = store.flushBlock(Uint32Array.of(slot), blockStart);
  const other = store.createSeries(0);
  store.insertChunks(other, chunkData);
  assert.equal(read(store, other).length, rows + 1);
  assert.equal(store.dropFlushed(Uint32Array.of(slot), blockStart), 1);
});

test('a trap of the kernel is a broken invariant: the memory is half changed', () => {
  const append = () => {
    throw new WebAssembly.RuntimeError('unreachable');
  };
  const store = storeOn(() => ({ append }), newStore);
  const slot = store.createSeries(0);
  assert.throws(() => write(store, [[slot, blockStart, 1]]), BrokenInvariant);
});

test('batches that seal the heads of all series at once have room, up to the last one that is taken', () => {
  const store = newStore(day, 8 << 20);
  const slots = Array.from({ length: 1000 }, () => store.createSeries(0));
  let noise = 1;
  let isFull = false;
  let row = 0;
  for (; !isFull; row += 2) {
    const outcomes = write(
      store,
      Array.from({ length: 2000 }, (_, i) => {
        noise = Math.imul(noise, 1_664_525) + 1_013_904_223;
        return [slots[i % slots.length]!, dayStart + BigInt(row * slots.length + i), 1 / noise];
      }),
    );
    isFull = outcomes.every((outcome) => outcome === resourceExhausted);
  }
  assert.ok(row > 400);
  // The second row of a batch may seal what had room for one: that is beyond the budget.
  assert.ok(store.memoryBytes <= 10 << 20);
});
