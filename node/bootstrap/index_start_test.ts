import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  onePlacement,
  openDatabase,
  readAll,
  truncateByLog,
  writeRows,
} from '../storage/database_testing.ts';

const folders: string[] = [];

after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true });
});

const registry = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-index-start-'));
  folders.push(folder);
  return folder;
}

/** Rows of series [first, end) a minute apart, back from some hours ago. */
function rowsOf(first: number, end: number, hoursAgo: number, value = 0) {
  const newest = realEnv.clock.nowNanos() - BigInt(hoursAgo) * 3_600_000_000_000n;
  return Array.from({ length: (end - first) * 5 }, (_, i) => ({
    series: { __name__: 'cpu', host: `h${first + (i % (end - first))}` },
    nanos: newest - BigInt(Math.floor(i / (end - first))) * 60_000_000_000n,
    value: value + i,
  }));
}

/** A folder with filesets, a snapshot with its index, and a log after it. */
async function makeFolder(): Promise<{ folder: string; expected: Map<string, unknown> }> {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry });
  await writeRows(database, rowsOf(0, 40, 12));
  await writeRows(database, rowsOf(20, 60, 6));
  await database.flush(null, never);
  await writeRows(database, rowsOf(50, 70, 1));
  await database.snapshot(1, never);
  await writeRows(database, rowsOf(60, 90, 0));
  const expected = await readAll(database);
  assert.equal(expected.size, 90);
  await closeDatabases();
  return { folder, expected };
}

function withRows<T>(series: ReadonlyMap<string, readonly T[]>): [string, readonly T[]][] {
  return [...series].filter(([, rows]) => rows.length > 0);
}

const indexPath = (folder: string) => join(folder, 'data/metrics/index.db');

test('a start takes the saved index and walks no fileset that it names', async () => {
  const { folder, expected } = await makeFolder();
  const { database, report } = await openDatabase(folder, { registry });
  assert.equal(report.indexes, 1);
  assert.ok(report.filesets > 0);
  assert.equal(report.filesetsWalked, 0);
  assert.equal(database.store.seriesCount, 90);
  assert.deepEqual(await readAll(database), expected);
  // The next one is of slots that this start gave.
  await writeRows(database, rowsOf(80, 100, 0, 1000));
  await database.flush(null, never);
  const flushed = await readAll(database);
  await closeDatabases();
  const again = await openDatabase(folder, { registry });
  assert.equal(again.report.indexes, 1);
  assert.equal(again.report.filesetsWalked, 0);
  assert.deepEqual(await readAll(again.database), flushed);
  await closeDatabases();
});

test('filesets that came after the index was saved are walked, and all the others are not', async () => {
  const { folder } = await makeFolder();
  const { database } = await openDatabase(folder, { registry });
  await writeRows(database, rowsOf(0, 5, 24));
  const file = readFileSync(indexPath(folder));
  await database.flush(null, never);
  const expected = await readAll(database);
  await closeDatabases();
  writeFileSync(indexPath(folder), file);
  rmSync(join(folder, 'snapshots'), { recursive: true });
  const again = await openDatabase(folder, { registry });
  assert.equal(again.report.indexes, 1);
  assert.ok(again.report.filesetsWalked > 0);
  assert.ok(again.report.filesetsWalked < again.report.filesets);
  assert.deepEqual(await readAll(again.database), expected);
  await closeDatabases();
});

test('while deletions stand a start walks no fileset that the saved index names, and serves nothing deleted', async () => {
  const { folder } = await makeFolder();
  const { database } = await openDatabase(folder, { registry });
  await realEnv.clock.sleep(3, never);
  const now = realEnv.clock.nowNanos();
  const deletion = {
    sequence: 1,
    namespace: 'metrics',
    query: { kind: 'regexp', field: 'host', regexp: 'h[1-6]0' },
    startNanos: now - 7n * 3_600_000_000_000n,
    endNanos: now,
    version: Number(versionAtNanos(now)),
    createdNanos: now,
    expiresNanos: now + 3_600_000_000_000n,
    selectors: [],
  } as const;
  await database.deletions.apply(deletion);
  const expected = await readAll(database);
  await database.snapshot(1, never);
  await closeDatabases();
  for (const clean of [true, false]) {
    const again = await openDatabase(folder, { registry });
    assert.equal(again.report.indexes, 1);
    assert.ok(again.report.filesets > 0);
    assert.equal(again.report.filesetsWalked, 0);
    assert.deepEqual(withRows(await readAll(again.database)), withRows(expected));
    if (clean) {
      again.database.deletions.cleanSequence = 1;
      await again.database.deletions.rewriteDue(never);
      assert.equal(again.database.deletions.cleanedSequence, 1);
      assert.deepEqual(withRows(await readAll(again.database)), withRows(expected));
      await again.database.snapshot(1, never);
    }
    await closeDatabases();
  }
});

test('a damaged index is set aside and made anew', async () => {
  const { folder, expected } = await makeFolder();
  const size = readFileSync(indexPath(folder)).length;
  for (let at = 20; at < size; at += Math.ceil(size / 6)) {
    const copy = temporaryFolder();
    await realEnv.disk.removeTree(copy);
    cpSync(folder, copy, { recursive: true });
    const bytes = readFileSync(indexPath(copy));
    bytes[at]! ^= 0x10;
    writeFileSync(indexPath(copy), bytes);
    const { database, report } = await openDatabase(copy, { registry });
    assert.equal(report.indexes, 0, `byte ${at}`);
    assert.ok(existsSync(`${indexPath(copy)}.corrupt`));
    assert.equal(report.filesetsWalked, report.filesets);
    assert.equal(database.store.seriesCount, 90);
    assert.deepEqual(await readAll(database), expected);
    await closeDatabases();
  }
});

test('series of a namespace that was truncated after the index stay away', async () => {
  const { folder } = await makeFolder();
  const { database } = await openDatabase(folder, { registry });
  await truncateByLog(database, 'metrics');
  await writeRows(database, rowsOf(0, 3, 0));
  const expected = await readAll(database);
  await closeDatabases();
  const again = await openDatabase(folder, { registry });
  assert.equal(again.database.namespaces.get('metrics')!.index.seriesCount, 3);
  assert.deepEqual(await readAll(again.database), expected);
  await closeDatabases();
});

test('series of shards that went to others while the node was down are let go', async () => {
  const { folder, expected } = await makeFolder();
  const [instance] = onePlacement.instances;
  const shards = instance!.shards.filter(({ id }) => id !== 2);
  const placement = { ...onePlacement, instances: [{ ...instance!, shards }] };
  const { database, report } = await openDatabase(folder, { registry, placement });
  assert.equal(report.indexes, 1);
  const left = await readAll(database);
  assert.ok(left.size > 0 && left.size < expected.size);
  assert.equal(database.store.seriesCount, left.size);
  for (const [id, rows] of left) assert.deepEqual(rows, expected.get(id));
  await closeDatabases();
});
