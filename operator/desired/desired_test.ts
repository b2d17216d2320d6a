import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from '#test/property_testing.ts';
import { parseConfig } from '#lib/config/config.ts';
import type { ClusterSpec, TsdbCluster } from '../resource/tsdb_cluster.ts';
import type { KubeObject } from '../resource/kube_objects.ts';
import { blueprintOf, desiredOf } from './desired.ts';
import { contains, overlay } from '../resource/merge.ts';
import { Names } from '../resource/names.ts';
import { quantityOf } from './quantity.ts';

type Json = any;

const images = {
  node: 'node:1',
  coordinator: 'coordinator:1',
  aggregator: 'aggregator:1',
  etcd: 'etcd:1',
  operator: 'operator:1',
};

function clusterOf(over: Partial<ClusterSpec> = {}, name = 'metrics'): TsdbCluster {
  return {
    apiVersion: 'tsdb.io/v1alpha1',
    kind: 'TSDBCluster',
    metadata: { name, namespace: 'monitoring', uid: 'u1', generation: 1 },
    spec: {
      replicationFactor: 3,
      numberOfShards: 64,
      nodes: { replicasPerGroup: 2 },
      isolationGroups: [{ name: 'a' }, { name: 'b' }, { name: 'c' }],
      ...over,
    },
  };
}

function objectsOf(cluster: TsdbCluster): KubeObject[] {
  const coordinator = { reachable: false, problem: '' } as const;
  const nothing = {
    cluster,
    claims: [],
    statefulSets: new Map(),
    deployments: new Map(),
    pods: [],
    coordinator,
    record: null,
    aggregators: null,
    children: new Map(),
    volumeClaims: [],
    etcd:
      cluster.spec.etcd?.external === undefined
        ? ({ reachable: false, problem: '' } as const)
        : null,
  };
  return [...desiredOf(blueprintOf(cluster, images, 'tsdb-system'), nothing).objects];
}

const find = (objects: readonly KubeObject[], kind: string, name: string | RegExp): Json =>
  objects.find(
    (object) =>
      object.kind === kind &&
      (typeof name === 'string' ? object.metadata.name === name : name.test(object.metadata.name)),
  );

