/**
 * The pure core of the store: etcd's key-value model over memory. It performs no I/O and owns no
 * clock: requests and the time come in, answers go out, and `takeWrites()` hands over what must be
 * on disk before those answers may be given away. The same requests from the same state give the
 * same answers and writes.
 *
 * The first revision is 1, an empty store; every request that changes something makes one revision.
 * A request either throws KvError and changes nothing, or is done whole.
 */
import { assert } from '#lib/assert.ts';
import { compareText, Keyspace } from './keyspace.ts';
import { Leases } from './leases.ts';
import { kvLimits } from './limits.ts';
import type {
  Change,
  DeleteRangeAnswer,
  DeleteRangeRequest,
  KeyRange,
  LeaseInfo,
  LiveChange,
  OperationAnswer,
  PutAnswer,
  PutRequest,
  RangeAnswer,
  RangeRequest,
  SortTarget,
  StoredState,
  TxnAnswer,
  TxnRequest,
  Write,
} from './requests.ts';
import { KvError } from './requests.ts';
import { checkShape, choosePath, type Path } from './transaction.ts';

/** Limits of the core that tests and configuration may lower. */
export interface MvccOptions {
  readonly historyRevisionsMax: number;
  readonly historyRevisionsSlack: number;
  readonly historyBytesMax: number;
  readonly storedBytesMax: number;
  readonly reservedBytes: number;
}

/** Who asks: somebody over the network, or this process itself, for which there is room where the others have none. */
export type Caller = 'network' | 'process';

/** One request's changes; they all bear the revision `base + 1`. */
interface Transaction {
  readonly base: number;
  changeCount: number;
}

/** What a transaction takes, before it is performed. */
interface PathCost {
  keys: number;
  putBytes: number;
  /** Of what it answers with, without what it puts itself. */
  readBytes: number;
  reads: number;
}

export class Mvcc {
  readonly #options: MvccOptions;
  readonly #space: Keyspace;
  readonly #leases = new Leases();
  #currentRevision: number;
  #writes: Write[] = [];

  constructor(
    state: StoredState = { revision: 1, compactRevision: 0, changes: [], leases: [] },
    nowMillis = 0,
    options: Partial<MvccOptions> = {},
  ) {
    this.#options = { ...kvLimits, ...options };
    this.#currentRevision = state.revision;
    this.#space = Keyspace.restore(state.changes, state.compactRevision);
    // How long a lease had left is not known after a restart, so each starts anew, as in etcd.
    for (const { id, ttlSeconds } of state.leases) this.#leases.grant(id, ttlSeconds, nowMillis);
    for (const item of this.#space.range({ key: '', rangeEnd: '\0' }, this.#currentRevision)) {
      if (item.leaseId !== 0n) this.#leases.attach(item.leaseId, item.key);
    }
  }

  get revision(): number {
    return this.#currentRevision;
  }

  get compactRevision(): number {
    return this.#space.compactRevision;
  }

  get storedBytes(): number {
    return this.#space.storedBytes;
  }

  get liveBytes(): number {
    return this.#space.liveBytes;
  }

  get keyCount(): number {
    return this.#space.keyCount;
  }

  get leaseCount(): number {
    return this.#leases.count;
  }

  /** What was done since the last call; the caller makes it durable in this order. */
  takeWrites(): Write[] {
    const taken = this.#writes;
    this.#writes = [];
    return taken;
  }

  range(request: RangeRequest): RangeAnswer {
    checkShape(request);
    this.#checkRevision(request);
    return this.#rangeSeen(request, this.#currentRevision);
  }

  /** Keys that a range looks at. */
  keysIn(range: KeyRange): number {
    return this.#space.keysIn(range);
  }

  /**
   * The part of a range that begins with this key, at a revision that `range` would take; for ranges of more keys
   * than are looked at in one go.
   * @returns living keys of so many, and the key to go on with, null at the end
   * @throws {KvError} compacted, also when that came since the part before
   */
  rangePart(
    range: KeyRange,
    revision: number,
    fromKey: string,
    keysMax: number,
  ): { items: LiveChange[]; next: string | null } {
    if (revision < this.compactRevision) throw new KvError('compacted');
    return this.#space.rangePart({ ...range, key: fromKey }, revision, keysMax);
  }

