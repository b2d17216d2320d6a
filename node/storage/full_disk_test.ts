import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  openDatabase,
  readAll,
  writeRows,
} from './database_testing.ts';
import { SimulatedDisk } from './simulated_disk.ts';

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
