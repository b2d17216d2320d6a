import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { rowOutcome } from '#cluster/node/service.ts';
import { environmentDefault, zoneDefault } from '#cluster/kv/keys.ts';
import { addInstances, initPlacement, resetInstance } from '#cluster/placement/algorithm.ts';
import type { TopologyView } from '#cluster/topology/topology.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import { TestCluster } from './cluster_testing.ts';
import { Announcement, InstanceTaken } from './identity/announcement.ts';
import { openIdentity } from './identity/node_identity.ts';
import { namespaceOf, readAll, type TestRow, writeRows } from './storage/database_testing.ts';

const never = new AbortController().signal;
const now = realEnv.clock.nowNanos();
const rowsOf = (count: number, value: number): TestRow[] =>
  Array.from({ length: count }, (_, i) => ({
    series: { __name__: 'up', host: `h${i}` },
    nanos: now + BigInt(value),
    value: i + value,
  }));

async function singleNode(cluster: TestCluster, env: Env = realEnv) {
  const node = await cluster.start('a', env);
  await cluster.placements.create(
    initPlacement([cluster.instance('a')], { numShards: 8, replicaFactor: 1 }),
    never,
  );
  await cluster.addNamespace(namespaceOf('metrics'));
  await cluster.untilAvailable('a');
  return node;
}

async function threeNodes(cluster: TestCluster) {
  for (const id of ['a', 'b', 'c']) await cluster.start(id);
  await cluster.placements.create(
    initPlacement(
      ['a', 'b', 'c'].map((id) => cluster.instance(id)),
      { numShards: 8, replicaFactor: 3 },
    ),
    never,
  );
  await cluster.addNamespace(namespaceOf('metrics'));
  for (const id of ['a', 'b', 'c']) await cluster.untilAvailable(id);
}

const databaseOf = (cluster: TestCluster, id: string) => cluster.nodes.get(id)!.runtime.database;

test('a fresh node answers not bootstrapped, then marks its shards AVAILABLE at once', async () => {
  await using cluster = new TestCluster();
  const { runtime } = await cluster.start('a');
  await assert.rejects(writeRows(runtime.database, rowsOf(1, 1)), /not bootstrapped/);
  assert.equal((await runtime.database.health(never)).bootstrapped, false);
  await cluster.placements.create(
    initPlacement([cluster.instance('a')], { numShards: 8, replicaFactor: 1 }),
    never,
  );
  await cluster.untilAvailable('a');
  assert.equal((await cluster.placements.get(never)).version, 2);
  assert.equal((await runtime.database.health(never)).bootstrapped, true);
});

test('a namespace that is added is served without a restart, and a deleted one is gone', async () => {
  await using cluster = new TestCluster();
  const { runtime, metrics } = await singleNode(cluster);
  await cluster.addNamespace(namespaceOf('later'));
  await cluster.until('a', () => runtime.database.namespaces.has('later'));
  const { outcomes } = await writeRows(runtime.database, rowsOf(3, 1), { namespace: 'later' });
  assert.equal(outcomes.length, 0);
  assert.match(await metrics.text(), /^tsdb_node_commitlog_write_seconds_count 1$/m);
  await cluster.deleteNamespace('later');
  await cluster.until('a', () => !runtime.database.namespaces.has('later'));
  await assert.rejects(readAll(runtime.database, 'later'), /cannot find namespace/);
  // Its series go after the record of it in the commit log.
  await cluster.until('a', () => runtime.database.store.seriesCount === 0);
});

test('a namespace that is deleted while the disk is full is dropped when there is space', async () => {
  await using cluster = new TestCluster();
  const disk = new SimulatedDisk({ below: () => 0 });
  const { runtime } = await singleNode(cluster, { ...realEnv, disk });
  const { database } = runtime;
  await cluster.addNamespace(namespaceOf('later'));
  await cluster.until('a', () => database.namespaces.has('later'));
  await writeRows(database, rowsOf(3, 1), { namespace: 'later' });
  await writeRows(database, rowsOf(2, 1));
  disk.troubles.writeFailures = 1000;
  await cluster.deleteNamespace('later');
  await cluster.until(
    'a',
    () => cluster.fatal.length > 0 || database.commitlog.counts.failures > 2,
  );
  assert.deepEqual(cluster.fatal, []);
  await assert.rejects(readAll(database, 'later'), /cannot find namespace/);
  assert.equal((await readAll(database)).size, 2);
  disk.troubles.writeFailures = 0;
  await cluster.until('a', () => database.store.seriesCount === 2);
  // What came meanwhile is taken, the namespace with the same name as another one.
  await cluster.addNamespace(namespaceOf('later'));
  await cluster.until('a', () => database.namespaces.get('later')?.readyShards.size === 8);
  assert.equal((await readAll(database, 'later')).size, 0);
  assert.deepEqual(cluster.fatal, []);
});

