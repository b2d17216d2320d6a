/**
 * Snapshots of a cluster's own etcd: a volume that outlives the cluster, a CronJob that writes to it,
 * and the Job that makes a first member from one of them. etcd's own tools do the work; before and
 * after them runs the operator's image (etcd_snapshots/commands.ts).
 */
import { noSnapshotExitCode, restoredFiles } from '../etcd_snapshots/commands.ts';
import { annotation } from '../resource/keys.ts';
import { contentHash } from '../resource/content_hash.ts';
import type { KubeObject } from '../resource/kube_objects.ts';
import { Names, port } from '../resource/names.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import {
  childMetadata,
  classDefault,
  containerSecurity,
  type ImageDefaults,
  podNameVariable,
  podSecurity,
  selectorOf,
} from './common.ts';
import { etcdTlsMount } from './discovery.ts';
import { etcdClaimSpec } from './etcd.ts';
import { tlsFolder } from './tls_mount.ts';

const scheduleDefault = '0 * * * *';
const keepDefault = 24;
const sizeDefault = '8Gi';
/** 2 GiB, etcd's quota, at a hundredth of what a disk writes. */
const jobSecondsMax = 3600;
const snapshotsFolder = '/snapshots';
const memberFolder = '/var/lib/etcd';

/** Nothing when the resource asks for none: those that are there stay. */
export function etcdSnapshotObjects(cluster: TsdbCluster, images: ImageDefaults): KubeObject[] {
  const { external, snapshots } = cluster.spec.etcd ?? {};
  if (external !== undefined || snapshots === undefined) return [];
  const names = new Names(cluster);
  const metadata = childMetadata(cluster, names.etcdSnapshots, 'etcd-snapshots');
  const { ownerReferences: _, ...unowned } = metadata;
  const incoming = '$(POD_NAME).incoming';
  const volumeMounts = [{ name: 'snapshots', mountPath: snapshotsFolder }];
  const tls = etcdTlsMount(cluster);
  const scheme = tls.mounts.length === 0 ? 'http' : 'https';
  const podSpec = jobPodSpec(cluster, {
    initContainers: [
      {
        name: 'save',
        image: etcdImage(cluster, images),
        command: ['etcdctl'],
        args: [
          `--endpoints=${scheme}://${names.etcd}.${names.namespace}.svc:${port.etcdClient}`,
          ...(tls.mounts.length === 0 ? [] : tlsArguments),
          ...['snapshot', 'save', `${snapshotsFolder}/${incoming}`],
        ],
        env: [podNameVariable],
        volumeMounts: [...volumeMounts, ...tls.mounts],
      },
    ],
    containers: [
      {
        name: 'keep',
        image: images.operator,
        args: [
          'keep-etcd-snapshot',
          snapshotsFolder,
          incoming,
          String(snapshots.keep ?? keepDefault),
        ],
        env: [podNameVariable],
        volumeMounts,
      },
    ],
    volumes: [claimVolume('snapshots', names.etcdSnapshots), ...tls.volumes],
  });
  return [
    {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: unowned,
      spec: {
        accessModes: ['ReadWriteOnce'],
        storageClassName: snapshots.storage?.className ?? classDefault,
        resources: { requests: { storage: snapshots.storage?.size ?? sizeDefault } },
      },
    },
    {
      apiVersion: 'batch/v1',
      kind: 'CronJob',
      metadata,
      spec: {
        schedule: snapshots.schedule ?? scheduleDefault,
        concurrencyPolicy: 'Forbid',
        startingDeadlineSeconds: jobSecondsMax,
        successfulJobsHistoryLimit: 1,
        failedJobsHistoryLimit: 1,
        jobTemplate: {
          metadata: { labels: metadata.labels },
          spec: {
            backoffLimit: 3,
            activeDeadlineSeconds: jobSecondsMax,
            template: {
              metadata: { labels: selectorOf(cluster, 'etcd-snapshots') },
              spec: podSpec,
            },
          },
        },
      },
    },
  ];
}

const tlsArguments: readonly string[] = [
  `--cacert=${tlsFolder}/ca.crt`,
  `--cert=${tlsFolder}/tls.crt`,
  `--key=${tlsFolder}/tls.key`,
];

