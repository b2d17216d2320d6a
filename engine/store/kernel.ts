/** Loads the store kernel into a memory. */
import { assert } from '#lib/assert.ts';
import { compileWasmFile } from '#lib/env/wasm.ts';
import { codecTables } from '../codec/books.ts';
import type { StoreExports } from './store_exports.ts';

export const wasmPageBytes = 65_536;
/** Pages that a memory needs before it holds anything. */
export const wasmPagesMin = 34;

const storeModule = compileWasmFile(new URL('../build/store.wasm', import.meta.url));

export interface LoadedStoreKernel {
  readonly memory: WebAssembly.Memory;
  readonly kernel: StoreExports;
}

/** A fresh memory of up to so many bytes with the kernel on it. */
export function loadStoreKernel(memoryBytesMax: number): LoadedStoreKernel {
  const pageMax = Math.floor(memoryBytesMax / wasmPageBytes);
  assert(pageMax > wasmPagesMin && pageMax <= 65_536, 'a memory has 2.2 MiB to 4 GiB');
  const memory = new WebAssembly.Memory({ initial: wasmPagesMin, maximum: pageMax });
  const { exports } = new WebAssembly.Instance(storeModule, { env: { memory } });
  const kernel = exports as unknown as StoreExports;
  kernel.init(pageMax);
  new Uint8Array(memory.buffer).set(codecTables(), kernel.tablesAddress());
  return { memory, kernel };
}

const int64Min = -(2n ** 63n);
const int64Max = 2n ** 63n - 1n;

export function clampInt64(value: bigint): bigint {
  if (value < int64Min) return int64Min;
  return value > int64Max ? int64Max : value;
}
