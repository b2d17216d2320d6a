/** Opens what keeps a node's samples: a `Store`, or several as a `StoreSet`. */
import type { Random } from '#lib/env/env.ts';
import type { SampleStore } from './sample_store.ts';
import { Store } from './store.ts';
import { StoreSet } from './set.ts';

/** One WebAssembly memory ends at 4 GiB. */
export const oneStoreBytesMax: number = 3 * 2 ** 30;

/**
 * @param options.memoryBytesMax everything that samples may take, 8 MiB to 512 GiB; above
 *   `oneStoreBytesMax` it is shared by stores of one size
 */
export function openSampleStore(options: { random: Random; memoryBytesMax: number }): SampleStore {
  const { random, memoryBytesMax } = options;
  const storeCountMax = Math.ceil(memoryBytesMax / oneStoreBytesMax);
  if (storeCountMax <= 1) return new Store(options);
  const storeBytes = Math.floor(memoryBytesMax / storeCountMax);
  const open = (): Store => new Store({ random, memoryBytesMax: storeBytes });
  return new StoreSet({ storeBytes, storeCountMax, open });
}
