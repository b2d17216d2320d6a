/** tsdb.io/replace on a pod that serves, while others meddle. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KubeError } from '../kube/kube_api.ts';
import { settledWorld, type World } from '../world_testing.ts';
import { annotatePod, claim, type Json, passes, writesLike } from './mishaps_testing.ts';

const touched = (world: World): string[] =>
  writesLike(world, /^(EVICT|DELETE) (Pod|PersistentVolumeClaim)\//);

// A drain takes another replica in the moment between the operator's look and its deletion. The pod was
// ended without grace, past the budget, and its claim before it: two of three replicas were away.
for (const [what, asked, drained] of [
  ['node', 'c-a-0', 'c-c-0'],
  ['member of etcd', 'c-etcd-0', 'c-etcd-1'],
] as const) {
  test(`a ${what} that serves is evicted, and nothing of it goes when a drain was first`, async () => {
    const world = await settledWorld();
    annotatePod(world, asked, 'tsdb.io/replace');
    world.kube.beforeWrite = (write) => {
      if (write === `EVICT Pod/${asked}`) {
        world.broken.add(drained);
        throw new KubeError(429, 'TooManyRequests', 'it would violate the disruption budget');
      }
    };
    await world.reconcile();
    await passes(world, 5);
    assert.deepEqual(touched(world), []);
    world.kube.beforeWrite = () => {};
    world.broken.clear();
    const { uid } = claim(world, `data-${asked}`).metadata;
    await world.clock.pass(200_000);
    await world.settle();
    assert.deepEqual(touched(world), [
      `EVICT Pod/${asked}`,
      `DELETE PersistentVolumeClaim/data-${asked}`,
    ]);
    assert.notEqual(claim(world, `data-${asked}`).metadata.uid, uid);
    assert.equal(world.condition('Ready').status, 'True');
  });
}

test('one that does not serve goes at once, with its claim', async () => {
  const world = await settledWorld();
  world.broken.add('c-a-0');
  await passes(world, 2);
  annotatePod(world, 'c-a-0', 'tsdb.io/replace');
  await world.reconcile();
  assert.deepEqual(touched(world), ['DELETE PersistentVolumeClaim/data-c-a-0', 'DELETE Pod/c-a-0']);
});

// The operator was killed between both, or somebody else evicted it: an annotation goes with its pod.
test('of one that is on its way out only the claim is left to go, once', async () => {
  const world = await settledWorld();
  annotatePod(world, 'c-a-0', 'tsdb.io/replace');
  const pod = structuredClone(world.kube.find('Pod', 'c-a-0')) as Json;
  pod.metadata.deletionTimestamp = new Date(world.clock.nowMillis() + 60_000).toISOString();
  world.kube.store(pod);
  const pvc = structuredClone(claim(world, 'data-c-a-0')) as Json;
  pvc.metadata.finalizers = ['kubernetes.io/pvc-protection'];
  world.kube.store(pvc);
  for (let pass = 0; pass < 3; pass++) await world.reconcile();
  assert.deepEqual(touched(world), ['DELETE PersistentVolumeClaim/data-c-a-0']);
  assert.match(world.condition('Ready').message, /c-a-0 is replaced when it has ended/);
});

// Somebody has taken the labels of a claim away: no claim was found, and so nobody was asked whether the
// others serve.
test('a pod whose claim is not found waits for the others like everyone', async () => {
  const world = await settledWorld();
  const pvc = structuredClone(claim(world, 'data-c-a-0')) as Json;
  delete pvc.metadata.labels;
  world.kube.store(pvc);
  world.broken.add('c-c-0');
  await passes(world, 3);
  annotatePod(world, 'c-a-0', 'tsdb.io/replace');
  await passes(world, 3);
  assert.deepEqual(touched(world), []);
  assert.match(world.condition('Ready').message, /c-a-0 is replaced when c-c-0 serves/);
});