const podsOf = (objects: readonly KubeObject[]): Json[] =>
  objects
    .filter(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment')
    .map((object: Json) => object.spec.template.spec);

/**
 * The configuration that a process of this role reads from its ConfigMap, as the process parses it.
 */
function configOf(objects: readonly KubeObject[], role: 'node' | 'coordinator') {
  const map = find(objects, 'ConfigMap', new RegExp(`^metrics-${role}-`));
  const kind = role === 'node' ? 'StatefulSet' : 'Deployment';
  const [container] = find(objects, kind, /^metrics-(a|coordinator)$/).spec.template.spec
    .containers;
  const files = (container.args as string[])
    .filter((argument) => argument !== '-f')
    .map((path) => ({ path, text: map.data[path.replace('/etc/tsdb/', '')] as string }));
  return parseConfig(files, role, {
    POD_NAME: 'metrics-a-1',
    POD_IP: '10.0.0.7',
    TSDB_LISTEN_HOST: '0.0.0.0',
  });
}

const external = { endpoints: ['https://etcd-0:2379', 'https://etcd-1:2379'] };
/** As many as there may ever be: who reads them does not change with members that come and go. */
const members = [0, 1, 2, 3, 4].map(
  (member) => `metrics-etcd-${member}.metrics-etcd.monitoring.svc:2379`,
);

for (const [what, etcd, endpoints, tls] of [
  ['a managed etcd', undefined, members, false],
  ['one member', { replicas: 1 }, members, false],
  ['an external etcd', { external }, external.endpoints, false],
  [
    'an external etcd with TLS',
    { external: { ...external, tlsSecret: 's' } },
    external.endpoints,
    true,
  ],
] as const) {
  test(`nodes and coordinators accept the configuration that is made for ${what}`, () => {
    const objects = objectsOf(clusterOf(etcd === undefined ? {} : { etcd }));
    const node = configOf(objects, 'node');
    const coordinator = configOf(objects, 'coordinator');
    assert.deepEqual([node.notes, coordinator.notes], [[], []], 'nothing is without effect');
    assert.equal(node.coordinator, null);
    assert.equal(coordinator.db, null);
    for (const discovery of [node.db!.discovery, coordinator.coordinator!.discovery] as Json[]) {
      assert.equal(discovery.type, 'tsdb_cluster');
      assert.equal(discovery.env, 'monitoring_metrics');
      assert.equal(discovery.zone, 'embedded');
      assert.deepEqual(discovery.endpoints, endpoints);
      assert.equal((discovery.tls ?? null) !== null, tls);
    }
    const mounted = podsOf(objects)
      .filter(({ containers }) => containers[0].name !== 'etcd')
      .map(({ containers }) => containers[0].volumeMounts.map((mount: Json) => mount.mountPath));
    for (const paths of mounted) assert.equal(paths.includes('/etc/tsdb-etcd-tls'), tls);
  });
}

test('settings of the resource reach the processes, and change nothing of what the operator sets', () => {
  const objects = objectsOf(
    clusterOf({
      nodes: {
        replicasPerGroup: 1,
        config: { commitlog: { sync: 'interval' }, filesystem: {}, metrics: { prometheus: {} } },
      },
      coordinator: { config: { query: { timeout: '7s' } } },
    }),
  );
  const plain = objectsOf(clusterOf());
  const { db } = configOf(objects, 'node');
  assert.equal(db!.commitlog.sync, 'interval');
  const { commitlog: _, ...others } = db!;
  const { commitlog: __, ...plainOthers } = configOf(plain, 'node').db!;
  assert.deepEqual(others, plainOthers);
  const { coordinator } = configOf(objects, 'coordinator');
  assert.equal(coordinator!.queryTimeoutMillis, 7_000);
});

test('aggregators make IDs as coordinators do, and take the names that these take', () => {
  const tagOptionsOf = (tagOptions: Json): Json => {
    const coordinator = { config: { tagOptions } };
    const map = find(
      objectsOf(clusterOf({ coordinator, aggregator: {} })),
      'ConfigMap',
      /^metrics-aggregator-/,
    );
    const [text] = Object.values(map.data as Record<string, string>);
    const { aggregator } = parseConfig([{ path: 'a.yml', text: text! }], 'aggregator', {
      POD_NAME: 'a-0',
      TSDB_LISTEN_HOST: '0.0.0.0',
    });
    return [aggregator!.idScheme, aggregator!.nameValidation];
  };
  assert.deepEqual(tagOptionsOf({}), ['quoted', 'legacy']);
  assert.deepEqual(tagOptionsOf({ idScheme: 'prepend_meta' }), ['prepend_meta', 'legacy']);
  assert.deepEqual(tagOptionsOf({ nameValidation: 'utf8' }), ['quoted', 'utf8']);
});

test('coordinators listen for Carbon, statsd, OpenTSDB and OTLP when the resource has their settings', () => {
  const config = {
    carbon: { ingester: { udpEnabled: true } },
    statsd: { ingester: { tcpEnabled: false, flushInterval: '5s' } },
    opentsdb: { ingester: {} },
    otlp: {},
  };
  const objects = objectsOf(clusterOf({ coordinator: { config } }));
  const { carbon, statsd, opentsdb, otlp } = configOf(objects, 'coordinator').coordinator!;
  assert.deepEqual(carbon!.listenAddress, { host: '0.0.0.0', port: 7204 });
  assert.deepEqual(carbon!.pickleListenAddress, { host: '0.0.0.0', port: 7214 });
  assert.deepEqual(statsd!.listenAddress, { host: '0.0.0.0', port: 8125 });
  assert.equal(statsd!.flushIntervalMillis, 5_000);
  assert.deepEqual(statsd!.sharing, {
    listenAddress: { host: '0.0.0.0', port: 8127 },
    advertiseAddress: { host: '10.0.0.7', port: 8127 },
  });
  assert.deepEqual(opentsdb!.listenAddress, { host: '0.0.0.0', port: 4242 });
  assert.deepEqual(otlp.grpcListenAddress, { host: '0.0.0.0', port: 4317 });
  const lines = [
    'carbon 7204 TCP',
    'carbon-pickle 7214 TCP',
    'carbon-udp 7204 UDP',
    'statsd 8125 UDP',
    'opentsdb 4242 TCP',
    'otlp-grpc 4317 TCP',
  ];
  const { ports } = find(objects, 'Service', 'metrics-coordinator').spec;
  const named = ({ name, port, targetPort, containerPort, protocol }: Json): string => {
    assert.equal(targetPort, port);
    return `${name} ${port ?? containerPort} ${protocol}`;
  };
  assert.deepEqual(ports.slice(2).map(named), lines);
  const deployment = find(objects, 'Deployment', 'metrics-coordinator');
  const [container] = deployment.spec.template.spec.containers;
  assert.deepEqual(container.ports.slice(2).map(named), [...lines, 'statsd-sharing 8127 TCP']);
  assert.deepEqual(container.env[1].valueFrom.fieldRef.fieldPath, 'status.podIP');
  const [all, others] = find(objects, 'NetworkPolicy', 'metrics-coordinator').spec.ingress;
  assert.deepEqual(
    all.ports.slice(2),
    ports.slice(2).map(({ port, protocol }: Json) => ({ port, protocol })),
  );
  assert.deepEqual(others.ports, [{ port: 8127, protocol: 'TCP' }]);
  const { matchLabels } = deployment.spec.selector;
  assert.deepEqual(others.from, [{ podSelector: { matchLabels } }]);
});

test('processes listen where their Services and probes look for them', () => {
  const objects = objectsOf(clusterOf());
  const { db } = configOf(objects, 'node');
  const { coordinator } = configOf(objects, 'coordinator');
  const portOf = ({ port, host }: { readonly port: number; readonly host: string }) => {
    assert.equal(host, '0.0.0.0');
    return port;
  };
  const serviceOf = (name: string): Json =>
    Object.fromEntries(
      find(objects, 'Service', name).spec.ports.map((port: Json) => [port.name, port.targetPort]),
    );
  assert.deepEqual(serviceOf('metrics-nodes'), {
    grpc: portOf(db!.listenAddress),
    'grpc-cluster': portOf(db!.clusterListenAddress),
    'http-node': portOf(db!.httpNodeListenAddress),
    'http-cluster': portOf(db!.httpClusterListenAddress),
    metrics: portOf(db!.metricsListenAddress!),
  });
  assert.deepEqual(serviceOf('metrics-coordinator'), {
    http: portOf(coordinator!.listenAddress),
    metrics: portOf(coordinator!.metricsListenAddress),
  });
  const [container] = find(objects, 'StatefulSet', 'metrics-a').spec.template.spec.containers;
  assert.equal(container.readinessProbe.httpGet.port, portOf(db!.httpNodeListenAddress));
  const data = container.volumeMounts.find(({ name }: Json) => name === 'data');
  assert.equal(data.mountPath, db!.dataDirectory);
});

test('every pod runs under the restricted standard: no root, no writable root, no token', () => {
  for (const spec of podsOf(objectsOf(clusterOf()))) {
    assert.equal(spec.securityContext.runAsNonRoot, true);
    assert.equal(spec.securityContext.seccompProfile.type, 'RuntimeDefault');
    assert.equal(spec.automountServiceAccountToken, false);
    for (const { securityContext } of spec.containers) {
      assert.equal(securityContext.readOnlyRootFilesystem, true);
      assert.equal(securityContext.allowPrivilegeEscalation, false);
      assert.deepEqual(securityContext.capabilities, { drop: ['ALL'] });
    }
  }
});

test('every object goes with the cluster, and is found by its label', () => {
  for (const { metadata, kind } of objectsOf(clusterOf())) {
    const what = `${kind}/${metadata.name}`;
    assert.equal(metadata.namespace, 'monitoring', what);
    assert.equal(metadata.ownerReferences?.[0]?.uid, 'u1', what);
    assert.equal(metadata.labels?.['tsdb.io/cluster'], 'metrics', what);
  }
});

test('the longest names that the schema lets through are names for Kubernetes', () => {
  const longest = clusterOf(
    { isolationGroups: [{ name: 'g'.repeat(20) }], replicationFactor: 1 },
    'c'.repeat(30),
  );
  const revisionHashLength = 11;
  for (const { metadata, kind } of objectsOf(longest)) {
    const rest = kind === 'StatefulSet' ? revisionHashLength : 0;
    assert.ok(metadata.name.length + rest <= 63, `${kind}/${metadata.name}`);
    for (const value of Object.values(metadata.labels ?? {})) assert.ok(value.length <= 63, value);
  }
});

test('a changed configuration is a new ConfigMap, so that pods roll and old ones keep theirs', () => {
  const nameOf = (cluster: TsdbCluster) =>
    find(objectsOf(cluster), 'ConfigMap', /^metrics-node-/).metadata.name;
  const before = nameOf(clusterOf());
  assert.equal(nameOf(clusterOf()), before);
  assert.equal(
    nameOf(clusterOf({ nodes: { replicasPerGroup: 3 } })),
    before,
    'scaling rolls nothing',
  );
  assert.equal(nameOf(clusterOf({ etcd: { replicas: 5 } })), before, 'members come and go');
  assert.notEqual(nameOf(clusterOf({ etcd: { external } })), before);
  const mounted = find(objectsOf(clusterOf()), 'StatefulSet', 'metrics-a').spec.template.spec
    .volumes;
  assert.equal(mounted[0].configMap.name, before);
});

test('members of etcd must be in several zones when the groups say by which label', () => {
  const spreadOf = (over: Partial<ClusterSpec>, kind = 'StatefulSet', name = 'metrics-etcd') =>
    find(objectsOf(clusterOf(over)), kind, name).spec.template.spec.topologySpreadConstraints.map(
      ({ topologyKey, whenUnsatisfiable }: Json) => [topologyKey, whenUnsatisfiable],
    );
  const zones = ['a', 'b', 'c'].map((name) => ({
    name,
    nodeAffinity: { 'example.com/rack': name },
  }));
  assert.deepEqual(spreadOf({}), [['topology.kubernetes.io/zone', 'ScheduleAnyway']]);
  assert.deepEqual(spreadOf({ isolationGroups: zones }), [['example.com/rack', 'DoNotSchedule']]);
  const one = [zones[0]!, { name: 'b' }, zones[2]!];
  assert.deepEqual(spreadOf({ isolationGroups: one }), [
    ['topology.kubernetes.io/zone', 'ScheduleAnyway'],
  ]);
  const pool = { 'example.com/node-pool': 'tsdb' };
  const pooled = zones.map(({ name, nodeAffinity }) => ({
    name,
    nodeAffinity: { ...pool, ...nodeAffinity },
  }));
  assert.deepEqual(
    spreadOf({ isolationGroups: pooled }),
    [['example.com/rack', 'DoNotSchedule']],
    'all machines of a pool are one place',
  );
  assert.deepEqual(
    spreadOf({ isolationGroups: zones.map(({ name }) => ({ name, nodeAffinity: pool })) }),
    [['topology.kubernetes.io/zone', 'ScheduleAnyway']],
  );
  const shy = zones.map(({ name }, at) => ({
    name,
    nodeAffinity: at === 0 ? { constructor: name } : {},
  }));
  assert.deepEqual(
    spreadOf({ isolationGroups: shy }),
    [['topology.kubernetes.io/zone', 'ScheduleAnyway']],
    'only one group has that label',
  );
  const racks = pooled.map(({ name, nodeAffinity }) => ({
    name,
    nodeAffinity: { ...nodeAffinity, 'topology.kubernetes.io/zone': name },
  }));
  assert.deepEqual(spreadOf({ isolationGroups: racks }), [
    ['topology.kubernetes.io/zone', 'DoNotSchedule'],
  ]);
  const coordinators = spreadOf({ isolationGroups: zones }, 'Deployment', 'metrics-coordinator');
  assert.deepEqual(coordinators, [['topology.kubernetes.io/zone', 'ScheduleAnyway']]);
});

test('one pod at a time may be evicted, of nodes, etcd members and coordinators', () => {
  const budgets = (cluster: TsdbCluster) =>
    objectsOf(cluster)
      .filter(({ kind }) => kind === 'PodDisruptionBudget')
      .map(({ metadata, spec }: Json) => `${metadata.name} ${spec.maxUnavailable}`)
      .sort();
  assert.deepEqual(budgets(clusterOf()), [
    'metrics-coordinator 1',
    'metrics-etcd 1',
    'metrics-nodes 1',
  ]);
  const single = clusterOf({ etcd: { replicas: 1 }, coordinator: { replicas: 1 } });
  // One that allows one away bars no drain, and etcd may have had more members.
  assert.deepEqual(budgets(single), ['metrics-etcd 1', 'metrics-nodes 1']);
});

test('what is refused of the podTemplate of etcd is not laid over the pods of its snapshots', () => {
  const podTemplate = { spec: { priorityClassName: 'system-node-critical' } };
  const cluster = clusterOf({ etcd: { podTemplate, snapshots: { schedule: '* * * * *' } } });
  const { objects, refusals } = blueprintOf(cluster, images, 'tsdb-system');
  assert.deepEqual(
    refusals.map(({ component }) => component),
    ['etcd'],
  );
  const cron = find(objects, 'CronJob', 'metrics-etcd-snapshots');
  assert.equal(cron.spec.jobTemplate.spec.template.spec.priorityClassName, undefined);
});

test('the pod template is laid over ours, containers and variables by their names', () => {
  const podTemplate = {
    metadata: { annotations: { 'prometheus.io/scrape': 'true' } },
    spec: {
      priorityClassName: 'high',
      containers: [{ name: 'node', env: [{ name: 'EXTRA', value: '1' }] }, { name: 'sidecar' }],
    },
  };
  const set = find(objectsOf(clusterOf({ podTemplate })), 'StatefulSet', 'metrics-a');
  const { metadata, spec } = set.spec.template;
  assert.equal(metadata.annotations['prometheus.io/scrape'], 'true');
  assert.equal(metadata.labels['tsdb.io/cluster'], 'metrics');
  assert.equal(spec.priorityClassName, 'high');
  assert.deepEqual(
    spec.containers.map(({ name }: Json) => name),
    ['node', 'sidecar'],
  );
  assert.deepEqual(
    spec.containers[0].env.map(({ name }: Json) => name),
    ['POD_NAME', 'TSDB_LISTEN_HOST', 'EXTRA'],
  );
  assert.equal(spec.containers[0].image, 'node:1');
});

test('a group gets its affinity and storage class, and images of the resource win', () => {
  const group = { name: 'a', nodeAffinity: { zone: 'z1' }, storageClassName: 'slow' };
  const cluster = clusterOf({
    isolationGroups: [group, { name: 'b' }, { name: 'c' }],
    nodes: { replicasPerGroup: 1, image: 'mine:2', storage: { className: 'disk', size: '5Gi' } },
    coordinator: { replicas: 3, image: 'co:2' },
  });
  const objects = objectsOf(cluster);
  const a = find(objects, 'StatefulSet', 'metrics-a').spec;
  const terms =
    a.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution;
  assert.deepEqual(terms.nodeSelectorTerms[0].matchExpressions, [
    { key: 'zone', operator: 'In', values: ['z1'] },
  ]);
  const classOf = (spec: Json) => spec.volumeClaimTemplates[0].spec.storageClassName;
  assert.equal(classOf(a), 'slow');
  const b = find(objects, 'StatefulSet', 'metrics-b').spec;
  assert.equal(classOf(b), 'disk');
  assert.equal(b.template.spec.affinity.nodeAffinity, undefined);
  assert.equal(b.template.spec.containers[0].image, 'mine:2');
  const coordinator = find(objects, 'Deployment', 'metrics-coordinator').spec;
  assert.deepEqual(
    [coordinator.replicas, coordinator.template.spec.containers[0].image],
    [3, 'co:2'],
  );
});

test('an affinity that is laid over ours keeps nodes in the zone of their group', () => {
  const group = { name: 'a', nodeAffinity: { zone: 'z1' } };
  const term = (key: string) => ({ matchExpressions: [{ key, operator: 'Exists' }] });
  const nodeAffinity = {
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [term('x'), term('y')] },
  };
  const cluster = clusterOf({
    isolationGroups: [group, { name: 'b' }, { name: 'c' }],
    nodes: { replicasPerGroup: 1, podTemplate: { spec: { affinity: { nodeAffinity } } } },
  });
  const { affinity } = find(objectsOf(cluster), 'StatefulSet', 'metrics-a').spec.template.spec;
  const terms =
    affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms;
  const keys = terms.map((one: Json) => one.matchExpressions.map(({ key }: Json) => key));
  assert.deepEqual(keys, [
    ['zone', 'x'],
    ['zone', 'y'],
  ]);
  assert.ok(affinity.podAntiAffinity, 'what it does not name stays');
});

