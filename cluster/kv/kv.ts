/**
 * The key-value store as everything above it sees it: the part of etcd v3 that a cluster needs.
 * Three adapters hold to one suite: etcd3 (etcd.ts: a real etcd or our embedded kv/), our embedded
 * kv/ in the same process (local.ts), and in memory (memory.ts: tests and the simulator). Every
 * call is linearizable.
 *
 * Every method rejects with TsdbError UNAVAILABLE when the store cannot be reached, and with the
 * signal's reason when aborted; the outcome of a write is unknown then: read before you retry.
 */

export interface KeyValue {
  readonly key: string;
  readonly value: Uint8Array;
  /**
   * Revision at which the key was created, and last changed. Revisions count every write of the
   * store.
   */
  readonly createRevision: number;
  readonly modRevision: number;
  /** 1 after creation, one more with each change. */
  readonly version: number;
  /** Decimal lease id, '0' when it has none. */
  readonly leaseId: string;
}

export interface Listing {
  /** Sorted by key. */
  readonly items: readonly KeyValue[];
  /** The store's revision of this state: watch from `revision + 1` misses nothing. */
  readonly revision: number;
}

/** A condition of a transaction; a missing key has version, createRevision and modRevision 0. */
export type Compare =
  | { readonly key: string; readonly target: 'version'; readonly equals: number }
  | { readonly key: string; readonly target: 'createRevision'; readonly equals: number }
  | { readonly key: string; readonly target: 'modRevision'; readonly equals: number }
  | { readonly key: string; readonly target: 'value'; readonly equals: Uint8Array };

export type Operation =
  | {
      readonly kind: 'put';
      readonly key: string;
      readonly value: Uint8Array;
      readonly leaseId?: string;
    }
  | { readonly kind: 'delete'; readonly key: string }
  | { readonly kind: 'deletePrefix'; readonly prefix: string };

export interface TransactionResult {
  /** Whether all comparisons held and the operations were done; otherwise nothing was. */
  readonly succeeded: boolean;
  readonly revision: number;
}

export type WatchEvent =
  | { readonly kind: 'put'; readonly item: KeyValue }
  | { readonly kind: 'delete'; readonly key: string; readonly modRevision: number };

export interface WatchBatch {
  /** Revision of the last event: a watch from `revision + 1` goes on after this batch. */
  readonly revision: number;
  /** In order of revision; all events of one revision are in one batch. */
  readonly events: readonly WatchEvent[];
}

/** The watch's start revision is no longer kept: list again and watch from there. */
export class RevisionCompacted extends Error {
  override readonly name = 'RevisionCompacted';
  readonly compactRevision: number;

  constructor(compactRevision: number) {
    super(`required revision has been compacted: ${compactRevision}`);
    this.compactRevision = compactRevision;
  }
}

export interface Kv extends AsyncDisposable {
  get(key: string, signal: AbortSignal): Promise<KeyValue | null>;
  list(prefix: string, signal: AbortSignal): Promise<Listing>;
  /** Does all of the operations, or, when a comparison does not hold, none. */
  transact(
    compares: readonly Compare[],
    operations: readonly Operation[],
    signal: AbortSignal,
  ): Promise<TransactionResult>;
  /**
   * Changes of keys with the prefix from this revision on. Survives lost connections by resuming
   * after the last batch seen. Ends by returning when the signal aborts.
   * @throws {RevisionCompacted} from the iteration
   */
  watch(prefix: string, fromRevision: number, signal: AbortSignal): AsyncIterable<WatchBatch>;
  /**
   * A lease kept alive until disposed of or lost; its keys vanish when it ends. The signal is for
   * the granting alone.
   */
  lease(ttlSeconds: number, signal: AbortSignal): Promise<KvLease>;
}

/** Disposing of it revokes it, or when that fails leaves it to expire. */
export interface KvLease extends AsyncDisposable {
  readonly id: string;
  /** Aborts when the lease could not be kept alive, a tenth of its time to live before it ends: stop
   *  acting on it. */
  readonly lost: AbortSignal;
  /** Ends the lease and deletes its keys. */
  revoke(): Promise<void>;
}
