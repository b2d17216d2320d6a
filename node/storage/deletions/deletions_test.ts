import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Deletion } from '#cluster/metadata/deletions.ts';
import { allTime } from '#cluster/metadata/deletions.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { nextVersion, versionAtMillis } from '#lib/hybrid_clock.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import type { Database } from '../database.ts';
import {
  batchOf,
  closeDatabases,
  namespaceOf,
  never,
  openDatabase,
  readAll,
  writeRows,
} from '../database_testing.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import { isRewriteDue } from './deletions.ts';

const folders: string[] = [];
after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-deletions-'));
  folders.push(folder);
  return folder;
}

const second = 1_000_000_000n;
const cold = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);
/** In a closed block, and not too near to its ends. */
const middle = (realEnv.clock.nowNanos() / (7200n * second)) * 7200n * second - 3600n * second;
const host = (name: string) => ({ __name__: 'cpu', host: name });
const idOf = (name: string) => `__name__=cpu,host=${name}`;
const ofHost = (name: string): IndexQuery => ({ kind: 'term', field: 'host', term: name });

let sequence = 0;
let lastVersion = 0;

function deletionOf(query: IndexQuery, more: Partial<Deletion> = {}): Deletion {
  sequence += 1;
  lastVersion = nextVersion(realEnv.clock.nowMillis() + 1, lastVersion);
  return {
    sequence,
    namespace: 'metrics',
    query,
    ...allTime,
    version: lastVersion,
    createdNanos: realEnv.clock.nowNanos(),
    expiresNanos: realEnv.clock.nowNanos() + 3600n * second,
    selectors: [],
    ...more,
  };
}

/** Rows every second from `first` on. */
function rowsOf(name: string, count: number, first: bigint = middle, value = 1) {
  return Array.from({ length: count }, (_, i) => ({
    series: host(name),
    nanos: first + BigInt(i) * second,
    value: value + i,
  }));
}

/**
 * The clock of versions has gone on, as between a deletion and what a client writes after its
 * answer.
 */
async function later(): Promise<void> {
  await realEnv.clock.sleep(3, never);
}

async function valuesOf(database: Database, name: string): Promise<number[]> {
  return ((await readAll(database)).get(idOf(name)) ?? []).map(([, value]) => value);
}

async function hostsOf(database: Database): Promise<readonly string[]> {
  const { tags } = await database.aggregate(
    {
      namespace: 'metrics',
      placementVersion: 0,
      query: { kind: 'all' },
      tagNames: ['host'],
      namesOnly: false,
      limit: 0,
      startNanos: 0n,
      endNanos: 2n ** 62n,
    },
    never,
  );
  return tags[0]?.values ?? [];
}

test('rows in memory that match are deleted, others stay, and a restart replays both', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  await writeRows(database, [...rowsOf('a', 300), ...rowsOf('b', 300), ...rowsOf('c', 3)]);
  const range = { startNanos: middle + 100n * second, endNanos: middle + 200n * second };
  await database.deletions.apply(deletionOf(ofHost('a'), range));
  await database.deletions.apply(deletionOf(ofHost('c')));
  const expected = await readAll(database);
  const a = await valuesOf(database, 'a');
  assert.deepEqual(
    a,
    Array.from({ length: 300 }, (_, i) => i + 1).filter((value) => value <= 100 || value > 200),
  );
  assert.equal((await valuesOf(database, 'b')).length, 300);
  assert.deepEqual(await hostsOf(database), ['a', 'b'], 'a series without rows is in no block');
  // The first database is left as it is, as by a crash.
  const { database: again } = await openDatabase(folder, { registry: cold });
  assert.deepEqual(await readAll(again), expected);
  assert.equal(again.deletions.appliedSequence, sequence);
  await again.snapshot(1, never);
  const { database: third } = await openDatabase(folder, { registry: cold });
  assert.deepEqual(await readAll(third), expected);
});

