/** The cluster's own etcd: a headless Service, a StatefulSet and a disruption budget. */
import type { KubeObject } from '../resource/kube_objects.ts';
import { etcdReplicasMax, etcdReplicasOf, type TsdbCluster } from '../resource/tsdb_cluster.ts';
import {
  childMetadata,
  classDefault,
  containerSecurity,
  disruptionBudget,
  type ImageDefaults,
  podNameVariable,
  podSecurity,
  resourcesOf,
  selectorOf,
  spreadOverHosts,
  spreadOverZones,
  zoneLabelOf,
} from './common.ts';
import { overlaidTemplate } from '../overlay/pod_template.ts';
import { livenessProbes } from './probes.ts';
import { tlsFolder, tlsMount } from './tls_mount.ts';
import { Names, port } from '../resource/names.ts';

/** Of a member's database. */
export const etcdQuotaBytes: number = 2 ** 31;

/** Client addresses, of the managed members or the external ones. */
export function etcdEndpoints(cluster: TsdbCluster): string[] {
  const external = cluster.spec.etcd?.external;
  if (external !== undefined) return [...external.endpoints];
  const names = new Names(cluster);
  // As many as there may ever be: members that come and go change nobody's configuration.
  return Array.from({ length: etcdReplicasMax }, (_, ordinal) => {
    const pod = names.etcdPod(ordinal);
    // Without a scheme where there was none before: another text would replace every node.
    return cluster.spec.etcd?.tls === undefined
      ? `${names.host(pod, names.etcd)}:${port.etcdClient}`
      : names.etcdClientUrl(pod);
  });
}

/** As etcd says it in its log when it ends for that. */
const nobody = 'no-member-starts-on-an-empty-volume';

/**
 * How a member that starts without data finds the others. A running one does not read it, nor does
 * one that has data, so it is changed in place.
 * @param pods those that are found; none for a configuration with which an empty volume is an error
 */
export function etcdMembersConfig(
  cluster: TsdbCluster,
  pods: readonly string[],
  state: 'new' | 'existing',
): KubeObject {
  const names = new Names(cluster);
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: childMetadata(cluster, names.etcdMembers, 'etcd'),
    data: {
      ETCD_INITIAL_CLUSTER: (pods.length === 0 ? [nobody] : pods)
        .map((pod) => `${pod}=${names.etcdPeerUrl(pod)}`)
        .join(','),
      ETCD_INITIAL_CLUSTER_STATE: state,
    },
  };
}

/** Of a member's volume. */
export function etcdClaimSpec({ spec }: TsdbCluster): object {
  const { className = classDefault, size = '8Gi' } = spec.etcd?.storage ?? {};
  return {
    accessModes: ['ReadWriteOnce'],
    storageClassName: className,
    resources: { requests: { storage: size } },
  };
}

/** Nothing for an external etcd. */
export function etcdObjects(cluster: TsdbCluster, images: ImageDefaults): KubeObject[] {
  if (cluster.spec.etcd?.external !== undefined) return [];
  const names = new Names(cluster);
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: childMetadata(cluster, names.etcd, 'etcd'),
      spec: {
        clusterIP: 'None',
        // Members find each other before they are ready.
        publishNotReadyAddresses: true,
        selector: selectorOf(cluster, 'etcd'),
        ports: [
          { name: 'client', port: port.etcdClient, protocol: 'TCP', targetPort: port.etcdClient },
          { name: 'peer', port: port.etcdPeer, protocol: 'TCP', targetPort: port.etcdPeer },
        ],
      },
    },
    statefulSet(cluster, images),
    // Also for one member: it may be the last of several, of which the others have not left yet.
    disruptionBudget(cluster, names.etcd, 'etcd'),
  ];
}

/** etcd reads certificate and key from disk at each handshake; the authority when it starts. */
const tlsArguments: readonly string[] = ['', 'peer-'].flatMap((side) => [
  `--${side}cert-file=${tlsFolder}/tls.crt`,
  `--${side}key-file=${tlsFolder}/tls.key`,
  `--${side}trusted-ca-file=${tlsFolder}/ca.crt`,
  `--${side}client-cert-auth`,
]);