test('containers beside ours have no more privileges than ours', () => {
  const podTemplate = {
    spec: { containers: [{ name: 'sidecar', securityContext: { runAsUser: 1 } }] },
  };
  const cluster = clusterOf({ coordinator: { podTemplate } });
  const { spec } = find(objectsOf(cluster), 'Deployment', 'metrics-coordinator').spec.template;
  assert.deepEqual(spec.containers[1].securityContext, {
    allowPrivilegeEscalation: false,
    capabilities: { drop: ['ALL'] },
    runAsUser: 1,
  });
});

test('a process is dead that has not answered for five minutes, or for an hour after its start', () => {
  for (const { containers } of podsOf(objectsOf(clusterOf()))) {
    const { livenessProbe, startupProbe, readinessProbe, ports } = containers[0];
    const secondsOf = (probe: Json): number => probe.periodSeconds * probe.failureThreshold;
    assert.equal(secondsOf(livenessProbe), 300);
    assert.equal(secondsOf(startupProbe), 3600);
    for (const { httpGet } of [livenessProbe, startupProbe, readinessProbe]) {
      assert.ok(ports.some(({ containerPort }: Json) => containerPort === httpGet.port));
    }
  }
});

test('a coordinator leaves its endpoints first, and then has time for its longest query', () => {
  const specFor = (coordinator: Json): Json =>
    find(objectsOf(clusterOf({ coordinator })), 'Deployment', 'metrics-coordinator').spec.template
      .spec;
  const { containers, terminationGracePeriodSeconds } = specFor({});
  const { seconds } = containers[0].lifecycle.preStop.sleep;
  assert.ok(terminationGracePeriodSeconds >= seconds + 30);
  const patient = specFor({ config: { query: { timeout: '5m' } } });
  assert.ok(patient.terminationGracePeriodSeconds >= seconds + 300);
});