test('what is written after a deletion stays, also at the same times and over restarts', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  await writeRows(database, rowsOf('a', 200));
  await database.flush(null, never);
  await writeRows(database, rowsOf('a', 50, middle + 200n * second));
  await later();
  await database.deletions.apply(deletionOf(ofHost('a')));
  assert.deepEqual(await valuesOf(database, 'a'), []);
  await later();
  await writeRows(database, rowsOf('a', 10, middle + 5n * second, 1000));
  const expected = Array.from({ length: 10 }, (_, i) => 1000 + i);
  assert.deepEqual(await valuesOf(database, 'a'), expected);
  const { database: again } = await openDatabase(folder, { registry: cold });
  assert.deepEqual(await valuesOf(again, 'a'), expected);
  await again.flush(null, never);
  assert.deepEqual(await valuesOf(again, 'a'), expected);
  const { database: third } = await openDatabase(folder, { registry: cold });
  assert.deepEqual(await valuesOf(third, 'a'), expected);
});

test('filesets are cut when they are read, and rewritten; series with nothing left leave the index', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  const names = Array.from({ length: 20 }, (_, i) => `h${i}`);
  await writeRows(
    database,
    names.flatMap((name) => rowsOf(name, 100)),
  );
  await database.flush(null, never);
  assert.equal(database.store.sampleCount, 0);
  await later();
  const regexp: IndexQuery = { kind: 'regexp', field: 'host', regexp: 'h1.*' };
  await database.deletions.apply(deletionOf(regexp));
  const range = { startNanos: middle + 10n * second, endNanos: middle + 20n * second };
  await database.deletions.apply(deletionOf(ofHost('h2'), range));
  const expected = await readAll(database);
  for (const name of names) {
    const rows = expected.get(idOf(name)) ?? [];
    assert.equal(rows.length, name.startsWith('h1') ? 0 : name === 'h2' ? 90 : 100, name);
  }
  assert.ok((await hostsOf(database)).includes('h1'), 'files have it still');
  database.deletions.cleanSequence = sequence;
  assert.equal(database.deletions.cleanedSequence, sequence - 2);
  await database.deletions.rewriteDue(never);
  assert.equal(database.deletions.cleanedSequence, sequence);
  const left = names.filter((name) => !name.startsWith('h1')).sort();
  assert.deepEqual([...(await hostsOf(database))].sort(), left);
  for (const name of left)
    assert.deepEqual((await readAll(database)).get(idOf(name)), expected.get(idOf(name)));
  // Two ticks: what was admitted between two expiries may be on its way.
  const [namespace] = database.namespaces.values();
  for (let i = 0; i < 2; i += 1) {
    await database.sequencer.exclusive(() => namespace!.expire(realEnv.clock.nowNanos()));
  }
  assert.equal(namespace!.index.seriesCount, left.length);
  await closeDatabases();
  const { database: again } = await openDatabase(folder, { registry: cold });
  assert.deepEqual([...(await hostsOf(again))].sort(), left);
  const tombstones = again.deletions.of('metrics');
  const files = again.namespaces.get('metrics')!.files.all(null);
  const rewritten = files.filter(({ info }) => info.source === 'merge');
  assert.ok(rewritten.length > 0);
  for (const file of rewritten) assert.deepEqual(tombstones.pendingOf(file), []);
});

test('a flush after a deletion merges only what is left of the fileset', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  await writeRows(database, [...rowsOf('a', 100), ...rowsOf('b', 100)]);
  await database.flush(null, never);
  await later();
  await database.deletions.apply(deletionOf(ofHost('a')));
  await later();
  await writeRows(database, [...rowsOf('a', 1, middle, 7), ...rowsOf('b', 1, middle, 7)]);
  await database.flush(null, never);
  assert.deepEqual(await valuesOf(database, 'a'), [7]);
  assert.equal((await valuesOf(database, 'b')).length, 100);
});

