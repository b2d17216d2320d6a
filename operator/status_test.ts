import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Condition } from './resource/kube_objects.ts';
import { conditionsOf, transitionsOf } from './status.ts';
import { settledWorld, specOf, World } from './world_testing.ts';

type Json = any;

const verdict = (status: Condition['status'], reason: string, message = 'm') => ({
  status,
  reason,
  message,
});

test('the transition time of a condition moves only when its status does', () => {
  const first = conditionsOf(new Map([['Ready', verdict('False', 'A')]]), [], 1, 't1');
  const second = conditionsOf(new Map([['Ready', verdict('False', 'B')]]), first, 2, 't2');
  const third = conditionsOf(new Map([['Ready', verdict('True', 'C')]]), second, 3, 't3');
  assert.deepEqual(
    [first, second, third].map(([one]) => [one!.lastTransitionTime, one!.observedGeneration]),
    [
      ['t1', 1],
      ['t1', 2],
      ['t3', 3],
    ],
  );
});

test('a message is no longer than the schema of a condition takes', () => {
  const message = Array.from({ length: 5_000 }, (_, at) => `metrics-zone-a-${at}`).join(', ');
  const [ready] = conditionsOf(new Map([['Ready', verdict('False', 'A', message)]]), [], 1, 't1');
  assert.equal(ready!.message.length, 4_000);
  assert.match(ready!.message, /…$/);
});

/** Every status that a cluster had in its life, and the object it stood in. */
async function statusesOfALife(): Promise<Json[]> {
  const world = new World();
  const statuses: Json[] = [];
  const passes = async (count: number) => {
    for (let pass = 0; pass < count; pass++) {
      await world.reconcile().catch(() => {});
      const { status, metadata } = structuredClone(world.cluster);
      statuses.push({ ...status, generation: metadata.generation });
      await world.clock.pass(11_000);
      await world.advance();
    }
  };
  world.addCluster(specOf());
  await passes(15);
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  await passes(20);
  world.broken.add('c-a-0');
  await passes(5);
  world.broken.clear();
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  await passes(20);
  world.coordinatorUp = false;
  await passes(3);
  world.coordinatorUp = true;
  world.changeSpec((spec) => (spec.paused = true));
  await passes(3);
  world.changeSpec((spec) => (spec.paused = false));
  await passes(3);
  return statuses;
}

