/** What every adapter of the key-value interface must do, whatever store is behind it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Compare, Kv, Operation, WatchBatch, WatchEvent } from '#cluster/kv/kv.ts';
import { RevisionCompacted } from '#cluster/kv/kv.ts';
import { TsdbError } from '#lib/errors.ts';

export interface KvFixture extends AsyncDisposable {
  /** Another client of the one store, which may hold keys of other tests. */
  client(): Kv;
  /** Compacts the store at its newest revision. */
  compact(): Promise<void>;
}

const never = new AbortController().signal;
const bytes = (text: string) => new TextEncoder().encode(text);
const text = (value: Uint8Array) => new TextDecoder().decode(value);
const put = (key: string, value: string, leaseId?: string): Operation => ({
  kind: 'put',
  key,
  value: bytes(value),
  ...(leaseId === undefined ? {} : { leaseId }),
});

/** Each test has its own prefix, so they share one store and run side by side. */
export function kvSuite(name: string, open: () => Promise<KvFixture>): void {
  test(`${name} holds to the key-value interface`, { concurrency: true }, async (t) => {
    await using fixture = await open();
    let prefixes = 0;
    const cases: Promise<void>[] = [];
    const check = (title: string, run: (kv: Kv, prefix: string) => Promise<void>) => {
      prefixes += 1;
      const prefix = `suite/${prefixes}/`;
      cases.push(
        t.test(title, async () => {
          await using kv = fixture.client();
          await run(kv, prefix);
        }),
      );
    };
    readsAndWrites(check);
    transactions(check);
    largeTransactions(check);
    watches(check, fixture);
    leases(check, fixture);
    await Promise.all(cases);
    // Last, since it takes the history from under every other watch.
    await t.test('watch() of a compacted revision throws RevisionCompacted', async () => {
      await using kv = fixture.client();
      const first = await kv.transact([], [put('compacted/a', '1')], never);
      await kv.transact([], [put('compacted/a', '2')], never);
      await fixture.compact();
      const watch = async () => {
        for await (const _ of kv.watch('compacted/', first.revision, never)) break;
      };
      await assert.rejects(watch(), (error: unknown) => {
        assert(error instanceof RevisionCompacted);
        assert(error.compactRevision > first.revision);
        return true;
      });
      const { revision, items } = await kv.list('compacted/', never);
      assert.deepEqual(
        items.map((item) => text(item.value)),
        ['2'],
      );
      await kv.transact([], [put('compacted/a', '3')], never);
      const events = await take(kv, 'compacted/', revision + 1, 1);
      assert.deepEqual(events.map(shortOf), ['compacted/a=3']);
    });
  });
}

type Check = (title: string, run: (kv: Kv, prefix: string) => Promise<void>) => void;

