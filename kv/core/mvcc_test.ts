import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { kvLimits } from './limits.ts';
import { Mvcc } from './mvcc.ts';
import { fuzz } from './mvcc_fuzz.ts';
import {
  type Change,
  type Compare,
  type DeleteRangeRequest,
  everything,
  isDeletion,
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

function dropAll(core: Mvcc): void {
  while (core.isDropping) core.dropPart(1_000);
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
  assert.equal(core.hasExpiredLease(10_999), false);
  assert.equal(core.leaseRenew(7n, 10_999), 10);
  assert.equal(core.hasExpiredLease(11_000), false);
  assert.equal(core.leaseInfo(7n, 15_999)!.remainingSeconds, 5);
  assert.equal(core.hasExpiredLease(20_999), true);
  assert.equal(core.leaseRenew(7n, 20_999), null);
  const before = core.revision;
  core.endLeases(20_999, 100);
  assert.equal(core.hasExpiredLease(20_999), false);
  assert.equal(core.revision, before + 1);
  assert.deepEqual(keysOf(core), ['c']);
  assert.deepEqual(keysOf(core, before), ['a', 'b', 'c']);
});

test('leases that end together end some at a time, each in a revision of its own', () => {
  const core = new Mvcc();
  const lease = (id: bigint, ttlSeconds: number, keyCount: number) => {
    core.leaseGrant(id, ttlSeconds, 0);
    for (let i = 0; i < keyCount; i++) core.put(put(`${id}/${i}`, '', id));
  };
  lease(1n, 3, 4);
  lease(2n, 2, 100);
  lease(3n, 2, 4);
  lease(4n, 3, 4);
  lease(5n, 3, 4);
  lease(6n, 3, 0);
  lease(7n, 9, 1);
  const ended: string[][] = [];
  while (core.hasExpiredLease(5_000)) {
    core.takeWrites();
    core.endLeases(5_000, 10);
    const writes = core.takeWrites();
    const revisions = writes.map((write) =>
      write.kind === 'change' ? write.change.modRevision : 0,
    );
    const gone = writes.flatMap((write) => (write.kind === 'leaseGone' ? String(write.id) : []));
    assert.equal(new Set(revisions).size - 1, gone.filter((id) => id !== '6').length);
    ended.push(gone);
  }
  assert.deepEqual(ended, [['2'], ['3', '1'], ['4', '5'], ['6']]);
  assert.deepEqual(keysOf(core), ['7/0']);
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
  assert.equal(again.hasExpiredLease(59_999), false);
  assert.equal(again.hasExpiredLease(60_000), true);
  again.endLeases(60_000, 100);
  assert.deepEqual(keysOf(again), ['b']);
});

test('a full store refuses puts and takes deletions and compaction', () => {
  const core = new Mvcc(undefined, 0, { storedBytesMax: 2_500 });
  core.put(put('a', 1_500));
  assert.throws(() => core.put(put('b', 1_000)), refusedAs('noSpace'));
  assert.deepEqual(keysOf(core), ['a']);
  core.deleteRange({ kind: 'deleteRange', key: 'a', rangeEnd: '', previous: false });
  assert.throws(() => core.put(put('b', 1_000)), refusedAs('noSpace'));
  core.compact(core.revision);
  dropAll(core);
  core.put(put('b', 1_000));
  assert.deepEqual(keysOf(core), ['b']);
});

test('this process has room where others have filled the store', () => {
  const core = new Mvcc(undefined, 0, { storedBytesMax: 3_000, reservedBytes: 1_000 });
  core.put(put('a', 1_900));
  const more = (key: string) => ({
    kind: 'txn' as const,
    compares: [],
    success: [put(key, 1_000)],
    failure: [],
  });
  assert.throws(() => core.txn(more('b')), refusedAs('noSpace'));
  core.txn(more('b'), 'process');
  assert.deepEqual(keysOf(core), ['a', 'b']);
  // A start that comes to more than others may have.
  assert.throws(() => core.put(put('c', 1)), refusedAs('noSpace'));
  assert.throws(() => core.txn(more('c'), 'process'), refusedAs('noSpace'));
});

