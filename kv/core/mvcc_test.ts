import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kvLimits } from './limits.ts';
import { Mvcc } from './mvcc.ts';
import { fuzz } from './mvcc_fuzz.ts';
import {
  type Compare,
  everything,
  KvError,
  type KvErrorKind,
  type LiveChange,
  type OperationRequest,
  type PutRequest,
  type RangeRequest,
  type TxnRequest,
} from './requests.ts';

function put(key: string, value: string | number, leaseId = 0n): PutRequest {
  const bytes = typeof value === 'number' ? new Uint8Array(value) : new TextEncoder().encode(value);
  const flags = { previous: false, ignoreValue: false, ignoreLease: false };
  return { kind: 'put', key, value: bytes, leaseId, ...flags };
}

function refusedAs(kind: KvErrorKind): (error: unknown) => boolean {
  return (error) => error instanceof KvError && error.kind === kind;
}

const keysOf = (core: Mvcc, revision = 0) =>
  core.range({ ...everything, revision }).items.map((item) => item.key);

test('Mvcc answers as its obvious twin does', () => {
  for (let seed = 1; seed <= 40; seed += 1) fuzz(seed, 150);
});

test('Mvcc starts at revision 1 and counts changes, not reads', () => {
  const core = new Mvcc();
  assert.equal(core.revision, 1);
  core.range(everything);
  core.deleteRange({ kind: 'deleteRange', key: 'a', rangeEnd: '', previous: false });
  assert.equal(core.revision, 1);
  assert.equal(core.put(put('a', 'x')).revision, 2);
  assert.equal(core.revision, 2);
});

test('a lease ends when its time is over and takes its keys in one revision', () => {
  const core = new Mvcc();
  assert.equal(core.leaseGrant(7n, 10, 1_000), 10);
  core.put(put('a', 'x', 7n));
  core.put(put('b', 'x', 7n));
  core.put(put('c', 'x'));
  assert.deepEqual(core.expiredLeases(10_999), []);
  assert.equal(core.leaseRenew(7n, 10_999), 10);
  assert.deepEqual(core.expiredLeases(11_000), []);
  assert.equal(core.leaseInfo(7n, 15_999)!.remainingSeconds, 5);
  assert.deepEqual(core.expiredLeases(20_999), [7n]);
  assert.equal(core.leaseRenew(7n, 20_999), null);
  const before = core.revision;
  core.leaseRevoke(7n);
  assert.equal(core.revision, before + 1);
  assert.deepEqual(keysOf(core), ['c']);
  assert.deepEqual(keysOf(core, before), ['a', 'b', 'c']);
});

test('leases that are too long, taken or unknown are refused', () => {
  const core = new Mvcc();
  core.leaseGrant(1n, 5, 0);
  assert.throws(() => core.leaseGrant(1n, 5, 0), refusedAs('leaseExists'));
  assert.throws(() => core.leaseGrant(2n, 9_000_000_001, 0), refusedAs('leaseTtlTooLarge'));
  assert.throws(() => core.leaseRevoke(2n), refusedAs('leaseNotFound'));
  assert.throws(() => core.put(put('a', 'x', 2n)), refusedAs('leaseNotFound'));
  assert.equal(core.leaseGrant(3n, -5, 0), 1);
});

test('a restored store has its keys, revisions and leases, which start anew', () => {
  const core = new Mvcc();
  core.leaseGrant(7n, 10, 0);
  core.put(put('a', 'x', 7n));
  core.put(put('b', 'y'));
  const changes = core
    .takeWrites()
    .flatMap((write) => (write.kind === 'change' ? write.change : []));
  const leases = [{ id: 7n, ttlSeconds: 10 }];
  const again = new Mvcc({ revision: 3, compactRevision: 0, changes, leases }, 50_000);
  assert.deepEqual(again.range(everything).items, core.range(everything).items);
  assert.deepEqual(again.expiredLeases(59_999), []);
  assert.deepEqual(again.expiredLeases(60_000), [7n]);
  again.leaseRevoke(7n);
  assert.deepEqual(keysOf(again), ['b']);
});

