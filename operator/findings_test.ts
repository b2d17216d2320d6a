/**
 * What an adversarial reading of the operator found, by the numbers of its list, each as a test of
 * what a user relies on. One that is open must still fail; the change that mends it says so here.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { namespaceOptions } from './desired/namespaces.ts';
import { KubeError } from './kube/kube_api.ts';
import { resource } from './resource/kube_objects.ts';
import { specOf, World, settledWorld } from './world_testing.ts';

type Json = any;

const forever = new AbortController().signal;

function finding(
  number: string,
  what: string,
  state: 'open' | 'mended',
  run: () => Promise<void>,
): void {
  if (state === 'mended') test(`${number}: ${what}`, run);
  else {
    test(`${number}, open: ${what}`, async () => {
      await assert.rejects(run, 'it is mended: say so');
    });
  }
}

/** @returns what the last pass asked to wait */
async function passes(world: World, count: number): Promise<number | null> {
  let after: number | null = null;
  for (let pass = 0; pass < count; pass++) {
    after = await world.reconcile().catch(() => null);
    await world.clock.pass(11_000);
    await world.advance();
  }
  return after;
}

const writesLike = (world: World, pattern: RegExp): string[] =>
  world.kube.writes.filter((write) => pattern.test(write));

const namespaceCondition = (world: World, name: string, type: string): Json =>
  world.kube.find('TSDBNamespace', name).status.conditions.find((one: Json) => one.type === type);

async function retentionOf(world: World, name: string): Promise<string> {
  const { registry } = (await world.admin.namespaceGet(true, forever)) as Json;
  return registry.namespaces[name].retentionOptions.retentionPeriodDuration;
}

finding('1a', 'a placement that was lost is not made anew', 'mended', async () => {
  const world = await settledWorld();
  await world.admin.placementDelete(plainRequest, forever);
  await passes(world, 10);
  assert.deepEqual(world.calls, []);
  const stalled = world.condition('Stalled');
  assert.deepEqual([stalled?.status, stalled?.reason], ['True', 'PlacementLost']);
  assert.match(stalled.message, /tsdb\.io\/approve-placement/);
  world.annotate('tsdb.io/approve-placement', 'anew');
  await world.settle();
  assert.deepEqual(
    world.calls.filter((call) => call === 'init'),
    ['init'],
  );
  await world.admin.placementDelete(plainRequest, forever);
  await passes(world, 10);
  assert.equal(world.condition('Stalled')?.reason, 'PlacementLost', 'one approval is for one loss');
  assert.equal(world.calls.filter((call) => call === 'init').length, 1);
});

finding('1b', 'a placement of other shards and copies is not adopted', 'mended', async () => {
  const world = new World();
  const instances = ['c-a-0', 'c-a-b-0', 'c-c-0'].map((id, at) => ({
    id,
    isolation_group: ['a', 'a-b', 'c'][at],
    zone: 'embedded',
    weight: 100,
    endpoint: `elsewhere-${id}:9000`,
    hostname: id,
    port: 9000,
  }));
  const init = { num_shards: 4, replication_factor: 2, instances };
  await world.admin.placementInit(init, plainRequest, forever);
  world.addCluster(specOf());
  await passes(world, 20);
  assert.deepEqual(world.calls, []);
  const stalled = world.condition('Stalled');
  assert.deepEqual([stalled?.status, stalled?.reason], ['True', 'ForeignPlacement']);
  assert.match(stalled.message, /4 shards/);
});

finding('2a', 'Retain keeps placement and namespaces in an external etcd', 'mended', async () => {
  const world = await settledWorld({ etcd: { external: { endpoints: ['etcd:2379'] } } });
  await world.deleteCluster();
  assert.equal(world.cluster, undefined);
  assert.deepEqual(world.calls, []);
});

finding('3a', 'with --cascade=orphan nothing is taken away', 'mended', async () => {
  const world = await settledWorld({ deletionPolicy: { data: 'Delete', metadata: 'Delete' } });
  const cluster = structuredClone(world.cluster);
  cluster.metadata.finalizers = [...(cluster.metadata.finalizers ?? []), 'orphan'];
  cluster.metadata.deletionTimestamp = '2026-01-01T00:00:01Z';
  world.kube.store(cluster);
  await passes(world, 3);
  assert.deepEqual(writesLike(world, /^DELETE/), []);
  assert.deepEqual(world.cluster.metadata.finalizers, ['orphan']);
});

finding('3b', 'Delete leaves no volume of a pod that was being made', 'mended', async () => {
  const world = await settledWorld({ deletionPolicy: { data: 'Delete', metadata: 'Delete' } });
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  await world.reconcile();
  // Whatever is written while it goes, its sets go on.
  world.kube.beforeWrite = () => void world.advance();
  await world.deleteCluster();
  assert.equal(world.cluster, undefined);
  assert.deepEqual(
    world.kube.ofKind('PersistentVolumeClaim').map(({ metadata }) => metadata.name),
    [],
  );
});

