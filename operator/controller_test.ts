/** What the operator does to a whole world, pass by pass until it rests. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { KubeError } from './kube/kube_api.ts';
import { specOf, World, settledWorld } from './world_testing.ts';

type Json = any;

const namesOf = (world: World, kind: string): string[] =>
  world.kube
    .ofKind(kind)
    .map(({ metadata }) => metadata.name)
    .sort();

const writesTo = (world: World, kind: string): string[] =>
  world.kube.writes.filter((write) => write.includes(` ${kind}/`));

async function instancesOf(world: World): Promise<string[]> {
  return Object.keys((await world.placement())!.instances).sort();
}

test('one resource becomes a cluster that serves, by one init and one ready', async () => {
  const world = new World();
  world.addCluster(specOf());
  await world.settle();
  assert.deepEqual(
    world.calls.filter((call) => call !== 'namespace ready default'),
    ['init', 'namespace add default'],
  );
  assert.equal(world.condition('Ready').status, 'True');
  const { status } = world.cluster;
  assert.equal(status.phase, 'Running');
  assert.equal(status.shards, '36/36');
  assert.deepEqual(status.namespaces, [{ name: 'default', ready: true }]);
  assert.deepEqual(namesOf(world, 'StatefulSet'), ['c-a', 'c-a-b', 'c-c', 'c-etcd']);
  assert.deepEqual(namesOf(world, 'Service'), ['c-coordinator', 'c-etcd', 'c-nodes']);
  assert.deepEqual(await instancesOf(world), ['c-a-0', 'c-a-b-0', 'c-c-0']);
});

test('a settled operator writes nothing, also one that has just started', async () => {
  const world = await settledWorld();
  for (let pass = 0; pass < 5; pass++) assert.equal(await world.reconcile(), 60_000);
  assert.deepEqual([...world.kube.writes, ...world.calls], []);
  world.restartOperator();
  await world.settle();
  assert.deepEqual(world.calls, []);
  assert.deepEqual(world.kube.writes, []);
});

test('a placement whose answer was lost is taken over and not made again', async () => {
  const world = new World();
  world.addCluster(specOf());
  let lost = 0;
  world.afterCall = (call) => {
    if (call === 'init' && lost++ === 0) throw new Error('connection reset');
  };
  await world.settle();
  assert.equal(world.calls.filter((call) => call === 'init').length, 1);
  assert.equal(world.condition('Ready').status, 'True');
});

test('an operator that dies after any of its writes is followed by one that goes on', async () => {
  const whole = new World();
  whole.addCluster(specOf());
  await whole.settle();
  const steps = whole.kube.writes.length + whole.calls.length;
  for (let at = 0; at < steps; at++) {
    const world = new World();
    world.addCluster(specOf());
    let step = 0;
    const die = () => {
      if (step++ === at) {
        world.restartOperator();
        throw new Error('the operator was killed');
      }
    };
    world.afterCall = die;
    world.kube.afterWrite = die;
    await world.settle();
    assert.equal(world.condition('Ready').status, 'True', `killed after write ${at}`);
    assert.equal(world.calls.filter((call) => call === 'init').length, 1, `write ${at}`);
    assert.deepEqual(await instancesOf(world), ['c-a-0', 'c-a-b-0', 'c-c-0']);
  }
});

test('replicas grow by one group at a time, each joining when the one before has its shards', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  const settledBefore: boolean[] = [];
  world.beforeCall = () => {
    settledBefore.push(world.shardStates().every((state) => state === 'AVAILABLE'));
  };
  await world.settle();
  assert.deepEqual(world.calls, ['add c-a-1', 'add c-a-b-1', 'add c-c-1']);
  assert.deepEqual(settledBefore, [true, true, true]);
  assert.equal(world.cluster.status.shards, '36/36');
  assert.equal(world.cluster.status.replicasPerGroup, 2);
});

test('nobody joins while a node is down, and the scaling goes on when it is back', async () => {
  const world = await settledWorld();
  world.broken.add('c-c-0');
  await world.advance();
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  for (let pass = 0; pass < 20; pass++) {
    await world.reconcile();
    await world.advance();
  }
  assert.deepEqual(world.calls, []);
  const ready = world.condition('Ready');
  assert.deepEqual([ready.status, ready.reason], ['False', 'NodesNotReady']);
  assert.match(ready.message, /c-c-0/);
  world.broken.clear();
  await world.settle();
  assert.equal((await instancesOf(world)).length, 6);
});

test('replicas shrink after the shards have moved, and the volumes of the last go', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 2 } });
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 1));
  world.kube.beforeWrite = (write, body) => {
    if (!/^APPLY StatefulSet\/c-(a|a-b|c)$/.test(write)) return;
    const group = body.metadata.name;
    const left = world.instanceIds().filter((id) => id.replace(/-\d+$/, '') === group);
    assert.ok(left.length <= body.spec.replicas, `${group} keeps the nodes that have shards`);
  };
  await world.settle();
  assert.deepEqual(world.calls, ['remove c-a-1', 'remove c-a-b-1', 'remove c-c-1']);
  assert.deepEqual(
    namesOf(world, 'Pod').filter((name) => /^c-(a|a-b|c)-\d+$/.test(name)),
    ['c-a-0', 'c-a-b-0', 'c-c-0'],
  );
  assert.equal(world.cluster.status.shards, '36/36');
});

test('a scaling that is taken back in its middle leaves neither pod nor instance', async () => {
  for (let passes = 0; passes < 14; passes++) {
    const world = await settledWorld();
    world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
    for (let pass = 0; pass < passes; pass++) {
      await world.reconcile();
      await world.advance();
    }
    world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 1));
    await world.settle();
    assert.deepEqual(await instancesOf(world), ['c-a-0', 'c-a-b-0', 'c-c-0'], `after ${passes}`);
    const pods = namesOf(world, 'Pod').filter((name) => /^c-(a|a-b|c)-\d+$/.test(name));
    assert.equal(pods.length, 3, `after ${passes}`);
  }
});

test('a new image replaces one pod after the other, each when all serve', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  const unreadyAtDelete: number[] = [];
  world.kube.beforeWrite = (write) => {
    if (write.startsWith('EVICT Pod/')) unreadyAtDelete.push(world.unreadyNodes().length);
  };
  await world.settle();
  assert.deepEqual(unreadyAtDelete, [0, 0, 0]);
  assert.deepEqual(writesTo(world, 'Pod'), [
    'EVICT Pod/c-a-0',
    'EVICT Pod/c-a-b-0',
    'EVICT Pod/c-c-0',
  ]);
  for (const name of ['c-a-0', 'c-a-b-0', 'c-c-0']) {
    assert.equal(world.kube.find('Pod', name).spec.containers[0].image, 'node:2');
  }
});

for (const cure of ['node:3', 'node:1']) {
  test(`a bad image stops at one pod, and ${cure === 'node:1' ? 'the old' : 'a better'} one cures it`, async () => {
    const world = await settledWorld({ nodes: { replicasPerGroup: 1, image: 'node:1' } });
    world.badImages.add('node:2');
    world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
    for (let pass = 0; pass < 30; pass++) {
      await world.reconcile().catch(() => {});
      await world.advance();
    }
    assert.deepEqual(world.unreadyNodes(), ['c-a-0']);
    assert.equal(writesTo(world, 'Pod').length, 1);
    assert.equal(world.condition('Ready').reason, 'NodesNotReady');
    world.changeSpec((spec) => (spec.nodes.image = cure));
    await world.settle();
    assert.equal(world.condition('Ready').status, 'True');
    for (const name of ['c-a-0', 'c-a-b-0', 'c-c-0']) {
      assert.equal(world.kube.find('Pod', name).spec.containers[0].image, cure);
    }
  });
}

test('pods that run and do not serve are replaced one by one, each when the one before serves', async () => {
  const world = await settledWorld();
  for (const name of ['c-a-0', 'c-a-b-0', 'c-c-0']) world.broken.add(name);
  await world.advance();
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  for (let pass = 0; pass < 10; pass++) {
    await world.reconcile();
    await world.advance();
  }
  assert.deepEqual(writesTo(world, 'Pod'), ['EVICT Pod/c-a-0'], 'the cure is tried on one');
  world.broken.delete('c-a-0');
  await world.advance();
  await world.reconcile();
  await world.reconcile();
  assert.deepEqual(writesTo(world, 'Pod'), ['EVICT Pod/c-a-0', 'EVICT Pod/c-a-b-0']);
  world.broken.clear();
  await world.settle();
  assert.equal(writesTo(world, 'Pod').length, 3);
});

test('under Gated pods are replaced only after the plan was approved by its hash', async () => {
  const world = await settledWorld({ updatePolicy: 'Gated' });
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  for (let pass = 0; pass < 20; pass++) {
    await world.reconcile();
    await world.advance();
  }
  assert.deepEqual(writesTo(world, 'Pod'), []);
  const { plan } = world.cluster.status;
  assert.deepEqual(plan.actions, [
    'node: image node:1 becomes node:2',
    'replace pod c-a-0',
    'replace pod c-a-b-0',
    'replace pod c-c-0',
  ]);
  assert.equal(world.condition('Ready').status, 'True', 'the cluster serves meanwhile');
  world.annotate('tsdb.io/approve', 'another');
  await world.reconcile();
  assert.deepEqual(writesTo(world, 'Pod'), []);
  await world.clock.pass(10_000);
  await world.reconcile();
  assert.match(world.condition('ApprovalRequired').message, /; what stands there, another, is/);
  world.annotate('tsdb.io/approve', plan.hash);
  await world.settle();
  assert.equal(writesTo(world, 'Pod').length, 3);
  assert.equal(world.cluster.status.plan, undefined);
  assert.equal(world.cluster.metadata.annotations['tsdb.io/approve'], undefined, 'it is used up');
});

test('coordinators are rolled when the last node serves again', async () => {
  const world = await settledWorld();
  world.images = { ...world.images, node: 'node:2', coordinator: 'coordinator:2' };
  const unready: string[][] = [];
  world.kube.beforeWrite = (write) => {
    if (write === 'APPLY Deployment/c-coordinator') unready.push(world.unreadyPods('node'));
  };
  world.restartOperator();
  await world.settle();
  assert.deepEqual(unready, [[]]);
});

test('a cluster is not Ready while a component waits for pods that only Kubernetes calls unready', async () => {
  const world = await settledWorld();
  // The probe of a member that answers has not been asked yet.
  const pod = structuredClone(world.kube.find('Pod', 'c-etcd-1'));
  pod.status.conditions = [{ type: 'Ready', status: 'False' }];
  world.kube.store(pod);
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  await world.reconcile();
  assert.equal(world.condition('Ready').status, 'False');
  assert.equal(world.condition('Ready').reason, 'Updating');
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
  assert.equal(writesTo(world, 'Pod').length, 3);
});

test('a defect of the operator is said, and not as if all were well', async () => {
  const world = await settledWorld();
  world.onPass = () => {
    throw new TypeError('x is not a function');
  };
  for (let pass = 0; pass < 3; pass++) await assert.rejects(world.reconcile(), TypeError);
  assert.equal(world.condition('Ready').status, 'False');
  assert.match(world.condition('Stalled').message, /defect of its own: x is not a function/);
  assert.equal(world.condition('Available').status, 'True');
  assert.equal(world.cluster.status.phase, 'Stalled');
  const written = world.kube.writes.filter((write) => write === 'PATCH(status) TSDBCluster/c');
  world.onPass = () => {};
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
  assert.equal(world.condition('Stalled'), undefined);
  assert.equal(world.cluster.status.phase, 'Running');
  assert.ok(written.length > 0);
});

test('volumes grow without a restart: claims first, then a set over the same pods', async () => {
  const world = await settledWorld({
    nodes: { replicasPerGroup: 1, storage: { size: '100Gi' } },
  });
  const before = namesOf(world, 'Pod').map((name) => world.kube.find('Pod', name).metadata.uid);
  world.changeSpec((spec) => (spec.nodes.storage.size = '200Gi'));
  await world.settle();
  for (const name of ['data-c-a-0', 'data-c-a-b-0', 'data-c-c-0']) {
    const claim = world.kube.find('PersistentVolumeClaim', name);
    assert.equal(claim.spec.resources.requests.storage, '200Gi');
  }
  assert.equal(
    world.kube.find('PersistentVolumeClaim', 'data-c-etcd-0').spec.resources.requests.storage,
    '8Gi',
  );
  for (const name of ['c-a', 'c-a-b', 'c-c']) {
    const [claim] = world.kube.find('StatefulSet', name).spec.volumeClaimTemplates;
    assert.equal(claim.spec.resources.requests.storage, '200Gi');
  }
  const after = namesOf(world, 'Pod').map((name) => world.kube.find('Pod', name).metadata.uid);
  assert.deepEqual(after, before);
});

test('a claim that nothing is bound to does not keep a mended template from its pod', async () => {
  const world = await settledWorld({
    nodes: { replicasPerGroup: 1, storage: { size: '100Gi' } },
  });
  const claim = structuredClone(world.kube.find('PersistentVolumeClaim', 'data-c-a-0'));
  claim.status.phase = 'Pending';
  world.kube.store(claim);
  world.kube.beforeWrite = (write) => {
    if (write.endsWith('PersistentVolumeClaim/data-c-a-0'))
      throw new Error('only bound claims grow');
  };
  world.changeSpec((spec) => {
    spec.nodes.storage.size = '200Gi';
    spec.nodes.image = 'node:2';
  });
  await world.settle();
  assert.equal(world.kube.find('Pod', 'c-a-0').spec.containers[0].image, 'node:2');
  const sizeOf = (name: string) =>
    world.kube.find('PersistentVolumeClaim', name).spec.resources.requests.storage;
  assert.deepEqual(['data-c-a-0', 'data-c-c-0'].map(sizeOf), ['100Gi', '200Gi']);
  world.kube.beforeWrite = () => {};
  const bound = structuredClone(world.kube.find('PersistentVolumeClaim', 'data-c-a-0'));
  bound.status.phase = 'Bound';
  world.kube.store(bound);
  await world.settle();
  assert.equal(sizeOf('data-c-a-0'), '200Gi');
});

test('a set of nodes that somebody made smaller gets its volumes back with its pods', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 2 } });
  world.changeSpec((spec) => (spec.paused = true));
  const before = namesOf(world, 'PersistentVolumeClaim');
  for (const name of ['c-a', 'c-a-b', 'c-c']) {
    const set = structuredClone(world.kube.find('StatefulSet', name));
    set.spec.replicas = 0;
    world.kube.store(set);
  }
  await world.advance();
  await world.reconcile();
  assert.equal(world.kube.find('Pod', 'c-a-0'), undefined);
  assert.deepEqual(namesOf(world, 'PersistentVolumeClaim'), before);
  const ready = world.condition('Ready');
  assert.deepEqual([ready.status, ready.reason], ['False', 'NodesNotReady']);
  world.changeSpec((spec) => (spec.paused = false));
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
  assert.deepEqual(namesOf(world, 'PersistentVolumeClaim'), before);
  assert.deepEqual(world.calls, []);
});

test('a dead pod that waits for its approval is told, and namespaces do not wait for it', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => {
    spec.updatePolicy = 'Gated';
    spec.nodes.image = 'node:2';
  });
  world.broken.add('c-a-0');
  world.addClaim('late', {});
  for (let pass = 0; pass < 10; pass++) {
    await world.advance();
    await world.reconcile();
  }
  const ready = world.condition('Ready');
  assert.deepEqual([ready.status, ready.reason], ['False', 'NodesNotReady']);
  assert.equal(world.condition('ApprovalRequired').status, 'True');
  assert.ok(world.calls.includes('namespace add late'), world.calls.join(', '));
  assert.deepEqual(writesTo(world, 'Pod'), []);
});

test('what the resource asks for no more is taken away', async () => {
  const limits = { cpu: '1', memory: '1Gi' };
  const world = await settledWorld({ nodes: { replicasPerGroup: 1, resources: { limits } } });
  world.changeSpec((spec) => delete spec.nodes.resources.limits.cpu);
  await world.settle();
  assert.deepEqual(writesTo(world, 'StatefulSet').sort(), [
    'APPLY StatefulSet/c-a',
    'APPLY StatefulSet/c-a-b',
    'APPLY StatefulSet/c-c',
  ]);
});

test('what somebody changed or deleted comes back, and nothing moves for it', async () => {
  const world = await settledWorld();
  const service = structuredClone(world.kube.find('Service', 'c-coordinator'));
  service.spec.ports[0].port = 1;
  world.kube.store(service);
  world.kube.remove(world.kube.find('PodDisruptionBudget', 'c-nodes'));
  world.kube.remove(world.kube.find('Service', 'c-nodes'));
  await world.settle();
  assert.equal(world.kube.find('Service', 'c-coordinator').spec.ports[0].port, 7201);
  assert.ok(world.kube.find('PodDisruptionBudget', 'c-nodes'));
  assert.ok(world.kube.find('Service', 'c-nodes'));
  assert.deepEqual(world.calls, []);
  assert.deepEqual(writesTo(world, 'Pod'), []);
});

test('a set of nodes that somebody deleted comes back as large as it was', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 2 } });
  // The resource asks for fewer meanwhile: the shards must move before the pods may go.
  world.kube.remove(world.kube.find('StatefulSet', 'c-a'));
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 1));
  await world.reconcile();
  assert.equal(world.kube.find('StatefulSet', 'c-a').spec.replicas, 2);
  await world.settle();
  assert.equal((await instancesOf(world)).length, 3);
});

test('a set that somebody made smaller than its shards need gets its nodes back first', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 3 } });
  const set = structuredClone(world.kube.find('StatefulSet', 'c-a'));
  set.spec.replicas = 1;
  world.kube.store(set);
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  await world.advance();
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
  assert.equal((await instancesOf(world)).length, 6);
});

test('replicas raised before the placement exists are all in its first version', async () => {
  const world = new World();
  world.addCluster(specOf());
  await world.reconcile();
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  await world.settle();
  assert.equal((await instancesOf(world)).length, 6);
  assert.deepEqual(
    world.calls.filter((call) => /^(init|add)/.test(call)),
    ['init'],
  );
});

test('an object of another under one of our names is left alone, and said', async () => {
  const world = new World();
  const owner = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    name: 'x',
    uid: 'u',
    controller: true,
  };
  world.kube.store({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'c-nodes', namespace: 'default', ownerReferences: [owner] },
    spec: { ports: [] },
  });
  world.addCluster(specOf());
  await world.reconcile();
  assert.deepEqual(
    world.kube.writes.filter((write) => write.includes('Service/c-nodes')),
    [],
  );
  assert.ok(world.kube.find('StatefulSet', 'c-a'), 'the others are made');
  const stalled = world.condition('Stalled');
  assert.deepEqual([stalled.status, stalled.reason], ['True', 'ForeignObject']);
  assert.match(stalled.message, /Service\/c-nodes is controlled by Deployment x/);
});

test('a placement with instances of others is left alone, and said', async () => {
  const world = await settledWorld();
  await world.addForeignInstance('stranger', 'a');
  await world.reconcile();
  assert.deepEqual(world.calls, []);
  assert.equal(world.condition('Stalled').reason, 'ForeignPlacement');
  assert.match(world.condition('Stalled').message, /stranger/);
});

test('while paused nothing is done, and then everything at once', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => {
    spec.paused = true;
    spec.nodes.replicasPerGroup = 2;
    spec.nodes.image = 'node:2';
  });
  await world.reconcile();
  await world.reconcile();
  assert.deepEqual(
    world.kube.writes.filter((write) => !/TSDBCluster|Event/.test(write)),
    [],
  );
  assert.equal(world.condition('Paused').status, 'True');
  const ready = world.condition('Ready');
  assert.deepEqual([ready.status, ready.reason], ['False', 'Paused'], 'changes wait');
  world.changeSpec((spec) => delete spec.paused);
  await world.settle();
  assert.equal((await instancesOf(world)).length, 6);
  assert.equal(world.condition('Paused'), undefined);
});

test('a duration that only the parser refuses stalls the cluster with its reason', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => (spec.namespaces[0].retentionTime = '99999999999999999w'));
  await world.reconcile();
  const stalled = world.condition('Stalled');
  assert.equal(stalled.reason, 'InvalidSpec');
  assert.match(stalled.message, /retentionTime/);
  world.changeSpec((spec) => (spec.namespaces[0].retentionTime = '72h'));
  assert.equal(world.condition('Ready').status, 'False');
  await world.settle();
  assert.deepEqual(world.calls, ['namespace update default']);
  assert.equal(world.condition('Stalled'), undefined);
});

test('a coordinator that cannot be reached is waited for, with its problem in the status', async () => {
  const world = await settledWorld();
  world.coordinatorUp = false;
  await world.reconcile();
  const ready = world.condition('Ready');
  assert.deepEqual([ready.status, ready.reason], ['False', 'CoordinatorUnreachable']);
  assert.match(ready.message, /connection refused/);
  assert.equal(world.condition('PlacementStable').status, 'Unknown');
  world.coordinatorUp = true;
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
});

test('messages that change from pass to pass are not written at every pass', async () => {
  const world = await settledWorld();
  world.coordinatorUp = false;
  for (let pass = 0; pass < 20; pass++) {
    world.coordinatorProblem = `endpoint ${pass} refused`;
    await world.reconcile();
    await world.clock.pass(1_000);
  }
  const statuses = world.kube.writes.filter((write) => write.startsWith('PATCH(status)'));
  assert.equal(statuses.length, 2, 'at once, and after ten seconds');
});

test('deletion keeps data and takes metadata, unless the policy says otherwise', async () => {
  const claimsAfter = async (deletionPolicy: object | undefined): Promise<string[]> => {
    const world = await settledWorld(deletionPolicy === undefined ? {} : { deletionPolicy });
    await world.deleteCluster();
    assert.equal(world.cluster, undefined);
    assert.deepEqual(namesOf(world, 'StatefulSet'), []);
    const isKept = world.kube.find('PersistentVolumeClaim', 'data-c-a-0') !== undefined;
    assert.deepEqual(namesOf(world, 'ConfigMap'), isKept ? ['c-record'] : []);
    return namesOf(world, 'PersistentVolumeClaim');
  };
  const data = ['data-c-a-0', 'data-c-a-b-0', 'data-c-c-0'];
  const etcd = ['data-c-etcd-0', 'data-c-etcd-1', 'data-c-etcd-2'];
  assert.deepEqual(await claimsAfter(undefined), data);
  assert.deepEqual(await claimsAfter({ data: 'Delete' }), []);
  assert.deepEqual(await claimsAfter({ data: 'Retain', metadata: 'Retain' }), [...data, ...etcd]);
  assert.deepEqual(await claimsAfter({ data: 'Delete', metadata: 'Retain' }), etcd);
});

test('volumes that a cluster before has kept do not go with one that has not taken them over', async () => {
  const data = ['data-c-a-0', 'data-c-a-b-0', 'data-c-c-0'];
  for (const [over, why] of [
    [{ numberOfShards: 24 }, /12 shards of 3 copies and spec asks for 24/],
    [
      { isolationGroups: ['a', 'a-b', 'd'].map((name) => ({ name })) },
      /does not name: c-c-0; name/,
    ],
  ] as const) {
    const world = await settledWorld();
    await world.deleteCluster();
    world.addCluster(specOf({ ...over, deletionPolicy: { data: 'Delete' } }));
    for (let pass = 0; pass < 10; pass++) {
      await world.reconcile();
      await world.clock.pass(2_000);
      await world.advance();
    }
    assert.equal(world.condition('Ready').reason, 'OtherVolumes');
    assert.match(world.condition('Ready').message, why);
    await world.deleteCluster();
    assert.equal(world.cluster, undefined);
    const left = namesOf(world, 'PersistentVolumeClaim');
    assert.deepEqual(
      data.filter((name) => left.includes(name)),
      data,
    );
    assert.deepEqual(namesOf(world, 'ConfigMap'), ['c-record']);
    assert.ok(world.kube.ofKind('Event').some((event: Json) => event.reason === 'VolumesKept'));
    world.addCluster(specOf());
    await world.settle();
    assert.equal(world.condition('Ready').status, 'True');
  }
});

test('a paused cluster, and one without its coordinator, can be deleted', async () => {
  const world = await settledWorld({ paused: false });
  world.changeSpec((spec) => (spec.paused = true));
  world.coordinatorUp = false;
  await world.deleteCluster();
  assert.equal(world.cluster, undefined);
});

test('a pod whose machine is silent holds up the deletion of its cluster for a while only', async () => {
  const world = await settledWorld({ deletionPolicy: { data: 'Delete' } });
  const pod = structuredClone(world.kube.find('Pod', 'c-a-0'));
  // No controller of the model takes it away.
  pod.metadata.ownerReferences = [];
  pod.metadata.deletionTimestamp = new Date(world.clock.nowMillis()).toISOString();
  world.kube.store(pod);
  await world.deleteCluster();
  assert.ok(world.cluster, 'it may still end');
  await world.clock.pass(91_000);
  for (let pass = 0; pass < 3; pass++) {
    await world.reconcile();
    await world.advance();
  }
  assert.equal(world.cluster, undefined);
  assert.equal(world.kube.find('PersistentVolumeClaim', 'data-c-a-0'), undefined);
});

test('a status that is refused keeps nothing from being done', async () => {
  const world = new World();
  world.addCluster(specOf());
  world.addClaim('own', { retentionTime: '24h' });
  world.kube.beforeWrite = (write) => {
    if (write.startsWith('PATCH(status)')) throw new KubeError(422, 'Invalid', 'too long');
  };
  for (let pass = 0; pass < 20; pass++) {
    await world.reconcile();
    await world.clock.pass(2_000);
    await world.advance();
  }
  assert.deepEqual(world.calls.filter((call) => !call.startsWith('namespace ready')).sort(), [
    'init',
    'namespace add default',
    'namespace add own',
  ]);
});

test('keys in an external etcd go with the data, and are waited for no longer than two minutes', async () => {
  const external = { endpoints: ['etcd:2379'] };
  const deletionPolicy = { data: 'Delete' } as const;
  const gone = await settledWorld({ etcd: { external }, deletionPolicy });
  assert.deepEqual(namesOf(gone, 'StatefulSet'), ['c-a', 'c-a-b', 'c-c']);
  await gone.deleteCluster();
  assert.deepEqual(gone.calls, ['delete keys']);

  const left = await settledWorld({ etcd: { external }, deletionPolicy });
  left.externalEtcdProblem = 'connection refused';
  await assert.rejects(left.deleteCluster(), /connection refused/);
  assert.ok(left.cluster, 'it waits');
  await left.clock.pass(121_000);
  await left.reconcile();
  assert.equal(left.cluster, undefined);
  assert.ok(left.kube.ofKind('Event').some((event: Json) => event.reason === 'MetadataLeft'));
});

test('a cluster that was deleted with Retain comes back with its placement', async () => {
  const world = await settledWorld({ nodes: { replicasPerGroup: 2 } });
  const before = await instancesOf(world);
  const { uid } = world.cluster.metadata;
  await world.deleteCluster();
  await world.loseEtcd();
  world.addCluster(specOf({ nodes: { replicasPerGroup: 1 } }));
  assert.notEqual(world.cluster.metadata.uid, uid);
  await world.settle();
  assert.equal(world.calls.filter((call) => call === 'init').length, 0);
  assert.deepEqual(world.calls.slice(-4), [
    'approve',
    'remove c-a-1',
    'remove c-a-b-1',
    'remove c-c-1',
  ]);
  assert.equal(before.length, 6);
  assert.equal((await instancesOf(world)).length, 3);
});

test('what the operator may not look at, or is not there to be looked at, stands in the status', async () => {
  const refusals = [
    ['NetworkPolicy', new KubeError(403, 'Forbidden', 'cannot list networkpolicies')],
    ['TSDBNamespace', new KubeError(404, 'NotFound', 'could not find the requested resource')],
  ] as const;
  for (const [kind, refusal] of refusals) {
    const world = await settledWorld();
    const list = world.kube.list.bind(world.kube);
    let isRefused = true;
    world.kube.list = (resource, ...rest) =>
      isRefused && resource.kind === kind ? Promise.reject(refusal) : list(resource, ...rest);
    let told: boolean | undefined;
    world.onPass = (_key, figures) => {
      told = figures?.conditions.get('Stalled');
    };
    await assert.rejects(world.reconcile(), refusal);
    assert.equal(told, true, 'so that an alert says it');
    const { reason, message } = world.condition('Stalled');
    assert.equal(reason, 'NotObserved');
    assert.ok(message.endsWith(refusal.message), message);
    assert.equal(world.condition('Ready').status, 'False');
    isRefused = false;
    await world.settle();
    assert.equal(world.condition('Stalled'), undefined);
    assert.equal(world.condition('Ready').status, 'True');
  }
});

test('while an action that fails waits for its next attempt, it is looked every ten seconds all the same', async () => {
  const world = await settledWorld();
  world.beforeCall = () => {
    throw new TsdbError('UNAVAILABLE', 'not now');
  };
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  const waits: number[] = [];
  for (let pass = 0; pass < 60; pass++) {
    const afterMillis = await world.reconcile();
    waits.push(afterMillis ?? 0);
    await world.clock.pass(afterMillis ?? 2_000);
    await world.advance();
  }
  assert.match(world.condition('Ready').message, /not now/);
  assert.equal(Math.max(...waits), 10_000);
});