test('a full store refuses puts and takes deletions and compaction', () => {
  const core = new Mvcc(undefined, 0, { storedBytesMax: 3_000 });
  core.put(put('a', 1_500));
  assert.throws(() => core.put(put('b', 1_000)), refusedAs('noSpace'));
  assert.deepEqual(keysOf(core), ['a']);
  core.deleteRange({ kind: 'deleteRange', key: 'a', rangeEnd: '', previous: false });
  assert.throws(() => core.put(put('b', 1_000)), refusedAs('noSpace'));
  core.compact(core.revision);
  core.put(put('b', 1_000));
  assert.deepEqual(keysOf(core), ['b']);
});

test('autoCompactRevision() keeps the newest revisions, and bytes of history in their limit', () => {
  const byCount = new Mvcc(undefined, 0, { historyRevisionsMax: 10, historyRevisionsSlack: 5 });
  for (let index = 0; index < 15; index += 1) byCount.put(put('a', 'x'));
  assert.equal(byCount.autoCompactRevision(), 6);
  byCount.compact(6);
  assert.equal(byCount.autoCompactRevision(), null);
  const byBytes = new Mvcc(undefined, 0, { historyBytesMax: 20_000 });
  for (let index = 0; index < 20; index += 1) byBytes.put(put('a', 1_000));
  assert.equal(byBytes.autoCompactRevision(), 11);
  byBytes.compact(11);
  assert.equal(byBytes.storedBytes, 11 * (1_000 + 1 + kvLimits.changeOverheadBytes));
  assert.equal(byBytes.autoCompactRevision(), null);
});

test('history() never splits a revision and says how far it went', () => {
  const core = new Mvcc();
  core.txn({
    kind: 'txn',
    compares: [],
    success: [put('a', 10), put('b', 10), put('c', 10)],
    failure: [],
  });
  core.put(put('a', 10));
  core.put(put('z', 10));
  const first = core.history(1, 4, 5, () => true);
  assert.deepEqual(
    first.changes.map((change) => [change.key, change.modRevision, change.sub]),
    [
      ['a', 2, 0],
      ['b', 2, 1],
      ['c', 2, 2],
    ],
  );
  assert.equal(first.throughRevision, 2);
  const rest = core.history(3, 4, 1_000, (change) => change.key === 'z');
  assert.deepEqual(
    rest.changes.map((change) => change.modRevision),
    [4],
  );
  assert.equal(rest.throughRevision, 4);
  assert.equal(core.history(3, 3, 1_000, () => true).changes.length, 1);
  core.compact(3);
  assert.throws(() => core.history(2, 4, 1_000, () => true), refusedAs('compacted'));
  assert.equal(core.history(3, 4, 1_000, () => true).changes.length, 2);
});

test('transactions of more than 128 operations, or nested beyond that, are refused', () => {
  const core = new Mvcc();
  const many = (count: number) =>
    Array.from({ length: count }, (_, index) => put(`k${index}`, 'x'));
  const txn = (success: PutRequest[]) =>
    ({ kind: 'txn', compares: [], success, failure: [] }) as const;
  core.txn(txn(many(128)));
  assert.throws(() => core.txn(txn(many(129))), refusedAs('tooManyOperations'));
  const nested = { ...txn([]), success: [txn(many(127))] };
  core.txn(nested);
  assert.throws(
    () => core.txn({ ...nested, success: [txn(many(128))] }),
    refusedAs('tooManyOperations'),
  );
});

const transaction = (success: readonly OperationRequest[]): TxnRequest => ({
  kind: 'txn',
  compares: [],
  success,
  failure: [],
});
const repeated = <Item>(count: number, item: Item): Item[] =>
  Array.from({ length: count }, () => item);

test('what is nested in a transaction counts with all of its branches', () => {
  const core = new Mvcc();
  const range: RangeRequest = { ...everything, key: 'a', rangeEnd: '' };
  core.txn(transaction(repeated(64, transaction(repeated(64, range)))));
  const tooMany = transaction(
    repeated(100, transaction(repeated(28, transaction([range, range])))),
  );
  assert.throws(() => core.txn(tooMany), refusedAs('tooManyOperations'));
  assert.equal(core.revision, 1);
});