test('a node that is added takes its shards from the donors and has them on disk', async () => {
  await using cluster = new TestCluster();
  const { runtime: a } = await singleNode(cluster);
  await writeRows(a.database, rowsOf(200, 1));
  const before = await readAll(a.database);
  const { runtime: b } = await cluster.start('b');
  await cluster.changePlacement((placement) =>
    addInstances(placement, [cluster.instance('b')], { force: false }),
  );
  await cluster.untilAvailable('b');
  await cluster.untilAvailable('a');
  const shards = b.database.shards.all().map(({ id }) => id);
  assert.equal(shards.length, 4);
  const moved = await readAll(b.database);
  const left = await readAll(a.database);
  assert.ok(moved.size > 0 && left.size > 0);
  assert.equal(moved.size + left.size, 200);
  for (const [name, samples] of before)
    assert.deepEqual(moved.get(name) ?? left.get(name), samples);
  const files = readdirSync(`${cluster.dataFolder('b')}/data/metrics/${shards[0]}`);
  assert.ok(files.some((name) => name.endsWith('-checkpoint.db')));
  await cluster.stop('b');
  const { runtime: again } = await cluster.start('b');
  await cluster.untilAvailable('b');
  assert.deepEqual(await readAll(again.database), moved);
  assert.deepEqual(cluster.fatal, []);
});

test('writes go on while a shard moves, and nothing that both owners took is missing', async () => {
  await using cluster = new TestCluster();
  const { runtime: a } = await singleNode(cluster);
  await writeRows(a.database, rowsOf(100, 1));
  const { runtime: b } = await cluster.start('b');
  await cluster.changePlacement((placement) =>
    addInstances(placement, [cluster.instance('b')], { force: false }),
  );
  // As a session does it: every owner in the writer's placement must acknowledge a row.
  const acknowledged: Set<number>[] = Array.from({ length: 100 }, () => new Set([1]));
  const isMoved = (view: TopologyView): boolean =>
    view.placement!.instances.length === 2 &&
    view.placement!.instances.every(({ shards }) =>
      shards.every(({ state }) => state === 'AVAILABLE'),
    );
  // However long it takes on this machine: before, meanwhile, and afterwards.
  let writesAfter = 0;
  for (let value = 2; writesAfter < 10; value += 1) {
    const view = cluster.nodes.get('a')!.topology.view;
    if (isMoved(view)) writesAfter += 1;
    const owners = [a, b].filter((runtime) =>
      view.placement!.instances.some(({ id }) => id === runtime.database.instanceId),
    );
    const results = await Promise.allSettled(
      owners.map(({ database }) =>
        writeRows(database, rowsOf(100, value), { placementVersion: view.placementVersion }),
      ),
    );
    for (let i = 0; i < 100; i += 1) {
      const outcomes = results.map((result) =>
        result.status === 'rejected' ? -1 : (result.value.outcomes[i] ?? rowOutcome.written),
      );
      const refusedByOwner = outcomes.some(
        (outcome) => outcome !== rowOutcome.written && outcome !== rowOutcome.shardNotOwned,
      );
      if (!refusedByOwner && outcomes.includes(rowOutcome.written)) acknowledged[i]!.add(value);
    }
    await realEnv.clock.sleep(1, never);
  }
  await cluster.untilAvailable('b');
  await cluster.untilAvailable('a');
  const left = await readAll(a.database);
  const moved = await readAll(b.database);
  assert.ok(moved.size > 10);
  for (let i = 0; i < 100; i += 1) {
    const name = `__name__=up,host=h${i}`;
    const values = new Set((moved.get(name) ?? left.get(name))!.map(([, value]) => value - i));
    assert.ok(acknowledged[i]!.size > 10, 'writes go through');
    assert.deepEqual([...acknowledged[i]!.difference(values)], [], `${name} misses samples`);
  }
});

test('a new data folder under a known instance is filled from the peers before it counts', async () => {
  await using cluster = new TestCluster();
  await threeNodes(cluster);
  for (const id of ['a', 'b']) await writeRows(databaseOf(cluster, id), rowsOf(40, 1));
  for (const id of ['b', 'c']) await writeRows(databaseOf(cluster, id), rowsOf(40, 2));
  await cluster.stop('b');
  rmSync(cluster.dataFolder('b'), { recursive: true });
  const { version } = await cluster.placements.get(never);
  await cluster.start('b');
  await cluster.until('b', (view) => view.placementVersion > version);
  await cluster.untilAvailable('b');
  const samples = await readAll(databaseOf(cluster, 'b'));
  assert.equal(samples.size, 40);
  for (const rows of samples.values()) assert.equal(rows.length, 2);
  assert.deepEqual(cluster.fatal, []);
});

