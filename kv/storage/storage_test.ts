import assert from 'node:assert/strict';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { kvLimits } from '../core/limits.ts';
import { Mvcc } from '../core/mvcc.ts';
import { everything, KvError, type PutRequest, type Write } from '../core/requests.ts';
import type { StorageEnvelope } from './messages.ts';
import { openStorage, type Storage } from './storage.ts';
import { Store } from '../store.ts';

const put = (key: string, value: Uint8Array, leaseId = 0n): PutRequest => {
  const flags = { previous: false, ignoreValue: false, ignoreLease: false };
  return { kind: 'put', key, value, leaseId, ...flags };
};

async function inFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'tsdb-kv-'));
  try {
    await run(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

test('openStorage() gives back what was committed, byte for byte', () =>
  inFolder(async (folder) => {
    const core = new Mvcc();
    const every = Uint8Array.from({ length: 256 }, (_, index) => index);
    core.leaseGrant(0x7fff_ffff_ffff_fff1n, 30, 0);
    core.put(put('\0\xff\x80', every, 0x7fff_ffff_ffff_fff1n));
    core.put(put('a', new Uint8Array(0)));
    core.put(put('gone', every));
    core.deleteRange({ kind: 'deleteRange', key: 'gone', rangeEnd: '', previous: false });
    const { identity } = await (async () => {
      await using storage = await openStorage(folder, realEnv);
      const loaded = await storage.load();
      assert.deepEqual(loaded.state, {
        revision: 1,
        compactRevision: 0,
        changes: [],
        leases: [],
      });
      await storage.commit(core.revision, core.takeWrites());
      core.put(put('a', every));
      core.compact(5);
      core.dropPart(10);
      await storage.commit(core.revision, core.takeWrites());
      return loaded;
    })();
    await using storage = await openStorage(folder, realEnv);
    const loaded = await storage.load();
    assert.deepEqual(loaded.identity, identity);
    assert.equal(loaded.state.revision, 6);
    assert.equal(loaded.state.compactRevision, 5);
    assert.deepEqual(loaded.state.leases, [{ id: 0x7fff_ffff_ffff_fff1n, ttlSeconds: 30 }]);
    assert.deepEqual(
      loaded.state.changes.map((change) => [change.key, change.modRevision, change.value]),
      [
        ['\0\xff\x80', 2, every],
        ['a', 3, new Uint8Array(0)],
        ['gone', 5, null],
        ['a', 6, every],
      ],
    );
  }));

test('openStorage() reads more changes than fit one page', () =>
  inFolder(async (folder) => {
    const core = new Mvcc();
    for (let index = 0; index < 5_003; index += 1) core.put(put(`k${index}`, new Uint8Array(3)));
    core.put(put('large', new Uint8Array(9_000_000)));
    core.put(put('last', new Uint8Array(1)));
    {
      await using storage = await openStorage(folder, realEnv);
      await storage.load();
      await storage.commit(core.revision, core.takeWrites());
    }
    await using storage = await openStorage(folder, realEnv);
    const { state } = await storage.load();
    assert.equal(state.changes.length, 5_005);
    assert.equal(state.changes.at(-1)!.key, 'last');
    assert.equal(new Mvcc(state).keyCount, 5_005);
  }));

test('openStorage() refuses a file that another holds, and one that is damaged', () =>
  inFolder(async (folder) => {
    {
      await using first = await openStorage(folder, realEnv);
      await first.load();
      const core = new Mvcc();
      core.put(put('a', new Uint8Array(20_000)));
      await first.commit(core.revision, core.takeWrites());
      await using second = await openStorage(folder, realEnv);
      await assert.rejects(second.load(), /kv\.sqlite: database is locked/);
    }
    const file = await open(join(folder, 'kv.sqlite'), 'r+');
    await file.write(new Uint8Array(8_192).fill(0xee), 0, 8_192, 4_096);
    await file.close();
    await using storage = await openStorage(folder, realEnv);
    await assert.rejects(storage.load(), /kv\.sqlite.*(damaged|malformed)/);
  }));

test('a commit that fails leaves nothing of itself', () =>
  inFolder(async (folder) => {
    await using storage = await openStorage(folder, realEnv);
    await storage.load();
    const core = new Mvcc();
    core.put(put('a', new Uint8Array(1)));
    const writes = core.takeWrites();
    await storage.commit(2, writes);
    core.put(put('b', new Uint8Array(1)));
    const bad: Write[] = [...core.takeWrites(), ...writes];
    await assert.rejects(storage.commit(3, bad), /UNIQUE/);
    const { state } = await storage.load();
    assert.equal(state.revision, 2);
    assert.deepEqual(
      state.changes.map((change) => change.key),
      ['a'],
    );
  }));

test('commits of many writes are handed over in parts, and are whole or nothing', () =>
  inFolder(async (folder) => {
    const posted = mock.method(Worker.prototype, 'postMessage');
    try {
      await using storage = await openStorage(folder, realEnv);
      await storage.load();
      const core = new Mvcc();
      for (let i = 0; i < 5_000; i++) core.put(put(`k${i}`, new Uint8Array(1)));
      const writes = core.takeWrites();
      await assert.rejects(storage.commit(core.revision, [...writes, writes[0]!]), /UNIQUE/);
      assert.equal((await storage.load()).state.changes.length, 0);
      await storage.commit(core.revision, writes);
      core.compact(core.revision);
      for (let i = 0; i < 5_000; i++) core.put(put(`k${i}`, new Uint8Array(1)));
      core.compact(core.revision);
      core.dropPart(10_000);
      await storage.commit(core.revision, core.takeWrites());
      const { state } = await storage.load();
      assert.deepEqual([state.changes.length, state.compactRevision], [5_000, core.revision]);
      const sizes = posted.mock.calls.map(({ arguments: [message] }) => {
        const { request } = message as StorageEnvelope;
        return 'writes' in request ? request.writes.length : 0;
      });
      assert.ok(Math.max(...sizes) <= kvLimits.handedRowsMax, `${sizes}`);
    } finally {
      posted.mock.restore();
    }
  }));

/** A storage whose commits the test lets through one by one, or fails. */
class HeldStorage implements Storage {
  readonly commits: { writes: readonly Write[]; done: PromiseWithResolvers<void> }[] = [];
  readonly #under: Storage;

  constructor(under: Storage) {
    this.#under = under;
  }

  load: Storage['load'] = () => this.#under.load();
  size: Storage['size'] = () => this.#under.size();

  async commit(revision: number, writes: readonly Write[]): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.commits.push({ writes, done });
    await done.promise;
    await this.#under.commit(revision, writes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#under[Symbol.asyncDispose]();
  }
}

const range = (key: string) => ({ ...everything, key, rangeEnd: '' }) as const;

test('Store answers nothing that is not on disk, and shares one commit among those who wait', () =>
  inFolder(async (folder) => {
    await using held = new HeldStorage(await openStorage(folder, realEnv));
    await using store = await Store.open({ storage: held, env: realEnv, log: silentLog });
    const answered: string[] = [];
    const task = (name: string, run: (core: Mvcc) => unknown) =>
      store.perform(run).then(() => answered.push(name));
    const all = [
      task('put a', (core) => core.put(put('a', new Uint8Array(1)))),
      task('read a', (core) => core.range(range('a'))),
      task('put b', (core) => core.put(put('b', new Uint8Array(1)))),
      task('put c', (core) => core.put(put('c', new Uint8Array(1)))),
      task('read c', (core) => core.range(range('c'))),
    ];
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(answered, []);
    assert.equal(store.committedRevision, 1);
    assert.equal(held.commits.length, 1);
    held.commits[0]!.done.resolve();
    await all[1];
    assert.deepEqual(answered, ['put a', 'read a']);
    assert.equal(store.committedRevision, 2);
    assert.equal(held.commits.length, 2);
    assert.equal(held.commits[1]!.writes.length, 2);
    held.commits[1]!.done.resolve();
    await Promise.all(all);
    assert.equal(store.committedRevision, 4);
  }));

test('Store fails what waited when the disk fails, and goes on from what the disk has', () =>
  inFolder(async (folder) => {
    await using held = new HeldStorage(await openStorage(folder, realEnv));
    // The pause before the store is read anew is over when the test says so.
    const pause = Promise.withResolvers<void>();
    const clock = { ...realEnv.clock, sleep: () => pause.promise };
    const env = { ...realEnv, clock };
    await using store = await Store.open({ storage: held, env, log: silentLog });
    const first = store.perform((core) => core.put(put('a', new Uint8Array(1))));
    held.commits[0]!.done.resolve();
    await first;
    const failing = [
      store.perform((core) => core.put(put('b', new Uint8Array(1)))),
      store.perform((core) => core.put(put('c', new Uint8Array(1)))),
      store.perform((core) => core.range(range('b'))),
    ];
    held.commits[1]!.done.reject(new Error('disk is full'));
    const isFailure = (error: unknown) =>
      error instanceof KvError && error.kind === 'storageFailed';
    for (const one of failing) await assert.rejects(one, isFailure);
    await assert.rejects(
      store.perform((core) => core.range(range('a'))),
      isFailure,
    );
    const reopened = new Promise<void>((resolve) => {
      store.onCommit(resolve);
    });
    pause.resolve();
    await reopened;
    const found = await store.perform((core) =>
      ['a', 'b', 'c'].map((key) => core.range(range(key)).count),
    );
    assert.deepEqual(found, [1, 0, 0]);
    const again = store.perform((core) => core.put(put('b', new Uint8Array(1))));
    held.commits[2]!.done.resolve();
    assert.equal((await again).revision, 3);
  }));

/** Lets commits through, one after the other, until the task is over. */
async function letThrough(held: HeldStorage, task: Promise<unknown>): Promise<void> {
  let isOver = false;
  const over = task.finally(() => {
    isOver = true;
  });
  while (!isOver) {
    await new Promise((resolve) => setImmediate(resolve));
    held.commits.at(-1)?.done.resolve();
  }
  await over;
}

const changedKeysOf = (writes: readonly Write[]): string[] =>
  writes.flatMap((write) => (write.kind === 'change' ? write.change.key : []));

test('leases that end together are ended some at a time, and others write in between', () =>
  inFolder(async (folder) => {
    await using held = new HeldStorage(await openStorage(folder, realEnv));
    let nowMillis = 0;
    let tick: () => void | Promise<void> = () => {};
    const clock = {
      ...realEnv.clock,
      monotonicMillis: () => nowMillis,
      every: (_: number, task: () => void | Promise<void>) => {
        tick = task;
      },
    };
    await using store = await Store.open({
      storage: held,
      env: { ...realEnv, clock },
      log: silentLog,
    });
    const leases = 10;
    const keysOfLease = 900;
    const filled = store.perform((core) => {
      for (let id = 1n; id <= leases; id += 1n) {
        core.leaseGrant(id, 5, nowMillis);
        for (let i = 0; i < keysOfLease; i++) core.put(put(`${id}/${i}`, new Uint8Array(1), id));
      }
    });
    await letThrough(held, filled);
    nowMillis = 4_000;
    await tick();
    assert.equal(store.reader.leaseCount, leases);
    nowMillis = 5_000;
    const { revision } = await store.perform((core) => core.range(range('1/0')));
    const before = held.commits.length;
    const ending = Promise.resolve(tick());
    const other = store.perform((core) => core.put(put('other', new Uint8Array(1))));
    await letThrough(held, Promise.all([ending, other]));
    const commits = held.commits.slice(before).map(({ writes }) => changedKeysOf(writes));
    assert.equal(
      commits.findIndex((changed) => changed.includes('other')),
      1,
    );
    for (const changed of commits) assert.ok(changed.length <= kvLimits.endedKeysAtOnce);
    assert.equal(commits.length, 1 + leases / 2);
    assert.equal(store.reader.leaseCount, 0);
    // Each lease is a revision, and so is the put.
    assert.equal(store.committedRevision, revision + leases + 1);
    const { count } = await store.perform((core) => core.range(everything));
    assert.equal(count, 1);
  }));

test('what is compacted goes some at a time, and others read and write in between', () =>
  inFolder(async (folder) => {
    const keys = 5_000;
    const fill = (core: Mvcc) => {
      for (let i = 0; i < 2 * keys; i++) core.put(put(`k${i % keys}`, new Uint8Array(1)));
      return core.revision;
    };
    {
      await using held = new HeldStorage(await openStorage(folder, realEnv));
      await using store = await Store.open({ storage: held, env: realEnv, log: silentLog });
      const filled = store.perform(fill);
      await letThrough(held, filled);
      const revision = await filled;
      const before = held.commits.length;
      const compacted = store.compact(revision, true);
      await assert.rejects(
        store.perform((core) => core.range({ ...range('k0'), revision: revision - 1 })),
        (error) => error instanceof KvError && error.kind === 'compacted',
      );
      const other = store.perform((core) => core.put(put('other', new Uint8Array(1))));
      await letThrough(held, Promise.all([compacted, other]));
      const commits = held.commits.slice(before).map(({ writes }) => writes);
      const dropped = commits.map((writes) =>
        writes.reduce((sum, write) => sum + (write.kind === 'drop' ? write.dropped.length : 0), 0),
      );
      assert.ok(Math.max(...dropped) <= kvLimits.droppedChangesAtOnce, `${dropped}`);
      assert.ok(commits.length >= (2 * keys) / kvLimits.droppedChangesAtOnce);
      assert.equal(
        commits.findIndex((writes) => changedKeysOf(writes).includes('other')),
        1,
      );
      assert.equal(
        dropped.reduce((sum, each) => sum + each, 0),
        keys,
      );
      assert.equal(store.reader.storedBytes, store.reader.liveBytes);
    }
    await using storage = await openStorage(folder, realEnv);
    const { state } = await storage.load();
    assert.equal(state.changes.length, keys + 1);
  }));

test('a compaction that a crash cut off goes on with the next write', () =>
  inFolder(async (folder) => {
    const keys = 5_000;
    {
      await using storage = await openStorage(folder, realEnv);
      await storage.load();
      const core = new Mvcc();
      for (let i = 0; i < 2 * keys; i++) core.put(put(`k${i % keys}`, new Uint8Array(1)));
      core.deleteRange({ kind: 'deleteRange', key: 'k0', rangeEnd: '', previous: false });
      core.put(put('last', new Uint8Array(1)));
      core.compact(core.revision);
      core.dropPart(1_000);
      await storage.commit(core.revision, core.takeWrites());
    }
    await using storage = await openStorage(folder, realEnv);
    await using store = await Store.open({ storage, env: realEnv, log: silentLog });
    const { count, revision } = await store.perform((core) => core.range(everything));
    assert.equal(count, keys);
    assert.ok(store.reader.storedBytes > store.reader.liveBytes);
    await store.perform((core) => core.put(put('k1', new Uint8Array(1))));
    await store.compact(revision + 1, true);
    assert.equal(store.reader.storedBytes, store.reader.liveBytes);
    assert.equal(store.reader.keyCount, keys);
    assert.equal((await store.perform((core) => core.range(everything))).count, keys);
  }));
