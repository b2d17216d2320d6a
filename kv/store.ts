/**
 * The store: the core in memory and the disk under it. A request is done in memory at once and
 * answered when everything it saw or did is on disk; requests that come while the disk is busy
 * share its next transaction. So no answer ever shows what a crash could take back.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { HistogramMetric } from '#lib/metrics.ts';
import { loopTurn } from '#lib/turns/turns.ts';
import { bytesOf } from './core/change_table.ts';
import { kvLimits } from './core/limits.ts';
import { Mvcc, type MvccOptions } from './core/mvcc.ts';
import { KvError, type Write } from './core/requests.ts';
import type { Storage } from './storage/storage.ts';
import type { StoredIdentity } from './storage/messages.ts';

export interface StoreOptions {
  readonly storage: Storage;
  readonly env: Env;
  readonly log: Log;
  readonly commitSeconds?: HistogramMetric;
  readonly mvcc?: Partial<MvccOptions>;
}

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: KvError) => void;
}

/** Writes of one disk transaction and the requests that wait for it. */
interface Batch {
  writes: Write[];
  bytes: number;
  changeCount: number;
  waiters: Waiter[];
}

export class Store implements AsyncDisposable {
  readonly identity: StoredIdentity;
  #core: Mvcc;
  readonly #options: StoreOptions;
  #committed: number;
  /** Filled while `flying` is on its way to the disk. */
  #pending: Batch = emptyBatch();
  #flying: Batch | null = null;
  #loop: Promise<void> = Promise.resolve();
  #state: 'open' | 'failed' | 'closed' = 'open';
  readonly #listeners = new Set<() => void>();
  readonly #stop = new AbortController();

  private constructor(core: Mvcc, identity: StoredIdentity, options: StoreOptions) {
    this.#core = core;
    this.identity = identity;
    this.#options = options;
    this.#committed = core.revision;
    options.env.clock.every(
      kvLimits.leaseExpiryIntervalMillis,
      () => this.#endExpiredLeases(),
      (error) => options.log.warn({ error: messageOf(error) }, 'cannot end leases'),
      this.#stop.signal,
    );
  }

  static async open(options: StoreOptions): Promise<Store> {
    const { state, identity } = await options.storage.load();
    const nowMillis = options.env.clock.monotonicMillis();
    return new Store(new Mvcc(state, nowMillis, options.mvcc), identity, options);
  }

  /** The newest revision that is on disk, and so the newest that anybody may see. */
  get committedRevision(): number {
    return this.#committed;
  }

  /** The core, for reads of history up to the committed revision and for figures. */
  get reader(): Pick<
    Mvcc,
    | 'history'
    | 'before'
    | 'rangePart'
    | 'compactRevision'
    | 'keyCount'
    | 'leaseCount'
    | 'storedBytes'
    | 'liveBytes'
  > {
    return this.#core;
  }

  nowMillis(): number {
    return this.#options.env.clock.monotonicMillis();
  }

  size(): Promise<{ fileBytes: number; usedBytes: number }> {
    return this.#options.storage.size();
  }

