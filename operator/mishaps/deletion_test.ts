/** Clusters that are deleted at a bad moment. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KubeError } from '../kube/kube_api.ts';
import { type KubeObject, resource } from '../resource/kube_objects.ts';
import { settledWorld, specOf, type World } from '../world_testing.ts';

type Json = any;

test('children that Kubernetes has orphaned stay, also when the operator looks after that', async () => {
  const world = await settledWorld({ deletionPolicy: { data: 'Delete', metadata: 'Delete' } });
  // The garbage collector takes the owner references from all children, and then its finalizer away.
  const cluster = structuredClone(world.cluster) as Json;
  for (const object of [...world.kube.objects.values()] as Json[]) {
    const { ownerReferences = [] } = object.metadata;
    const others = ownerReferences.filter((owner: Json) => owner.uid !== cluster.metadata.uid);
    world.kube.store({ ...object, metadata: { ...object.metadata, ownerReferences: others } });
  }
  assert.deepEqual(cluster.metadata.finalizers, ['tsdb.io/cleanup']);
  cluster.metadata.deletionTimestamp = '2026-01-01T00:00:01Z';
  world.kube.store(cluster);
  world.restartOperator();
  for (let pass = 0; pass < 5; pass++) {
    await world.reconcile();
    await world.clock.pass(2_000);
  }
  assert.deepEqual(
    world.kube.writes.filter((write) => write.startsWith('DELETE')),
    [],
  );
  assert.deepEqual(world.cluster?.metadata.finalizers ?? [], []);
});

test('a Service of a user with our label makes no cluster an orphaned one', async () => {
  const world = await settledWorld({ deletionPolicy: { data: 'Delete' } });
  const metadata = { name: 'mine', namespace: 'default', labels: { 'tsdb.io/cluster': 'c' } };
  world.kube.store({ apiVersion: 'v1', kind: 'Service', metadata, spec: {} });
  // With --cascade=foreground Kubernetes has deleted the children first.
  for (const kind of ['Service', 'StatefulSet', 'Deployment']) {
    for (const object of world.kube.ofKind(kind) as Json[]) {
      if (object.metadata.name !== 'mine') world.kube.remove(object);
    }
  }
  await world.deleteCluster();
  assert.equal(world.cluster, undefined);
  assert.deepEqual(world.kube.ofKind('PersistentVolumeClaim'), []);
});

test('keys in an external etcd go when no coordinator is left that would write some anew', async () => {
  const external = { endpoints: ['etcd:2379'] };
  const world = await settledWorld({ etcd: { external }, deletionPolicy: { data: 'Delete' } });
  const labels = { 'tsdb.io/cluster': 'c', 'tsdb.io/component': 'coordinator' };
  const metadata = { name: 'c-coordinator-x', namespace: 'default', labels };
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata, spec: {}, status: { phase: 'Running' } };
  const live = world.kube.store(pod);
  await world.kube.delete(resource.cluster, 'default', 'c', { uid: null, orphan: false });
  for (let pass = 0; pass < 5; pass++) {
    await world.reconcile();
    await world.clock.pass(2_000);
  }
  assert.equal(world.kube.find('Deployment', 'c-coordinator'), undefined);
  assert.deepEqual(world.calls, []);
  world.kube.remove(live);
  await world.reconcile();
  assert.deepEqual(world.calls, ['delete keys']);
  assert.equal(world.cluster, undefined);
});

/** Its sets are being made anew for larger volumes, and their pods are nobody's. */
async function deletedBetweenSets(data: 'Delete' | 'Retain'): Promise<World> {
  const world = await settledWorld({
    nodes: { replicasPerGroup: 1, storage: { size: '100Gi' } },
    deletionPolicy: { data },
  });
  const isThere = (): boolean => world.kube.find('StatefulSet', 'c-a') !== undefined;
  world.changeSpec((spec) => (spec.nodes.storage.size = '200Gi'));
  for (let pass = 0; pass < 10 && isThere(); pass++) {
    await world.reconcile();
    if (!isThere()) break;
    await world.clock.pass(2_000);
    await world.advance();
  }
  assert.equal(isThere(), false);
  const pod = world.kube.find('Pod', 'c-a-0');
  world.kube.store({ ...pod, metadata: { ...pod.metadata, ownerReferences: [] } });
  await world.kube.delete(resource.cluster, 'default', 'c', { uid: null, orphan: false });
  for (let pass = 0; pass < 50 && world.cluster !== undefined; pass++) {
    await world.reconcile();
    await world.clock.pass(10_000);
    await world.advance();
  }
  return world;
}

