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
}

/** One request's changes; they all bear the revision `base + 1`. */
interface Transaction {
  readonly base: number;
  changeCount: number;
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

  put(request: PutRequest): PutAnswer {
    checkShape(request);
    this.#checkPut(request);
    this.#checkSpace(request.key.length + request.value.length);
    const transaction = this.#begin();
    const answer = this.#putChecked(request, transaction);
    this.#end(transaction);
    return answer;
  }

  deleteRange(request: DeleteRangeRequest): DeleteRangeAnswer {
    checkShape(request);
    const transaction = this.#begin();
    const answer = this.#deleteChecked(request, transaction);
    this.#end(transaction);
    return answer;
  }

  /**
   * Comparisons, those of nested transactions too, see the store as it was before the transaction.
   * @param operationsMax as of `kvLimits`
   */
  txn(request: TxnRequest, operationsMax?: number): TxnAnswer {
    checkShape(request, operationsMax);
    const path = choosePath(request, (range) => this.#space.range(range, this.#currentRevision));
    const bytes = this.#checkPath(path);
    if (bytes > 0) this.#checkSpace(bytes);
    const transaction = this.#begin();
    const answer = this.#performPath(path, transaction);
    this.#end(transaction);
    return { ...answer, revision: this.#currentRevision };
  }

  /** Forgets the past before the revision; reads and watches from the revision on still work. */
  compact(revision: number): void {
    if (revision <= this.compactRevision) throw new KvError('compacted');
    if (revision > this.#currentRevision) throw new KvError('futureRevision');
    const dropped = this.#space.compact(revision);
    this.#writes.push({ kind: 'compact', revision, dropped });
  }

  /** The revision to compact at so that history keeps its limits, or null. */
  autoCompactRevision(): number | null {
    const { historyRevisionsMax, historyRevisionsSlack, historyBytesMax } = this.#options;
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
      keys: this.#leases.keysOf(id),
    };
  }

  leaseIds(): bigint[] {
    return this.#leases.ids();
  }

  /** Leases whose time is over, for the caller to revoke. */
  expiredLeases(nowMillis: number): bigint[] {
    return this.#leases.expired(nowMillis);
  }

  /**
   * Changes of whole revisions in `[fromRevision, toRevision]`, oldest first, ending early after
   * the revision in which `bytesMax` is reached.
   * @returns the changes that `wanted` takes, and the revision up to which nothing was left out
   * @throws {KvError} compacted
   */
  history(
    fromRevision: number,
    toRevision: number,
    bytesMax: number,
    wanted: (change: Change) => boolean,
  ): { changes: Change[]; throughRevision: number } {
    if (fromRevision < this.compactRevision) throw new KvError('compacted');
    const changes: Change[] = [];
    let bytes = 0;
    let lastRevision = 0;
    for (let index = this.#space.logIndexOf(fromRevision); ; index += 1) {
      const change = this.#space.logAt(index);
      if (change === undefined || change.modRevision > toRevision) break;
      if (bytes >= bytesMax && change.modRevision !== lastRevision) {
        return { changes, throughRevision: lastRevision };
      }
      lastRevision = change.modRevision;
      if (!wanted(change)) continue;
      bytes += change.key.length + (change.value?.length ?? 0);
      changes.push(change);
    }
    return { changes, throughRevision: toRevision };
  }

  /** The key as it was before the revision, or null when it was not there or that is compacted. */
  before(key: string, revision: number): LiveChange | null {
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
      if (this.#space.get(request.key) === null) throw new KvError('keyNotFound');
    }
    if (request.leaseId !== 0n && !this.#leases.has(request.leaseId)) {
      throw new KvError('leaseNotFound');
    }
  }

  #checkSpace(bytes: number): void {
    if (this.#space.storedBytes + bytes > this.#options.storedBytesMax)
      throw new KvError('noSpace');
  }

  /** Finds every reason to refuse before anything is done. @returns bytes that the puts bring */
  #checkPath(path: Path): number {
    let bytes = 0;
    for (const operation of path.operations) {
      switch (operation.kind) {
        case 'range':
          this.#checkRevision(operation);
          break;
        case 'put':
          this.#checkPut(operation);
          bytes += operation.key.length + operation.value.length;
          break;
        case 'path':
          bytes += this.#checkPath(operation);
          break;
        case 'deleteRange':
          break;
        default:
          operation satisfies never;
      }
    }
    return bytes;
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
    const count = found.length;
    const base = { kind: 'range', revision: newestRevision, count } as const;
    if (request.countOnly) return { ...base, items: [], more: false };
    let items = found.filter((item) => isInBounds(item, request));
    const ordered = request.sortOrder !== 'none' || request.sortTarget !== 'key';
    if (ordered && !(request.sortTarget === 'key' && request.sortOrder === 'ascend')) {
      const order = comparatorOf(request.sortTarget);
      const sign = request.sortOrder === 'descend' ? -1 : 1;
      items.sort((left, right) => sign * order(left, right));
    }
    const more = request.limit > 0 && items.length > request.limit;
    if (more) items = items.slice(0, request.limit);
    if (request.keysOnly) items = items.map((item) => ({ ...item, value: emptyValue }));
    return { ...base, items, more };
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

function isInBounds(item: Change, request: RangeRequest): boolean {
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