test('everything of a namespace is removed without being read when it is deleted', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  await writeRows(database, [...rowsOf('a', 100), ...rowsOf('b', 100)]);
  await database.flush(null, never);
  await writeRows(database, rowsOf('c', 100));
  const farLater = versionAtMillis(realEnv.clock.nowMillis() + 120_000);
  await database.deletions.apply(deletionOf({ kind: 'all' }, { version: farLater }));
  database.deletions.cleanSequence = sequence;
  await database.deletions.rewriteDue(never);
  assert.equal(database.namespaces.get('metrics')!.files.all(null).length, 0);
  assert.deepEqual([...(await readAll(database)).values()].flat(), []);
  assert.deepEqual(await hostsOf(database), []);
});

test('rows that were sent before a deletion and come after it are refused for a passing reason', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  await writeRows(database, rowsOf('a', 1));
  const batch = batchOf([...rowsOf('a', 2), ...rowsOf('b', 1)]);
  await later();
  await database.deletions.apply(deletionOf(ofHost('a')));
  const request = {
    namespace: 'metrics',
    placementVersion: database.shards.version,
    referenceEpoch: database.referenceEpoch,
    batch,
  };
  const { outcomes } = await database.write(request, never);
  const { resourceExhausted, written } = rowOutcome;
  assert.deepEqual([...outcomes], [resourceExhausted, resourceExhausted, written]);
  assert.deepEqual(await valuesOf(database, 'a'), []);
  assert.deepEqual(await valuesOf(database, 'b'), [1]);
});

test('a chunk that got rows between the acceptance of a deletion and its arrival loses the older ones', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  const now = realEnv.clock.nowNanos();
  const block = (now / (7200n * second)) * 7200n * second;
  // Rows of the open block, as many as seal some chunks, before the deletion and after it.
  const old = rowsOf('a', 300, block, 0).filter(({ nanos }) => nanos < now - 60n * second);
  await writeRows(database, old);
  await later();
  const deletion = deletionOf(ofHost('a'));
  await later();
  const fresh = realEnv.clock.nowNanos();
  await writeRows(database, [{ series: host('a'), nanos: fresh, value: -1 }]);
  await database.flush(null, never);
  await database.deletions.apply(deletion);
  assert.deepEqual(await valuesOf(database, 'a'), [-1]);
});

test('without tombstones.bin, or with a damaged one, all deletions are applied again', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  await writeRows(database, rowsOf('a', 10));
  await database.flush(null, never);
  await later();
  const deletion = deletionOf(ofHost('a'));
  await database.deletions.apply(deletion);
  await closeDatabases();
  const path = join(folder, 'tombstones.bin');
  const bytes = readFileSync(path);
  bytes[bytes.length - 10]! ^= 1;
  writeFileSync(path, bytes);
  const { database: again } = await openDatabase(folder, { registry: cold });
  assert.equal(again.deletions.appliedSequence, 0);
  await again.deletions.apply(deletion);
  assert.equal(again.deletions.appliedSequence, deletion.sequence);
  assert.deepEqual(await valuesOf(again, 'a'), []);
});

test('a deletion is applied although its number is that of one that was applied before', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  await writeRows(database, [...rowsOf('a', 10), ...rowsOf('b', 10)]);
  await later();
  const first = deletionOf(ofHost('a'));
  const second = deletionOf(ofHost('b'), { sequence: first.sequence });
  for (const deletion of [first, second, first]) await database.deletions.apply(deletion);
  assert.equal(database.deletions.counts.applied, 2);
  assert.deepEqual(await valuesOf(database, 'b'), []);
  assert.deepEqual(database.deletions.applied(), [first, second]);
});

