import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { rowOutcome } from '#cluster/node/service.ts';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { namespaceOrdinalsMax } from '../deletions/namespace_removal.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  onePlacement,
  openDatabase,
  readAll,
  truncateByLog,
  writeRows,
} from '../database_testing.ts';
import { overriding } from '#test/overriding.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';

const folders: string[] = [];
after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-namespaces-'));
  folders.push(folder);
  return folder;
}

const now = realEnv.clock.nowNanos();
const second = 1_000_000_000n;
const cpu = (host: string) => ({ __name__: 'cpu', host });

/** The namespace as it was made, or made again, with this number. */
const metricsOf = (number: number) => registryOf([{ ...namespaceOf('metrics'), number }]);
/** Says that it was deleted, the last time with this number. */
const metricsEnded = (number: number) => new Map([['metrics', number]]);
const rowAt = (seconds: number) => [
  { series: cpu('a'), nanos: now - BigInt(seconds) * second, value: seconds },
];

test('a namespace that was made again has none of the old rows, and takes none for the old one', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: metricsOf(7) });
  await writeRows(database, rowAt(1), { namespaceNumber: 7 });
  // Its deletion was never seen.
  await database.applyTopology(onePlacement, 1, metricsOf(8), metricsEnded(7));
  for (const { id } of database.shards.all()) {
    database.namespaces.get('metrics')!.readyShards.add(id);
  }
  assert.equal((await readAll(database)).size, 0);
  const stale = await writeRows(database, rowAt(2), { namespaceNumber: 7 });
  assert.deepEqual([...stale.outcomes], [rowOutcome.stalePlacement]);
  assert.deepEqual([...stale.references], [0, 0]);
  assert.equal((await writeRows(database, rowAt(3), { namespaceNumber: 8 })).outcomes.length, 0);
  // Of a release that does not say.
  assert.equal((await writeRows(database, rowAt(4))).outcomes.length, 0);
  const kept = [...(await readAll(database)).values()].flat().map(([, value]) => value);
  assert.deepEqual(kept, [4, 3]);
  const pages = database.streamShard(
    {
      namespace: 'metrics',
      namespaceNumber: 7,
      shard: 0,
      placementVersion: 1,
      blockStartsNanos: [],
      damagedToo: false,
    },
    never,
  );
  await assert.rejects(pages.next(), /cannot stream: namespace was made again: metrics/);
  // A restored store gives a lower number: nobody has deleted anything.
  await database.applyTopology(onePlacement, 1, metricsOf(6), metricsEnded(7));
  assert.equal([...(await readAll(database)).values()].flat().length, 2);
  assert.equal((await writeRows(database, rowAt(5), { namespaceNumber: 6 })).outcomes.length, 0);
});

test('rows for a namespace that was made again wait until the node knows it, and then no longer', async () => {
  const slept: number[] = [];
  let isWaiting = true;
  const sleep = async (millis: number, signal: AbortSignal) => {
    if (millis !== 2_000) return realEnv.clock.sleep(millis, signal);
    slept.push(millis);
    if (isWaiting) await realEnv.clock.sleep(60_000, signal);
  };
  const env = { ...realEnv, clock: overriding(realEnv.clock, { sleep }) };
  const { database } = await openDatabase(temporaryFolder(), { env, registry: metricsOf(7) });
  await writeRows(database, rowAt(1), { namespaceNumber: 7 });
  let asked = 0;
  database.admission.onUnknownNamespace = () => {
    asked += 1;
    if (isWaiting) void database.applyTopology(onePlacement, 1, metricsOf(8), metricsEnded(7));
  };
  assert.equal((await writeRows(database, rowAt(2), { namespaceNumber: 8 })).outcomes.length, 0);
  const values = async () =>
    [...(await readAll(database)).values()].flat().map(([, value]) => value);
  assert.deepEqual(await values(), [2]);
  assert.equal(asked, 1);
  isWaiting = false;
  const unknown = writeRows(database, rowAt(3), { namespaceNumber: 9 });
  await assert.rejects(unknown, {
    code: 'UNAVAILABLE',
    message: /made again, which is not known here/,
  });
  assert.deepEqual([asked, slept.length], [2, 2]);
  assert.deepEqual(await values(), [2]);
});

test('a namespace that was truncated or deleted does not come back from the log', async () => {
  const folder = temporaryFolder();
  const both = registryOf([namespaceOf('metrics'), namespaceOf('other')]);
  const { database } = await openDatabase(folder, { registry: both });
  const rows = [{ series: cpu('a'), nanos: now, value: 1 }];
  const { references } = await writeRows(database, rows);
  await writeRows(database, rows, { namespace: 'other' });
  assert.equal(await truncateByLog(database, 'metrics'), 1);
  assert.equal((await readAll(database)).size, 0);
  const gone = await writeRows(database, [
    { series: { slot: references[0]!, generation: references[1]! }, nanos: now, value: 1 },
  ]);
  assert.deepEqual([...gone.outcomes], [rowOutcome.unknownReference]);
  await writeRows(database, [{ series: cpu('b'), nanos: now, value: 2 }]);
  const ended = new Map([['other', 1]]);
  await database.applyTopology(onePlacement, 1, registryOf([namespaceOf('metrics')]), ended);
  await assert.rejects(
    writeRows(database, rows, { namespace: 'other' }),
    (error) => error instanceof TsdbError && error.code === 'NOT_FOUND',
  );
  const { database: again } = await openDatabase(folder, { registry: both });
  assert.deepEqual([...(await readAll(again)).keys()], ['__name__=cpu,host=b']);
  assert.equal((await readAll(again, 'other')).size, 0);
});

