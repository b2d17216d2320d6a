import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterAdmin } from '#cluster/admin/admin.ts';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { environmentDefault, namespacesKey, zoneDefault } from '#cluster/kv/keys.ts';
import { initPlacement } from '#cluster/placement/algorithm.ts';
import { placementToJson, type Placement } from '#cluster/placement/placement.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import { overriding } from '#test/overriding.ts';
import { TestCluster } from './cluster_testing.ts';
import { namespaceOf, readAll, type TestRow, writeRows } from './storage/database_testing.ts';

const never = new AbortController().signal;
const name = { environment: environmentDefault, zone: zoneDefault };
const now = realEnv.clock.nowNanos();
const rowsOf = (value: number): TestRow[] =>
  Array.from({ length: 60 }, (_, i) => ({
    series: { __name__: 'up', host: `h${i}` },
    nanos: now + BigInt(value),
    value: i + value,
  }));

const databaseOf = (cluster: TestCluster, id: string) => cluster.nodes.get(id)!.runtime.database;

/** A cluster of these nodes, with rows in filesets and others in memory and log alone. */
async function found(cluster: TestCluster, ids: readonly string[], env: Env = realEnv) {
  for (const id of ids) await cluster.start(id, env);
  const instances = ids.map((id) => cluster.instance(id));
  const shape = { numShards: 4, replicaFactor: ids.length };
  await cluster.placements.create(initPlacement(instances, shape), never);
  await cluster.addNamespace(namespaceOf('metrics'));
  for (const id of ids) await cluster.untilAvailable(id);
  for (const id of ids) {
    await writeRows(databaseOf(cluster, id), rowsOf(1));
    await databaseOf(cluster, id).flusher.flushAll(null, never);
    await writeRows(databaseOf(cluster, id), rowsOf(2));
  }
  const { placement, placementVersion } = cluster.nodes.get(ids[0]!)!.topology.view;
  return { placement: placement!, placementVersion };
}

/** What the HTTP API does with `placement/set`, confirmed and forced. */
async function set(cluster: TestCluster, placement: Placement): Promise<void> {
  const kv = cluster.kvStore.client();
  const admin = new ClusterAdmin({ ...realEnv, kv, cluster: name });
  const { version } = await cluster.placements.get(never);
  const body = { placement: placementToJson(placement), version, confirm: true, force: true };
  await admin.placementSet(body, plainRequest, never);
}

/** The same with one of its instances replaced by another one, which has all shards at once. */
function givenTo(placement: Placement, from: string, to: string): Placement {
  const instances = placement.instances.map((each) =>
    each.id === from ? { ...each, id: to, isolationGroup: to, endpoint: `${to}:9000` } : each,
  );
  return { ...placement, instances };
}

const isParked = (cluster: TestCluster, id: string): boolean => {
  const { parked, parking, store } = databaseOf(cluster, id);
  return !parking.isDue && parked.entries.length > 0 && store.seriesCount === 0;
};

/** It has all shards, and they count. */
function untilWhole(cluster: TestCluster, id: string): Promise<void> {
  return cluster.until(id, (_, { runtime: { database } }) => {
    const shards = database.shards.all();
    const areAvailable = shards.every(({ state }) => state === 'AVAILABLE');
    return shards.length === 4 && areAvailable && database.isBootstrapped;
  });
}

async function metricsOf(cluster: TestCluster, id: string): Promise<Map<string, number>> {
  const text = await cluster.nodes.get(id)!.metrics.text();
  const found = text.matchAll(/^tsdb_node_(parked_\w+) (\S+)$/gm);
  return new Map([...found].map(([, metric, value]) => [metric!, Number(value)]));
}

test('a placement that is set to somebody else takes no data: they are parked, and there when it is set right', async () => {
  await using cluster = new TestCluster();
  const { placement } = await found(cluster, ['a']);
  const before = await readAll(databaseOf(cluster, 'a'));
  assert.deepEqual([...(await metricsOf(cluster, 'a')).values()], [0, 0, 0]);
  await set(cluster, givenTo(placement, 'a', 'evil'));
  await cluster.until('a', () => isParked(cluster, 'a'));
  assert.equal((await readAll(databaseOf(cluster, 'a'))).size, 0);
  const metrics = await metricsOf(cluster, 'a');
  assert.ok(metrics.get('parked_bytes')! > 1000);
  assert.equal(metrics.get('parked_shards'), 4);
  assert.equal(metrics.get('parked_seconds_left'), 48 * 3600);
  await cluster.stop('a');
  await cluster.start('a');
  await cluster.until('a', (_, { runtime }) => runtime.database.isLoaded);
  assert.ok(isParked(cluster, 'a'), 'a restart changes nothing');
  await set(cluster, placement);
  await untilWhole(cluster, 'a');
  assert.deepEqual(await readAll(databaseOf(cluster, 'a')), before);
  assert.equal((await metricsOf(cluster, 'a')).get('parked_bytes'), 0);
  assert.deepEqual(cluster.fatal, []);
});

test('a placement that was deleted and made anew finds what it had', async () => {
  await using cluster = new TestCluster();
  const { placement } = await found(cluster, ['a']);
  const before = await readAll(databaseOf(cluster, 'a'));
  await cluster.placements.delete(never);
  await cluster.until('a', (view) => view.placement === null);
  await cluster.stop('a');
  await cluster.start('a');
  await cluster.until('a', (_, { runtime }) => runtime.database.isLoaded);
  await cluster.stop('a');
  // Made for another one at first.
  const shape = { numShards: 4, replicaFactor: 1 };
  await cluster.placements.create(initPlacement([cluster.instance('b')], shape), never);
  await cluster.start('a');
  await cluster.until('a', () => isParked(cluster, 'a'));
  await set(cluster, placement);
  await untilWhole(cluster, 'a');
  assert.deepEqual(await readAll(databaseOf(cluster, 'a')), before);
  assert.deepEqual(cluster.fatal, []);
});