function readsAndWrites(check: Check): void {
  check('get() of a missing key is null', async (kv, prefix) => {
    assert.equal(await kv.get(`${prefix}none`, never), null);
  });

  check('a key carries its revisions and its version', async (kv, prefix) => {
    const key = `${prefix}k`;
    const first = await kv.transact([], [put(key, 'one')], never);
    const second = await kv.transact([], [put(key, 'two')], never);
    assert(second.revision > first.revision);
    assert.deepEqual(await kv.get(key, never), {
      key,
      value: bytes('two'),
      createRevision: first.revision,
      modRevision: second.revision,
      version: 2,
      leaseId: '0',
    });
    await kv.transact([], [{ kind: 'delete', key }], never);
    assert.equal(await kv.get(key, never), null);
    await kv.transact([], [put(key, 'again')], never);
    assert.equal((await kv.get(key, never))!.version, 1);
  });

  check('values and keys of any characters come back as they were', async (kv, prefix) => {
    const every = Uint8Array.from({ length: 256 }, (_, index) => index);
    const keys = ['', 'ä', '中/文', '😀', 'with space', '\u0001'].map((key) => `${prefix}${key}`);
    for (const key of keys) {
      await kv.transact([], [{ kind: 'put', key, value: every }], never);
      assert.deepEqual((await kv.get(key, never))!.value, every);
    }
    await kv.transact([], [put(`${prefix}empty`, '')], never);
    assert.equal((await kv.get(`${prefix}empty`, never))!.value.length, 0);
  });

  check(
    'list() gives the keys of the prefix alone, in the order of their bytes',
    async (kv, prefix) => {
      const names = ['a/2', 'a/10', 'a/1', 'a/z', 'a/é', 'a/😀', 'a/\uff00', 'a0', 'b/1', 'a'];
      await kv.transact(
        [],
        names.map((name) => put(prefix + name, name)),
        never,
      );
      const { items, revision } = await kv.list(`${prefix}a/`, never);
      assert.deepEqual(
        items.map((item) => item.key.slice(prefix.length)),
        ['a/1', 'a/10', 'a/2', 'a/z', 'a/é', 'a/\uff00', 'a/😀'],
      );
      assert(revision >= items[0]!.modRevision);
      assert.equal((await kv.list(`${prefix}none/`, never)).items.length, 0);
    },
  );

  check(
    'a call with an aborted signal rejects with its reason and does nothing',
    async (kv, prefix) => {
      const reason = new Error('enough');
      const aborted = AbortSignal.abort(reason);
      const isReason = (error: unknown) => error === reason;
      await assert.rejects(kv.get(prefix, aborted), isReason);
      await assert.rejects(kv.list(prefix, aborted), isReason);
      await assert.rejects(kv.transact([], [put(`${prefix}a`, 'x')], aborted), isReason);
      await assert.rejects(kv.lease(5, aborted), isReason);
      assert.equal(await kv.get(`${prefix}a`, never), null);
    },
  );
}

function transactions(check: Check): void {
  check('transact() does all of its operations in one revision, or none', async (kv, prefix) => {
    const [a, b, c] = [`${prefix}a`, `${prefix}b`, `${prefix}c/1`] as const;
    await kv.transact([], [put(c, 'old')], never);
    const absent = (key: string): Compare => ({ key, target: 'createRevision', equals: 0 });
    const operations: Operation[] = [
      put(a, '1'),
      put(b, '2'),
      { kind: 'deletePrefix', prefix: `${prefix}c/` },
    ];
    const done = await kv.transact([absent(a), absent(b)], operations, never);
    assert.equal(done.succeeded, true);
    assert.equal((await kv.get(a, never))!.modRevision, done.revision);
    assert.equal((await kv.get(b, never))!.modRevision, done.revision);
    assert.equal(await kv.get(c, never), null);
    const refused = await kv.transact([absent(`${prefix}z`), absent(a)], [put(b, '3')], never);
    assert.equal(refused.succeeded, false);
    assert.equal(text((await kv.get(b, never))!.value), '2');
  });

  check('every kind of comparison decides', async (kv, prefix) => {
    const key = `${prefix}k`;
    const { revision: created } = await kv.transact([], [put(key, 'one')], never);
    const { revision: changed } = await kv.transact([], [put(key, 'two')], never);
    const holds = async (compare: Compare) =>
      (await kv.transact([compare], [put(`${prefix}other`, 'x')], never)).succeeded;
    assert.equal(await holds({ key, target: 'version', equals: 2 }), true);
    assert.equal(await holds({ key, target: 'version', equals: 1 }), false);
    assert.equal(await holds({ key, target: 'createRevision', equals: created }), true);
    assert.equal(await holds({ key, target: 'createRevision', equals: changed }), false);
    assert.equal(await holds({ key, target: 'modRevision', equals: changed }), true);
    assert.equal(await holds({ key, target: 'modRevision', equals: created }), false);
    assert.equal(await holds({ key, target: 'value', equals: bytes('two') }), true);
    assert.equal(await holds({ key, target: 'value', equals: bytes('one') }), false);
    const missing = `${prefix}missing`;
    assert.equal(await holds({ key: missing, target: 'version', equals: 0 }), true);
    assert.equal(await holds({ key: missing, target: 'value', equals: bytes('') }), false);
  });

  check('a transaction that changes nothing makes no revision', async (kv, prefix) => {
    const key = `${prefix}none`;
    const { items, revision } = await kv.list(prefix, never);
    assert.equal(items.length, 0);
    const result = await kv.transact([], [{ kind: 'delete', key }], never);
    assert.equal(result.succeeded, true);
    assert(result.revision >= revision);
    await kv.transact([], [put(key, 'x')], never);
    const events = await take(kv, prefix, revision + 1, 1);
    assert.deepEqual(events.map(shortOf), [`${key}=x`]);
  });

  check('bad transactions are refused as BAD_REQUEST and do nothing', async (kv, prefix) => {
    const key = `${prefix}k`;
    const bad: Operation[][] = [
      [put(key, '1'), put(key, '2')],
      [put(key, '1'), { kind: 'delete', key }],
      [put(key, '1'), { kind: 'deletePrefix', prefix }],
      [put(key, '1'), put('', 'x')],
    ];
    for (const operations of bad) {
      await assert.rejects(kv.transact([], operations, never), hasCode('BAD_REQUEST'));
    }
    assert.equal(await kv.get(key, never), null);
  });

  check('writers that compare and set lose no update', async (kv, prefix) => {
    const key = `${prefix}counter`;
    const increase = async () => {
      for (;;) {
        const item = await kv.get(key, never);
        const next = item === null ? 1 : Number(text(item.value)) + 1;
        const compare: Compare = { key, target: 'modRevision', equals: item?.modRevision ?? 0 };
        const { succeeded } = await kv.transact([compare], [put(key, String(next))], never);
        if (succeeded) return;
      }
    };
    const worker = async () => {
      for (let round = 0; round < 10; round += 1) await increase();
    };
    await Promise.all([worker(), worker(), worker()]);
    assert.equal(text((await kv.get(key, never))!.value), '30');
    assert.equal((await kv.get(key, never))!.version, 30);
  });
}

