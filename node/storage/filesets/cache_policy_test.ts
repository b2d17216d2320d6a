import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import type { CachePolicy } from './cache_policy.ts';
import { closeDatabases, never, openDatabase, readAll, writeRows } from '../database_testing.ts';
import type { Database } from '../database.ts';

const folders: string[] = [];
after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A database with rows in filesets only, opened with a policy, and its clock. */
async function flushed(cachePolicy: CachePolicy, more: { memoryBytesMax?: number } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-cache-'));
  folders.push(folder);
  const time = { millis: 1000 };
  const env: Env = {
    ...realEnv,
    clock: { ...realEnv.clock, monotonicMillis: () => time.millis },
  };
  const options = { env, cachePolicy, memoryBytesMax: 64 << 20, ...more };
  const { database } = await openDatabase(folder, options);
  const nanos = realEnv.clock.nowNanos();
  await writeRows(
    database,
    Array.from({ length: 2000 }, (_, i) => ({
      series: { __name__: 'cpu', host: `h${i % 100}` },
      nanos: nanos - BigInt(i) * 1_000_000n,
      value: Math.sqrt(i),
    })),
  );
  await database.flusher.flushAll(null, never);
  return { database, time };
}

/** Bytes that were read from files by one read of everything. */
async function bytesOfRead(database: Database): Promise<number> {
  const { counts } = database.fileCache;
  const before = counts.bytesRead;
  assert.equal((await readAll(database)).size, 100);
  return counts.bytesRead - before;
}

test('none keeps nothing', async () => {
  const { database } = await flushed('none');
  await database.cacheKeeper.run(never);
  assert.ok((await bytesOfRead(database)) > 0);
  assert.ok((await bytesOfRead(database)) > 0);
  assert.equal(database.fileCache.pageBytes, 0);
});

test('lru keeps what was read', async () => {
  const { database, time } = await flushed('lru');
  assert.ok((await bytesOfRead(database)) > 0);
  time.millis += 3_600_000;
  await database.cacheKeeper.run(never);
  assert.equal(await bytesOfRead(database), 0);
});

test('recently_read forgets what was not read for the time of the namespace', async () => {
  const { database, time } = await flushed('recently_read');
  await database.cacheKeeper.run(never);
  assert.ok((await bytesOfRead(database)) > 0);
  // The namespace says five minutes.
  time.millis += 200_000;
  await database.cacheKeeper.run(never);
  assert.equal(await bytesOfRead(database), 0);
  time.millis += 200_000;
  await database.cacheKeeper.run(never);
  assert.equal(await bytesOfRead(database), 0);
  time.millis += 301_000;
  await database.cacheKeeper.run(never);
  assert.equal(database.fileCache.pageBytes, 0);
  assert.ok((await bytesOfRead(database)) > 0);
});

test('all brings filesets to memory before anybody reads them, and gives way', async () => {
  const { database } = await flushed('all');
  assert.equal(database.fileCache.pageBytes, 0);
  await database.cacheKeeper.run(never);
  assert.ok(database.fileCache.pageBytes > 0);
  assert.equal(await bytesOfRead(database), 0);
  const { bytesRead } = database.fileCache.counts;
  await database.cacheKeeper.run(never);
  assert.equal(database.fileCache.counts.bytesRead, bytesRead, 'nothing is loaded twice');
  database.fileCache.limitPages(1);
  assert.equal(database.fileCache.pageBytes, 0);
});
