/**
 * Loads the store kernel into a memory, with the calls it exports.
 * engine/store/kernel/store.kernel.ts explains them.
 */
import { assert } from '#lib/assert.ts';
import { adviseHugePages } from '#lib/process/huge_pages.ts';
import { compileWasmFile } from '#lib/env/wasm.ts';
import { codecTables } from '../codec/books.ts';

export const wasmPageBytes = 65_536;
/** Pages that a memory needs before it holds anything. */
export const wasmPagesMin = 34;

const storeModule = compileWasmFile(new URL('../build/store.wasm', import.meta.url));

/**
 * Addresses, lengths and counts are numbers below 2^32 (some come back signed); nanoseconds are
 * int64.
 */
export interface StoreKernel {
  init(pageMax: number): void;
  tablesAddress(): number;
  stage(bytes: number): number;
  setNamespace(ordinal: number, blockSizeNanos: bigint): void;
  createSeries(namespaceOrdinal: number, budgetBytes: number): number;
  isLive(slot: number): number;
  generationOf(slot: number): number;
  releaseSeries(slot: number): void;
  check(
    slots: number,
    generations: number,
    times: number,
    outcomes: number,
    rowCount: number,
    unitNanos: bigint,
    namespaceOrdinal: number,
    nanosFrom: bigint,
    nanosEnd: bigint,
    budgetBytes: number,
    reserveBytes: number,
  ): number;
  append(
    slots: number,
    generations: number,
    times: number,
    values: number,
    outcomes: number,
    rowCount: number,
    unitNanos: bigint,
    version: bigint,
  ): void;
  read(
    slots: number,
    from: number,
    count: number,
    startNanos: bigint,
    endNanos: bigint,
    out: number,
    room: number,
    lengths: number,
  ): number;
  readBlock(
    slots: number,
    from: number,
    count: number,
    blockStartNanos: bigint,
    out: number,
    room: number,
    lengths: number,
    isFlush: number,
  ): number;
  markFlush(slots: number, count: number, blockStartNanos: bigint): void;
  answer(): number;
  copyImages(
    slots: number,
    generations: number,
    from: number,
    count: number,
    startNanos: bigint,
    endNanos: bigint,
    out: number,
    room: number,
    lengths: number,
  ): number;
  readImages(
    images: number,
    from: number,
    count: number,
    startNanos: bigint,
    endNanos: bigint,
    isMerged: number,
    out: number,
    room: number,
    lengths: number,
  ): number;
  takeRegion(bytes: number): number;
  releaseRegion(at: number): void;
  insertChunks(slot: number, at: number, length: number): number;
  blockStarts(slot: number, out: number, countMax: number): number;
  dropBlock(slots: number, count: number, blockStartNanos: bigint): void;
  dropFlushed(slots: number, count: number, blockStartNanos: bigint): number;
  blocks(namespaceOrdinal: number, out: number, countMax: number): number;
  slotsOfBlock(
    namespaceOrdinal: number,
    blockStartNanos: bigint,
    from: number,
    out: number,
    countMax: number,
  ): number;
  expire(
    namespaceOrdinal: number,
    cutoffNanos: bigint,
    from: number,
    end: number,
    out: number,
    countMax: number,
  ): number;
  seriesEnd(): number;
  seriesCount(): number;
  sampleCount(): number;
  memoryBytes(): number;
  scanChunks(at: number, end: number, nanosFrom: bigint, nanosEnd: bigint): number;
  decodeBytes(rows: number, chunks: number): number;
  decodeChunks(
    at: number,
    end: number,
    nanosFrom: bigint,
    nanosEnd: bigint,
    rows: number,
    chunks: number,
    work: number,
    answers: number,
  ): number;
  mergedBytesMax(rows: number): number;
  mergeChunks(
    at: number,
    end: number,
    rows: number,
    chunks: number,
    work: number,
    out: number,
  ): number;
  keepRows(
    at: number,
    end: number,
    nanosFrom: bigint,
    nanosEnd: bigint,
    work: number,
    out: number,
  ): number;
  packChunks(chunks: number, lengths: number, count: number, work: number, out: number): number;
  readonly packWorkBytes: { readonly value: number };
  readonly packRoomBytes: { readonly value: number };
}

export interface LoadedStoreKernel {
  readonly memory: WebAssembly.Memory;
  readonly kernel: StoreKernel;
}

/** A fresh memory of up to so many bytes with the kernel on it. */
export function loadStoreKernel(memoryBytesMax: number): LoadedStoreKernel {
  const pageMax = Math.floor(memoryBytesMax / wasmPageBytes);
  assert(pageMax > wasmPagesMin && pageMax <= 65_536, 'a memory has 2.2 MiB to 4 GiB');
  const memory = new WebAssembly.Memory({ initial: wasmPagesMin, maximum: pageMax, shared: true });
  const start = wasmPagesMin * wasmPageBytes;
  adviseHugePages(memory, start, pageMax * wasmPageBytes - start);
  const { exports } = new WebAssembly.Instance(storeModule, { env: { memory } });
  const kernel = exports as unknown as StoreKernel;
  kernel.init(pageMax);
  new Uint8Array(memory.buffer).set(codecTables(), kernel.tablesAddress());
  return { memory, kernel };
}

/** The kernel on the memory of another thread's store, for `copyImages` alone. */
export function attachStoreKernel(memory: WebAssembly.Memory): StoreKernel {
  const { exports } = new WebAssembly.Instance(storeModule, { env: { memory } });
  return exports as unknown as StoreKernel;
}

const int64Min = -(2n ** 63n);
const int64Max = 2n ** 63n - 1n;

export function clampInt64(value: bigint): bigint {
  if (value < int64Min) return int64Min;
  return value > int64Max ? int64Max : value;
}
