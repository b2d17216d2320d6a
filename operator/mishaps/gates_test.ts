/** Who deletes a set, or the coordinators' Deployment, passes no approval, window or turn by that. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inputsCharactersMax, recordOf } from '../record/record.ts';
import type { KubeObject } from '../resource/kube_objects.ts';
import type { ClusterSpec } from '../resource/tsdb_cluster.ts';
import { settledWorld, specOf, type World } from '../world_testing.ts';
import { type Json, passes, writesLike } from './mishaps_testing.ts';

const workloads = [
  ['StatefulSet', 'c-a'],
  ['StatefulSet', 'c-etcd'],
  ['Deployment', 'c-coordinator'],
] as const;

const templateOf = (world: World, kind: string, name: string): Json =>
  world.kube.find(kind, name).spec.template.spec;
const imageOf = (world: World, kind: string, name: string): string =>
  templateOf(world, kind, name).containers[0].image;
const imagesOf = (world: World): string[] =>
  workloads.map(([kind, name]) => imageOf(world, kind, name));

/** Everything that pods are made from changes, also what they read. */
function newRelease(spec: Json): void {
  spec.nodes.image = 'node:2';
  spec.nodes.config = { repair: { throttle: '2m' } };
  spec.etcd = { image: 'etcd:2' };
  spec.coordinator = { image: 'coordinator:2', config: { query: { timeout: '40s' } } };
}

/** The pods of the set go with it when `alone` is false; whoever deletes a Deployment ends its pods. */
function remove(world: World, kind: string, name: string, alone: boolean): void {
  const pods = world.kube.ofKind('Pod').filter((pod) => !alone && isPodOf(pod, name));
  for (const object of [world.kube.find(kind, name), ...pods]) world.kube.remove(object);
}

const isPodOf = ({ metadata }: KubeObject, set: string): boolean =>
  metadata.name.replace(/-\d+$/, '') === set;

/** That what its pods read is there. */
function assertMounted(world: World): void {
  for (const [kind, name] of workloads) {
    for (const { configMap } of templateOf(world, kind, name).volumes ?? []) {
      if (configMap === undefined) continue;
      assert.notEqual(world.kube.find('ConfigMap', configMap.name), undefined, configMap.name);
    }
  }
}

for (const alone of [true, false]) {
  test(`what is deleted while a change waits for its approval comes back as it was, ${alone ? 'over its pods' : 'as its pods do'}`, async () => {
    const world = await settledWorld({ updatePolicy: 'Gated' });
    world.changeSpec(newRelease);
    await passes(world, 5);
    const { hash } = world.cluster.status.plan;
    for (const [kind, name] of workloads) remove(world, kind, name, alone);
    await passes(world, 20);
    assert.deepEqual(imagesOf(world), ['node:1', 'etcd:1', 'coordinator:1']);
    assertMounted(world);
    assert.equal(world.cluster.status.plan.hash, hash, 'it is asked for the same');
    assert.equal(world.condition('Ready').status, 'True', world.condition('Ready').message);
    world.annotate('tsdb.io/approve', hash);
    await world.settle();
    assert.deepEqual(imagesOf(world), ['node:2', 'etcd:2', 'coordinator:2']);
    assertMounted(world);
  });
}

test('so it does outside of the maintenance windows', async () => {
  const world = await settledWorld();
  const start = new Date(world.clock.nowMillis() + 7_200_000).toISOString().slice(11, 16);
  world.changeSpec((spec) => {
    newRelease(spec);
    spec.maintenanceWindows = [{ start, duration: '1h' }];
  });
  await passes(world, 5);
  for (const [kind, name] of workloads) remove(world, kind, name, false);
  await passes(world, 20);
  assert.deepEqual(imagesOf(world), ['node:1', 'etcd:1', 'coordinator:1']);
  assert.equal(world.condition('Reconciling').reason, 'OutsideMaintenanceWindow');
  await world.clock.pass(7_500_000);
  await world.settle();
  assert.deepEqual(imagesOf(world), ['node:2', 'etcd:2', 'coordinator:2']);
});

