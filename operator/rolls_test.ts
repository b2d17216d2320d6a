/** Pods that are replaced in a roll: how many at a time, and when. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KubeError } from './kube/kube_api.ts';
import { podReady } from './resource/pod_state.ts';
import { World, settledWorld, specOf } from './world_testing.ts';

/** Nodes that were taken away, those of one pass together. */
async function rolled(world: World, change: () => void): Promise<string[]> {
  change();
  const rounds: string[] = [];
  for (let pass = 0; pass < 80; pass++) {
    const before = world.kube.writes.length;
    await world.reconcile();
    const taken = world.kube.writes
      .slice(before)
      .filter((write) => /^(EVICT|DELETE) Pod\//.test(write))
      .map((write) => write.replace(' Pod/c-', ' '));
    if (taken.length > 0) rounds.push(taken.join(', '));
    await world.clock.pass(2_000);
    await world.advance();
  }
  return rounds;
}

const image = (world: World, tag: string) => () =>
  world.changeSpec((spec) => (spec.nodes.image = `node:${tag}`));

test('several nodes of one group go together, after the first one of it has come back', async () => {
  const nodes = { replicasPerGroup: 4, maxUnavailable: 3 };
  const world = await settledWorld({ nodes });
  assert.deepEqual(await rolled(world, image(world, '2')), [
    'EVICT a-0',
    'EVICT a-1, DELETE a-2, DELETE a-3',
    'EVICT a-b-0',
    'EVICT a-b-1, DELETE a-b-2, DELETE a-b-3',
    'EVICT c-0',
    'EVICT c-1, DELETE c-2, DELETE c-3',
  ]);
  assert.equal(world.condition('Ready').status, 'True');
});

test('a part of a group is rounded down, and one at least', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 3, maxUnavailable: '70%' } });
  const rounds = await rolled(world, image(world, '2'));
  assert.equal(rounds[1], 'EVICT a-1, DELETE a-2');
  world.changeSpec((spec) => (spec.nodes.maxUnavailable = '10%'));
  assert.equal((await rolled(world, image(world, '3'))).length, 9);
});

test('with two copies one at a time, whatever is asked for', async () => {
  const nodes = { replicasPerGroup: 3, maxUnavailable: 3 };
  const world = await settledWorld({ replicationFactor: 2, nodes });
  assert.equal((await rolled(world, image(world, '2'))).length, 9);
});

/** Somebody deletes the volume of a pod, which keeps it as long as it runs. */
function deleteVolume(world: World, pod: string): void {
  const claim = structuredClone(world.kube.find('PersistentVolumeClaim', `data-${pod}`));
  claim.metadata.deletionTimestamp = new Date(world.clock.nowMillis()).toISOString();
  world.kube.store(claim);
}

test('a node that alone keeps a deleted volume with the only copy is not rolled before a person says so', async () => {
  const world = await settledWorld({ replicationFactor: 1, isolationGroups: [{ name: 'a' }] });
  deleteVolume(world, 'c-a-0');
  assert.deepEqual(await rolled(world, image(world, '2')), []);
  const { status, message } = world.condition('Ready');
  assert.equal(status, 'False');
  assert.match(message, /c-a-0 .* its shards, of which there is one copy, are lost: annotate pod/);
  assert.equal(world.cluster.status.phase, 'Reconciling', 'it serves');
  // Nor when it is not ready any more.
  world.broken.add('c-a-0');
  assert.deepEqual(await rolled(world, () => {}), []);
  world.broken.clear();
  const pod = structuredClone(world.kube.find('Pod', 'c-a-0'));
  pod.metadata.annotations = { 'tsdb.io/replace': 'true' };
  assert.deepEqual(await rolled(world, () => world.kube.store(pod)), ['EVICT a-0']);
});

test('a node that never served is started anew although its volume was deleted', async () => {
  const world = new World();
  world.badImages.add('node:bad');
  world.addCluster(specOf({ nodes: { replicasPerGroup: 1, image: 'node:bad' } }));
  for (let pass = 0; pass < 20; pass++) {
    await world.reconcile();
    await world.clock.pass(2_000);
    await world.advance();
  }
  deleteVolume(world, 'c-a-0');
  image(world, '2')();
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
});

test('a node that does not serve and is kept for its volume says why', async () => {
  const world = await settledWorld({ replicationFactor: 1, isolationGroups: [{ name: 'a' }] });
  world.broken.add('c-a-0');
  await world.advance();
  deleteVolume(world, 'c-a-0');
  assert.deepEqual(await rolled(world, image(world, '2')), []);
  assert.match(
    world.condition('Ready').message,
    /c-a-0 starts anew when a person says .* one copy/,
  );
});

