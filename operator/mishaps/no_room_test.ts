/** Pods that have no place, and what is changed to make room for them, or besides. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settledWorld, type World } from '../world_testing.ts';
import { type Json, passes, storeStatus } from './mishaps_testing.ts';

const memoryOf = (object: Json): string | undefined =>
  object.spec.containers[0].resources?.requests?.memory;
const deployed = (world: World): Json =>
  (world.kube.find('Deployment', 'c-coordinator') as Json).spec.template;

/** Nobody has room for the pod while that is so. */
function noRoomWhile(world: World, pod: string, isFull: () => boolean): () => void {
  return () => {
    if (!isFull()) {
      world.broken.delete(pod);
      return;
    }
    world.broken.add(pod);
    const message =
      '0/3 nodes are available: 1 Insufficient memory, 2 node(s) had volume node affinity conflict.';
    const conditions = [{ type: 'PodScheduled', status: 'False', message }];
    storeStatus(world, pod, { phase: 'Pending', conditions });
  };
}

test('coordinators are made smaller to make room for a node', async () => {
  const resources = { requests: { memory: '64Gi' } };
  const world = await settledWorld({ coordinator: { replicas: 2, resources } });
  const then = noRoomWhile(world, 'c-a-0', () => memoryOf(deployed(world)) === '64Gi');
  then();
  await passes(world, 5, { then });
  world.changeSpec((spec) => {
    (spec as Json).coordinator.resources.requests.memory = '1Gi';
  });
  await passes(world, 20, { then });
  assert.equal(memoryOf(deployed(world)), '1Gi');
  assert.equal(world.condition('Ready').status, 'True');
});

test('nodes are made smaller to make room for a member of etcd', async () => {
  const resources = { requests: { memory: '64Gi' } };
  const world = await settledWorld({ nodes: { replicasPerGroup: 1, resources } });
  const then = noRoomWhile(
    world,
    'c-etcd-1',
    () => memoryOf(world.kube.find('Pod', 'c-a-0')) !== '1Gi',
  );
  then();
  await passes(world, 5, { then });
  world.changeSpec((spec) => {
    (spec as Json).nodes.resources.requests.memory = '1Gi';
  });
  await passes(world, 60, { then });
  assert.equal(memoryOf(world.kube.find('Pod', 'c-a-0')), '1Gi');
  assert.equal(world.condition('Ready').status, 'True');
});

test('a machine that is not replaced does not hold up coordinators', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 1, replaceAfter: 'never' } });
  world.loseMachine('c-a-0');
  await passes(world, 5);
  world.changeSpec((spec) => (spec.coordinator = { image: 'coordinator:2' }));
  await passes(world, 150);
  assert.equal(deployed(world).spec.containers[0].image, 'coordinator:2');
});

test('nor does a node that never comes, but for ten minutes, and that is said', async () => {
  const world = await settledWorld();
  world.broken.add('c-a-1');
  world.changeSpec((spec) => (spec.nodes = { replicasPerGroup: 2 }));
  await passes(world, 20);
  world.changeSpec((spec) => (spec.coordinator = { image: 'coordinator:2' }));
  await passes(world, 5);
  assert.equal(deployed(world).spec.containers[0].image, 'coordinator:1');
  assert.match(
    world.condition('Ready').message,
    /c-a-1.*; changed when all that was replaced before serves: Deployment\/c-coordinator/,
  );
  await passes(world, 150);
  assert.equal(deployed(world).spec.containers[0].image, 'coordinator:2');
});
