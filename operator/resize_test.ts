/** Requests and limits that change while pods run. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KubeError } from './kube/kube_api.ts';
import { World, settledWorld } from './world_testing.ts';

type Json = any;

const small = { requests: { cpu: '1', memory: '2Gi' }, limits: { cpu: '2', memory: '2Gi' } };
const more = { requests: { cpu: '2', memory: '2Gi' }, limits: { cpu: '4', memory: '2Gi' } };

const sized = {
  nodes: { replicasPerGroup: 1, resources: small },
  etcd: { resources: small },
};

const written = (world: World, pattern: RegExp): string[] =>
  world.kube.writes.filter((write) => pattern.test(write));

const resourcesOf = (world: World, pod: string): Json =>
  world.kube.find('Pod', pod).spec.containers[0].resources;

test('more cpu comes while pods run: none is replaced', async () => {
  const world = await settledWorld(sized);
  world.changeSpec((spec) => {
    spec.nodes.resources = more;
    spec.etcd.resources = more;
  });
  await world.settle();
  assert.deepEqual(written(world, /EVICT|DELETE Pod/), []);
  assert.equal(written(world, /^PATCH\(resize\) Pod/).length, 6);
  assert.deepEqual(resourcesOf(world, 'c-a-0'), more);
  assert.deepEqual(resourcesOf(world, 'c-etcd-2'), more);
  assert.equal(world.condition('Ready').status, 'True');
  const updated = world.cluster.status.groups.map((group: Json) => group.updatedReplicas);
  assert.deepEqual(updated, [1, 1, 1]);
  // Less is no other thing, and an operator that knows nothing of before sees the same.
  world.restartOperator();
  world.changeSpec((spec) => (spec.nodes.resources = small));
  await world.settle();
  assert.deepEqual(written(world, /EVICT|DELETE Pod/), []);
  assert.deepEqual(resourcesOf(world, 'c-c-0'), small);
});

test('the first requests, and those that become as large as the limits, are rolled', async () => {
  const world = await settledWorld();
  const exact = { requests: { cpu: '2', memory: '2Gi' }, limits: { cpu: '2', memory: '2Gi' } };
  for (const resources of [small, exact, small]) {
    world.changeSpec((spec) => (spec.nodes.resources = resources));
    await world.settle();
    assert.equal(written(world, /^PATCH\(resize\) Pod/).length, 0, 'not asked for in vain');
    assert.equal(written(world, /EVICT/).length, 3);
    assert.deepEqual(resourcesOf(world, 'c-a-0'), resources);
    world.kube.writes.length = 0;
  }
});

test('a limit of memory, or something else beside it, is rolled', async () => {
  const world = await settledWorld(sized);
  const large = { ...small, limits: { cpu: '2', memory: '4Gi' } };
  world.changeSpec((spec) => (spec.nodes.resources = large));
  await world.settle();
  assert.equal(written(world, /EVICT/).length, 3);
  world.changeSpec((spec) => {
    spec.nodes.resources = more;
    spec.nodes.image = 'node:2';
  });
  await world.settle();
  assert.equal(written(world, /EVICT/).length, 6);
  assert.deepEqual(written(world, /resize/), []);
});

for (const status of [404, 405, 422]) {
  test(`a server that answers ${status} gets a roll`, async () => {
    const world = await settledWorld(sized);
    world.kube.beforeWrite = (write) => {
      if (write.startsWith('PATCH(resize)')) throw new KubeError(status, 'No', 'no resize');
    };
    world.changeSpec((spec) => (spec.nodes.resources = more));
    await world.settle();
    assert.equal(written(world, /EVICT/).length, 3);
    assert.deepEqual(resourcesOf(world, 'c-a-0'), more);
    assert.equal(world.condition('Stalled'), undefined);
  });
}

test('what a machine has no room for now is waited for, what it never has is rolled', async () => {
  const world = await settledWorld(sized);
  const say = (reason: string | null) => {
    const pod = structuredClone(world.kube.find('Pod', 'c-a-0')) as Json;
    const kept = pod.status.conditions.filter((one: Json) => one.type === 'Ready');
    const message = 'Node did not have enough resource: cpu';
    const pending = { type: 'PodResizePending', status: 'True', reason, message };
    pod.status.conditions = reason === null ? kept : [...kept, pending];
    world.kube.store(pod);
  };
  world.changeSpec((spec) => (spec.nodes.resources = more));
  for (let pass = 0; pass < 20; pass++) {
    await world.reconcile();
    await world.clock.pass(2_000);
    await world.advance();
    if (resourcesOf(world, 'c-a-0').requests.cpu === '2') say('Deferred');
  }
  assert.match(world.condition('Ready').message, /c-a-0: PodResizePending .*enough resource/);
  assert.equal(written(world, /resize/).length, 1, 'one pod at a time');
  assert.deepEqual(written(world, /EVICT/), []);
  say('Infeasible');
  await world.reconcile();
  assert.deepEqual(written(world, /EVICT/), ['EVICT Pod/c-a-0']);
  await world.advance();
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
});

/** Pods get what the server adds to them, at once and with each resize; templates do not. */
function addToPods(world: World, add: (resources: Json) => void): void {
  const store = world.kube.store.bind(world.kube);
  world.kube.store = (object: Json) => {
    if (object.kind !== 'Pod') return store(object);
    const pod = structuredClone(object);
    for (const container of pod.spec.containers) {
      container.resources ??= {};
      add(container.resources);
      const { limits = {}, requests = {} } = container.resources;
      container.resources.requests = { ...limits, ...requests };
    }
    return store(pod);
  };
}

