import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import { overriding } from '#test/overriding.ts';
import { TsdbError } from '#lib/errors.ts';
import { realEnv } from '#lib/env/real.ts';
import { Announcement, type FolderHistory, InstanceTaken } from './announcement.ts';
import { type NodeIdentity, openIdentity, referenceEpochOf } from './node_identity.ts';

const never = new AbortController().signal;
const cluster = { environment: 'default_env', zone: 'embedded' };
const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-identity-'));
  folders.push(folder);
  return `${folder}/data`;
}

/** What the store says of its lineage, and who was told that it went back. */
const lineage = { id: '', follows: [] as string[], olderStores: [] as string[] };
beforeEach(() => Object.assign(lineage, { id: '', follows: [], olderStores: [] }));

function announcement(kv: Kv, folder: string, identity: NodeIdentity): Announcement {
  const storeLineage = () => lineage;
  const onOlderStore = async (reason: string) => {
    lineage.olderStores.push(reason);
    lineage.follows = [...lineage.follows, lineage.id];
    lineage.id = `restored ${lineage.olderStores.length}`;
  };
  const options = { env: realEnv, cluster, instanceId: 'a', storeLineage, onOlderStore };
  return new Announcement({ ...options, kv, dataFolder: folder, identity });
}

/** Starts on the folder. @returns what was seen, and the announcement */
async function start(
  kv: Kv,
  folder: string,
  givenUp: string[] = [],
): Promise<{ history: FolderHistory; announced: Announcement }> {
  const announced = announcement(kv, folder, await openIdentity(realEnv, folder));
  const history = await announced.make(async (why) => void givenUp.push(why), never);
  return { history, announced };
}

test('a data folder keeps its incarnation and counts its boots', async () => {
  const folder = temporaryFolder();
  const first = await openIdentity(realEnv, folder);
  const second = await openIdentity(realEnv, folder);
  assert.match(first.incarnation, /^[0-9a-f]{32}$/);
  assert.deepEqual(second, { incarnation: first.incarnation, boot: 2 });
  assert.equal(referenceEpochOf(second), `${first.incarnation}.2`);
  const other = await openIdentity(realEnv, temporaryFolder());
  assert.notEqual(other.incarnation, first.incarnation);
});

test('an identity that cannot be read stops the start and is not replaced', async () => {
  const folder = temporaryFolder();
  await openIdentity(realEnv, folder);
  const path = `${folder}/node_identity.json`;
  writeFileSync(path, '{"incarnation":"x"');
  await assert.rejects(openIdentity(realEnv, folder), /cannot read .*node_identity\.json/);
  assert.equal(readFileSync(path, 'utf8'), '{"incarnation":"x"');
});

interface LossyStore {
  readonly kv: Kv;
  does: boolean;
  answers: boolean;
}

/** A store whose transactions are done or not, and answered or not, as is said. */
function lossyStore(): LossyStore {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const lossy: LossyStore = {
    answers: true,
    does: true,
    kv: overriding(kv, {
      async transact(...all) {
        const result = lossy.does ? await kv.transact(...all) : null;
        if (lossy.answers && result !== null) return result;
        throw new TsdbError('UNAVAILABLE', 'no answer');
      },
    }),
  };
  return lossy;
}

test('a folder that goes on is told from a new one and from an older copy of itself', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const folder = temporaryFolder();
  const givenUp: string[] = [];
  assert.equal((await start(kv, folder, givenUp)).history, 'continued');
  const copy = temporaryFolder();
  cpSync(folder, copy, { recursive: true });
  assert.equal((await start(kv, folder, givenUp)).history, 'continued');
  assert.deepEqual(givenUp, []);
  assert.equal((await start(kv, copy, givenUp)).history, 'rolled back');
  assert.equal((await start(kv, temporaryFolder(), givenUp)).history, 'new folder');
  assert.deepEqual(givenUp, ['rolled back', 'new folder']);
});

test('a folder is new after any number of restores, whatever the store names of them', async () => {
  for (const follows of [['', 'a'], ['a', ''], ['a'], []]) {
    const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
    // Announced under a lineage that the store follows from, and not since.
    Object.assign(lineage, { id: 'a', follows: [''] });
    assert.equal((await start(kv, temporaryFolder())).history, 'continued');
    Object.assign(lineage, { id: 'b', follows });
    const givenUp: string[] = [];
    assert.equal((await start(kv, temporaryFolder(), givenUp)).history, 'new folder');
    assert.deepEqual([givenUp, lineage.olderStores], [['new folder'], []], `${follows}`);
  }
});

