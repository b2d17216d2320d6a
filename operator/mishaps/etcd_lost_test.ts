/** Etcd is lost, emptied or brought back, and what people do then. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { specOf, World, settledWorld } from '../world_testing.ts';
import {
  type Json,
  passes,
  writesLike,
  claim,
  stalled,
  storeStatus,
  annotatePod,
  snapshotsOn,
  members,
  snapshot,
  loseAllOfEtcd,
} from './mishaps_testing.ts';

// etcd with one member (the schema allows it), with limits in it that no node knows. A person
// annotates its pod with tsdb.io/replace=true, which docs say is done "as soon as that is safe: all
// other members serve". There is none, so it is safe at once: the whole store is deleted.
test('the only member of etcd is not replaced with an empty one', async () => {
  const world = await settledWorld({ etcd: { replicas: 1 } });
  annotatePod(world, 'c-etcd-0', 'tsdb.io/replace');
  await passes(world, 3);
  assert.deepEqual(writesLike(world, /^DELETE PersistentVolumeClaim/), []);
});

// 1 node a group, a snapshot, 2 nodes a group (shards move to the new ones). Somebody brings etcd
// back to the snapshot by hand, and sets replicasPerGroup back to 1 to match. Until a node notices (each
// 10 s, awaitsApproval) the operator takes the old placement for the truth: volumes that have the only
// copies of moved shards are deleted in all groups, and the record that knew better is overwritten.
test('nothing is done by a placement that is older than the one in the record', async () => {
  const world = await settledWorld({ etcd: snapshotsOn });
  await world.takeSnapshot(snapshot);
  await world.settle();
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  await world.settle();
  const owned = world.shardStates((id) => id.endsWith('-1')).length;
  assert.ok(owned > 0, 'the new nodes have shards');
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 1));
  await world.loseEtcdTo(snapshot);
  world.awaitsApproval = false;
  await passes(world, 4, { millis: 2_000 });
  const { record } = {
    record: JSON.parse(world.kube.find('ConfigMap', 'c-record').data['record.json']),
  };
  assert.deepEqual(
    ['data-c-a-1', 'data-c-a-b-1', 'data-c-c-1'].filter((name) => claim(world, name) === undefined),
    [],
    'volumes that have been deleted',
  );
  assert.equal(record.placement.instanceIds.length, 6, 'the record knows what there was');
});

// A machine dies for good that has a node and a member of etcd, and etcd is lost with it. A person
// approves restore-etcd=empty. The approval of the placement waits for what the dead node knew; its
// replacement, also by annotation, waits until "the placement is known". Neither ever ends; not Stalled.
test('a node that is lost together with etcd does not hold up the restore for ever', async () => {
  const world = await settledWorld();
  await loseAllOfEtcd(world);
  world.loseMachine('c-a-0');
  const then = (): void => {
    world.coordinatorUp = world.etcd.hasQuorum;
  };
  await passes(world, 6, { then });
  world.annotate('tsdb.io/restore-etcd', 'empty');
  await passes(world, 60, { millis: 60_000, then });
  if (world.condition('Ready').status !== 'True') {
    if (world.kube.find('Pod', 'c-a-0') !== undefined)
      annotatePod(world, 'c-a-0', 'tsdb.io/replace');
    await passes(world, 30, { millis: 60_000, then });
  }
  const said = `${world.condition('Ready').reason}: ${world.condition('Ready').message}`;
  assert.ok(world.condition('Ready').status === 'True' || stalled(world) !== null, said);
});

/** Etcd has lost all, and a person is asked. */
async function lostWorld(): Promise<World> {
  const world = await settledWorld({ etcd: snapshotsOn });
  await world.takeSnapshot(snapshot);
  await world.settle();
  await loseAllOfEtcd(world);
  await passesWithEtcd(world, 5);
  assert.equal(stalled(world)?.reason, 'EtcdLost');
  return world;
}

