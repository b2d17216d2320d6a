/** Snapshots of a cluster's own etcd: taken, seen, and brought back when etcd has lost its data. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KubeError } from './kube/kube_api.ts';
import { specOf, World, settledWorld } from './world_testing.ts';

type Json = any;

const etcd = { replicas: 3, snapshots: { schedule: '*/10 * * * *', keep: 3 } } as const;
const members = ['c-etcd-0', 'c-etcd-1', 'c-etcd-2'];

async function passes(world: World, count: number): Promise<void> {
  for (let pass = 0; pass < count; pass++) {
    await world.reconcile().catch(() => {});
    await world.clock.pass(5_000);
    await world.advance();
    world.coordinatorUp = world.etcd.hasQuorum;
  }
}

async function loseAll(world: World): Promise<void> {
  await world.loseEtcd();
  for (const name of members) world.loseVolume(name);
  world.coordinatorUp = false;
}

const stalled = (world: World): Json => {
  const { status, reason, message } = world.condition('Stalled') ?? {};
  return status === 'True' ? { reason, message } : null;
};

test('the schedule writes to a volume that outlives the cluster, and the status says what is there', async () => {
  const world = await settledWorld({ etcd });
  const { spec } = world.kube.find('CronJob', 'c-etcd-snapshots');
  assert.equal(spec.schedule, '*/10 * * * *');
  const { initContainers, containers } = spec.jobTemplate.spec.template.spec;
  assert.deepEqual(
    [...initContainers, ...containers].map(({ image }: Json) => image),
    ['etcd:1', 'operator:1'],
  );
  assert.deepEqual(containers[0].args.slice(-1), ['3']);
  await world.takeSnapshot('20260101T000000Z.db');
  await world.settle();
  const { snapshots } = world.cluster.status.etcd;
  assert.equal(snapshots.name, '20260101T000000Z.db');
  assert.ok(snapshots.lastSuccessfulTime !== undefined && snapshots.bytes > 0);
  world.changeSpec((whole) => delete whole.etcd.snapshots);
  await world.settle();
  assert.equal(world.kube.find('CronJob', 'c-etcd-snapshots'), undefined);
  await world.deleteCluster();
  assert.notEqual(world.kube.find('PersistentVolumeClaim', 'c-etcd-snapshots'), undefined);
});

test('its volume keeps its class and its snapshots, and another class is taken with another claim', async () => {
  const world = await settledWorld({ etcd });
  const name = 'c-etcd-snapshots';
  const claim = (): Json => world.kube.find('PersistentVolumeClaim', name);
  // As the real server.
  world.kube.beforeWrite = (write, body) => {
    if (write !== `APPLY PersistentVolumeClaim/${name}` || claim() === undefined) return;
    if (body.spec.storageClassName === claim().spec.storageClassName) return;
    throw new KubeError(
      422,
      'Invalid',
      'spec is immutable after creation except resources.requests',
    );
  };
  const storageOf = (className: string, size: string) => (whole: Json) =>
    (whole.etcd.snapshots.storage = { className, size });
  world.changeSpec(storageOf('other', '16Gi'));
  await passes(world, 10);
  assert.equal(stalled(world).reason, 'SnapshotsClassKept');
  assert.match(
    stalled(world).message,
    /c-etcd-snapshots is of storage class fast-disk and keeps it/,
  );
  assert.equal(claim().spec.resources.requests.storage, '16Gi', 'it grows all the same');
  world.changeSpec(storageOf('fast-disk', '16Gi'));
  await passes(world, 3);
  assert.equal(stalled(world), null, 'taken back');
  world.changeSpec(storageOf('other', '16Gi'));
  world.kube.remove(claim());
  await passes(world, 3);
  assert.equal(claim().spec.storageClassName, 'other');
  assert.equal(stalled(world), null);
});

