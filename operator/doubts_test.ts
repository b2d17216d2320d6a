/** Data that only one node may still have: it is not taken away while another owner needs it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { World, settledWorld } from './world_testing.ts';

type Json = any;

async function passes(world: World, count: number, stepMillis = 2_000): Promise<void> {
  for (let pass = 0; pass < count; pass++) {
    await world.reconcile();
    await world.clock.pass(stepMillis);
    await world.advance();
  }
}

const evicted = (world: World): string[] =>
  world.kube.writes.filter((write) => write.startsWith('EVICT')).map((write) => write.slice(10));

function annotatePod(world: World, name: string, key: string): void {
  const pod = structuredClone(world.kube.find('Pod', name)) as Json;
  pod.metadata.annotations = { ...pod.metadata.annotations, [key]: 'true' };
  world.kube.store(pod);
}

test('a roll waits while another owner lacks blocks, and says what a person can do', async () => {
  const world = await settledWorld();
  world.lacking.set('c-c-0', [3, 4]);
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  await passes(world, 20);
  assert.deepEqual(evicted(world), ['c-c-0'], 'the one that lacks them may go');
  const { reason, message } = world.condition('Ready');
  assert.equal(reason, 'DataInDoubt');
  assert.match(message, /c-a-0 must stay as long as c-c-0 lacks 2 blocks/);
  assert.match(message, /annotate pod c-a-0 with tsdb.io\/ignore-doubts=true/);
  world.restartOperator();
  await passes(world, 5);
  assert.deepEqual(evicted(world), ['c-c-0']);
  world.lacking.clear();
  await world.settle();
  assert.deepEqual(evicted(world), ['c-c-0', 'c-a-0', 'c-a-b-0']);
});

test('a doubt that never ends is passed over by an annotation, for one pod and once', async () => {
  const world = await settledWorld();
  world.lacking.set('c-c-0', [3]);
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  await passes(world, 10);
  annotatePod(world, 'c-a-0', 'tsdb.io/ignore-doubts');
  await passes(world, 20);
  assert.deepEqual(evicted(world), ['c-c-0', 'c-a-0']);
  world.changeSpec((spec) => (spec.nodes.image = 'node:3'));
  await passes(world, 20);
  assert.deepEqual(evicted(world), ['c-c-0', 'c-a-0', 'c-c-0'], 'the new pod has no annotation');
});

test('an owner that does not say how it is may lack blocks, and one that serves nothing is cured', async () => {
  const world = await settledWorld();
  world.silent.add('c-c-0');
  world.badImages.add('node:bad');
  world.changeSpec((spec) => (spec.nodes.image = 'node:bad'));
  await passes(world, 10);
  // It is the first whose other owners all answer; then it serves nothing, and the roll halts.
  assert.deepEqual(evicted(world), ['c-c-0']);
  world.silent.clear();
  world.lacking.set('c-a-0', [1]);
  world.changeSpec((spec) => (spec.nodes.image = 'node:1'));
  await world.settle();
  assert.deepEqual(evicted(world), ['c-c-0', 'c-c-0']);
  assert.equal(world.condition('Ready').status, 'True');
});

test('a coordinator of a release before, which cannot say it, holds up nothing', async () => {
  const world = await settledWorld();
  world.lacking.set('c-c-0', [3]);
  world.healthsProblem = 'none';
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  await world.settle();
  assert.equal(evicted(world).length, 3);
  world.healthsProblem = new TsdbError('UNAVAILABLE', 'no answer in 5 s');
  world.changeSpec((spec) => (spec.nodes.image = 'node:3'));
  await passes(world, 5);
  assert.equal(evicted(world).length, 3);
  assert.match(world.condition('Ready').message, /has not said yet .*no answer in 5 s/);
  assert.equal(world.condition('Ready').reason, 'NodesSilent');
});

test('neither a volume is given up nor a node removed that has what another one lacks', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 1, replaceAfter: '1m' } });
  world.lacking.set('c-c-0', [3]);
  world.loseMachine('c-a-0');
  await passes(world, 6, 30_000);
  const given = () =>
    world.kube.writes.filter((write) => /DELETE PersistentVolumeClaim/.test(write));
  assert.deepEqual(given(), []);
  assert.match(world.condition('Ready').message, /c-a-0 is replaced when .*c-c-0 lacks 1 blocks/);
  annotatePod(world, 'c-a-0', 'tsdb.io/ignore-doubts');
  await passes(world, 6, 30_000);
  assert.deepEqual(given(), ['DELETE PersistentVolumeClaim/data-c-a-0']);

  const larger = await settledWorld({ nodes: { replicasPerGroup: 2 } });
  const own = (await larger.placement())!.instances['c-a-1']!.shards.map(({ id }) => id);
  const sharing = ['c-c-0', 'c-c-1'].find((id) => {
    larger.lacking.clear();
    larger.lacking.set(id, own);
    return larger.inDoubtBeside('c-a-1').length > 0;
  });
  assert.notEqual(sharing, undefined);
  larger.changeSpec((spec) => (spec.nodes.replicasPerGroup = 1));
  await passes(larger, 10);
  assert.deepEqual(larger.calls, []);
  assert.equal(larger.condition('Ready').reason, 'DataInDoubt');
  larger.lacking.clear();
  await larger.settle();
  assert.deepEqual(larger.calls, ['remove c-a-1', 'remove c-a-b-1', 'remove c-c-1']);
});
