/**
 * Who may reach which port, since nothing asks for a password: the cluster's own pods each other, the
 * operator etcd, everybody the coordinators and all metrics. Profiles and dumps (9004) nobody; a
 * person forwards the port.
 */
import type { KubeObject } from '../resource/kube_objects.ts';
import { Names, port } from '../resource/names.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import { coordinatorListeners, type ListenerPort } from '../overlay/listeners.ts';
import { childMetadata, type Component, type Subject, selectorOf } from './common.ts';

/** @param operatorNamespace the Kubernetes namespace that the operator runs in */
export function networkPolicies(cluster: TsdbCluster, operatorNamespace: string): KubeObject[] {
  if (cluster.spec.networkPolicies === false) return [];
  const names = new Names(cluster);
  const own = (...components: Subject[]): object[] =>
    components.map((component) => ({
      podSelector: { matchLabels: selectorOf(cluster, component) },
    }));
  const operator = {
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': operatorNamespace } },
    podSelector: { matchLabels: { 'app.kubernetes.io/name': 'tsdb-operator' } },
  };
  const listeners = coordinatorListeners(cluster);
  const nodePorts = [port.grpc, port.grpcCluster, port.httpNode, port.httpCluster];
  const policies = [
    policy(cluster, names.nodes, 'node', [
      { from: own('node', 'coordinator', 'aggregator'), ports: nodePorts },
      { from: null, ports: [port.nodeMetrics] },
    ]),
    policy(cluster, names.coordinator, 'coordinator', [
      { from: null, ports: [port.coordinator, port.coordinatorMetrics, ...listeners.ports] },
      ...(listeners.ownPorts.length === 0
        ? []
        : [{ from: own('coordinator'), ports: listeners.ownPorts }]),
    ]),
    ...(cluster.spec.aggregator === undefined
      ? []
      : [
          policy(cluster, names.aggregators, 'aggregator', [
            { from: null, ports: [port.aggregator, port.aggregatorMetrics] },
          ]),
        ]),
  ];
  if (cluster.spec.etcd?.external !== undefined) return policies;
  return [
    ...policies,
    policy(cluster, names.etcd, 'etcd', [
      {
        from: [...own('node', 'coordinator', 'aggregator', 'etcd', 'etcd-snapshots'), operator],
        ports: [port.etcdClient],
      },
      { from: own('etcd'), ports: [port.etcdPeer] },
      { from: null, ports: [port.etcdMetrics] },
    ]),
  ];
}

interface Ingress {
  /** Null for everybody. */
  readonly from: readonly object[] | null;
  /** A number is one of TCP. */
  readonly ports: readonly (number | ListenerPort)[];
}

function policy(
  cluster: TsdbCluster,
  name: string,
  component: Component,
  rules: readonly Ingress[],
): KubeObject {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: childMetadata(cluster, name, component),
    spec: {
      podSelector: { matchLabels: selectorOf(cluster, component) },
      policyTypes: ['Ingress'],
      ingress: rules.map(({ from, ports }) => ({
        ...(from === null ? {} : { from }),
        ports: ports.map((each) =>
          typeof each === 'number'
            ? { port: each, protocol: 'TCP' }
            : { port: each.number, protocol: each.protocol },
        ),
      })),
    },
  };
}