test('snapshots of an etcd with TLS are taken with its certificate, where members run', () => {
  const etcd = {
    snapshots: {},
    tls: { serverSecret: 'server', clientSecret: 'client' },
    podTemplate: { spec: { tolerations: [{ key: 'x' }], imagePullSecrets: [{ name: 'p' }] } },
  };
  const { spec } = find(objectsOf(clusterOf({ etcd })), 'CronJob', 'metrics-etcd-snapshots').spec
    .jobTemplate.spec.template;
  const [save] = spec.initContainers;
  assert.ok(save.args.includes('--endpoints=https://metrics-etcd.monitoring.svc:2379'));
  const folder = save.volumeMounts.find(({ name }: Json) => name === 'etcd-tls').mountPath;
  for (const file of ['cacert', 'cert', 'key']) {
    assert.ok(
      save.args.some((one: string) => one.startsWith(`--${file}=${folder}/`)),
      file,
    );
  }
  const { secret } = spec.volumes.find(({ name }: Json) => name === 'etcd-tls');
  assert.equal(secret.secretName, 'client');
  assert.deepEqual(
    secret.items.map(({ key }: Json) => key),
    ['ca.crt', 'tls.crt', 'tls.key'],
    'nothing else of the Secret',
  );
  assert.deepEqual(spec.tolerations, [{ key: 'x' }]);
  assert.deepEqual(spec.imagePullSecrets, [{ name: 'p' }]);
});

