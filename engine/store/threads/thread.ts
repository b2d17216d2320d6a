/**
 * A thread that reads a store beside the thread that the store belongs to, for work that would hold
 * up the main loop. Whatever it cannot do, and everything while it is not there, is done by the
 * store itself.
 */
import { Worker } from 'node:worker_threads';
import { assert } from '#lib/assert.ts';
import { ByteCollector } from '../byte_collector.ts';
import type { ReaderAnswer } from '../reader.ts';
import type { Store, StoredChunks, StoreWindow } from '../store.ts';

/** A block of series that the thread is asked for, as `StoreReader.readBlock`. */
export interface StoreThreadRequest {
  readonly id: number;
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  readonly blockStartNanos: bigint;
}

export type StoreThreadReply = ReaderAnswer & { readonly id: number };

/** Requests that wait for the thread; what comes beyond is done at once by the store itself. */
const requestsMax = 64;
/** A thread that fails so often is not started again. */
const failuresMax = 5;
/**
 * Requests that the store does itself until it is asked again for memory that it did not have for
 * the thread.
 */
const requestsUntilRetry = 1000;

interface Thread {
  readonly worker: Worker;
  readonly window: StoreWindow;
  readonly waiting: Map<number, (reply: StoreThreadReply | null) => void>;
}

export class StoreThread implements AsyncDisposable {
  readonly #store: Store;
  readonly #onFailure: (error: unknown) => void;
  #thread: Thread | null;
  #nextId: number;
  #failures: number;
  /** Requests until the thread may be started. */
  #requestsLeft: number;
  #isDisposed: boolean;

  /**
   * The thread starts with the first request.
   * @param options.onFailure told when the thread ends by itself; what it was asked for is done
   * nevertheless
   */
  constructor(store: Store, options: { readonly onFailure: (error: unknown) => void }) {
    this.#store = store;
    this.#onFailure = options.onFailure;
    this.#thread = null;
    this.#nextId = 0;
    this.#failures = 0;
    this.#requestsLeft = 0;
    this.#isDisposed = false;
  }

  /**
   * `Store.flushBlock`: rows that come after the call may be in it and keep the series from being
   * dropped.
   */
  async flushBlock(slots: Uint32Array, blockStartNanos: bigint): Promise<StoredChunks> {
    const { generation } = this.#store;
    const generations = slots.map((slot) => generation[slot]!);
    this.#store.markFlush(slots, blockStartNanos);
    const request = { slots, generations, blockStartNanos };
    return this.#complete(request, await this.#ask(request));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    if (this.#thread !== null) await this.#end(this.#thread);
  }

  #ask(request: Omit<StoreThreadRequest, 'id'>): Promise<StoreThreadReply | null> | null {
    const thread = (this.#thread ??= this.#start());
    if (thread === null || thread.waiting.size === requestsMax) return null;
    const id = this.#nextId++;
    const { promise, resolve } = Promise.withResolvers<StoreThreadReply | null>();
    // It keeps the process alive only while something is asked for.
    if (thread.waiting.size === 0) thread.worker.ref();
    thread.waiting.set(id, resolve);
    thread.worker.postMessage({ id, ...request } satisfies StoreThreadRequest);
    return promise;
  }

  #start(): Thread | null {
    if (this.#isDisposed || this.#failures >= failuresMax) return null;
    if (this.#requestsLeft > 0) {
      this.#requestsLeft -= 1;
      return null;
    }
    let window: StoreWindow;
    try {
      window = this.#store.openReader();
    } catch (error) {
      this.#requestsLeft = requestsUntilRetry;
      this.#onFailure(error);
      return null;
    }
    const worker = new Worker(new URL('worker.ts', import.meta.url), {
      name: 'store-reader',
      workerData: window,
      resourceLimits: { maxYoungGenerationSizeMb: 2, maxOldGenerationSizeMb: 64 },
    });
    const thread: Thread = { worker, window, waiting: new Map() };
    const fail = (error: unknown): void => {
      if (this.#thread !== thread) return;
      this.#failures += 1;
      this.#onFailure(error);
      void this.#end(thread);
    };
    worker.on('error', fail);
    worker.on('exit', () => fail(new Error('the thread has ended')));
    worker.on('message', (reply: StoreThreadReply) => {
      const resolve = thread.waiting.get(reply.id);
      assert(resolve !== undefined, 'a request is answered once');
      thread.waiting.delete(reply.id);
      if (thread.waiting.size === 0) worker.unref();
      resolve(reply);
    });
    worker.unref();
    return thread;
  }

  async #end(thread: Thread): Promise<void> {
    this.#thread = null;
    // Its region is only free when it can write no more.
    await thread.worker.terminate();
    this.#store.closeReader(thread.window);
    for (const resolve of thread.waiting.values()) resolve(null);
    thread.waiting.clear();
  }

  /** An answer with what the thread has left, read here. */
  #complete(request: Omit<StoreThreadRequest, 'id'>, answer: ReaderAnswer | null): StoredChunks {
    const { slots, generations, blockStartNanos } = request;
    if (answer !== null && answer.left.length === 0) {
      return { chunkData: answer.chunkData, chunkOffset: answer.chunkOffset };
    }
    const left = answer?.left ?? Uint32Array.from(slots, (_, i) => i);
    const { generation } = this.#store;
    const here = left.filter((place) => generation[slots[place]!] === generations[place]);
    const slotsHere = here.map((place) => slots[place]!);
    const read = this.#store.flushBlock(slotsHere, blockStartNanos);
    if (here.length === slots.length) return read;
    const chunks = new ByteCollector();
    const chunkOffset = new Uint32Array(slots.length + 1);
    let next = 0;
    for (let place = 0; place < slots.length; place++) {
      if (here[next] === place) {
        chunks.append(chunksOf(read, next));
        next += 1;
      } else if (answer !== null) {
        chunks.append(chunksOf(answer, place));
      }
      chunkOffset[place + 1] = chunks.length;
    }
    return { chunkData: chunks.view(), chunkOffset };
  }
}

function chunksOf({ chunkData, chunkOffset }: StoredChunks, index: number): Uint8Array {
  return chunkData.subarray(chunkOffset[index]!, chunkOffset[index + 1]!);
}