test('who lacks a deletion that the asker has applied gives it nothing, whatever the sequences say', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  await writeRows(database, [...rowsOf('a', 10), ...rowsOf('b', 10)]);
  await later();
  const [lost, last] = [deletionOf(ofHost('a')), deletionOf(ofHost('b'))];
  await database.deletions.apply(last);
  const { shards, deletions } = database;
  const { id: shard } = shards.all()[0]!;
  const stream = (deletionVersions: readonly number[]) => {
    const wanted = { namespace: 'metrics', shard, blockStartsNanos: [], damagedToo: false };
    const deletionSequence = deletions.appliedSequence;
    const of = { placementVersion: shards.version, deletionSequence, deletionVersions };
    return Array.fromAsync(database.streamShard({ ...wanted, ...of }, never));
  };
  const isLacking = { code: 'UNAVAILABLE', message: /a deletion is not applied here yet/ };
  await assert.rejects(stream([lost.version, last.version]), isLacking);
  await stream([last.version]);
  await deletions.apply(lost);
  await stream([lost.version, last.version]);
  // What is deleted with everything after it is not said of one.
  const all = deletionOf({ kind: 'all' });
  await deletions.apply(all);
  assert.deepEqual(deletions.versionsOf('metrics'), [all.version]);
  await stream([lost.version - 1, all.version]);
  await assert.rejects(stream([all.version + 1]), isLacking);
});

test('deletions are forgotten when they were retired and have expired, and not before', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  await writeRows(database, rowsOf('a', 10));
  const expired = deletionOf(ofHost('a'), { expiresNanos: 1n });
  const standing = deletionOf(ofHost('b'), { expiresNanos: 1n });
  const fresh = deletionOf(ofHost('c'));
  for (const deletion of [expired, standing, fresh]) await database.deletions.apply(deletion);
  await database.deletions.keep(new Set([standing.version]));
  const { all } = database.deletions.of('metrics');
  assert.deepEqual(
    all.map(({ deletion }) => deletion.sequence),
    [standing.sequence, fresh.sequence],
  );
});

test('series that only memory had leave the index after a replay too, and those of files when they are rewritten', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  await writeRows(database, rowsOf('a', 10));
  await database.flush(null, never);
  await writeRows(database, [...rowsOf('b', 10), ...rowsOf('c', 10), ...rowsOf('d', 10)]);
  await later();
  const regexp: IndexQuery = { kind: 'regexp', field: 'host', regexp: '[abc]' };
  await database.deletions.apply(deletionOf(regexp));
  const { database: again } = await openDatabase(folder, { registry: cold });
  again.deletions.cleanSequence = sequence;
  await again.deletions.rewriteDue(never);
  assert.deepEqual(await hostsOf(again), ['d']);
  assert.deepEqual(await valuesOf(again, 'a'), []);
});

test('with sync interval a deletion that is applied is still so after a power loss', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  const options = { env: { ...realEnv, disk }, registry: cold, sync: 'interval' } as const;
  const { database } = await openDatabase('data', options);
  await writeRows(database, [...rowsOf('a', 10), ...rowsOf('b', 10)]);
  await database.sequencer.exclusive(() => {});
  await later();
  const deletion = deletionOf(ofHost('a'));
  await database.deletions.apply(deletion);
  assert.equal(database.deletions.appliedSequence, deletion.sequence);
  disk.crash();
  const { database: again } = await openDatabase('data', options);
  await again.deletions.apply(deletion);
  assert.deepEqual(await valuesOf(again, 'a'), []);
  assert.equal((await valuesOf(again, 'b')).length, 10);
});

