/** Coordinators: a Deployment behind a Service, and a disruption budget when there are several. */
import type { KubeObject } from '../resource/kube_objects.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import {
  childMetadata,
  configArguments,
  configMap,
  configMount,
  containerSecurity,
  disruptionBudget,
  type ImageDefaults,
  podSecurity,
  resourcesOf,
  selectorOf,
  spreadOverHosts,
  spreadOverZones,
} from './common.ts';
import { graceSecondsOf, leaveFirst, livenessProbes } from './probes.ts';
import { discoveryYaml, etcdTlsMount } from './discovery.ts';
import { queryMillisMax } from '../overlay/config.ts';
import {
  type CoordinatorListeners,
  coordinatorListeners,
  podAddressVariable,
} from '../overlay/listeners.ts';
import { overlaidTemplate } from '../overlay/pod_template.ts';
import { Names, port } from '../resource/names.ts';

/** When a Deployment is made and the resource does not say. */
const coordinatorReplicasDefault = 2;

export function coordinatorObjects(cluster: TsdbCluster, images: ImageDefaults): KubeObject[] {
  const names = new Names(cluster);
  const listeners = coordinatorListeners(cluster);
  const lines = [
    'coordinator:',
    `  listenAddress: 0.0.0.0:${port.coordinator}`,
    `  metrics: {prometheus: {listenAddress: "0.0.0.0:${port.coordinatorMetrics}"}}`,
    ...[...discoveryYaml(cluster), ...listeners.lines].map((line) => `  ${line}`),
  ];
  const config = configMap(cluster, 'coordinator', `${lines.join('\n')}\n`);
  const replicas = cluster.spec.coordinator?.replicas ?? coordinatorReplicasDefault;
  return [
    config,
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: serviceMetadata(cluster),
      spec: {
        selector: selectorOf(cluster, 'coordinator'),
        ports: [
          { name: 'http', port: port.coordinator, protocol: 'TCP', targetPort: port.coordinator },
          {
            name: 'metrics',
            port: port.coordinatorMetrics,
            protocol: 'TCP',
            targetPort: port.coordinatorMetrics,
          },
          ...listeners.ports.map(({ name, number, protocol }) => ({
            name,
            port: number,
            protocol,
            targetPort: number,
          })),
        ],
      },
    },
    deployment(cluster, images, config.metadata.name, replicas, listeners),
    ...(replicas > 1 ? [disruptionBudget(cluster, names.coordinator, 'coordinator')] : []),
  ];
}

function serviceMetadata(cluster: TsdbCluster): KubeObject['metadata'] {
  const { annotations } = cluster.spec.coordinator?.service ?? {};
  const metadata = childMetadata(cluster, new Names(cluster).coordinator, 'coordinator');
  return annotations === undefined ? metadata : { ...metadata, annotations };
}

function deployment(
  cluster: TsdbCluster,
  images: ImageDefaults,
  configName: string,
  replicas: number,
  { ports, ownPorts }: CoordinatorListeners,
): KubeObject {
  const names = new Names(cluster);
  const selector = selectorOf(cluster, 'coordinator');
  const tls = etcdTlsMount(cluster);
  const { coordinator } = cluster.spec;
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: childMetadata(cluster, names.coordinator, 'coordinator'),
    spec: {
      replicas,
      selector: { matchLabels: selector },
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
      template: overlaidTemplate(cluster, 'coordinator', {
        metadata: { labels: selector },
        spec: {
          securityContext: podSecurity,
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          terminationGracePeriodSeconds: graceSecondsOf(queryMillisMax(cluster)),
          affinity: spreadOverHosts(selector),
          topologySpreadConstraints: spreadOverZones(selector, null),
          containers: [
            {
              name: 'coordinator',
              image: coordinator?.image ?? images.coordinator,
              args: configArguments(cluster, 'coordinator'),
              env: [
                { name: 'TSDB_LISTEN_HOST', value: '0.0.0.0' },
                ...(ownPorts.length === 0 ? [] : [podAddressVariable]),
              ],
              ports: [
                { name: 'http', containerPort: port.coordinator, protocol: 'TCP' },
                { name: 'metrics', containerPort: port.coordinatorMetrics, protocol: 'TCP' },
                ...[...ports, ...ownPorts].map(({ name, number, protocol }) => ({
                  name,
                  containerPort: number,
                  protocol,
                })),
              ],
              // Not where clients are: one that has all the connections it takes is not dead.
              ...livenessProbes('/metrics', port.coordinatorMetrics),
              lifecycle: leaveFirst,
              // Health and not readiness: the operator makes the placement through it.
              readinessProbe: {
                // While etcd is away who was started since must not take the place of who knows.
                httpGet: {
                  path: '/health?knowsCluster=true',
                  port: port.coordinator,
                  scheme: 'HTTP',
                },
                periodSeconds: 2,
                timeoutSeconds: 2,
                failureThreshold: 3,
                successThreshold: 1,
              },
              ...resourcesOf(coordinator?.resources),
              securityContext: containerSecurity,
              volumeMounts: [configMount, ...tls.mounts],
            },
          ],
          volumes: [{ name: 'config', configMap: { name: configName } }, ...tls.volumes],
        },
      }),
    },
  };
}