test('a snapshot goes with the cluster whose data go with it', async () => {
  const world = new World();
  world.addCluster(specOf({ etcd, deletionPolicy: { data: 'Delete' } }));
  await world.settle();
  await world.deleteCluster();
  assert.deepEqual(world.kube.ofKind('PersistentVolumeClaim'), []);
});

test('an etcd that lost its data is made from the snapshot that a person names, and nodes bring the rest', async () => {
  const world = await settledWorld({ etcd });
  await world.takeSnapshot('20260101T000000Z.db');
  world.addClaim('later', { retentionTime: '24h' });
  await world.settle();
  const before = world.instanceIds();
  const { placementVersion } = world.cluster.status;
  await loseAll(world);
  await passes(world, 10);
  assert.match(stalled(world).message, /restore-etcd=empty.*or =latest/);
  world.calls.length = 0;
  world.annotate('tsdb.io/restore-etcd', 'latest');
  await passes(world, 60);
  assert.deepEqual(world.etcd.voters, members);
  assert.deepEqual(world.instanceIds(), before);
  assert.deepEqual(world.calls, ['approve']);
  assert.ok(world.cluster.status.placementVersion > placementVersion);
  assert.equal(world.condition('Ready').status, 'True');
  assert.deepEqual(
    world.cluster.status.namespaces.map(({ name, ready }: Json) => [name, ready]),
    [
      ['default', true],
      ['later', true],
    ],
  );
  const { annotations } = world.cluster.metadata;
  assert.equal(annotations['tsdb.io/restore-etcd'], undefined, 'it is good for one loss');
  assert.deepEqual(world.kube.ofKind('Job'), []);
});

test('a volume of a member that never came is given up with the others', async () => {
  for (const wish of ['empty', 'latest']) {
    const world = await settledWorld({ etcd });
    await world.takeSnapshot('20260101T000000Z.db');
    await world.settle();
    await loseAll(world);
    const labels = { 'tsdb.io/cluster': 'c', 'tsdb.io/component': 'etcd' };
    // Kubernetes has made the volume of a pod, and the set ends before it has made the pod.
    world.kube.afterWrite = (write) => {
      if (write !== 'PATCH StatefulSet/c-etcd' && write !== 'APPLY StatefulSet/c-etcd') return;
      if (world.kube.find('StatefulSet', 'c-etcd').spec.replicas !== 0) return;
      world.kube.afterWrite = () => {};
      world.kube.store({
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: { name: 'data-c-etcd-3', namespace: 'default', labels },
        spec: { resources: { requests: { storage: '8Gi' } } },
        status: { phase: 'Bound' },
      });
    };
    world.annotate('tsdb.io/restore-etcd', wish);
    await passes(world, 60);
    assert.equal(world.kube.find('PersistentVolumeClaim', 'data-c-etcd-3'), undefined, wish);
    assert.deepEqual(world.etcd.voters, members);
    assert.equal(world.condition('Ready').status, 'True');
  }
});

test('a snapshot that is not there is said, and another one helps', async () => {
  const world = await settledWorld({ etcd });
  await world.takeSnapshot('20260101T000000Z.db');
  await world.settle();
  await loseAll(world);
  world.annotate('tsdb.io/restore-etcd', 'yesterday.db');
  const reasons = new Set<string>();
  for (let pass = 0; pass < 20; pass++) {
    await passes(world, 1);
    reasons.add(world.condition('Ready').reason);
  }
  assert.ok(reasons.has('EtcdRestoring'), [...reasons].join(', '));
  assert.equal(stalled(world).reason, 'EtcdRestoreFailed');
  assert.match(stalled(world).message, /no snapshot yesterday.db/);
  world.annotate('tsdb.io/restore-etcd', '../../etc/passwd');
  await passes(world, 5);
  assert.match(stalled(world).message, /neither empty, latest nor the name/);
  world.annotate('tsdb.io/restore-etcd', '20260101T000000Z.db');
  await passes(world, 60);
  assert.deepEqual(world.etcd.voters, members);
  assert.equal(world.condition('Ready').status, 'True');
});

