import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  openDatabase,
  readAll,
  type TestRow,
  writeRows,
} from '../database_testing.ts';

after(closeDatabases);

test('a flush in a thread keeps what is written meanwhile, and nothing is lost or changed', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tsdb-flush-thread-'));
  const registry = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);
  const { database } = await openDatabase(folder, { registry, flushThreads: true });
  assert.notEqual(database.flushThreads, null);
  const start = realEnv.clock.nowNanos() - 3_600_000_000_000n;
  const rowsOf = (at: number): TestRow[] =>
    Array.from({ length: 400 }, (_, i) => ({
      series: { __name__: 'm', host: `h${i}` },
      nanos: start + BigInt(at) * 1_000_000_000n,
      value: at + i / 10,
    }));
  for (let at = 0; at < 40; at += 1) await writeRows(database, rowsOf(at));
  const flush = database.flush(null, never);
  for (let at = 40; at < 50; at += 1) await writeRows(database, rowsOf(at).slice(0, 150));
  const report = await flush;
  assert.ok(report.series >= 400);
  const samples = await readAll(database);
  assert.equal(samples.size, 400);
  for (const [name, rows] of samples) {
    const i = Number(/host=h(\d+)/.exec(name)![1]);
    const length = i < 150 ? 50 : 40;
    const expected = Array.from({ length }, (_, at) => [
      start + BigInt(at) * 1_000_000_000n,
      at + i / 10,
    ]);
    assert.deepEqual(rows, expected, name);
  }
  await database.flush(null, never);
  assert.equal(database.store.sampleCount, 0);
  assert.deepEqual(await readAll(database), samples);
  await closeDatabases();
  await rm(folder, { recursive: true });
});