for (const data of ['Delete', 'Retain'] as const) {
  test(`no pod is left running when a cluster goes between two sets: ${data}`, async () => {
    const world = await deletedBetweenSets(data);
    assert.equal(world.cluster, undefined);
    assert.equal(world.kube.find('Pod', 'c-a-0'), undefined);
    const volume = world.kube.find('PersistentVolumeClaim', 'data-c-a-0');
    assert.equal(volume === undefined, data === 'Delete');
  });
}

test('a cluster goes whose definitions are going, too', async () => {
  const world = await settledWorld({ deletionPolicy: { data: 'Delete' } });
  const list = world.kube.list.bind(world.kube);
  world.kube.list = (kind, namespace, selector) => {
    if (kind === resource.namespace) throw new KubeError(404, 'Unknown', '404 page not found');
    return list(kind, namespace, selector);
  };
  await world.kube.delete(resource.cluster, 'default', 'c', { uid: null, orphan: false });
  for (let pass = 0; pass < 20 && world.cluster !== undefined; pass++) {
    await world.reconcile();
    await world.clock.pass(1_000);
    await world.advance();
  }
  assert.equal(world.cluster, undefined);
  assert.deepEqual(world.kube.ofKind('PersistentVolumeClaim'), []);
});

/** A cluster (volumes of nodes stay, those of etcd go) that was deleted and applied again in one breath. */
async function replacedAtOnce(): Promise<{ readonly world: World; readonly before: Json }> {
  const world = await settledWorld();
  const before = world.cluster;
  await world.clock.pass(60_000);
  world.kube.remove(before);
  world.addCluster(specOf());
  return { world, before };
}

/** The coordinator of the new one has nothing that the old etcd had. */
async function etcdGoes(world: World): Promise<void> {
  await world.loseEtcd();
  world.coordinatorUp = false;
}

async function comesBack(world: World): Promise<void> {
  for (let pass = 0; pass < 60; pass++) {
    await world.reconcile();
    assert.equal(world.condition('Stalled')?.status, undefined, world.condition('Ready').message);
    await world.clock.pass(2_000);
    await world.advance();
    world.coordinatorUp = world.etcd.hasQuorum;
  }
  assert.equal(world.condition('Ready').status, 'True', world.condition('Ready').message);
  assert.deepEqual(world.calls, ['approve']);
}

// Applied again while the old coordinators and the old etcd still run, it read the placement there and
// took that for its own: when they had gone with their volumes it was a placement that was lost.
test('what a predecessor says that Kubernetes takes away is not of the new cluster', async () => {
  const { world, before } = await replacedAtOnce();
  for (let pass = 0; pass < 3; pass++) {
    await world.reconcile();
    await world.clock.pass(2_000);
  }
  const { reason, message } = world.condition('Ready');
  assert.equal(reason, 'PredecessorEnding', message);
  assert.match(message, /the cluster c that was deleted before: ConfigMap\/c-coordinator-/);
  assert.equal(world.cluster.status.placementVersion, undefined);
  assert.deepEqual(
    world.kube.writes.filter(
      (write) => !write.includes('TSDBCluster/') && !write.includes('Event'),
    ),
    [],
    'nothing is made between what goes',
  );
  // Sets go first; a pod runs as long as it needs to end, with its volume.
  const pods = world.kube.ofKind('Pod');
  const claims = world.kube.ofKind('PersistentVolumeClaim');
  world.kube.collectGarbage(before.metadata);
  const nowMillis = world.clock.nowMillis();
  const deletionTimestamp = new Date(nowMillis + 30_000).toISOString();
  for (const object of [...pods, ...claims.filter(isOfEtcd)]) {
    const metadata = { ...object.metadata, deletionTimestamp };
    const stored = world.kube.store({ ...object, metadata }) as Json;
    stored.metadata.creationTimestamp = object.metadata.creationTimestamp;
  }
  await world.clock.pass(20_000);
  await world.reconcile();
  assert.match(world.condition('Ready').message, /: Pod\/c-a-0, Pod\/c-a-b-0, /);
  for (const object of [...pods, ...claims.filter(isOfEtcd)]) world.kube.remove(object);
  await etcdGoes(world);
  await comesBack(world);
});

