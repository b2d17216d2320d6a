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

async function twoClusters(): Promise<World> {
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
  world.images = { ...world.images, node: 'node:2' };
  world.restartOperator();
  for (let pass = 0; pass < 20 && imageOf(world, 'c') === 'node:1'; pass++) await both(world, 1);
  assert.deepEqual([imageOf(world, 'c'), imageOf(world, 'd')], ['node:2', 'node:1']);
  return world;
}

test('who waits for an approval leaves its turn to other clusters', async () => {
  const world = await twoClusters();
  world.changeSpec((spec) => {
    spec.updatePolicy = 'Gated';
    spec.nodes.image = 'node:3';
  });
  await both(world, 30);
  assert.equal(imageOf(world, 'd'), 'node:2');
});

test('so does who has gone to another operator', async () => {
  const world = await twoClusters();
  const spec = { renewTime: new Date(world.clock.nowMillis() + 3_600_000).toISOString() };
  const metadata = { name: 'another', namespace: 'elsewhere' };
  world.kube.store({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec });
  world.annotate('tsdb.io/managed-by', 'elsewhere/another');
  await both(world, 30);
  assert.equal(imageOf(world, 'd'), 'node:2');
});