test('a deletion whose record failed and is there after a power loss has no filesets that were made in between', async () => {
  let falls = 1;
  const disk = new SimulatedDisk({ below: (end) => Math.min(falls, end - 1) });
  const { database } = await openDatabase('data', { env: { ...realEnv, disk }, registry: cold });
  await writeRows(database, [...rowsOf('a', 10), ...rowsOf('b', 10)]);
  await later();
  const deletion = deletionOf(ofHost('a'));
  // The record reaches the disk, and the sync says that it did not.
  disk.troubles.syncFailures = 1000;
  await assert.rejects(database.deletions.apply(deletion), { code: 'UNAVAILABLE' });
  disk.troubles.syncFailures = 0;
  await later();
  const flushing = database.flusher.flushAll(null, never);
  await assert.rejects(flushing, { code: 'UNAVAILABLE', message: /series are being deleted/ });
  falls = 0;
  disk.crash();
  const { database: again, report } = await openDatabase('data', {
    env: { ...realEnv, disk },
    registry: cold,
  });
  assert.ok(again.deletions.of('metrics').has(deletion.version), 'the record is in the log');
  assert.equal(report.filesets, 0);
  await again.deletions.apply(deletion);
  assert.deepEqual(await valuesOf(again, 'a'), []);
  assert.equal((await valuesOf(again, 'b')).length, 10);
});

test('rows that come after a deletion have versions that say so', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  await writeRows(database, rowsOf('a', 3));
  await later();
  await database.deletions.apply(deletionOf(ofHost('a')));
  await later();
  const rows = [{ ...rowsOf('a', 1)[0]!, nanos: realEnv.clock.nowNanos() - 1_000_000_000n }];
  const send = async (derives: boolean) => {
    const batch = batchOf(rows, undefined, undefined, derives);
    const { shards, referenceEpoch } = database;
    const request = {
      namespace: 'metrics',
      placementVersion: shards.version,
      referenceEpoch,
      batch,
    };
    return [...(await database.write(request, never)).outcomes];
  };
  assert.deepEqual(await send(true), [rowOutcome.superseded], 'its time is before the deletion');
  assert.deepEqual(await send(false), []);
  assert.equal((await valuesOf(database, 'a')).length, 1);
});

test('a deletion whose record failed is applied when it is tried again, and flushes go on then', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  const { database } = await openDatabase('data', { env: { ...realEnv, disk }, registry: cold });
  await writeRows(database, [...rowsOf('a', 10), ...rowsOf('b', 10)]);
  const early = batchOf(rowsOf('a', 1));
  await later();
  const deletion = deletionOf(ofHost('a'));
  disk.troubles.syncFailures = 1000;
  await assert.rejects(database.deletions.apply(deletion), { code: 'UNAVAILABLE' });
  disk.troubles.syncFailures = 0;
  await realEnv.clock.sleep(150, never);
  const request = {
    namespace: 'metrics',
    placementVersion: database.shards.version,
    referenceEpoch: database.referenceEpoch,
    batch: early,
  };
  const { outcomes, highestVersion } = await database.write(request, never);
  assert.deepEqual([...outcomes], [rowOutcome.resourceExhausted]);
  assert.equal(highestVersion, deletion.version, 'the writer comes after it the next time');
  await database.deletions.apply(deletion);
  assert.deepEqual(await valuesOf(database, 'a'), []);
  await database.flush(null, never);
  disk.crash();
  const { database: again } = await openDatabase('data', {
    env: { ...realEnv, disk },
    registry: cold,
  });
  assert.equal(again.deletions.appliedSequence, deletion.sequence);
  assert.deepEqual(await valuesOf(again, 'a'), []);
  assert.equal((await valuesOf(again, 'b')).length, 10);
});

test('a deletion whose record failed is not passed over when another one comes before it is tried again', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  const { database } = await openDatabase('data', { env: { ...realEnv, disk }, registry: cold });
  await writeRows(database, [...rowsOf('a', 10), ...rowsOf('b', 10), ...rowsOf('c', 10)]);
  await later();
  // The key-value store had lost it: it comes again, behind the one that follows it.
  const [late, failed] = [deletionOf(ofHost('b')), deletionOf(ofHost('a'))];
  disk.troubles.syncFailures = 1000;
  await assert.rejects(database.deletions.apply(failed), { code: 'UNAVAILABLE' });
  disk.troubles.syncFailures = 0;
  await realEnv.clock.sleep(150, never);
  for (const deletion of [late, failed]) await database.deletions.apply(deletion);
  assert.deepEqual(await valuesOf(database, 'a'), []);
  assert.deepEqual(await valuesOf(database, 'b'), []);
  assert.equal((await valuesOf(database, 'c')).length, 10);
});