test('a pod of a predecessor on a machine that is away is not waited for', async () => {
  const { world, before } = await replacedAtOnce();
  const pod = world.kube.find('Pod', 'c-a-0');
  world.kube.collectGarbage(before.metadata);
  const deletionTimestamp = new Date(world.clock.nowMillis()).toISOString();
  const stored = world.kube.store({ ...pod, metadata: { ...pod.metadata, deletionTimestamp } });
  (stored as Json).metadata.creationTimestamp = pod.metadata.creationTimestamp;
  await etcdGoes(world);
  await world.clock.pass(60_000);
  await world.reconcile();
  assert.equal(world.condition('Ready').reason, 'PredecessorEnding');
  await world.clock.pass(60_000);
  await world.reconcile();
  assert.notEqual(world.condition('Ready').reason, 'PredecessorEnding');
});

test('old coordinators are waited for, those that were orphaned are taken over', async () => {
  const { world, before } = await replacedAtOnce();
  world.kube.collectGarbage(before.metadata);
  const { replicaSet } = storeCoordinator(world, before, 'of-the-one-before');
  await world.reconcile();
  assert.match(world.condition('Ready').message, /Pod\/c-coordinator-x/);
  // Kubernetes comes to the pods last.
  world.kube.remove(replicaSet);
  await world.reconcile();
  assert.match(world.condition('Ready').message, /Pod\/c-coordinator-x/);
  const labels = { 'tsdb.io/cluster': 'c', 'tsdb.io/component': 'coordinator' };
  const deployment = { name: 'c-coordinator', namespace: 'default', labels };
  const stored = world.kube.store({
    ...{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: deployment, spec: {} },
  }) as Json;
  stored.metadata.creationTimestamp = before.metadata.creationTimestamp;
  storeCoordinator(world, before, stored.metadata.uid);
  await world.reconcile();
  assert.notEqual(world.condition('Ready').reason, 'PredecessorEnding');
});

// delete tsdbcluster --cascade=orphan, apply; later delete deployment --cascade=orphan. The pods are older
// than the TSDBCluster and than the Deployment that is made anew, and nobody takes them away.
test('old coordinators whose Deployment is orphaned and made anew are nobody to wait for', async () => {
  const { world, before } = await replacedAtOnce();
  world.kube.collectGarbage(before.metadata);
  storeCoordinator(world, before, null);
  await world.reconcile();
  assert.notEqual(world.condition('Ready').reason, 'PredecessorEnding');
  const made = world.kube.find('Deployment', 'c-coordinator');
  assert.notEqual(made, undefined, 'it is made, to take them over');
  await world.clock.pass(3_600_000);
  storeCoordinator(world, before, made.metadata.uid);
  await world.reconcile();
  assert.notEqual(world.condition('Ready').reason, 'PredecessorEnding');
});

/** A pod as old as a cluster before, and its ReplicaSet. @param owner uid of a Deployment */
function storeCoordinator(
  world: World,
  { metadata: { creationTimestamp } }: KubeObject,
  owner: string | null,
): { readonly replicaSet: KubeObject } {
  const labels = { 'tsdb.io/cluster': 'c', 'tsdb.io/component': 'coordinator' };
  const named = { namespace: 'default', labels };
  const controlledBy = (kind: string, name: string, uid: string) => [
    { apiVersion: 'apps/v1', kind, name, uid, controller: true },
  ];
  const replicaSet = world.kube.store({
    apiVersion: 'apps/v1',
    kind: 'ReplicaSet',
    metadata: {
      ...{ ...named, name: 'c-coordinator-x' },
      ownerReferences: owner === null ? [] : controlledBy('Deployment', 'c-coordinator', owner),
    },
    spec: {},
  });
  const ownerReferences = controlledBy('ReplicaSet', 'c-coordinator-x', replicaSet.metadata.uid!);
  const metadata = { ...named, name: 'c-coordinator-x-1', ownerReferences };
  const pod = world.kube.store({ apiVersion: 'v1', kind: 'Pod', metadata, spec: {} }) as Json;
  pod.metadata.creationTimestamp = creationTimestamp;
  return { replicaSet };
}

const isOfEtcd = ({ metadata }: KubeObject): boolean => metadata.name.startsWith('data-c-etcd-');