test('an operator that dies after any of its steps of a restore is followed by one that goes on', async () => {
  for (let at = 0; at < 12; at++) {
    const world = await settledWorld({ etcd });
    await world.takeSnapshot('20260101T000000Z.db');
    await world.settle();
    const before = world.instanceIds();
    await loseAll(world);
    await passes(world, 3);
    world.annotate('tsdb.io/restore-etcd', 'latest');
    let step = 0;
    world.kube.afterWrite = () => {
      if (step++ !== at) return;
      world.restartOperator();
      throw new Error('the operator was killed');
    };
    await passes(world, 50);
    assert.deepEqual(world.etcd.voters, members, `killed after write ${at}`);
    assert.deepEqual(world.instanceIds(), before);
    assert.equal(world.condition('Ready').status, 'True', `killed after write ${at}`);
  }
});

test('a restore ends when the snapshot lacks nothing of what nodes know', async () => {
  for (const lost of [null, 'c-a-0']) {
    const world = await settledWorld({ etcd });
    await world.takeSnapshot('20260101T000000Z.db');
    await world.settle();
    const before = world.instanceIds();
    await loseAll(world);
    world.snapshotsLackNothing = true;
    await passes(world, 3);
    if (lost !== null) world.loseMachine(lost);
    world.annotate('tsdb.io/restore-etcd', 'latest');
    await passes(world, 60);
    assert.deepEqual(world.etcd.voters, members);
    // A node that does not come is waited for some minutes.
    await passes(world, lost === null ? 20 : 140);
    assert.equal(world.cluster.metadata.annotations['tsdb.io/restore-etcd'], undefined);
    assert.ok(!world.calls.includes('approve'));
    assert.deepEqual(world.instanceIds(), before);
    if (lost === null) assert.equal(world.condition('Ready').status, 'True');
  }
});

test('approving a snapshot for an etcd that is well changes nothing', async () => {
  const world = await settledWorld({ etcd });
  await world.takeSnapshot('20260101T000000Z.db');
  await world.settle();
  world.etcd.calls.length = 0;
  world.calls.length = 0;
  world.annotate('tsdb.io/restore-etcd', 'latest');
  await passes(world, 10);
  assert.deepEqual([world.calls, world.etcd.calls], [[], []]);
  assert.equal(world.condition('Ready').status, 'True');
  assert.equal(world.cluster.metadata.annotations['tsdb.io/restore-etcd'], undefined);
});

test('a store that somebody restored by hand is not changed before a person approves', async () => {
  const world = await settledWorld({ etcd });
  await world.takeSnapshot('20260101T000000Z.db');
  await world.loseEtcdTo('20260101T000000Z.db');
  world.calls.length = 0;
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  await passes(world, 10);
  assert.equal(stalled(world).reason, 'StoreRestored');
  assert.deepEqual(world.calls, []);
  world.annotate('tsdb.io/approve-placement', 'restore');
  await passes(world, 60);
  assert.equal(world.calls[0], 'approve');
  assert.equal(world.condition('Ready').status, 'True');
  assert.equal(world.instanceIds().length, 6);
});

test('a cluster that comes back without its etcd goes on with an approval that was broken off', async () => {
  const world = await settledWorld({ etcd });
  await world.takeSnapshot('20260101T000000Z.db');
  await world.settle();
  const before = world.instanceIds();
  await world.deleteCluster();
  world.etcd.forget();
  world.addCluster(specOf({ etcd }));
  // The first approval has written a placement, and not that it is approved.
  await world.loseEtcdTo('20260101T000000Z.db');
  world.calls.length = 0;
  await passes(world, 40);
  // Again until all nodes have said what they knew.
  assert.deepEqual(new Set(world.calls), new Set(['approve']));
  assert.deepEqual(world.instanceIds(), before);
  assert.equal(world.condition('Ready').status, 'True');
});
