/** Upgrades that are finished when a person says so, and images that cannot read what is there. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settledWorld, specOf, World } from './world_testing.ts';

const evicted = (world: World): string[] =>
  world.kube.writes.filter((write) => write.startsWith('EVICT Pod/c-') && !write.includes('etcd'));

/** Until what nodes say of formats is written down. */
async function runForAWhile(world: World): Promise<void> {
  await world.settle();
  await world.clock.pass(60_000);
  await world.settle();
}

async function upgradedWorld(): Promise<World> {
  const world = new World();
  world.imageFormats.set('node:2', 2);
  world.addCluster(specOf());
  await runForAWhile(world);
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  await runForAWhile(world);
  world.kube.writes.length = 0;
  world.calls.length = 0;
  return world;
}

test('an upgrade is finished only when a person says so, and the status says that it can be', async () => {
  const world = await upgradedWorld();
  const { status, reason, message } = world.condition('UpgradeFinished');
  assert.deepEqual([status, reason], ['False', 'CanBeFinished']);
  assert.match(message, /tsdb.io\/finish-upgrade=true/);
  assert.equal(world.condition('Ready').status, 'True');
  assert.deepEqual(world.calls, []);
  world.annotate('tsdb.io/finish-upgrade', 'true');
  await world.settle();
  assert.deepEqual(world.calls, ['upgrade finish']);
  assert.equal(world.cluster.metadata.annotations['tsdb.io/finish-upgrade'], undefined);
  assert.equal(world.condition('UpgradeFinished'), undefined);
});

test('before an upgrade is finished the image before comes back', async () => {
  const world = await upgradedWorld();
  world.changeSpec((spec) => (spec.nodes.image = 'node:1'));
  await world.settle();
  assert.equal(evicted(world).length, 3);
  assert.equal(world.condition('Ready').status, 'True');
});

test('after it an image that is known not to read the data takes no pod', async () => {
  const world = await upgradedWorld();
  world.annotate('tsdb.io/finish-upgrade', 'true');
  await world.settle();
  world.restartOperator();
  world.changeSpec((spec) => (spec.nodes.image = 'node:1'));
  await world.settle();
  assert.deepEqual(evicted(world), []);
  const { reason, message } = world.condition('Stalled');
  assert.equal(reason, 'DowngradeRefused');
  assert.match(message, /node:1 reads formats up to level 1, and the data are of level 2/);
  const set = world.kube.find('StatefulSet', 'c-a').spec.template.spec;
  assert.equal(
    set.containers[0].image,
    'node:2',
    'a pod that dies comes back with what reads them',
  );
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
});

test('of an image that nobody has run the first pod is the proof', async () => {
  const world = await upgradedWorld();
  world.badImages.add('node:0');
  world.changeSpec((spec) => (spec.nodes.image = 'node:0'));
  for (let pass = 0; pass < 20; pass++) {
    await world.reconcile();
    await world.clock.pass(2_000);
    await world.advance();
  }
  assert.equal(evicted(world).length, 1);
  assert.equal(world.condition('Available').status, 'True');
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
});

test('what is asked for together with the new image is done when all nodes run that', async () => {
  const world = await settledWorld();
  world.imageFormats.set('node:2', 2);
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  world.annotate('tsdb.io/finish-upgrade', 'true');
  await world.settle();
  await world.clock.pass(60_000);
  await world.settle();
  assert.ok(world.calls.includes('upgrade finish'));
  assert.equal(world.cluster.metadata.annotations['tsdb.io/finish-upgrade'], undefined);
});

test('an image may be called like a member that all objects have', async () => {
  const world = await upgradedWorld();
  world.annotate('tsdb.io/finish-upgrade', 'true');
  await world.settle();
  world.imageFormats.set('constructor', 2);
  world.changeSpec((spec) => (spec.nodes.image = 'constructor'));
  await world.settle();
  assert.equal(evicted(world).length, 3);
  assert.equal(world.condition('Ready').status, 'True');
});