function statefulSet(cluster: TsdbCluster, images: ImageDefaults): KubeObject {
  const names = new Names(cluster);
  const etcd = cluster.spec.etcd ?? {};
  const selector = selectorOf(cluster, 'etcd');
  const tls = tlsMount(etcd.tls?.serverSecret);
  const scheme = etcd.tls === undefined ? 'http' : 'https';
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: childMetadata(cluster, names.etcd, 'etcd'),
    spec: {
      replicas: etcdReplicasOf(cluster),
      serviceName: names.etcd,
      podManagementPolicy: 'Parallel',
      persistentVolumeClaimRetentionPolicy: {
        // They go with the TSDBCluster (etcd_part/claims.ts), not with a set that is deleted by mistake.
        whenDeleted: 'Retain',
        whenScaled: 'Retain',
      },
      // The operator replaces members itself: Kubernetes does not know quorum.
      updateStrategy: { type: 'OnDelete' },
      selector: { matchLabels: selector },
      template: overlaidTemplate(cluster, 'etcd', {
        metadata: { labels: selector },
        spec: {
          securityContext: podSecurity,
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          affinity: spreadOverHosts(selector),
          topologySpreadConstraints: spreadOverZones(selector, zoneLabelOf(cluster)),
          containers: [
            {
              name: 'etcd',
              image: etcd.image ?? images.etcd,
              command: ['etcd'],
              args: [
                '--name=$(POD_NAME)',
                '--data-dir=/var/lib/etcd/data',
                `--listen-client-urls=${scheme}://0.0.0.0:${port.etcdClient}`,
                `--advertise-client-urls=${names.etcdClientUrl('$(POD_NAME)')}`,
                `--listen-peer-urls=${scheme}://0.0.0.0:${port.etcdPeer}`,
                `--initial-advertise-peer-urls=${names.etcdPeerUrl('$(POD_NAME)')}`,
                ...(etcd.tls === undefined ? [] : tlsArguments),
                `--listen-metrics-urls=http://0.0.0.0:${port.etcdMetrics}`,
                `--initial-cluster-token=${cluster.metadata.uid}`,
                '--auto-compaction-mode=periodic',
                '--auto-compaction-retention=1h',
                `--quota-backend-bytes=${etcdQuotaBytes}`,
              ],
              env: [podNameVariable],
              envFrom: [{ configMapRef: { name: names.etcdMembers } }],
              ports: [
                { name: 'client', containerPort: port.etcdClient, protocol: 'TCP' },
                { name: 'peer', containerPort: port.etcdPeer, protocol: 'TCP' },
                { name: 'metrics', containerPort: port.etcdMetrics, protocol: 'TCP' },
              ],
              // Of its own listener, which also answers while the member has no quorum, or has not
              // joined.
              ...livenessProbes('/metrics', port.etcdMetrics),
              readinessProbe: {
                // Serializable: a member that has no quorum is still itself; the operator judges
                // quorum. An alarm is one of all members: with it each of them could be evicted at once.
                httpGet: {
                  path: '/health?serializable=true&exclude=NOSPACE&exclude=CORRUPT',
                  // Who speaks TLS wants a certificate of its clients, and the kubelet has none.
                  port: etcd.tls === undefined ? port.etcdClient : port.etcdMetrics,
                  scheme: 'HTTP',
                },
                periodSeconds: 2,
                timeoutSeconds: 2,
                failureThreshold: 3,
                successThreshold: 1,
              },
              ...resourcesOf(etcd.resources),
              securityContext: containerSecurity,
              volumeMounts: [{ name: 'data', mountPath: '/var/lib/etcd' }, ...tls.mounts],
            },
          ],
          ...(tls.volumes.length === 0 ? {} : { volumes: tls.volumes }),
        },
      }),
      volumeClaimTemplates: [
        {
          metadata: { name: 'data', labels: selector },
          spec: etcdClaimSpec(cluster),
        },
      ],
    },
  };
}