finding('4a', 'a namespace that the API made is not taken over', 'mended', async () => {
  const world = await settledWorld();
  const options = namespaceOptions({ retentionTime: '30d', blockSize: '12h' });
  await world.admin.namespaceAdd({ name: 'prod', options }, plainRequest, forever);
  world.addClaim('prod', { reclaimPolicy: 'Delete', blockSize: '2h' });
  await passes(world, 10);
  assert.deepEqual(world.calls, []);
  assert.equal(namespaceCondition(world, 'prod', 'Ready').reason, 'NotOwned');
  assert.match(namespaceCondition(world, 'prod', 'Stalled').message, /tsdb\.io\/adopt/);
  await world.kube.delete(resource.namespace, 'default', 'prod', { uid: null, orphan: false });
  await passes(world, 5);
  assert.deepEqual(world.calls, []);
});

finding('4b', 'a retention that is not named any more stays as it is', 'mended', async () => {
  const world = await settledWorld({ namespaces: [{ name: 'default', retentionTime: '30d' }] });
  world.changeSpec((spec) => {
    delete spec.namespaces[0].retentionTime;
  });
  await passes(world, 5);
  assert.match(await retentionOf(world, 'default'), /^(30d|720h)/);
});

finding('4c', 'what cannot be changed is refused with the reason', 'mended', async () => {
  const world = await settledWorld();
  world.addClaim('prod', { blockSize: '2h' });
  await passes(world, 5);
  const claim = structuredClone(world.kube.find('TSDBNamespace', 'prod'));
  claim.spec.blockSize = '4h';
  world.kube.store(claim);
  await passes(world, 5);
  const ready = namespaceCondition(world, 'prod', 'Ready');
  assert.deepEqual([ready.status, ready.reason], ['False', 'ImmutableChange']);
  assert.match(ready.message, /blockSize/);
});

finding('6a', 'a refused growth of volumes holds up nothing else', 'mended', async () => {
  const world = await settledWorld({
    nodes: { replicasPerGroup: 1, storage: { size: '100Gi' } },
  });
  world.kube.beforeWrite = (write) => {
    if (!/PATCH PersistentVolumeClaim/.test(write)) return;
    throw new KubeError(403, 'Forbidden', 'the storageclass must support resize');
  };
  world.changeSpec((spec) => (spec.nodes.storage.size = '200Gi'));
  await passes(world, 3);
  world.changeSpec((spec) => {
    spec.nodes.image = 'node:2';
    spec.nodes.replicasPerGroup = 2;
  });
  world.addClaim('late', {});
  await passes(world, 60);
  assert.equal(world.condition('Stalled')?.reason, 'VolumeGrowthRefused');
  assert.deepEqual(
    world.calls.filter((call) => call.startsWith('add')),
    ['add c-a-1', 'add c-a-b-1', 'add c-c-1'],
  );
  const images = world.kube
    .ofKind('Pod')
    .filter(({ metadata }) => metadata.labels?.['tsdb.io/component'] === 'node')
    .map((pod: Json) => pod.spec.containers[0].image);
  assert.deepEqual(new Set(images), new Set(['node:2']));
  assert.equal(namespaceCondition(world, 'late', 'Ready').status, 'True');
});

finding('6b', 'an object that is refused holds up nothing else', 'mended', async () => {
  const world = await settledWorld();
  world.kube.beforeWrite = (write) => {
    if (!/^(APPLY|PATCH) StatefulSet\/c-a$/.test(write)) return;
    throw new KubeError(422, 'Invalid', 'StatefulSet.apps "c-a" is invalid: memory: 1Giga');
  };
  world.changeSpec((spec) => (spec.coordinator = { image: 'coordinator:2' }));
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  world.addClaim('late', {});
  await passes(world, 30);
  const stalled = world.condition('Stalled');
  assert.deepEqual([stalled?.status, stalled?.reason], ['True', 'ApplyRefused']);
  assert.match(stalled.message, /StatefulSet\/c-a.*1Giga/);
  assert.equal(namespaceCondition(world, 'late', 'Ready').status, 'True');
  assert.ok(writesLike(world, /APPLY StatefulSet\/c-a$/).length < 10, 'not asked at every pass');
});

finding('6c', 'one bad TSDBNamespace leaves its cluster Ready', 'mended', async () => {
  const world = await settledWorld();
  world.addClaim('bad', { blockSize: '4h', retentionTime: '1h' });
  await passes(world, 20);
  assert.equal(world.condition('Ready').status, 'True');
  const stalled = namespaceCondition(world, 'bad', 'Stalled');
  assert.equal(stalled?.status, 'True');
  assert.match(stalled.message, /block/i);
});

