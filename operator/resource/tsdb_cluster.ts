/**
 * A TSDBCluster as the operator reads it. A field of the resource is here, in the schema of
 * crds/tsdbclusters.yaml (Kubernetes drops what that does not name; a test compares the two), and
 * in the builder of desired/ that puts it into an object: nodes.ts, coordinator.ts or etcd.ts.
 */
import { TsdbError } from '#lib/errors.ts';
import { parseDurationNanos } from '#lib/time.ts';
import { contentHash } from './content_hash.ts';
import type { Condition, KubeObject, ResourceRequirements } from './kube_objects.ts';
import type { NamespaceSpec } from './tsdb_namespace.ts';

export interface ClusterSpec {
  readonly replicationFactor: number;
  readonly numberOfShards: number;
  readonly nodes: {
    readonly replicasPerGroup: number;
    readonly image?: string;
    readonly storage?: StorageSpec;
    readonly resources?: ResourceRequirements;
    readonly replaceAfter?: string;
    readonly config?: ComponentConfig;
    readonly podTemplate?: PodTemplate;
    readonly maxUnavailable?: number | string;
  };
  readonly isolationGroups: readonly IsolationGroupSpec[];
  readonly etcd?: {
    readonly replicas?: number;
    readonly image?: string;
    readonly storage?: StorageSpec;
    readonly resources?: ResourceRequirements;
    readonly snapshots?: {
      readonly schedule?: string;
      readonly keep?: number;
      readonly storage?: StorageSpec;
    };
    readonly podTemplate?: PodTemplate;
    readonly tls?: { readonly serverSecret: string; readonly clientSecret: string };
    readonly external?: { readonly endpoints: readonly string[]; readonly tlsSecret?: string };
  };
  readonly coordinator?: {
    readonly replicas?: number;
    readonly image?: string;
    readonly resources?: ResourceRequirements;
    readonly podTemplate?: PodTemplate;
    readonly config?: ComponentConfig;
    readonly service?: { readonly annotations?: Readonly<Record<string, string>> };
  };
  /** Rollups are made by coordinators without it. */
  readonly aggregator?: {
    readonly pairs?: number;
    readonly image?: string;
    readonly resources?: ResourceRequirements;
    readonly podTemplate?: PodTemplate;
    readonly config?: ComponentConfig;
  };
  readonly namespaces?: readonly (NamespaceSpec & { readonly name: string })[];
  readonly updatePolicy?: 'Automatic' | 'Gated';
  readonly maintenanceWindows?: readonly MaintenanceWindow[];
  readonly deletionPolicy?: {
    readonly data?: 'Retain' | 'Delete';
    readonly metadata?: 'Retain' | 'Delete';
  };
  readonly paused?: boolean;
  readonly networkPolicies?: boolean;
  /** Of the nodes, under that of `nodes`. */
  readonly podTemplate?: PodTemplate;
}

/** As a section of a configuration file (docs/CONFIGURATION.md); overlay/config.ts checks it. */
export type ComponentConfig = Readonly<Record<string, unknown>>;

/** Laid over the operator's; overlay/pod_rules.ts has what it may say. */
export type PodTemplate = Readonly<Record<string, unknown>>;

export interface MaintenanceWindow {
  /** All when not set. */
  readonly days?: readonly ('Mon' | 'Tue' | 'Wed' | 'Thu' | 'Fri' | 'Sat' | 'Sun')[];
  /** `HH:MM`. */
  readonly start: string;
  readonly duration: string;
  /** UTC when not set. */
  readonly timeZone?: string;
}

export interface StorageSpec {
  readonly className?: string;
  readonly size?: string;
}

export interface IsolationGroupSpec {
  readonly name: string;
  readonly nodeAffinity?: Readonly<Record<string, string>>;
  readonly storageClassName?: string;
}