test('Ready is true only when everything is, and then neither Reconciling nor Stalled is there', async () => {
  const statuses = await statusesOfALife();
  const phases = new Set<string>();
  for (const status of statuses) {
    const of = (type: string) => status.conditions.find((one: Json) => one.type === type);
    phases.add(status.phase);
    assert.equal(status.observedGeneration, status.generation);
    for (const { type, reason, message, lastTransitionTime } of status.conditions) {
      assert.match(reason, /^[A-Za-z]+$/, type);
      assert.equal(typeof message, 'string');
      assert.match(lastTransitionTime, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    }
    // What kstatus and Argo CD read: at most one of them, and only while true.
    for (const type of ['Reconciling', 'Stalled']) {
      assert.ok(of(type) === undefined || of(type).status === 'True');
    }
    if (of('Ready').status === 'True') {
      assert.equal(of('Reconciling'), undefined);
      assert.equal(of('Stalled'), undefined);
      assert.equal(of('PlacementStable').status, 'True');
      assert.equal(of('NamespacesReady').status, 'True');
      assert.ok(status.nodes.every((node: Json) => node.ready));
      const [available, all] = status.shards.split('/');
      assert.equal(available, all);
    } else assert.ok(of('Reconciling') ?? of('Stalled'), JSON.stringify(status.conditions));
  }
  assert.deepEqual([...phases].sort(), [
    'Creating',
    'Degraded',
    'Paused',
    'Reconciling',
    'Running',
    'Scaling',
    'Updating',
  ]);
});

test('a cluster whose pods are to be others is not Ready while that is only written', async () => {
  const world = await settledWorld();
  for (const change of [
    (spec: Json) => (spec.nodes.image = 'node:2'),
    (spec: Json) => (spec.nodes.resources = { requests: { cpu: '12m' } }),
    (spec: Json) => (spec.coordinator = { image: 'coordinator:2' }),
    (spec: Json) => (spec.etcd = { image: 'etcd:2' }),
  ]) {
    world.changeSpec(change);
    await world.reconcile();
    const { observedGeneration } = world.cluster.status;
    assert.equal(observedGeneration, world.cluster.metadata.generation);
    assert.equal(world.condition('Ready').status, 'False');
    await world.settle();
    assert.equal(world.condition('Ready').status, 'True');
  }
});

test('events tell each change once, and what is bad as a warning', () => {
  const cluster = (conditions: readonly Condition[]): Json => ({ status: { conditions } });
  const at = { lastTransitionTime: 't' };
  const ready = { type: 'Ready', ...verdict('True', 'AllNodesServe', 'all serve'), ...at };
  const degraded = { type: 'Ready', ...verdict('False', 'NodesNotReady', 'x is down'), ...at };
  assert.deepEqual(transitionsOf(cluster([ready]), { conditions: [ready] }), []);
  assert.deepEqual(transitionsOf(cluster([ready]), { conditions: [degraded] }), [
    { reason: 'NodesNotReady', message: 'x is down', type: 'Warning' },
  ]);
  const stalled = { type: 'Stalled', ...verdict('True', 'InvalidSpec', 'bad'), ...at };
  const unready = { type: 'Ready', ...verdict('False', 'InvalidSpec', 'bad'), ...at };
  assert.deepEqual(
    transitionsOf(cluster([ready]), { conditions: [unready, stalled] }),
    [{ reason: 'InvalidSpec', message: 'bad', type: 'Warning' }],
    'what two conditions say is told once',
  );
});

test('a pod that ends after its set became smaller is one that leaves', async () => {
  const world = await settledWorld();
  const conditions = [{ type: 'Ready', status: 'False' }];
  const pod = structuredClone(world.kube.find('Pod', 'c-a-0')) as Json;
  const ending = { ...pod, metadata: { ...pod.metadata, name: 'c-a-1' }, status: { conditions } };
  world.kube.store(ending);
  await world.reconcile();
  const { phase } = world.cluster.status;
  const { reason, message } = world.condition('Ready');
  assert.deepEqual([phase, reason, message], ['Scaling', 'ScalingDown', 'nodes leave: c-a-1']);
  world.kube.store({ ...pod, status: { ...pod.status, conditions } });
  await world.reconcile();
  assert.equal(world.condition('Ready').reason, 'NodesNotReady');
  assert.equal(world.cluster.status.phase, 'Degraded');
});

test('what waits for a person is seen in the columns, and Ready stays', async () => {
  const world = await settledWorld({ updatePolicy: 'Gated' });
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  await world.settle();
  assert.equal(world.cluster.status.phase, 'AwaitingApproval');
  const ready = world.condition('Ready');
  assert.equal(ready.status, 'True');
  assert.match(ready.message, /a change waits for its approval$/);
  world.kube.store({
    ...world.cluster,
    metadata: {
      ...world.cluster.metadata,
      annotations: { 'tsdb.io/approve': world.cluster.status.plan.hash },
    },
  });
  await world.settle();
  assert.equal(world.cluster.status.phase, 'Running');
});

/** Words of the columns that a change went through, without repetition, and the warnings of it. */
async function told(
  world: World,
  passes: number,
): Promise<{ words: string[]; warnings: string[] }> {
  const seen = new Set((world.kube.ofKind('Event') as Json[]).map(({ metadata }) => metadata.name));
  const words: string[] = [];
  for (let pass = 0; pass < passes; pass++) {
    await world.reconcile();
    // Once more, before what was done has had an effect.
    if (pass % 2 === 1) await world.advance();
    const { phase, shards } = world.cluster.status;
    const { reason, message } = world.condition('Ready');
    const word = `${phase} ${reason} ${shards}: ${message}`;
    if (words.at(-1) !== word) words.push(word);
  }
  const warnings = (world.kube.ofKind('Event') as Json[])
    .filter(({ metadata, type }) => type === 'Warning' && !seen.has(metadata.name))
    .map(({ message }) => message as string);
  return { words, warnings };
}

test('a planned roll is Updating to its end, and warns of nothing', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  const { words, warnings } = await told(world, 40);
  assert.deepEqual(warnings, []);
  const phases = new Set(words.map((word) => word.split(' ')[0]));
  assert.deepEqual(phases, new Set(['Updating', 'Running']), words.join('\n'));
  assert.ok(
    words.some((word) =>
      word.startsWith('Updating Updating 24/36: pods were replaced and start: c-a-0'),
    ),
    words.join('\n'),
  );
  assert.match(words.at(-1)!, /^Running AllNodesServe 36\/36: /);
});

