/** Pods that are replaced in a roll: how many at a time, and when. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KubeError } from './kube/kube_api.ts';
import { specOf, World } from './world_testing.ts';

async function settledWorld(over: Parameters<typeof specOf>[0] = {}): Promise<World> {
  const world = new World();
  world.addCluster(specOf(over));
  await world.settle();
  await world.advance();
  world.kube.writes.length = 0;
  world.calls.length = 0;
  return world;
}

/** Nodes that were taken away, those of one pass together. */
async function rolled(world: World, change: () => void): Promise<string[]> {
  change();
  const rounds: string[] = [];
  for (let pass = 0; pass < 80; pass++) {
    const before = world.kube.writes.length;
    await world.reconcile();
    const taken = world.kube.writes
      .slice(before)
      .filter((write) => /^(EVICT|DELETE) Pod\//.test(write))
      .map((write) => write.replace(' Pod/c-', ' '));
    if (taken.length > 0) rounds.push(taken.join(', '));
    await world.clock.pass(2_000);
    await world.advance();
  }
  return rounds;
}

const image = (world: World, tag: string) => () =>
  world.changeSpec((spec) => (spec.nodes.image = `node:${tag}`));

test('several nodes of one group go together, after the first one of it has come back', async () => {
  const nodes = { replicasPerGroup: 4, maxUnavailable: 3 };
  const world = await settledWorld({ nodes });
  assert.deepEqual(await rolled(world, image(world, '2')), [
    'EVICT a-0',
    'EVICT a-1, DELETE a-2, DELETE a-3',
    'EVICT a-b-0',
    'EVICT a-b-1, DELETE a-b-2, DELETE a-b-3',
    'EVICT c-0',
    'EVICT c-1, DELETE c-2, DELETE c-3',
  ]);
  assert.equal(world.condition('Ready').status, 'True');
});

test('a part of a group is rounded down, and one at least', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 3, maxUnavailable: '70%' } });
  const rounds = await rolled(world, image(world, '2'));
  assert.equal(rounds[1], 'EVICT a-1, DELETE a-2');
  world.changeSpec((spec) => (spec.nodes.maxUnavailable = '10%'));
  assert.equal((await rolled(world, image(world, '3'))).length, 9);
});

test('with two copies one at a time, whatever is asked for', async () => {
  const nodes = { replicasPerGroup: 3, maxUnavailable: 3 };
  const world = await settledWorld({ replicationFactor: 2, nodes });
  assert.equal((await rolled(world, image(world, '2'))).length, 9);
});

test('a bad image costs one pod of a group', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 3, maxUnavailable: 3 } });
  world.badImages.add('node:bad');
  assert.deepEqual(await rolled(world, image(world, 'bad')), ['EVICT a-0']);
  world.changeSpec((spec) => (spec.nodes.image = 'node:1'));
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
});

test('a budget that somebody else has used up lets none of them go', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 3, maxUnavailable: 3 } });
  let evictions = 0;
  world.kube.beforeWrite = (write) => {
    // From the second pod on, which would take others with it.
    if (write.startsWith('EVICT') && ++evictions > 1) {
      throw new KubeError(429, 'TooManyRequests', 'it would violate the disruption budget');
    }
  };
  assert.deepEqual(
    (await rolled(world, image(world, '2'))).filter((one) => one.includes('DELETE')),
    [],
  );
  assert.ok(evictions > 2, 'it is tried again');
  world.kube.beforeWrite = () => {};
  await world.clock.pass(200_000);
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
});

test('an operator that is killed between two of them goes on when all are back', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 4, maxUnavailable: 4 } });
  world.kube.beforeWrite = (write) => {
    if (write !== 'DELETE Pod/c-a-2') return;
    world.kube.beforeWrite = () => {};
    world.restartOperator();
    throw new Error('killed');
  };
  const rounds = await rolled(world, image(world, '2'));
  assert.equal(rounds[2], 'EVICT a-2', 'what was left goes by an eviction of its own');
  assert.equal(world.condition('Ready').status, 'True');
});