export function restoreJobName(cluster: TsdbCluster, snapshot: string): string {
  return `${new Names(cluster).etcdRestore}-${contentHash([cluster.metadata.uid, snapshot])}`;
}

/**
 * The volume of the first member, and the Job that fills it: etcd begins with that member alone, and
 * the others join it.
 */
export function etcdRestoreObjects(
  cluster: TsdbCluster,
  images: ImageDefaults,
  snapshot: string,
): KubeObject[] {
  const names = new Names(cluster);
  const pod = names.etcdPod(0);
  const peerUrl = names.etcdPeerUrl(pod);
  const claim = childMetadata(cluster, `data-${pod}`, 'etcd');
  const { ownerReferences: _, ...unowned } = claim;
  const member = { name: 'data', mountPath: memberFolder };
  const snapshots = { name: 'snapshots', mountPath: snapshotsFolder };
  const podSpec = jobPodSpec(cluster, {
    initContainers: [
      {
        name: 'fetch',
        image: images.operator,
        args: ['fetch-etcd-snapshot', snapshotsFolder, snapshot, memberFolder],
        env: [podNameVariable],
        volumeMounts: [member, snapshots],
      },
      {
        name: 'restore',
        image: etcdImage(cluster, images),
        command: ['etcdutl'],
        args: [
          ...['snapshot', 'restore', `${memberFolder}/${restoredFiles.snapshot}`],
          `--data-dir=${memberFolder}/${restoredFiles.incomplete}`,
          `--name=${pod}`,
          `--initial-cluster=${pod}=${peerUrl}`,
          `--initial-advertise-peer-urls=${peerUrl}`,
          `--initial-cluster-token=${cluster.metadata.uid}`,
        ],
        volumeMounts: [member],
      },
    ],
    containers: [
      {
        name: 'finish',
        image: images.operator,
        args: ['finish-etcd-restore', memberFolder],
        env: [podNameVariable],
        volumeMounts: [member],
      },
    ],
    volumes: [claimVolume('data', `data-${pod}`), claimVolume('snapshots', names.etcdSnapshots)],
  });
  return [
    {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: {
        ...unowned,
        annotations: { [annotation.restoredBy]: restoreJobName(cluster, snapshot) },
      },
      spec: etcdClaimSpec(cluster),
    },
    {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: childMetadata(cluster, restoreJobName(cluster, snapshot), 'etcd-restore'),
      spec: {
        backoffLimit: 3,
        // What is not there, or damaged, is not there at the next attempt either.
        podFailurePolicy: {
          rules: [
            {
              action: 'FailJob',
              onExitCodes: {
                containerName: 'fetch',
                operator: 'In',
                values: [noSnapshotExitCode],
              },
            },
          ],
        },
        activeDeadlineSeconds: jobSecondsMax,
        template: { metadata: { labels: selectorOf(cluster, 'etcd-restore') }, spec: podSpec },
      },
    },
  ];
}

const etcdImage = ({ spec }: TsdbCluster, images: ImageDefaults): string =>
  spec.etcd?.image ?? images.etcd;

const claimVolume = (name: string, claimName: string): object => ({
  name,
  persistentVolumeClaim: { claimName },
});

interface JobPod {
  readonly initContainers: readonly object[];
  readonly containers: readonly object[];
  readonly volumes: readonly object[];
}

/** By which they are placed, and get their images, as the members are. */
const placedBy = ['imagePullSecrets', 'nodeSelector', 'tolerations', 'priorityClassName'];

function jobPodSpec(
  { spec }: TsdbCluster,
  { initContainers, containers, volumes }: JobPod,
): object {
  const ofMembers = Object.entries((spec.etcd?.podTemplate?.['spec'] ?? {}) as object);
  const secured = (container: object): object => ({
    ...container,
    securityContext: containerSecurity,
    // What a tool says last stands in the pod's status, which the operator reads.
    terminationMessagePolicy: 'FallbackToLogsOnError',
  });
  return {
    ...Object.fromEntries(ofMembers.filter(([field]) => placedBy.includes(field))),
    restartPolicy: 'Never',
    securityContext: podSecurity,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    initContainers: initContainers.map(secured),
    containers: containers.map(secured),
    volumes,
  };
}
