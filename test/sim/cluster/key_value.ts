/**
 * The key-value store as a process of a simulated cluster sees it: over a way that is slow, cut, or
 * loses answers, with watches that lag.
 */
import type {
  Compare,
  KeyValue,
  Kv,
  KvLease,
  Listing,
  Operation,
  TransactionResult,
  WatchBatch,
} from '#cluster/kv/kv.ts';
import { MemoryKv } from '#cluster/kv/memory.ts';
import { untilAborted } from '#lib/env/wait.ts';
import { TsdbError } from '#lib/errors.ts';
import type { SeededRandom } from '#test/seeded_random.ts';
import type { KeyValueStore } from './key_value_store.ts';
import type { SimulatedProcess } from './process.ts';

/** What befalls the calls of one process. */
export interface KvWeather {
  isCut: boolean;
  /** Milliseconds that a call takes at most, there and back. */
  delayMillisMax: number;
  /** Milliseconds that watches lag at most. */
  watchLagMillisMax: number;
  /** Of a thousand transactions, how many are done and their answers lost. */
  lostAnswersPerThousand: number;
  /** Watches of these keys say nothing; null for none. */
  heldWatches: RegExp | null;
}

export const fairKvWeather: Readonly<KvWeather> = {
  isCut: false,
  delayMillisMax: 4,
  watchLagMillisMax: 4,
  lostAnswersPerThousand: 0,
  heldWatches: null,
};

/** A call that cannot reach the store fails after this. */
const unreachableMillis = 2_000;
/** A watch that could not say something for so long on a cut way is over. */
const watchLostMillis = 15_000;
/** A client whose connection has ended looks so often whether the store is there again. */
const reconnectMillis = 50;

/** A watch that hears nothing looks again whether it does. */
const heldMillis = 200;

export class SimulatedKv implements Kv {
  readonly weather: KvWeather = { ...fairKvWeather };
  /** Of its process. */
  readonly name: string;
  readonly #process: SimulatedProcess;
  readonly #random: SeededRandom;
  /** The connection; null while the store is away. */
  #client: MemoryKv | null = null;
  lostAnswers = 0;

  constructor(process: SimulatedProcess, random: SeededRandom, store: KeyValueStore) {
    this.name = process.name;
    this.#process = process;
    this.#random = random;
    const connect = (): void => {
      void this.#client?.[Symbol.asyncDispose]();
      const { memory } = store;
      this.#client = memory === null ? null : new MemoryKv(memory, process.env.clock);
    };
    connect();
    store.onPresence.add(connect);
    process.onEnd.add(() => {
      store.onPresence.delete(connect);
      void this.#client?.[Symbol.asyncDispose]();
    });
  }

  get(key: string, signal: AbortSignal): Promise<KeyValue | null> {
    return this.#call(signal, (client) => client.get(key, never));
  }

  list(prefix: string, signal: AbortSignal): Promise<Listing> {
    return this.#call(signal, (client) => client.list(prefix, never));
  }

  transact(
    compares: readonly Compare[],
    operations: readonly Operation[],
    signal: AbortSignal,
  ): Promise<TransactionResult> {
    const losesAnswer = this.#random.below(1000) < this.weather.lostAnswersPerThousand;
    return this.#call(
      signal,
      (client) => client.transact(compares, operations, never),
      losesAnswer,
    );
  }

  async *watch(
    prefix: string,
    fromRevision: number,
    signal: AbortSignal,
  ): AsyncGenerator<WatchBatch, void, void> {
    // What the client of the store yields stands; when it is told is the way's affair.
    const clock = this.#process.env.clock;
    for await (const batch of this.#batches(prefix, fromRevision, signal)) {
      let cutSince = Number.POSITIVE_INFINITY;
      for (let isHeld = false; ; isHeld = true) {
        const lagMillis = this.#random.below(this.weather.watchLagMillisMax + 1);
        await clock.sleep(isHeld ? heldMillis : lagMillis, signal).catch(() => {});
        if (signal.aborted) return;
        const now = clock.monotonicMillis();
        if (!this.weather.isCut) cutSince = Number.POSITIVE_INFINITY;
        else if (cutSince === Number.POSITIVE_INFINITY) cutSince = now;
        if (now - cutSince > watchLostMillis) {
          throw new TsdbError('UNAVAILABLE', 'the watch of the key-value store was lost');
        }
        if (!this.weather.isCut && this.weather.heldWatches?.test(prefix) !== true) break;
      }
      yield batch;
    }
  }

  /**
   * As the store has them. A connection that ended is begun anew behind the last batch, as the
   * client of etcd does it, whatever store is there then. A process that has ended does not hear
   * that its connection was closed.
   */
  async *#batches(
    prefix: string,
    fromRevision: number,
    signal: AbortSignal,
  ): AsyncGenerator<WatchBatch, void, void> {
    let nextRevision = fromRevision;
    for (;;) {
      const client = this.#client;
      if (client === null) {
        await this.#process.env.clock.sleep(reconnectMillis, signal).catch(() => {});
        if (signal.aborted) return;
        continue;
      }
      try {
        for await (const batch of client.watch(prefix, nextRevision, signal)) {
          nextRevision = batch.revision + 1;
          yield batch;
        }
        return;
      } catch (error) {
        if (!this.#process.isAlive) await new Promise(() => {});
        if (client === this.#client) throw error;
      }
    }
  }

  lease(ttlSeconds: number, signal: AbortSignal): Promise<KvLease> {
    if (this.#client === null) return Promise.reject(unreachable());
    return this.#client.lease(ttlSeconds, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client?.[Symbol.asyncDispose]();
  }

  #call<T>(
    signal: AbortSignal,
    act: (client: MemoryKv) => Promise<T>,
    losesAnswer = false,
  ): Promise<T> {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const failLater = (): void => {
      this.#process.after(unreachableMillis, () => reject(unreachable()));
    };
    const delay = (): number => this.#random.fraction() * (this.weather.delayMillisMax / 2);
    this.#process.after(delay(), () => {
      const client = this.#client;
      if (this.weather.isCut || client === null) {
        failLater();
        return;
      }
      act(client).then(
        (result) => {
          if (losesAnswer || this.weather.isCut) {
            this.lostAnswers += 1;
            failLater();
          } else this.#process.after(delay(), () => resolve(result));
        },
        (error: unknown) => void this.#process.after(delay(), () => reject(error as Error)),
      );
    });
    return untilAborted(promise, signal);
  }
}

const never: AbortSignal = new AbortController().signal;

function unreachable(): TsdbError {
  return new TsdbError('UNAVAILABLE', 'the key-value store cannot be reached');
}
