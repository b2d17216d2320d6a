/**
 * A small cluster with all that a user lays over it: TLS of its etcd, settings, a container beside
 * ours; what is refused, and certificates that are renewed.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { TestAuthority } from '../../certificates.ts';
import { installByManifests, namespace, operatorHome, operatorNamespace } from '../install.ts';
import { condition, type Kube, waitFor } from '../kube.ts';
import { type Ending, ownLabel, removeCluster, type Scenario, type Stage } from './scenario.ts';

const name = 'secure';
const host = `${name}-etcd.${namespace}.svc`;
const serverNames = [host, ...[0, 1, 2, 3, 4].map((member) => `${name}-etcd-${member}.${host}`)];

const cluster = {
  apiVersion: 'tsdb.io/v1alpha1',
  kind: 'TSDBCluster',
  metadata: { name, namespace },
  spec: {
    replicationFactor: 1,
    numberOfShards: 8,
    nodes: {
      replicasPerGroup: 1,
      storage: { size: '1Gi' },
      config: { commitlog: { sync: 'interval' } },
      podTemplate: {
        spec: {
          containers: [
            {
              name: 'beside',
              image: `localhost/tsdb-node:${process.env['TSDB_IMAGE_TAG'] ?? 'test'}`,
              command: ['/usr/local/bin/node', '-e', 'setInterval(() => {}, 1e9)'],
            },
          ],
        },
      },
    },
    isolationGroups: [{ name: 'a' }],
    etcd: {
      replicas: 3,
      storage: { size: '1Gi' },
      tls: { serverSecret: `${name}-server`, clientSecret: `${name}-client` },
    },
    coordinator: { replicas: 1, config: { query: { timeout: '20s' } } },
    deletionPolicy: { data: 'Delete' },
  },
};

async function patch(kube: Kube, change: object): Promise<void> {
  const args = ['-n', namespace, '--type', 'merge', '-p', JSON.stringify(change)];
  await kube.ok(['patch', 'tsdbcluster', name, ...args]);
}

async function storeSecret(kube: Kube, secret: string, folder: string): Promise<void> {
  const files = ['ca.crt', 'tls.crt', 'tls.key'];
  const data = Object.fromEntries(
    files.map((file) => [file, readFileSync(join(folder, file)).toString('base64')]),
  );
  const metadata = { name: secret, namespace };
  const object = { apiVersion: 'v1', kind: 'Secret', metadata, data };
  await kube.ok(['apply', '--server-side', '-f', '-'], JSON.stringify(object));
}

function untilCondition(kube: Kube, type: string, expected: RegExp): Promise<void> {
  return waitFor(`${type} ${expected.source}`, 180_000, async () => {
    const live = await kube.get('tsdbcluster', name, namespace);
    if (live?.status?.observedGeneration !== live?.metadata.generation)
      return 'an older generation';
    const { status, reason, message } = condition(live, type) ?? {};
    const text = `${status} ${reason}: ${message}`;
    return expected.test(text) ? null : text;
  });
}

const untilReady = (kube: Kube): Promise<void> => untilCondition(kube, 'Ready', /^True/);

/** By name: which pod it is, and how often its containers were started. */
async function podsOf(kube: Kube, component: string): Promise<Record<string, unknown>> {
  const pods = await kube.list(
    'pods',
    namespace,
    `${ownLabel(name)},tsdb.io/component=${component}`,
  );
  return Object.fromEntries(
    pods.map(({ metadata, status }) => [
      metadata.name,
      [metadata.uid, ...status.containerStatuses.map((one: any) => one.restartCount)],
    ]),
  );
}

async function laidOver({ kube }: Stage): Promise<Ending> {
  if ((await operatorHome(kube)) === null) await installByManifests(kube);
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-e2e-tls-'));
  const authority = new TestAuthority(join(folder, 'authority'));
  const issue = async (secret: string, names: readonly string[]): Promise<void> => {
    authority.issue(join(folder, secret), names);
    await storeSecret(kube, secret, join(folder, secret));
  };
  await kube.ok(['apply', '-f', '-'], stringify(cluster));
  await untilCondition(kube, 'Stalled', /SecretForbidden.*operator\.readSecrets/);
  // What operator.readSecrets of the chart gives.
  const rule = { apiGroups: [''], resources: ['secrets'], verbs: ['get'] };
  const role = `${operatorNamespace}-tsdb-operator`;
  const adding = JSON.stringify([{ op: 'add', path: '/rules/-', value: rule }]);
  await kube.ok(['patch', 'clusterrole', role, '--type', 'json', '-p', adding]);
  await issue(`${name}-client`, [name]);
  await untilCondition(kube, 'Ready', /SecretMissing: Secret secure-server/);
  await issue(`${name}-server`, serverNames);
  await untilReady(kube);

  const nodes = await podsOf(kube, 'node');
  await patch(kube, { spec: { nodes: { podTemplate: { spec: { serviceAccountName: 'x' } } } } });
  await untilCondition(kube, 'Stalled', /PodTemplateRefused: .*serviceAccountName needs the right/);
  await patch(kube, { spec: { nodes: { podTemplate: { spec: { serviceAccountName: null } } } } });
  await patch(kube, { spec: { nodes: { config: { commitlog: { sync: 'never' } } } } });
  await untilCondition(
    kube,
    'Stalled',
    /ConfigRefused: nodes\.config\.commitlog\.sync: must be one/,
  );
  assert.deepEqual(await podsOf(kube, 'node'), nodes, 'what is refused reaches no pod');

  // Renewed, and the next connections are made with them: those of a node that is replaced.
  const members = await podsOf(kube, 'etcd');
  await issue(`${name}-client`, [name]);
  await issue(`${name}-server`, serverNames);
  await patch(kube, { spec: { nodes: { config: { commitlog: { sync: 'always' } } } } });
  await untilReady(kube);
  assert.notDeepEqual(await podsOf(kube, 'node'), nodes, 'a setting replaces the node');
  assert.deepEqual(await podsOf(kube, 'etcd'), members, 'no member was started anew');

  await removeCluster(kube, name);
  rmSync(folder, { recursive: true });
  return { isUnready: true };
}

export const overlays: readonly Scenario[] = [
  {
    name: 'overlays',
    what: 'TLS of etcd, settings and a podTemplate: taken, refused, renewed',
    millisMax: 600_000,
    run: laidOver,
  },
];