test('a process marks nothing of what another process of its instance has given up, and ends', async () => {
  await using cluster = new TestCluster();
  await threeNodes(cluster);
  const { kvStore } = cluster;
  const folder = `${cluster.folder}/another`;
  const other = new Announcement({
    env: realEnv,
    kv: kvStore.client(),
    cluster: { environment: environmentDefault, zone: zoneDefault },
    instanceId: 'a',
    identity: await openIdentity(realEnv, folder),
    dataFolder: folder,
    storeLineage: () => ({ id: '', follows: [] }),
    onOlderStore: async () => {},
  });
  const giveUp = () => cluster.changePlacement((current) => resetInstance(current, 'a'));
  assert.equal(await other.make(giveUp, never), 'new folder');
  const statesOfA = async () => {
    const { value } = await cluster.placements.require(never);
    const { shards } = value.instances.find(({ id }) => id === 'a')!;
    return new Set(shards.map(({ state }) => state));
  };
  while (cluster.fatal.length === 0) {
    assert.deepEqual(await statesOfA(), new Set(['INITIALIZING']));
    await realEnv.clock.sleep(10, never);
  }
  assert.ok(cluster.fatal[0] instanceof InstanceTaken);
  assert.deepEqual(await statesOfA(), new Set(['INITIALIZING']));
});

test('a running node that is reset takes its shards from the others again', async () => {
  await using cluster = new TestCluster();
  await threeNodes(cluster);
  for (const id of ['b', 'c']) await writeRows(databaseOf(cluster, id), rowsOf(20, 1));
  await cluster.changePlacement((current) => resetInstance(current, 'a'));
  await cluster.until('a', ({ placementVersion }) => placementVersion > 4);
  await cluster.untilAvailable('a');
  assert.equal((await readAll(databaseOf(cluster, 'a'))).size, 20);
});

test('an AVAILABLE node is served after a restart although its peers are down', async () => {
  await using cluster = new TestCluster();
  await threeNodes(cluster);
  await writeRows(databaseOf(cluster, 'a'), rowsOf(5, 1));
  for (const id of ['a', 'b', 'c']) await cluster.stop(id);
  await cluster.start('a');
  await cluster.untilAvailable('a');
  assert.equal((await readAll(databaseOf(cluster, 'a'))).size, 5);
});

test('a damaged fileset is set aside and its block is fetched from the peers again', async () => {
  await using cluster = new TestCluster();
  await threeNodes(cluster);
  for (const id of ['a', 'b', 'c']) await writeRows(databaseOf(cluster, id), rowsOf(40, 1));
  await cluster.stop('b');
  rmSync(cluster.dataFolder('b'), { recursive: true });
  await cluster.start('b');
  await cluster.until('b', (view) => view.placementVersion > 4);
  await cluster.untilAvailable('b');
  await cluster.stop('b');
  const shard = readdirSync(`${cluster.dataFolder('b')}/data/metrics`)[0]!;
  const folder = `${cluster.dataFolder('b')}/data/metrics/${shard}`;
  const data = `${folder}/${readdirSync(folder).find((name) => name.endsWith('-data.db'))!}`;
  const bytes = readFileSync(data);
  bytes[bytes.length - 3]! ^= 1;
  writeFileSync(data, bytes);
  const { runtime, metrics } = await cluster.start('b');
  await cluster.untilAvailable('b');
  const { database } = runtime;
  // The damage is met by the first read, which serves the neighbours and counts the shard as not
  // whole.
  const first = [...(await readAll(database)).values()];
  assert.equal(first.filter((rows) => rows.length === 1).length, 39);
  assert.equal(database.isBootstrapped, false);
  await cluster.until('b', () => database.isBootstrapped);
  const samples = await readAll(database);
  assert.ok([...samples.values()].every((rows) => rows.length === 1));
  await database.namespaces.get('metrics')!.files.settled();
  assert.ok(!readdirSync(folder).some((name) => name.endsWith('.corrupt')), 'it is repaired');
  assert.ok(readdirSync(folder).some((name) => name.endsWith('-1-checkpoint.db')));
  assert.match(await metrics.text(), /tsdb_node_corruptions_total 1\n/);
});

/** Two replicas of one shard with rows in two closed blocks, both in filesets. */
async function twoReplicas(cluster: TestCluster) {
  for (const id of ['a', 'b']) await cluster.start(id);
  const instances = ['a', 'b'].map((id) => cluster.instance(id));
  const placement = initPlacement(instances, { numShards: 1, replicaFactor: 2 });
  await cluster.placements.create(placement, never);
  const cold = namespaceOf('metrics', { coldWritesEnabled: true });
  await cluster.addNamespace(cold);
  for (const id of ['a', 'b']) await cluster.untilAvailable(id);
  const { blockSizeNanos } = cold.options.retentionOptions;
  const blocks = [4n, 3n].map((back) => (now / blockSizeNanos - back) * blockSizeNanos);
  const rows = blocks.flatMap((start) => rowsOf(20, 1).map((row) => ({ ...row, nanos: start })));
  for (const id of ['a', 'b']) {
    await writeRows(databaseOf(cluster, id), rows);
    await databaseOf(cluster, id).flush(null, never);
  }
  const filesOf = (id: string) => databaseOf(cluster, id).namespaces.get('metrics')!.files;
  return { blocks, rows, filesOf, expected: await readAll(databaseOf(cluster, 'a')) };
}

