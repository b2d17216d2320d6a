import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type PodRight, podRights, podRightsOf, podTemplateProblems } from './pod_rules.ts';

const none = new Set<PodRight>();
const all = new Set<PodRight>(podRights);
const problems = (spec: object, allowed: ReadonlySet<PodRight> = none): string[] =>
  podTemplateProblems({ spec }, 'node', allowed);
const sidecar = (over: object): object => ({ containers: [{ name: 'sidecar', ...over }] });
const own = (over: object): object => ({ containers: [{ name: 'node', ...over }] });
const volume = (over: object): object => ({ volumes: [{ name: 'extra', ...over }] });

test('what places and accompanies pods, and lets them be scraped, is free', () => {
  const template = {
    metadata: { annotations: { 'prometheus.io/scrape': 'true', 'checksum/rules': '7f' } },
    spec: {
      affinity: { podAntiAffinity: {} },
      topologySpreadConstraints: [{ maxSkew: 1 }],
      tolerations: [{ key: 'dedicated' }],
      nodeSelector: { disk: 'nvme' },
      priorityClassName: 'high',
      imagePullSecrets: [{ name: 'registry' }],
      automountServiceAccountToken: false,
      hostNetwork: false,
      securityContext: { runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
      volumes: [
        { name: 'scratch', emptyDir: {} },
        { name: 'mixed', projected: { sources: [{ configMap: { name: 'x' } }] } },
      ],
      initContainers: [{ name: 'prepare', image: 'x', restartPolicy: 'Always' }],
      containers: [
        {
          name: 'node',
          env: [{ name: 'EXTRA', value: '1' }],
          resources: { limits: { memory: '1Gi' } },
          volumeMounts: [{ name: 'scratch', mountPath: '/scratch' }],
          startupProbe: { failureThreshold: 1000 },
        },
        {
          name: 'sidecar',
          image: 'x',
          command: ['x'],
          env: [{ name: 'POD_NAME', value: 'mine' }],
          ports: [{ containerPort: 8000 }],
          readinessProbe: { httpGet: { path: '/', port: 8000 }, periodSeconds: 5 },
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    },
  };
  assert.deepEqual(podTemplateProblems(template, 'node', none), []);
});

const rightsOfOthers: readonly (readonly [what: string, PodRight, object])[] = [
  ['a priority of Kubernetes itself', 'machine', { priorityClassName: 'system-node-critical' }],
  ['another account', 'serviceAccounts', { serviceAccountName: 'admin' }],
  ['another account by its old name', 'serviceAccounts', { serviceAccount: 'admin' }],
  ['the token of the default account', 'serviceAccounts', { automountServiceAccountToken: true }],
  [
    'a projected token',
    'serviceAccounts',
    volume({ projected: { sources: [{ serviceAccountToken: { path: 'token' } }] } }),
  ],
  ['a Secret, which may be a token', 'secrets', volume({ secret: { secretName: 'x' } })],
  [
    'a projected Secret',
    'secrets',
    volume({ projected: { sources: [{ secret: { name: 'x' } }] } }),
  ],
  [
    'a key of a Secret',
    'secrets',
    own({ env: [{ name: 'X', valueFrom: { secretKeyRef: { name: 'x', key: 'token' } } }] }),
  ],
  ['all keys of a Secret', 'secrets', sidecar({ envFrom: [{ secretRef: { name: 'x' } }] })],
  ['a volume of others', 'volumes', volume({ persistentVolumeClaim: { claimName: 'x' } })],
  ['a copy of a volume', 'volumes', volume({ ephemeral: { volumeClaimTemplate: {} } })],
  ['a volume of a driver', 'volumes', volume({ csi: { driver: 'secrets-store.csi.k8s.io' } })],
  ['a folder of the machine', 'machine', volume({ hostPath: { path: '/' } })],
  ['the network of the machine', 'machine', { hostNetwork: true }],
  ['its processes', 'machine', { hostPID: true }],
  ['its shared memory', 'machine', { hostIPC: true }],
  ['its ports', 'machine', sidecar({ ports: [{ containerPort: 1, hostPort: 1 }] })],
  ['a chosen machine', 'machine', { nodeName: 'control-plane' }],
  ['root', 'machine', { securityContext: { runAsNonRoot: false } }],
  ['kernel settings', 'machine', { securityContext: { sysctls: [] } }],
  ['privileges', 'machine', sidecar({ securityContext: { privileged: true } })],
  ['more privileges', 'machine', sidecar({ securityContext: { allowPrivilegeEscalation: true } })],
  ['capabilities', 'machine', sidecar({ securityContext: { capabilities: { add: ['BPF'] } } })],
  ['default capabilities', 'machine', own({ securityContext: { capabilities: { drop: [] } } })],
  ['no filter of calls', 'machine', own({ securityContext: { seccompProfile: { type: 'X' } } })],
  ['devices', 'machine', sidecar({ resources: { claims: [{ name: 'gpu' }] } })],
  [
    'the kubelet as a proxy',
    'machine',
    sidecar({ livenessProbe: { httpGet: { host: '169.254.169.254', port: 80 } } }),
  ],
  ['a field of a later Kubernetes', 'machine', { somethingNew: {} }],
];

for (const [what, right, spec] of rightsOfOthers) {
  test(`a podTemplate gets ${what} with the right ${right} only`, () => {
    const found = problems(spec);
    assert.equal(found.length, 1, found.join());
    assert.match(found[0]!, new RegExp(`needs the right ${right}`));
    assert.deepEqual(problems(spec, new Set([right])), []);
    const others = new Set(podRights.filter((other) => other !== right));
    assert.equal(problems(spec, others).length, 1, 'no other right gives it');
  });
}

const ours: readonly (readonly [what: string, object])[] = [
  ['the command', own({ command: ['sh'] })],
  ['the arguments', own({ args: [] })],
  ['the ports', own({ ports: [] })],
  ['the readiness', own({ readinessProbe: { periodSeconds: 1 } })],
  ['what liveness is', own({ livenessProbe: { exec: { command: ['true'] } } })],
  ['what happens before the end', own({ lifecycle: {} })],
  ['the name of the node', own({ env: [{ name: 'POD_NAME', value: 'x' }] })],
  ['the data folder', own({ env: [{ name: 'TSDB_DATA_DIR', value: '/tmp' }] })],
  ['who etcd is', own({ env: [{ name: 'ETCD_FORCE_NEW_CLUSTER', value: 'true' }] })],
  ['variables by the dozen', own({ envFrom: [{ configMapRef: { name: 'x' } }] })],
  ['the data', own({ volumeMounts: [{ name: 'data', mountPath: '/x' }] })],
  ['a mount over the data', own({ volumeMounts: [{ name: 'x', mountPath: '/var/lib/tsdb/x' }] })],
  ['a mount above the data', own({ volumeMounts: [{ name: 'x', mountPath: '/var/lib/' }] })],
  ['a mount by detours', own({ volumeMounts: [{ name: 'x', mountPath: '/etc/x/../tsdb' }] })],
  ['the data volume', { volumes: [{ name: 'data', emptyDir: {} }] }],
  ['the configuration', { volumes: [{ name: 'config', configMap: { name: 'x' } }] }],
  ['the host name', { hostname: 'x' }],
  ['what comes after the end', { restartPolicy: 'Never' }],
  ['all containers', { containers: null }],
  ['all containers, by one without a name', { containers: [{ image: 'x' }] }],
  ['all volumes, by one without a name', { volumes: [{ emptyDir: {} }] }],
];

for (const [what, spec] of ours) {
  test(`no right lets a podTemplate change ${what}`, () => {
    assert.equal(problems(spec, all).length, 1, problems(spec, all).join());
  });
}

test('labels by which pods are known, and annotations that the operator obeys, are not set', () => {
  const metadata = {
    labels: { 'tsdb.io/cluster': 'other', 'controller-revision-hash': 'x', team: 'x' },
    annotations: { 'tsdb.io/replace': 'true' },
  };
  assert.deepEqual(podTemplateProblems({ metadata }, 'node', all), [
    "metadata.labels: tsdb.io/cluster is the operator's",
    "metadata.labels: controller-revision-hash is the operator's",
    "metadata.annotations: tsdb.io/replace is the operator's",
  ]);
});

test('a container of ours is the one that is named after the component', () => {
  const template = { spec: { containers: [{ name: 'etcd', args: [] }] } };
  assert.equal(podTemplateProblems(template, 'etcd', none).length, 1);
  assert.equal(podTemplateProblems(template, 'node', none).length, 0);
});

test('rights are named by the words there are', () => {
  assert.deepEqual([...podRightsOf('')], []);
  assert.deepEqual([...podRightsOf('secrets, machine')], ['secrets', 'machine']);
  assert.throws(() => podRightsOf('secret'), /cannot allow podTemplates secret: there are/);
});
