/** Volumes that go to another storage class, one after the other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { World, settledWorld } from './world_testing.ts';

type Json = any;

async function passes(world: World, count: number): Promise<void> {
  for (let pass = 0; pass < count; pass++) {
    await world.reconcile().catch(() => {});
    await world.clock.pass(2_000);
    await world.advance();
  }
}

const given = (world: World): string[] =>
  world.kube.writes
    .filter((write) => write.startsWith('DELETE PersistentVolumeClaim/data-c-'))
    .map((write) => write.slice('DELETE PersistentVolumeClaim/data-c-'.length));

const classes = (world: World): Record<string, string> =>
  Object.fromEntries(
    world.kube
      .ofKind('PersistentVolumeClaim')
      .map(({ metadata, spec }: Json) => [metadata.name.slice(7), spec.storageClassName]),
  );

const nodesTo = (className: string) => (world: World) =>
  world.changeSpec((spec) => (spec.nodes.storage = { ...spec.nodes.storage, className }));

/** Each volume is given up while all other nodes serve and have all of their shards. */
function watch(world: World): string[] {
  const wrong: string[] = [];
  world.kube.beforeWrite = (write) => {
    const id = /^DELETE PersistentVolumeClaim\/data-(c-(?!etcd).*)/.exec(write)?.[1];
    if (id === undefined) return;
    const states = world.shardStates((other) => other !== id);
    const unready = world.unreadyNodes().filter((other) => other !== id);
    if (unready.length > 0 || states.some((state) => state !== 'AVAILABLE')) wrong.push(write);
  };
  return wrong;
}

test('nodes go to another class one by one, by eviction, and keep their places', async () => {
  const world = await settledWorld();
  const wrong = watch(world);
  nodesTo('faster')(world);
  await passes(world, 4);
  assert.match(world.condition('Ready').message, /storage class fast-disk and is to be of faster/);
  await world.settle();
  assert.deepEqual(given(world), ['a-0', 'a-b-0', 'c-0']);
  assert.deepEqual(wrong, []);
  assert.deepEqual(
    world.kube.writes.filter((write) => write.startsWith('DELETE Pod')),
    [],
  );
  const { 'a-0': a, 'a-b-0': b, 'c-0': c, 'etcd-0': etcd } = classes(world);
  assert.deepEqual([a, b, c, etcd], ['faster', 'faster', 'faster', 'fast-disk']);
  assert.deepEqual(world.calls, []);
  assert.equal(world.condition('Ready').status, 'True');
});

test('a class of one group, and one of etcd', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => {
    spec.isolationGroups[2].storageClassName = 'local';
    spec.etcd = { storage: { className: 'small' } };
  });
  await world.settle();
  assert.deepEqual(given(world).sort(), ['c-0', 'etcd-0', 'etcd-1', 'etcd-2']);
  const { 'a-0': a, 'c-0': c, 'etcd-2': etcd } = classes(world);
  assert.deepEqual([a, c, etcd], ['fast-disk', 'local', 'small']);
  assert.deepEqual(world.etcd.voters, ['c-etcd-0', 'c-etcd-1', 'c-etcd-2']);
  assert.equal(world.etcd.violation, null);
});

test('it halts at the first that does not come back, and reverting recovers', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 2 } });
  world.badClasses.add('nowhere');
  nodesTo('nowhere')(world);
  await passes(world, 30);
  assert.deepEqual(given(world), ['a-0']);
  assert.equal(world.condition('Available').status, 'True');
  nodesTo('fast-disk')(world);
  await world.settle();
  assert.deepEqual(given(world), ['a-0', 'a-0']);
  assert.equal(new Set(Object.values(classes(world))).size, 1);
  assert.equal(world.condition('Ready').status, 'True');
});

test('an operator that is killed at each write goes on where it was', async () => {
  for (let failAt = 1; failAt <= 24; failAt++) {
    const world = await settledWorld();
    const wrong = watch(world);
    let left = failAt;
    world.kube.afterWrite = () => {
      if (--left !== 0) return;
      world.restartOperator();
      throw new Error('killed');
    };
    nodesTo('faster')(world);
    await world.settle();
    assert.deepEqual(new Set(given(world)), new Set(['a-0', 'a-b-0', 'c-0']), `write ${failAt}`);
    assert.equal(given(world).length, 3, 'none is given up twice');
    assert.deepEqual(wrong, []);
  }
});

test('it waits for its window and its approval, and what is only copied once is never given up', async () => {
  const gated = await settledWorld({ updatePolicy: 'Gated' });
  nodesTo('faster')(gated);
  await passes(gated, 10);
  assert.deepEqual(given(gated), []);
  const { hash, actions } = gated.cluster.status.plan;
  assert.ok(actions.includes('replace pod c-a-0'), actions.join());
  gated.annotate('tsdb.io/approve', hash);
  await gated.settle();
  assert.equal(given(gated).length, 3, 'one approval is good for all of them');

  const single = await settledWorld({ replicationFactor: 1, etcd: { replicas: 1 } });
  nodesTo('faster')(single);
  single.changeSpec((spec) => (spec.etcd.storage = { className: 'faster' }));
  await passes(single, 20);
  assert.deepEqual(given(single), []);
  assert.match(single.condition('Ready').message, /one copy|three members/);
});

test('a smaller volume comes with another class, and a larger one is not grown first', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 1, storage: { size: '200Gi' } } });
  world.changeSpec((spec) => (spec.nodes.storage = { size: '100Gi', className: 'faster' }));
  await world.settle();
  world.changeSpec((spec) => (spec.nodes.storage = { size: '300Gi', className: 'fast-disk' }));
  await world.settle();
  assert.equal(given(world).length, 6);
  assert.deepEqual(
    world.kube.writes.filter((write) => write.startsWith('PATCH PersistentVolumeClaim')),
    [],
  );
  assert.equal(world.condition('Ready').status, 'True');
});
