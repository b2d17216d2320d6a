/** Names and addresses of everything that belongs to one cluster. */
import { aggregatorPodsMax, pairSize, type TsdbCluster } from '../resource/tsdb_cluster.ts';
import type { InstanceRequest } from '../coordinator/coordinator_client.ts';

/** What a cluster is made of; the name of its container, too. */
export type Component = 'node' | 'etcd' | 'coordinator' | 'aggregator';

export const port = {
  grpc: 9000,
  grpcCluster: 9001,
  httpNode: 9002,
  httpCluster: 9003,
  debug: 9004,
  nodeMetrics: 9005,
  coordinator: 7201,
  coordinatorMetrics: 7203,
  carbon: 7204,
  carbonPickle: 7214,
  statsd: 8125,
  statsdSharing: 8127,
  otlp: 4317,
  opentsdb: 4242,
  etcdClient: 2379,
  etcdPeer: 2380,
  etcdMetrics: 2381,
  aggregator: 6000,
  aggregatorHttp: 6001,
  aggregatorMetrics: 6002,
} as const;

/** The placement's zone; storage classes and affinity carry the real one. */
export const placementZone = 'embedded';

/** Other texts are the name of no object of Kubernetes, and of no cluster. */
export const isObjectName = (text: string): boolean =>
  /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(text);

export class Names {
  readonly cluster: string;
  readonly namespace: string;
  readonly #etcdScheme: 'http' | 'https';

  constructor(cluster: TsdbCluster) {
    this.#etcdScheme = cluster.spec.etcd?.tls === undefined ? 'http' : 'https';
    this.cluster = cluster.metadata.name;
    this.namespace = cluster.metadata.namespace!;
  }

  get nodes(): string {
    return `${this.cluster}-nodes`;
  }

  get etcd(): string {
    return `${this.cluster}-etcd`;
  }

  /** Of the ConfigMap by which members of etcd find each other when they first start. */
  get etcdMembers(): string {
    return `${this.cluster}-etcd-members`;
  }

  /** Of the volume of snapshots, and of the CronJob that writes them. */
  get etcdSnapshots(): string {
    return `${this.cluster}-etcd-snapshots`;
  }

  get etcdRestore(): string {
    return `${this.cluster}-etcd-restore`;
  }

  etcdPod(ordinal: number): string {
    return `${this.etcd}-${ordinal}`;
  }

  /** Of a pod of etcd; null for another one. */
  etcdOrdinal(pod: string): number | null {
    const rest = pod.startsWith(`${this.etcd}-`) ? pod.slice(this.etcd.length + 1) : '';
    return /^(0|[1-9][0-9]*)$/.test(rest) ? Number(rest) : null;
  }

  /** Of the member that a volume claim belongs to; null for other claims. */
  etcdOrdinalOfClaim(claim: string): number | null {
    return claim.startsWith('data-') ? this.etcdOrdinal(claim.slice('data-'.length)) : null;
  }

  etcdPeerUrl(pod: string): string {
    return `${this.#etcdScheme}://${this.host(pod, this.etcd)}:${port.etcdPeer}`;
  }

  etcdClientUrl(pod: string): string {
    return `${this.#etcdScheme}://${this.host(pod, this.etcd)}:${port.etcdClient}`;
  }

  get coordinator(): string {
    return `${this.cluster}-coordinator`;
  }

  get aggregators(): string {
    return `${this.cluster}-aggregators`;
  }

  aggregatorPod(ordinal: number): string {
    return `${this.aggregators}-${ordinal}`;
  }

  /** Of a pod or an instance; null for another one, and where the operator makes none. */
  aggregatorOrdinal(id: string): number | null {
    const rest = id.startsWith(`${this.aggregators}-`) ? id.slice(this.aggregators.length + 1) : '';
    const ordinal = /^(0|[1-9][0-9]*)$/.test(rest) ? Number(rest) : aggregatorPodsMax;
    return ordinal < aggregatorPodsMax ? ordinal : null;
  }

  get record(): string {
    return `${this.cluster}-record`;
  }

  group(group: string): string {
    return `${this.cluster}-${group}`;
  }

  pod(group: string, ordinal: number): string {
    return `${this.group(group)}-${ordinal}`;
  }

  /**
   * Ordinal of a pod or instance of this group; null for those of others, also of a group `x-y` for
   * `x`.
   */
  ordinalIn(group: string, id: string): number | null {
    const prefix = `${this.group(group)}-`;
    const rest = id.startsWith(prefix) ? id.slice(prefix.length) : '';
    return /^(0|[1-9][0-9]*)$/.test(rest) ? Number(rest) : null;
  }

  host(pod: string, service: string): string {
    return `${pod}.${service}.${this.namespace}.svc`;
  }

  /**
   * Scopes the keys in etcd, which several clusters may share; no Kubernetes name has an
   * underscore.
   */
  get environment(): string {
    return `${this.namespace}_${this.cluster}`;
  }

  get coordinatorUrl(): string {
    return `http://${this.coordinator}.${this.namespace}.svc:${port.coordinator}`;
  }

  /** Pods 2n and 2n + 1 are a pair; which of its two places one has is its isolation group. */
  aggregatorInstance(ordinal: number): InstanceRequest {
    const pod = this.aggregatorPod(ordinal);
    const hostname = this.host(pod, this.aggregators);
    return {
      id: pod,
      isolation_group: ordinal % pairSize === 0 ? 'even' : 'odd',
      zone: placementZone,
      weight: 100,
      endpoint: `${hostname}:${port.aggregator}`,
      hostname,
      port: port.aggregator,
      shard_set_id: Math.floor(ordinal / 2) + 1,
    };
  }

  instance(group: string, pod: string): InstanceRequest {
    const hostname = this.host(pod, this.nodes);
    return {
      id: pod,
      isolation_group: group,
      zone: placementZone,
      weight: 100,
      endpoint: `${hostname}:${port.grpc}`,
      hostname,
      port: port.grpc,
    };
  }
}
