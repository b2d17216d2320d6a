/** Turns of clusters that are rolled because the operator has changed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settledWorld, specOf, type World } from '../world_testing.ts';

type Json = any;

async function both(world: World, passes: number): Promise<void> {
  for (let pass = 0; pass < passes; pass++) {
    for (const name of ['c', 'd']) await world.reconcile(name);
    await world.clock.pass(2_000);
    await world.advance();
  }
}

const imageOf = (world: World, name: string): string =>
  world.kube.find('StatefulSet', `${name}-a`).spec.template.spec.containers[0].image;

/** Both are rolled out, and then the operator comes back with another image. */
async function withNewImage(before: (world: World) => void): Promise<World> {
  const world = await settledWorld();
  const spec = specOf({ etcd: { external: { endpoints: ['x:1'] } } });
  const metadata = { name: 'd', namespace: 'default' };
  world.kube.store({ apiVersion: 'tsdb.io/v1alpha1', kind: 'TSDBCluster', metadata, spec });
  await both(world, 5);
  for (const name of ['c', 'd']) {
    const cluster = structuredClone(world.kube.find('TSDBCluster', name)) as Json;
    cluster.status.rolledGeneration = cluster.metadata.generation;
    world.kube.store(cluster);
  }
  before(world);
  await both(world, 5);
  world.images = { ...world.images, node: 'node:2' };
  world.restartOperator();
  return world;
}

async function twoClusters(before: (world: World) => void = () => {}): Promise<World> {
  const world = await withNewImage(before);
  const isBegun = () => ['c', 'd'].some((name) => imageOf(world, name) === 'node:2');
  for (let pass = 0; pass < 20 && !isBegun(); pass++) await both(world, 1);
  return world;
}

test('who waits for an approval leaves its turn to other clusters', async () => {
  const world = await twoClusters();
  assert.deepEqual([imageOf(world, 'c'), imageOf(world, 'd')], ['node:2', 'node:1']);
  world.changeSpec((spec) => {
    spec.updatePolicy = 'Gated';
    spec.nodes.image = 'node:3';
  });
  await both(world, 30);
  assert.equal(imageOf(world, 'd'), 'node:2');
});

test('so does who has gone to another operator', async () => {
  const world = await twoClusters();
  assert.deepEqual([imageOf(world, 'c'), imageOf(world, 'd')], ['node:2', 'node:1']);
  const spec = { renewTime: new Date(world.clock.nowMillis() + 3_600_000).toISOString() };
  const metadata = { name: 'another', namespace: 'elsewhere' };
  world.kube.store({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec });
  world.annotate('tsdb.io/managed-by', 'elsewhere/another');
  await both(world, 30);
  assert.equal(imageOf(world, 'd'), 'node:2');
});

test('a cluster that was ill before keeps nobody waiting for ever', async () => {
  const world = await twoClusters((before) => {
    before.changeSpec((spec) => (spec.nodes.replaceAfter = 'never'));
    before.loseMachine('c-a-0');
  });
  await both(world, 20);
  assert.deepEqual([imageOf(world, 'c'), imageOf(world, 'd')], ['node:2', 'node:1']);
  await world.clock.pass(900_000);
  await both(world, 10);
  assert.equal(imageOf(world, 'd'), 'node:2');
});

test('who waits is told for whom', async () => {
  const world = await withNewImage(() => {});
  await world.reconcile('d');
  await world.clock.pass(20_000);
  await world.reconcile('d');
  await world.reconcile('c');
  const { reason, message } = world.condition('Reconciling');
  assert.equal(reason, 'RolloutHeld');
  assert.match(message, /now it is that of default\/d$/);
});

test('who scales a cluster, or adds a namespace to it, does not roll it out of its turn', async () => {
  const world = await twoClusters((before) => before.badImages.add('node:2'));
  await both(world, 10);
  assert.deepEqual([imageOf(world, 'c'), imageOf(world, 'd')], ['node:2', 'node:1']);
  const d = structuredClone(world.kube.find('TSDBCluster', 'd')) as Json;
  d.spec.namespaces = [...(d.spec.namespaces ?? []), { name: 'x', retentionTime: '2d' }];
  d.spec.coordinator = { ...d.spec.coordinator, replicas: 1 };
  world.kube.store(d);
  await both(world, 10);
  assert.equal(imageOf(world, 'd'), 'node:1', 'of a version that c shows to be bad');
});

test('who has coordinators of an image that does not start keeps its turn', async () => {
  const world = await withNewImage(() => {});
  world.badImages.add('coordinator:2');
  world.images = { ...world.images, node: 'node:1', coordinator: 'coordinator:2' };
  world.restartOperator();
  const images = (): string[] =>
    ['c', 'd'].map(
      (name) =>
        world.kube.find('Deployment', `${name}-coordinator`).spec.template.spec.containers[0].image,
    );
  await both(world, 60);
  assert.deepEqual(images(), ['coordinator:2', 'coordinator:1']);
  world.badImages.delete('coordinator:2');
  await both(world, 60);
  assert.deepEqual(images(), ['coordinator:2', 'coordinator:2']);
});

test('who was paused in the middle leaves its turn, and so does who is only without a machine', async () => {
  for (const happens of ['paused', 'unplaced'] as const) {
    const world = await withNewImage(() => {});
    world.images = { ...world.images, node: 'node:1', coordinator: 'coordinator:2' };
    if (happens === 'paused') world.badImages.add('coordinator:2');
    world.restartOperator();
    const imagesOf = (name: string): string =>
      world.kube.find('Deployment', `${name}-coordinator`).spec.template.spec.containers[0].image;
    for (let pass = 0; pass < 20 && imagesOf('c') !== 'coordinator:2'; pass++) await both(world, 1);
    assert.deepEqual([imagesOf('c'), imagesOf('d')], ['coordinator:2', 'coordinator:1']);
    if (happens === 'paused') world.changeSpec((spec) => (spec.paused = true));
    else world.loseMachine('c-a-0');
    await both(world, 60);
    assert.equal(imagesOf('d'), 'coordinator:2', happens);
  }
});

test('the pod of a machine that is silent for good keeps no turn', async () => {
  const world = await withNewImage(() => {});
  world.images = { ...world.images, node: 'node:1', coordinator: 'coordinator:2' };
  world.restartOperator();
  const imagesOf = (name: string): string =>
    world.kube.find('Deployment', `${name}-coordinator`).spec.template.spec.containers[0].image;
  for (let pass = 0; pass < 20 && imagesOf('c') !== 'coordinator:2'; pass++) await both(world, 1);
  const pod = structuredClone(world.kube.find('Pod', 'c-a-0')) as Json;
  pod.metadata.deletionTimestamp = new Date(world.clock.nowMillis()).toISOString();
  pod.metadata.finalizers = ['kubelet.does/not-answer'];
  world.kube.store(pod);
  await both(world, 20);
  assert.equal(imagesOf('d'), 'coordinator:1', 'it may still come back');
  await world.clock.pass(601_000);
  await both(world, 20);
  assert.equal(imagesOf('d'), 'coordinator:2');
});
