/** Members of etcd come, go and fail, one at a time and together. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { EtcdClient } from '../etcd/etcd_admin.ts';
import { settledWorld, specOf, World } from '../world_testing.ts';
import {
  type Json,
  forever,
  passes,
  writesLike,
  claim,
  stalled,
  storeStatus,
  snapshotsOn,
  members,
  annotatePod,
  forgetData,
} from './mishaps_testing.ts';

// A new image of etcd. One member was evicted and starts. Another one fails its readiness for some
// seconds (a slow disk after the election), serving all the while. It is "outdated and not ready": evicted
// at once (the budget lets unready ones go), so two of three are away. Nodes have a check here, etcd not.
test('a second member of etcd is not evicted while the first one starts', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => (spec.etcd = { image: 'etcd:2' }));
  const evicted = (): string[] => writesLike(world, /^EVICT Pod\/c-etcd/);
  for (let pass = 0; pass < 10 && evicted().length === 0; pass++) await passes(world, 1);
  assert.equal(evicted().length, 1);
  const other = members.find(
    (name) =>
      !evicted().includes(`EVICT Pod/${name}`) &&
      world.kube.find('Pod', name).spec.containers[0].image === 'etcd:1',
  )!;
  storeStatus(world, other, { phase: 'Running', conditions: [{ type: 'Ready', status: 'False' }] });
  await world.reconcile();
  assert.deepEqual(evicted().length, 1, `${other} serves in truth: ${evicted().join(', ')}`);
});

// etcd.replicas goes from 3 to 1. The disruption budget goes in the first pass, with all three members
// still voting; they leave one by one, later (or much later: a member is away, etcd is not reachable). A
// drain of two machines meanwhile takes two of three.
test('the budget of etcd stays until its members have left', async () => {
  const world = await settledWorld({ etcd: { replicas: 3 } });
  world.changeSpec((spec) => (spec.etcd = { replicas: 1 }));
  await world.reconcile();
  assert.ok(world.etcd.voters.length > 1, 'they have not left');
  assert.notEqual(world.kube.find('PodDisruptionBudget', 'c-etcd'), undefined);
});

// A pod of etcd runs on a volume of another etcd (a claim that was kept as the cluster was applied
// again in one breath). Its maintenance/status answers, with other IDs in the header. It is taken for a
// healthy member, rolls go on as if all three served, and its volume is recorded as that of the member.
test('who answers with the ID of another member is not that member', async () => {
  const server = createServer((request, response) => {
    const pod = /^\/([^/]+)/.exec(request.url!)![1];
    const isOther = pod === 'c-etcd-1';
    const header = { cluster_id: isOther ? '99' : '1', member_id: isOther ? '77' : '10' };
    const members = ['c-etcd-0', 'c-etcd-1', 'c-etcd-2'].map((name, at) => ({
      ID: String(10 + at),
      name,
      peerURLs: [`http://${name}.c-etcd.default.svc:2380`],
    }));
    const body = /member\/list/.test(request.url!)
      ? { header, members }
      : { header, version: '3.6.7', leader: '10', dbSize: '1', dbSizeInUse: '1' };
    // The other one has no quorum of its own.
    response.statusCode = isOther && /member\/list/.test(request.url!) ? 503 : 200;
    response.end(JSON.stringify(body));
  }).listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  const { port } = server.address() as AddressInfo;
  try {
    const client = new EtcdClient(realEnv, (pod) => `http://127.0.0.1:${port}/${pod}`);
    const view = await client.view(['c-etcd-0', 'c-etcd-1', 'c-etcd-2'], forever);
    assert.ok(view.reachable);
    assert.equal(view.members.find(({ name }) => name === 'c-etcd-1')!.state, null);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

// etcd is full indeed: what is in it is as large as its quota (deletions, known keys...). There is
// nothing to defragment, so the alarm is taken back, raised by the next write, taken back... every two
// seconds; the status says "etcd was full, and has room again", and nobody is told what to do.
test('an etcd that is really full is said, and its alarm not taken back for ever', async () => {
  const world = await settledWorld();
  world.etcd.dbBytesInUse = 2 ** 31 - 2 ** 20;
  for (const name of members) world.etcd.dbBytes[name] = 2 ** 31;
  const then = (): void => {
    world.etcd.alarms = [];
    world.etcd.raise('NOSPACE', 'c-etcd-1');
  };
  then();
  await passes(world, 60, { then });
  assert.equal(world.condition('Ready').reason, 'EtcdNoSpace', 'its former values may still go');
  assert.equal(stalled(world), null);
  await passes(world, 120, { then });
  const { length } = world.etcd.calls;
  assert.ok(
    length < 10 && stalled(world) !== null,
    `${length} calls; ${JSON.stringify(world.condition('Ready'))}`,
  );
});

// One edit: etcd 5 -> 1 members and larger volumes. Claims grow at once, the set is deleted (pods stay)
// and made anew with spec.etcd.replicas, 1, while members still vote: Kubernetes ends their pods together.
// The quorum is gone until the operator has made the set larger again.
test('etcd has a quorum throughout when it shrinks and its volumes grow', async () => {
  const world = await settledWorld({ etcd: { replicas: 5, storage: { size: '8Gi' } } });
  world.changeSpec((spec) => (spec.etcd = { replicas: 1, storage: { size: '16Gi' } }));
  const lost: string[] = [];
  for (let pass = 0; pass < 40; pass++) {
    await passes(world, 1, { millis: 2_000 });
    if (!world.etcd.hasQuorum) lost.push(`pass ${pass}: ${world.etcd.voters.join(' ')}`);
  }
  assert.deepEqual(lost, []);
});

// etcd 3 -> 5 -> 3. Claims of etcd are owned by the TSDBCluster (own-claim) and, with whenScaled: Delete,
// by the pod that goes. Kubernetes' garbage collector deletes what has *no* owner left, and else only strikes
// out the one that is gone: so volumes of members that left stay. World deletes them itself; corrected here.
test('volumes of members of etcd that left go, by the rules of the real garbage collector', async () => {
  const world = await settledWorld({ etcd: { replicas: 3 } });
  for (const replicas of [5, 3]) {
    world.changeSpec((spec) => (spec.etcd.replicas = replicas));
    await passes(world, 60);
  }
  assert.equal(world.etcd.voters.length, 3);
  assert.equal(world.condition('Ready').status, 'True');
  assert.deepEqual(
    ['data-c-etcd-3', 'data-c-etcd-4'].filter((name) => claim(world, name) !== undefined),
    [],
  );
});

// Images come from a registry that asks for a password, machines for databases are tainted: etcd.podTemplate
// has imagePullSecrets and tolerations, and etcd runs. Pods of snapshots and of a restore have neither: no
// snapshot is ever taken and none could be restored. The cluster is Ready, and says nothing of it (an alert on the age of the last snapshot fires after 26 hours).
test('the jobs of etcd run where its members run, and from the same registry', async () => {
  const spec = {
    imagePullSecrets: [{ name: 'registry' }],
    tolerations: [{ key: 'dedicated', operator: 'Exists' }],
  };
  const world = await settledWorld({ etcd: { ...snapshotsOn, podTemplate: { spec } } });
  assert.deepEqual(world.kube.find('Pod', 'c-etcd-0').spec.tolerations, spec.tolerations);
  const job = world.kube.find('CronJob', 'c-etcd-snapshots').spec.jobTemplate.spec.template.spec;
  assert.deepEqual(
    [job.imagePullSecrets, job.tolerations],
    [spec.imagePullSecrets, spec.tolerations],
  );
});

// The machine of the leader is gone. Its pod comes back on an empty volume, finds all members in its
// configuration, and starts under its old id: a voter without its log.
test('a member does not start on an empty volume under its old id', async () => {
  const world = await settledWorld();
  world.loseVolume('c-etcd-1');
  // Kubernetes is faster than the operator.
  for (let pass = 0; pass < 3; pass++) await world.advance();
  await passes(world, 30);
  assert.deepEqual(world.etcd.amnesiacs, []);
  assert.deepEqual(world.etcd.calls, ['remove c-etcd-1', 'add c-etcd-1', 'promote c-etcd-1']);
  assert.equal(world.condition('Ready').status, 'True');
});

// The same while the operator is away: the pod crashes again and again, and other members start anew
// with their data meanwhile.
test('who waits without data for the operator joins when that is back', async () => {
  const world = await settledWorld();
  world.loseVolume('c-etcd-1');
  for (let pass = 0; pass < 10; pass++) await world.advance();
  assert.equal(world.etcd.isRunning('c-etcd-1'), false);
  world.broken.add('c-etcd-2');
  await world.advance();
  world.broken.clear();
  await world.advance();
  assert.equal(world.etcd.isRunning('c-etcd-2'), true, 'its data are there');
  world.restartOperator();
  await passes(world, 30);
  assert.deepEqual(world.etcd.amnesiacs, []);
  assert.equal(world.condition('Ready').status, 'True');
});

// Somebody deletes the ConfigMap while etcd has no quorum: a member whose volume is gone besides must
// not find itself in a new one.
test('a configuration that is lost lets nobody start without data', async () => {
  const world = await settledWorld();
  for (const name of members.slice(1)) world.broken.add(name);
  await world.advance();
  world.kube.remove(world.kube.find('ConfigMap', 'c-etcd-members'));
  world.loseVolume('c-etcd-0');
  await passes(world, 3);
  world.broken.clear();
  await passes(world, 30);
  assert.deepEqual(world.etcd.amnesiacs, []);
  assert.equal(world.condition('Ready').status, 'True');
});

// A third member of a new cluster is slow: etcd has a quorum without it, and it has no data to lose.
test('a member of a new etcd that is late finds the others', async () => {
  const world = new World();
  world.addCluster(specOf());
  world.broken.add('c-etcd-2');
  await passes(world, 20);
  assert.equal(world.etcd.hasQuorum, true);
  world.broken.clear();
  await passes(world, 20);
  assert.deepEqual(world.etcd.calls, []);
  assert.equal(world.condition('Ready').status, 'True');
});

// An operator before this one let members start so.
test('a member that answers on another volume than its own is replaced', async () => {
  const world = await settledWorld();
  world.etcd.lead('c-etcd-1');
  forgetData(world, 'c-etcd-1');
  await world.advance();
  const { uid } = claim(world, 'data-c-etcd-1').metadata;
  await passes(world, 20);
  assert.deepEqual(world.etcd.calls, [
    'move leader from c-etcd-1 to c-etcd-0',
    ...['remove c-etcd-1', 'add c-etcd-1', 'promote c-etcd-1'],
  ]);
  assert.notEqual(claim(world, 'data-c-etcd-1').metadata.uid, uid, 'that has data of it, too');
  assert.equal(world.condition('Ready').status, 'True');
});

test('it is not while the others have no quorum without it', async () => {
  const world = await settledWorld();
  forgetData(world, 'c-etcd-1');
  world.broken.add('c-etcd-2');
  await world.advance();
  await passes(world, 10);
  assert.deepEqual(world.etcd.calls, []);
});

test('two members that have lost their volumes one after the other are no lost etcd later', async () => {
  const world = await settledWorld();
  for (const name of members.slice(1)) {
    forgetData(world, name);
    await world.advance();
    await passes(world, 12);
  }
  assert.equal(world.condition('Ready').status, 'True');
  for (const name of members) world.broken.add(name);
  await world.advance();
  await passes(world, 5);
  assert.equal(stalled(world), null);
});

const crashed = { state: { waiting: { reason: 'CrashLoopBackOff' } }, ready: false };

// A setting with which etcd does not start (an election timeout below five heartbeats) is rolled out, to
// one member, which crashes. It is made anew once; it crashed again, and again its volume was given up, 19
// times an hour, and nothing was Stalled.
test('a setting with which etcd does not start costs one volume, is said, and can be taken back', async () => {
  const world = await settledWorld();
  const name = 'ETCD_ELECTION_TIMEOUT';
  const isBad = (pod: Json): boolean =>
    pod?.spec.containers[0].env.some((one: Json) => one.name === name) === true;
  const ages = new Map<string, number>();
  const then = (): void => {
    for (const member of members) {
      const pod = world.kube.find('Pod', member) as Json;
      if (!isBad(pod)) {
        world.broken.delete(member);
        continue;
      }
      world.broken.add(member);
      const { uid } = pod.metadata;
      ages.set(uid, (ages.get(uid) ?? 0) + 1);
      const conditions = [{ type: 'Ready', status: 'False' }];
      const containerStatuses = [{ ...crashed, restartCount: ages.get(uid)! }];
      storeStatus(world, member, { phase: 'Running', conditions, containerStatuses });
    }
  };
  const containers = [{ name: 'etcd', env: [{ name, value: '10' }] }];
  world.changeSpec((spec) => (spec.etcd = { podTemplate: { spec: { containers } } }));
  await passes(world, 120, { then });
  assert.equal(writesLike(world, /^DELETE PersistentVolumeClaim/).length, 1);
  assert.equal(stalled(world)?.reason, 'EtcdCrashing');
  assert.match(stalled(world).message, /c-etcd-2 .*on an empty volume too/);
  world.changeSpec((spec) => (spec.etcd = {}));
  await passes(world, 60, { then });
  assert.equal(world.condition('Ready').status, 'True', JSON.stringify(world.condition('Ready')));
  assert.equal(writesLike(world, /^DELETE PersistentVolumeClaim/).length, 1);
  assert.deepEqual(world.etcd.voters, members);
});

// A member whose files are damaged is removed and added again. With those files it could not join: that is
// known, and no reason to let it crash five times more.
test('the volume of a member that was removed is given up as soon as it joins anew', async () => {
  const world = await settledWorld();
  const damaged = claim(world, 'data-c-etcd-1').metadata.uid;
  let ends = 0;
  world.kube.beforeWrite = (write) => {
    if (write !== 'DELETE PersistentVolumeClaim/data-c-etcd-1') return;
    ends = (world.kube.find('Pod', 'c-etcd-1') as Json).status.containerStatuses[0].restartCount;
  };
  const then = (): void => {
    if (claim(world, 'data-c-etcd-1').metadata.uid !== damaged) world.broken.clear();
    else if (world.etcd.calls.length === 0) {
      world.broken.add('c-etcd-1');
      const conditions = [{ type: 'Ready', status: 'False' }];
      const containerStatuses = [{ ...crashed, restartCount: 5 }];
      storeStatus(world, 'c-etcd-1', { phase: 'Running', conditions, containerStatuses });
    } else {
      // Its pod was replaced, for whatever reason.
      storeStatus(world, 'c-etcd-1', {
        phase: 'Running',
        conditions: [{ type: 'Ready', status: 'False' }],
        containerStatuses: [{ ...crashed, restartCount: 1 }],
      });
    }
  };
  then();
  await passes(world, 30, { then });
  assert.deepEqual(world.etcd.calls, ['remove c-etcd-1', 'add c-etcd-1', 'promote c-etcd-1']);
  assert.equal(ends, 1);
  assert.equal(world.condition('Ready').status, 'True');
});

// Who joins crashes for a reason that is on its volume all the same: a person gives that up.
test('the volume of a member that joins is given up when a person asks for it', async () => {
  const world = await settledWorld({ etcd: { replicas: 1 } });
  world.changeSpec((spec) => (spec.etcd.replicas = 3));
  world.broken.add('c-etcd-1');
  await passes(world, 10);
  const { uid } = claim(world, 'data-c-etcd-1').metadata;
  annotatePod(world, 'c-etcd-1', 'tsdb.io/replace');
  await passes(world, 3);
  assert.notEqual(claim(world, 'data-c-etcd-1').metadata.uid, uid);
  world.broken.clear();
  await passes(world, 40);
  assert.deepEqual(world.etcd.voters, members);
});

// An image with a slip, and etcd.image is of all members: `getaddrinfo EAI_AGAIN` was all that was said.
test('what keeps etcd from starting is said as Kubernetes says it', async () => {
  const world = new World();
  world.badImages.add('etcd:slip');
  world.addCluster(specOf({ etcd: { image: 'etcd:slip' } }));
  world.coordinatorUp = false;
  await passes(world, 5);
  assert.match(world.condition('Ready').message, /c-etcd-0 \(the image .*cannot be pulled\)/);
  const later = await settledWorld();
  for (const name of members.slice(1)) later.broken.add(name);
  const state = { terminated: { exitCode: 1, reason: 'Error' } };
  const then = (): void => {
    const conditions = [{ type: 'Ready', status: 'False' }];
    const containerStatuses = [{ ready: false, restartCount: 1, state }];
    for (const name of members.slice(1)) {
      storeStatus(later, name, { phase: 'Running', conditions, containerStatuses });
    }
  };
  await later.advance();
  then();
  await passes(later, 5, { then });
  const { reason, message } = later.condition('Ready');
  assert.equal(reason, 'EtcdNoQuorum');
  assert.match(message, /c-etcd-1 \(it has ended with code 1\)/);
  assert.doesNotMatch(message, /by itself/);
});

test('the condition of etcd names the members that do not answer', async () => {
  const world = await settledWorld();
  world.broken.add('c-etcd-1');
  await world.advance();
  await passes(world, 2);
  assert.match(world.condition('EtcdReady').message, /^2 of 3 members answer, without c-etcd-1$/);
});