finding(
  '6d',
  'a node that never starts does not join, and can be taken back',
  'mended',
  async () => {
    const world = await settledWorld();
    world.broken.add('c-a-1');
    world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
    await passes(world, 15);
    assert.deepEqual(world.calls, []);
    world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 1));
    await passes(world, 30);
    assert.deepEqual(world.instanceIds().sort(), ['c-a-0', 'c-a-b-0', 'c-c-0']);
    assert.equal(world.kube.find('Pod', 'c-a-1'), undefined);
    assert.equal(world.condition('Ready').status, 'True');
  },
);

finding('6e', 'a node that fails after it joined can be taken back', 'mended', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  world.afterCall = (call) => {
    if (call === 'add c-a-1') world.broken.add('c-a-1');
  };
  await passes(world, 15);
  assert.deepEqual(world.calls, ['add c-a-1']);
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 1));
  await passes(world, 30);
  assert.deepEqual(world.instanceIds().sort(), ['c-a-0', 'c-a-b-0', 'c-c-0']);
  assert.equal(world.condition('Ready').status, 'True');
});

finding('6f', 'a placement is not made of nodes that do not answer', 'mended', async () => {
  const world = new World();
  world.addCluster(specOf());
  world.broken.add('c-a-b-0');
  await passes(world, 15);
  assert.deepEqual(world.calls, []);
  world.broken.clear();
  await passes(world, 15);
  assert.equal(world.condition('Ready').status, 'True');
});

finding('7a', 'Gated holds etcd and coordinators too', 'mended', async () => {
  const world = await settledWorld({ updatePolicy: 'Gated' });
  world.changeSpec((spec) => {
    spec.etcd = { image: 'etcd:2' };
    spec.coordinator = { image: 'coordinator:2' };
  });
  await passes(world, 10);
  const imageOf = (kind: string, name: string): string =>
    world.kube.find(kind, name).spec.containers?.[0].image ??
    world.kube.find(kind, name).spec.template.spec.containers[0].image;
  assert.equal(imageOf('Pod', 'c-etcd-0'), 'etcd:1');
  assert.equal(imageOf('Deployment', 'c-coordinator'), 'coordinator:1');
  const { plan } = world.cluster.status;
  assert.ok(plan.actions.some((action: string) => /etcd/.test(action)));
  assert.ok(plan.actions.some((action: string) => /coordinator/.test(action)));
  world.annotate('tsdb.io/approve', plan.hash);
  await world.settle();
  assert.equal(imageOf('Pod', 'c-etcd-0'), 'etcd:2');
  assert.equal(imageOf('Deployment', 'c-coordinator'), 'coordinator:2');
});

finding('7b', 'pods are evicted and not deleted', 'mended', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  await world.settle();
  assert.deepEqual(writesLike(world, /^DELETE Pod/), []);
  assert.equal(writesLike(world, /^EVICT Pod/).length, 3);
});

finding('7c', 'an autoscaler counts the pods of one group', 'mended', async () => {
  const world = await settledWorld();
  const { selector } = world.cluster.status;
  const pods = await world.kube.list(resource.pod, 'default', selector);
  assert.equal(pods.items.length, 1);
});

finding('7d', 'an autoscaler of coordinators is not fought', 'mended', async () => {
  const world = await settledWorld();
  const deployment = structuredClone(world.kube.find('Deployment', 'c-coordinator'));
  deployment.spec.replicas = 5;
  world.kube.store(deployment);
  await passes(world, 5);
  assert.equal(world.kube.find('Deployment', 'c-coordinator').spec.replicas, 5);
});

finding('7e', 'of two operators one looks after a cluster', 'mended', async () => {
  const world = await settledWorld();
  const renewTime = new Date(world.clock.nowMillis()).toISOString();
  world.kube.store({
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'tsdb-operator', namespace: 'tsdb-system' },
    spec: { holderIdentity: 'x', renewTime },
  });
  world.operatorId = 'default/other';
  world.images = { ...world.images, node: 'node:other' };
  world.restartOperator();
  await passes(world, 5);
  assert.deepEqual(writesLike(world, /StatefulSet|Deployment|Pod/), []);
  assert.ok(world.kube.ofKind('Event').some((event: Json) => event.reason === 'ManagedByAnother'));
  await world.clock.pass(400_000);
  await passes(world, 20);
  assert.equal(world.kube.find('Pod', 'c-a-0').spec.containers[0].image, 'node:other');
});