test('of several copies the one on a deleted volume is rolled like any other, and alone', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 3, maxUnavailable: 3 } });
  deleteVolume(world, 'c-a-1');
  const rounds = await rolled(world, image(world, '2'));
  assert.deepEqual(rounds.slice(0, 2), ['EVICT a-1', 'EVICT a-0, DELETE a-2']);
  assert.equal(world.condition('Ready').status, 'True');
});

test('the only member of etcd is not rolled when its volume was deleted', async () => {
  const world = await settledWorld({ etcd: { replicas: 1 } });
  deleteVolume(world, 'c-etcd-0');
  const change = (): void => world.changeSpec((spec) => (spec.etcd.image = 'etcd:v3.6.8'));
  assert.deepEqual(await rolled(world, change), []);
  assert.match(world.condition('Ready').message, /c-etcd-0 .* when etcd has three members/);
});

test('a bad image costs one pod of a group', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 3, maxUnavailable: 3 } });
  world.badImages.add('node:bad');
  assert.deepEqual(await rolled(world, image(world, 'bad')), ['EVICT a-0']);
  world.changeSpec((spec) => (spec.nodes.image = 'node:1'));
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
});

test('a budget that somebody else has used up lets none of them go', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 3, maxUnavailable: 3 } });
  let evictions = 0;
  world.kube.beforeWrite = (write) => {
    // From the second pod on, which would take others with it.
    if (write.startsWith('EVICT') && ++evictions > 1) {
      throw new KubeError(429, 'TooManyRequests', 'it would violate the disruption budget');
    }
  };
  assert.deepEqual(
    (await rolled(world, image(world, '2'))).filter((one) => one.includes('DELETE')),
    [],
  );
  assert.ok(evictions > 2, 'it is tried again');
  world.kube.beforeWrite = () => {};
  await world.clock.pass(200_000);
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
});

test('an operator that is killed between two of them goes on when all are back', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 4, maxUnavailable: 4 } });
  world.kube.beforeWrite = (write) => {
    if (write !== 'DELETE Pod/c-a-2') return;
    world.kube.beforeWrite = () => {};
    world.restartOperator();
    throw new Error('killed');
  };
  const rounds = await rolled(world, image(world, '2'));
  assert.equal(rounds[2], 'EVICT a-2', 'what was left goes by an eviction of its own');
  assert.equal(world.condition('Ready').status, 'True');
});

test('outside of its maintenance windows nothing that serves is replaced, and what heals goes on', async () => {
  // The clock of the world begins at some time of the day: a window that opens in an hour.
  const world = await settledWorld();
  const soon = new Date(Math.ceil(world.clock.nowMillis() / 60_000) * 60_000 + 3_600_000);
  const start = soon.toISOString().slice(11, 16);
  world.changeSpec((spec) => {
    spec.maintenanceWindows = [{ start, duration: '10m' }];
    spec.nodes.image = 'node:2';
    spec.etcd = { image: 'etcd:2' };
    spec.coordinator = { image: 'coordinator:2' };
    spec.nodes.replicasPerGroup = 2;
  });
  await world.settle();
  const { reason, message } = world.condition('Reconciling');
  assert.equal(reason, 'OutsideMaintenanceWindow');
  assert.ok(message.includes(soon.toISOString().slice(0, 16)), message);
  assert.equal(world.condition('Ready').status, 'True', 'it has grown, and all nodes serve');
  const until = soon.toISOString().replace('.000Z', 'Z');
  assert.deepEqual(world.cluster.status.maintenanceWindow, { open: false, until });
  const imageOf = (name: string) => world.kube.find('Pod', name).spec.containers[0].image;
  assert.deepEqual([imageOf('c-a-1'), imageOf('c-etcd-0')], ['node:1', 'etcd:1']);
  world.kube.remove(world.kube.find('Pod', 'c-a-0'));
  await world.settle();
  assert.equal(imageOf('c-a-0'), 'node:1', 'nothing is written before its time');
  await world.clock.pass(3_660_000);
  await world.settle();
  assert.equal(world.condition('Reconciling'), undefined);
  assert.deepEqual([imageOf('c-a-1'), imageOf('c-etcd-0')], ['node:2', 'etcd:2']);
});

