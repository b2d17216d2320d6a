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
import { MemoryKv, type MemoryKvStore } from '#cluster/kv/memory.ts';
import { untilAborted } from '#lib/env/wait.ts';
import { TsdbError } from '#lib/errors.ts';
import type { SeededRandom } from '#test/seeded_random.ts';
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

export class SimulatedKv implements Kv {
  readonly weather: KvWeather = { ...fairKvWeather };
  readonly #process: SimulatedProcess;
  readonly #random: SeededRandom;
  readonly #client: MemoryKv;
  lostAnswers = 0;

  constructor(process: SimulatedProcess, random: SeededRandom, store: MemoryKvStore) {
    this.#process = process;
    this.#random = random;
    this.#client = new MemoryKv(store, process.env.clock);
    process.onEnd.add(() => void this.#client[Symbol.asyncDispose]());
  }

  get(key: string, signal: AbortSignal): Promise<KeyValue | null> {
    return this.#call(signal, (never) => this.#client.get(key, never));
  }

  list(prefix: string, signal: AbortSignal): Promise<Listing> {
    return this.#call(signal, (never) => this.#client.list(prefix, never));
  }

  transact(
    compares: readonly Compare[],
    operations: readonly Operation[],
    signal: AbortSignal,
  ): Promise<TransactionResult> {
    const losesAnswer = this.#random.below(1000) < this.weather.lostAnswersPerThousand;
    return this.#call(
      signal,
      (never) => this.#client.transact(compares, operations, never),
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
      do {
        const millis = this.#random.below(this.weather.watchLagMillisMax + 1);
        await clock.sleep(millis, signal).catch(() => {});
        if (signal.aborted) return;
        const now = clock.monotonicMillis();
        if (!this.weather.isCut) cutSince = Number.POSITIVE_INFINITY;
        else if (cutSince === Number.POSITIVE_INFINITY) cutSince = now;
        if (now - cutSince > watchLostMillis) {
          throw new TsdbError('UNAVAILABLE', 'the watch of the key-value store was lost');
        }
      } while (this.weather.isCut || this.weather.heldWatches?.test(prefix) === true);
      yield batch;
    }
  }

  /** As the store has them; a process that has ended does not hear that its client was closed. */
  async *#batches(
    prefix: string,
    fromRevision: number,
    signal: AbortSignal,
  ): AsyncGenerator<WatchBatch, void, void> {
    try {
      yield* this.#client.watch(prefix, fromRevision, signal);
    } catch (error) {
      if (this.#process.isAlive) throw error;
      await new Promise(() => {});
    }
  }

  lease(ttlSeconds: number, signal: AbortSignal): Promise<KvLease> {
    return this.#client.lease(ttlSeconds, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client[Symbol.asyncDispose]();
  }

  #call<T>(
    signal: AbortSignal,
    act: (never: AbortSignal) => Promise<T>,
    losesAnswer = false,
  ): Promise<T> {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const unreachable = (): void => {
      const fail = (): void =>
        reject(new TsdbError('UNAVAILABLE', 'the key-value store cannot be reached'));
      this.#process.after(unreachableMillis, fail);
    };
    const delay = (): number => this.#random.fraction() * (this.weather.delayMillisMax / 2);
    this.#process.after(delay(), () => {
      if (this.weather.isCut) {
        unreachable();
        return;
      }
      act(never).then(
        (result) => {
          if (losesAnswer || this.weather.isCut) {
            this.lostAnswers += 1;
            unreachable();
          } else this.#process.after(delay(), () => resolve(result));
        },
        (error: unknown) => void this.#process.after(delay(), () => reject(error as Error)),
      );
    });
    return untilAborted(promise, signal);
  }
}

const never: AbortSignal = new AbortController().signal;