finding(
  '7e',
  'one whose clock is ahead is gone when it does nothing any more',
  'mended',
  async () => {
    const world = await settledWorld();
    const spec = { renewTime: new Date(world.clock.nowMillis() + 86_400_000).toISOString() };
    const metadata = { name: 'tsdb-operator', namespace: 'elsewhere' };
    world.kube.store({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec });
    world.annotate('tsdb.io/managed-by', 'elsewhere/tsdb-operator');
    world.kube.remove(world.kube.find('Service', 'c-coordinator'));
    await passes(world, 5);
    assert.equal(world.kube.find('Service', 'c-coordinator'), undefined);
    await world.clock.pass(400_000);
    await passes(world, 5);
    assert.notEqual(world.kube.find('Service', 'c-coordinator'), undefined);
  },
);

finding('7f', 'an object that nobody controls is left alone too', 'mended', async () => {
  const world = new World();
  const theirs = { selector: { app: 'mine' }, ports: [{ port: 80 }] };
  world.kube.store({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'c-coordinator', namespace: 'default', labels: { app: 'mine' } },
    spec: theirs,
  });
  world.addCluster(specOf());
  await passes(world, 10);
  assert.deepEqual(world.kube.find('Service', 'c-coordinator').spec, theirs);
  assert.equal(world.condition('Stalled')?.reason, 'ForeignObject');
});

finding(
  '7g',
  'a new operator rolls one cluster and one component at a time',
  'mended',
  async () => {
    const world = await settledWorld();
    const { metadata, ...second } = structuredClone(world.cluster);
    const { name: _, uid: __, annotations: ___, ...others } = metadata;
    world.kube.store({ ...second, metadata: { ...others, name: 'd' }, status: undefined });
    const isNew = ({ spec }: Json): boolean =>
      (spec.containers ?? spec.template.spec.containers)[0].image.endsWith(':2');
    const isRolled = (kind: string, prefix: string): boolean =>
      world.kube
        .ofKind(kind)
        .filter(({ metadata: { name } }) => name.startsWith(prefix))
        .every(isNew);
    const both = async () => {
      for (const cluster of ['c', 'd']) await world.reconcile(cluster).catch(() => {});
      await world.clock.pass(5_000);
      await world.advance();
    };
    for (let pass = 0; pass < 30; pass++) await both();
    assert.equal(world.condition('Ready').status, 'True');
    world.images = {
      ...world.images,
      node: 'node:2',
      coordinator: 'coordinator:2',
      etcd: 'etcd:2',
    };
    world.restartOperator();
    const order: string[] = [];
    for (let pass = 0; pass < 60; pass++) {
      await both();
      for (const [kind, prefix] of [
        ['Pod', 'c-etcd'],
        ['Pod', 'c-a-0'],
        ['Deployment', 'c-'],
        ['StatefulSet', 'd-etcd'],
      ] as const) {
        const what = `${kind} ${prefix}`;
        if (isRolled(kind, prefix) && !order.includes(what)) order.push(what);
      }
    }
    assert.deepEqual(order, ['Pod c-etcd', 'Pod c-a-0', 'Deployment c-', 'StatefulSet d-etcd']);
  },
);

finding('8a', 'a change that waits for the end of a pause is said', 'mended', async () => {
  const world = await settledWorld();
  const before = world.cluster.status.observedGeneration;
  world.changeSpec((spec) => {
    spec.paused = true;
    spec.nodes.image = 'node:2';
    spec.nodes.replicasPerGroup = 3;
  });
  const after = await passes(world, 3);
  assert.equal(world.cluster.status.observedGeneration, before);
  assert.equal(world.condition('Ready').status, 'False');
  assert.match(world.condition('Paused').message, /wait/);
  assert.equal(after, 60_000);
});

finding('8b', 'a condition says whether the data path serves', 'mended', async () => {
  const world = await settledWorld();
  assert.equal(world.condition('Available')?.status, 'True');
  world.broken.add('c-a-0');
  await passes(world, 3);
  assert.equal(world.condition('Available').status, 'True');
  world.broken.add('c-c-0');
  await passes(world, 3);
  assert.equal(world.condition('Available').status, 'False');
});

finding('8c', 'an object that is brought back leaves the cluster Ready', 'mended', async () => {
  const world = await settledWorld();
  world.kube.remove(world.kube.find('PodDisruptionBudget', 'c-nodes'));
  let ready = '';
  world.kube.afterWrite = (write) => {
    if (/APPLY PodDisruptionBudget/.test(write)) ready = world.condition('Ready').status;
  };
  await world.reconcile();
  assert.equal(ready, 'True');
});

finding('8d', 'larger volumes are Ready when they have the capacity', 'mended', async () => {
  const world = await settledWorld({
    nodes: { replicasPerGroup: 1, storage: { size: '100Gi' } },
  });
  world.growsVolumes = false;
  world.changeSpec((spec) => (spec.nodes.storage.size = '200Gi'));
  await passes(world, 20);
  assert.equal(world.condition('Ready').status, 'False');
  assert.match(world.condition('Ready').message, /200Gi/);
  world.growsVolumes = true;
  await passes(world, 5);
  assert.equal(world.condition('Ready').status, 'True');
});