test('a copy of the boot that runs is an older one once the folder was marked again', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const folder = temporaryFolder();
  const { announced } = await start(kv, folder);
  await announced.raiseMark(never);
  const copy = temporaryFolder();
  cpSync(folder, copy, { recursive: true });
  assert.equal((await start(kv, folder)).history, 'continued');
  const { announced: later } = await start(kv, folder);
  await later.raiseMark(never);
  for (let boot = 0; boot < 5; boot += 1) await openIdentity(realEnv, copy);
  assert.equal((await start(kv, copy)).history, 'rolled back');
  assert.equal((await start(kv, copy)).history, 'continued');
});

test('a mark that the store did not confirm is known again after a restart', async () => {
  for (const isDone of [false, true]) {
    const store = lossyStore();
    const { kv } = store;
    const folder = temporaryFolder();
    const { announced } = await start(kv, folder);
    await announced.raiseMark(never);
    Object.assign(store, { does: isDone, answers: false });
    await assert.rejects(announced.raiseMark(never), /no answer/);
    Object.assign(store, { does: true, answers: true });
    const copy = temporaryFolder();
    cpSync(folder, copy, { recursive: true });
    const seen = await announcement(kv, copy, await openIdentity(realEnv, copy)).make(
      async () => assert.fail('it is no older copy'),
      never,
    );
    assert.equal(seen, 'continued');
  }
});

test('a start knows its own announcement again when the answer was lost', async () => {
  const store = lossyStore();
  const { kv } = store;
  const folder = temporaryFolder();
  await start(kv, folder);
  const again = announcement(kv, folder, await openIdentity(realEnv, folder));
  store.answers = false;
  const giveUp = async (): Promise<void> => assert.fail('nothing is to be given up');
  await assert.rejects(again.make(giveUp, never), /no answer/);
  store.answers = true;
  assert.equal(await again.make(giveUp, never), 'continued');
  await again.raiseMark(never);
});

test('a process sees that another one has started as its instance, and neither copy counts as the other', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const folder = temporaryFolder();
  const first = await start(kv, folder);
  const copy = temporaryFolder();
  cpSync(folder, copy, { recursive: true });
  const second = await start(kv, copy);
  await assert.rejects(first.announced.raiseMark(never), InstanceTaken);
  await second.announced.raiseMark(never);
  assert.equal((await start(kv, folder)).history, 'rolled back');
  await assert.rejects(second.announced.raiseMark(never), InstanceTaken);
});

test('a store that was restored from a backup is told again', async () => {
  const store = new MemoryKvStore({ clock: realEnv.clock });
  const kv = store.client();
  const folder = temporaryFolder();
  await start(kv, folder);
  const key = '_kv/default_env/embedded/tsdb.node.identity/a';
  const { value } = (await kv.get(key, never))!;
  const { announced } = await start(kv, folder);
  await announced.raiseMark(never);
  await kv.transact([], [{ kind: 'put', key, value }], never);
  await announced.raiseMark(never);
  await kv.transact([], [{ kind: 'delete', key }], never);
  await announced.raiseMark(never);
  assert.equal((await start(kv, folder)).history, 'continued');
});

test('a start that dies while it gives its shards up finds the same difference again', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  await start(kv, temporaryFolder());
  const folder = temporaryFolder();
  const fresh = announcement(kv, folder, await openIdentity(realEnv, folder));
  const died = fresh.make(() => Promise.reject(new Error('died')), never);
  await assert.rejects(died, /died/);
  assert.equal((await start(kv, folder)).history, 'new folder');
});

test('what a later version keeps with an identity is passed over and stays', async () => {
  const folder = temporaryFolder();
  const first = await openIdentity(realEnv, folder);
  const path = `${folder}/node_identity.json`;
  writeFileSync(path, JSON.stringify({ ...first, future: 'file' }));
  const second = await openIdentity(realEnv, folder);
  assert.deepEqual(second, { incarnation: first.incarnation, boot: 2 });
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).future, 'file');

  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const key = '_kv/default_env/embedded/tsdb.node.identity/a';
  const value = new TextEncoder().encode(JSON.stringify({ ...first, future: 'key' }));
  await kv.transact([], [{ kind: 'put', key, value }], never);
  const giveUp = async (): Promise<void> => assert.fail('it goes on');
  assert.equal(await announcement(kv, folder, second).make(giveUp, never), 'continued');
  const stored = JSON.parse(new TextDecoder().decode((await kv.get(key, never))!.value));
  const added = { nonce: '', lineage: '', since: 2 };
  assert.deepEqual({ ...stored, nonce: '' }, { ...second, future: 'key', ...added });
});