test('a node that was without its shards for a time takes from the others what they took meanwhile', async () => {
  await using cluster = new TestCluster();
  const { placement } = await found(cluster, ['a', 'b', 'c']);
  await cluster.start('d');
  await set(cluster, givenTo(placement, 'c', 'd'));
  await cluster.until('c', () => isParked(cluster, 'c'));
  for (const id of ['a', 'b']) {
    await cluster.until(id, (view) => view.placement!.instances.some((each) => each.id === 'd'));
    await writeRows(databaseOf(cluster, id), rowsOf(3));
  }
  await set(cluster, placement);
  // By whom it is said to have everything, it is not believed.
  await cluster.until('c', (view) => view.placement!.instances.some(({ id }) => id === 'c'));
  await untilWhole(cluster, 'c');
  const all = await readAll(databaseOf(cluster, 'a'));
  assert.equal([...all.values()].flat().length, 180);
  assert.deepEqual(await readAll(databaseOf(cluster, 'c')), all);
  assert.equal(databaseOf(cluster, 'c').parked.entries.length, 0);
  assert.deepEqual(cluster.fatal, []);
});

test('all replicas that were taken away at once have everything when they are set right', async () => {
  await using cluster = new TestCluster();
  const ids = ['a', 'b', 'c'];
  const { placement } = await found(cluster, ids);
  const before = await readAll(databaseOf(cluster, 'a'));
  const foreign = ids.reduce((next, id) => givenTo(next, id, `evil-${id}`), placement);
  await set(cluster, foreign);
  for (const id of ids) await cluster.until(id, () => isParked(cluster, id));
  await set(cluster, placement);
  for (const id of ids) await untilWhole(cluster, id);
  for (const id of ids) assert.deepEqual(await readAll(databaseOf(cluster, id)), before);
  assert.deepEqual(cluster.fatal, []);
});

test('a registry that has lost a namespace costs none of its rows, and a deletion of it all of them', async () => {
  await using cluster = new TestCluster();
  await found(cluster, ['a']);
  const before = await readAll(databaseOf(cluster, 'a'));
  const kv = cluster.kvStore.client();
  const key = namespacesKey(name);
  const { value } = (await kv.get(key, never))!;
  const empty = new TextEncoder().encode('{"namespaces":{}}');
  await kv.transact([], [{ kind: 'put', key, value: empty }], never);
  await cluster.until('a', () => isParked(cluster, 'a'));
  await assert.rejects(readAll(databaseOf(cluster, 'a')), { code: 'NOT_FOUND' });
  await kv.transact([], [{ kind: 'put', key, value }], never);
  const isBack = (): boolean => databaseOf(cluster, 'a').isBootstrapped;
  await cluster.until('a', ({ namespaces }) => namespaces.has('metrics'));
  await cluster.until('a', () => databaseOf(cluster, 'a').namespaces.has('metrics') && isBack());
  assert.deepEqual(await readAll(databaseOf(cluster, 'a')), before);
  await cluster.deleteNamespace('metrics');
  await cluster.until('a', () => databaseOf(cluster, 'a').store.seriesCount === 0);
  assert.equal(databaseOf(cluster, 'a').parked.entries.length, 0);
  await cluster.addNamespace(namespaceOf('metrics'));
  await cluster.until('a', () => databaseOf(cluster, 'a').namespaces.has('metrics') && isBack());
  assert.equal((await readAll(databaseOf(cluster, 'a'))).size, 0);
  assert.deepEqual(cluster.fatal, []);
});

test('on a full disk parked data go, and writes are taken', async () => {
  await using cluster = new TestCluster();
  const disk = new SimulatedDisk({ below: () => 0 });
  let isFull = false;
  let folder = '';
  const noSpace = async (): Promise<void> => {
    if (!isFull || (await disk.list(`${folder}/parked/1`)).length === 0) return;
    throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
  };
  const full = overriding<SimulatedDisk>(disk, {
    async open(path, mode) {
      await noSpace();
      const file = await disk.open(path, mode);
      return {
        ...file,
        async write(position, parts) {
          await noSpace();
          await file.write(position, parts);
        },
      };
    },
  });
  folder = cluster.dataFolder('a');
  const { placement } = await found(cluster, ['a', 'b'], { ...realEnv, disk: full });
  // Two of the four shards are another one's.
  const some = placement.instances.map((each) => {
    if (each.id !== 'a') return each;
    return { ...each, shards: each.shards.filter(({ id }) => id < 2) };
  });
  await set(cluster, { ...placement, instances: some });
  const { parked } = databaseOf(cluster, 'a');
  await cluster.until('a', () => parked.entries.some(({ shards }) => shards.size === 2));
  await cluster.until('a', () => parked.entries.every(({ isBusy }) => !isBusy));
  isFull = true;
  const { outcomes } = await writeRows(databaseOf(cluster, 'a'), rowsOf(4));
  assert.ok([...outcomes].includes(0), 'rows of its own shards are taken');
  assert.equal(parked.entries.length, 0);
  assert.deepEqual(cluster.fatal, []);
});
