/** What a real API server says to mistakes in resources: each is refused when it is applied, by its field. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually, Program, root } from '../integration/process.ts';
import { freePorts } from '../ports.ts';
import { toolOrSkip } from '../tools.ts';
import { run } from './kube.ts';

type Json = any;

const skipped = 'definitions are not held against an API server';
const apiserver = toolOrSkip('kube-apiserver', skipped);
const kubectl = toolOrSkip('kubectl', skipped);
const etcd = toolOrSkip('etcd', skipped);

const spec: Json = {
  replicationFactor: 1,
  numberOfShards: 64,
  nodes: { replicasPerGroup: 1 },
  isolationGroups: [{ name: 'a' }],
};
const clusterOf = (over: object): Json => ({
  kind: 'TSDBCluster',
  spec: { ...spec, ...over },
});
const nodesOf = (over: object): Json => clusterOf({ nodes: { ...spec.nodes, ...over } });
const namespaceOf = (over: object): Json => clusterOf({ namespaces: [{ name: 'n', ...over }] });
const claimOf = (over: object): Json => ({
  kind: 'TSDBNamespace',
  spec: { clusterRef: { name: 'm' }, ...over },
});

const aQuantity = 'must be a quantity, for example 500m, 2 or 8Gi';
const aSize = 'must be a size above zero, for example 100Gi';
const aDuration = 'must be a duration, for example 48h, 30m or 7d';
const aSpan = 'must be a duration above zero, for example 48h, 30m or 7d';
const longer = 'retentionTime must be at least blockSize, which is 30m at least when it is not set';

/** The object, and what is said of which field; null when it is taken. */
const cases: readonly (readonly [Json, string, string] | readonly [Json, null])[] = [
  [clusterOf({}), null],
  [
    nodesOf({ resources: { requests: { cpu: 'two' } } }),
    'spec.nodes.resources.requests[cpu]',
    aQuantity,
  ],
  [
    nodesOf({ resources: { limits: { memory: '8 GB' } } }),
    'spec.nodes.resources.limits[memory]',
    aQuantity,
  ],
  [
    nodesOf({ resources: { limits: { memory: '-1Gi' } } }),
    'spec.nodes.resources.limits[memory]',
    aQuantity,
  ],
  [
    clusterOf({ coordinator: { resources: { requests: { cpu: -1 } } } }),
    'spec.coordinator.resources.requests[cpu]',
    aQuantity,
  ],
  [
    nodesOf({
      resources: { requests: { cpu: 2, memory: '1e9' }, limits: { cpu: '1.5', 'x.io/y': 0 } },
    }),
    null,
  ],
  [nodesOf({ storage: { size: '0Gi' } }), 'spec.nodes.storage.size', aSize],
  [nodesOf({ storage: { size: '100GB' } }), 'spec.nodes.storage.size', aSize],
  [clusterOf({ etcd: { storage: { size: '0.0' } } }), 'spec.etcd.storage.size', aSize],
  [nodesOf({ storage: { size: '0.5Gi' } }), null],
  [
    nodesOf({ replaceAfter: 'later' }),
    'spec.nodes.replaceAfter',
    'must be a duration, for example 30m, or never',
  ],
  [nodesOf({ replaceAfter: 'never' }), null],
  [namespaceOf({ retentionTime: 'two days' }), 'spec.namespaces[0].retentionTime', aSpan],
  [namespaceOf({ retentionTime: '48' }), 'spec.namespaces[0].retentionTime', aSpan],
  [namespaceOf({ blockSize: '0h' }), 'spec.namespaces[0].blockSize', aSpan],
  [namespaceOf({ bufferFuture: 'soon' }), 'spec.namespaces[0].bufferFuture', aDuration],
  [namespaceOf({ bufferPast: '0s' }), null],
  [namespaceOf({ retentionTime: '1h', blockSize: '2h' }), 'spec.namespaces[0]', longer],
  [namespaceOf({ retentionTime: '1h59m59s999ms', blockSize: '2h' }), 'spec.namespaces[0]', longer],
  [namespaceOf({ retentionTime: '6d', blockSize: '1w' }), 'spec.namespaces[0]', longer],
  [namespaceOf({ retentionTime: '29m' }), 'spec.namespaces[0]', longer],
  [namespaceOf({ retentionTime: '30m' }), null],
  [namespaceOf({ retentionTime: '1h60m', blockSize: '2h' }), null],
  [namespaceOf({ retentionTime: '1w', blockSize: '7d' }), null],
  [claimOf({ retentionTime: '6h', blockSize: '12h' }), 'spec', longer],
  [claimOf({ retentionTime: 'six' }), 'spec.retentionTime', aSpan],
  [claimOf({ retentionTime: '30d', blockSize: '12h' }), null],
  [
    clusterOf({ maintenanceWindows: [{ start: '02:00', duration: '0h' }] }),
    'spec.maintenanceWindows[0].duration',
    aSpan,
  ],
  [
    clusterOf({ maintenanceWindows: [{ start: '2am', duration: '4h' }] }),
    'spec.maintenanceWindows[0].start',
    "must be a time of the day, for example '02:00'",
  ],
  [
    clusterOf({ etcd: { snapshots: { schedule: '@every hour' } } }),
    'spec.etcd.snapshots.schedule',
    "must be the five fields of a cron schedule, for example '0 * * * *'",
  ],
  [clusterOf({ etcd: { snapshots: { schedule: '*/30 * * * *' } } }), null],
];