test('a folder has gone on since the boot in which it was new, or was found to be a copy', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const folder = temporaryFolder();
  assert.equal((await start(kv, folder)).announced.sinceBoot, 1);
  assert.equal((await start(kv, folder)).announced.sinceBoot, 1);
  const copy = temporaryFolder();
  cpSync(folder, copy, { recursive: true });
  assert.equal((await start(kv, folder)).announced.sinceBoot, 1);
  const { history, announced } = await start(kv, copy);
  assert.equal(history, 'rolled back');
  assert.equal(announced.sinceBoot, 3);
  assert.equal((await start(kv, copy)).announced.sinceBoot, 3);
});

/** A store with all keys of another one. */
async function copyOf(kv: Kv): Promise<Kv> {
  const copy = new MemoryKvStore({ clock: realEnv.clock }).client();
  const { items } = await kv.list('', never);
  // Revisions of these keys count as in the store that they come from: nobody else writes there.
  for (const { key, value } of items.toSorted((a, b) => a.modRevision - b.modRevision)) {
    await copy.transact([], [{ kind: 'put', key, value }], never);
  }
  return copy;
}

test('a store that is older than the folder takes nothing from it, whether it runs or starts', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const folder = temporaryFolder();
  const { announced } = await start(kv, folder);
  await announced.raiseMark(never);
  const backup = await copyOf(kv);
  const again = await copyOf(kv);
  for (let i = 0; i < 3; i += 1) await announced.raiseMark(never);
  const givenUp: string[] = [];
  assert.equal((await start(backup, folder, givenUp)).history, 'continued');
  assert.equal(lineage.olderStores.length, 1);
  assert.match(lineage.olderStores[0]!, /as of revision \d+, and had it as of \d+/);
  assert.deepEqual(givenUp, []);
  // From then on the store knows this folder again, and tells an older copy of it.
  const copy = temporaryFolder();
  cpSync(folder, copy, { recursive: true });
  const { announced: next } = await start(backup, folder);
  for (let i = 0; i < 3; i += 1) await next.raiseMark(never);
  assert.equal((await start(backup, copy, givenUp)).history, 'rolled back');
  assert.equal(lineage.olderStores.length, 1);
  // Another store from the same backup, which knows nothing of that.
  const { announced: last } = await start(backup, folder, givenUp);
  await last.raiseMark(never);
  assert.equal((await start(again, folder)).history, 'continued');
});

test('a backup is older than a store that was made anew since, though it has more revisions', async () => {
  for (const isDeclared of [false, true]) {
    Object.assign(lineage, { id: 'first', follows: [''], olderStores: [] });
    const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
    const folder = temporaryFolder();
    const { announced } = await start(kv, folder);
    for (let i = 0; i < 20; i += 1) await announced.raiseMark(never);
    const backup = await copyOf(kv);
    Object.assign(lineage, { id: 'anew', follows: ['', 'first'] });
    const anew = new MemoryKvStore({ clock: realEnv.clock }).client();
    const { announced: next } = await start(anew, folder);
    await next.raiseMark(never);
    // The backup is restored: its own lineage, or one that the topology has already given to it.
    const declared = { id: 'declared', follows: ['', 'first'] };
    Object.assign(lineage, isDeclared ? declared : { id: 'first', follows: [''] });
    const givenUp: string[] = [];
    assert.equal((await start(backup, folder, givenUp)).history, 'continued');
    assert.deepEqual(givenUp, []);
    assert.equal(lineage.olderStores.length, isDeclared ? 0 : 1);
    // Once it is approved it goes on from both, and a copy of the folder of before is told.
    lineage.follows = [...lineage.follows, 'anew'];
    assert.equal((await start(backup, folder, givenUp)).history, 'continued');
    const copy = temporaryFolder();
    cpSync(folder, copy, { recursive: true });
    const { announced: last } = await start(backup, folder, givenUp);
    for (let i = 0; i < 3; i += 1) await last.raiseMark(never);
    assert.equal((await start(backup, copy, givenUp)).history, 'rolled back');
  }
});