function largeTransactions(check: Check): void {
  check(
    'a transaction of a thousand operations is done as a whole, or not at all',
    async (kv, prefix) => {
      const count = 1_000;
      const puts = Array.from({ length: count }, (_, i) => put(`${prefix}${i}`, String(i)));
      const none: Compare = { key: `${prefix}0`, target: 'version', equals: 0 };
      const first = await kv.transact([none], puts, never);
      assert.equal(first.succeeded, true);
      const { items } = await kv.list(prefix, never);
      assert.equal(items.length, count);
      assert.ok(items.every(({ modRevision }) => modRevision === first.revision));
      assert.equal((await kv.transact([none], puts, never)).succeeded, false);
      const mixed = [
        ...items.slice(0, 700).map(({ key }): Operation => ({ kind: 'delete', key })),
        ...Array.from({ length: 300 }, (_, i) => put(`${prefix}new/${i}`, 'x')),
      ];
      assert.equal((await kv.transact([], mixed, never)).succeeded, true);
      assert.equal((await kv.list(prefix, never)).items.length, 600);
      const events = await take(kv, prefix, first.revision, 2 * count);
      assert.equal(events.length, 2 * count, 'a watch sees all of them');
      // A key that is given twice is refused, wherever the two stand.
      const twice = [...puts, put(`${prefix}0`, 'again')];
      await assert.rejects(kv.transact([], twice, never), { code: 'BAD_REQUEST' });
      const tooMany = Array.from({ length: 5_000 }, (_, i) => put(`${prefix}${i}`, ''));
      await assert.rejects(kv.transact([], tooMany, never), {
        code: 'BAD_REQUEST',
        message: 'cannot do transaction: more than 4096 operations: 5000',
      });
    },
  );
}

