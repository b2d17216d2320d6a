/** What the tests of the store share: a store with a namespace, rows, and what is read of them. */
import type { Random } from '#lib/env/env.ts';
import { Decoder } from './decoder.ts';
import { emptyBundle } from '../codec/series_bundle.ts';
import { Store, type StoredChunks, type StoreNamespace, type StoreRows } from './store.ts';

export const second: bigint = 1_000_000_000n;
export const hour: bigint = 3600n * second;
/** Inside the two-hour block from 1_699_999_200 s. */
export const now: bigint = 1_700_000_400n * second;
export const blockStart: bigint = 1_699_999_200n * second;

const random: Random = {
  u32: () => 7,
  bytes: (length) => new Uint8Array(length),
  fraction: () => 0.5,
};

export const warm: StoreNamespace = {
  blockSizeNanos: 2n * hour,
  bufferPastNanos: hour / 6n,
  bufferFutureNanos: hour / 30n,
  retentionNanos: 48n * hour,
  coldWrites: false,
};

export function newStore(
  options: Partial<StoreNamespace> = {},
  memoryBytesMax: number = 68 << 20,
): Store {
  const store = new Store({ random, memoryBytesMax });
  store.setNamespace(0, { ...warm, ...options });
  return store;
}

export function rowsOf(
  store: Store,
  rows: [slot: number, nanos: bigint, value: number][],
): StoreRows {
  return {
    rowCount: rows.length,
    slots: Uint32Array.from(rows, (row) => row[0]),
    generations: Uint32Array.from(rows, (row) => store.generation[row[0]]!),
    timestamps: BigInt64Array.from(rows, (row) => row[1]),
    timeUnitNanos: 1,
    values: Float64Array.from(rows, (row) => row[2]),
  };
}

let version = 1000;
export function write(
  store: Store,
  rows: [slot: number, nanos: bigint, value: number][],
  at: { now?: bigint; version?: number } = {},
): number[] {
  const columns = rowsOf(store, rows);
  const outcomes = new Uint8Array(rows.length);
  store.check(columns, 0, at.now ?? now, outcomes);
  store.append(columns, at.version ?? ++version, outcomes);
  return [...outcomes];
}

export function decoded(chunks: StoredChunks, index = 0): [bigint, number][] {
  const decoder = new Decoder();
  const rows = decoder.decode(
    { ...emptyBundle, seriesCount: chunks.chunkOffset.length - 1, ...chunks },
    index,
    -(2n ** 63n),
    2n ** 63n - 1n,
  );
  return Array.from({ length: rows }, (_, i) => [decoder.timestampNanos[i]!, decoder.values[i]!]);
}

export function read(
  store: Store,
  slot: number,
  start = 0n,
  end: bigint = 2n ** 62n,
): [bigint, number][] {
  return decoded(store.read(Uint32Array.of(slot), start, end));
}