if (apiserver !== null && kubectl !== null && etcd !== null) {
  test('a mistake in a resource is refused when it is applied, with its field and what it should be', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tsdb-definitions-'));
    const [clientPort, peerPort, port] = await freePorts(3);
    const [client, peer] = [`http://127.0.0.1:${clientPort}`, `http://127.0.0.1:${peerPort}`];
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const key = join(folder, 'sa.key');
    writeFileSync(key, privateKey.export({ type: 'pkcs1', format: 'pem' }));
    const tokens = join(folder, 'tokens.csv');
    writeFileSync(tokens, 'admin,admin,admin,"system:masters"\n');
    const store = new Program('etcd', folder, etcd, [
      ...['--data-dir', join(folder, 'etcd'), '--unsafe-no-fsync'],
      ...['--listen-client-urls', client, '--advertise-client-urls', client],
      ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
      ...['--initial-cluster', `default=${peer}`],
    ]);
    const server = new Program('kube-apiserver', folder, apiserver, [
      `--etcd-servers=${client}`,
      ...['--bind-address=127.0.0.1', '--advertise-address=127.0.0.1', `--secure-port=${port}`],
      ...[`--cert-dir=${join(folder, 'certificates')}`, `--token-auth-file=${tokens}`],
      ...[`--service-account-key-file=${key}`, `--service-account-signing-key-file=${key}`],
      '--service-account-issuer=https://kubernetes.default.svc',
      ...['--service-cluster-ip-range=10.96.0.0/16', '--authorization-mode=RBAC'],
    ]);
    const call = (args: readonly string[], input = '') => {
      const how = [
        `--server=https://127.0.0.1:${port}`,
        '--insecure-skip-tls-verify',
        '--token=admin',
      ];
      return run(kubectl, [...how, ...args], { millisMax: 30_000, input });
    };
    store.start();
    server.start();
    try {
      await eventually(
        'an API server',
        async () => (await call(['get', '--raw', '/readyz'])).code === 0,
      );
      const applied = await call(['apply', '--server-side', '-f', join(root, 'crds')]);
      assert.equal(applied.code, 0, applied.output);
      const definitions = ['crd/tsdbclusters.tsdb.io', 'crd/tsdbnamespaces.tsdb.io'];
      await call(['wait', ...definitions, '--for=condition=Established', '--timeout=20s']);
      const create = (object: Json) => {
        const metadata = { name: 'm', namespace: 'default' };
        const whole = { apiVersion: 'tsdb.io/v1alpha1', metadata, ...object };
        return call(['create', '--dry-run=server', '-f', '-'], JSON.stringify(whole));
      };
      // The paths of the resources are there a little later than the definitions are.
      await eventually('resources', async () => (await create(clusterOf({}))).code === 0);
      for (const [object, field, message] of cases) {
        const { code, output } = await create(object);
        const given = JSON.stringify(object.spec);
        if (field === null) assert.equal(code, 0, `${given}: ${output}`);
        else {
          assert.notEqual(code, 0, given);
          const line = output.split('\n').find((one) => one.includes(`${field}: Invalid value`));
          assert.ok(line?.endsWith(`: ${message}`), `${given}: ${output}`);
          assert.equal(output.match(/Invalid value/g)?.length, 1, `this alone: ${output}`);
        }
      }
    } finally {
      await server.stop('SIGKILL');
      await store.stop('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    }
  });
}
