import { bootstrappedFrom } from '../placement/placement_testing.ts';
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { ClusterAdmin } from '../admin/admin.ts';
import { plainRequest } from '../admin/placement_requests.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import { testEnv } from '../session/fakes_testing.ts';
import { Topology, type TopologyView } from './topology.ts';

const { signal } = new AbortController();
const cluster = { environment: 'default_env', zone: 'embedded' };

function newCluster() {
  const store = new MemoryKvStore({ clock: realEnv.clock });
  const admin = new ClusterAdmin({
    kv: store.client(),
    cluster,
    clock: realEnv.clock,
    random: realEnv.random,
  });
  const kv = store.client();
  const open = () => new Topology({ kv, cluster, env: testEnv(), log: silentLog }).start();
  return { store, admin, kv, open };
}

const createLocal = (admin: ClusterAdmin, namespaceName: string) =>
  admin.databaseCreate({ type: 'local', namespaceName, numShards: 2 }, plainRequest, signal);

const names = (view: TopologyView) => [...view.namespaces.keys()];

test('a topology is empty but loaded when nothing is there, and follows what comes', async () => {
  const { admin, open } = newCluster();
  await using topology = open();
  assert.equal(topology.view.isLoaded, false);
  const empty = await topology.whenLoaded(signal);
  assert.deepEqual([empty.placement, empty.placementVersion, names(empty)], [null, 0, []]);

  const versions: number[] = [];
  using _ = topology.subscribe(({ placementVersion }) => versions.push(placementVersion));
  await createLocal(admin, 'ns');
  const created = await topology.until(
    (view) => view.placement !== null && view.namespaces.size > 0,
    signal,
  );
  assert.equal(created.placementVersion, 1);
  assert.deepEqual(names(created), ['ns']);
  await admin.markAvailable('tsdb_local', bootstrappedFrom(new Map([[0, '']])), signal);
  const marked = await topology.until(({ placementVersion }) => placementVersion === 2, signal);
  assert.deepEqual([...marked.ownership!.readableShards[0]!], [0]);
  assert.deepEqual(
    created.placement!.instances[0]!.shards.map(({ state }) => state),
    ['INITIALIZING', 'INITIALIZING'],
  );
  await admin.placementDelete(plainRequest, signal);
  await topology.until(({ placement }) => placement === null, signal);
  // The namespace may be seen before the placement is.
  assert.deepEqual([...new Set(versions.slice(versions.indexOf(1)))], [1, 2, 0]);
});

test('while the store cannot be reached the last known state stands, and then it catches up', async () => {
  const { admin, kv, open } = newCluster();
  await createLocal(admin, 'ns');
  await using topology = open();
  await topology.until(({ isLoaded }) => isLoaded, signal);
  kv.setReachable(false);
  await createLocal(admin, 'second');
  for (let i = 0; i < 20; i++) await turn();
  assert.deepEqual(names(topology.view), ['ns']);
  await assert.rejects(topology.refresh(signal));
  assert.equal(topology.view.placementVersion, 1);
  kv.setReachable(true);
  await topology.until(({ namespaces }) => namespaces.size === 2, signal);
});

test('a topology opened before the store can be reached loads once it can', async () => {
  const { admin, kv, open } = newCluster();
  await createLocal(admin, 'ns');
  kv.setReachable(false);
  await using topology = open();
  for (let i = 0; i < 20; i++) await turn();
  assert.equal(topology.view.isLoaded, false);
  kv.setReachable(true);
  assert.deepEqual(names(await topology.whenLoaded(signal)), ['ns']);
});

test('after its revisions were compacted a topology lists again', async () => {
  const { store, admin, kv, open } = newCluster();
  await createLocal(admin, 'ns');
  await using topology = open();
  await topology.whenLoaded(signal);
  kv.setReachable(false);
  await createLocal(admin, 'second');
  await createLocal(admin, 'third');
  store.compact();
  kv.setReachable(true);
  await topology.until(({ namespaces }) => namespaces.size === 3, signal);
});

test('refresh() gives what the store holds now', async () => {
  const { admin, open } = newCluster();
  await using topology = open();
  await createLocal(admin, 'ns');
  assert.deepEqual(names(await topology.refresh(signal)), ['ns']);
});

test('a damaged value is passed over, and the state before it stands', async () => {
  const { admin, kv, open } = newCluster();
  await createLocal(admin, 'ns');
  await using topology = open();
  await topology.whenLoaded(signal);
  const key = admin.placements.key;
  await kv.transact([], [{ kind: 'put', key, value: Buffer.from('{') }], signal);
  await createLocal(admin, 'second').catch(() => {});
  await admin.namespaceInitializing('ns', signal);
  await topology.until(
    ({ namespaces }) => namespaces.get('ns')!.options.stagingStatus === 'INITIALIZING',
    signal,
  );
  assert.equal(topology.view.placementVersion, 1);
});

test('until() ends with the reason of its signal', async () => {
  const { open } = newCluster();
  await using topology = open();
  const stop = new AbortController();
  const waiting = topology.until(() => false, stop.signal);
  stop.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
});
