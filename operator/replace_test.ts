/** Machines and disks that do not come back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { World, settledWorld } from './world_testing.ts';

async function minutes(world: World, count: number): Promise<void> {
  for (let half = 0; half < count * 2; half++) {
    await world.reconcile();
    await world.clock.pass(30_000);
    await world.advance();
  }
}

const given = (world: World): string[] =>
  world.kube.writes.filter((write) => write.startsWith('DELETE PersistentVolumeClaim'));

test('a volume whose machine is gone is given up after a while, and the node filled anew', async () => {
  const world = await settledWorld();
  world.loseMachine('c-a-0');
  await minutes(world, 14);
  assert.deepEqual(given(world), []);
  assert.match(world.condition('Ready').message, /c-a-0 is replaced in \d+ minutes/);
  assert.equal(world.condition('Available').status, 'True');
  await minutes(world, 4);
  assert.deepEqual(given(world), ['DELETE PersistentVolumeClaim/data-c-a-0']);
  assert.equal(world.condition('Ready').status, 'True');
  assert.deepEqual(world.calls, [], 'it keeps its name and its place');
});

test('how long, and whether at all, the resource says', async () => {
  const soon = await settledWorld({ nodes: { replicasPerGroup: 1, replaceAfter: '1m' } });
  soon.loseMachine('c-a-0');
  await minutes(soon, 6);
  assert.equal(soon.condition('Ready').status, 'True');
  const never = await settledWorld({ nodes: { replicasPerGroup: 1, replaceAfter: 'never' } });
  never.loseMachine('c-a-0');
  await minutes(never, 60);
  assert.deepEqual(given(never), []);
  const pod = structuredClone(never.kube.find('Pod', 'c-a-0'));
  pod.metadata.annotations = { 'tsdb.io/replace': 'true' };
  never.kube.store(pod);
  await minutes(never, 3);
  assert.equal(never.condition('Ready').status, 'True');
});

test('never while a node of another group is down, or another one is filled', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 2 } });
  world.broken.add('c-c-1');
  world.loseMachine('c-a-0');
  await minutes(world, 30);
  assert.deepEqual(given(world), []);
  assert.match(world.condition('Ready').message, /c-a-0 is replaced when c-c-1 serves/);
  world.broken.clear();
  await minutes(world, 3);
  assert.deepEqual(given(world), ['DELETE PersistentVolumeClaim/data-c-a-0']);
});

test('a whole zone that is lost is filled again one disk after the other', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 2 } });
  world.loseMachine('c-a-0');
  world.loseMachine('c-a-1');
  const filled: boolean[] = [];
  world.kube.beforeWrite = (write) => {
    if (!write.startsWith('DELETE PersistentVolumeClaim')) return;
    filled.push(world.shardStates().every((state) => state === 'AVAILABLE'));
  };
  await minutes(world, 25);
  assert.deepEqual(filled, [true, true]);
  assert.equal(world.condition('Ready').status, 'True');
});

const annotate = (world: World, name: string): void => {
  const pod = structuredClone(world.kube.find('Pod', name));
  pod.metadata.annotations = { 'tsdb.io/replace': 'true' };
  world.kube.store(pod);
};

/** As a person does whose machines are gone for good. */
async function reset(world: World, ids: readonly string[]): Promise<void> {
  const isAnswering = () => Promise.resolve(false);
  const body = { instance_ids: ids, force: true };
  await world.admin.placementReset(body, plainRequest, isAnswering, new AbortController().signal);
}

test('two of a group whose data are given up do not wait for each other', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 2 } });
  for (const id of ['c-a-0', 'c-a-1']) world.loseMachine(id);
  await reset(world, ['c-a-0', 'c-a-1']);
  await minutes(world, 2);
  assert.match(world.condition('Ready').message, /c-a-0, c-a-1, of which do not run c-a-0/);
  assert.match(world.condition('Ready').message, /c-a-0 is replaced in \d+ minutes/);
  for (const id of ['c-a-0', 'c-a-1']) annotate(world, id);
  await minutes(world, 4);
  assert.equal(given(world).length, 2);
  assert.equal(world.condition('Ready').status, 'True');
});

test('nor do two groups of which a third one has everything', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 1, replaceAfter: 'never' } });
  for (const id of ['c-a-0', 'c-c-0']) world.loseMachine(id);
  await reset(world, ['c-a-0', 'c-c-0']);
  await minutes(world, 1);
  for (const id of ['c-a-0', 'c-c-0']) annotate(world, id);
  await minutes(world, 4);
  assert.equal(given(world).length, 2);
  assert.equal(world.condition('Ready').status, 'True');
});