  put(request: PutRequest): PutAnswer {
    checkShape(request);
    this.#checkPut(request);
    this.#checkSpace(request.key.length + request.value.length, 'network');
    const transaction = this.#begin();
    const answer = this.#putChecked(request, transaction);
    this.#end(transaction);
    return answer;
  }

  deleteRange(request: DeleteRangeRequest): DeleteRangeAnswer {
    checkShape(request);
    if (this.#space.keysIn(request) > kvLimits.deletedKeysMax) throw new KvError('tooManyKeys');
    const transaction = this.#begin();
    const answer = this.#deleteChecked(request, transaction);
    this.#end(transaction);
    return answer;
  }

  /**
   * Comparisons, those of nested transactions too, see the store as it was before the transaction.
   */
  txn(request: TxnRequest, caller: Caller = 'network'): TxnAnswer {
    const { transactionOperationsMax, localTransactionOperationsMax } = kvLimits;
    const isOwn = caller === 'process';
    checkShape(request, isOwn ? localTransactionOperationsMax : transactionOperationsMax);
    const cost = { keys: 0, putBytes: 0, readBytes: 0, reads: 0 };
    const path = choosePath(request, {
      range: (range) => {
        this.#countKeys(range, cost);
        return this.#space.range(range, this.#currentRevision);
      },
      compareValue: (key, other) => this.#space.compareValue(key, other),
    });
    this.#checkPath(path, cost);
    // What is read may be what is put before it.
    if (cost.readBytes + cost.reads * cost.putBytes > kvLimits.transactionAnswerBytesMax) {
      throw new KvError('answerTooLarge');
    }
    if (cost.putBytes > 0) this.#checkSpace(cost.putBytes, caller);
    const transaction = this.#begin();
    const answer = this.#performPath(path, transaction);
    this.#end(transaction);
    return { ...answer, revision: this.#currentRevision };
  }

  /**
   * Forgets the past before the revision; reads and watches from the revision on still work. What is forgotten takes
   * its room until `dropPart` was called as long as `isDropping`.
   */
  compact(revision: number): void {
    if (revision <= this.compactRevision) throw new KvError('compacted');
    if (revision > this.#currentRevision) throw new KvError('futureRevision');
    this.#space.compact(revision);
    this.#writes.push({ kind: 'compact', revision });
  }

  get isDropping(): boolean {
    return this.#space.isDropping;
  }

  /** Always writes, so that who waits for its writes before the next part waits with each. */
  dropPart(changesMax: number): void {
    this.#writes.push({ kind: 'drop', dropped: this.#space.dropPart(changesMax) });
  }

  /** The revision to compact at so that history keeps its limits, or null. */
  autoCompactRevision(): number | null {
    const { historyRevisionsMax, historyRevisionsSlack, historyBytesMax } = this.#options;
    // How many bytes the compaction before leaves is not known yet.
    if (this.isDropping) return null;
    const kept = this.#currentRevision - this.compactRevision;
    if (kept > historyRevisionsMax + historyRevisionsSlack) {
      return this.#currentRevision - historyRevisionsMax;
    }
    if (this.storedBytes - this.liveBytes > historyBytesMax && kept > 1) {
      return this.#currentRevision - (kept >>> 1);
    }
    return null;
  }

  /** @param id must be positive; the caller draws one when the client leaves it open */
  leaseGrant(id: bigint, ttlSeconds: number, nowMillis: number): number {
    if (ttlSeconds > kvLimits.leaseTtlSecondsMax) throw new KvError('leaseTtlTooLarge');
    if (this.#leases.has(id)) throw new KvError('leaseExists');
    if (this.#leases.count >= kvLimits.leasesMax) throw new KvError('noSpace');
    const granted = Math.max(kvLimits.leaseTtlSecondsMin, ttlSeconds);
    this.#leases.grant(id, granted, nowMillis);
    this.#writes.push({ kind: 'lease', id, ttlSeconds: granted });
    return granted;
  }

  /** Ends the lease; its keys are deleted in one revision. */
  leaseRevoke(id: bigint): void {
    if (!this.#leases.has(id)) throw new KvError('leaseNotFound');
    const transaction = this.#begin();
    for (const key of this.#leases.remove(id)) this.#recordDelete(key, transaction);
    this.#end(transaction);
    this.#writes.push({ kind: 'leaseGone', id });
  }

  /** @returns the granted seconds, or null when the lease is not there or over */
  leaseRenew(id: bigint, nowMillis: number): number | null {
    return this.#leases.renew(id, nowMillis);
  }

  leaseInfo(id: bigint, nowMillis: number): LeaseInfo | null {
    if (!this.#leases.has(id)) return null;
    return {
      id,
      ttlSeconds: this.#leases.ttlSecondsOf(id),
      remainingSeconds: this.#leases.remainingSeconds(id, nowMillis),
    };
  }

  /** Of a lease, in no order that means anything. */
  leaseKeys(id: bigint): string[] {
    return this.#leases.keysOf(id);
  }

  /** In no order that means anything. */
  leaseIds(): bigint[] {
    return this.#leases.ids();
  }

  /** Whether the time of a lease is over, so that the caller has to end it. */
  hasExpiredLease(nowMillis: number): boolean {
    return this.#leases.expired(nowMillis) !== null;
  }

  /**
   * Revokes leases whose time is over, each in a revision of its own, those first whose time has been over for longest.
   * @param keysMax after the first lease others follow while no more keys go than these; each lease counts as one, too
   */
  endLeases(nowMillis: number, keysMax: number): void {
    let keys = 0;
    for (;;) {
      const id = this.#leases.expired(nowMillis);
      if (id === null) return;
      const more = 1 + this.#leases.keyCountOf(id);
      if (keys > 0 && keys + more > keysMax) return;
      keys += more;
      this.leaseRevoke(id);
    }
  }

  /**
   * Changes of whole revisions in `[fromRevision, toRevision]`, oldest first, ending early after
   * the revision in which `bytesMax` is reached, or `watchChangesAtOnce` were looked at.
   * @param withPrevious what was there before each change counts to the bytes, too
   * @returns the changes that `wanted` takes, the revision up to which nothing was left out, and how many changes
   *   were looked at
   * @throws {KvError} compacted
   */
  history(
    fromRevision: number,
    toRevision: number,
    bytesMax: number,
    wanted: (change: Change) => boolean,
    withPrevious: boolean = false,
  ): { changes: Change[]; throughRevision: number; lookedAt: number } {
    if (fromRevision < this.compactRevision) throw new KvError('compacted');
    const changes: Change[] = [];
    let bytes = 0;
    let lookedAt = 0;
    let lastRevision = 0;
    for (let index = this.#space.logIndexOf(fromRevision); ; index += 1) {
      const change = this.#space.logAt(index);
      if (change === undefined || change.modRevision > toRevision) break;
      const isFull = bytes >= bytesMax || lookedAt >= kvLimits.watchChangesAtOnce;
      if (isFull && change.modRevision !== lastRevision) {
        return { changes, throughRevision: lastRevision, lookedAt };
      }
      lookedAt += 1;
      lastRevision = change.modRevision;
      if (!wanted(change)) continue;
      bytes += this.#space.logSizeAt(index);
      if (withPrevious && change.modRevision > this.compactRevision) {
        bytes += this.#space.sizeAt(change.key, change.modRevision - 1);
      }
      changes.push(change);
    }
    return { changes, throughRevision: toRevision, lookedAt };
  }

  /** The key as it was before the revision, or null when it was not there or that is compacted. */
  before(key: string, revision: number): LiveChange | null {
    if (revision <= this.compactRevision) return null;
    return this.#space.getAt(key, revision - 1);
  }

  #begin(): Transaction {
    return { base: this.#currentRevision, changeCount: 0 };
  }

  #end(transaction: Transaction): void {
    if (transaction.changeCount > 0) this.#currentRevision = transaction.base + 1;
  }

  #checkRevision(request: RangeRequest): void {
    if (request.revision > this.#currentRevision) throw new KvError('futureRevision');
    if (request.revision > 0 && request.revision < this.compactRevision) {
      throw new KvError('compacted');
    }
  }

  #checkPut(request: PutRequest): void {
    if (request.ignoreValue || request.ignoreLease) {
      if (!this.#space.has(request.key)) throw new KvError('keyNotFound');
    }
    if (request.leaseId === 0n) return;
    if (!this.#leases.has(request.leaseId)) throw new KvError('leaseNotFound');
    // All of them are deleted in one go.
    if (this.#leases.keyCountOf(request.leaseId) >= kvLimits.deletedKeysMax) {
      throw new KvError('tooManyKeys');
    }
  }

  #checkSpace(bytes: number, caller: Caller): void {
    const { storedBytesMax, reservedBytes } = this.#options;
    const bytesMax = caller === 'process' ? storedBytesMax + reservedBytes : storedBytesMax;
    if (this.#space.storedBytes + bytes > bytesMax) throw new KvError('noSpace');
  }

  #countKeys(range: KeyRange, cost: PathCost): void {
    cost.keys += this.#space.keysIn(range);
    if (cost.keys > kvLimits.transactionKeysMax) throw new KvError('tooManyKeys');
  }

  /** Of the keys of a range as they are before the transaction. */
  #countRead(range: KeyRange, revision: number, limit: number, cost: PathCost): void {
    cost.reads += 1;
    const bytes = this.#space.sizesIn(range, revision || this.#currentRevision);
    // Which ones they are is not known before they are sorted.
    if (limit > 0 && bytes.length > limit) bytes.sort((a, b) => b - a).length = limit;
    for (const each of bytes) cost.readBytes += each;
  }

  /** Finds every reason to refuse before anything is done. */
  #checkPath(path: Path, cost: PathCost): void {
    for (const operation of path.operations) {
      switch (operation.kind) {
        case 'range':
          this.#checkRevision(operation);
          this.#countKeys(operation, cost);
          if (!operation.countOnly && !operation.keysOnly) {
            this.#countRead(operation, operation.revision, operation.limit, cost);
          }
          break;
        case 'put':
          this.#checkPut(operation);
          cost.putBytes += operation.key.length + operation.value.length;
          if (operation.previous) this.#countRead({ ...operation, rangeEnd: '' }, 0, 0, cost);
          break;
        case 'path':
          this.#checkPath(operation, cost);
          break;
        case 'deleteRange':
          this.#countKeys(operation, cost);
          if (operation.previous) this.#countRead(operation, 0, 0, cost);
          break;
        default:
          operation satisfies never;
      }
    }
  }

  #performPath(path: Path, transaction: Transaction): TxnAnswer {
    const answers: OperationAnswer[] = [];
    for (const operation of path.operations) {
      switch (operation.kind) {
        case 'range':
          answers.push(this.#rangeSeen(operation, this.#seenRevision(transaction)));
          break;
        case 'put':
          answers.push(this.#putChecked(operation, transaction));
          break;
        case 'deleteRange':
          answers.push(this.#deleteChecked(operation, transaction));
          break;
        case 'path':
          answers.push(this.#performPath(operation, transaction));
          break;
        default:
          operation satisfies never;
      }
    }
    const revision = this.#seenRevision(transaction);
    return { kind: 'txn', revision, succeeded: path.succeeded, answers };
  }

  #seenRevision(transaction: Transaction): number {
    return transaction.changeCount > 0 ? transaction.base + 1 : transaction.base;
  }

  #rangeSeen(request: RangeRequest, newestRevision: number): RangeAnswer {
    const at = request.revision > 0 ? request.revision : newestRevision;
    const found = this.#space.range(request, at);
    const items = found.filter((item) => isInBounds(item, request));
    const order = orderOf(request);
    if (order !== null) items.sort(order);
    return rangeAnswerOf(request, newestRevision, found.length, items);
  }

  #putChecked(request: PutRequest, transaction: Transaction): PutAnswer {
    const before = this.#space.get(request.key);
    const modRevision = transaction.base + 1;
    const leaseId = request.ignoreLease ? (before?.leaseId ?? 0n) : request.leaseId;
    const value = request.ignoreValue ? before!.value : request.value;
    if (before !== null && before.leaseId !== 0n) this.#leases.detach(before.leaseId, request.key);
    if (leaseId !== 0n) this.#leases.attach(leaseId, request.key);
    this.#record(transaction, {
      key: request.key,
      value,
      modRevision,
      sub: transaction.changeCount,
      createRevision: before?.createRevision ?? modRevision,
      version: (before?.version ?? 0) + 1,
      leaseId,
    });
    return { kind: 'put', revision: modRevision, previous: request.previous ? before : null };
  }

  #deleteChecked(request: DeleteRangeRequest, transaction: Transaction): DeleteRangeAnswer {
    const found = this.#space.range(request, this.#seenRevision(transaction));
    for (const { key } of found) this.#recordDelete(key, transaction);
    return {
      kind: 'deleteRange',
      revision: this.#seenRevision(transaction),
      deleted: found.length,
      previous: request.previous ? found : [],
    };
  }

  #recordDelete(key: string, transaction: Transaction): void {
    const before = this.#space.get(key);
    assert(before !== null, 'only living keys are deleted');
    if (before.leaseId !== 0n) this.#leases.detach(before.leaseId, key);
    this.#record(transaction, {
      key,
      value: null,
      modRevision: transaction.base + 1,
      sub: transaction.changeCount,
      createRevision: 0,
      version: 0,
      leaseId: 0n,
    });
  }

  #record(transaction: Transaction, change: Change): void {
    this.#space.append(change);
    this.#writes.push({ kind: 'change', change });
    transaction.changeCount += 1;
  }
}

