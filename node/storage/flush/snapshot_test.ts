import assert from 'node:assert/strict';
import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { encodeRawChunk } from '#engine/codec/chunk.ts';
import { packChunks } from '#engine/store/chunk_pack.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { recordPayloadBytesMax } from '../../persist/commitlog/format.ts';
import { isSnapshotDue } from './snapshot.ts';
import type { Database } from '../database.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  openDatabase,
  readAll,
  type TestRow,
  truncateByLog,
  writeRows,
} from '../database_testing.ts';

const folders: string[] = [];
after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-snapshot-'));
  folders.push(folder);
  return folder;
}

const cold = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);

function rowsOf(seriesCount: number, times: number, value = 0): TestRow[] {
  const end = realEnv.clock.nowNanos();
  return Array.from({ length: seriesCount * times }, (_, i) => ({
    series: { __name__: 'cpu', host: `h${i % seriesCount}` },
    nanos: end - BigInt(Math.floor(i / seriesCount)) * 7_000_000_000n,
    value: value + i,
  }));
}

const segmentsOf = (folder: string): string[] => readdirSync(join(folder, 'commitlogs')).sort();
const snapshotsOf = (folder: string): string[] => readdirSync(join(folder, 'snapshots')).sort();

test('a snapshot stands for all segments before it, and the log goes on after it', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold, segmentBytesMax: 4000 });
  await writeRows(database, rowsOf(50, 300));
  await writeRows(database, rowsOf(20, 10, 1e6));
  const report = await database.snapshot(1, never);
  assert.equal(report.series, 50);
  assert.ok(report.segmentsDeleted > 0);
  assert.deepEqual(segmentsOf(folder), []);
  await writeRows(database, rowsOf(60, 2, 2e6));
  const before = await readAll(database);
  assert.equal(before.size, 60);
  await closeDatabases();
  const { database: again, report: local } = await openDatabase(folder, { registry: cold });
  assert.equal(local.replay.snapshotSeries, 50);
  assert.equal(local.replay.rows, 120);
  assert.deepEqual(local.replay.problems, []);
  assert.deepEqual(await readAll(again), before);
  await again.snapshot(1, never);
  assert.equal(snapshotsOf(folder).length, 1, 'the older snapshot is gone');
  assert.deepEqual(await readAll(again), before);
  await closeDatabases();
});

test('rows that are written and flushed while a snapshot is taken are all there after it', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  await writeRows(database, rowsOf(2000, 3));
  let done = false;
  const background = (async () => {
    while (!done) {
      await writeRows(database, rowsOf(300, 1, 5));
      await database.flusher.flushAll(null, never);
    }
  })();
  for (let i = 0; i < 3; i += 1) await database.snapshot(1, never);
  done = true;
  await background;
  const before = await readAll(database);
  await closeDatabases();
  const { database: again } = await openDatabase(folder, { registry: cold });
  assert.deepEqual(await readAll(again), before);
  await closeDatabases();
});

test('a flush on demand leaves no log behind, and the data in filesets alone', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  await writeRows(database, rowsOf(30, 30));
  const before = await readAll(database);
  const report = await database.flush(null, never);
  assert.ok(report.filesets > 0);
  assert.equal(report.snapshot.series, 0);
  assert.deepEqual(segmentsOf(folder), []);
  await closeDatabases();
  rmSync(join(folder, 'snapshots'), { recursive: true });
  const { database: again } = await openDatabase(folder, { registry: cold });
  assert.deepEqual(await readAll(again), before);
  await closeDatabases();
});

test('what was truncated stays away, whether before the snapshot or after it', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  await writeRows(database, rowsOf(10, 3));
  await truncateByLog(database, 'metrics');
  await writeRows(database, rowsOf(4, 3));
  const kept = await readAll(database);
  // The segments before the snapshot are put back, as if there had been no time to delete them.
  const saved = segmentsOf(folder).map((name) => {
    const copy = join(folder, `${name}.saved`);
    copyFileSync(join(folder, 'commitlogs', name), copy);
    return { name, copy };
  });
  await database.snapshot(1, never);
  await closeDatabases();
  for (const { name, copy } of saved) copyFileSync(copy, join(folder, 'commitlogs', name));
  {
    const { database: again } = await openDatabase(folder, { registry: cold });
    assert.deepEqual(await readAll(again), kept);
    await again.snapshot(1, never);
    await truncateByLog(again, 'metrics');
    await writeRows(again, rowsOf(2, 1));
    await closeDatabases();
  }
  const { database: last } = await openDatabase(folder, { registry: cold });
  assert.equal((await readAll(last)).size, 2);
  await closeDatabases();
});

test('segments of a namespace without snapshots stay until its rows are in filesets', async () => {
  const folder = temporaryFolder();
  const registry = registryOf([
    namespaceOf('metrics', { snapshotEnabled: false }),
    namespaceOf('other'),
  ]);
  const { database } = await openDatabase(folder, { registry });
  await writeRows(database, rowsOf(5, 1));
  await writeRows(database, rowsOf(5, 1), { namespace: 'other' });
  const first = await database.snapshot(1, never);
  assert.deepEqual([first.series, first.segmentsDeleted], [5, 0]);
  const before = [await readAll(database), await readAll(database, 'other')];
  await closeDatabases();
  const { database: again } = await openDatabase(folder, { registry });
  assert.deepEqual([await readAll(again), await readAll(again, 'other')], before);
  const { snapshot } = await again.flush(['metrics'], never);
  assert.ok(snapshot.segmentsDeleted > 0);
  assert.deepEqual(segmentsOf(folder), []);
  await closeDatabases();
});

