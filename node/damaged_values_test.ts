import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  assignmentsKey,
  clusterPrefix,
  deletionsPrefix,
  environmentDefault,
  finishedFormatsKey,
  lineageKey,
  namespaceNumbersKey,
  namespacesKey,
  placementKey,
  storageService,
  zoneDefault,
} from '#cluster/kv/keys.ts';
import { runtimeLimitKeys, runtimeLimitPath } from '#cluster/metadata/runtime_limits.ts';
import { initPlacement } from '#cluster/placement/algorithm.ts';
import { realEnv } from '#lib/env/real.ts';
import { TestCluster } from './cluster_testing.ts';
import { namespaceOf, readAll, writeRows } from './storage/database_testing.ts';

const never = new AbortController().signal;
const name = { environment: environmentDefault, zone: zoneDefault };
const now = (realEnv.clock.nowNanos() / 1_000_000_000n) * 1_000_000_000n;
const identity = `${clusterPrefix(name)}tsdb.node.identity/a`;

/** What anybody may put there: no JSON, no UTF-8, and JSON of other shapes. */
const bad: readonly Uint8Array[] = [
  Buffer.from('{'),
  Uint8Array.of(0xff),
  ...['', '[]', '5', '"x"', '{"instances":5,"namespaces":[],"sequence":{},"level":"x","id":5}'].map(
    (text) => Buffer.from(text),
  ),
];

async function oneNode(cluster: TestCluster): Promise<void> {
  await cluster.start('a');
  await cluster.placements.create(
    initPlacement([cluster.instance('a')], { numShards: 4, replicaFactor: 1 }),
    never,
  );
  await cluster.addNamespace(namespaceOf('metrics'));
  await cluster.untilAvailable('a');
  const { database } = cluster.nodes.get('a')!.runtime;
  await writeRows(database, [{ series: { __name__: 'up' }, nanos: now, value: 1 }]);
}

/** Puts each bad value under the key and tells what stood there. */
async function whileBad(
  cluster: TestCluster,
  key: string,
  run: (value: Uint8Array) => Promise<void>,
): Promise<void> {
  const kv = cluster.kvStore.client();
  const good = await kv.get(key, never);
  for (const value of bad) {
    await kv.transact([], [{ kind: 'put', key, value }], never);
    await run(value);
  }
  await kv.transact(
    [],
    [good === null ? { kind: 'delete', key } : { kind: 'put', key, value: good.value }],
    never,
  );
}

const keys: Readonly<Record<string, string>> = {
  placement: placementKey(name, storageService),
  assignments: assignmentsKey(name, storageService),
  lineage: lineageKey(name, storageService),
  namespaces: namespacesKey(name),
  numbers: namespaceNumbersKey(name),
  'head of the deletions': `${deletionsPrefix(name)}head`,
  'a deletion': `${deletionsPrefix(name)}entry/0000000000000001`,
  formats: finishedFormatsKey(name),
  'a limit': runtimeLimitPath(name, runtimeLimitKeys[0]!),
  announcement: identity,
};

for (const [what, key] of Object.entries(keys)) {
  test(`a node goes on, starts and serves again over a bad value: ${what}`, async () => {
    await using cluster = new TestCluster();
    await oneNode(cluster);
    const serves = async () => {
      const { database } = cluster.nodes.get('a')!.runtime;
      assert.equal((await readAll(database)).size, 1);
    };
    await whileBad(cluster, key, async () => {
      await realEnv.clock.sleep(20, never);
      await serves();
    });
    await cluster.stop('a');
    await whileBad(cluster, key, async () => {
      const { runtime, topology } = await cluster.start('a');
      await realEnv.clock.sleep(150, never);
      // Whatever it waits for, it takes no value that it cannot read for one that is not there.
      const { isLoaded, placement, namespaces } = topology.view;
      if (isLoaded) assert.deepEqual([placement?.numShards, namespaces.size], [4, 1]);
      assert.deepEqual(cluster.fatal, []);
      assert.ok(runtime.database.shards.all().length === 4 || !runtime.database.isBootstrapped);
      await cluster.stop('a');
    });
    await cluster.start('a');
    const { runtime } = cluster.nodes.get('a')!;
    await cluster.until('a', () => runtime.database.isBootstrapped);
    await serves();
    assert.deepEqual(cluster.fatal, []);
  });
}

test('a start that has nothing but a placement that cannot be read waits, says which, and takes it once it is right', async () => {
  await using cluster = new TestCluster();
  const kv = cluster.kvStore.client();
  await cluster.placements.create(
    initPlacement([cluster.instance('a')], { numShards: 4, replicaFactor: 1 }),
    never,
  );
  await cluster.addNamespace(namespaceOf('metrics'));
  const key = keys['placement']!;
  const { value } = (await kv.get(key, never))!;
  await kv.transact([], [{ kind: 'put', key, value: Buffer.from('no JSON') }], never);
  const { topology } = await cluster.start('a');
  await assert.rejects(topology.refresh(never), {
    code: 'UNAVAILABLE',
    message: new RegExp(`value of key ${key} is damaged: `),
  });
  assert.equal(topology.view.isLoaded, false);
  assert.deepEqual(topology.damagedKeys, [key]);
  await kv.transact([], [{ kind: 'put', key, value }], never);
  await cluster.untilAvailable('a');
  assert.deepEqual(topology.damagedKeys, []);
  assert.deepEqual(cluster.fatal, []);
});
