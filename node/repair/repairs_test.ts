import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allTime, type Deletion } from '#cluster/metadata/deletions.ts';
import { initPlacement, replaceInstances } from '#cluster/placement/algorithm.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { TestCluster } from '../cluster_testing.ts';
import type { Database } from '../storage/database.ts';
import {
  namespaceOf,
  never,
  readAll,
  type TestRow,
  writeRows,
} from '../storage/database_testing.ts';
import type { RepairOptions } from './options.ts';

const often: RepairOptions = {
  enabled: true,
  type: 'default',
  strategy: 'full_sweep',
  throttleMillis: 20,
  checkIntervalMillis: 20,
};
const namespace = namespaceOf('metrics', { coldWritesEnabled: true, repairEnabled: true });
const { blockSizeNanos } = namespace.options.retentionOptions;
/** In a block that is closed. */
const closed = (realEnv.clock.nowNanos() / blockSizeNanos - 3n) * blockSizeNanos + 1_000_000_000n;

/** Every third series has typed rows. */
function rowsOf(hosts: readonly number[], value = 1, nanos = closed): TestRow[] {
  return hosts.map((host) => ({
    series: { __name__: 'cpu', host: `${host}` },
    nanos,
    value,
    isTyped: host % 3 === 0,
  }));
}

const range = (from: number, end: number): number[] =>
  Array.from({ length: end - from }, (_, i) => from + i);

async function started(ids: readonly string[], repair: RepairOptions = often) {
  const cluster = new TestCluster();
  cluster.repair = repair;
  for (const id of ids) await cluster.start(id);
  const instances = ids.map((id) => cluster.instance(id));
  const shape = { numShards: 2, replicaFactor: ids.length };
  await cluster.placements.create(initPlacement(instances, shape), never);
  await cluster.addNamespace(namespace);
  for (const id of ids) await cluster.untilAvailable(id);
  return cluster;
}

const databaseOf = (cluster: TestCluster, id: string): Database =>
  cluster.nodes.get(id)!.runtime.database;
const repairsOf = (cluster: TestCluster, id: string) => cluster.nodes.get(id)!.runtime.repairs;

async function seriesOf(cluster: TestCluster, id: string): Promise<string> {
  const all = [...(await readAll(databaseOf(cluster, id)))];
  return all
    .map(([series, rows]) => `${series}: ${rows.map(([at, value]) => `${at} ${value}`).join()}`)
    .sort()
    .join('\n');
}

async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const giveUp = realEnv.clock.deadline(8_000, never);
  while (!(await holds())) {
    assert.ok(!giveUp.aborted, `it never comes: ${what}`);
    await realEnv.clock.sleep(10, never);
  }
}

/** Some rounds more, in which everything is compared. */
async function rounds(cluster: TestCluster, id: string, count: number): Promise<void> {
  const { counts } = repairsOf(cluster, id);
  const before = counts.rounds;
  await until('rounds', () => counts.rounds >= before + count);
}

test('three replicas with other rows each come to have all of them, and then nothing moves any more', async () => {
  await using cluster = await started(['a', 'b', 'c']);
  const shares: Record<string, number[]> = { a: range(0, 30), b: range(20, 60), c: [] };
  for (const [id, hosts] of Object.entries(shares)) {
    await writeRows(databaseOf(cluster, id), rowsOf(hosts));
    await databaseOf(cluster, id).flush(null, never);
  }
  await using whole = await started(['z'], { ...often, enabled: false });
  await writeRows(databaseOf(whole, 'z'), rowsOf(range(0, 60)));
  const wanted = await seriesOf(whole, 'z');
  for (const id of ['a', 'b', 'c']) {
    await until(`all rows on ${id}`, async () => (await seriesOf(cluster, id)) === wanted);
  }
  const ids = ['a', 'b', 'c'];
  await until('equality', async () => {
    for (const id of ids) await rounds(cluster, id, 1);
    return ids.every((id) => repairsOf(cluster, id).differing === 0);
  });
  const moved = ids.map((id) => repairsOf(cluster, id).counts.bytesFetched);
  for (const id of ids) await rounds(cluster, id, 3);
  assert.deepEqual(
    ids.map((id) => repairsOf(cluster, id).counts.bytesFetched),
    moved,
  );
  assert.equal(repairsOf(cluster, 'a').waiting, 0);
  assert.deepEqual(cluster.fatal, []);
});

