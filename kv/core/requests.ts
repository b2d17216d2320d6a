/**
 * Requests and answers of the store, free of any wire format. Keys are binary strings: one
 * character with a code of 0 to 255 for each byte, so that comparing strings compares bytes.
 */

/** One change of one key, and so also the state of the key until its next change. Immutable. */
export interface Change {
  readonly key: string;
  /** Null when the key was deleted. */
  readonly value: Uint8Array | null;
  readonly modRevision: number;
  /** Position inside of its revision, from 0. */
  readonly sub: number;
  /** Revision at which the key came to be; 0 for a deletion. */
  readonly createRevision: number;
  /** 1 for the change that creates the key, one more with each; 0 for a deletion. */
  readonly version: number;
  /** 0n when no lease holds the key. */
  readonly leaseId: bigint;
}

/** Without its value, which is made when it is asked for. */
export function isDeletion({ version }: Pick<Change, 'version'>): boolean {
  return version === 0;
}

/** What tells a change from all others. */
export type ChangeName = Pick<Change, 'modRevision' | 'sub'>;

export interface LiveChange extends Change {
  readonly value: Uint8Array;
}

/**
 * `rangeEnd` '' means the one key, '\0' every key from `key` on, otherwise the range is half open.
 */
export interface KeyRange {
  readonly key: string;
  readonly rangeEnd: string;
}

export type SortOrder = 'none' | 'ascend' | 'descend';
export type SortTarget = 'key' | 'version' | 'create' | 'mod' | 'value';

export interface RangeRequest extends KeyRange {
  readonly kind: 'range';
  /** 0 for no limit. */
  readonly limit: number;
  /** 0 for the newest. */
  readonly revision: number;
  readonly sortOrder: SortOrder;
  readonly sortTarget: SortTarget;
  readonly keysOnly: boolean;
  readonly countOnly: boolean;
  /** Bounds, inclusive; 0 for none. */
  readonly minModRevision: number;
  readonly maxModRevision: number;
  readonly minCreateRevision: number;
  readonly maxCreateRevision: number;
}

/** Every key that lives, as it is now, by key; other ranges are this one with other fields. */
export const everything: RangeRequest = {
  kind: 'range',
  key: '\0',
  rangeEnd: '\0',
  limit: 0,
  revision: 0,
  sortOrder: 'none',
  sortTarget: 'key',
  keysOnly: false,
  countOnly: false,
  minModRevision: 0,
  maxModRevision: 0,
  minCreateRevision: 0,
  maxCreateRevision: 0,
};

export interface PutRequest {
  readonly kind: 'put';
  readonly key: string;
  readonly value: Uint8Array;
  readonly leaseId: bigint;
  readonly previous: boolean;
  readonly ignoreValue: boolean;
  readonly ignoreLease: boolean;
}

export interface DeleteRangeRequest extends KeyRange {
  readonly kind: 'deleteRange';
  readonly previous: boolean;
}

export type CompareResult = 'equal' | 'greater' | 'less' | 'notEqual';

export interface Compare extends KeyRange {
  readonly result: CompareResult;
  readonly target:
    | { readonly kind: 'version' | 'create' | 'mod' | 'lease'; readonly number: bigint }
    | { readonly kind: 'value'; readonly value: Uint8Array };
}

export interface TxnRequest {
  readonly kind: 'txn';
  readonly compares: readonly Compare[];
  readonly success: readonly OperationRequest[];
  readonly failure: readonly OperationRequest[];
}

export type OperationRequest = RangeRequest | PutRequest | DeleteRangeRequest | TxnRequest;

/** `revision` of every answer: the store's, as this operation left or saw it. */
export interface RangeAnswer {
  readonly kind: 'range';
  readonly revision: number;
  readonly items: readonly LiveChange[];
  /** Whether the limit cut something off. */
  readonly more: boolean;
  /** Keys in the range at that revision, whatever limit and bounds say. */
  readonly count: number;
}

export interface PutAnswer {
  readonly kind: 'put';
  readonly revision: number;
  readonly previous: LiveChange | null;
}

export interface DeleteRangeAnswer {
  readonly kind: 'deleteRange';
  readonly revision: number;
  readonly deleted: number;
  readonly previous: readonly LiveChange[];
}

export interface TxnAnswer {
  readonly kind: 'txn';
  readonly revision: number;
  readonly succeeded: boolean;
  readonly answers: readonly OperationAnswer[];
}

export type OperationAnswer = RangeAnswer | PutAnswer | DeleteRangeAnswer | TxnAnswer;

export interface LeaseInfo {
  readonly id: bigint;
  readonly ttlSeconds: number;
  /** Whole seconds left, not below 0. */
  readonly remainingSeconds: number;
}

/** What must be durable before a request is acknowledged, in the order it happened. */
export type Write =
  | { readonly kind: 'change'; readonly change: Change }
  | { readonly kind: 'compact'; readonly revision: number }
  /** Of changes that nobody can see any more since a compaction before; there may be more of them. */
  | { readonly kind: 'drop'; readonly dropped: readonly ChangeName[] }
  | { readonly kind: 'lease'; readonly id: bigint; readonly ttlSeconds: number }
  | { readonly kind: 'leaseGone'; readonly id: bigint };

/** Everything that the disk holds, as the core is built from it. */
export interface StoredState {
  readonly revision: number;
  readonly compactRevision: number;
  /** By revision and sub, ascending; also some that nobody can see, of which compaction had not dropped all. */
  readonly changes: readonly Change[];
  readonly leases: readonly { readonly id: bigint; readonly ttlSeconds: number }[];
}

export type KvErrorKind =
  | 'compacted'
  | 'futureRevision'
  | 'emptyKey'
  | 'keyNotFound'
  | 'valueProvided'
  | 'leaseProvided'
  | 'tooManyOperations'
  | 'tooManyKeys'
  | 'answerTooLarge'
  | 'duplicateKey'
  | 'invalidSort'
  | 'noSpace'
  | 'leaseNotFound'
  | 'leaseExists'
  | 'leaseTtlTooLarge'
  | 'requestTooLarge'
  | 'tooManyRequests'
  | 'storageFailed'
  | 'stopped';

/** A request that the store refuses. Nothing of it was done. */
export class KvError extends Error {
  override readonly name = 'KvError';
  readonly kind: KvErrorKind;

  constructor(kind: KvErrorKind, options?: ErrorOptions) {
    super(kind, options);
    this.kind = kind;
  }
}
