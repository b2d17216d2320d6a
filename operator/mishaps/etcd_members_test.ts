/** Members of etcd come, go and fail, one at a time and together. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { EtcdClient } from '../etcd/etcd_admin.ts';
import { settledWorld } from '../world_testing.ts';
import {
  forever,
  passes,
  writesLike,
  claim,
  stalled,
  storeStatus,
  snapshotsOn,
  members,
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
    world.etcd.alarms = ['NOSPACE'];
  };
  then();
  await passes(world, 60, { then });
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
