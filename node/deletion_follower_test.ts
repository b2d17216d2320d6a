import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterAdmin } from '#cluster/admin/admin.ts';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { DeletionLog } from '#cluster/metadata/deletion_log.ts';
import { allTime } from '#cluster/metadata/deletions.ts';
import { deletionsPrefix, environmentDefault, zoneDefault } from '#cluster/kv/keys.ts';
import { addInstances, initPlacement, resetInstance } from '#cluster/placement/algorithm.ts';
import { realEnv } from '#lib/env/real.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { TestCluster } from './cluster_testing.ts';
import type { Database } from './storage/database.ts';
import { namespaceOf, readAll, type TestRow, writeRows } from './storage/database_testing.ts';

const never = new AbortController().signal;
const name = { environment: environmentDefault, zone: zoneDefault };
const ids = ['a', 'b', 'c'] as const;
const now = realEnv.clock.nowNanos();

const rowsOf = (host: string, count: number, value = 1): TestRow[] =>
  Array.from({ length: count }, (_, i) => ({
    series: { __name__: 'up', host },
    nanos: now - BigInt(i) * 1_000_000_000n,
    value,
  }));
const ofHost = (host: string): IndexQuery => ({ kind: 'term', field: 'host', term: host });

class Deleting implements AsyncDisposable {
  readonly cluster: TestCluster = new TestCluster();
  readonly log: DeletionLog = new DeletionLog(this.cluster.kvStore.client(), name);

  async open(): Promise<this> {
    for (const id of ids) await this.cluster.start(id);
    const instances = ids.map((id) => this.cluster.instance(id));
    const placement = initPlacement(instances, { numShards: 4, replicaFactor: 3 });
    await this.cluster.placements.create(placement, never);
    await this.cluster.addNamespace(namespaceOf('metrics'));
    for (const id of ids) await this.cluster.untilAvailable(id);
    return this;
  }

  database(id: string): Database {
    return this.cluster.nodes.get(id)!.runtime.database;
  }

  async write(rows: TestRow[], to: readonly string[] = ids): Promise<void> {
    for (const id of to) await writeRows(this.database(id), rows);
  }

  /** @returns its sequence */
  async delete(query: IndexQuery): Promise<number> {
    await realEnv.clock.sleep(3, never);
    const { value } = await this.cluster.namespaces.get(never);
    const request = { namespace: 'metrics', query, ...allTime, selectors: [] };
    const [deletion] = await this.log.append([request], value, realEnv.clock, never);
    await realEnv.clock.sleep(3, never);
    return deletion!.sequence;
  }

  whenAll(sequence: number, of: readonly string[] = ids): Promise<readonly string[]> {
    const deadline = realEnv.clock.deadline(8_000, never);
    return this.log.whenAll(of, ({ applied }) => applied >= sequence, deadline);
  }