const shapes: Readonly<Record<string, readonly [Json, Json, (resources: Json) => void]>> = {
  'limits without requests': [
    { limits: { cpu: '2', memory: '4Gi' } },
    { limits: { cpu: '4', memory: '4Gi' } },
    () => {},
  ],
  'a limit of memory without a request': [
    { requests: { cpu: '2' }, limits: { memory: '4Gi' } },
    { requests: { cpu: '3' }, limits: { memory: '4Gi' } },
    () => {},
  ],
  'a LimitRange that limits what is not limited': [
    { requests: { cpu: '1', memory: '4Gi' }, limits: { memory: '4Gi' } },
    { requests: { cpu: '2', memory: '4Gi' }, limits: { memory: '4Gi' } },
    (resources) => (resources.limits = { cpu: '8', ...resources.limits }),
  ],
};
for (const [what, [before, after, add]] of Object.entries(shapes)) {
  test(`a change comes to all pods, and is asked for once: ${what}`, async () => {
    const world = await settledWorld();
    addToPods(world, add);
    world.changeSpec((spec) => (spec.nodes.resources = before));
    await world.settle();
    world.kube.writes.length = 0;
    world.changeSpec((spec) => (spec.nodes.resources = after));
    await world.settle();
    assert.equal(world.condition('Ready').status, 'True');
    for (const id of ['c-a-0', 'c-a-b-0', 'c-c-0']) {
      const [container] = world.kube.find('Pod', id).spec.containers;
      const wanted = { ...after.limits, ...after.requests };
      assert.deepEqual(
        { ...container.resources.requests, ...wanted },
        container.resources.requests,
      );
      const asked = world.kube.writes.filter((write) => write === `PATCH(resize) Pod/${id}`);
      assert.equal(asked.length, 1);
    }
  });
}

test('what a quota has no room for is said, and no pod is taken for it', async () => {
  const world = await settledWorld(sized);
  const message = 'exceeded quota: all, requested: limits.cpu=2, used: limits.cpu=12, limited: 12';
  world.kube.beforeWrite = (write) => {
    if (write.startsWith('PATCH(resize)')) throw new KubeError(403, 'Forbidden', message);
  };
  world.changeSpec((spec) => (spec.nodes.resources = more));
  for (let pass = 0; pass < 20; pass++) {
    await world.reconcile().catch(() => {});
    await world.clock.pass(5_000);
    await world.advance();
  }
  assert.deepEqual(written(world, /EVICT|DELETE/), []);
  const stalled = world.condition('Stalled');
  assert.equal(stalled.reason, 'ResizeRefused');
  assert.match(stalled.message, /^c-a-0 does not get its resources: exceeded quota: all/);
  world.kube.beforeWrite = () => {};
  await world.clock.pass(180_000);
  await world.settle();
  assert.deepEqual(written(world, /EVICT|DELETE/), []);
  assert.deepEqual(resourcesOf(world, 'c-c-0'), more);
  assert.equal(world.condition('Ready').status, 'True');
});

