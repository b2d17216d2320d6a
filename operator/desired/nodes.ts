/**
 * Storage nodes: a headless Service, one StatefulSet for each isolation group, and a disruption
 * budget.
 */
import type { IsolationGroupSpec, TsdbCluster } from '../resource/tsdb_cluster.ts';
import { annotation } from '../resource/keys.ts';
import type { KubeObject } from '../resource/kube_objects.ts';
import {
  childMetadata,
  classDefault,
  configArguments,
  configMap,
  configMount,
  containerSecurity,
  disruptionBudget,
  type ImageDefaults,
  marked,
  podNameVariable,
  podSecurity,
  resourcesOf,
  selectorOf,
  spreadOverHosts,
} from './common.ts';
import { livenessProbes } from './probes.ts';
import { discoveryYaml, etcdTlsMount } from './discovery.ts';
import { overlaidTemplate } from '../overlay/pod_template.ts';
import { Names, port } from '../resource/names.ts';

const dataFolder = '/var/lib/tsdb';

/** Everything but the StatefulSets, whose replicas the plan decides. */
export function nodeObjects(cluster: TsdbCluster): KubeObject[] {
  const names = new Names(cluster);
  return [
    nodeConfig(cluster),
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: childMetadata(cluster, names.nodes, 'node'),
      spec: {
        clusterIP: 'None',
        // Peers stream from nodes that are not ready yet.
        publishNotReadyAddresses: true,
        selector: selectorOf(cluster, 'node'),
        ports: nodePorts.map(([name, number]) => ({
          name,
          port: number,
          protocol: 'TCP',
          targetPort: number,
        })),
      },
    },
    disruptionBudget(cluster, names.nodes, 'node'),
  ];
}

const nodePorts = [
  ['grpc', port.grpc],
  ['grpc-cluster', port.grpcCluster],
  ['http-node', port.httpNode],
  ['http-cluster', port.httpCluster],
  ['metrics', port.nodeMetrics],
] as const;

function nodeConfig(cluster: TsdbCluster): KubeObject {
  const lines = [
    'db:',
    '  hostID: {resolver: environment, envVarName: POD_NAME}',
    `  filesystem: {filePathPrefix: ${dataFolder}}`,
    `  metrics: {prometheus: {listenAddress: "0.0.0.0:${port.nodeMetrics}"}}`,
    // Policies close it where they are enforced; kubectl port-forward comes from inside the pod.
    `  debugListenAddress: "127.0.0.1:${port.debug}"`,
    ...discoveryYaml(cluster).map((line) => `  ${line}`),
  ];
  return configMap(cluster, 'node', `${lines.join('\n')}\n`);
}

/**
 * StatefulSet of one group, still without a size (`sized`). Pods change only when the operator
 * deletes them (OnDelete): it waits for shards between two of them, which Kubernetes cannot.
 */
export function nodeStatefulSet(
  cluster: TsdbCluster,
  group: IsolationGroupSpec,
  images: ImageDefaults,
): KubeObject {
  const names = new Names(cluster);
  const { nodes } = cluster.spec;
  const selector = selectorOf(cluster, 'node', group.name);
  const tls = etcdTlsMount(cluster);
  const template = {
    metadata: { labels: selector },
    spec: {
      securityContext: podSecurity,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      // Nobody comes by endpoints: sessions go by the placement, and on to other replicas. Open calls
      // end in some seconds, the last snapshot takes 15 s at most.
      terminationGracePeriodSeconds: 60,
      affinity: spreadOverHosts(selectorOf(cluster, 'node')),
      containers: [
        {
          name: 'node',
          image: nodes.image ?? images.node,
          args: configArguments(cluster, 'node'),
          env: [podNameVariable, { name: 'TSDB_LISTEN_HOST', value: '0.0.0.0' }],
          ports: nodePorts.map(([name, number]) => ({
            name,
            containerPort: number,
            protocol: 'TCP',
          })),
          // Answers while the log is replayed; the listeners open before that.
          ...livenessProbes('/health', port.httpNode),
          readinessProbe: {
            httpGet: {
              path: '/bootstrappedinplacementornoplacement',
              port: port.httpNode,
              scheme: 'HTTP',
            },
            periodSeconds: 2,
            timeoutSeconds: 2,
            failureThreshold: 3,
            successThreshold: 1,
          },
          ...resourcesOf(nodes.resources),
          securityContext: containerSecurity,
          volumeMounts: [{ name: 'data', mountPath: dataFolder }, configMount, ...tls.mounts],
        },
      ],
      volumes: [
        { name: 'config', configMap: { name: nodeConfig(cluster).metadata.name } },
        ...tls.volumes,
      ],
    },
  };
  const spec = {
    serviceName: names.nodes,
    podManagementPolicy: 'Parallel',
    updateStrategy: { type: 'OnDelete' },
    selector: { matchLabels: selector },
    template: withGroupAffinity(overlaidTemplate(cluster, 'node', template), group),
    volumeClaimTemplates: [
      {
        metadata: { name: 'data', labels: selector },
        spec: {
          accessModes: ['ReadWriteOnce'],
          storageClassName: group.storageClassName ?? nodes.storage?.className ?? classDefault,
          resources: { requests: { storage: nodes.storage?.size ?? '100Gi' } },
        },
      },
    ],
  };
  const metadata = {
    ...childMetadata(cluster, names.group(group.name), 'node', group.name),
    annotations: { [annotation.groupSpec]: JSON.stringify(group) },
  };
  return marked({ apiVersion: 'apps/v1', kind: 'StatefulSet', metadata, spec }, { metadata, spec });
}

/** The set with so many pods. @param whenScaled as of the action `scale-set` */
export function sized(
  set: KubeObject,
  replicas: number,
  whenScaled: 'Retain' | 'Delete',
): KubeObject {
  const persistentVolumeClaimRetentionPolicy = { whenDeleted: 'Retain', whenScaled };
  const spec = set['spec'] as object;
  return { ...set, spec: { ...spec, replicas, persistentVolumeClaimRetentionPolicy } };
}

interface Affine {
  readonly spec: {
    readonly affinity?: {
      readonly nodeAffinity?: {
        readonly requiredDuringSchedulingIgnoredDuringExecution?: {
          readonly nodeSelectorTerms?: readonly { readonly matchExpressions?: readonly object[] }[];
        };
      };
    } | null;
  };
}

/**
 * Terms are alternatives: each of an overlay is narrowed to the group's machines, or nodes of one
 * group would run in the zone of another.
 */
function withGroupAffinity(overlaid: unknown, group: IsolationGroupSpec): unknown {
  const own = Object.entries(group.nodeAffinity ?? {}).map(([key, value]) => ({
    key,
    operator: 'In',
    values: [value],
  }));
  if (own.length === 0) return overlaid;
  const template = overlaid as Affine;
  const { affinity } = template.spec;
  const required = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const given = required?.nodeSelectorTerms ?? [];
  const nodeSelectorTerms = (given.length === 0 ? [{}] : given).map((term) => ({
    ...term,
    matchExpressions: [...own, ...(term.matchExpressions ?? [])],
  }));
  const requiredDuringSchedulingIgnoredDuringExecution = { ...required, nodeSelectorTerms };
  const nodeAffinity = {
    ...affinity?.nodeAffinity,
    requiredDuringSchedulingIgnoredDuringExecution,
  };
  return { ...template, spec: { ...template.spec, affinity: { ...affinity, nodeAffinity } } };
}
