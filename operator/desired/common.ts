/** What the builders of child objects share. */
import { configText } from '../overlay/config.ts';
import { contentHash } from '../resource/content_hash.ts';
import { annotation, apiVersion, label, managedBy, managedByLabel } from '../resource/keys.ts';
import type { KubeObject, ResourceRequirements } from '../resource/kube_objects.ts';
import type { Component } from '../resource/names.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';

/** Images that are taken where the resource names none. */
export interface ImageDefaults {
  readonly node: string;
  readonly coordinator: string;
  readonly aggregator: string;
  readonly etcd: string;
  /** Of the operator itself: jobs on snapshots of etcd run it. */
  readonly operator: string;
}

export type { Component } from '../resource/names.ts';

/** Of volumes for which the resource names none. */
export const classDefault = 'fast-disk';

/** What a child belongs to: the record and the snapshots of etcd outlive the cluster. */
export type Subject = Component | 'record' | 'etcd-snapshots' | 'etcd-restore';

/** Labels by which pods are selected: they never change. */
export function selectorOf(
  cluster: TsdbCluster,
  component: Subject,
  group?: string,
): Record<string, string> {
  return {
    [label.cluster]: cluster.metadata.name,
    [label.component]: component,
    ...(group === undefined ? {} : { [label.group]: group }),
  };
}

/** Metadata of a child: owned by the cluster's resource, so that it goes with it. */
export function childMetadata(
  cluster: TsdbCluster,
  name: string,
  component: Subject,
  group?: string,
): KubeObject['metadata'] {
  return {
    name,
    namespace: cluster.metadata.namespace!,
    labels: {
      'app.kubernetes.io/name': 'tsdb',
      'app.kubernetes.io/instance': cluster.metadata.name,
      'app.kubernetes.io/component': component,
      [managedByLabel]: managedBy,
      ...selectorOf(cluster, component, group),
    },
    ownerReferences: [
      {
        apiVersion,
        kind: 'TSDBCluster',
        name: cluster.metadata.name,
        uid: cluster.metadata.uid!,
        controller: true,
        blockOwnerDeletion: true,
      },
    ],
  };
}

/**
 * Names on the object what it is made from. The server's own additions hide what is wanted no more;
 * a changed name does not.
 * @param content what its later writes have in common
 */
export function marked(object: KubeObject, content: unknown = object): KubeObject {
  const template = templateOf(object);
  const annotations = {
    ...object.metadata.annotations,
    [annotation.content]: contentHash(content),
    ...(template === undefined ? {} : { [annotation.template]: contentHash(template) }),
  };
  return { ...object, metadata: { ...object.metadata, annotations } };
}

/** What the pods of a workload are made from; undefined for other objects, and for what ends. */
export function templateOf(object: KubeObject): unknown {
  if (object.kind === 'Job') return undefined;
  return (object['spec'] as { readonly template?: unknown } | undefined)?.template;
}

/**
 * The configuration of a component, named by its content: a change makes a new one, so that pods
 * roll and old ones keep theirs.
 * @param own what the operator sets, which is read last
 */
export function configMap(cluster: TsdbCluster, component: Component, own: string): KubeObject {
  const given = configText(cluster, component);
  const data = { [ownFile]: own, ...(given === null ? {} : { [givenFile]: given }) };
  const name = `${cluster.metadata.name}-${component}-${contentHash(data)}`;
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: childMetadata(cluster, name, component),
    immutable: true,
    data,
  };
}

const ownFile = 'tsdb.yml';
/** What the resource sets. */
const givenFile = 'given.yml';
const configFolder = '/etc/tsdb';

/** How a process is told of its configuration. */
export function configArguments(cluster: TsdbCluster, component: Component): string[] {
  const files = configText(cluster, component) === null ? [ownFile] : [givenFile, ownFile];
  return files.flatMap((file) => ['-f', `${configFolder}/${file}`]);
}

export const configMount: object = { name: 'config', mountPath: configFolder, readOnly: true };

/** At most one pod of these may be evicted at a time; an unready one always. */
export function disruptionBudget(
  cluster: TsdbCluster,
  name: string,
  component: Component,
): KubeObject {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: childMetadata(cluster, name, component),
    spec: {
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector: { matchLabels: selectorOf(cluster, component) },
    },
  };
}

/** Pods run under the restricted Pod Security Standard. */
export const podSecurity = {
  runAsNonRoot: true,
  runAsUser: 65532,
  runAsGroup: 65532,
  fsGroup: 65532,
  fsGroupChangePolicy: 'OnRootMismatch',
  seccompProfile: { type: 'RuntimeDefault' },
} as const;

export const containerSecurity = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
} as const;

export function resourcesOf(resources: ResourceRequirements | undefined): object {
  return resources === undefined ? {} : { resources };
}

export const podNameVariable = {
  name: 'POD_NAME',
  valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } },
} as const;

const zoneLabel = 'topology.kubernetes.io/zone';

/**
 * The label by which the isolation groups tell zones: all of them have it, so that machines do, and
 * not all the same, as that of a pool of machines may be. Null when none is.
 */
export function zoneLabelOf({ spec }: TsdbCluster): string | null {
  const affinities = spec.isolationGroups.map(
    ({ nodeAffinity = {} }) => new Map(Object.entries(nodeAffinity)),
  );
  const keys = [...(affinities[0]?.keys() ?? [])].filter((key) => {
    const values = affinities.map((affinity) => affinity.get(key));
    return !values.includes(undefined) && new Set(values).size > 1;
  });
  return keys.includes(zoneLabel) ? zoneLabel : (keys[0] ?? null);
}

/** @param required label that all machines have, by which pods must be spread; null for a wish */
export function spreadOverZones(
  selector: Record<string, string>,
  required: string | null,
): object[] {
  return [
    {
      maxSkew: 1,
      topologyKey: required ?? zoneLabel,
      whenUnsatisfiable: required === null ? 'ScheduleAnyway' : 'DoNotSchedule',
      labelSelector: { matchLabels: selector },
    },
  ];
}

/** Spread over Kubernetes nodes where possible; zones come from the isolation groups' affinity. */
export function spreadOverHosts(selector: Record<string, string>): object {
  return {
    podAntiAffinity: {
      preferredDuringSchedulingIgnoredDuringExecution: [
        {
          weight: 100,
          podAffinityTerm: {
            topologyKey: 'kubernetes.io/hostname',
            labelSelector: { matchLabels: selector },
          },
        },
      ],
    },
  };
}