test('with sync interval a namespace that was truncated is still so after a power loss', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  const options = { env: { ...realEnv, disk }, sync: 'interval' } as const;
  const { database } = await openDatabase('data', options);
  await writeRows(database, [{ series: cpu('a'), nanos: now, value: 1 }]);
  await database.sequencer.exclusive(() => {});
  assert.equal(await truncateByLog(database, 'metrics'), 1);
  disk.crash();
  const { database: again } = await openDatabase('data', options);
  assert.equal((await readAll(again)).size, 0);
});

test('with sync interval a truncation that the log did not take is not carried out by the next start', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  const options = { env: { ...realEnv, disk }, sync: 'interval' } as const;
  const { database } = await openDatabase('data', options);
  await writeRows(database, [{ series: cpu('a'), nanos: now, value: 1 }]);
  await database.sequencer.exclusive(() => {});
  disk.troubles.syncFailures = 1000;
  await assert.rejects(truncateByLog(database, 'metrics'), { code: 'UNAVAILABLE' });
  disk.troubles.syncFailures = 0;
  // A log that failed is not opened again at once.
  for (let isTaken = false; !isTaken; await realEnv.clock.sleep(10, never)) {
    const writing = writeRows(database, [{ series: cpu('b'), nanos: now, value: 2 }]);
    isTaken = await writing.then(() => true).catch(() => false);
  }
  await database.sequencer.exclusive(() => {});
  const before = await readAll(database);
  assert.equal(before.size, 2);
  disk.crash();
  const { database: again } = await openDatabase('data', options);
  assert.deepEqual(await readAll(again), before);
});

test('a log with more truncations than a store has numbers of namespaces is replayed', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  const env = { ...realEnv, disk };
  const { database } = await openDatabase('data', { env });
  const row = { series: cpu('a'), nanos: now, value: 1 };
  for (let i = 0; i <= namespaceOrdinalsMax; i += 1) {
    await writeRows(database, [row]);
    assert.equal(await truncateByLog(database, 'metrics'), 1);
    await database.removal.settled();
  }
  await writeRows(database, [{ series: cpu('b'), nanos: now, value: 2 }]);
  disk.crash();
  const { database: again } = await openDatabase('data', { env });
  assert.deepEqual([...(await readAll(again)).keys()], ['__name__=cpu,host=b']);
  assert.equal(again.store.seriesCount, 1);
});

test('a truncation that is refused for want of a number has changed nothing, also after a restart', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  const env = { ...realEnv, disk };
  const { database } = await openDatabase('data', { env });
  await writeRows(database, [{ series: cpu('a'), nanos: now, value: 1 }]);
  const before = await readAll(database);
  // The namespace has one of them.
  for (let i = 1; i < namespaceOrdinalsMax; i += 1) database.removal.takeOrdinal('delete');
  const refused = { code: 'RESOURCE_EXHAUSTED', message: /cannot delete a namespace: 1024 are/ };
  await assert.rejects(truncateByLog(database, 'metrics'), refused);
  assert.deepEqual(await readAll(database), before);
  disk.crash();
  const { database: again } = await openDatabase('data', { env });
  assert.deepEqual(await readAll(again), before);
});

test('with as many namespaces as there may be, each can be truncated and dropped', async () => {
  const { database } = await openDatabase(temporaryFolder());
  await writeRows(database, [{ series: cpu('a'), nanos: now, value: 1 }]);
  // As many others as are admitted beside the one that is there.
  for (let i = 2; i < namespaceOrdinalsMax; i += 1) database.removal.takeOrdinal('add');
  const more = registryOf([namespaceOf('metrics'), namespaceOf('other')]);
  await assert.rejects(database.applyTopology(onePlacement, 1, more), {
    code: 'RESOURCE_EXHAUSTED',
    message: /cannot add a namespace: 1023 are in memory/,
  });
  assert.equal(await truncateByLog(database, 'metrics'), 1);
  await database.removal.settled();
  const other = registryOf([namespaceOf('other')]);
  await database.applyTopology(onePlacement, 1, other, metricsEnded(1));
  assert.deepEqual([...database.namespaces.keys()], ['other']);
});

test('a truncation after the end of its namespace does not touch another one of the name', async () => {
  const { database } = await openDatabase(temporaryFolder());
  const registry = registryOf([namespaceOf('metrics')]);
  const dropped = database.applyTopology(onePlacement, 1, registryOf([]), metricsEnded(1));
  while (database.namespaces.size > 0) await Promise.resolve();
  await assert.rejects(truncateByLog(database, 'metrics'), { code: 'NOT_FOUND' });
  await dropped;
  await database.applyTopology(onePlacement, 1, registry, metricsEnded(1));
  await database.applyTopology(
    onePlacement,
    1,
    registryOf([...registry.values(), namespaceOf('b')]),
  );
  const { namespaces } = database;
  assert.notEqual(namespaces.get('metrics')!.ordinal, namespaces.get('b')!.ordinal);
});