test('rows that came late and lie in memory are compared too', async () => {
  await using cluster = await started(['a', 'b']);
  for (const id of ['a', 'b']) {
    await writeRows(databaseOf(cluster, id), rowsOf(range(0, 200)));
    await databaseOf(cluster, id).flush(null, never);
  }
  for (const id of ['a', 'b']) await rounds(cluster, id, 2);
  const { counts } = repairsOf(cluster, 'b');
  const before = counts.seriesFetched;
  const late = rowsOf([7, 300], 2, closed + 5_000_000_000n);
  await writeRows(databaseOf(cluster, 'a'), late);
  const wanted = await seriesOf(cluster, 'a');
  await until('late rows', async () => (await seriesOf(cluster, 'b')) === wanted);
  assert.equal(counts.seriesFetched - before, 2, 'of 201 series two differ');
});

test('of two rows with one time the later version wins on both sides', async () => {
  await using cluster = await started(['a', 'b']);
  const writes = [
    ['a', 5],
    ['b', 3],
    ['b', 4],
  ] as const;
  for (const [id, value] of writes) {
    await writeRows(databaseOf(cluster, id), rowsOf([1], value));
    await databaseOf(cluster, id).flush(null, never);
  }
  await until('the later row', async () => /1 4$|: \d+ 4/.test(await seriesOf(cluster, 'a')));
  await until('equality', async () => {
    for (const id of ['a', 'b']) await rounds(cluster, id, 1);
    return ['a', 'b'].every((id) => repairsOf(cluster, id).differing === 0);
  });
  assert.equal(await seriesOf(cluster, 'a'), await seriesOf(cluster, 'b'));
});

test('with only_compare differences are counted, and nothing is taken', async () => {
  await using cluster = await started(['a', 'b'], { ...often, type: 'only_compare' });
  await writeRows(databaseOf(cluster, 'a'), rowsOf(range(0, 10)));
  await until('a difference', () => repairsOf(cluster, 'b').counts.seriesFetched >= 10);
  assert.equal(await seriesOf(cluster, 'b'), '');
  assert.ok(repairsOf(cluster, 'b').differing > 0);
  const { metrics } = cluster.nodes.get('b')!;
  assert.match(await metrics.text(), /tsdb_node_repair_blocks_differed_total [1-9]/);
});

test('a namespace that does not ask for it is not compared, and a round on demand is refused when nothing is', async () => {
  await using cluster = await started(['a', 'b'], { ...often, enabled: false });
  assert.throws(() => repairsOf(cluster, 'a').demand(), { code: 'BAD_REQUEST' });
  await using other = new TestCluster();
  other.repair = often;
  for (const id of ['a', 'b']) await other.start(id);
  const instances = ['a', 'b'].map((id) => other.instance(id));
  await other.placements.create(
    initPlacement(instances, { numShards: 1, replicaFactor: 2 }),
    never,
  );
  await other.addNamespace(namespaceOf('metrics', { coldWritesEnabled: true }));
  for (const id of ['a', 'b']) await other.untilAvailable(id);
  let asked = 0;
  other.onCall = (_, method) => {
    if (method === 'compareRows') asked += 1;
  };
  await rounds(other, 'a', 3);
  assert.equal(asked, 0);
});

test('a replica of a former release is left in peace, and counted', async () => {
  await using cluster = await started(['a', 'b', 'c']);
  const asked: string[] = [];
  cluster.onCall = (id, method) => {
    if (method !== 'compareRows' || id !== 'b') return;
    asked.push(id);
    throw new TsdbError('UNIMPLEMENTED', 'unknown method CompareRows');
  };
  await writeRows(databaseOf(cluster, 'c'), rowsOf([1]));
  await until('rows of the others', async () => (await seriesOf(cluster, 'a')) !== '');
  await rounds(cluster, 'a', 3);
  assert.ok(asked.length <= 3, `asked ${asked.length} times`);
  const text = await cluster.nodes.get('a')!.metrics.text();
  assert.match(text, /tsdb_node_repair_failures_total\{reason="UNIMPLEMENTED"\} 1\n/);
});

