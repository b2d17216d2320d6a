/** What the operator tells Prometheus of each cluster, as of its last pass. */
import type { GaugeMetric, Metrics } from '#lib/metrics.ts';
import type { Observed } from './observe/observe.ts';
import { label } from './resource/keys.ts';
import type { Condition, CronJob } from './resource/kube_objects.ts';
import { podReady } from './resource/pod_state.ts';
import { Names } from './resource/names.ts';
import type { ClusterStatus } from './resource/tsdb_cluster.ts';

/** Of one cluster. */
export interface ClusterFigures {
  readonly conditions: ReadonlyMap<string, boolean>;
  readonly shardsByState: ReadonlyMap<string, number>;
  /** By component: how many there are and how many of them are ready. */
  readonly podsByComponent: ReadonlyMap<string, { readonly total: number; readonly ready: number }>;
  /** When it was looked at; null when the operator could not. */
  readonly passUnixSeconds: number | null;
  /** Of the last one of etcd, or when the first was asked for; null when none is. */
  readonly snapshotUnixSeconds: number | null;
}

/** A condition that is not published is not true. */
const conditionTypes: readonly string[] = [
  ...['Ready', 'Available', 'Reconciling', 'Stalled', 'Paused', 'ApprovalRequired'],
  ...['EtcdReady', 'PlacementInitialized', 'PlacementStable', 'NamespacesReady'],
];
const shardStates: readonly string[] = ['INITIALIZING', 'AVAILABLE', 'LEAVING'];

const conditionsTrue = (conditions: readonly Condition[]): ReadonlyMap<string, boolean> =>
  new Map(
    conditionTypes.map((type) => [
      type,
      conditions.some((one) => one.type === type && one.status === 'True'),
    ]),
  );

/** Of a cluster that the operator could not look at. */
export function unseenFigures(conditions: readonly Condition[]): ClusterFigures {
  return {
    conditions: conditionsTrue(conditions),
    shardsByState: new Map(),
    podsByComponent: new Map(),
    passUnixSeconds: null,
    snapshotUnixSeconds: null,
  };
}

export function figuresOf(
  { cluster, children, pods, coordinator, nowMillis }: Observed,
  { conditions = [] }: ClusterStatus,
): ClusterFigures {
  const { etcdSnapshots } = new Names(cluster);
  const schedule = children.get(`CronJob/${etcdSnapshots}`) as CronJob | undefined;
  const placement = coordinator.reachable ? coordinator.placement : null;
  const states = Object.values(placement?.instances ?? {}).flatMap(({ shards }) =>
    shards.map(({ state }) => state as string),
  );
  const byComponent = Map.groupBy(pods, ({ metadata }) => metadata.labels?.[label.component] ?? '');
  return {
    conditions: conditionsTrue(conditions),
    shardsByState: new Map(
      shardStates.map((state) => [state, states.filter((one) => one === state).length]),
    ),
    podsByComponent: new Map(
      [...byComponent].map(([component, own]) => [
        component,
        { total: own.length, ready: own.filter(podReady).length },
      ]),
    ),
    passUnixSeconds: nowMillis / 1000,
    snapshotUnixSeconds:
      schedule === undefined
        ? null
        : Date.parse(
            schedule.status?.lastSuccessfulTime ?? schedule.metadata.creationTimestamp ?? '',
          ) / 1000,
  };
}

export class ClusterMetrics {
  readonly #condition: GaugeMetric;
  readonly #shards: GaugeMetric;
  readonly #pods: GaugeMetric;
  readonly #pass: GaugeMetric;
  readonly #snapshot: GaugeMetric;
  /** By `namespace/name`; only of clusters that exist. */
  readonly #clusters = new Map<string, ClusterFigures>();

  constructor(metrics: Metrics) {
    const own = ['namespace', 'cluster'];
    this.#condition = metrics.gauge(
      'tsdb_operator_cluster_condition',
      'Whether the condition of a TSDBCluster is True.',
      [...own, 'condition'],
    );
    this.#shards = metrics.gauge(
      'tsdb_operator_cluster_shards',
      'Replicas of shards in the placement by state.',
      [...own, 'state'],
    );
    this.#pods = metrics.gauge('tsdb_operator_cluster_pods', 'Pods by component and readiness.', [
      ...own,
      'component',
      'ready',
    ]);
    this.#pass = metrics.gauge(
      'tsdb_operator_cluster_pass_timestamp_seconds',
      'When the operator looked at the cluster last.',
      own,
    );
    this.#snapshot = metrics.gauge(
      'tsdb_operator_cluster_etcd_snapshot_timestamp_seconds',
      'When the last snapshot of the own etcd of a TSDBCluster was taken, or the first was asked for.',
      own,
    );
  }

  /** @param figures null when the cluster is gone; all but the conditions of one that was not seen stay */
  note(key: string, figures: ClusterFigures | null): void {
    if (figures === null && !this.#clusters.delete(key)) return;
    if (figures !== null) {
      const seen = this.#clusters.get(key);
      const stay = figures.passUnixSeconds === null && seen !== undefined;
      this.#clusters.set(key, stay ? { ...seen, conditions: figures.conditions } : figures);
    }
    // Pods and clusters go: what is not said any more must not stay.
    const gauges = [this.#condition, this.#shards, this.#pods, this.#pass, this.#snapshot];
    for (const gauge of gauges) gauge.reset();
    for (const [each, of] of this.#clusters) this.#publish(each, of);
  }

  #publish(key: string, figures: ClusterFigures): void {
    const [namespace, cluster] = key.split('/') as [string, string];
    const own = { namespace, cluster };
    for (const [condition, isTrue] of figures.conditions) {
      this.#condition.set(isTrue ? 1 : 0, { ...own, condition });
    }
    for (const [state, count] of figures.shardsByState) this.#shards.set(count, { ...own, state });
    for (const [component, { total, ready }] of figures.podsByComponent) {
      this.#pods.set(ready, { ...own, component, ready: 'true' });
      this.#pods.set(total - ready, { ...own, component, ready: 'false' });
    }
    // Of a cluster that this process has never seen, that is longer ago than any alert waits.
    this.#pass.set(figures.passUnixSeconds ?? 0, own);
    if (figures.snapshotUnixSeconds !== null) this.#snapshot.set(figures.snapshotUnixSeconds, own);
  }
}
