/**
 * Aggregators: a StatefulSet of pairs behind a headless Service. They keep nothing, so Kubernetes rolls them by itself, and
 * of a pair one may be away; while both are, its rollups wait for them (docs/AGGREGATION.md, Aggregators).
 */
import type { KubeObject } from '../resource/kube_objects.ts';
import { aggregatorPods, type TsdbCluster } from '../resource/tsdb_cluster.ts';
import {
  childMetadata,
  configArguments,
  configMap,
  configMount,
  containerSecurity,
  disruptionBudget,
  type ImageDefaults,
  podNameVariable,
  podSecurity,
  resourcesOf,
  selectorOf,
  spreadOverHosts,
  spreadOverZones,
} from './common.ts';
import { graceSecondsOf, livenessProbes } from './probes.ts';
import { discoveryYaml, etcdTlsMount } from './discovery.ts';
import { tagOptionsOf } from '../overlay/config.ts';
import { overlaidTemplate } from '../overlay/pod_template.ts';
import { Names, port } from '../resource/names.ts';

/** Of a request for parts, which is sent again to another one. */
const requestMillisMax = 5_000;

/** Nothing without `spec.aggregator`. */
export function aggregatorObjects(cluster: TsdbCluster, images: ImageDefaults): KubeObject[] {
  const pods = aggregatorPods(cluster);
  if (pods === 0) return [];
  const names = new Names(cluster);
  const lines = [
    'aggregator:',
    `  listenAddress: 0.0.0.0:${port.aggregator}`,
    `  httpListenAddress: 0.0.0.0:${port.aggregatorHttp}`,
    `  metrics: {prometheus: {listenAddress: "0.0.0.0:${port.aggregatorMetrics}"}}`,
    '  hostID: {resolver: environment, envVarName: POD_NAME}',
    // Rollups have IDs as what coordinators write, and clients may write the names that these take.
    `  tagOptions: ${tagOptionsOf(cluster)}`,
    ...discoveryYaml(cluster).map((line) => `  ${line}`),
  ];
  const config = configMap(cluster, 'aggregator', `${lines.join('\n')}\n`);
  return [
    config,
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: childMetadata(cluster, names.aggregators, 'aggregator'),
      spec: {
        clusterIP: 'None',
        // Others find out by themselves who answers.
        publishNotReadyAddresses: true,
        selector: selectorOf(cluster, 'aggregator'),
        ports: [
          { name: 'grpc', port: port.aggregator, protocol: 'TCP', targetPort: port.aggregator },
          {
            name: 'metrics',
            port: port.aggregatorMetrics,
            protocol: 'TCP',
            targetPort: port.aggregatorMetrics,
          },
        ],
      },
    },
    statefulSet(cluster, images, config.metadata.name, pods),
    disruptionBudget(cluster, names.aggregators, 'aggregator'),
  ];
}

function statefulSet(
  cluster: TsdbCluster,
  images: ImageDefaults,
  configName: string,
  replicas: number,
): KubeObject {
  const names = new Names(cluster);
  const selector = selectorOf(cluster, 'aggregator');
  const tls = etcdTlsMount(cluster);
  const { aggregator } = cluster.spec;
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: childMetadata(cluster, names.aggregators, 'aggregator'),
    spec: {
      replicas,
      serviceName: names.aggregators,
      podManagementPolicy: 'Parallel',
      updateStrategy: { type: 'RollingUpdate' },
      selector: { matchLabels: selector },
      template: overlaidTemplate(cluster, 'aggregator', {
        metadata: { labels: selector },
        spec: {
          securityContext: podSecurity,
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          terminationGracePeriodSeconds: graceSecondsOf(requestMillisMax),
          affinity: spreadOverHosts(selector),
          topologySpreadConstraints: spreadOverZones(selector, null),
          containers: [
            {
              name: 'aggregator',
              image: aggregator?.image ?? images.aggregator,
              args: configArguments(cluster, 'aggregator'),
              env: [{ name: 'TSDB_LISTEN_HOST', value: '0.0.0.0' }, podNameVariable],
              ports: [
                { name: 'grpc', containerPort: port.aggregator, protocol: 'TCP' },
                { name: 'http', containerPort: port.aggregatorHttp, protocol: 'TCP' },
                { name: 'metrics', containerPort: port.aggregatorMetrics, protocol: 'TCP' },
              ],
              ...livenessProbes('/health', port.aggregatorHttp),
              readinessProbe: {
                httpGet: { path: '/ready', port: port.aggregatorHttp, scheme: 'HTTP' },
                periodSeconds: 2,
                timeoutSeconds: 2,
                failureThreshold: 3,
                successThreshold: 1,
              },
              ...resourcesOf(aggregator?.resources),
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