test('a roll that does not end in its window goes on in the next one, and a stuck pod is cured at once', async () => {
  const world = await settledWorld();
  world.badImages.add('node:bad');
  const start = new Date(world.clock.nowMillis()).toISOString().slice(11, 16);
  world.changeSpec((spec) => {
    spec.maintenanceWindows = [{ start, duration: '5m' }];
    spec.nodes.image = 'node:bad';
  });
  assert.deepEqual(await rolled(world, () => {}), ['EVICT a-0']);
  await world.clock.pass(600_000);
  assert.deepEqual(await rolled(world, image(world, '2')), ['EVICT a-0']);
  assert.equal(world.condition('Reconciling').reason, 'OutsideMaintenanceWindow');
  assert.equal(world.condition('Ready').status, 'True');
  await world.clock.pass(24 * 3_600_000 - 700_000);
  assert.deepEqual(await rolled(world, () => {}), ['EVICT a-b-0', 'EVICT c-0']);
});

test('a window that cannot be told stops rolls and nothing else', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => {
    spec.maintenanceWindows = [{ start: '00:00', duration: '1h', timeZone: 'Moon/Sea' }];
    spec.nodes.image = 'node:2';
    spec.nodes.replicasPerGroup = 2;
  });
  assert.deepEqual(await rolled(world, () => {}), []);
  const { reason, message } = world.condition('Stalled');
  assert.equal(reason, 'InvalidSpec');
  assert.match(message, /Moon\/Sea is not known/);
  assert.equal(world.instanceIds().length, 6);
});

test('the rollout of a new operator begins when it has looked at all clusters, not at the next resync', async () => {
  const world = await settledWorld();
  world.images = { ...world.images, node: 'node:other' };
  world.restartOperator();
  const startedAtMillis = world.clock.nowMillis();
  const isRolled = (): boolean =>
    ['c-a-0', 'c-a-b-0', 'c-c-0'].every(
      (name) => world.kube.find('Pod', name)?.spec.containers[0].image === 'node:other',
    );
  while (!isRolled()) {
    const afterMillis = await world.reconcile();
    assert.ok(world.clock.nowMillis() - startedAtMillis < 60_000);
    // Nothing of the cluster changes meanwhile that would be a reason to look sooner.
    await world.clock.pass(afterMillis!);
    await world.advance();
  }
});

test('a node that answers and is not ready is left alone while another one is away', async () => {
  const world = await settledWorld();
  const evictions = () => world.kube.writes.filter((write) => /^(EVICT|DELETE) Pod\//.test(write));
  world.lagging.add('c-a-0');
  world.broken.add('c-a-b-0');
  await world.advance();
  await world.advance();
  await rolled(world, image(world, '2'));
  assert.ok(
    evictions().some((write) => write.includes('c-a-b-0')),
    'one that answers nobody goes',
  );
  assert.ok(!evictions().some((write) => write.includes('c-a-0')), evictions().join());
  // It is the only one that lacks something: it goes as one that is ready does.
  world.broken.clear();
  await rolled(world, () => {});
  assert.ok(evictions().some((write) => write.includes('c-a-0')));
});

test('coordinators are changed when the last node is back, also while its pod is still to be made', async () => {
  const world = await settledWorld();
  const ready = (): number =>
    ['c-a-0', 'c-a-b-0', 'c-c-0'].filter((name) => {
      const pod = world.kube.find('Pod', name);
      return pod !== undefined && podReady(pod);
    }).length;
  const before = world.kube.writes.length;
  world.changeSpec((spec) => {
    spec.nodes.image = 'node:2';
    spec.coordinator = { ...spec.coordinator, image: 'coordinator:2' };
  });
  let awayMax = 0;
  for (let pass = 0; pass < 60; pass++) {
    // Twice: the second look finds the pod gone, and no other in its place yet.
    for (let look = 0; look < 2; look++) {
      const written = world.kube.writes.length;
      const serving = ready();
      awayMax = Math.max(awayMax, 3 - serving);
      await world.reconcile();
      const changed = world.kube.writes.slice(written).join();
      if (!changed.includes('Deployment/')) continue;
      const images = ['c-a-0', 'c-a-b-0', 'c-c-0'].map(
        (name) => world.kube.find('Pod', name)?.spec.containers[0].image,
      );
      assert.deepEqual([serving, ...images], [3, 'node:2', 'node:2', 'node:2'], changed);
    }
    await world.clock.pass(2_000);
    await world.advance();
  }
  assert.equal(awayMax, 1);
  const writes = world.kube.writes.slice(before);
  assert.ok(writes.some((write) => write.includes('Deployment/c-coordinator')));
  assert.deepEqual(world.cluster.status?.images, {
    etcd: 'etcd:1',
    node: 'node:2',
    coordinator: 'coordinator:2',
  });
});
