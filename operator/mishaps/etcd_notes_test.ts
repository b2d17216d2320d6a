/** What the record says of volumes of etcd is old, wrong or gone, as after an upgrade of the operator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KubeError } from '../kube/kube_api.ts';
import { settledWorld, type World } from '../world_testing.ts';
import {
  claim,
  forgetData,
  type Json,
  members,
  passes,
  stalled,
  storeStatus,
} from './mishaps_testing.ts';

function editMembers(world: World, edit: (members: Json) => void): void {
  const live = structuredClone(world.kube.find('ConfigMap', 'c-record')) as Json;
  const record = JSON.parse(live.data['record.json']);
  edit(record.etcdMembers);
  world.kube.store({ ...live, data: { 'record.json': JSON.stringify(record) } });
}

/** As operators left it that did not note which volume a member answers on later. */
async function withOldNotes(): Promise<World> {
  const world = await settledWorld();
  editMembers(world, (noted) => {
    for (const pod of ['c-etcd-0', 'c-etcd-1']) noted[pod].claimUid = `old-${pod}`;
  });
  world.restartOperator();
  return world;
}

const uidOf = (world: World, pod: string): string => claim(world, `data-${pod}`).metadata.uid;

/** Its container ends again and again, once more each pass, while it has this volume. */
function crashOn(world: World, pod: string, uid: string): () => void {
  let restartCount = 5;
  return () => {
    if (uidOf(world, pod) !== uid) {
      world.broken.delete(pod);
      return;
    }
    world.broken.add(pod);
    const state = { waiting: { reason: 'CrashLoopBackOff' } };
    storeStatus(world, pod, {
      phase: 'Running',
      conditions: [{ type: 'Ready', status: 'False' }],
      containerStatuses: [{ state, ready: false, restartCount: ++restartCount }],
    });
  };
}

test('members that answer on other volumes than those in the record leave one at a time', async () => {
  const world = await withOldNotes();
  let fewest = members.length;
  const then = (): void => {
    fewest = Math.min(fewest, world.etcd.voters.length);
  };
  await passes(world, 100, { then, millis: 2_000 });
  assert.equal(fewest, 2);
  assert.deepEqual(world.etcd.voters.toSorted(), members);
  assert.equal(world.condition('Ready')?.status, 'True');
});

test('and no second one leaves while the first does not come back', async () => {
  const world = await withOldNotes();
  const then = (): void => {
    if (world.etcd.calls.includes('remove c-etcd-0')) world.broken.add('c-etcd-0');
  };
  await passes(world, 200, { then });
  assert.deepEqual(world.etcd.voters.toSorted(), ['c-etcd-1', 'c-etcd-2']);
  const { status, message } = world.condition('Ready')!;
  assert.equal(status, 'False');
  assert.match(message, /c-etcd-0.* joins etcd and has not started/);
});

test('volumes on which members have answered are not lost when they restart all at once', async () => {
  const world = await withOldNotes();
  await passes(world, 1);
  for (const pod of members) world.broken.add(pod);
  await world.advance();
  await passes(world, 3);
  assert.equal(stalled(world), null);
  for (const pod of members) world.broken.delete(pod);
  await passes(world, 100);
  assert.equal(world.condition('Ready')?.status, 'True');
});

test('a volume with data of a member that is not in the record is given up once', async () => {
  const world = await settledWorld();
  const uid = uidOf(world, 'c-etcd-1');
  world.broken.add('c-etcd-1');
  await world.advance();
  const { members: live } = (await world.etcd.view()) as Json;
  await world.etcd.remove(live.find(({ name }: Json) => name === 'c-etcd-1').id);
  await world.etcd.addLearner('http://c-etcd-1.c-etcd.default.svc:2380');
  editMembers(world, (noted) => delete noted['c-etcd-1']);
  world.restartOperator();
  const then = crashOn(world, 'c-etcd-1', uid);
  then();
  await passes(world, 60, { then, millis: 30_000 });
  assert.notEqual(uidOf(world, 'c-etcd-1'), uid);
  assert.deepEqual(world.etcd.voters.toSorted(), members);
  assert.equal(world.condition('Ready')?.status, 'True');
});

test('so is that of a member that was removed while the record could not be written', async () => {
  const world = await settledWorld();
  forgetData(world, 'c-etcd-1');
  await world.advance();
  const uid = uidOf(world, 'c-etcd-1');
  let failed = 0;
  world.kube.beforeWrite = (write: string): void => {
    if (write !== 'APPLY ConfigMap/c-record' || failed > 0) return;
    failed++;
    throw new KubeError(500, 'InternalError', 'etcdserver: request timed out');
  };
  const crash = crashOn(world, 'c-etcd-1', uid);
  const then = (): void => {
    if (world.etcd.calls.includes('remove c-etcd-1')) crash();
  };
  await passes(world, 60, { then, millis: 30_000 });
  assert.equal(failed, 1);
  assert.notEqual(uidOf(world, 'c-etcd-1'), uid);
  assert.deepEqual(world.etcd.voters.toSorted(), members);
});

test('what crashes on an empty volume too gives up no other one, and that is said', async () => {
  const world = await settledWorld();
  const uid = uidOf(world, 'c-etcd-1');
  let removed = false;
  let restartCount = 5;
  const uids = new Set<string>();
  const then = (): void => {
    world.broken.add('c-etcd-1');
    const state = { waiting: { reason: 'CrashLoopBackOff' } };
    storeStatus(world, 'c-etcd-1', {
      phase: 'Running',
      conditions: [{ type: 'Ready', status: 'False' }],
      containerStatuses: [{ state, ready: false, restartCount: ++restartCount }],
    });
    const live = claim(world, 'data-c-etcd-1');
    if (live !== undefined) uids.add(live.metadata.uid);
    if (!removed && world.etcd.calls.includes('remove c-etcd-1')) {
      removed = true;
      world.kube.remove(world.kube.find('ConfigMap', 'c-record') as Json);
    }
  };
  then();
  await passes(world, 100, { then, millis: 30_000 });
  assert.ok(uids.has(uid));
  assert.equal(uids.size, 2, [...uids].join(' '));
  assert.match(stalled(world).message, /c-etcd-1 joins etcd and crashes .* on an empty volume too/);
});

test('a voter that has lost its volume comes before one that joins and does not start', async () => {
  const world = await settledWorld({ etcd: { replicas: 3 } });
  world.changeSpec((spec) => (spec.etcd = { replicas: 5 }));
  world.broken.add('c-etcd-3');
  await passes(world, 10);
  world.loseVolume('c-etcd-1');
  for (let turn = 0; turn < 4; turn++) await world.advance();
  await passes(world, 60);
  assert.deepEqual(world.etcd.calls.slice(1, 5), [
    ...['remove c-etcd-3', 'remove c-etcd-1', 'add c-etcd-1', 'promote c-etcd-1'],
  ]);
  assert.deepEqual(world.etcd.voters.toSorted(), members);
  world.broken.delete('c-etcd-3');
  await passes(world, 100);
  assert.equal(world.etcd.voters.length, 5);
});