test('and while its cluster waits for its turn to be rolled to what a new operator makes', async () => {
  const world = await settledWorld();
  world.images = { ...world.images, node: 'node:2' };
  world.restartOperator();
  world.kube.remove(world.kube.find('StatefulSet', 'c-a'));
  await world.reconcile();
  assert.equal(imageOf(world, 'StatefulSet', 'c-a'), 'node:1');
  await world.settle();
  assert.equal(imageOf(world, 'StatefulSet', 'c-a'), 'node:2');
});

test('an isolation group that is new meanwhile is made like the others', async () => {
  const world = await settledWorld({ updatePolicy: 'Gated' });
  world.changeSpec((spec) => {
    newRelease(spec);
    spec.isolationGroups.push({ name: 'd', nodeAffinity: { zone: 'd' } });
  });
  await passes(world, 20);
  assert.equal(imageOf(world, 'StatefulSet', 'c-d'), 'node:1');
  assert.match(
    JSON.stringify(templateOf(world, 'StatefulSet', 'c-d').affinity),
    /"values":\["d"\]/,
  );
  assert.ok(world.instanceIds().includes('c-d-0'));
});

test('what waits for nothing comes back as it is asked for, and is asked of nobody once more', async () => {
  const world = await settledWorld({ updatePolicy: 'Gated' });
  for (const [kind, name] of workloads) remove(world, kind, name, false);
  await world.settle();
  assert.equal(world.cluster.status.plan, undefined);
  assert.equal(world.condition('Ready').status, 'True');
  // A slip that was taken back.
  world.changeSpec(newRelease);
  await passes(world, 3);
  world.changeSpec((spec) => Object.assign(spec, specOf(), { etcd: null, coordinator: null }));
  world.changeSpec((spec) => {
    delete spec.etcd;
    delete spec.coordinator;
  });
  world.kube.writes.length = 0;
  await world.settle();
  assert.deepEqual(writesLike(world, /Pod\/|(APPLY|PATCH) (StatefulSet|Deployment)/), []);
});

test('a cluster that was deleted and applied again is made from what it asks for now', async () => {
  const world = await settledWorld({ updatePolicy: 'Gated' });
  await world.deleteCluster();
  for (const pod of world.kube.ofKind('Pod')) world.kube.remove(pod);
  const spec = specOf({ updatePolicy: 'Gated' }) as Json;
  newRelease(spec);
  await world.loseEtcd();
  world.addCluster(spec as ClusterSpec);
  await passes(world, 5);
  assert.deepEqual(imagesOf(world), ['node:2', 'etcd:2', 'coordinator:2']);
  assert.equal(world.cluster.status.plan, undefined);
});

const inputsIn = (world: World): Json => {
  const record = recordOf(world.kube.find('ConfigMap', 'c-record')) as Json;
  return record.inputs;
};

test('what is written down for it is small, and nothing when the resource is not', async () => {
  const world = await settledWorld({ updatePolicy: 'Gated' });
  assert.deepEqual(
    inputsIn(world).map(({ components }: Json) => Object.keys(components).sort()),
    [['coordinator', 'etcd', 'node']],
    'once for all that is made from the same',
  );
  assert.ok(JSON.stringify(inputsIn(world)).length < 1_000);
  world.kube.writes.length = 0;
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  world.changeSpec((spec) => newRelease(spec));
  await passes(world, 3);
  assert.equal(inputsIn(world).length, 1, 'what no pod is made of changes nothing');
  const note = 'x'.repeat(inputsCharactersMax);
  world.changeSpec((spec) => {
    spec.updatePolicy = 'Automatic';
    spec.nodes.podTemplate = { metadata: { annotations: { 'prometheus.io/note': note } } };
  });
  await world.settle();
  assert.equal(inputsIn(world), undefined);
  assert.equal(world.condition('Ready').status, 'True', 'the rest of the record is written');
});
