/** What users lay over the pods that the operator makes, on a world of fakes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KubeError } from './kube/kube_api.ts';
import { specOf, World, settledWorld } from './world_testing.ts';

type Json = any;

const podSpec = (world: World, name: string): Json => world.kube.find('Pod', name).spec;

test('each component has a podTemplate of its own, and that of nodes goes over the older one', async () => {
  const template = (priorityClassName: string): Json => ({ spec: { priorityClassName } });
  const world = await settledWorld({
    podTemplate: { spec: { priorityClassName: 'old', schedulerName: 'mine' } },
    nodes: { replicasPerGroup: 1, podTemplate: template('nodes') },
    etcd: { podTemplate: template('etcd') },
    coordinator: {
      podTemplate: template('coordinators'),
      service: { annotations: { 'example.com/name': 'metrics' } },
    },
  });
  const { priorityClassName, schedulerName } = podSpec(world, 'c-a-0');
  assert.deepEqual([priorityClassName, schedulerName], ['nodes', 'mine']);
  assert.equal(podSpec(world, 'c-etcd-0').priorityClassName, 'etcd');
  const deployment = world.kube.find('Deployment', 'c-coordinator');
  assert.equal(deployment.spec.template.spec.priorityClassName, 'coordinators');
  const { annotations } = world.kube.find('Service', 'c-coordinator').metadata;
  assert.equal(annotations['example.com/name'], 'metrics');
  assert.equal(world.condition('Ready').status, 'True');
});

test('a podTemplate that is refused stalls its component alone, whose pods stay as they are', async () => {
  const world = await settledWorld();
  const before = podSpec(world, 'c-a-0');
  world.changeSpec((spec) => {
    spec.nodes.podTemplate = { spec: { serviceAccountName: 'admin' } };
    spec.nodes.replicasPerGroup = 2;
    spec.etcd = { image: 'etcd:2' };
  });
  await world.settle();
  const { reason, message } = world.condition('Stalled');
  assert.equal(reason, 'PodTemplateRefused');
  assert.match(message, /nodes\.podTemplate\.spec\.serviceAccountName needs the right serviceAcc/);
  assert.equal(world.condition('Ready').status, 'False');
  assert.deepEqual(podSpec(world, 'c-a-0'), before);
  assert.equal(podSpec(world, 'c-a-1').serviceAccountName, undefined, 'nodes come as they were');
  assert.equal(podSpec(world, 'c-etcd-0').containers[0].image, 'etcd:2', 'the others go on');
  world.changeSpec((spec) => {
    spec.nodes.podTemplate.spec = { priorityClassName: 'high' };
  });
  await world.settle();
  assert.equal(podSpec(world, 'c-a-0').priorityClassName, 'high');
  assert.equal(world.condition('Stalled'), undefined);
  assert.equal(world.condition('Ready').status, 'True');
});

test('a cluster that begins with what is refused says so, and begins when it is mended', async () => {
  const world = new World();
  world.addCluster(specOf({ nodes: { replicasPerGroup: 1, podTemplate: { spec: { x: 1 } } } }));
  for (let pass = 0; pass < 5; pass++) {
    await world.reconcile();
    await world.advance();
  }
  assert.equal(world.condition('Stalled').reason, 'PodTemplateRefused');
  assert.equal(world.kube.find('StatefulSet', 'c-a'), undefined);
  world.changeSpec((spec) => {
    spec.nodes.podTemplate = undefined;
  });
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
});

test('a changed setting replaces each node once; the old ConfigMap goes with its last pod', async () => {
  const world = await settledWorld();
  const configs = (): string[] =>
    world.kube.ofKind('ConfigMap').flatMap(({ metadata }) => {
      return metadata.name.startsWith('c-node-') ? [metadata.name] : [];
    });
  const [before] = configs();
  world.changeSpec((spec) => {
    spec.nodes.config = { commitlog: { sync: 'interval' } };
  });
  await world.reconcile();
  assert.equal(configs().length, 2, 'nodes that run keep theirs');
  await world.settle();
  const evicted = world.kube.writes.filter((write) => write.startsWith('EVICT'));
  assert.equal(evicted.length, 3);
  assert.equal(configs().length, 1);
  assert.notEqual(configs()[0], before);
  assert.equal(world.condition('Ready').status, 'True');
});

test('a setting that the process would not take reaches no pod, and the status has its words', async () => {
  const world = await settledWorld();
  const objects = JSON.stringify(world.kube.ofKind('ConfigMap'));
  world.changeSpec((spec) => {
    spec.coordinator = { config: { query: { timeout: 'soon' } } };
  });
  await world.settle();
  const { reason, message } = world.condition('Stalled');
  assert.equal(reason, 'ConfigRefused');
  assert.match(message, /^coordinator\.config\.query\.timeout: not a duration/);
  assert.equal(JSON.stringify(world.kube.ofKind('ConfigMap')), objects);
  assert.equal(world.condition('Available').status, 'True');
});

for (const [what, hold] of [
  [
    'refused',
    (spec: Json): void => {
      spec.nodes.podTemplate = { spec: { hostNetwork: true } };
    },
  ],
  [
    'not approved',
    (spec: Json): void => {
      spec.updatePolicy = 'Gated';
      spec.nodes.image = 'node:2';
    },
  ],
] as const) {
  test(`a set whose template is ${what} keeps the volumes of pods that somebody takes away`, async () => {
    const world = await settledWorld({ nodes: { replicasPerGroup: 2 } });
    world.changeSpec(hold);
    await world.settle();
    world.changeSpec((spec) => {
      spec.nodes.replicasPerGroup = 1;
    });
    await world.settle();
    assert.equal(world.kube.find('PersistentVolumeClaim', 'data-c-a-1'), undefined);
    const set = structuredClone(world.kube.find('StatefulSet', 'c-a'));
    assert.equal(set.spec.persistentVolumeClaimRetentionPolicy.whenScaled, 'Retain');
    set.spec.replicas = 0;
    world.kube.store(set);
    await world.advance();
    assert.notEqual(world.kube.find('PersistentVolumeClaim', 'data-c-a-0'), undefined);
  });
}

const tls = { serverSecret: 'server-tls', clientSecret: 'client-tls' };

function storeSecret(world: World, name: string): void {
  const data = { 'ca.crt': 'YQ==', 'tls.crt': 'Yg==', 'tls.key': 'Yw==' };
  const metadata = { name, namespace: 'default' };
  world.kube.store({ apiVersion: 'v1', kind: 'Secret', metadata, data });
}

test('members of an etcd with TLS are addressed by https; a Secret that is missing is named', async () => {
  const world = new World();
  world.addCluster(specOf({ etcd: { tls } }));
  storeSecret(world, 'client-tls');
  await world.reconcile();
  const { data } = world.kube.find('ConfigMap', 'c-etcd-members');
  assert.match(data.ETCD_INITIAL_CLUSTER, /^c-etcd-0=https:/);
  for (let pass = 0; pass < 30; pass++) {
    await world.advance();
    await world.reconcile();
    await world.clock.pass(2_000);
  }
  const { status, reason, message } = world.condition('Ready');
  assert.deepEqual([status, reason], ['False', 'SecretMissing']);
  assert.equal(message, 'Secret server-tls (etcd.tls.serverSecret) is not there');
  assert.equal(world.condition('Stalled'), undefined, 'whoever makes it may only be slow');
  storeSecret(world, 'server-tls');
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
  assert.match(JSON.stringify(podSpec(world, 'c-a-0').volumes), /client-tls/);
  assert.match(JSON.stringify(podSpec(world, 'c-etcd-0').volumes), /server-tls/);
});

test('while etcd does not start, it is the Secret that it lacks that is named', async () => {
  const world = new World();
  world.addCluster(specOf({ etcd: { tls } }));
  storeSecret(world, 'client-tls');
  // Nothing around the operator moves: the members wait for their Secret.
  for (let pass = 0; pass < 3; pass++) await world.reconcile();
  assert.equal(world.condition('Ready').reason, 'SecretMissing');
  assert.equal(world.condition('EtcdReady').status, 'False');
});

test('an operator that may not read the Secret says what lets it', async () => {
  const world = new World();
  const get = world.kube.get.bind(world.kube);
  world.kube.get = (resource, namespace, name) => {
    if (resource.kind === 'Secret') throw new KubeError(403, 'Forbidden', 'secrets is forbidden');
    return get(resource, namespace, name);
  };
  world.addCluster(specOf({ etcd: { tls } }));
  await world.reconcile();
  const { reason, message } = world.condition('Stalled');
  assert.equal(reason, 'SecretForbidden');
  assert.match(message, /client-tls.*operator\.readSecrets/);
});

test('the Secret of an external etcd is named when the operator may look, and else not waited for', async () => {
  const external = { endpoints: ['https://etcd:2379'], tlsSecret: 'lost' };
  const world = new World();
  world.addCluster(specOf({ etcd: { external } }));
  for (let pass = 0; pass < 20; pass++) {
    await world.reconcile();
    await world.advance();
  }
  assert.match(world.condition('Ready').message, /Secret lost \(etcd\.external\.tlsSecret\)/);
  const get = world.kube.get.bind(world.kube);
  world.kube.get = (resource, namespace, name) => {
    if (resource.kind === 'Secret') throw new KubeError(403, 'Forbidden', 'secrets is forbidden');
    return get(resource, namespace, name);
  };
  await world.settle();
  assert.equal(world.condition('Ready').status, 'True');
});

const slips: Readonly<Record<string, readonly [object, RegExp]>> = {
  'terms that are no list': [
    { nodeSelectorTerms: { matchExpressions: [] } },
    /nodeSelectorTerms is no list/,
  ],
  'a term that is nothing': [{ nodeSelectorTerms: [null] }, /nodeSelectorTerms\[0\] is no object/],
  'an expression without its dash': [
    { nodeSelectorTerms: [{ matchExpressions: { key: 'a' } }] },
    /matchExpressions is no list/,
  ],
};
for (const [what, [required, text]] of Object.entries(slips)) {
  test(`a slip in an affinity is said, and the rest goes on: ${what}`, async () => {
    const world = await settledWorld({
      isolationGroups: ['a', 'a-b', 'c'].map((name) => ({ name, nodeAffinity: { zone: name } })),
    });
    const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: required };
    world.changeSpec((spec) => {
      spec.nodes.podTemplate = { spec: { affinity: { nodeAffinity } } };
      spec.namespaces.push({ name: 'more', retentionTime: '48h' });
    });
    await world.settle();
    assert.equal(world.condition('Stalled').reason, 'PodTemplateRefused');
    assert.match(world.condition('Stalled').message, text);
    assert.ok(world.calls.includes('namespace add more'));
  });
}

const nothings: readonly object[] = [
  { tolerations: null, hostAliases: null, readinessGates: null },
  { topologySpreadConstraints: null },
  { affinity: null },
  { affinity: { nodeAffinity: null } },
  { affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: null } } },
];
for (const spec of nothings) {
  test(`null is no value, as tools write it: ${JSON.stringify(spec)}`, async () => {
    const world = await settledWorld({
      isolationGroups: ['a', 'a-b', 'c'].map((name) => ({ name, nodeAffinity: { zone: name } })),
      podTemplate: { spec },
    });
    assert.equal(world.condition('Stalled'), undefined);
    assert.equal(world.condition('Ready').status, 'True');
  });
}