test('a transaction that would answer with too much is refused before anything is done', () => {
  const core = new Mvcc();
  core.put(put('big', 1 << 20));
  const read: RangeRequest = { ...everything, key: 'big', rangeEnd: '' };
  const answer = core.txn(transaction(repeated(15, read)));
  assert.equal(answer.answers.length, 15);
  const refused = (success: readonly OperationRequest[]) =>
    assert.throws(() => core.txn(transaction(success)), refusedAs('answerTooLarge'));
  refused(repeated(16, read));
  refused([put('other', 1 << 20), ...repeated(16, { ...read, key: 'other' })]);
  refused([{ ...put('big', 1), previous: true }, ...repeated(15, read)]);
  assert.equal(core.revision, 2);
  core.txn(transaction(repeated(100, { ...read, keysOnly: true })));
  core.txn(transaction(repeated(100, { ...read, countOnly: true })));
  core.put(put('bigger', 1 << 20));
  const first: RangeRequest = { ...everything, limit: 1 };
  assert.equal(core.txn(transaction(repeated(15, first))).answers.length, 15);
  refused(repeated(15, everything));
});

test('ranges over more keys than one request may look at are refused', () => {
  const core = new Mvcc();
  for (let first = 0; first < 60_000; first += 4_000) {
    const puts = Array.from({ length: 4_000 }, (_, i) =>
      put(`k${String(first + i).padStart(6, '0')}`, ''),
    );
    core.txn(transaction(puts), 4_096);
  }
  const { revision } = core;
  const all = { kind: 'deleteRange', key: 'k', rangeEnd: 'l', previous: false } as const;
  assert.throws(() => core.deleteRange(all), refusedAs('tooManyKeys'));
  assert.throws(() => core.txn(transaction([all])), refusedAs('tooManyKeys'));
  const count: RangeRequest = { ...everything, countOnly: true };
  assert.throws(() => core.txn(transaction([count])), refusedAs('tooManyKeys'));
  const compare: Compare = {
    key: 'k',
    rangeEnd: 'l',
    result: 'equal',
    target: { kind: 'version', number: 1n },
  };
  assert.throws(
    () => core.txn({ ...transaction([]), compares: [compare] }),
    refusedAs('tooManyKeys'),
  );
  assert.equal(core.revision, revision);
  assert.equal(core.range(count).count, 60_000);
  assert.equal(core.deleteRange({ ...all, rangeEnd: 'k05' }).deleted, 50_000);
  assert.equal(core.range(count).count, 10_000);
});

test('rangePart() gives a range in parts as it was at the revision', () => {
  const core = new Mvcc();
  for (let i = 0; i < 25; i++) core.put(put(`k${String(i).padStart(2, '0')}`, 'x'));
  core.deleteRange({ kind: 'deleteRange', key: 'k03', rangeEnd: '', previous: false });
  const { revision } = core;
  const expected = core.range(everything).items;
  const items: LiveChange[] = [];
  let next: string | null = everything.key;
  while (next !== null) {
    const part = core.rangePart(everything, revision, next, 10);
    items.push(...part.items);
    ({ next } = part);
    core.put(put(`k${items.length}`, 'later'));
  }
  assert.deepEqual(items, expected);
  core.compact(core.revision);
  assert.throws(() => core.rangePart(everything, revision, 'k', 10), refusedAs('compacted'));
});

test('history() looks at some changes at a time, also when nobody wants them', () => {
  const core = new Mvcc();
  for (let i = 0; i < 25_000; i++) core.put(put('a', ''));
  let from = 1;
  let looks = 0;
  while (from <= core.revision) {
    const found = core.history(from, core.revision, 1_000, () => false);
    assert.ok(found.lookedAt <= kvLimits.watchChangesAtOnce);
    from = found.throughRevision + 1;
    looks += 1;
  }
  assert.equal(looks, 3);
});