test('a flush that begins during the sweep of a deletion writes nothing of what it deletes', async () => {
  const flushes: Promise<unknown>[] = [];
  const clock: Env['clock'] = {
    ...realEnv.clock,
    sleep: async (millis, signal) => {
      if (!database.deletions.isSweeping) return realEnv.clock.sleep(millis, signal);
      if (flushes.length === 0) flushes.push(database.flusher.flushAll(null, never));
      await Promise.race([...flushes, realEnv.clock.sleep(100, signal)]);
    },
  };
  const { database } = await openDatabase(temporaryFolder(), {
    env: { ...realEnv, clock },
    registry: cold,
  });
  const names = Array.from({ length: 300 }, (_, i) => `h${i}`);
  await writeRows(database, [...names.flatMap((name) => rowsOf(name, 2)), ...rowsOf('other', 2)]);
  await later();
  await database.deletions.apply(deletionOf({ kind: 'regexp', field: 'host', regexp: 'h.*' }));
  assert.equal(flushes.length, 1);
  await Promise.all(flushes);
  const left = [...(await readAll(database))].filter(([, rows]) => rows.length > 0);
  assert.deepEqual(
    left.map(([name]) => name),
    [idOf('other')],
  );
  assert.ok(database.namespaces.get('metrics')!.files.all(null).length > 0);
});

test('a fileset with series that are not in the index is rewritten, and does not bring them back', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  await writeRows(database, [...rowsOf('a', 10), ...rowsOf('b', 10)]);
  await database.flush(null, never);
  const namespace = database.namespaces.get('metrics')!;
  const { slots } = namespace.index.query(ofHost('a'), allTime, { limit: 0, shards: null });
  namespace.release(slots);
  for (const file of namespace.files.all(null)) await database.fileCache.forget(file);
  await later();
  await database.deletions.apply(deletionOf(ofHost('a')));
  database.deletions.cleanSequence = sequence;
  await database.deletions.rewriteDue(never);
  await later();
  await writeRows(database, rowsOf('a', 1, middle, 7));
  for (const file of namespace.files.all(null)) await database.fileCache.forget(file);
  assert.deepEqual(await valuesOf(database, 'a'), [7]);
  assert.equal((await valuesOf(database, 'b')).length, 10);
});

test('filesets are rewritten when no deletion came for a time, at the latest after that, or at once', () => {
  const second = 1000;
  const quiet = { lastAtMillis: 0, sinceMillis: 0, isUrgent: false };
  assert.ok(!isRewriteDue(quiet, 30 * second - 1));
  assert.ok(isRewriteDue(quiet, 30 * second));
  const more = { ...quiet, lastAtMillis: 599 * second };
  assert.ok(!isRewriteDue(more, 600 * second - 1));
  assert.ok(isRewriteDue(more, 600 * second));
  assert.ok(isRewriteDue({ ...quiet, isUrgent: true }, 0));
});

test('files of which everything is deleted leave the disk at once, but for what was written since', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  const { files } = database.namespaces.get('metrics')!;
  await writeRows(database, [...rowsOf('a', 50), ...rowsOf('b', 50)]);
  await database.flush(null, never);
  await later();
  await database.deletions.apply(deletionOf({ kind: 'all' }));
  await later();
  await writeRows(database, rowsOf('b', 3, middle, 100));
  assert.ok(files.all(null).length > 0);
  await database.deletions.rewriteDue(never);
  assert.equal(files.all(null).length, 0);
  assert.deepEqual(await hostsOf(database), ['b']);
  assert.deepEqual(await valuesOf(database, 'b'), [100, 101, 102]);
  assert.equal(database.deletions.cleanedSequence, sequence);
});