test('a node that does not come back from a planned roll is a loss', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => (spec.nodes.image = 'node:2'));
  world.broken.add('c-a-0');
  const before = await told(world, 10);
  assert.match(before.words.at(-1)!, /^Updating .* start: c-a-0$/);
  await world.clock.pass(10 * 60_000);
  const { words } = await told(world, 3);
  assert.match(words.at(-1)!, /^Degraded NodesNotReady \d+\/36: nodes are not ready: c-a-0/);
});

test('who scales reads which nodes come and go, and which are next', async () => {
  const world = await settledWorld();
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  const up = await told(world, 60);
  assert.deepEqual(up.warnings, []);
  const isNext = (word: string): boolean =>
    word.endsWith(' shards move to c-a-1; then c-a-b-1, c-c-1 join');
  assert.ok(up.words.some(isNext), up.words.join('\n'));
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 1));
  const down = await told(world, 60);
  assert.deepEqual(down.warnings, []);
  assert.ok(down.words.some((word) => / shards move away from c-a-1; then .* leave$/.test(word)));
  for (const { words } of [up, down]) {
    const phases = new Set(words.map((word) => word.split(' ')[0]));
    // Updating while sets get back what they had before nodes were taken away.
    assert.ok(phases.isSubsetOf(new Set(['Running', 'Scaling', 'Updating'])), words.join('\n'));
  }
});

test('a cluster that has served before is never Creating, and shards of silent nodes do not count', async () => {
  const world = await settledWorld();
  world.broken.add('c-a-0');
  await world.advance();
  await world.reconcile();
  assert.equal(world.cluster.status.shards, '24/36');
  world.broken.clear();
  world.coordinatorUp = false;
  await world.reconcile();
  assert.equal(world.cluster.status.phase, 'Degraded');
  assert.equal(world.cluster.status.shards, '?/36');
});

test('an annotation that does nothing is told, with what would', async () => {
  const world = await settledWorld();
  world.annotate('tsdb.io/replace', 'true');
  world.annotate('tsdb.io/aprove', 'x');
  const pod = structuredClone(world.kube.find('Pod', 'c-a-0')) as Json;
  pod.metadata.annotations = { ...pod.metadata.annotations, 'tsdb.io/replace': 'yes' };
  world.kube.store(pod);
  const { warnings } = await told(world, 3);
  assert.deepEqual(warnings.sort(), [
    'Pod c-a-0: annotation tsdb.io/replace=yes does nothing: what it may be is true',
    'TSDBCluster c: annotation tsdb.io/aprove=x does nothing: there are tsdb.io/managed-by, tsdb.io/approve, tsdb.io/approve-placement, tsdb.io/restore-etcd, tsdb.io/finish-upgrade',
    'TSDBCluster c: annotation tsdb.io/replace=true does nothing: it is one of a Pod',
  ]);
});

test('new coordinators that do not start are told with their reasons, beside old ones that serve', async () => {
  const world = await settledWorld();
  const deployment = structuredClone(world.kube.find('Deployment', 'c-coordinator')) as Json;
  const { replicas } = deployment.spec;
  const state = { waiting: { reason: 'ImagePullBackOff' } };
  world.kube.store({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'c-coordinator-new',
      namespace: 'default',
      labels: { 'tsdb.io/cluster': 'c', 'tsdb.io/component': 'coordinator' },
    },
    spec: { containers: [] },
    status: { containerStatuses: [{ ready: false, restartCount: 0, image: 'nope:2', state }] },
  });
  deployment.status = { ...deployment.status, replicas: replicas + 1 };
  world.kube.store(deployment);
  await world.reconcile();
  const wanted = 'new coordinators do not start: the image nope:2 cannot be pulled';
  assert.equal(world.condition('Ready').message, wanted);
  const refused = { type: 'ReplicaFailure', status: 'True', message: 'exceeded quota: q' };
  deployment.status = { ...deployment.status, availableReplicas: 0, conditions: [refused] };
  world.kube.store(deployment);
  world.coordinatorUp = false;
  await world.reconcile();
  assert.match(
    world.condition('Ready').message,
    /0 of \d coordinators are ready: .*; exceeded quota/,
  );
});

test('a pod that its set does not count as its own any more is told, though it serves', async () => {
  const world = await settledWorld();
  const set = structuredClone(world.kube.find('StatefulSet', 'c-a')) as Json;
  set.status = { ...set.status, replicas: 0, readyReplicas: 0 };
  world.kube.store(set);
  await world.reconcile();
  assert.match(world.condition('Ready').message, /does not count all pods of c-a as theirs/);
  await world.advance();
  await world.reconcile();
  assert.equal(world.condition('Ready').status, 'True');
});
