/**
 * The key-value interface in memory, for tests and the simulator: one store, any number of clients,
 * each of which can be cut off. Nothing happens but by calls and the injected clock, so a run
 * repeats exactly.
 */
import type { Clock } from '#lib/env/env.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import type {
  Compare,
  KeyValue,
  Kv,
  KvLease,
  Listing,
  Operation,
  TransactionResult,
  WatchBatch,
  WatchEvent,
} from './kv.ts';
import { RevisionCompacted } from './kv.ts';
import { keepLease } from './lease.ts';
import { checkOperations } from './transaction_groups.ts';

interface MemoryLease {
  readonly id: string;
  readonly ttlSeconds: number;
  expiryMillis: number;
  /** Ends the wait for its expiry. */
  readonly ended: AbortController;
}

export interface MemoryKvOptions {
  readonly clock: Clock;
  /**
   * Revisions that watches may go back to; older ones are compacted by themselves. @default 10,000
   */
  readonly historyRevisionsMax?: number;
}

const historyRevisionsMaxDefault = 10_000;

/** The state that clients share. */
export class MemoryKvStore {
  readonly #clock: Clock;
  readonly #historyRevisionsMax: number;
  readonly #items = new Map<string, KeyValue>();
  readonly #leases = new Map<string, MemoryLease>();
  #history: WatchBatch[] = [];
  readonly #listeners = new Set<() => void>();
  #lastLeaseId = 0;
  #lastRevision = 1;
  #compactedRevision = 0;

  constructor(options: MemoryKvOptions) {
    this.#clock = options.clock;
    this.#historyRevisionsMax = options.historyRevisionsMax ?? historyRevisionsMaxDefault;
  }

  get revision(): number {
    return this.#lastRevision;
  }

  get compactRevision(): number {
    return this.#compactedRevision;
  }