test('a pod belongs to its own group, whatever the names of the groups begin with', () => {
  const names = new Names(clusterOf());
  assert.equal(names.ordinalIn('a', 'metrics-a-7'), 7);
  for (const id of ['metrics-a-b-7', 'metrics-a-07', 'metrics-a-', 'other-a-1', 'metrics-ab-1']) {
    assert.equal(names.ordinalIn('a', id), null, id);
  }
});

test('what was laid over an object is contained in the result', () => {
  const json = fc.jsonValue({ maxDepth: 3 }).map((value) => value as Json);
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), json),
      fc.dictionary(fc.string(), json),
      (base, over) => {
        const isNamed = (value: Json): boolean => JSON.stringify(value).includes('"name"');
        fc.pre(!isNamed(base) && !isNamed(over));
        assert.ok(contains(overlay(base, over), over));
      },
    ),
  );
});

test('keys that objects inherit are keys like any other', () => {
  const over = JSON.parse('{"__proto__": "a", "constructor": {"b": 1}}') as Json;
  const merged = overlay({ kept: true }, over);
  assert.equal(JSON.stringify(merged), '{"kept":true,"__proto__":"a","constructor":{"b":1}}');
  assert.ok(contains(merged, over));
  assert.ok(!contains({}, over));
});

test('named things are merged by name, the first of two, and many of them at once', () => {
  const [a, b] = [{ name: 'a', value: '1' }, { name: 'b' }];
  const merged = overlay(
    [a, b, { name: 'a' }],
    [{ name: 'c' }, { name: 'a', x: 2 }, { name: 'c', y: 3 }],
  );
  assert.deepEqual(merged, [{ ...a, x: 2 }, b, { name: 'a' }, { name: 'c', y: 3 }]);
  const many = Array.from({ length: 40_000 }, (_, at) => ({ name: `n${at}` }));
  const startedAt = performance.now();
  assert.equal((overlay([a], many) as Json[]).length, 40_001);
  // Milliseconds; with the square of their number it would be half a minute.
  assert.ok(performance.now() - startedAt < 5_000);
});