test('replicas that lack different blocks of a shard give each other what they have', async () => {
  await using cluster = new TestCluster();
  const { blocks, filesOf, rows, expected } = await twoReplicas(cluster);
  for (const [i, id] of ['a', 'b'].entries()) {
    filesOf(id).setAside(filesOf(id).get(0, blocks[i]!)!, 'test');
    assert.equal(databaseOf(cluster, id).isBootstrapped, false);
  }
  // Blocks that are whole are flushed meanwhile.
  await writeRows(databaseOf(cluster, 'a'), rows.slice(-1));
  assert.equal((await databaseOf(cluster, 'a').flusher.flushAll(null, never)).blocksLeft, 0);
  for (const id of ['a', 'b']) {
    await cluster.until(id, (_, { runtime }) => runtime.database.isBootstrapped);
  }
  for (const id of ['a', 'b']) assert.deepEqual(await readAll(databaseOf(cluster, id)), expected);
});

test('a peer that finds damage while it streams has not given what it had', async () => {
  await using cluster = new TestCluster();
  const { blocks, filesOf } = await twoReplicas(cluster);
  const path = filesOf('b').get(0, blocks[0]!)!.dataPath;
  const bytes = readFileSync(path);
  bytes[bytes.length - 3]! ^= 1;
  writeFileSync(path, bytes);
  filesOf('a').setAside(filesOf('a').get(0, blocks[0]!)!, 'test');
  await cluster.until('b', (_, { runtime }) => !runtime.database.isBootstrapped);
  await realEnv.clock.sleep(500, never);
  assert.equal(databaseOf(cluster, 'a').isBootstrapped, false);
  const folder = `${cluster.dataFolder('a')}/data/metrics/0`;
  assert.ok(readdirSync(folder).some((name) => name.endsWith('-data.db.corrupt')));
});

test('a repair that a stop interrupts is begun again by the next start', async () => {
  await using cluster = new TestCluster();
  await threeNodes(cluster);
  for (const id of ['a', 'b', 'c']) await writeRows(databaseOf(cluster, id), rowsOf(40, 1));
  const expected = await readAll(databaseOf(cluster, 'a'));
  await databaseOf(cluster, 'b').flush(null, never);
  for (const id of ['a', 'b', 'c']) await cluster.stop(id);
  const folder = `${cluster.dataFolder('b')}/data/metrics/0`;
  const index = `${folder}/${readdirSync(folder).find((name) => name.endsWith('-index.db'))!}`;
  const bytes = readFileSync(index);
  bytes[bytes.length - 3]! ^= 1;
  writeFileSync(index, bytes);
  rmSync(`${cluster.dataFolder('b')}/data/metrics/index.db`, { force: true });
  for (const corruptions of [1, 0, 0]) {
    const { runtime, metrics } = await cluster.start('b');
    await cluster.until('b', () => runtime.database.isLoaded);
    assert.equal(runtime.database.isBootstrapped, false, 'nobody has given the block');
    assert.match(await metrics.text(), new RegExp(`tsdb_node_corruptions_total ${corruptions}\n`));
    assert.ok(readdirSync(folder).some((name) => name.endsWith('-index.db.corrupt')));
    await cluster.stop('b');
  }
  for (const id of ['a', 'b', 'c']) await cluster.start(id);
  await cluster.untilAvailable('b');
  const { database } = cluster.nodes.get('b')!.runtime;
  assert.deepEqual(await readAll(database), expected);
  await database.namespaces.get('metrics')!.files.settled();
  assert.ok(!readdirSync(folder).some((name) => name.endsWith('.corrupt')));
});

test('a donor refuses writers that do not know the new owner', async () => {
  await using cluster = new TestCluster();
  const { runtime: a } = await singleNode(cluster);
  const { version } = a.database.shards;
  await cluster.changePlacement((placement) =>
    addInstances(placement, [cluster.instance('b')], { force: false }),
  );
  await cluster.until('a', () => a.database.shards.version > version);
  const { outcomes } = await writeRows(a.database, rowsOf(100, 1), { placementVersion: version });
  const stale = [...outcomes].filter((outcome) => outcome === rowOutcome.stalePlacement).length;
  assert.ok(stale > 0 && stale < 100);
});