  /** Another client of this store. */
  client(): MemoryKv {
    return new MemoryKv(this, this.#clock);
  }

  /** Forgets the past before the revision, so that watches from before it see RevisionCompacted. */
  compact(revision: number = this.#lastRevision): void {
    if (revision <= this.#compactedRevision || revision > this.#lastRevision) {
      throw badRequest(`cannot compact: revision is compacted or in the future: ${revision}`);
    }
    this.#compactedRevision = revision;
    this.#history = this.#history.filter((batch) => batch.revision >= revision);
    this.#notify();
  }

  get(key: string): KeyValue | null {
    return this.#items.get(key) ?? null;
  }

  list(prefix: string): Listing {
    const items = [...this.#items.values()].filter((item) => item.key.startsWith(prefix));
    items.sort((left, right) => compareBytes(left.key, right.key));
    return { items, revision: this.#lastRevision };
  }

  transact(compares: readonly Compare[], operations: readonly Operation[]): TransactionResult {
    this.#check(operations);
    if (!compares.every((compare) => this.#holds(compare))) {
      return { succeeded: false, revision: this.#lastRevision };
    }
    const revision = this.#lastRevision + 1;
    const events: WatchEvent[] = [];
    for (const operation of operations) {
      if (operation.kind === 'put')
        events.push({ kind: 'put', item: this.#put(operation, revision) });
      else {
        const keys =
          operation.kind === 'delete'
            ? [operation.key]
            : this.list(operation.prefix).items.map((item) => item.key);
        this.#deleteKeys(keys, revision, events);
      }
    }
    this.#record(revision, events);
    return { succeeded: true, revision: this.#lastRevision };
  }

  /** Batches from the revision on. @throws {RevisionCompacted} */
  since(fromRevision: number): readonly WatchBatch[] {
    if (fromRevision < this.#compactedRevision)
      throw new RevisionCompacted(this.#compactedRevision);
    // Who asks has mostly seen all but the last ones.
    let first = this.#history.length;
    while (first > 0 && this.#history[first - 1]!.revision >= fromRevision) first -= 1;
    return this.#history.slice(first);
  }

  /** Calls the listener after every change and compaction. */
  onChange(listener: () => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => this.#listeners.delete(listener) };
  }

  grant(ttlSeconds: number): string {
    this.#lastLeaseId += 1;
    const id = String(this.#lastLeaseId);
    const expiryMillis = this.#clock.monotonicMillis() + ttlSeconds * 1000;
    const lease = { id, ttlSeconds, expiryMillis, ended: new AbortController() };
    this.#leases.set(id, lease);
    void this.#expire(lease);
    return id;
  }

  /** @returns seconds it lives on, 0 when it is not there */
  renew(id: string): number {
    const lease = this.#leases.get(id);
    if (lease === undefined) return 0;
    lease.expiryMillis = this.#clock.monotonicMillis() + lease.ttlSeconds * 1000;
    return lease.ttlSeconds;
  }

  revoke(id: string): void {
    const lease = this.#leases.get(id);
    if (lease === undefined) return;
    this.#leases.delete(id);
    lease.ended.abort();
    const events: WatchEvent[] = [];
    const revision = this.#lastRevision + 1;
    const held = this.list('').items.filter((item) => item.leaseId === id);
    this.#deleteKeys(
      held.map((item) => item.key),
      revision,
      events,
    );
    this.#record(revision, events);
  }

  async #expire(lease: MemoryLease): Promise<void> {
    const { signal } = lease.ended;
    while (!signal.aborted) {
      const leftMillis = lease.expiryMillis - this.#clock.monotonicMillis();
      if (leftMillis <= 0) this.revoke(lease.id);
      else await this.#clock.sleep(leftMillis, signal).catch(() => {});
    }
  }

  #check(operations: readonly Operation[]): void {
    const puts = new Set<string>();
    const fail = (reason: string, value: string) =>
      badRequest(`cannot do transaction: ${reason}: ${JSON.stringify(value)}`);
    checkOperations(operations);
    for (const operation of operations) {
      if (operation.kind === 'deletePrefix') continue;
      if (operation.key === '') throw fail('key is empty', '');
      if (operation.kind === 'delete') continue;
      if (puts.has(operation.key)) throw fail('key is given twice', operation.key);
      puts.add(operation.key);
      const leaseId = operation.leaseId ?? '0';
      if (leaseId !== '0' && !this.#leases.has(leaseId)) {
        throw new TsdbError('NOT_FOUND', `requested lease not found: ${leaseId}`);
      }
    }
    for (const operation of operations) {
      if (operation.kind === 'put') continue;
      for (const key of puts) {
        const covered =
          operation.kind === 'delete' ? key === operation.key : key.startsWith(operation.prefix);
        if (covered) throw fail('key is put and deleted', key);
      }
    }
  }

  #holds(compare: Compare): boolean {
    const item = this.#items.get(compare.key);
    if (compare.target === 'value') {
      return item !== undefined && Buffer.compare(item.value, compare.equals) === 0;
    }
    return (item?.[compare.target] ?? 0) === compare.equals;
  }

  #put(operation: Operation & { kind: 'put' }, revision: number): KeyValue {
    const before = this.#items.get(operation.key);
    const item: KeyValue = {
      key: operation.key,
      value: new Uint8Array(operation.value),
      createRevision: before?.createRevision ?? revision,
      modRevision: revision,
      version: (before?.version ?? 0) + 1,
      leaseId: operation.leaseId ?? '0',
    };
    this.#items.set(item.key, item);
    return item;
  }

  #deleteKeys(keys: readonly string[], modRevision: number, events: WatchEvent[]): void {
    for (const key of keys) {
      if (this.#items.delete(key)) events.push({ kind: 'delete', key, modRevision });
    }
  }

  #record(revision: number, events: readonly WatchEvent[]): void {
    if (events.length === 0) return;
    this.#lastRevision = revision;
    this.#history.push({ revision, events });
    const oldest = revision - this.#historyRevisionsMax;
    if (oldest > this.#compactedRevision) {
      this.#compactedRevision = oldest;
      if (this.#history[0]!.revision < oldest) this.#history.shift();
    }
    this.#notify();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

/**
 * A client of the store. While cut off its calls fail, its watches stand still and its leases run
 * out.
 */
export class MemoryKv implements Kv {
  readonly #store: MemoryKvStore;
  readonly #clock: Clock;
  readonly #closed = new AbortController();
  #reachable = true;
  readonly #wakers = new Set<() => void>();

  constructor(store: MemoryKvStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Cuts the client off, or joins it again. */
  setReachable(reachable: boolean): void {
    this.#reachable = reachable;
    for (const wake of this.#wakers) wake();
  }

  async get(key: string, signal: AbortSignal): Promise<KeyValue | null> {
    this.#check(signal);
    return this.#store.get(key);
  }

  async list(prefix: string, signal: AbortSignal): Promise<Listing> {
    this.#check(signal);
    return this.#store.list(prefix);
  }

  async transact(
    compares: readonly Compare[],
    operations: readonly Operation[],
    signal: AbortSignal,
  ): Promise<TransactionResult> {
    this.#check(signal);
    return this.#store.transact(compares, operations);
  }

  async *watch(
    prefix: string,
    fromRevision: number,
    signal: AbortSignal,
  ): AsyncGenerator<WatchBatch, void, void> {
    let nextRevision = fromRevision > 0 ? fromRevision : this.#store.revision + 1;
    let wake = () => {};
    const stir = () => wake();
    using _changes = this.#store.onChange(stir);
    this.#wakers.add(stir);
    signal.addEventListener('abort', stir, { once: true });
    this.#closed.signal.addEventListener('abort', stir, { once: true });
    try {
      while (!signal.aborted) {
        this.#closed.signal.throwIfAborted();
        const batches = this.#reachable ? this.#store.since(nextRevision) : [];
        for (const { revision, events } of batches) {
          if (signal.aborted || !this.#reachable) break;
          nextRevision = revision + 1;
          const ours = events.filter((event) => keyOf(event).startsWith(prefix));
          if (ours.length > 0) yield { revision, events: ours };
        }
        if (batches.length > 0) continue;
        await new Promise<void>((resolve) => {
          wake = resolve;
          if (signal.aborted || this.#closed.signal.aborted) resolve();
        });
      }
    } finally {
      this.#wakers.delete(stir);
      signal.removeEventListener('abort', stir);
      this.#closed.signal.removeEventListener('abort', stir);
    }
  }

  async lease(ttlSeconds: number, signal: AbortSignal): Promise<KvLease> {
    this.#check(signal);
    const grantedMillis = this.#clock.monotonicMillis();
    const id = this.#store.grant(ttlSeconds);
    return keepLease({
      id,
      ttlSeconds,
      grantedMillis,
      clock: this.#clock,
      closed: this.#closed.signal,
      renew: async (_timeoutMillis, stop) => {
        this.#check(stop);
        return this.#store.renew(id);
      },
      revoke: async () => {
        this.#check(this.#closed.signal);
        this.#store.revoke(id);
      },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort(new TsdbError('UNAVAILABLE', 'the key-value client is closed'));
  }

  #check(signal: AbortSignal): void {
    signal.throwIfAborted();
    this.#closed.signal.throwIfAborted();
    if (!this.#reachable)
      throw new TsdbError('UNAVAILABLE', 'the key-value store cannot be reached');
  }
}

function keyOf(event: WatchEvent): string {
  return event.kind === 'put' ? event.item.key : event.key;
}

/** As etcd orders keys: by their UTF-8 bytes. */
function compareBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}
