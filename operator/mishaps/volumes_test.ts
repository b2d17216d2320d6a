/** Volumes and sets that people change, and machines that go: nothing is given up too early, nor held up. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KubeError } from '../kube/kube_api.ts';
import { settledWorld, specOf, World } from '../world_testing.ts';
import { type Json, passes, writesLike, claim, stalled, storeStatus } from './mishaps_testing.ts';

// A cluster with one copy of each shard (the schema allows it). The machine of a node is away for
// 16 minutes, nobody cordoned it (a firmware update, a power cut). The operator deletes the claim: the
// only copy of its shards is gone, although the machine would have come back with it.
test('the only copy of a shard is not given up since its machine is away', async () => {
  const world = await settledWorld({
    replicationFactor: 1,
    isolationGroups: [{ name: 'a' }],
    nodes: { replicasPerGroup: 2 },
  });
  world.loseMachine('c-a-0');
  await passes(world, 40, { millis: 30_000 });
  assert.deepEqual(writesLike(world, /^DELETE PersistentVolumeClaim/), []);
});

// resources.requests are set to more than the machines have (a slip). The roll evicts c-a-0, which
// does not fit its machine any more: the scheduler says that, and of the others that they do not reach
// its volume. The machine is there and well, but after 15 minutes the operator deletes the volume.
test('a volume is not given up since its machine has no room for the pod', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => {
    spec.nodes.resources = { requests: { memory: '640Gi' } };
    spec.nodes.image = 'node:2';
  });
  const lastTransitionTime = new Date(world.clock.nowMillis()).toISOString();
  // World knows no room on machines: the pod of the new revision is as kube-scheduler leaves it.
  const message =
    '0/3 nodes are available: 1 Insufficient memory, 2 node(s) had volume node affinity conflict. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.';
  const conditions = [{ type: 'PodScheduled', status: 'False', message, lastTransitionTime }];
  const then = (): void => {
    for (const pod of world.kube.ofKind('Pod') as Json[]) {
      const { memory } = pod.spec.containers[0]?.resources?.requests ?? {};
      if (memory === '640Gi') {
        storeStatus(world, pod.metadata.name, { phase: 'Pending', conditions });
      }
    }
  };
  const given = (): string[] => writesLike(world, /^DELETE PersistentVolumeClaim/);
  for (let pass = 0; pass < 40 && given().length === 0; pass++) {
    await passes(world, 1, { millis: 30_000, then });
  }
  assert.deepEqual(writesLike(world, /^EVICT Pod/), ['EVICT Pod/c-a-0'], 'the roll halts at it');
  assert.deepEqual(given(), []);
});

// One edit: larger volumes, and a slip in resources that the API server refuses (memory: 1Giga; the
// schema takes any text). Claims grow, then the operator deletes the set with its pods left behind, to
// make it anew: which is refused, for ever. Whichever pod ends now (a drain) never comes back.
test('a set is not taken away when the one in its place is refused', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 1, storage: { size: '100Gi' } } });
  world.kube.beforeWrite = (write, body) => {
    if (!/^(APPLY|PATCH) StatefulSet\/c-/.test(write)) return;
    if (JSON.stringify(body).includes('1Giga')) {
      throw new KubeError(422, 'Invalid', 'StatefulSet.apps is invalid: memory: 1Giga');
    }
  };
  world.changeSpec((spec) => {
    spec.nodes.storage.size = '200Gi';
    spec.nodes.resources = { limits: { memory: '1Giga' } };
  });
  await passes(world, 20);
  assert.equal(stalled(world).reason, 'ApplyRefused');
  world.kube.remove(world.kube.find('Pod', 'c-a-0'));
  await passes(world, 20);
  assert.notEqual(world.kube.find('Pod', 'c-a-0'), undefined, 'a drained node comes back');
});

// Volumes grow: the set of group a has just been deleted (orphan) to be made anew. Then a
// podTemplate comes that is refused, or the administrator takes back a right that it uses. No set of the
// component is wanted any more, so that of a is never made: its pods end one by one and stay away.
test('a set between two others is made anew although a podTemplate is refused', async () => {
  const world = await settledWorld({
    nodes: { replicasPerGroup: 1, storage: { size: '100Gi' } },
  });
  world.changeSpec((spec) => (spec.nodes.storage.size = '200Gi'));
  world.kube.afterWrite = (write) => {
    if (write !== 'DELETE StatefulSet/c-a') return;
    world.kube.afterWrite = () => {};
    world.changeSpec((spec) => (spec.nodes.podTemplate = { spec: { hostNetwork: true } }));
  };
  await passes(world, 10);
  assert.equal(stalled(world).reason, 'PodTemplateRefused');
  if (world.kube.find('Pod', 'c-a-0') !== undefined) {
    world.kube.remove(world.kube.find('Pod', 'c-a-0'));
  }
  await passes(world, 20);
  assert.notEqual(world.kube.find('Pod', 'c-a-0'), undefined, 'pods stay as they are');
});

// Disks fill up: storage.size goes up, together with a new image, outside of the maintenance windows
// (or not approved yet). docs: growth of volumes does not wait for a window. It does, for it is
// written with the set that is held back; and Ready=True says that all is as the resource asks for.
test('volumes grow outside of a maintenance window, also with an image that waits', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 1, storage: { size: '100Gi' } } });
  const soon = new Date(world.clock.nowMillis() + 7_200_000).toISOString().slice(11, 16);
  world.changeSpec((spec) => {
    spec.maintenanceWindows = [{ start: soon, duration: '10m' }];
    spec.nodes.image = 'node:2';
    spec.nodes.storage.size = '200Gi';
  });
  await passes(world, 20);
  const size = claim(world, 'data-c-a-0').spec.resources.requests.storage;
  assert.equal(size, '200Gi', `Ready is ${world.condition('Ready').status}`);
});
test('volumes grow under Gated, also with an image that waits for its approval', async () => {
  const world = await settledWorld({
    updatePolicy: 'Gated',
    nodes: { replicasPerGroup: 1, storage: { size: '100Gi' } },
  });
  world.changeSpec((spec) => {
    spec.nodes.image = 'node:2';
    spec.nodes.storage.size = '200Gi';
  });
  await passes(world, 20);
  const size = claim(world, 'data-c-a-0').spec.resources.requests.storage;
  assert.ok(
    size === '200Gi' || world.condition('Ready').status !== 'True',
    `volumes have ${size} and Ready is True`,
  );
});

// nodes.replaceAfter: 99999w (somebody means never; the schema takes it). It is read at each pass for
// each pod, is longer than 292 years, and so InvalidSpec: nothing at all is done any more, a member of etcd
// that lost its volume and pods of a bad image included.
test('a replaceAfter that is too long stops nothing else', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => (spec.nodes.replaceAfter = '99999w'));
  await passes(world, 3);
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  world.loseVolume('c-etcd-1');
  await passes(world, 30);
  assert.deepEqual(
    [world.instanceIds().length, world.etcd.voters.length],
    [6, 3],
    JSON.stringify(stalled(world)),
  );
});

// Zone c is gone for good. The person does what there is to do: the group c becomes d in another zone.
// d joins when all nodes of the placement serve, that of c too; c leaves when three others have nodes in
// the placement. Both wait for ever; nothing is Stalled, and the status names a node of the dead zone.
test('a group whose zone is lost is replaced by another one', async () => {
  const world = await settledWorld();
  world.broken.add('c-c-0');
  await world.advance();
  world.changeSpec((spec) => (spec.isolationGroups = ['a', 'a-b', 'd'].map((name) => ({ name }))));
  await passes(world, 60, { millis: 60_000 });
  const { reason, message } = world.condition('Ready');
  assert.ok(
    world.instanceIds().includes('c-d-0') || stalled(world) !== null,
    `${reason}: ${message}`,
  );
});

/** Claims are as their driver leaves them that grows volumes only when their pods start anew. */
function pendingSince(world: World, since: string, name: RegExp = /./): () => void {
  return () => {
    for (const pvc of world.kube.ofKind('PersistentVolumeClaim') as Json[]) {
      const { storage } = pvc.spec.resources.requests;
      if (storage === pvc.status.capacity?.storage || !name.test(pvc.metadata.name)) continue;
      const type = 'FileSystemResizePending';
      const message = 'Waiting for user to (re-)start a pod';
      const conditions = [{ type, status: 'True', lastTransitionTime: since, message }];
      world.kube.store({ ...pvc, status: { ...pvc.status, conditions } });
    }
  };
}