test('a container that Kubernetes would start anew for its resources is rolled', async () => {
  const resizePolicy = [{ resourceName: 'cpu', restartPolicy: 'RestartContainer' }];
  const podTemplate = { spec: { containers: [{ name: 'node', resizePolicy }] } };
  const world = await settledWorld({
    nodes: { replicasPerGroup: 1, resources: small, podTemplate },
  });
  world.changeSpec((spec) => (spec.nodes.resources = more));
  await world.settle();
  assert.deepEqual(written(world, /resize/), []);
  assert.equal(written(world, /EVICT/).length, 3);
});

test('the next pod gets its resources when the kubelet has seen those of the one before', async () => {
  const world = await settledWorld(sized);
  const generations = (generation: number, observedGeneration: number): void => {
    const pod = structuredClone(world.kube.find('Pod', 'c-a-0')) as Json;
    pod.metadata.generation = generation;
    pod.status.observedGeneration = observedGeneration;
    world.kube.store(pod);
  };
  generations(1, 1);
  world.changeSpec((spec) => (spec.nodes.resources = more));
  let isSeen = false;
  world.kube.afterWrite = (write) => {
    if (write === 'PATCH(resize) Pod/c-a-0') generations(2, isSeen ? 2 : 1);
  };
  const pass = async (): Promise<void> => {
    await world.reconcile();
    await world.clock.pass(2_000);
    await world.advance();
    generations(2, isSeen ? 2 : 1);
  };
  for (let count = 0; count < 10; count++) await pass();
  assert.deepEqual(written(world, /resize/), ['PATCH(resize) Pod/c-a-0']);
  assert.match(world.condition('Ready').message, /c-a-0 is to have its resources/);
  isSeen = true;
  for (let count = 0; count < 10; count++) await pass();
  assert.equal(written(world, /resize/).length, 3);
});

test('who has to have less makes the room that another one was refused', async () => {
  const world = await settledWorld(sized);
  let isRoom = false;
  world.kube.beforeWrite = (write) => {
    if (write.startsWith('PATCH(resize) Pod/c-etcd') && !isRoom) {
      throw new KubeError(403, 'Forbidden', 'exceeded quota: all');
    }
    if (write === 'PATCH(resize) Pod/c-c-0') isRoom = true;
  };
  const less = { requests: { cpu: '500m', memory: '2Gi' }, limits: { cpu: '1', memory: '2Gi' } };
  world.changeSpec((spec) => {
    spec.etcd.resources = more;
    spec.nodes.resources = less;
  });
  for (let pass = 0; pass < 60; pass++) {
    await world.reconcile().catch(() => {});
    await world.clock.pass(5_000);
    await world.advance();
  }
  assert.deepEqual(written(world, /EVICT|DELETE/), []);
  assert.deepEqual(resourcesOf(world, 'c-c-0'), less);
  assert.deepEqual(resourcesOf(world, 'c-etcd-2'), more);
});

test('a pod is rolled when the operator has no right to change it in place', async () => {
  const world = await settledWorld(sized);
  world.kube.beforeWrite = (write) => {
    if (!write.startsWith('PATCH(resize)')) return;
    const message = 'pods "x" is forbidden: User "o" cannot patch resource "pods/resize"';
    throw new KubeError(403, 'Forbidden', message);
  };
  world.changeSpec((spec) => (spec.nodes.resources = more));
  await world.settle();
  assert.equal(written(world, /EVICT/).length, 3);
});

test('a pod that a quota keeps from its resources is not taken when it is not ready, and each is tried again', async () => {
  const world = await settledWorld(sized);
  let room: RegExp = /nobody/;
  world.kube.beforeWrite = (write) => {
    if (!write.startsWith('PATCH(resize)') || room.test(write)) return;
    throw new KubeError(403, 'Forbidden', 'exceeded quota: all');
  };
  world.changeSpec((spec) => {
    spec.etcd.resources = more;
    spec.nodes.resources = more;
  });
  const passes = async (count: number): Promise<void> => {
    for (let pass = 0; pass < count; pass++) {
      await world.reconcile().catch(() => {});
      await world.clock.pass(5_000);
      await world.advance();
    }
  };
  await passes(20);
  world.lagging.add('c-a-b-0');
  await passes(20);
  assert.deepEqual(written(world, /EVICT|DELETE/), []);
  assert.match(world.condition('Stalled').message, /exceeded quota: all; nor do 5 others/);
  world.lagging.delete('c-a-b-0');
  room = /Pod\/c-(a|a-b|c)-0/;
  await passes(60);
  assert.deepEqual(resourcesOf(world, 'c-c-0'), more);
  assert.deepEqual(resourcesOf(world, 'c-etcd-0'), small);
});