  async hosts(id: string): Promise<Record<string, number>> {
    const found: Record<string, number> = {};
    for (const [series, rows] of await readAll(this.database(id))) {
      if (rows.length > 0) found[series.split('host=')[1]!] = rows.length;
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster[Symbol.asyncDispose]();
  }
}

test('all nodes apply a deletion and confirm it; one that was away does before it serves', async () => {
  await using world = await new Deleting().open();
  await world.write([...rowsOf('x', 20), ...rowsOf('y', 20), ...rowsOf('z', 20)]);
  assert.deepEqual(await world.whenAll(await world.delete(ofHost('x'))), []);
  for (const id of ids) assert.deepEqual(await world.hosts(id), { y: 20, z: 20 });
  await world.database('c').flush(null, never);
  await world.cluster.stop('c');
  const sequence = await world.delete(ofHost('y'));
  assert.deepEqual(await world.whenAll(sequence, ['a', 'b']), []);
  await world.write(rowsOf('y', 2, 7), ['a', 'b']);
  await world.cluster.start('c');
  // No answer before the deletion is applied.
  await world.cluster.until('c', (_, { runtime }) => runtime.database.isLoaded);
  assert.equal(world.database('c').deletions.appliedSequence, sequence);
  assert.deepEqual(await world.hosts('c'), { z: 20 });
  assert.deepEqual(await world.hosts('a'), { y: 2, z: 20 });
  assert.deepEqual(await world.whenAll(sequence), []);
});

test('what is deleted does not come back over peers, from files that are not rewritten yet', async () => {
  await using world = await new Deleting().open();
  await world.write([...rowsOf('x', 20), ...rowsOf('y', 20)]);
  for (const id of ids) await world.database(id).flush(null, never);
  await world.write(rowsOf('x', 5, 2));
  await world.whenAll(await world.delete(ofHost('x')));
  await world.write(rowsOf('x', 1, 3));
  await world.cluster.stop('c');
  await realEnv.disk.removeTree(world.cluster.dataFolder('c'));
  await world.cluster.start('c');
  await world.cluster.untilAvailable('c');
  assert.deepEqual(await world.hosts('c'), { x: 1, y: 20 });
  // A node more, in the place of one that leaves.
  await world.cluster.start('d');
  await world.cluster.changePlacement((placement) =>
    addInstances(placement, [{ ...world.cluster.instance('d'), isolationGroup: 'a' }], {
      force: false,
    }),
  );
  await world.cluster.untilAvailable('d');
  const d = await world.hosts('d');
  assert.ok(Object.entries(d).every(([host, count]) => count === (host === 'x' ? 1 : 20)));
  // Again from its peers, with the old files still in its folder.
  await world.cluster.changePlacement((placement) => resetInstance(placement, 'c'));
  await world.cluster.untilAvailable('c');
  const c = await world.hosts('c');
  assert.ok(Object.entries(c).every(([host, count]) => count === (host === 'x' ? 1 : 20)));
});

test('a namespace that was deleted and made again while a node was away has none of its old data', async () => {
  await using world = await new Deleting().open();
  await world.write([...rowsOf('x', 20), ...rowsOf('y', 20)]);
  await world.database('c').flush(null, never);
  await world.write(rowsOf('z', 20));
  await world.cluster.stop('c');
  const kv = world.cluster.kvStore.client();
  const admin = new ClusterAdmin({ ...realEnv, kv, cluster: name });
  await admin.namespaceDelete('metrics', plainRequest, never);
  await world.cluster.until('a', (_, { runtime }) => runtime.database.namespaces.size === 0);
  await world.cluster.addNamespace(namespaceOf('metrics'));
  for (const id of ['a', 'b']) {
    await world.cluster.until(id, (_, { runtime }) => {
      return runtime.database.namespaces.size === 1 && runtime.database.isBootstrapped;
    });
  }
  await world.write(rowsOf('new', 3), ['a', 'b']);
  assert.deepEqual(await world.hosts('a'), { new: 3 });
  await world.cluster.start('c');
  await world.cluster.until('c', (_, { runtime }) => runtime.database.isLoaded);
  assert.deepEqual(await world.hosts('c'), {});
  await world.write(rowsOf('newer', 3));
  await world.cluster.stop('c');
  await world.cluster.start('c');
  await world.cluster.until('c', (_, { runtime }) => runtime.database.isLoaded);
  assert.deepEqual(await world.hosts('c'), { newer: 3 });
});

test('a damaged entry is passed over, at once and at a start', async () => {
  await using world = await new Deleting().open();
  await world.write([...rowsOf('x', 5), ...rowsOf('y', 5)]);
  const kv = world.cluster.kvStore.client();
  const damaged = `${deletionsPrefix(name)}entry/0000000000000001`;
  const value = new TextEncoder().encode('{"sequence":1');
  await kv.transact([], [{ kind: 'put', key: damaged, value }], never);
  const sequence = await world.delete(ofHost('x'));
  assert.deepEqual(await world.whenAll(sequence), []);
  assert.deepEqual(await world.hosts('b'), { y: 5 });
  await world.cluster.stop('b');
  await world.cluster.start('b');
  await world.cluster.untilAvailable('b');
  assert.deepEqual(await world.hosts('b'), { y: 5 });
});

test('a truncation takes all that was written before it, of every replica, and says of how many series', async () => {
  await using world = await new Deleting().open();
  const truncations = world.cluster.truncations('a');
  await world.write([...rowsOf('x', 20), ...rowsOf('y', 20)]);
  await world.database('b').flush(null, never);
  await world.write(rowsOf('z', 5));
  await realEnv.clock.sleep(3, never);
  assert.equal(await truncations.truncate('metrics', never), 9);
  for (const id of ids) assert.deepEqual(await world.hosts(id), {});
  await realEnv.clock.sleep(3, never);
  await world.write(rowsOf('x', 2, 7));
  for (const id of ids) assert.deepEqual(await world.hosts(id), { x: 2 });
  await assert.rejects(truncations.truncate('other', never), {
    code: 'NOT_FOUND',
    message: 'namespace is not found: other',
  });
});

test('a truncation that a node has not confirmed is told, stands, and is applied before that node serves', async () => {
  await using world = await new Deleting().open();
  await world.write(rowsOf('x', 20));
  await world.database('c').flush(null, never);
  await world.write(rowsOf('y', 20));
  await world.cluster.stop('c');
  await realEnv.clock.sleep(3, never);
  await assert.rejects(world.cluster.truncations('a').truncate('metrics', never), {
    code: 'UNAVAILABLE',
    message: /^namespace metrics is truncated, but these instances have not .*: c$/,
  });
  for (const id of ['a', 'b']) assert.deepEqual(await world.hosts(id), {});
  await world.cluster.start('c');
  await world.cluster.until('c', (_, { runtime }) => runtime.database.isLoaded);
  assert.deepEqual(await world.hosts('c'), {});
});