async function growing(): Promise<{ readonly world: World; readonly since: string }> {
  const world = await settledWorld({ nodes: { replicasPerGroup: 1, storage: { size: '100Gi' } } });
  world.growsVolumes = false;
  world.changeSpec((spec) => (spec.nodes.storage.size = '200Gi'));
  await passes(world, 2);
  return { world, since: new Date(world.clock.nowMillis()).toISOString() };
}

// A driver grows volumes only when their pod starts anew (PVC condition FileSystemResizePending): common.
// The status says "volumes grow" for ever; no pod is replaced, and nobody is told that one must be.
test('volumes that wait for their pod to start anew get that', async () => {
  const { world, since } = await growing();
  const grown = new Set<string>();
  const then = (): void => {
    pendingSince(world, since)();
    for (const pod of world.kube.ofKind('Pod') as Json[]) {
      const pvc = claim(world, `data-${pod.metadata.name}`);
      if (pvc === undefined || pod.metadata.creationTimestamp < since) continue;
      const { storage } = pvc.spec.resources.requests;
      grown.add(pvc.metadata.name);
      world.kube.store({ ...pvc, status: { phase: 'Bound', capacity: { storage } } });
    }
  };
  await passes(world, 60, { millis: 60_000, then });
  assert.deepEqual([...grown].sort(), ['data-c-a-0', 'data-c-a-b-0', 'data-c-c-0']);
  assert.equal(world.condition('Ready').status, 'True', world.condition('Ready').message);
});