test('quantities are compared by what they are worth', () => {
  assert.equal(quantityOf('1024Mi'), quantityOf('1Gi'));
  assert.equal(quantityOf('1000m'), quantityOf('1'));
  assert.ok(quantityOf('1G') < quantityOf('1Gi'));
  assert.equal(quantityOf('1e3'), quantityOf('1000'));
  assert.equal(quantityOf('-1.5'), quantityOf('-1500m'));
  // As the server rounds, and what it takes of more than it can write.
  assert.equal(quantityOf('0.1n'), quantityOf('1n'));
  assert.equal(quantityOf('9000Pi'), quantityOf('9223372036854775807'));
  assert.ok(quantityOf('9223372036854775806') < quantityOf('9223372036854775807'));
  for (const bad of ['', 'Gi', '1 Gi', '1X', 'one', '.', '1.2.3', '1e999999999', '1'.repeat(200)]) {
    assert.throws(() => quantityOf(bad), /not a quantity/, bad);
  }
});

/** As the server writes a fractional size back: in thousandths, or still smaller parts. */
function canonical(hundredths: bigint, power: bigint): string {
  const parts = [
    ['', 1n],
    ['m', 1_000n],
    ['u', 1_000_000n],
    ['n', 1_000_000_000n],
  ] as const;
  for (const [suffix, perUnit] of parts) {
    const worth = hundredths * power * perUnit;
    if (worth % 100n === 0n) return `${worth / 100n}${suffix}`;
  }
  throw new Error('hundredths have no smaller parts');
}

test('a size is equal to what the server writes of it, and larger than all that are smaller', () => {
  const powers = { Ki: 2n ** 10n, Mi: 2n ** 20n, Gi: 2n ** 30n, Ti: 2n ** 40n, Pi: 2n ** 50n };
  for (const [suffix, power] of Object.entries(powers)) {
    let last = 0n;
    for (let hundredths = 1n; hundredths <= 2_000n; hundredths++) {
      const size = `${hundredths / 100n}.${String(hundredths % 100n).padStart(2, '0')}${suffix}`;
      const worth = quantityOf(size);
      assert.equal(worth, quantityOf(canonical(hundredths, power)), size);
      assert.ok(worth > last, size);
      last = worth;
    }
  }
});
