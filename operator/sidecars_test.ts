/** Containers that a podTemplate brings beside ours, and that do not start or begin to fail. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type World, settledWorld } from './world_testing.ts';

type Json = any;

const beside = (image: string): object => ({
  spec: { containers: [{ name: 'shipper', image }] },
});

/** Of the set of nodes in zone a, or of the Deployment. */
const shipperOf = (world: World, kind: string, name: string): string | undefined =>
  world.kube
    .find(kind, name)
    .spec.template.spec.containers.find((one: Json) => one.name === 'shipper')?.image;

/** Passes, in which no pod is taken while another one of its component is away. */
async function passes(world: World, count: number): Promise<string[]> {
  const taken: string[] = [];
  for (let pass = 0; pass < count; pass++) {
    const before = world.kube.writes.length;
    const down = world.kube
      .ofKind('Pod')
      .map(({ metadata }) => metadata.name)
      .filter((name) => !world.serves(name));
    await world.reconcile().catch(() => {});
    for (const write of world.kube.writes.slice(before)) {
      if (!/^(EVICT|DELETE) Pod\//.test(write)) continue;
      taken.push(write.replace(' Pod/c-', ' '));
      assert.deepEqual(down, [], `${write} while others do not serve`);
    }
    await world.clock.pass(2_000);
    await world.advance();
  }
  return taken;
}

for (const component of ['etcd', 'nodes'] as const) {
  test(`a bad container beside ${component} stops at the first pod, and taking it back cures it`, async () => {
    const world = await settledWorld();
    world.badSidecars.add('shipper:bad');
    world.changeSpec((spec) => {
      spec[component] = { ...spec[component], podTemplate: beside('shipper:bad') };
    });
    const taken = await passes(world, 40);
    assert.equal(taken.length, 1, taken.join());
    assert.equal(world.condition('Ready').status, 'False');
    assert.match(world.condition('Ready').message, /c-(etcd-2|a-0) \(the image/);
    assert.equal(world.condition('Available').status, 'True');
    world.changeSpec((spec) => {
      delete spec[component].podTemplate;
    });
    assert.equal((await passes(world, 40)).length, 1);
    assert.equal(world.condition('Ready').status, 'True');
  });

  test(`mending what fails beside all of ${component} takes one pod after the other`, async () => {
    const world = await settledWorld();
    world.changeSpec((spec) => {
      spec[component] = { ...spec[component], podTemplate: beside('shipper:1') };
    });
    assert.equal((await passes(world, 60)).length, 3);
    assert.equal(world.condition('Ready').status, 'True');
    world.badSidecars.add('shipper:1');
    assert.deepEqual(await passes(world, 30), []);
    assert.equal(world.condition('Available').status, 'True', 'our processes serve');
    world.changeSpec((spec) => {
      spec[component].podTemplate = beside('shipper:2');
    });
    assert.equal((await passes(world, 60)).length, 3);
    assert.equal(world.condition('Ready').status, 'True');
  });
}

test('a mended container beside nodes comes although etcd has a change too', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => (spec.nodes.podTemplate = beside('shipper:1')));
  await passes(world, 60);
  world.badSidecars.add('shipper:1');
  await passes(world, 5);
  world.changeSpec((spec) => {
    spec.nodes.podTemplate = beside('shipper:2');
    spec.etcd = { ...spec.etcd, podTemplate: beside('shipper:2') };
  });
  assert.equal((await passes(world, 120)).length, 6);
  assert.equal(world.condition('Ready').status, 'True');
});

test('coordinators that a container beside them keeps from serving are mended at once', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => {
    spec.coordinator = { ...spec.coordinator, podTemplate: beside('shipper:1') };
  });
  await passes(world, 30);
  const state = { waiting: { reason: 'CrashLoopBackOff' } };
  const { metadata, spec } = world.kube.find('Pod', 'c-a-0');
  const labels = { ...metadata.labels, 'tsdb.io/component': 'coordinator' };
  world.kube.store({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'c-coordinator-x', namespace: 'default', labels },
    spec,
    status: {
      phase: 'Running',
      conditions: [{ type: 'Ready', status: 'False', reason: 'ContainersNotReady' }],
      containerStatuses: [
        { name: 'coordinator', ready: true, restartCount: 0, state: { running: {} } },
        { name: 'shipper', ready: false, restartCount: 9, state },
      ],
    },
  });
  world.changeSpec((changed) => {
    changed.coordinator.podTemplate = beside('shipper:2');
    changed.etcd = { ...changed.etcd, podTemplate: beside('shipper:2') };
  });
  await world.reconcile();
  assert.equal(shipperOf(world, 'Deployment', 'c-coordinator'), 'shipper:2');
});

test('an init container that fails costs no member of etcd its volume', async () => {
  const world = await settledWorld();
  const before = world.kube.find('PersistentVolumeClaim', 'data-c-etcd-1').metadata.uid;
  world.broken.add('c-etcd-1');
  await world.advance();
  const pod = structuredClone(world.kube.find('Pod', 'c-etcd-1'));
  const store = world.kube.store.bind(world.kube);
  const waiting = (reason: string) => ({
    ready: false,
    restartCount: 9,
    state: { waiting: { reason } },
  });
  world.kube.store = (object: Json) => {
    if (object.kind !== 'Pod' || object.metadata.name !== pod.metadata.name) return store(object);
    const status = {
      phase: 'Pending',
      conditions: [{ type: 'Ready', status: 'False', reason: 'ContainersNotReady' }],
      initContainerStatuses: [{ name: 'vault', ...waiting('CrashLoopBackOff') }],
      containerStatuses: [{ name: 'etcd', ...waiting('PodInitializing') }],
    };
    return store({ ...object, status });
  };
  for (let pass = 0; pass < 40; pass++) {
    await world.reconcile().catch(() => {});
    await world.clock.pass(5_000);
    await world.advance();
  }
  assert.equal(world.kube.find('PersistentVolumeClaim', 'data-c-etcd-1')?.metadata.uid, before);
  assert.deepEqual(world.etcd.calls, []);
});

test('pods of a batch are evicted one by one while some are not ready', async () => {
  const nodes = { replicasPerGroup: 3, maxUnavailable: 3 };
  const world = await settledWorld({ nodes });
  world.changeSpec((spec) => (spec.nodes.podTemplate = beside('shipper:1')));
  await passes(world, 150);
  world.badSidecars.add('shipper:1');
  await passes(world, 5);
  const { length } = world.kube.writes;
  world.changeSpec((spec) => (spec.nodes.podTemplate = beside('shipper:2')));
  await passes(world, 150);
  const deleted = world.kube.writes.slice(length).filter((write) => write.startsWith('DELETE Pod'));
  assert.deepEqual(deleted, []);
  assert.equal(world.condition('Ready').status, 'True');
});

test('a cluster whose etcd is not ready is not Ready while a change waits for its approval either', async () => {
  const world = await settledWorld({ updatePolicy: 'Gated' });
  world.changeSpec((spec) => {
    spec.updatePolicy = 'Always';
    spec.etcd = { ...spec.etcd, podTemplate: beside('shipper:1') };
  });
  await passes(world, 60);
  world.badSidecars.add('shipper:1');
  await passes(world, 30);
  assert.equal(world.condition('Ready').reason, 'EtcdNotReady');
  world.changeSpec((spec) => {
    spec.updatePolicy = 'Gated';
    spec.nodes.image = 'node:2';
  });
  await passes(world, 10);
  assert.equal(world.condition('ApprovalRequired').status, 'True');
  assert.equal(world.condition('Ready').status, 'False');
});
