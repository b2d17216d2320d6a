/** Isolation groups that come and go. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { World, settledWorld } from './world_testing.ts';

async function passes(world: World, count: number): Promise<void> {
  for (let pass = 0; pass < count; pass++) {
    await world.reconcile().catch(() => {});
    await world.clock.pass(2_000);
    await world.advance();
  }
}

const groups = (world: World, names: readonly string[]) =>
  world.changeSpec((spec) => (spec.isolationGroups = names.map((name) => ({ name }))));

const claims = (world: World): string[] =>
  world.kube
    .ofKind('PersistentVolumeClaim')
    .map(({ metadata }) => metadata.name)
    .filter((name) => !name.includes('etcd'))
    .sort();

test('a group is replaced by another: the new one joins before the old one leaves', async () => {
  const world = await settledWorld();
  groups(world, ['a', 'a-b', 'd']);
  await world.settle();
  assert.deepEqual(world.calls, ['add c-d-0', 'remove c-c-0']);
  assert.equal(world.condition('Ready').status, 'True');
  assert.deepEqual(world.instanceIds().sort(), ['c-a-0', 'c-a-b-0', 'c-d-0']);
  assert.equal(world.kube.find('StatefulSet', 'c-c'), undefined);
  assert.deepEqual(claims(world), ['data-c-a-0', 'data-c-a-b-0', 'data-c-d-0']);
  // The same name once more: new volumes, a new place.
  groups(world, ['a', 'a-b', 'd', 'c']);
  await world.settle();
  assert.deepEqual(world.calls.slice(2), ['add c-c-0']);
  assert.equal(world.instanceIds().length, 4);
});

test('a group stays as long as the others are too few for the copies', async () => {
  const world = await settledWorld();
  world.broken.add('c-d-0');
  groups(world, ['a', 'a-b', 'd']);
  await passes(world, 20);
  assert.deepEqual(world.calls, []);
  assert.match(world.condition('Ready').message, /c-d-0/);
  assert.equal(world.condition('Available').status, 'True');
  groups(world, ['a', 'a-b', 'c']);
  world.broken.clear();
  await world.settle();
  assert.deepEqual(world.calls, []);
  assert.equal(world.kube.find('StatefulSet', 'c-d'), undefined);
});

test('a group that is taken back keeps its data, or gets them anew, wherever it was', async () => {
  for (const at of [1, 2, 3, 4, 5, 6, 8, 10, 12]) {
    const world = await settledWorld({
      isolationGroups: ['a', 'a-b', 'c', 'd'].map((name) => ({ name })),
      nodes: { replicasPerGroup: 2 },
    });
    groups(world, ['a', 'a-b', 'd']);
    await passes(world, at);
    if (at % 2 === 0) world.restartOperator();
    groups(world, ['a', 'a-b', 'd', 'c']);
    await world.settle();
    assert.equal(world.condition('Ready').status, 'True', `after ${at} passes`);
    assert.equal(world.instanceIds().length, 8);
    assert.equal(
      world.shardStates().every((state) => state === 'AVAILABLE'),
      true,
    );
  }
});

test('an operator that is killed at each write of a removal goes on with the next one', async () => {
  for (let failAt = 1; failAt <= 12; failAt++) {
    const world = await settledWorld({
      isolationGroups: ['a', 'a-b', 'c', 'd'].map((name) => ({ name })),
    });
    let left = failAt;
    const kill = () => {
      if (--left !== 0) return;
      world.restartOperator();
      throw new Error('killed');
    };
    world.kube.afterWrite = kill;
    world.afterCall = kill;
    groups(world, ['a', 'a-b', 'd']);
    await world.settle();
    assert.deepEqual(world.calls, ['remove c-c-0'], `killed at write ${failAt}`);
    assert.equal(world.kube.find('StatefulSet', 'c-c'), undefined);
    assert.equal(claims(world).length, 3);
  }
});

test('instances of a group that nobody here has made are still those of others', async () => {
  const world = await settledWorld({
    isolationGroups: ['a', 'a-b', 'c', 'd'].map((name) => ({ name })),
  });
  await world.addForeignInstance('c-x-0', 'x');
  await passes(world, 5);
  assert.equal(world.condition('Stalled').reason, 'ForeignPlacement');
});

test('a group whose nodes cannot start is cured by the next image, and then leaves', async () => {
  const world = await settledWorld({
    isolationGroups: ['a', 'a-b', 'c', 'd'].map((name) => ({ name })),
  });
  world.badImages.add('node:bad');
  world.changeSpec((spec) => (spec.nodes.image = 'node:bad'));
  await passes(world, 8);
  assert.deepEqual(world.unreadyNodes(), ['c-a-0']);
  groups(world, ['a-b', 'c', 'd', 'e']);
  await passes(world, 20);
  assert.deepEqual(world.calls, [], 'the new group has the bad image too');
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  await world.settle();
  assert.deepEqual(world.calls, ['add c-e-0', 'remove c-a-0']);
});

test('a group that leaves gets its set back when somebody deletes it', async () => {
  const world = await settledWorld({
    isolationGroups: ['a', 'a-b', 'c', 'd'].map((name) => ({ name })),
  });
  groups(world, ['a', 'a-b', 'd']);
  world.kube.remove(world.kube.find('StatefulSet', 'c-c')!);
  world.kube.remove(world.kube.find('Pod', 'c-c-0')!);
  await world.settle();
  assert.deepEqual(world.calls, ['remove c-c-0']);
  assert.deepEqual(claims(world).length, 3);
  assert.equal(world.condition('Ready').status, 'True');
});