test('autoCompactRevision() keeps the newest revisions, and bytes of history in their limit', () => {
  const byCount = new Mvcc(undefined, 0, { historyRevisionsMax: 10, historyRevisionsSlack: 5 });
  for (let index = 0; index < 15; index += 1) byCount.put(put('a', 'x'));
  assert.equal(byCount.autoCompactRevision(), 6);
  byCount.compact(6);
  dropAll(byCount);
  assert.equal(byCount.autoCompactRevision(), null);
  const byBytes = new Mvcc(undefined, 0, { historyBytesMax: 20_000 });
  for (let index = 0; index < 20; index += 1) byBytes.put(put('a', 1_000));
  assert.equal(byBytes.autoCompactRevision(), 11);
  byBytes.compact(11);
  assert.equal(byBytes.autoCompactRevision(), null);
  dropAll(byBytes);
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

const range = (key: string): RangeRequest => ({ ...everything, key, rangeEnd: '' });
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

test('values that a transaction would answer with are not made to count them, nor those that watches pass over', () => {
  const core = new Mvcc();
  core.put(put('big', 1 << 20));
  const read: RangeRequest = { ...everything, key: 'big', rangeEnd: '' };
  const wide = repeated(50, transaction(repeated(50, read)));
  const made = mock.method(Buffer, 'from');
  try {
    assert.throws(() => core.txn(transaction(wide)), refusedAs('answerTooLarge'));
    const target = { kind: 'value', value: Uint8Array.of(1) } as const;
    const compares = [{ key: 'big', rangeEnd: '', result: 'less', target } as const];
    assert.equal(core.txn({ ...transaction([]), compares }).succeeded, true);
    core.history(2, 2, 1, isDeletion);
    assert.equal(made.mock.callCount(), 0);
  } finally {
    made.mock.restore();
  }
});

test('ranges over more keys than one request may look at are refused', () => {
  const core = new Mvcc();
  for (let first = 0; first < 60_000; first += 4_000) {
    const puts = Array.from({ length: 4_000 }, (_, i) =>
      put(`k${String(first + i).padStart(6, '0')}`, ''),
    );
    core.txn(transaction(puts), 'process');
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

test('what a compaction forgets is refused at once, and dropped some at a time', () => {
  const core = new Mvcc();
  for (let i = 0; i < 3_000; i++) core.put(put(`k${i % 1_000}`, ''));
  for (let i = 0; i < 500; i++) {
    core.deleteRange({ kind: 'deleteRange', key: `k${i}`, rangeEnd: '', previous: false });
  }
  core.put(put('k999', ''));
  const { revision, storedBytes } = core;
  core.takeWrites();
  core.compact(revision);
  assert.deepEqual(core.takeWrites(), [{ kind: 'compact', revision }]);
  assert.throws(
    () => core.range({ ...everything, revision: revision - 1 }),
    refusedAs('compacted'),
  );
  assert.throws(() => core.history(revision - 1, revision, 1, () => true), refusedAs('compacted'));
  assert.equal(core.before('k999', revision), null);
  assert.equal(core.storedBytes, storedBytes);
  let parts = 0;
  let droppedCount = 0;
  for (; core.isDropping; parts++) {
    core.dropPart(100);
    core.put(put(`k${parts}`, 'later'));
    assert.equal(core.range({ ...everything, revision }).count, 500);
    for (const write of core.takeWrites()) {
      if (write.kind !== 'drop') continue;
      assert.ok(write.dropped.length < 100 + 4, 'so many, and all of one key');
      droppedCount += write.dropped.length;
    }
  }
  assert.ok(parts >= 31, `${parts}`);
  assert.equal(droppedCount, 3_000 + 500 + 1 - 500);
  assert.equal(core.range({ ...everything, revision }).count, 500);
});

test('a compaction that comes before the one before has dropped all goes on with that', () => {
  const core = new Mvcc();
  for (let i = 0; i < 100; i++) core.put(put(`k${i % 10}`, ''));
  core.deleteRange({ kind: 'deleteRange', key: 'k3', rangeEnd: '', previous: false });
  core.compact(core.revision);
  core.dropPart(20);
  core.put(put('k4', ''));
  core.compact(core.revision);
  dropAll(core);
  assert.equal(core.keyCount, 9);
  assert.equal(core.storedBytes, core.liveBytes);
});

test('a deletion at the compact revision is there for watches until the next compaction', () => {
  const core = new Mvcc();
  core.put(put('a', ''));
  core.deleteRange({ kind: 'deleteRange', key: 'a', rangeEnd: '', previous: false });
  const { revision } = core;
  core.compact(revision);
  dropAll(core);
  assert.equal(core.history(revision, revision, 1, () => true).changes[0]!.value, null);
  core.put(put('b', ''));
  core.compact(core.revision);
  dropAll(core);
  assert.equal(core.keyCount, 1);
  assert.equal(core.storedBytes, core.liveBytes);
});

/** Changes of one key, with a count of how often their revisions are looked at. */
class LongHistory {
  looks = 0;
  readonly changes: Change[];

  constructor(count: number) {
    const look = (): void => {
      this.looks += 1;
    };
    this.changes = Array.from({ length: count }, (_, i) => ({
      key: 'a',
      value: new Uint8Array(0),
      get modRevision(): number {
        look();
        return i + 2;
      },
      sub: 0,
      createRevision: 2,
      version: i + 1,
      leaseId: 0n,
    }));
  }

  core(): Mvcc {
    const { changes } = this;
    const core = new Mvcc({
      revision: changes.length + 1,
      compactRevision: 0,
      changes,
      leases: [],
    });
    this.looks = 0;
    return core;
  }
}

test('the past of a key with a long history is found in few steps', () => {
  const history = new LongHistory(10_000);
  const core = history.core();
  for (let revision = 2; revision <= 10_000; revision += 97) {
    const { items } = core.range({ ...everything, key: 'a', rangeEnd: '', revision });
    assert.equal(items[0]!.version, revision - 1);
    assert.equal(core.before('a', revision)?.version, revision === 2 ? undefined : revision - 2);
  }
  assert.ok(history.looks < 104 * 2 * 30, `${history.looks}`);
  history.looks = 0;
  const oldest: RangeRequest = { ...everything, key: 'a', rangeEnd: '', revision: 2 };
  core.txn(transaction(repeated(64, transaction(repeated(64, oldest)))));
  assert.ok(history.looks < 64 * 64 * 2 * 30, `${history.looks}`);
});

test('keys that a transaction puts and deletes are compared in few steps', () => {
  let looks = 0;
  const counted = <Item extends PutRequest | DeleteRangeRequest>(item: Item): Item =>
    Object.defineProperty({ ...item }, 'key', {
      enumerable: true,
      get: () => {
        looks += 1;
        return item.key;
      },
    });
  const begin = 'x'.repeat(80);
  const puts = Array.from({ length: 31 }, (_, k) =>
    transaction(Array.from({ length: 65 }, (_each, i) => counted(put(`${begin}${k}/${i}`, '')))),
  );
  const deletion = (name: string): DeleteRangeRequest => ({
    kind: 'deleteRange',
    key: `${begin}${name}`,
    rangeEnd: '',
    previous: false,
  });
  const deletes = Array.from({ length: 32 }, (_, k) =>
    transaction(Array.from({ length: 65 }, (_each, i) => counted(deletion(`${k}/${i} gone`)))),
  );
  const core = new Mvcc();
  core.txn(transaction([...puts, ...deletes]));
  const operations = (31 + 32) * 65;
  assert.ok(looks < 20 * operations, `${looks} looks at ${operations} keys`);
  const last = transaction([counted(deletion('30/64'))]);
  assert.throws(
    () => core.txn(transaction([...puts, ...deletes.slice(1), last])),
    refusedAs('duplicateKey'),
  );
});

test('branches of which one is taken may change the same keys, however they are nested', () => {
  const core = new Mvcc();
  const either = (success: OperationRequest[], failure: OperationRequest[]): TxnRequest => ({
    ...transaction(success),
    failure,
  });
  const all = { kind: 'deleteRange', key: 'a', rangeEnd: 'z', previous: false } as const;
  const inner = either([put('a', '1'), put('b', '1')], [all]);
  core.txn(
    either([inner], [put('a', '2'), either([put('b', '2')], [put('b', '3'), put('c', '3')])]),
  );
  for (const wrong of [
    transaction([inner, put('a', '2')]),
    transaction([put('c', '2'), inner]),
    transaction([either([put('c', '1')], [range('c')]), either([range('c')], [all])]),
    either([range('a')], [inner, inner]),
  ]) {
    assert.throws(() => core.txn(wrong), refusedAs('duplicateKey'));
  }
  core.txn(transaction([inner, { ...all, key: 'm' }, put('~', '1')]));
});