test('rows that are perhaps lost are told', async () => {
  const world = await settledWorld();
  assert.equal(world.condition('RowsLost'), undefined);
  world.lost.set('c-a-0', 6);
  await minutes(world, 1);
  const { status, message } = world.condition('RowsLost');
  assert.equal(status, 'True');
  assert.match(message, /c-a-0 6 blocks; acknowledged rows of these may be missing for good/);
  assert.equal(world.condition('Ready').status, 'True');
  world.lost.clear();
  await minutes(world, 1);
  assert.equal(world.condition('RowsLost'), undefined);
});

test('a replacement that is lost too is replaced like the first', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 1, replaceAfter: '1m' } });
  world.loseMachine('c-a-0');
  while (given(world).length === 0) await minutes(world, 1);
  await minutes(world, 1);
  world.loseMachine('c-a-0');
  await minutes(world, 8);
  assert.equal(given(world).length, 2);
  assert.equal(world.condition('Ready').status, 'True');
});

test('a member of etcd whose machine is gone is replaced while all others serve', async () => {
  const world = await settledWorld();
  world.loseMachine('c-etcd-1');
  await minutes(world, 20);
  assert.deepEqual(given(world), ['DELETE PersistentVolumeClaim/data-c-etcd-1']);
  assert.deepEqual(world.etcd.voters, ['c-etcd-0', 'c-etcd-1', 'c-etcd-2']);
  assert.equal(world.condition('Ready').status, 'True');
});

test('a pod that its machine never lets go is taken from it, and keeps its volume', async () => {
  const world = await settledWorld();
  const pod = structuredClone(world.kube.find('Pod', 'c-a-0'));
  pod.metadata.deletionTimestamp = new Date(world.clock.nowMillis()).toISOString();
  world.kube.store(pod);
  await minutes(world, 14);
  assert.deepEqual(
    world.kube.writes.filter((write) => write.startsWith('DELETE')),
    [],
  );
  await minutes(world, 3);
  assert.deepEqual(
    world.kube.writes.filter((write) => write.startsWith('DELETE')),
    ['DELETE Pod/c-a-0'],
  );
  assert.equal(world.condition('Ready').status, 'True');
});

test('a pod that its machine never lets go stays as long as it alone keeps the only copy', async () => {
  const world = await settledWorld({ replicationFactor: 1, isolationGroups: [{ name: 'a' }] });
  const at = new Date(world.clock.nowMillis()).toISOString();
  for (const [kind, name] of [
    ['PersistentVolumeClaim', 'data-c-a-0'],
    ['Pod', 'c-a-0'],
  ] as const) {
    const object = structuredClone(world.kube.find(kind, name));
    object.metadata.deletionTimestamp = at;
    world.kube.store(object);
  }
  await minutes(world, 30);
  assert.deepEqual(
    world.kube.writes.filter((write) => write.startsWith('DELETE')),
    [],
  );
  assert.match(
    world.condition('Ready').message,
    /of which there is one copy, are lost: annotate pod/,
  );
});

test('machines of most members of etcd that stay away are told with what to do', async () => {
  const world = await settledWorld();
  for (const id of ['c-etcd-0', 'c-etcd-1']) world.loseMachine(id);
  await minutes(world, 5);
  assert.equal(world.condition('Stalled'), undefined);
  await minutes(world, 14);
  const { reason, message } = world.condition('Stalled');
  assert.equal(reason, 'EtcdMachinesGone');
  assert.match(
    message,
    /kubectl delete pvc\/data-c-etcd-0 pod\/c-etcd-0 pvc\/data-c-etcd-1 pod\/c-etcd-1/,
  );
});

test('a pod that its group lets run nowhere any more says what helps', async () => {
  const world = await settledWorld();
  const pod = structuredClone(world.kube.find('Pod', 'c-a-0'));
  const message = "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.";
  pod.status = {
    phase: 'Pending',
    conditions: [{ type: 'PodScheduled', status: 'False', message }],
  };
  world.kube.store(pod);
  await world.reconcile();
  const ready = world.condition('Ready');
  assert.match(ready.message, /the nodeAffinity of its group .* tsdb\.io\/replace=true/);
});