export interface ClusterStatus {
  readonly observedGeneration?: number;
  /** The generation with which all pods were of the newest revision last. */
  readonly rolledGeneration?: number;
  /** `podsHash` of that generation. */
  readonly rolledPods?: string;
  /** Of each component the image that all of its pods run, which serve. */
  readonly images?: {
    readonly etcd?: string;
    readonly node?: string;
    readonly coordinator?: string;
    readonly aggregator?: string;
  };
  readonly phase?: string;
  readonly replicasPerGroup?: number;
  readonly groupCount?: number;
  readonly selector?: string;
  readonly shards?: string;
  readonly placementVersion?: number;
  readonly plan?: { readonly hash: string; readonly actions: readonly string[] };
  /** Of the maintenance windows, when there are any; `until` is RFC 3339. */
  readonly maintenanceWindow?: { readonly open: boolean; readonly until?: string };
  readonly groups?: readonly {
    readonly name: string;
    readonly replicas: number;
    readonly readyReplicas: number;
    readonly updatedReplicas: number;
  }[];
  readonly nodes?: readonly { readonly id: string; readonly ready: boolean }[];
  readonly etcd?: {
    readonly replicas: number;
    readonly readyReplicas: number;
    readonly members?: readonly {
      readonly name: string;
      readonly id: string;
      readonly version: string;
      readonly leader: boolean;
      readonly learner: boolean;
    }[];
    readonly snapshots?: {
      readonly lastSuccessfulTime?: string;
      readonly name?: string;
      readonly bytes?: number;
    };
  };
  /** Not there without `spec.aggregator`. */
  readonly aggregator?: { readonly replicas: number; readonly readyReplicas: number };
  readonly namespaces?: readonly { readonly name: string; readonly ready: boolean }[];
  readonly conditions?: readonly Condition[];
}

export interface TsdbCluster extends KubeObject {
  readonly spec: ClusterSpec;
  readonly status?: ClusterStatus;
}

const etcdReplicasDefault = 3;
/** More there may never be: the schema takes no more. */
export const etcdReplicasMax = 5;

/** Members that an etcd of the cluster's own is to have. */
export function etcdReplicasOf({ spec }: TsdbCluster): number {
  return spec.etcd?.replicas ?? etcdReplicasDefault;
}

const aggregatorPairsDefault = 1;

/** Aggregators of a shard set. */
export const pairSize = 2;
/** As many as the definition takes. */
export const aggregatorPodsMax: number = 32 * pairSize;

/** Of `spec.aggregator`; none without it. */
export function aggregatorPods({ spec: { aggregator } }: TsdbCluster): number {
  return aggregator === undefined ? 0 : pairSize * (aggregator.pairs ?? aggregatorPairsDefault);
}

const replaceAfterDefault = '15m';

/** For how long the machine of a volume is waited for; null for ever. */
export function replaceAfterMillis({ spec }: TsdbCluster): number | null {
  const { replaceAfter = replaceAfterDefault } = spec.nodes;
  if (replaceAfter === 'never') return null;
  try {
    return Number(parseDurationNanos(replaceAfter, 'replaceAfter') / 1_000_000n);
  } catch (error) {
    // Longer than can be told: for ever.
    if (error instanceof TsdbError && error.code === 'BAD_REQUEST') return null;
    throw error;
  }
}

/** For logs: clusters of one name are in many namespaces. */
export function pathOf({ metadata }: TsdbCluster): string {
  return `${metadata.namespace}/${metadata.name}`;
}

/** Tells whether a change of the resource is one of its pods, and not of their number or of what is around them. */
export function podsHash({ spec }: TsdbCluster): string {
  const {
    namespaces: _namespaces,
    paused: _paused,
    updatePolicy: _updatePolicy,
    maintenanceWindows: _maintenanceWindows,
    deletionPolicy: _deletionPolicy,
    networkPolicies: _networkPolicies,
    ...pods
  } = spec;
  const {
    replicasPerGroup: _nodes,
    maxUnavailable: _max,
    replaceAfter: _after,
    ...nodes
  } = spec.nodes;
  const { replicas: _members, snapshots: _snapshots, ...etcd } = spec.etcd ?? {};
  const { replicas: _coordinators, service: _service, ...coordinator } = spec.coordinator ?? {};
  const { pairs: _pairs, ...aggregator } = spec.aggregator ?? {};
  const others = spec.aggregator === undefined ? {} : { aggregator };
  return contentHash({ ...pods, nodes, etcd, coordinator, ...others });
}