test('damage in a snapshot is reported and costs the series in it; an unfinished one never counts', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  await writeRows(database, rowsOf(700, 2));
  await database.snapshot(1, never);
  await closeDatabases();
  const path = join(folder, 'snapshots', snapshotsOf(folder)[0]!);
  const bytes = readFileSync(path);
  writeFileSync(`${path.replace(/\d+\.db$/, '99.db')}.tmp`, bytes);
  bytes[bytes.length - 200]! ^= 1;
  writeFileSync(path, bytes);
  const { database: again, report } = await openDatabase(folder, { registry: cold });
  assert.equal(report.replay.problems.length, 1);
  const whole = [...(await readAll(again)).values()].filter((rows) => rows.length === 2).length;
  assert.ok(whole >= 512 && whole < 700, `${whole} of 700 series are there`);
  await again.snapshot(1, never);
  assert.equal(snapshotsOf(folder).length, 1);
  await closeDatabases();
});

test('series with more chunks than a record may have are in a snapshot as a whole', async () => {
  const folder = temporaryFolder();
  const memoryBytesMax = 1024 * 1024 * 1024;
  const { database } = await openDatabase(folder, { registry: cold, memoryBytesMax });
  await writeRows(database, rowsOf(3, 1));
  const namespace = database.namespaces.get('metrics')!;
  let large = 0;
  while (!namespace.index.has(large)) large += 1;
  const rowCount = 65_536;
  const chunkNanos = 720_000_000_000n;
  const values = Float64Array.from({ length: rowCount }, Math.random);
  let firstNanos = namespace.blockStartOf(realEnv.clock.nowNanos()) - chunkNanos;
  for (let bytes = 0; bytes <= recordPayloadBytesMax; firstNanos -= chunkNanos) {
    const timestampNanos = new BigInt64Array(rowCount);
    for (let i = 0; i < rowCount; i += 1) timestampNanos[i] = firstNanos + BigInt(i) * 10_000_001n;
    const chunk = encodeRawChunk({ timestampNanos, values, version: 1 });
    database.store.insertChunks(large, chunk);
    bytes += chunk.length;
  }
  const id = namespace.index.id(large).slice();
  const chunksOf = ({ store, namespaces }: Database) =>
    store.read(Uint32Array.of(namespaces.get('metrics')!.index.findById(id)), 0n, 2n ** 62n);
  const { sampleCount } = database.store;
  const before = packChunks(chunksOf(database), database.store.keepsRowVersions).chunkData;
  assert.ok(before.length > recordPayloadBytesMax);
  const { series } = await database.snapshot(1, never);
  assert.equal(series, 3);
  assert.deepEqual(segmentsOf(folder), []);
  await closeDatabases();
  const { database: again, report } = await openDatabase(folder, {
    registry: cold,
    memoryBytesMax,
  });
  assert.deepEqual(report.replay.problems, []);
  assert.equal(again.store.sampleCount, sampleCount);
  assert.equal(Buffer.compare(chunksOf(again).chunkData, before), 0);
  await closeDatabases();
});

test('a broken invariant is not taken for a failure of the disk', async () => {
  let isBroken = false;
  const broken = new BrokenInvariant('for this test');
  const disk = {
    ...realEnv.disk,
    open: (...of: Parameters<Env['disk']['open']>) =>
      isBroken ? Promise.reject(broken) : realEnv.disk.open(...of),
  };
  const env: Env = { ...realEnv, disk };
  const { database } = await openDatabase(temporaryFolder(), { env, registry: cold });
  await writeRows(database, rowsOf(3, 1));
  isBroken = true;
  await assert.rejects(database.snapshot(1, never), broken);
  await assert.rejects(database.flusher.flushAll(null, never), broken);
  isBroken = false;
  await closeDatabases();
});

test('a snapshot is due when it frees more of the log than a minimum, and than it would write', () => {
  const mebibyte = 1024 * 1024;
  const log = (bytes: number, dictionaryBytes = 0, dictionarySeries = 0) => [
    { bytes, dictionaryBytes, dictionarySeries },
  ];
  assert.ok(isSnapshotDue(log(8 * mebibyte), 0, 0));
  assert.ok(!isSnapshotDue(log(8 * mebibyte - 1), 0, 0), 'a short log is read as fast');
  assert.ok(!isSnapshotDue(log(20 * mebibyte), 0, 21 * mebibyte), 'the last one was longer');
  assert.ok(isSnapshotDue([...log(10 * mebibyte), ...log(11 * mebibyte)], 0, 21 * mebibyte));
  const named = log(30 * mebibyte, 20 * mebibyte, 1000);
  assert.ok(!isSnapshotDue(named, 1000, 0), 'names of series that are here are written again');
  assert.ok(isSnapshotDue(named, 500, 0), 'half of the series have gone');
});