test('a backup that has the instance on its former disk ends nobody, though it has more revisions', async () => {
  for (const isDeclared of [false, true]) {
    Object.assign(lineage, { id: 'first', follows: [''], olderStores: [] });
    const stores: Kv[] = [new MemoryKvStore({ clock: realEnv.clock }).client()];
    const kv = overriding(stores[0]!, {
      get: (...all) => stores[0]!.get(...all),
      transact: (...all) => stores[0]!.transact(...all),
    });
    const { announced: former } = await start(kv, temporaryFolder());
    for (let i = 0; i < 20; i += 1) await former.raiseMark(never);
    const backup = await copyOf(stores[0]!);
    const folder = temporaryFolder();
    const { history, announced } = await start(kv, folder);
    assert.equal(history, 'new folder');
    // The store is lost and made anew, then the backup of before takes its place.
    Object.assign(lineage, { id: 'anew', follows: ['', 'first'] });
    stores[0] = new MemoryKvStore({ clock: realEnv.clock }).client();
    await announced.check(never);
    await announced.raiseMark(never);
    const declared = { id: 'declared', follows: ['', 'first'] };
    Object.assign(lineage, isDeclared ? declared : { id: 'first', follows: [''] });
    lineage.olderStores = [];
    stores[0] = backup;
    await announced.check(never);
    assert.equal(lineage.olderStores.length, isDeclared ? 0 : 1);
    await announced.raiseMark(never);
    const givenUp: string[] = [];
    assert.equal((await start(kv, folder, givenUp)).history, 'continued');
    assert.deepEqual(givenUp, []);
    // Whoever takes the instance after that is another one.
    const { announced: running } = await start(kv, folder);
    await start(kv, temporaryFolder());
    await assert.rejects(running.check(never), InstanceTaken);
  }
});

test('a store that has gone back is told by who runs, and this instance is announced anew', async () => {
  const stores: Kv[] = [new MemoryKvStore({ clock: realEnv.clock }).client()];
  const kv = overriding(stores[0]!, {
    get: (...all) => stores[0]!.get(...all),
    transact: (...all) => stores[0]!.transact(...all),
  });
  const folder = temporaryFolder();
  const { announced } = await start(kv, folder);
  await announced.raiseMark(never);
  const backup = await copyOf(stores[0]!);
  for (let i = 0; i < 3; i += 1) await announced.raiseMark(never);
  await announced.check(never);
  assert.deepEqual(lineage.olderStores, []);
  stores[0] = backup;
  await announced.check(never);
  assert.equal(lineage.olderStores.length, 1);
  await announced.check(never);
  await announced.raiseMark(never);
  assert.equal(lineage.olderStores.length, 1);
  assert.equal((await start(kv, folder)).history, 'continued');
});

test('who took an instance hears that rows were acknowledged which its copy may lack', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const folder = temporaryFolder();
  const { announced: first } = await start(kv, folder);
  await first.raiseMark(never);
  const copy = temporaryFolder();
  cpSync(folder, copy, { recursive: true });
  const { history, announced: second } = await start(kv, copy);
  assert.equal(history, 'continued');
  await assert.rejects(first.check(never), InstanceTaken);
  await first.noteRows(never);
  await second.check(never);
  assert.equal(second.hasMissed, true);
  // Until the next start gives its shards up it stays so, whatever is marked meanwhile.
  await second.raiseMark(never);
  assert.equal(second.hasMissed, true);
  assert.equal((await start(kv, copy)).history, 'rolled back');
});

test('a start finds what was said to the one before it, and gives its shards up', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const folder = temporaryFolder();
  const { announced: first } = await start(kv, folder);
  await first.raiseMark(never);
  const copy = temporaryFolder();
  cpSync(folder, copy, { recursive: true });
  await start(kv, copy);
  await first.noteRows(never);
  const givenUp: string[] = [];
  assert.equal((await start(kv, copy, givenUp)).history, 'rolled back');
  assert.deepEqual(givenUp, ['rolled back']);
  assert.equal((await start(kv, copy)).history, 'continued');
});

test('who has not been taken notes no rows', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const { announced } = await start(kv, temporaryFolder());
  await announced.noteRows(never);
  await announced.check(never);
  assert.equal(announced.hasMissed, false);
});
