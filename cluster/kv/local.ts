/** The key-value interface over a store in this process. */
import { untilAborted } from '#lib/env/wait.ts';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import type {
  Compare,
  KeyValue,
  Kv,
  KvLease,
  Listing,
  Operation,
  TransactionResult,
  WatchBatch,
} from './kv.ts';
import { RevisionCompacted } from './kv.ts';
import { keepLease } from './lease.ts';
import { checkOperations } from './transaction_groups.ts';

/** The embedded store (kv/local.ts). Calls fail with TsdbErrors. */
export interface LocalStore {
  get(key: string): Promise<KeyValue | null>;
  list(prefix: string): Promise<Listing>;
  transact(
    compares: readonly Compare[],
    operations: readonly Operation[],
  ): Promise<TransactionResult>;
  /**
   * Ends when the signal aborts, or after a `compactRevision`: what was before that is forgotten.
   */
  watch(
    prefix: string,
    fromRevision: number,
    signal: AbortSignal,
  ): AsyncIterable<WatchBatch | { readonly compactRevision: number }>;
  grant(ttlSeconds: number): Promise<{ id: string; ttlSeconds: number }>;
  /** @returns the seconds that it lives on; 0 when it is not there */
  renew(id: string): Promise<number>;
  revoke(id: string): Promise<void>;
}

/** The store stays the caller's. */
export function openLocalKv(store: LocalStore, clock: Clock): Kv {
  return new LocalKv(store, clock);
}

class LocalKv implements Kv {
  readonly #store: LocalStore;
  readonly #clock: Clock;
  readonly #closed = new AbortController();

  constructor(store: LocalStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  get(key: string, signal: AbortSignal): Promise<KeyValue | null> {
    return this.#call(() => this.#store.get(key), signal);
  }

  list(prefix: string, signal: AbortSignal): Promise<Listing> {
    return this.#call(() => this.#store.list(prefix), signal);
  }

  transact(
    compares: readonly Compare[],
    operations: readonly Operation[],
    signal: AbortSignal,
  ): Promise<TransactionResult> {
    return this.#call(async () => {
      checkOperations(operations);
      return this.#store.transact(compares, operations);
    }, signal);
  }

  async *watch(
    prefix: string,
    fromRevision: number,
    signal: AbortSignal,
  ): AsyncGenerator<WatchBatch, void, void> {
    const stop = AbortSignal.any([signal, this.#closed.signal]);
    for await (const batch of this.#store.watch(prefix, fromRevision, stop)) {
      if ('compactRevision' in batch) throw new RevisionCompacted(batch.compactRevision);
      if (stop.aborted) break;
      yield batch;
    }
    if (!signal.aborted) this.#closed.signal.throwIfAborted();
  }

  async lease(ttlSeconds: number, signal: AbortSignal): Promise<KvLease> {
    const grantedMillis = this.#clock.monotonicMillis();
    const granted = await this.#call(() => this.#store.grant(ttlSeconds), signal);
    const { id } = granted;
    return keepLease({
      id,
      ttlSeconds: granted.ttlSeconds,
      grantedMillis,
      clock: this.#clock,
      closed: this.#closed.signal,
      renew: (_timeoutMillis, stop) => this.#call(() => this.#store.renew(id), stop),
      revoke: () => this.#call(() => this.#store.revoke(id), this.#closed.signal),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort(new TsdbError('UNAVAILABLE', 'the key-value client is closed'));
  }

  async #call<Answer>(task: () => Promise<Answer>, signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    const stop = AbortSignal.any([signal, this.#closed.signal]);
    stop.throwIfAborted();
    return untilAborted(task(), stop);
  }
}
