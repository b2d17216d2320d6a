import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
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
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';

after(closeDatabases);

const registry = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);
const rowsOf = (value: number) =>
  Array.from({ length: 200 }, (_, i) => ({
    series: { __name__: 'cpu', host: `h${i % 20}` },
    nanos: realEnv.clock.nowNanos() - BigInt(i) * 1_000_000n,
    value,
  }));

test('on a full disk writes, flushes and snapshots are refused, nothing is lost, and all goes on with space', async () => {
  const disk = new SimulatedDisk({ below: (end) => Math.floor(realEnv.random.fraction() * end) });
  const { database } = await openDatabase('data', { env: { ...realEnv, disk }, registry });
  await writeRows(database, rowsOf(1));
  await database.flusher.flushAll(null, never);
  await writeRows(database, rowsOf(2));
  const before = await readAll(database);

  disk.troubles.writeFailures = 1000;
  const refused = { code: 'UNAVAILABLE', httpStatus: 503 };
  await assert.rejects(database.flusher.flushAll(null, never), refused);
  await assert.rejects(database.snapshot(1, never), refused);
  await assert.rejects(database.flush(null, never), refused);
  await assert.rejects(writeRows(database, rowsOf(3)), refused);
  assert.deepEqual(await readAll(database), before);
  const { bootstrapped, writesRefused } = await database.health(never);
  assert.ok(bootstrapped);
  assert.match(writesRefused, /cannot write to the commit log|cannot be written to now/);

  disk.troubles.writeFailures = 0;
  await realEnv.clock.sleep(150, never);
  await writeRows(database, rowsOf(4));
  const more = await readAll(database);
  const report = await database.flush(null, never);
  assert.ok(report.filesets > 0);
  assert.deepEqual(await readAll(database), more);
  disk.crash();
  const { database: again } = await openDatabase('data', { env: { ...realEnv, disk }, registry });
  assert.deepEqual(await readAll(again), more);
});

test('a node that refused writes says when it takes them again, though nobody writes', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  let monotonicMillis = 0;
  const clock = { ...realEnv.clock, monotonicMillis: () => monotonicMillis };
  const { database } = await openDatabase('data', { env: { ...realEnv, disk, clock }, registry });
  const refusal = async (): Promise<string> => (await database.health(never)).writesRefused;
  /** Nobody waits for the disk: what a question has it tried for is known a little later. */
  const tried = async (): Promise<void> => {
    await refusal();
    await realEnv.clock.sleep(20, never);
  };
  assert.equal(await refusal(), '');
  disk.troubles.writeFailures = 1000;
  await assert.rejects(writeRows(database, rowsOf(1)), { code: 'UNAVAILABLE' });
  assert.notEqual(await refusal(), '');
  monotonicMillis += 10_000;
  await tried();
  assert.notEqual(await refusal(), '');
  disk.troubles.writeFailures = 0;
  await tried();
  assert.notEqual(await refusal(), '', 'the disk is tried once a second');
  monotonicMillis += 1_000;
  await tried();
  assert.equal(await refusal(), '');
  assert.ok(!(await disk.list('data/commitlogs')).includes('probe.tmp'));
  await writeRows(database, rowsOf(2));
  assert.equal(await refusal(), '');
});

test('a namespace that cannot be dropped for a full disk is refused, and gone before it is made again', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  const env = { ...realEnv, disk };
  const cold = { coldWritesEnabled: true };
  const both = registryOf([namespaceOf('metrics', cold), namespaceOf('other', cold)]);
  const { database } = await openDatabase('data', { env, registry: both });
  await writeRows(database, rowsOf(1), { namespace: 'other' });
  await database.flusher.flushAll(null, never);
  await writeRows(database, rowsOf(2), { namespace: 'other' });
  await writeRows(database, rowsOf(3));
  const before = await readAll(database);

  disk.troubles.writeFailures = 1000;
  const ended = new Map([['other', 1]]);
  for (let i = 0; i < 2; i += 1) {
    const dropped = database.applyTopology(onePlacement, 1, registry, ended);
    await assert.rejects(dropped, { code: 'UNAVAILABLE' });
    const gone = { code: 'NOT_FOUND' };
    await assert.rejects(readAll(database, 'other'), gone);
    await assert.rejects(writeRows(database, rowsOf(4), { namespace: 'other' }), gone);
    await assert.rejects(truncateByLog(database, 'other'), gone);
    await database.removal.removeUnknown('other');
    assert.ok((await disk.list('data/data/other')).length > 0, 'what writes there has not ended');
  }
  const again = database.applyTopology(onePlacement, 1, both, ended);
  await assert.rejects(again, { code: 'UNAVAILABLE' });
  await assert.rejects(readAll(database, 'other'), { code: 'NOT_FOUND' });
  assert.deepEqual(await readAll(database), before);

  disk.troubles.writeFailures = 0;
  await realEnv.clock.sleep(150, never);
  await database.applyTopology(onePlacement, 1, both, ended);
  assert.equal((await readAll(database, 'other')).size, 0);
  await writeRows(database, rowsOf(5).slice(0, 1), { namespace: 'other' });
  const made = await readAll(database, 'other');
  disk.crash();
  const { database: last } = await openDatabase('data', { env, registry: both });
  assert.deepEqual(await readAll(last, 'other'), made);
  assert.deepEqual(await readAll(last), before);
});