test('an owner of which a shard moves away is compared as long as it is read', async () => {
  await using cluster = await started(['a', 'b', 'c']);
  await cluster.stop('b');
  // Nobody ever starts who is to have it.
  await cluster.changePlacement((placement) =>
    replaceInstances(placement, ['c'], [cluster.instance('d')], { force: false }),
  );
  for (const [place, id] of ['a', 'c'].entries()) {
    await writeRows(databaseOf(cluster, id), rowsOf([place + 1]));
    await databaseOf(cluster, id).flush(null, never);
  }
  for (const id of ['a', 'c']) {
    await until(
      `all rows on ${id}`,
      async () => (await seriesOf(cluster, id)).split('\n').length === 2,
    );
  }
});

test('it is known whether a node has had all that the other owners have of a block', async () => {
  await using cluster = await started(['a', 'b', 'c']);
  await cluster.stop('c');
  // It may have been compared with c.
  await cluster.stop('a');
  await cluster.start('a');
  await writeRows(databaseOf(cluster, 'b'), rowsOf([1]));
  await databaseOf(cluster, 'b').flush(null, never);
  await until('rows of b', async () => (await seriesOf(cluster, 'a')) !== '');
  const start = closed - (closed % blockSizeNanos);
  const hasTaken = (): boolean => {
    const { namespaces, shards } = databaseOf(cluster, 'a');
    const its = namespaces.get('metrics')!;
    return shards.all().every(({ id }) => repairsOf(cluster, 'a').hasTaken(its, id, start));
  };
  await rounds(cluster, 'a', 3);
  assert.equal(hasTaken(), false, 'c may have more');
  await cluster.start('c');
  await until('all that c has', hasTaken);
  databaseOf(cluster, 'c').namespaces.get('metrics')!.expiredBeforeNanos = start + blockSizeNanos;
  await cluster.stop('a');
  await cluster.start('a');
  await until('all but what c has let go', hasTaken);
});

test('a replica that fails keeps nobody from comparing with the others', async () => {
  await using cluster = await started(['a', 'b', 'c']);
  cluster.onCall = (id, method) => {
    if (method === 'compareRows' && id === 'b')
      throw new TsdbError('DEADLINE_EXCEEDED', 'no answer');
  };
  await writeRows(databaseOf(cluster, 'c'), rowsOf([1]));
  await until('rows of the other', async () => (await seriesOf(cluster, 'a')) !== '');
});

test('rows are compared under equal deletions only: what one replica has deleted does not come back', async () => {
  await using cluster = await started(['a', 'b']);
  for (const id of ['a', 'b']) {
    await writeRows(databaseOf(cluster, id), rowsOf([1, 2, 3]));
    await databaseOf(cluster, id).flush(null, never);
  }
  await realEnv.clock.sleep(3, never);
  const deletedAt = realEnv.clock.nowNanos();
  const deletion: Deletion = {
    sequence: 1,
    namespace: 'metrics',
    query: { kind: 'term', field: 'host', term: '2' },
    ...allTime,
    version: Number(versionAtNanos(deletedAt)),
    createdNanos: deletedAt,
    expiresNanos: deletedAt + 3_600_000_000_000n,
    selectors: [],
  };
  await databaseOf(cluster, 'a').deletions.apply(deletion);
  const refused = /tsdb_node_repair_failures_total\{reason="deletionsDiffer"\} [1-9]/;
  for (const id of ['a', 'b']) {
    const { metrics } = cluster.nodes.get(id)!;
    await until(`a refusal on ${id}`, async () => refused.test(await metrics.text()));
  }
  assert.doesNotMatch(await seriesOf(cluster, 'a'), /host=2: \d/);
  await databaseOf(cluster, 'b').deletions.apply(deletion);
  for (const id of ['a', 'b']) await rounds(cluster, id, 3);
  assert.doesNotMatch(await seriesOf(cluster, 'b'), /host=2: \d/);
});
