import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { closeDatabases, never, openDatabase, writeRows } from '../database_testing.ts';
import { tick } from '../retention/tick.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-statistics-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});

const request = {
  namespace: 'metrics',
  placementVersion: 0,
  shards: null,
  limit: 10,
  metricName: '__name__',
  withSketches: false,
};

test('a node tells the cardinality of its index, of all or some of its shards', async () => {
  const { database } = await openDatabase(folder);
  const nanos = realEnv.clock.nowNanos();
  const rows = Array.from({ length: 60 }, (_, i) => ({
    series: { __name__: `m${i % 3}`, host: `h${i}` },
    nanos,
    value: i,
  }));
  await tick(database);
  await writeRows(database, rows);
  const found = await database.statistics(request, never);
  assert.deepEqual(
    [found.seriesCount, found.nameCount, found.pairCount, found.openBlocks],
    [60, 2, 63, 60],
  );
  assert.deepEqual(
    found.seriesByMetric.map(({ name, value, count }) => [name, value, count]),
    [
      ['m0', '', 20],
      ['m1', '', 20],
      ['m2', '', 20],
    ],
  );
  assert.ok(found.startNanos <= nanos && nanos < found.endNanos);
  assert.deepEqual([found.created, found.createdLastHour, found.removed], [60, 60, 0]);
  assert.deepEqual([...found.shards], [0, 1, 2, 3]);
  assert.equal(found.pairSketch.length, 0);

  const parts = await Promise.all(
    [Uint32Array.of(0, 3), Uint32Array.of(1, 2)].map((shards) =>
      database.statistics({ ...request, shards, withSketches: true }, never),
    ),
  );
  assert.deepEqual([...parts[0]!.shards], [0, 3]);
  assert.equal(
    parts.reduce((sum, { seriesCount }) => sum + seriesCount, 0),
    60,
  );
  for (const part of parts) {
    assert.ok(part.seriesCount < 60);
    assert.equal(part.pairSketch.length, part.pairCount);
    assert.equal(part.valuesByName[0]!.sketch.length, part.valuesByName[0]!.count);
  }
  await assert.rejects(database.statistics({ ...request, limit: 1_000_000 }, never), {
    code: 'BAD_REQUEST',
    message: 'limit: must be at most 4000: 1000000',
  });
  await assert.rejects(database.statistics({ ...request, namespace: 'nothing' }, never), {
    code: 'NOT_FOUND',
  });
});
