/**
 * Whether a transaction may change a key twice. Each put is a place among all keys that are put, in their
 * order, and each deletion a stretch of these: whether one meets another is a sum over places, since a
 * transaction may have thousands of both.
 */
import { type KeyRange, KvError, type OperationRequest, type TxnRequest } from './requests.ts';
import { lowerBound } from './sorted_names.ts';

/**
 * A revision changes a key at most once, so two puts of one key, or a put and a deletion that
 * covers it, may not meet in one transaction; branches of which only one is taken do not meet. etcd
 * lets a deletion in a nested transaction cover the put of an earlier nested one; we refuse that
 * too.
 *
 * @throws {KvError} duplicateKey
 */
export function checkChangedKeys(request: TxnRequest): void {
  const found = new Set<string>();
  collectPuts(request, found);
  const keys = [...found].sort();
  new ChangedKeys(keys.length).take(changesOf(request, keys));
}

function collectPuts({ success, failure }: TxnRequest, found: Set<string>): void {
  for (const operation of [...success, ...failure]) {
    if (operation.kind === 'put') found.add(operation.key);
    else if (operation.kind === 'txn') collectPuts(operation, found);
  }
}

/** What an operation changes, by places among the keys that are put. */
type Changes =
  | { readonly kind: 'put'; readonly place: number }
  | { readonly kind: 'delete'; readonly place: number; readonly pastPlace: number }
  | Branches;

/** Only one of them is taken. */
interface Branches {
  readonly kind: 'branches';
  readonly smaller: readonly Changes[];
  readonly larger: readonly Changes[];
  /** Of both, with those nested in them. */
  readonly count: number;
}

function changesOf(request: TxnRequest, keys: readonly string[]): Branches {
  const sides = [request.success, request.failure].map((operations) => {
    const changes = operations.flatMap((operation) => changesOfOne(operation, keys));
    const count = changes.reduce(
      (sum, each) => sum + (each.kind === 'branches' ? each.count : 1),
      0,
    );
    return { changes, count };
  });
  const [smaller, larger] = sides.sort((left, right) => left.count - right.count);
  return {
    kind: 'branches',
    smaller: smaller!.changes,
    larger: larger!.changes,
    count: smaller!.count + larger!.count,
  };
}

function changesOfOne(operation: OperationRequest, keys: readonly string[]): Changes[] {
  switch (operation.kind) {
    case 'range':
      return [];
    case 'put':
      return [{ kind: 'put', place: lowerBound(keys, operation.key) }];
    case 'deleteRange':
      return [{ kind: 'delete', ...stretchOf(operation, keys) }];
    case 'txn':
      return [changesOf(operation, keys)];
  }
}

function stretchOf(
  { key, rangeEnd }: KeyRange,
  keys: readonly string[],
): { place: number; pastPlace: number } {
  const place = lowerBound(keys, key);
  if (rangeEnd === '') return { place, pastPlace: keys[place] === key ? place + 1 : place };
  if (rangeEnd === '\0') return { place, pastPlace: keys.length };
  return { place, pastPlace: Math.max(place, lowerBound(keys, rangeEnd)) };
}

/** What those operations change that may be done together with the one that is looked at. */
class ChangedKeys {
  /** At each place how many puts there are of its key. */
  readonly #puts: Sums;
  /** Up to and with a place: how many deletions cover its key. */
  readonly #deletes: Sums;

  constructor(keyCount: number) {
    this.#puts = new Sums(keyCount);
    this.#deletes = new Sums(keyCount + 1);
  }

  /** @throws {KvError} duplicateKey */
  take(changes: Changes): void {
    switch (changes.kind) {
      case 'put':
        this.#refusePuts(changes.place, changes.place + 1);
        if (this.#deletes.before(changes.place + 1) > 0) throw new KvError('duplicateKey');
        this.#count(changes, 1);
        break;
      case 'delete':
        this.#refusePuts(changes.place, changes.pastPlace);
        this.#count(changes, 1);
        break;
      case 'branches':
        // One branch is forgotten while the other is looked at; the smaller one, so that of branches in
        // branches nothing is forgotten more often than there are doublings.
        for (const each of changes.smaller) this.take(each);
        for (const each of changes.smaller) this.#count(each, -1);
        for (const each of changes.larger) this.take(each);
        for (const each of changes.smaller) this.#count(each, 1);
        break;
      default:
        changes satisfies never;
    }
  }

  #refusePuts(place: number, pastPlace: number): void {
    if (this.#puts.before(pastPlace) > this.#puts.before(place)) throw new KvError('duplicateKey');
  }

  #count(changes: Changes, times: 1 | -1): void {
    switch (changes.kind) {
      case 'put':
        this.#puts.add(changes.place, times);
        break;
      case 'delete':
        this.#deletes.add(changes.place, times);
        this.#deletes.add(changes.pastPlace, -times);
        break;
      case 'branches':
        for (const each of changes.smaller) this.#count(each, times);
        for (const each of changes.larger) this.#count(each, times);
        break;
      default:
        changes satisfies never;
    }
  }
}

/** A number at each place, and the sum of all before a place in few steps: a Fenwick tree. */
class Sums {
  /** Each has the sum of so many places up to it as its lowest bit says. */
  readonly #sums: Int32Array;

  constructor(placeCount: number) {
    this.#sums = new Int32Array(placeCount + 1);
  }

  add(place: number, number: number): void {
    for (let at = place + 1; at < this.#sums.length; at += at & -at) this.#sums[at]! += number;
  }

  before(place: number): number {
    let sum = 0;
    for (let at = place; at > 0; at -= at & -at) sum += this.#sums[at]!;
    return sum;
  }
}
