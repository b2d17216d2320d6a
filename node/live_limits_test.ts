import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setKvstore } from '#cluster/admin/kvstore.ts';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { noQueryLimits, noRuntimeLimits } from '#cluster/metadata/runtime_limits.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { LiveLimits, limitsOf } from './live_limits.ts';
import type { Database } from './storage/database.ts';
import {
  closeDatabases,
  never,
  openDatabase,
  readAll,
  writeRows,
} from './storage/database_testing.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-live-limits-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});
const cluster = { environment: 'default_env', zone: 'embedded' };

async function open(): Promise<{
  database: Database;
  limits: LiveLimits;
  set: (key: string, value: unknown) => Promise<void>;
}> {
  const { database } = await openDatabase(mkdtempSync(join(folder, 'data-')));
  const store = new MemoryKvStore({ clock: realEnv.clock });
  const kv = store.client();
  const env = realEnv;
  const limits = new LiveLimits({
    kv: store.client(),
    cluster,
    env,
    log: silentLog,
    configured: database.admission.limits,
    shards: database.shards,
    onLimits: (next) => database.setLimits(next),
  });
  limits.follow();
  const set = async (key: string, value: unknown): Promise<void> => {
    const before = database.admission.limits;
    await setKvstore({ kv, cluster }, { key, value, commit: true }, { dryRun: false }, never);
    while (database.admission.limits === before) await realEnv.clock.sleep(1, never);
  };
  return { database, limits, set };
}

const row = (host: string, nanos: bigint) => ({ series: { host }, nanos, value: 1 });

test('new series above the live limit are refused, known ones are written', async () => {
  const { database, limits, set } = await open();
  await using _ = limits;
  const now = realEnv.clock.nowNanos();
  await writeRows(database, [row('known', now)]);
  await set('tsdb.node.cluster-new-series-insert-limit', 2);
  const hosts = ['known', ...Array.from({ length: 20 }, (__, i) => `h${i}`)];
  const { outcomes } = await writeRows(
    database,
    hosts.map((host) => row(host, now + 1n)),
  );
  assert.equal(outcomes[0], rowOutcome.written);
  const refused = outcomes.filter((outcome) => outcome === rowOutcome.resourceExhausted).length;
  assert.ok(refused >= 15, `${refused} refused`);
  assert.equal(database.newSeries.refused, refused);
  await set('tsdb.node.cluster-new-series-insert-limit', null);
  const again = await writeRows(
    database,
    hosts.map((host) => row(host, now + 2n)),
  );
  assert.equal(again.outcomes.length, 0);
});

test('queries over a limit of a time are refused until it is over, and counted', async () => {
  const { database, limits, set } = await open();
  await using _ = limits;
  const now = realEnv.clock.nowNanos();
  await writeRows(
    database,
    Array.from({ length: 10 }, (__, i) => row(`h${i}`, now)),
  );
  await database.flush(null, never);
  const limit = { limit: 15, lookbackSeconds: 3600 };
  await set('tsdb.query.limits', { maxRecentlyQueriedSeriesBlocks: limit });
  assert.equal((await readAll(database)).size, 10);
  await assert.rejects(readAll(database), {
    code: 'RESOURCE_EXHAUSTED',
    message: 'query aborted due to limit: name=series-blocks, limit=15, current=20, within=3600s',
  });
  assert.equal(database.queries.exceeded('seriesBlocks'), 1);
  await set('tsdb.query.limits', { maxRecentlyQueriedSeriesDiskRead: limit });
  assert.equal((await readAll(database)).size, 10);
  await assert.rejects(readAll(database), /name=disk-series-read/);
  await set('tsdb.query.limits', { maxRecentlyQueriedSeriesDiskBytesRead: { limit: 1 } });
  await assert.rejects(readAll(database), /name=disk-bytes-read/);
  await set('tsdb.query.limits', { maxRecentlyQueriedMetadataRead: { forceExceeded: true } });
  assert.equal((await readAll(database)).size, 10);
  const everything = {
    namespace: 'metrics',
    placementVersion: 0,
    query: { kind: 'all' },
    tagNames: [],
    namesOnly: false,
    limit: 0,
    startNanos: 0n,
    endNanos: 2n ** 62n,
  } as const;
  await assert.rejects(database.aggregate(everything, never), /forced limit: name=metadata-read/);
  await set('tsdb.query.limits', null);
  await database.aggregate(everything, never);
  assert.ok(database.queries.total('diskBytesRead') > 0, 'work is counted without limits too');
});

test('a key stands over the configuration, and without it the configuration holds', () => {
  const configured = {
    outstandingWritesMax: 1,
    outstandingReadsMax: 2,
    newSeriesPerSecondMax: 3,
    query: noQueryLimits,
  };
  const placement = { numShards: 4, replicaFactor: 1 };
  assert.deepEqual(limitsOf(configured, noRuntimeLimits, placement, 4), configured);
  const ofCluster = { ...configured, newSeriesPerSecondMax: 90 };
  const shareIn = (replicaFactor: number, ownShards: number): number =>
    limitsOf(ofCluster, noRuntimeLimits, { numShards: 4, replicaFactor }, ownShards)
      .newSeriesPerSecondMax;
  assert.deepEqual([shareIn(1, 4), shareIn(1, 1), shareIn(3, 4), shareIn(3, 2)], [90, 23, 30, 15]);
  const live = { ...noRuntimeLimits, outstandingWritesMax: 0, clusterNewSeriesPerSecondMax: 100 };
  const both = limitsOf(configured, live, placement, 2);
  assert.equal(both.outstandingWritesMax, 0);
  assert.equal(both.outstandingReadsMax, 2);
  assert.equal(both.newSeriesPerSecondMax, 50);
});