// The driver cannot grow it (no more room, an older driver): the condition stays, whatever is evicted. One
// pod was evicted 63 times in 200 passes, and its claim, the first of the list, starved the others.
test('a volume that does not grow costs one restart, and is said; the others have their turn', async () => {
  const { world, since } = await growing();
  await passes(world, 100, { millis: 60_000, then: pendingSince(world, since) });
  assert.deepEqual(writesLike(world, /^EVICT Pod/), [
    'EVICT Pod/c-a-0',
    'EVICT Pod/c-a-b-0',
    'EVICT Pod/c-c-0',
  ]);
  const { reason, message } = stalled(world);
  assert.equal(reason, 'VolumeGrowthStuck');
  assert.match(message, /volume data-c-a-0 has 100Gi and is to have 200Gi/);
  assert.match(message, /FileSystemResizePending \(Waiting for user to \(re-\)start a pod\)/);
  // It is that part alone.
  world.changeSpec((spec) => {
    spec.nodes.replicasPerGroup = 2;
    spec.nodes.image = 'node:2';
  });
  await passes(world, 60, { then: pendingSince(world, since) });
  assert.equal(world.instanceIds().length, 6);
  assert.equal(world.kube.find('Pod', 'c-c-0').spec.containers[0].image, 'node:2');
});

test('a pod that is younger than what its volume waits for is not evicted for it', async () => {
  const { world } = await growing();
  const since = '2020-01-01T00:00:00Z';
  await passes(world, 30, { millis: 60_000, then: pendingSince(world, since, /c-a-0$/) });
  assert.deepEqual(writesLike(world, /^EVICT Pod/), []);
  assert.match(stalled(world).message, /^volume data-c-a-0 .* c-a-0 has started anew/);
});

// Somebody types kubectl delete pvc --all. Claims are Terminating (pvc-protection) as long as their pods
// run: the next eviction of each, a roll or a drain, takes the disk with it, with maxUnavailable several at a
// time. The cluster is Ready=True, and no condition, event or message says it.
test('volumes that go with the next end of their pods are said', async () => {
  const world = await settledWorld();
  const deletionTimestamp = new Date(world.clock.nowMillis()).toISOString();
  const finalizers = ['kubernetes.io/pvc-protection'];
  for (const pvc of world.kube.ofKind('PersistentVolumeClaim') as Json[]) {
    world.kube.store({ ...pvc, metadata: { ...pvc.metadata, deletionTimestamp, finalizers } });
  }
  await passes(world, 5);
  const said = JSON.stringify(world.cluster.status.conditions);
  assert.match(
    said,
    /data-c-a-0|volume.*(deleted|Terminating)/i,
    JSON.stringify(world.condition('Ready')),
  );
});