/** A coordinator answers as long as etcd does. */
const passesWithEtcd = (world: World, count: number): Promise<void> =>
  passes(world, count, {
    then: () => {
      world.coordinatorUp = world.etcd.hasQuorum;
    },
  });

const isSuspended = (world: World): boolean =>
  world.kube.find('CronJob', 'c-etcd-snapshots').spec.suspend;

// An SRE names a snapshot that is not there, sees nothing happen, and takes the annotation back: an
// empty etcd was made that nobody had asked for, and a snapshot of it stood before the good ones.
test('a restore that is taken back leaves etcd as it is, and takes no snapshots of an empty one', async () => {
  const world = await lostWorld();
  assert.equal(isSuspended(world), true);
  assert.equal(world.condition('Available').status, 'True', 'who runs goes on by what it knew');
  assert.match(world.cluster.status.shards, /^\?\//);
  world.annotate('tsdb.io/restore-etcd', '20200101T000000Z.db');
  await passesWithEtcd(world, 8);
  assert.equal(stalled(world)?.reason, 'EtcdRestoreFailed');
  const { annotations } = world.cluster.metadata;
  delete annotations['tsdb.io/restore-etcd'];
  world.kube.store(world.cluster);
  await passesWithEtcd(world, 10);
  assert.equal(stalled(world)?.reason, 'EtcdLost');
  assert.equal(world.kube.find('StatefulSet', 'c-etcd').spec.replicas, 0);
  world.annotate('tsdb.io/restore-etcd', 'latest');
  await passesWithEtcd(world, 60);
  assert.equal(world.condition('Ready').status, 'True');
  assert.equal(isSuspended(world), false);
});

// The resource was deleted and applied again: its coordinators have read an etcd without a placement, are
// ready, and answer nothing until what the nodes know stands again.
test('a cluster that comes back is not available before its placement stands', async () => {
  const world = await settledWorld();
  await world.deleteCluster();
  await world.loseEtcd();
  world.addCluster(specOf());
  for (let pass = 0; pass < 60 && world.condition('Ready')?.status !== 'True'; pass++) {
    await passes(world, 1);
    const isThere = world.cluster.status?.placementVersion !== undefined;
    if (!isThere) assert.notEqual(world.condition('Available')?.status, 'True');
  }
  assert.equal(world.condition('Available').status, 'True');
});

test('who asks for a snapshot and then for an empty etcd gets an empty one', async () => {
  const world = await lostWorld();
  world.annotate('tsdb.io/restore-etcd', 'latest');
  for (let pass = 0; pass < 30 && claim(world, 'data-c-etcd-0') === undefined; pass++) {
    await passesWithEtcd(world, 1);
  }
  const { uid } = claim(world, 'data-c-etcd-0').metadata;
  world.annotate('tsdb.io/restore-etcd', 'empty');
  await passesWithEtcd(world, 60);
  assert.equal(world.condition('Ready').status, 'True');
  assert.notEqual(claim(world, 'data-c-etcd-0').metadata.uid, uid);
  assert.equal(world.etcd.hasQuorum, true);
});

test('an etcd that is being made empty is not said to be in the way of a snapshot', async () => {
  const world = await lostWorld();
  world.annotate('tsdb.io/restore-etcd', 'empty');
  for (const name of members) world.broken.add(name);
  const replicas = (): number => world.kube.find('StatefulSet', 'c-etcd').spec.replicas;
  for (const wanted of [0, 3]) {
    for (let pass = 0; pass < 30 && replicas() !== wanted; pass++) await passesWithEtcd(world, 1);
  }
  world.annotate('tsdb.io/restore-etcd', 'latest');
  await passesWithEtcd(world, 3);
  assert.equal(stalled(world), null, JSON.stringify(stalled(world)));
  assert.match(world.condition('Ready').message, /nothing is restored over them/);
  world.broken.clear();
  await passesWithEtcd(world, 60);
  assert.equal(world.condition('Ready').status, 'True');
});

// Somebody follows "or =anew to begin with an empty one" while the nodes know a placement: the database
// refuses that for ever, nothing was Stalled any more. With the record gone too, =restore did nothing.
test('a placement that who runs knows is not made anew, and comes back without a record', async () => {
  for (const hasRecord of [true, false]) {
    const world = await settledWorld();
    world.snapshots.set(snapshot, []);
    await world.loseEtcdTo(snapshot);
    world.calls.length = 0;
    await passes(world, 4);
    if (!hasRecord) {
      world.kube.remove(world.kube.find('ConfigMap', 'c-record'));
      delete world.cluster.status;
      world.kube.store(world.cluster);
    }
    await passes(world, 4);
    const asked = hasRecord ? 'is gone' : 'placement is gone';
    assert.match(stalled(world)?.message ?? '', new RegExp(asked));
    world.annotate('tsdb.io/approve-placement', 'anew');
    await passes(world, 4);
    assert.equal(stalled(world)?.reason, 'PlacementLost');
    assert.match(stalled(world)!.message, /not made anew/);
    world.annotate('tsdb.io/approve-placement', 'restore');
    await passes(world, 30);
    assert.equal(world.condition('Ready').status, 'True');
    assert.deepEqual([...new Set(world.calls)], ['approve']);
  }
});

// All disks went with etcd, or the nodes cannot reach it: nobody says what the placement was, and nobody
// will. Their pods run, so that nothing but the wait tells.
test('nodes that never say what they knew are told to a person', async () => {
  const world = await settledWorld();
  const nodes = world.instanceIds();
  await loseAllOfEtcd(world);
  const then = (): void => {
    world.coordinatorUp = world.etcd.hasQuorum;
    for (const id of nodes) {
      storeStatus(world, id, {
        phase: 'Running',
        conditions: [{ type: 'Ready', status: 'False' }],
      });
    }
  };
  await passes(world, 6, { then });
  world.annotate('tsdb.io/restore-etcd', 'empty');
  await passes(world, 8, { then });
  assert.equal(world.condition('Ready').reason, 'PlacementRestoring');
  assert.equal(stalled(world), null, 'they say it soon after they start');
  await passes(world, 12, { millis: 60_000, then });
  assert.equal(stalled(world)?.reason, 'PlacementIncomplete');
  assert.match(stalled(world)!.message, /see the logs .* approve --force, and .*=anew when nobody/);
});

// etcd was restored from a snapshot once: the claim of member 0 was made by the operator, with its
// label, which stays. Later two volumes are lost, and pod 0 is away in the moment in which the set goes to
// 0, so its claim stays. It is taken for one "made to be restored": never deleted, and EtcdRestoring for ever.
test('a second restore is not held up by the volume of the first one', async () => {
  for (const wish of ['empty', 'latest']) {
    const world = await settledWorld({ etcd: snapshotsOn });
    await world.takeSnapshot(snapshot);
    await world.settle();
    await loseAllOfEtcd(world);
    const then = (): void => {
      world.coordinatorUp = world.etcd.hasQuorum;
    };
    await passes(world, 5, { then });
    world.annotate('tsdb.io/restore-etcd', 'latest');
    await passes(world, 60, { then });
    assert.equal(world.condition('Ready').status, 'True', 'the first one');
    await world.loseEtcd();
    for (const name of members.slice(1)) world.loseVolume(name);
    world.coordinatorUp = false;
    await passes(world, 5, { then });
    assert.equal(stalled(world)?.reason, 'EtcdLost');
    world.kube.beforeWrite = (write, body) => {
      if (!write.endsWith('StatefulSet/c-etcd') || body.spec?.replicas !== 0) return;
      world.kube.beforeWrite = () => {};
      const pod = world.kube.find('Pod', 'c-etcd-0');
      if (pod !== undefined) world.kube.remove(pod);
    };
    world.annotate('tsdb.io/restore-etcd', wish);
    await passes(world, 90, { then });
    const said = `${wish}: ${world.condition('Ready').reason}: ${world.condition('Ready').message}`;
    assert.equal(world.condition('Ready').status, 'True', said);
  }
});

// A power cut tears the files of two of three members: their volumes are there, and they crash at
// each start. The status says for ever "comes back by itself", nothing is Stalled; a person who annotates
// restore-etcd=latest gets no answer at all, as the annotation is passed over without a word.
test('members that crash for ever are said to a person, and so is a wish that is passed over', async () => {
  const world = await settledWorld({ etcd: snapshotsOn });
  await world.takeSnapshot(snapshot);
  await world.settle();
  for (const name of members.slice(1)) world.broken.add(name);
  const state = { waiting: { reason: 'CrashLoopBackOff' } };
  const then = (): void => {
    world.coordinatorUp = world.etcd.hasQuorum;
    for (const name of members.slice(1)) {
      storeStatus(world, name, {
        phase: 'Running',
        conditions: [{ type: 'Ready', status: 'False' }],
        containerStatuses: [{ ready: false, restartCount: 99, state }],
      });
    }
  };
  await world.advance();
  then();
  await passes(world, 60, { millis: 60_000, then });
  const before = world.condition('Ready').message;
  world.annotate('tsdb.io/restore-etcd', 'latest');
  await passes(world, 20, { millis: 60_000, then });
  assert.notEqual(stalled(world), null, `${before} / ${world.condition('Ready').message}`);
});

// The record is damaged, and deleted as its message says ("mend or delete it"), while etcd has no
// quorum for some minutes (all machines restart). A person takes that for a loss and annotates
// restore-etcd=latest. docs: "of an etcd that has its volumes nothing is restored". All volumes are deleted.
test('without a record an etcd that has its volumes is not restored over', async () => {
  const world = await settledWorld({ etcd: snapshotsOn });
  await world.takeSnapshot(snapshot);
  await world.settle();
  const uids = members.map((name) => claim(world, `data-${name}`).metadata.uid);
  for (const name of members) world.broken.add(name);
  world.coordinatorUp = false;
  await world.advance();
  world.kube.remove(world.kube.find('ConfigMap', 'c-record'));
  await passes(world, 3);
  world.annotate('tsdb.io/restore-etcd', 'latest');
  await passes(world, 10);
  assert.deepEqual(
    members.map((name) => claim(world, `data-${name}`)?.metadata.uid),
    uids,
  );
});

// A cluster is deleted (metadata: Delete) in the second in which Kubernetes has made volumes of etcd
// and the operator has not yet written that they are the cluster's: there is no finalizer (data: Retain), so
// they stay for ever. Applied again, a member starts with data of another etcd beside two new ones.
test('no volume of etcd is left of a cluster that went while it was made', async () => {
  const world = new World();
  world.addCluster(specOf());
  await world.reconcile();
  await world.advance();
  await world.deleteCluster();
  await passes(world, 10);
  assert.equal(world.cluster, undefined);
  assert.deepEqual(
    world.kube
      .ofKind('PersistentVolumeClaim')
      .map(({ metadata }) => metadata.name)
      .filter((name) => name.startsWith('data-c-etcd')),
    [],
  );
});

// A group is taken out (c becomes d); before its shards have moved the cluster is deleted (data:
// Retain, so etcd goes) and the same manifest applied again. The placement that comes back names c-c-0, but
// no set is made for c, though its volume is there: the approval waits for c-c-0 for ever, not Stalled.
test('a cluster that was deleted while a group left comes back', async () => {
  const world = await settledWorld();
  const groups = ['a', 'a-b', 'd'].map((name) => ({ name }));
  world.changeSpec((spec) => (spec.isolationGroups = groups));
  for (let pass = 0; pass < 20 && !world.instanceIds().includes('c-d-0'); pass++) {
    await passes(world, 1);
  }
  assert.deepEqual(world.instanceIds().sort(), ['c-a-0', 'c-a-b-0', 'c-c-0', 'c-d-0']);
  await world.loseEtcd();
  await world.deleteCluster();
  world.coordinatorUp = false;
  const then = (): void => {
    world.coordinatorUp = world.etcd.hasQuorum;
  };
  world.addCluster(specOf({ isolationGroups: groups }));
  await passes(world, 60, { millis: 60_000, then });
  assert.notEqual(claim(world, 'data-c-c-0'), undefined, 'its volume is there');
  const { status, reason, message } = world.condition('Ready');
  assert.ok(status === 'True' || stalled(world) !== null, `${reason}: ${message}`);
});

// etcd is lost; spec.etcd.image has a slip, and a person approves restore-etcd=latest: the Job cannot pull
// its image. The slip is mended; the Job keeps the bad image ("what a job runs cannot change") until its
// deadline of an hour, and is then Failed: the same wish is never tried again.
test('a restore goes on when the image with which it could not start is mended', async () => {
  const world = await settledWorld({ etcd: snapshotsOn });
  await world.takeSnapshot(snapshot);
  await world.settle();
  await loseAllOfEtcd(world);
  const imageOf = (job: Json): string => job.spec.template.spec.initContainers[1].image;
  world.kube.afterWrite = (write) => {
    if (!write.startsWith('APPLY Job/')) return;
    const [job] = world.kube.ofKind('Job') as Json[];
    if (imageOf(job) === 'etcd:slip') world.kube.store({ ...job, status: { active: 1 } });
  };
  const then = (): void => {
    world.coordinatorUp = world.etcd.hasQuorum;
  };
  await passes(world, 5, { then });
  world.changeSpec((spec) => (spec.etcd.image = 'etcd:slip'));
  world.annotate('tsdb.io/restore-etcd', 'latest');
  await passes(world, 20, { then });
  assert.equal(imageOf(world.kube.ofKind('Job')[0]), 'etcd:slip');
  world.changeSpec((spec) => (spec.etcd.image = 'etcd:1'));
  await passes(world, 60, { millis: 60_000, then });
  assert.equal(world.condition('Ready').status, 'True', JSON.stringify(world.condition('Ready')));
});

// A cluster is deleted and applied again at once, to begin with what a snapshot has. The volumes of its
// former etcd end some seconds later, with their pods: they were taken for kept, an empty etcd was made,
// and the approval was used up.
test('a snapshot is restored also while volumes of the former etcd still end', async () => {
  const over = { etcd: snapshotsOn };
  const world = await settledWorld(over);
  await world.takeSnapshot(snapshot);
  await world.settle();
  const former = members.flatMap((name): Json[] => [
    structuredClone(claim(world, `data-${name}`)),
    structuredClone(world.kube.find('Pod', name)),
  ]);
  await world.loseEtcd();
  await world.deleteCluster();
  const deletionTimestamp = new Date(world.clock.nowMillis()).toISOString();
  for (const { metadata, ...object } of former) {
    const ending = { ...object, metadata: { ...metadata, deletionTimestamp } };
    world.kube.objects.set(`${object.kind}/default/${metadata.name}`, ending);
  }
  world.addCluster(specOf(over));
  world.annotate('tsdb.io/restore-etcd', 'latest');
  for (let pass = 0; pass < 5; pass++) {
    await world.reconcile().catch(() => {});
    await world.clock.pass(2_000);
  }
  assert.equal(world.condition('Ready').reason, 'PredecessorEnding');
  for (const { kind, metadata } of former) world.kube.remove(world.kube.find(kind, metadata.name)!);
  world.etcd.forget();
  world.coordinatorUp = false;
  const then = (): void => {
    world.coordinatorUp = world.etcd.hasQuorum;
  };
  await passes(world, 60, { then });
  assert.notDeepEqual(writesLike(world, /^APPLY Job\//), []);
  assert.equal(world.condition('Ready').status, 'True', JSON.stringify(world.condition('Ready')));
});