function watches(check: Check, fixture: KvFixture): void {
  check('watch() gives history and what comes, in order', async (kv, prefix) => {
    const { revision } = await kv.transact([], [put(`${prefix}a`, '1')], never);
    await kv.transact([], [put(`${prefix}b`, '2')], never);
    await kv.transact([], [put('elsewhere', 'x')], never);
    const events = take(kv, prefix, revision, 4);
    await kv.transact([], [{ kind: 'delete', key: `${prefix}a` }], never);
    await kv.transact([], [put(`${prefix}a`, '3')], never);
    const short = (await events).map(shortOf);
    assert.deepEqual(short, [`${prefix}a=1`, `${prefix}b=2`, `${prefix}a gone`, `${prefix}a=3`]);
  });

  check('watch() gives the events of one revision in one batch', async (kv, prefix) => {
    const { revision } = await kv.list(prefix, never);
    const keys = Array.from({ length: 100 }, (_, index) => `${prefix}${index + 100}`);
    const done = await kv.transact(
      [],
      keys.map((key) => put(key, 'x')),
      never,
    );
    await kv.transact([], [{ kind: 'deletePrefix', prefix }], never);
    const batches: WatchBatch[] = [];
    const stop = new AbortController();
    for await (const batch of kv.watch(prefix, revision + 1, stop.signal)) {
      batches.push(batch);
      if (batch.events.some((event) => event.kind === 'delete')) stop.abort();
    }
    const events = batches.flatMap((batch) => batch.events);
    assert.equal(events.length, 200);
    const first = batches[0]!.events.slice(0, 100);
    assert.deepEqual(
      first.map((event) => event.kind === 'put' && event.item.modRevision === done.revision),
      Array<boolean>(100).fill(true),
    );
    for (const batch of batches) {
      assert.equal(batch.revision, revisionOf(batch.events.at(-1)!));
    }
    const deletes = events.slice(100);
    assert(deletes.every((event) => event.kind === 'delete'));
    assert.deepEqual(deletes.map(keyOf).sort(), keys);
  });

  check('list, then watch from the next revision, misses nothing', async (kv, prefix) => {
    await using writer = fixture.client();
    const count = 60;
    const writing = (async () => {
      for (let index = 0; index < count; index += 1) {
        await writer.transact([], [put(`${prefix}${index % 7}`, String(index))], never);
      }
    })();
    const state = new Map<string, string>();
    const { items, revision } = await kv.list(prefix, never);
    for (const item of items) state.set(item.key, text(item.value));
    const stop = new AbortController();
    const last = `${prefix}${(count - 1) % 7}`;
    const isDone = () => state.get(last) === String(count - 1);
    if (!isDone()) {
      for await (const batch of kv.watch(prefix, revision + 1, stop.signal)) {
        for (const event of batch.events) {
          if (event.kind === 'put') state.set(event.item.key, text(event.item.value));
        }
        if (isDone()) stop.abort();
      }
    }
    await writing;
    const end = await kv.list(prefix, never);
    assert.deepEqual(
      [...state].sort(([left], [right]) => (left < right ? -1 : 1)),
      end.items.map((item) => [item.key, text(item.value)]),
    );
  });

  check('watch() of the empty prefix sees every key', async (kv, prefix) => {
    const { revision } = await kv.list('', never);
    const key = `${prefix}somewhere`;
    await kv.transact([], [put(key, 'x')], never);
    for await (const batch of kv.watch('', revision + 1, never)) {
      if (batch.events.some((event) => keyOf(event) === key)) break;
    }
  });

  check('watch() ends by returning when its signal aborts', async (kv, prefix) => {
    const stop = new AbortController();
    const watching = (async () => {
      const seen: WatchBatch[] = [];
      for await (const batch of kv.watch(prefix, 0, stop.signal)) seen.push(batch);
      return seen;
    })();
    await kv.get(prefix, never);
    stop.abort();
    assert.deepEqual(await watching, []);
  });
}

