/** What the store and its storage thread say to each other. */
import type { Change, StoredState } from '../core/requests.ts';

/**
 * A write as the thread gets it: rows that are dropped are only named, so that no value is copied over.
 */
export type StorageWrite =
  | { readonly kind: 'change'; readonly change: Change }
  | { readonly kind: 'compact'; readonly revision: number }
  /** Revision and sub of each row, one after the other. */
  | { readonly kind: 'drop'; readonly dropped: readonly number[] }
  | { readonly kind: 'lease'; readonly id: bigint; readonly ttlSeconds: number }
  | { readonly kind: 'leaseGone'; readonly id: bigint };

export type StorageRequest =
  | { readonly kind: 'open'; readonly path: string; readonly newIdentity: StoredIdentity }
  | { readonly kind: 'load'; readonly afterRevision: number; readonly afterSub: number }
  /** The first ones of the next commit, of which nothing is done before it. */
  | { readonly kind: 'hand'; readonly writes: readonly StorageWrite[] }
  | { readonly kind: 'commit'; readonly revision: number; readonly writes: readonly StorageWrite[] }
  | { readonly kind: 'size' }
  | { readonly kind: 'close' };

/** Drawn once, when the file is made; etcd's clients see them in every answer. */
export interface StoredIdentity {
  readonly clusterId: bigint;
  readonly memberId: bigint;
}

export interface OpenedAnswer extends Omit<StoredState, 'changes'> {
  readonly identity: StoredIdentity;
}

export interface LoadedAnswer {
  readonly changes: readonly Change[];
  /** Whether these were the last ones. */
  readonly ended: boolean;
}

export interface StorageEnvelope {
  readonly id: number;
  readonly request: StorageRequest;
}

export interface StorageReply {
  readonly id: number;
  readonly error: string | null;
  readonly answer: unknown;
}