  /**
   * Does `task` in memory now; resolves with its answer when that is durable.
   * @throws {KvError} as the task does; tooManyRequests; storageFailed when the outcome is unknown
   */
  async perform<Answer>(task: (core: Mvcc, nowMillis: number) => Answer): Promise<Answer> {
    if (this.#state === 'closed') throw new KvError('stopped');
    if (this.#state === 'failed') throw new KvError('storageFailed');
    const pending = this.#pending;
    if (
      pending.waiters.length >= kvLimits.pendingRequestsMax ||
      pending.bytes >= kvLimits.pendingBytesMax
    ) {
      throw new KvError('tooManyRequests');
    }
    const answer = task(this.#core, this.nowMillis());
    this.#takeWrites();
    const batch = this.#pending.writes.length > 0 ? this.#pending : this.#flying;
    if (batch === null) return answer;
    await new Promise<void>((resolve, reject) => {
      batch.waiters.push({ resolve, reject });
    });
    return answer;
  }

  /**
   * As `Mvcc.compact`, durable when it resolves.
   * @param isPhysical it waits until all that is forgotten is dropped from memory and disk, too
   */
  async compact(revision: number, isPhysical: boolean): Promise<void> {
    await this.perform((core) => core.compact(revision));
    if (!isPhysical) return;
    const nothing = (): void => {};
    while (this.#core.isDropping) await this.perform(nothing);
    // The last part is on its way to the disk.
    await this.perform(nothing);
  }

  /** Calls the listener whenever `committedRevision` may have grown or history was compacted. */
  onCommit(listener: () => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => this.#listeners.delete(listener) };
  }

  #takeWrites(): void {
    for (const write of this.#core.takeWrites()) {
      this.#pending.writes.push(write);
      if (write.kind !== 'change') continue;
      this.#pending.bytes += bytesOf(write.change);
      this.#pending.changeCount += 1;
    }
    if (this.#pending.writes.length > 0 && this.#flying === null) this.#loop = this.#flush();
  }

  async #flush(): Promise<void> {
    while (this.#pending.writes.length > 0) {
      const batch = this.#pending;
      const { revision } = this.#core;
      this.#flying = batch;
      this.#pending = emptyBatch();
      const startMillis = this.nowMillis();
      // More than comes with the batch, else history would grow while it is compacted.
      const parts = 1 + Math.floor((2 * batch.changeCount) / kvLimits.droppedChangesAtOnce);
      const dropped = this.#dropParts(parts);
      try {
        await this.#options.storage.commit(revision, batch.writes);
      } catch (error) {
        this.#fail(error);
        return;
      }
      this.#options.commitSeconds?.observe((this.nowMillis() - startMillis) / 1000);
      await dropped;
      this.#committed = revision;
      this.#flying = null;
      for (const { resolve } of batch.waiters) resolve();
      for (const listener of this.#listeners) listener();
      this.#compactHistory();
    }
  }

  #compactHistory(): void {
    const revision = this.#core.autoCompactRevision();
    if (revision === null || revision > this.#committed) return;
    this.#core.compact(revision);
    for (const write of this.#core.takeWrites()) this.#pending.writes.push(write);
  }

  /**
   * Drops so many parts of what compaction forgot, each in a turn of the loop of its own, while a batch is on its way to
   * the disk; they go there with the next one.
   */
  async #dropParts(count: number): Promise<void> {
    const flying = this.#flying;
    for (let i = 0; i < count && this.#core.isDropping; i += 1) {
      await loopTurn();
      // The disk failed meanwhile.
      if (this.#flying !== flying) return;
      this.#core.dropPart(kvLimits.droppedChangesAtOnce);
      this.#takeWrites();
    }
  }

  /** Memory is ahead of the disk now, so it is thrown away and read anew. */
  #fail(error: unknown): void {
    const { log, env } = this.#options;
    log.error({ error: messageOf(error) }, 'cannot write the key-value store; reading it anew');
    this.#state = 'failed';
    const waiters = [...(this.#flying?.waiters ?? []), ...this.#pending.waiters];
    this.#flying = null;
    this.#pending = emptyBatch();
    for (const { reject } of waiters) reject(new KvError('storageFailed', { cause: error }));
    const { signal } = this.#stop;
    this.#loop = (async () => {
      while (this.#state === 'failed' && !signal.aborted) {
        try {
          await env.clock.sleep(kvLimits.reopenIntervalMillis, signal);
          const { state } = await this.#options.storage.load();
          this.#core = new Mvcc(state, this.nowMillis(), this.#options.mvcc);
          this.#committed = this.#core.revision;
          if (this.#state === 'failed') this.#state = 'open';
          for (const listener of this.#listeners) listener();
          log.info({ revision: this.#committed }, 'the key-value store is open again');
        } catch (reason) {
          if (!signal.aborted) log.error({ error: messageOf(reason) }, 'cannot read the store');
        }
      }
    })();
  }

  /** Some at a time, each on disk before the next ones: any number of leases may end together. */
  async #endExpiredLeases(): Promise<void> {
    while (this.#state === 'open' && this.#core.hasExpiredLease(this.nowMillis())) {
      await this.perform((core, nowMillis) => core.endLeases(nowMillis, kvLimits.endedKeysAtOnce));
    }
  }

  /** Waits for the writes under way; later requests are refused. The storage stays the caller's. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#state = 'closed';
    this.#stop.abort();
    await this.#loop;
  }
}

function emptyBatch(): Batch {
  return { writes: [], bytes: 0, changeCount: 0, waiters: [] };
}