function leases(check: Check, fixture: KvFixture): void {
  check('the keys of a lease vanish when it is revoked', async (kv, prefix) => {
    const lease = await kv.lease(60, never);
    const keys = [`${prefix}a`, `${prefix}b`];
    const { revision } = await kv.transact(
      [],
      keys.map((key) => put(key, 'x', lease.id)),
      never,
    );
    assert.equal((await kv.get(keys[0]!, never))!.leaseId, lease.id);
    await kv.transact([], [put(`${prefix}free`, 'x')], never);
    await lease.revoke();
    const { items } = await kv.list(prefix, never);
    assert.deepEqual(
      items.map((item) => item.key),
      [`${prefix}free`],
    );
    const events = await take(kv, prefix, revision + 1, 3);
    assert.deepEqual(events.map(shortOf).sort(), [
      ...keys.map((key) => `${key} gone`),
      `${prefix}free=x`,
    ]);
    assert.equal(lease.lost.aborted, false);
    await lease.revoke();
  });

  check('a put without the lease takes the key out of it', async (kv, prefix) => {
    const key = `${prefix}k`;
    const lease = await kv.lease(60, never);
    await kv.transact([], [put(key, 'held', lease.id)], never);
    await kv.transact([], [put(key, 'free')], never);
    await lease.revoke();
    assert.equal(text((await kv.get(key, never))!.value), 'free');
  });

  check('a put with a lease that is not there is refused as NOT_FOUND', async (kv, prefix) => {
    const lease = await kv.lease(60, never);
    await lease.revoke();
    const attempt = kv.transact([], [put(`${prefix}a`, 'x', lease.id)], never);
    await assert.rejects(attempt, hasCode('NOT_FOUND'));
    assert.equal(await kv.get(`${prefix}a`, never), null);
  });

  check('disposing of a lease revokes it', async (kv, prefix) => {
    {
      await using lease = await kv.lease(60, never);
      await kv.transact([], [put(`${prefix}a`, 'x', lease.id)], never);
    }
    assert.equal(await kv.get(`${prefix}a`, never), null);
  });

  check('a lease lives on while its client does, and ends after it', async (kv, prefix) => {
    const key = `${prefix}k`;
    const holder = fixture.client();
    const lease = await holder.lease(2, never);
    const { revision } = await holder.transact([], [put(key, 'x', lease.id)], never);
    // Leases that nobody renews measure the time: the first outlives two of them.
    for (let round = 0; round < 2; round += 1) await outlive(fixture, `${prefix}left${round}`);
    assert.notEqual(await kv.get(key, never), null);
    assert.equal(lease.lost.aborted, false);
    await holder[Symbol.asyncDispose]();
    assert.equal(lease.lost.aborted, true);
    const events = await take(kv, key, revision + 1, 1);
    assert.deepEqual(events.map(shortOf), [`${key} gone`]);
  });
}

/** Waits as long as a lease lives that was granted for a second and is not renewed. */
async function outlive(fixture: KvFixture, key: string): Promise<void> {
  await using kv = fixture.client();
  const left = fixture.client();
  const lease = await left.lease(1, never);
  const { revision } = await left.transact([], [put(key, 'x', lease.id)], never);
  await left[Symbol.asyncDispose]();
  await take(kv, key, revision + 1, 1);
}

/** The first `count` events from the revision on. */
async function take(
  kv: Kv,
  prefix: string,
  fromRevision: number,
  count: number,
): Promise<WatchEvent[]> {
  const events: WatchEvent[] = [];
  for await (const batch of kv.watch(prefix, fromRevision, never)) {
    events.push(...batch.events);
    if (events.length >= count) break;
  }
  return events;
}

function keyOf(event: WatchEvent): string {
  return event.kind === 'put' ? event.item.key : event.key;
}

function revisionOf(event: WatchEvent): number {
  return event.kind === 'put' ? event.item.modRevision : event.modRevision;
}

function shortOf(event: WatchEvent): string {
  return event.kind === 'put' ? `${event.item.key}=${text(event.item.value)}` : `${event.key} gone`;
}

function hasCode(code: string): (error: unknown) => boolean {
  return (error) => error instanceof TsdbError && error.code === code;
}
