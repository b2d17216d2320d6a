/** Members of etcd come, go and are replaced, and a quorum stands throughout. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resource } from './resource/kube_objects.ts';
import { World, settledWorld } from './world_testing.ts';

type Json = any;

const membersOf = (count: number): string[] =>
  Array.from({ length: count }, (_, ordinal) => `c-etcd-${ordinal}`);

const volumesOf = (world: World): string[] =>
  world.kube
    .ofKind('PersistentVolumeClaim')
    .map(({ metadata }) => metadata.name)
    .filter((name) => name.startsWith('data-c-etcd'))
    .sort();

async function passes(world: World, count: number): Promise<void> {
  for (let pass = 0; pass < count; pass++) {
    await world.reconcile();
    await world.clock.pass(5_000);
    await world.advance();
    assert.ok(world.etcd.hasQuorum, 'a quorum stands throughout');
  }
}

test('members come as learners, and go from the last with their volumes', async () => {
  const world = await settledWorld({ etcd: { replicas: 1 } });
  for (const replicas of [3, 5, 3] as const) {
    world.changeSpec((spec) => (spec.etcd.replicas = replicas));
    await passes(world, 60);
    assert.deepEqual(world.etcd.voters, membersOf(replicas));
    assert.deepEqual(
      volumesOf(world),
      membersOf(replicas).map((name) => `data-${name}`),
    );
    assert.equal(world.condition('Ready').status, 'True');
  }
  assert.deepEqual(world.etcd.calls, [
    ...['add c-etcd-1', 'promote c-etcd-1', 'add c-etcd-2', 'promote c-etcd-2'],
    ...['add c-etcd-3', 'promote c-etcd-3', 'add c-etcd-4', 'promote c-etcd-4'],
    ...['remove c-etcd-4', 'remove c-etcd-3'],
  ]);
  const nodes = world.kube.writes.filter((write) => /EVICT Pod\/c-(a|a-b|c)-\d/.test(write));
  assert.deepEqual(nodes, [], 'no node is replaced for it');
});

test('a leader gives up leadership before it leaves', async () => {
  const world = await settledWorld({ etcd: { replicas: 3 } });
  world.etcd.lead('c-etcd-2');
  world.changeSpec((spec) => (spec.etcd.replicas = 1));
  await passes(world, 30);
  assert.deepEqual(world.etcd.calls, [
    'move leader from c-etcd-2 to c-etcd-0',
    'remove c-etcd-2',
    'remove c-etcd-1',
  ]);
});

test('a member whose volume is lost is removed and comes back as a learner', async () => {
  const world = await settledWorld();
  world.loseVolume('c-etcd-1');
  await passes(world, 30);
  assert.deepEqual(world.etcd.calls, ['remove c-etcd-1', 'add c-etcd-1', 'promote c-etcd-1']);
  assert.deepEqual(world.etcd.voters, membersOf(3));
  assert.equal(world.condition('Ready').status, 'True');
});

test('a set of etcd that somebody deletes comes back with its data', async () => {
  const world = await settledWorld();
  const before = volumesOf(world);
  await world.kube.delete(resource.statefulSet, 'default', 'c-etcd', { uid: null, orphan: false });
  world.etcd.run([]);
  for (let pass = 0; pass < 10; pass++) {
    await world.reconcile();
    await world.clock.pass(5_000);
    await world.advance();
  }
  assert.deepEqual(volumesOf(world), before);
  assert.deepEqual(world.etcd.voters, membersOf(3));
  assert.equal(world.condition('Ready').status, 'True');
});

test('a member that is only away is waited for', async () => {
  const world = await settledWorld();
  world.broken.add('c-etcd-1');
  await world.advance();
  await passes(world, 10);
  assert.deepEqual(world.etcd.calls, []);
  assert.equal(world.condition('EtcdReady').status, 'True');
  assert.match(world.condition('Ready').message, /c-etcd-1/);
  world.broken.clear();
  await passes(world, 10);
  assert.equal(world.condition('Ready').status, 'True');
});

test('an operator that dies after any of its steps is followed by one that goes on', async () => {
  for (let at = 0; at < 12; at++) {
    const world = await settledWorld();
    world.loseVolume('c-etcd-2');
    world.changeSpec((spec) => (spec.etcd = { replicas: 5 }));
    let step = 0;
    world.kube.afterWrite = () => {
      if (step++ !== at) return;
      world.restartOperator();
      throw new Error('the operator was killed');
    };
    for (let pass = 0; pass < 80; pass++) {
      await world.reconcile().catch(() => {});
      await world.clock.pass(5_000);
      await world.advance();
    }
    assert.deepEqual(world.etcd.voters, membersOf(5), `killed after write ${at}`);
    assert.equal(world.condition('Ready').status, 'True');
  }
});

test('an etcd that lost most volumes waits for a person, and gets back what the nodes know', async () => {
  const world = await settledWorld();
  const before = world.instanceIds();
  await world.loseEtcd();
  for (const name of membersOf(3)) world.loseVolume(name);
  world.coordinatorUp = false;
  for (let pass = 0; pass < 10; pass++) {
    await world.reconcile();
    await world.clock.pass(5_000);
    await world.advance();
  }
  const stalled = world.condition('Stalled');
  assert.deepEqual([stalled?.status, stalled?.reason], ['True', 'EtcdLost']);
  assert.deepEqual(world.etcd.calls, []);
  assert.equal(world.unreadyNodes().length, 0, 'nodes go on');
  world.annotate('tsdb.io/restore-etcd', 'empty');
  for (let pass = 0; pass < 40; pass++) {
    await world.reconcile();
    await world.clock.pass(5_000);
    await world.advance();
    world.coordinatorUp = world.etcd.hasQuorum;
  }
  assert.deepEqual(world.etcd.voters, membersOf(3));
  assert.deepEqual(world.instanceIds(), before);
  assert.deepEqual(world.calls, ['approve']);
  assert.equal(world.condition('Ready').status, 'True');
  const { annotations } = world.cluster.metadata;
  assert.equal(annotations['tsdb.io/restore-etcd'], undefined, 'it is good for one loss');
});

test('members are replaced one by one, the leader last, and while all serve', async () => {
  const world = await settledWorld();
  world.etcd.lead('c-etcd-2');
  world.changeSpec((spec) => (spec.etcd = { image: 'etcd:2' }));
  await passes(world, 40);
  const evicted = world.kube.writes.filter((write) => write.startsWith('EVICT'));
  assert.deepEqual(evicted, ['EVICT Pod/c-etcd-1', 'EVICT Pod/c-etcd-0', 'EVICT Pod/c-etcd-2']);
});

test('an etcd of a version that cannot follow is not rolled out, and nodes do not wait for it', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => {
    spec.etcd = { image: 'etcd:v3.9.0' };
    spec.nodes.image = 'node:2';
  });
  await passes(world, 20);
  const stalled = world.condition('Stalled');
  assert.deepEqual([stalled?.status, stalled?.reason], ['True', 'EtcdVersionSkew']);
  assert.equal(world.kube.find('Pod', 'c-etcd-0').spec.containers[0].image, 'etcd:1');
  assert.equal(world.kube.find('Pod', 'c-a-0').spec.containers[0].image, 'node:2');
  world.changeSpec((spec) => (spec.etcd = { image: 'etcd:v3.7.0' }));
  await passes(world, 20);
  assert.equal(world.condition('Ready').status, 'True');
});

test('room is given back by the leader last, and an alarm taken back when there is room', async () => {
  const world = await settledWorld();
  world.etcd.lead('c-etcd-0');
  world.etcd.dbBytesInUse = 10 ** 6;
  world.etcd.raise('NOSPACE', 'c-etcd-1');
  world.etcd.raise('NOSPACE', 'c-etcd-2');
  for (const name of membersOf(3)) world.etcd.dbBytes[name] = 2 ** 31;
  await passes(world, 10);
  assert.deepEqual(world.etcd.calls, [
    ...['defragment c-etcd-1', 'defragment c-etcd-2', 'defragment c-etcd-0'],
    ...['disarm NOSPACE', 'disarm NOSPACE'],
  ]);
  assert.deepEqual(world.etcd.alarms, []);
  const { etcd } = world.cluster.status as Json;
  assert.deepEqual(
    etcd.members.map(({ name, leader }: Json) => [name, leader]),
    [
      ['c-etcd-0', true],
      ['c-etcd-1', false],
      ['c-etcd-2', false],
    ],
  );
});

// What is in use is more than half of the quota and less than nine tenths: without the room of the rest the alarm
// would come back with the next write.
test('an etcd that is full gives back room when there is little of it, and before it is full', async () => {
  for (const isFull of [true, false]) {
    const world = await settledWorld();
    world.etcd.lead('c-etcd-0');
    world.etcd.dbBytesInUse = 2 ** 31 * 0.7;
    if (isFull) world.etcd.raise('NOSPACE', 'c-etcd-1');
    for (const name of membersOf(3)) world.etcd.dbBytes[name] = 2 ** 31 * 0.95;
    await passes(world, 10);
    assert.deepEqual(world.etcd.calls, [
      ...['defragment c-etcd-1', 'defragment c-etcd-2', 'defragment c-etcd-0'],
      ...(isFull ? ['disarm NOSPACE'] : []),
    ]);
  }
});

test('an etcd that is full of former values of its keys loses these', async () => {
  const world = await settledWorld();
  world.etcd.lead('c-etcd-0');
  world.etcd.dbBytesInUse = 2 ** 31;
  world.etcd.dbBytesOfHistory = 2 ** 31 - 10 ** 6;
  world.etcd.raise('NOSPACE', 'c-etcd-1');
  for (const name of membersOf(3)) world.etcd.dbBytes[name] = 2 ** 31;
  await passes(world, 10);
  assert.deepEqual(world.etcd.calls, [
    'compact 17',
    ...['defragment c-etcd-1', 'defragment c-etcd-2', 'defragment c-etcd-0'],
    'disarm NOSPACE',
  ]);
});

test('what was wrong with etcd before does not count as being full', async () => {
  const world = await settledWorld();
  world.etcd.raise('NOSPACE', 'c-etcd-1');
  world.etcd.dbBytesInUse = 2 ** 31;
  for (const name of membersOf(3)) world.etcd.dbBytes[name] = 2 ** 31;
  for (const name of membersOf(3)) world.broken.add(name);
  const pass = async (): Promise<void> => {
    await world.reconcile().catch(() => {});
    await world.clock.pass(5_000);
    await world.advance();
  };
  await world.advance();
  for (let count = 0; count < 100; count++) await pass();
  assert.equal(world.condition('EtcdReady').reason, 'NoQuorum');
  for (const name of membersOf(3)) world.broken.delete(name);
  await world.advance();
  for (let count = 0; count < 10; count++) await pass();
  assert.equal(world.condition('Ready').reason, 'EtcdNoSpace', 'former values may still go');
  assert.equal(world.condition('Stalled'), undefined);
});

test('the alarm of a member that has been removed is taken back', async () => {
  const world = await settledWorld();
  world.etcd.raise('CORRUPT', 'c-etcd-1');
  await passes(world, 3);
  const stalled = world.condition('Stalled');
  assert.equal(stalled?.message, 'etcd has alarms: CORRUPT of c-etcd-1');
  world.loseVolume('c-etcd-1');
  await passes(world, 30);
  assert.deepEqual(world.etcd.alarms, []);
  assert.equal(world.condition('Ready').status, 'True');
});

test('an etcd that does not answer is no reason to write the status again and again', async () => {
  const world = await settledWorld();
  for (const name of membersOf(3)) world.broken.add(name);
  await world.advance();
  await world.reconcile();
  await world.reconcile();
  assert.equal(world.cluster.status.etcd.members, undefined, 'what is not known is not said');
  world.kube.writes.length = 0;
  for (let pass = 0; pass < 5; pass++) await world.reconcile();
  assert.deepEqual(world.kube.writes, []);
});
