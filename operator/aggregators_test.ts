/** Aggregators that come, change and go with their placement. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settledWorld, World } from './world_testing.ts';

const placed = async (world: World): Promise<string[]> =>
  Object.keys((await world.aggregators())?.instances ?? {}).sort();

const pods = (world: World): string[] =>
  world.kube
    .ofKind('Pod')
    .map(({ metadata }) => metadata.name)
    .filter((name) => name.startsWith('c-aggregators-'))
    .sort();

test('pairs come when their pods serve, and leave before these end', async () => {
  const world = await settledWorld();
  assert.deepEqual(pods(world), []);
  world.changeSpec((spec) => (spec.aggregator = {}));
  await world.settle();
  assert.deepEqual(world.calls, ['aggregators init c-aggregators-0 c-aggregators-1']);
  assert.equal(world.condition('Ready').status, 'True');
  assert.deepEqual(world.cluster.status.aggregator, { replicas: 2, readyReplicas: 2 });
  assert.equal(world.cluster.status.images.aggregator, 'aggregator:1');
  world.changeSpec((spec) => (spec.aggregator = { pairs: 3 }));
  await world.settle();
  const added = 'c-aggregators-2 c-aggregators-3 c-aggregators-4 c-aggregators-5';
  assert.deepEqual(world.calls.slice(1), [`aggregators add ${added}`]);
  const before: string[][] = [];
  world.beforeCall = () => before.push(pods(world));
  world.changeSpec((spec) => (spec.aggregator = { pairs: 1 }));
  await world.settle();
  assert.deepEqual(world.calls.slice(2), [`aggregators remove ${added}`]);
  assert.equal(before[0]?.length, 6, 'their pods are there as long as they are placed');
  assert.deepEqual(pods(world), ['c-aggregators-0', 'c-aggregators-1']);
  assert.deepEqual(await placed(world), pods(world));

  world.changeSpec((spec) => delete spec.aggregator);
  await world.settle();
  assert.deepEqual(world.calls.slice(3), ['aggregators delete']);
  assert.equal(before[1]?.length, 2);
  assert.deepEqual(pods(world), []);
  assert.equal(world.kube.find('StatefulSet', 'c-aggregators'), undefined);
  assert.equal(world.kube.find('Service', 'c-aggregators'), undefined);
  assert.equal(world.condition('Ready').status, 'True');
  assert.equal(world.cluster.status.aggregator, undefined);
});

test('one that does not start is told, and nothing waits for it', async () => {
  const world = await settledWorld();
  world.broken.add('c-aggregators-1');
  world.changeSpec((spec) => {
    spec.aggregator = { pairs: 2 };
    spec.nodes = { replicasPerGroup: 2 };
  });
  for (let pass = 0; pass < 30; pass++) {
    await world.reconcile().catch(() => {});
    await world.clock.pass(2_000);
    await world.advance();
  }
  assert.deepEqual(world.calls.toSorted(), [
    'add c-a-1',
    'add c-a-b-1',
    'add c-c-1',
    'aggregators init c-aggregators-2 c-aggregators-3',
  ]);
  const ready = world.condition('Ready');
  assert.deepEqual([ready.status, ready.reason], ['False', 'AggregatorsNotReady']);
  assert.match(ready.message, /aggregators are not ready: c-aggregators-1/);
  world.broken.clear();
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
  assert.deepEqual((await placed(world)).length, 4);
});

test('aggregators are rolled last, by Kubernetes', async () => {
  const world = await settledWorld({ aggregator: {} });
  world.changeSpec((spec) => {
    spec.aggregator = { image: 'aggregator:2' };
    spec.coordinator = { image: 'coordinator:2' };
  });
  await world.settle();
  assert.equal(world.cluster.status.images.aggregator, 'aggregator:2');
  assert.deepEqual(await placed(world), ['c-aggregators-0', 'c-aggregators-1']);
});

const instance = (id: string, isolation_group: string, shard_set_id = 0): object => ({
  id,
  isolation_group,
  zone: 'embedded',
  weight: 100,
  endpoint: `${id}:6000`,
  hostname: id,
  port: 6000,
  shard_set_id,
});

async function look(world: World): Promise<void> {
  for (let pass = 0; pass < 15; pass++) {
    await world.reconcile();
    await world.clock.pass(2_000);
    await world.advance();
  }
}

test('a placement of aggregators that somebody else has made stays as it is', async () => {
  const world = await settledWorld();
  const instances = [instance('mine-1', 'x', 7), instance('mine-2', 'y', 7)];
  const theirs = { num_shards: 16, replication_factor: 2, instances };
  await world.changeAggregators('init', theirs);
  await look(world);
  assert.deepEqual([await placed(world), world.calls], [['mine-1', 'mine-2'], []]);
  assert.equal(world.condition('Ready').status, 'True');

  world.changeSpec((spec) => (spec.aggregator = {}));
  await look(world);
  assert.deepEqual([await placed(world), world.calls], [['mine-1', 'mine-2'], []]);
  const stalled = world.condition('Stalled');
  assert.deepEqual([stalled.status, stalled.reason], ['True', 'ForeignAggregators']);
  assert.match(stalled.message, /not put there, .*: mine-1, mine-2: replace or remove them/);
  world.changeSpec((spec) => delete spec.aggregator);
  await look(world);
  assert.deepEqual([pods(world), world.calls], [[], []]);
  assert.equal(world.condition('Stalled'), undefined);
});

test('an instance in the place of one of a pair is told, and makes no pods', async () => {
  for (const id of ['hand-1', 'c-aggregators-300', 'c-aggregators-99999999']) {
    const world = await settledWorld({ aggregator: {} });
    const candidates = [instance(id, 'odd')];
    const leavingInstanceIDs = ['c-aggregators-1'];
    await world.changeAggregators('replace', { leavingInstanceIDs, candidates });
    await look(world);
    assert.deepEqual(pods(world), ['c-aggregators-0', 'c-aggregators-1'], id);
    assert.equal(world.condition('Stalled').reason, 'ForeignAggregators');
    // Somebody sets it right.
    await world.changeAggregators('replace', {
      leavingInstanceIDs: [id],
      candidates: [instance('c-aggregators-1', 'odd')],
    });
    await look(world);
    assert.equal(world.condition('Stalled'), undefined);
  }
});
