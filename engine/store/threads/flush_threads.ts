/**
 * The threads that read a node's samples for its flushes: one beside each store, from its first
 * flush on.
 */
import type { SampleStore } from '../sample_store.ts';
import { StoreSet } from '../set.ts';
import { StoreThread } from './thread.ts';
import { Store, type StoredChunks } from '../store.ts';

/** Flushes of further stores are read by their own thread. */
const threadsMax = 8;

export class FlushThreads implements AsyncDisposable {
  readonly #store: SampleStore;
  readonly #onFailure: (error: unknown) => void;
  readonly #threads: Map<Store, StoreThread>;
  #isDisposed: boolean;

  /** @param options.onFailure told when a thread ends by itself; its work is done nevertheless */
  constructor(store: SampleStore, options: { readonly onFailure: (error: unknown) => void }) {
    this.#store = store;
    this.#onFailure = options.onFailure;
    this.#threads = new Map();
    this.#isDisposed = false;
  }

  /** As `StoreThread.flushBlock`. */
  async flushBlock(slots: Uint32Array, blockStartNanos: bigint): Promise<StoredChunks> {
    const flush = async (store: Store, some: Uint32Array): Promise<StoredChunks> =>
      (this.#threadOf(store) ?? store).flushBlock(some, blockStartNanos);
    const store = this.#store;
    if (store instanceof StoreSet) return store.flushBlockBy(flush, slots);
    return store instanceof Store ? flush(store, slots) : store.flushBlock(slots, blockStartNanos);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    for (const thread of this.#threads.values()) await thread[Symbol.asyncDispose]();
  }

  #threadOf(store: Store): StoreThread | null {
    let thread = this.#threads.get(store) ?? null;
    if (thread === null && !this.#isDisposed && this.#threads.size < threadsMax) {
      thread = new StoreThread(store, { onFailure: this.#onFailure });
      this.#threads.set(store, thread);
    }
    return thread;
  }
}
