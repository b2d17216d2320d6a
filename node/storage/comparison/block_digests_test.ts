import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { allTime, type Deletion } from '#cluster/metadata/deletions.ts';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import type { Database } from '../database.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  openDatabase,
  placementOf,
  writeRows,
} from '../database_testing.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-digests-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});

const definition = namespaceOf('metrics', { coldWritesEnabled: true });
const registry = registryOf([definition]);
const placement = placementOf({ a: { 0: 'AVAILABLE' } }, { numShards: 1 });
const { blockSizeNanos } = definition.options.retentionOptions;
const start = (realEnv.clock.nowNanos() / blockSizeNanos - 3n) * blockSizeNanos;
const minute = 60_000_000_000n;

async function opened(name: string): Promise<Database> {
  const options = { registry, placement };
  const { database } = await openDatabase(join(folder, name), options);
  return database;
}

const write = (database: Database, hosts: readonly number[], minutes: readonly number[]) =>
  writeRows(
    database,
    hosts.flatMap((host) =>
      minutes.map((at) => ({
        series: { __name__: 'cpu', host: `${host}` },
        nanos: start + BigInt(at) * minute,
        value: host + at,
      })),
    ),
  );

async function rootOf(database: Database, block = start): Promise<string> {
  const namespace = database.namespaces.get('metrics')!;
  const digests = await database.digests.of(namespace, 0, block);
  return digests === null ? 'none' : digests.root().join();
}

const hosts = Array.from({ length: 150 }, (_, i) => i);
const rowFilesOf = (name: string): string[] =>
  readdirSync(join(folder, name, 'data/metrics/0')).filter((file) => file.endsWith('-rows.db'));

test('rows have one digest, in memory, in files, and where both have some of a series', async () => {
  const inMemory = await opened('memory');
  await write(inMemory, hosts, [1, 2, 3]);
  const inFiles = await opened('files');
  await write(inFiles, hosts, [1, 2, 3]);
  await inFiles.flush(null, never);
  const inBoth = await opened('both');
  await write(inBoth, hosts.slice(0, 100), [3, 1]);
  await inBoth.flush(null, never);
  await write(inBoth, hosts.slice(100), [1, 2, 3]);
  await write(inBoth, hosts.slice(0, 100), [2, 3]);
  const wanted = await rootOf(inMemory);
  assert.notEqual(wanted, '0,0');
  assert.equal(await rootOf(inFiles), wanted);
  assert.equal(await rootOf(inBoth), wanted);
  await inBoth.flush(null, never);
  assert.equal(await rootOf(inBoth), wanted);
  assert.equal(await rootOf(inBoth, start + blockSizeNanos), '0,0');
});

test('digests of a fileset are kept beside it, and go with it', async () => {
  const database = await opened('kept');
  await write(database, hosts, [1]);
  await database.flush(null, never);
  assert.deepEqual(rowFilesOf('kept'), []);
  const first = await rootOf(database);
  assert.equal(rowFilesOf('kept').length, 1);
  await database[Symbol.asyncDispose]();
  const again = await opened('kept');
  assert.equal(await rootOf(again), first);
  assert.equal(again.digests.counts.made, 0, 'they are read');
  await write(again, [500], [1]);
  await again.flush(null, never);
  assert.deepEqual(rowFilesOf('kept'), []);
  assert.notEqual(await rootOf(again), first);
  assert.match(rowFilesOf('kept').join(), /-1-rows\.db$/);
});

test('digests that are damaged on disk are made again', async () => {
  const database = await opened('damaged digests');
  await write(database, hosts, [1]);
  await database.flush(null, never);
  const first = await rootOf(database);
  await database[Symbol.asyncDispose]();
  const [name] = rowFilesOf('damaged digests');
  const path = join(folder, 'damaged digests', 'data/metrics/0', name!);
  const bytes = readFileSync(path);
  bytes[bytes.length - 1]! ^= 1;
  writeFileSync(path, bytes);
  const again = await opened('damaged digests');
  assert.equal(await rootOf(again), first);
  assert.equal(again.digests.counts.made, 1);
});

test('what is deleted is in no digest, and a fileset that is still cut has none on disk', async () => {
  const database = await opened('deleted');
  await write(database, hosts, [1]);
  await database.flush(null, never);
  const all = await rootOf(database);
  await realEnv.clock.sleep(3, never);
  const deletedAt = realEnv.clock.nowNanos();
  const deletion: Deletion = {
    sequence: 1,
    namespace: 'metrics',
    query: { kind: 'term', field: 'host', term: '7' },
    ...allTime,
    version: Number(versionAtNanos(deletedAt)),
    createdNanos: deletedAt,
    expiresNanos: deletedAt + 3_600_000_000_000n,
    selectors: [],
  };
  await database.deletions.apply(deletion);
  const without = await opened('without');
  const others = hosts.filter((host) => host !== 7);
  await write(without, others, [1]);
  const wanted = await rootOf(without);
  assert.notEqual(wanted, all);
  assert.equal(await rootOf(database), wanted);
  await database[Symbol.asyncDispose]();
  rmSync(join(folder, 'deleted', 'data/metrics/0', rowFilesOf('deleted')[0]!));
  const again = await opened('deleted');
  assert.equal(await rootOf(again), wanted);
  assert.deepEqual(rowFilesOf('deleted'), []);
});

test('a block with damaged rows has no digest', async () => {
  const database = await opened('damaged');
  await write(database, hosts, [1]);
  await database.flush(null, never);
  const namespace = database.namespaces.get('metrics')!;
  const path = namespace.files.get(0, start)!.dataPath;
  const bytes = readFileSync(path);
  bytes[bytes.length - 3]! ^= 1;
  writeFileSync(path, bytes);
  assert.equal(await rootOf(database), 'none');
});

test('a fileset whose head is damaged is set aside when it is digested, so that others make it good', async () => {
  const database = await opened('damaged head');
  await write(database, hosts, [1]);
  await database.flush(null, never);
  const namespace = database.namespaces.get('metrics')!;
  const path = namespace.files.get(0, start)!.dataPath.replace(/-data\.db$/, '-info.db');
  const bytes = readFileSync(path);
  bytes[bytes.length - 3]! ^= 1;
  writeFileSync(path, bytes);
  await rootOf(database);
  assert.equal(namespace.files.get(0, start), null);
});
