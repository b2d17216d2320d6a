/**
 * What is checked of a request before the store looks at it, and which branches a transaction
 * takes.
 */
import { checkChangedKeys } from './changed_keys.ts';
import { kvLimits } from './limits.ts';
import type {
  Compare,
  DeleteRangeRequest,
  KeyRange,
  LiveChange,
  OperationRequest,
  PutRequest,
  RangeRequest,
  TxnRequest,
} from './requests.ts';
import { KvError } from './requests.ts';

/** A transaction whose comparisons are decided: only the operations of the branches taken. */
export interface Path {
  readonly kind: 'path';
  readonly succeeded: boolean;
  readonly operations: readonly (RangeRequest | PutRequest | DeleteRangeRequest | Path)[];
}

/**
 * Refuses what is wrong whatever the store holds.
 * @throws {KvError}
 */
export function checkShape(
  request: OperationRequest,
  operationsMax: number = kvLimits.transactionOperationsMax,
): void {
  if (request.kind !== 'txn') {
    if (request.key === '') throw new KvError('emptyKey');
    if (request.kind === 'put') {
      if (request.ignoreValue && request.value.length > 0) throw new KvError('valueProvided');
      if (request.ignoreLease && request.leaseId !== 0n) throw new KvError('leaseProvided');
    }
    return;
  }
  if (partsOf(request) > kvLimits.transactionPartsMax) throw new KvError('tooManyOperations');
  checkTransaction(request, operationsMax);
  checkChangedKeys(request);
}

function partsOf({ compares, success, failure }: TxnRequest): number {
  let parts = compares.length + success.length + failure.length;
  for (const operation of [...success, ...failure]) {
    if (operation.kind === 'txn') parts += partsOf(operation);
  }
  return parts;
}

function checkTransaction(request: TxnRequest, operationsMax: number): void {
  const { compares, success, failure } = request;
  const count = Math.max(compares.length, success.length, failure.length);
  if (count > operationsMax) throw new KvError('tooManyOperations');
  for (const { key } of compares) if (key === '') throw new KvError('emptyKey');
  for (const operation of [...success, ...failure]) {
    if (operation.kind === 'txn') checkTransaction(operation, operationsMax - count);
    else checkShape(operation);
  }
}

/** The state before a transaction. */
export interface StateBefore {
  range(range: KeyRange): LiveChange[];
  /** Of the value of a key that is there: below 0 when it comes before the other one. */
  compareValue(key: string, other: Uint8Array): number;
}

/** Decides all comparisons. */
export function choosePath(request: TxnRequest, before: StateBefore): Path {
  const succeeded = request.compares.every((compare) => holds(compare, before));
  const operations = (succeeded ? request.success : request.failure).map((operation) =>
    operation.kind === 'txn' ? choosePath(operation, before) : operation,
  );
  return { kind: 'path', succeeded, operations };
}

/** Every key of the range must fulfil it. A key that is not there has numbers 0 and no value. */
function holds(compare: Compare, before: StateBefore): boolean {
  const found = before.range(compare);
  if (found.length === 0) {
    return compare.target.kind === 'value'
      ? false
      : holdsFor(compare.result, compareNumbers(0n, compare.target.number));
  }
  return found.every((item) => holdsFor(compare.result, differenceOf(item, compare, before)));
}

function differenceOf(item: LiveChange, { target }: Compare, before: StateBefore): number {
  switch (target.kind) {
    case 'value':
      return before.compareValue(item.key, target.value);
    case 'version':
      return compareNumbers(BigInt(item.version), target.number);
    case 'create':
      return compareNumbers(BigInt(item.createRevision), target.number);
    case 'mod':
      return compareNumbers(BigInt(item.modRevision), target.number);
    case 'lease':
      return compareNumbers(item.leaseId, target.number);
  }
}

function holdsFor(result: Compare['result'], difference: number): boolean {
  switch (result) {
    case 'equal':
      return difference === 0;
    case 'greater':
      return difference > 0;
    case 'less':
      return difference < 0;
    case 'notEqual':
      return difference !== 0;
  }
}

function compareNumbers(left: bigint, right: bigint): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
