import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { closeDatabases, openDatabase, writeRows } from '../database_testing.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-write-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});

test('many small writes of new series are not prepared in one stretch of the loop', async () => {
  const { database } = await openDatabase(folder);
  const nanos = realEnv.clock.nowNanos();
  // Each has a quarter of what is looked up in one stretch.
  const writes = Array.from({ length: 64 }, (_, write) =>
    writeRows(
      database,
      Array.from({ length: 4 }, (__, i) => ({
        series: { __name__: 'small', write: `${write}`, i: `${i}`, text: 'x'.repeat(500) },
        nanos,
        value: 1,
      })),
    ),
  );
  let most = 0;
  let before = 0;
  let isDone = false;
  const look = (): void => {
    const { seriesCount } = database.store;
    most = Math.max(most, seriesCount - before);
    before = seriesCount;
    if (!isDone) setImmediate(look);
  };
  setImmediate(look);
  await Promise.all(writes);
  isDone = true;
  assert.equal(database.store.seriesCount, 256);
  assert.ok(most <= 32, `${most} series were made in one stretch`);
});