// 1.4Gi is no whole number of bytes: the server keeps 1503238553600m of it, which as a float is another
// number, so the volumes were too large for ever.
test('a fractional size is what the server makes of it', async () => {
  const world = new World();
  const store = world.kube.store.bind(world.kube);
  world.kube.store = (object) => {
    const isOfResource = object.kind === 'TSDBCluster';
    const text = JSON.stringify(object).replaceAll(
      '"storage":"1.4Gi"',
      '"storage":"1503238553600m"',
    );
    return store(isOfResource ? object : JSON.parse(text));
  };
  world.addCluster(specOf({ nodes: { replicasPerGroup: 1, storage: { size: '1.4Gi' } } }));
  await passes(world, 40);
  assert.equal(stalled(world), null);
  assert.equal(world.condition('Ready').status, 'True');
});

// The driver has no room for what was asked for: it says so on the claims, and Kubernetes takes the request back as far
// as the volumes have not got it.
test('a growth that its driver cannot do is said, and what has not come can be taken back', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 1, storage: { size: '100Gi' } } });
  world.growsVolumes = false;
  world.changeSpec((spec) => (spec.nodes.storage.size = '200Gi'));
  await passes(world, 20);
  const fail = (): void => {
    const claim = structuredClone(world.kube.find('PersistentVolumeClaim', 'data-c-a-0')) as Json;
    if (claim.spec.resources.requests.storage !== '200Gi') return;
    const message = 'out of space in pool';
    claim.status.conditions = [{ type: 'ControllerResizeError', status: 'True', message }];
    claim.status.allocatedResourceStatuses = { storage: 'ControllerResizeInfeasible' };
    world.kube.store(claim);
  };
  fail();
  await world.reconcile();
  assert.match(world.condition('Ready').message, /data-c-a-0 has 100Gi and is to have 200Gi/);
  assert.equal(stalled(world)?.reason, 'VolumeGrowthStuck');
  assert.match(
    stalled(world)!.message,
    /its driver cannot do that: out of space in pool; ask for less/,
  );
  world.changeSpec((spec) => (spec.nodes.storage.size = '100Gi'));
  await passes(world, 5);
  assert.equal(stalled(world)?.reason, 'VolumesCannotShrink');
  assert.match(
    stalled(world)!.message,
    /have 100Gi .*ask for more than 100Gi, which they have, or for 200Gi/,
  );
  world.growsVolumes = true;
  world.changeSpec((spec) => (spec.nodes.storage.size = '101Gi'));
  await passes(world, 30);
  const sizes = ['a', 'a-b', 'c'].map(
    (group) =>
      (world.kube.find('PersistentVolumeClaim', `data-c-${group}-0`) as Json).spec.resources
        .requests.storage,
  );
  assert.deepEqual(sizes, ['101Gi', '101Gi', '101Gi']);
  assert.equal(world.condition('Ready').status, 'True');
  assert.equal(stalled(world), null);
});

test('what one of two volumes has got stays, and of the other is taken back', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 2, storage: { size: '100Gi' } } });
  world.growsVolumes = false;
  world.changeSpec((spec) => (spec.nodes.storage.size = '200Gi'));
  await passes(world, 20);
  const grown = structuredClone(world.kube.find('PersistentVolumeClaim', 'data-c-a-1')) as Json;
  grown.status.capacity.storage = '200Gi';
  world.kube.store(grown);
  world.changeSpec((spec) => (spec.nodes.storage.size = '150Gi'));
  await passes(world, 5);
  world.growsVolumes = true;
  await passes(world, 40);
  const sizeOf = (name: string): string =>
    (world.kube.find('PersistentVolumeClaim', name) as Json).spec.resources.requests.storage;
  assert.deepEqual(['data-c-a-0', 'data-c-a-1', 'data-c-c-0'].map(sizeOf), [
    '150Gi',
    '200Gi',
    '150Gi',
  ]);
  assert.equal(stalled(world), null);
  assert.equal(world.condition('Ready').status, 'True');
});

test('a server that takes no request back says so in words that help', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 1, storage: { size: '100Gi' } } });
  world.growsVolumes = false;
  world.changeSpec((spec) => (spec.nodes.storage.size = '200Gi'));
  await passes(world, 20);
  world.kube.beforeWrite = (write) => {
    if (!write.startsWith('PATCH PersistentVolumeClaim/')) return;
    throw new KubeError(422, 'Invalid', 'field can not be less than previous value');
  };
  world.changeSpec((spec) => (spec.nodes.storage.size = '150Gi'));
  await passes(world, 5);
  assert.match(
    stalled(world).message,
    /was to have 200Gi, and this Kubernetes does not take that back .*ask for 200Gi again/,
  );
});
