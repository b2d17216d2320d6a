import assert from 'node:assert/strict';
import { test } from 'node:test';
import { packChunks } from './chunk_pack.ts';
import { Decoder } from './decoder.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { emptyBundle } from '../codec/series_bundle.ts';
import { Store } from './store.ts';

const hourNanos = 3_600n * 1_000_000_000n;
const start = 1_700_000_000_000n - (1_700_000_000_000n % 3_600_000n);
const [anyStart, anyEnd] = [-(2n ** 63n), 2n ** 63n - 1n];

function makeStore(): Store {
  const random = { u32: () => 7, bytes: (n: number) => new Uint8Array(n), fraction: () => 0.5 };
  const store = new Store({ random, memoryBytesMax: 64 << 20 });
  store.setNamespace(0, {
    blockSizeNanos: hourNanos,
    bufferPastNanos: hourNanos,
    bufferFutureNanos: hourNanos,
    retentionNanos: 48n * hourNanos,
    coldWrites: true,
  });
  return store;
}

function write(store: Store, slots: number[], millis: bigint, bits: bigint[], version: number) {
  const rowCount = slots.length;
  const rows = {
    rowCount,
    slots: Uint32Array.from(slots),
    generations: Uint32Array.from(slots, (slot) => store.generation[slot]!),
    timestamps: new BigInt64Array(rowCount).fill(millis),
    timeUnitNanos: 1_000_000,
    values: new Float64Array(BigUint64Array.from(bits).buffer),
  };
  store.append(rows, version, new Uint8Array(rowCount));
}

function rowsOf(chunks: Uint8Array): string[] {
  using decoder = new Decoder();
  const chunkOffset = Uint32Array.of(0, chunks.length);
  const bundle = { ...emptyBundle, seriesCount: 1, chunkData: chunks, chunkOffset };
  const rows = decoder.decode(bundle, 0, anyStart, anyEnd);
  const words = decoder.valueWords;
  return Array.from(
    decoder.timestampMillis.subarray(0, rows),
    (millis, i) => `${millis} ${words[2 * i + 1]} ${words[2 * i]}`,
  );
}

test('packed chunks hold the same rows in fewer bytes, also after they went into another store', () => {
  const numbers = new SeededNumbers(5);
  const store = makeStore();
  const slots = Array.from({ length: 20 }, () => store.createSeries(0));
  const values = new Float64Array(20);
  for (let row = 0; row < 700; row++) {
    // Some rows are late, so that they lie beside the head.
    const late = row % 97 === 96 && row < 300 ? 40 : 0;
    for (let i = 0; i < 20; i++) values[i] = Math.round(Math.abs(values[i]! + numbers.normal()));
    const bits = Array.from(new BigUint64Array(values.buffer));
    if (row === 300) bits[3] = 0x7ff0000000000002n;
    write(store, slots, start + BigInt((row - late) * 10_000), bits, row * 640);
  }
  const read = store.read(Uint32Array.from(slots), anyStart, anyEnd);
  const packed = packChunks(read, false);
  assert.ok(packed.chunkData.length < 0.9 * read.chunkData.length);
  assert.equal(packed.chunkOffset.at(-1), packed.chunkData.length);
  const other = makeStore();
  for (let i = 0; i < 20; i++) {
    const chunks = packed.chunkData.subarray(packed.chunkOffset[i]!, packed.chunkOffset[i + 1]!);
    const before = read.chunkData.subarray(read.chunkOffset[i]!, read.chunkOffset[i + 1]!);
    assert.deepEqual(rowsOf(chunks), rowsOf(before));
    const slot = other.createSeries(0);
    other.insertChunks(slot, chunks);
    const again = other.read(Uint32Array.of(slot), anyStart, anyEnd);
    assert.deepEqual(rowsOf(again.chunkData), rowsOf(before));
  }
});

test('a head with rows of another chunk in its time keeps the versions of its rows', () => {
  const store = makeStore();
  const slot = store.createSeries(0);
  for (let row = 0; row < 20; row++) write(store, [slot], start + BigInt(row * 1000), [1n], row);
  // Older than the rows around it, and later in the order of application.
  write(store, [slot], start + 5000n, [2n], 3);
  const read = store.read(Uint32Array.of(slot), anyStart, anyEnd);
  const packed = packChunks(read, false);
  assert.deepEqual(rowsOf(packed.chunkData), rowsOf(read.chunkData));
  assert.ok(rowsOf(packed.chunkData).includes(`${start + 5000n} 0 1`));
});
