/** Objects of the Kubernetes API, as far as the operator reads them. */
import { apiVersion } from './keys.ts';

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

export interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly finalizers?: readonly string[];
  /** Who has written which fields last. */
  readonly managedFields?: readonly Readonly<Record<string, unknown>>[];
}

/** Any object of the Kubernetes API; its further members are plain JSON. */
export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Metadata;
  readonly [member: string]: unknown;
}

export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly observedGeneration?: number;
  readonly lastTransitionTime: string;
  readonly reason: string;
  readonly message: string;
}

export interface ResourceRequirements {
  readonly requests?: Readonly<Record<string, string | number>>;
  readonly limits?: Readonly<Record<string, string | number>>;
}

export interface StatefulSet extends KubeObject {
  readonly spec: {
    readonly replicas?: number;
    readonly persistentVolumeClaimRetentionPolicy?: { readonly whenScaled?: 'Retain' | 'Delete' };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly readyReplicas?: number;
    readonly updatedReplicas?: number;
    readonly currentRevision?: string;
    readonly updateRevision?: string;
  };
}

export interface Deployment extends KubeObject {
  readonly spec: { readonly replicas?: number };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly availableReplicas?: number;
    readonly updatedReplicas?: number;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly message?: string;
    }[];
  };
}

export interface Pod extends KubeObject {
  readonly status?: {
    /** Of the `spec` that the kubelet has seen; since Kubernetes 1.34. */
    readonly observedGeneration?: number;
    readonly phase?: string;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
      readonly message?: string;
      readonly lastTransitionTime?: string;
    }[];
    readonly containerStatuses?: readonly ContainerStatus[];
    readonly initContainerStatuses?: readonly ContainerStatus[];
  };
}

export interface ContainerStatus {
  readonly name?: string;
  readonly ready: boolean;
  readonly restartCount: number;
  readonly image?: string;
  readonly state?: ContainerState;
  readonly lastState?: ContainerState;
}

export interface ContainerState {
  readonly running?: object;
  readonly waiting?: { readonly reason?: string; readonly message?: string };
  readonly terminated?: {
    readonly exitCode?: number;
    readonly reason?: string;
    readonly message?: string;
    readonly finishedAt?: string;
  };
}

export interface CronJob extends KubeObject {
  readonly status?: { readonly lastSuccessfulTime?: string };
}

export interface Job extends KubeObject {
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly message?: string;
      readonly lastTransitionTime?: string;
    }[];
  };
}

/** Identity of a kind in the API's paths. */
export interface Resource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
}

/** The kinds that the operator reads or writes. */
export const resource: Record<
  | 'cluster'
  | 'namespace'
  | 'statefulSet'
  | 'deployment'
  | 'replicaSet'
  | 'service'
  | 'configMap'
  | 'secret'
  | 'pod'
  | 'volumeClaim'
  | 'disruptionBudget'
  | 'networkPolicy'
  | 'cronJob'
  | 'job'
  | 'kubeNamespace'
  | 'lease'
  | 'machine'
  | 'volume'
  | 'event',
  Resource
> = {
  cluster: { apiVersion, kind: 'TSDBCluster', plural: 'tsdbclusters' },
  namespace: { apiVersion, kind: 'TSDBNamespace', plural: 'tsdbnamespaces' },
  statefulSet: { apiVersion: 'apps/v1', kind: 'StatefulSet', plural: 'statefulsets' },
  deployment: { apiVersion: 'apps/v1', kind: 'Deployment', plural: 'deployments' },
  replicaSet: { apiVersion: 'apps/v1', kind: 'ReplicaSet', plural: 'replicasets' },
  service: { apiVersion: 'v1', kind: 'Service', plural: 'services' },
  configMap: { apiVersion: 'v1', kind: 'ConfigMap', plural: 'configmaps' },
  secret: { apiVersion: 'v1', kind: 'Secret', plural: 'secrets' },
  pod: { apiVersion: 'v1', kind: 'Pod', plural: 'pods' },
  volumeClaim: {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    plural: 'persistentvolumeclaims',
  },
  disruptionBudget: {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    plural: 'poddisruptionbudgets',
  },
  networkPolicy: {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    plural: 'networkpolicies',
  },
  cronJob: { apiVersion: 'batch/v1', kind: 'CronJob', plural: 'cronjobs' },
  job: { apiVersion: 'batch/v1', kind: 'Job', plural: 'jobs' },
  kubeNamespace: { apiVersion: 'v1', kind: 'Namespace', plural: 'namespaces' },
  machine: { apiVersion: 'v1', kind: 'Node', plural: 'nodes' },
  volume: { apiVersion: 'v1', kind: 'PersistentVolume', plural: 'persistentvolumes' },
  lease: { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', plural: 'leases' },
  event: { apiVersion: 'v1', kind: 'Event', plural: 'events' },
};

/** A status of an older generation knows neither the newest revision nor the wanted replicas. */
export function isStale(object: {
  readonly metadata: { readonly generation?: number };
  readonly status?: { readonly observedGeneration?: number };
}): boolean {
  return object.status?.observedGeneration !== object.metadata.generation;
}

/** Of a claim of a volume: nothing was ever written to it: no machine has it yet. */
export const isUnbound = (claim: KubeObject): boolean =>
  (claim['status'] as { readonly phase?: string } | undefined)?.phase === 'Pending';