const emptyValue = new Uint8Array(0);

/**
 * @param count of all keys of the range
 * @param items those that are in the bounds of the request, in its order
 */
export function rangeAnswerOf(
  request: RangeRequest,
  revision: number,
  count: number,
  items: LiveChange[],
): RangeAnswer {
  const base = { kind: 'range', revision, count } as const;
  if (request.countOnly) return { ...base, items: [], more: false };
  const more = request.limit > 0 && items.length > request.limit;
  const kept = more ? items.slice(0, request.limit) : items;
  if (!request.keysOnly) return { ...base, items: kept, more };
  return { ...base, items: kept.map((item) => ({ ...item, value: emptyValue })), more };
}

/** Null for that of the keys, which ranges have. */
export function orderOf({
  sortOrder,
  sortTarget,
}: RangeRequest): ((left: LiveChange, right: LiveChange) => number) | null {
  if (sortTarget === 'key' && sortOrder !== 'descend') return null;
  const order = comparatorOf(sortTarget);
  return sortOrder === 'descend' ? (left, right) => -order(left, right) : order;
}

export function isInBounds(item: Change, request: RangeRequest): boolean {
  const { minModRevision, maxModRevision, minCreateRevision, maxCreateRevision } = request;
  return (
    (minModRevision === 0 || item.modRevision >= minModRevision) &&
    (maxModRevision === 0 || item.modRevision <= maxModRevision) &&
    (minCreateRevision === 0 || item.createRevision >= minCreateRevision) &&
    (maxCreateRevision === 0 || item.createRevision <= maxCreateRevision)
  );
}

function comparatorOf(target: SortTarget): (left: LiveChange, right: LiveChange) => number {
  switch (target) {
    case 'key':
      return (left, right) => compareText(left.key, right.key);
    case 'version':
      return (left, right) => left.version - right.version;
    case 'create':
      return (left, right) => left.createRevision - right.createRevision;
    case 'mod':
      return (left, right) => left.modRevision - right.modRevision;
    case 'value':
      return (left, right) => Buffer.compare(left.value, right.value);
  }
}
