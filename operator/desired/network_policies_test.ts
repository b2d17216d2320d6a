/** The policies judged as Kubernetes judges them, over the pods that the operator makes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ClusterSpec, TsdbCluster } from '../resource/tsdb_cluster.ts';
import { networkPolicies } from './network_policies.ts';
import { selectorOf } from './common.ts';

type Json = any;

interface Caller {
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
}

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

const has = (labels: Readonly<Record<string, string>>, { matchLabels = {} }: Json): boolean =>
  Object.entries(matchLabels).every(([key, value]) => labels[key] === value);

/** By the rules of networking.k8s.io/v1: a pod that a policy selects takes what one allows. */
function isAllowed(
  policies: readonly Json[],
  target: Caller,
  caller: Caller,
  port: number,
): boolean {
  const selecting = policies.filter(
    ({ metadata, spec }) =>
      metadata.namespace === target.namespace && has(target.labels, spec.podSelector),
  );
  if (selecting.length === 0) return true;
  return selecting.some(({ metadata, spec }) =>
    spec.ingress.some(
      ({ from, ports }: Json) =>
        ports.some((one: Json) => one.port === port) &&
        (from === undefined ||
          from.some(({ namespaceSelector, podSelector = {} }: Json) => {
            const name = { 'kubernetes.io/metadata.name': caller.namespace };
            const isNamespace =
              namespaceSelector === undefined
                ? caller.namespace === metadata.namespace
                : has(name, namespaceSelector);
            return isNamespace && has(caller.labels, podSelector);
          })),
    ),
  );
}

const cluster = clusterOf();
const pods: Record<string, Caller> = {
  node: { namespace: 'monitoring', labels: selectorOf(cluster, 'node', 'a') },
  etcd: { namespace: 'monitoring', labels: selectorOf(cluster, 'etcd') },
  coordinator: { namespace: 'monitoring', labels: selectorOf(cluster, 'coordinator') },
  'etcd snapshot': { namespace: 'monitoring', labels: selectorOf(cluster, 'etcd-snapshots') },
  operator: { namespace: 'tsdb-system', labels: { 'app.kubernetes.io/name': 'tsdb-operator' } },
  pretender: { namespace: 'default', labels: { 'app.kubernetes.io/name': 'tsdb-operator' } },
  'other cluster': { namespace: 'monitoring', labels: selectorOf(clusterOf({}, 'x'), 'node', 'a') },
  grafana: { namespace: 'monitoring', labels: { app: 'grafana' } },
  elsewhere: { namespace: 'default', labels: selectorOf(cluster, 'node', 'a') },
};

test('each port is open to those who need it, and to nobody else', () => {
  const policies = networkPolicies(cluster, 'tsdb-system');
  const everybody = Object.keys(pods);
  const callersOf = (target: string, port: number): string[] =>
    everybody.filter((caller) => isAllowed(policies, pods[target]!, pods[caller]!, port));
  for (const port of [9000, 9001, 9002, 9003]) {
    assert.deepEqual(callersOf('node', port), ['node', 'coordinator'], String(port));
  }
  assert.deepEqual(callersOf('node', 9004), []);
  assert.deepEqual(callersOf('node', 9005), everybody);
  assert.deepEqual(callersOf('etcd', 2379), [
    'node',
    'etcd',
    'coordinator',
    'etcd snapshot',
    'operator',
  ]);
  assert.deepEqual(callersOf('etcd', 2380), ['etcd']);
  assert.deepEqual(callersOf('etcd', 2381), everybody);
  assert.deepEqual(callersOf('coordinator', 7201), everybody);
  assert.deepEqual(callersOf('coordinator', 7203), everybody);
  assert.deepEqual(callersOf('coordinator', 9004), []);
});

test('there are none for an etcd that is not ours, and none at all when nobody wants them', () => {
  const names = (over: Partial<ClusterSpec>) =>
    networkPolicies(clusterOf(over), 'tsdb-system').map(({ metadata }) => metadata.name);
  assert.deepEqual(names({}), ['metrics-nodes', 'metrics-coordinator', 'metrics-etcd']);
  const external = { endpoints: ['etcd:2379'] };
  assert.deepEqual(names({ etcd: { external } }), ['metrics-nodes', 'metrics-coordinator']);
  assert.deepEqual(names({ networkPolicies: false }), []);
});
