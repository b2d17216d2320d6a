/** Reads everything about one cluster, live, into one plain object. */
import { messageOf } from '#lib/errors.ts';
import {
  type Deployment,
  type KubeObject,
  type Pod,
  resource,
  type StatefulSet,
} from '../resource/kube_objects.ts';
import type { ActionFailure, ActionFailures } from '../action/failures.ts';
import { Names } from '../resource/names.ts';
import type { EtcdAdmin, EtcdView } from '../etcd/etcd_admin.ts';
import type { Action } from '../action/action.ts';
import { type ClusterRecord, recordOf } from '../record/record.ts';
import { label, managedBy, managedByLabel } from '../resource/keys.ts';
import { replaceAfterMillis, type TsdbCluster } from '../resource/tsdb_cluster.ts';
import type { TsdbNamespace } from '../resource/tsdb_namespace.ts';
import type {
  Coordinator,
  InstanceHealth,
  NamespaceView,
  PlacementView,
} from '../coordinator/coordinator_client.ts';
import { coordinatorTroubles } from './pod_trouble.ts';
import type { TlsSecrets } from './tls_secrets.ts';
import { type AwaySince, type Machines, type Reach, volumeReaches } from './volume_reach.ts';
import { foreignClaims } from './foreign_claims.ts';
import { olderReplicaSets, predecessorObjects } from './predecessor.ts';
import { type KubeClient, resourceOf } from '../kube/kube_api.ts';

/** What the coordinator said, or why it could not be asked. */
export type CoordinatorView =
  | { readonly reachable: false; readonly problem: string }
  | {
      readonly reachable: true;
      /** null: there is none yet. */
      readonly placement: PlacementView | null;
      /** The key-value store has gone back, or was made anew: nothing is changed before its approval. */
      readonly awaitsApproval: boolean;
      /** Of aggregators; null when there are none; why it cannot be read. */
      readonly aggregators: PlacementView | string | null;
      readonly namespaces: ReadonlyMap<string, NamespaceView>;
      /** By instance; null when nobody can be asked for them, a text when nobody answered. */
      readonly healths: ReadonlyMap<string, InstanceHealth> | string | null;
    };

export interface Observed {
  readonly cluster: TsdbCluster;
  /** TSDBNamespaces that name this cluster. */
  readonly claims: readonly TsdbNamespace[];
  /** Every object that the operator makes, by `kind/name`. */
  readonly children: ReadonlyMap<string, KubeObject>;
  /** Of nodes and etcd: those that the operator rolls itself. */
  readonly statefulSets: ReadonlyMap<string, StatefulSet>;
  /** That of aggregators; null when there is none. */
  readonly aggregators: StatefulSet | null;
  readonly deployments: ReadonlyMap<string, Deployment>;
  readonly pods: readonly Pod[];
  readonly volumeClaims: readonly KubeObject[];
  /** Names of claims of others under names that ours would have. */
  readonly foreignClaims: readonly string[];
  /** What Kubernetes still takes away of a cluster of the same name that was deleted before. */
  readonly predecessor: readonly string[];
  readonly coordinator: CoordinatorView;
  /** Its own etcd; null for an external one. */
  readonly etcd: EtcdView | null;
  readonly tlsSecrets: TlsSecrets;
  /**
   * Hash of the wanted object that made the live one, by `kind/name`, where the server writes it
   * otherwise.
   */
  readonly appliedAs: ReadonlyMap<string, string>;
  /** What outlives the cluster; null when there is nothing, or nothing that can be read. */
  readonly record: ClusterRecord | null;
  /** Why the record cannot be read; null when it can. */
  readonly recordProblem: string | null;
  /** Of the very same action; null when it has not failed since it succeeded last. */
  readonly failureOf: (action: Action) => ActionFailure | null;
  /** Of whatever was asked last under this key (`keyOf`). */
  readonly failureOfKey: (key: string) => ActionFailure | null;
  /**
   * Pods that cannot be placed since no machine that reaches their volume is there, and since when,
   * unix milliseconds.
   */
  readonly awaySinceMillis: ReadonlyMap<string, number>;
  /** Pods that cannot be placed, of which nobody can tell whether their volume is out of reach. */
  readonly unknownReach: readonly string[];
  /** By the clock of this process, unix milliseconds. */
  readonly nowMillis: number;
  /** Pods may be replaced because the operator has changed: one cluster after the other. */
  readonly mayRoll: boolean;
  /** Clusters whose turn it is. */
  readonly rolledNow: readonly string[];
}

/**
 * What only this process knows of earlier passes. Without it one more pass brings it back, and what is
 * waited for since some time is waited for from the start.
 */
export interface Memory {
  appliedAs(live: KubeObject): string | null;
  readonly failures: Pick<ActionFailures, 'of' | 'ofKey'>;
  readonly awaySince: AwaySince;
  readonly mayRoll: boolean;
  /** Clusters whose turn it is. */
  readonly rolledNow: readonly string[];
  readonly nowMillis: number;
}

export const childKey = (object: KubeObject): string => `${object.kind}/${object.metadata.name}`;

/** Made by this very resource. */
export function isOurs({ cluster }: Pick<Observed, 'cluster'>, object: KubeObject): boolean {
  return (object.metadata.ownerReferences ?? []).some(
    (owner) => owner.controller === true && owner.uid === cluster.metadata.uid,
  );
}

/** Made for a resource of this name that has gone without its children, or outlives them by intent. */
export function isOrphaned({ cluster }: Pick<Observed, 'cluster'>, object: KubeObject): boolean {
  const { labels = {}, ownerReferences = [] } = object.metadata;
  return (
    ownerReferences.every((owner) => owner.controller !== true) &&
    labels[label.cluster] === cluster.metadata.name &&
    labels[managedByLabel] === managedBy
  );
}

export async function observe(
  cluster: TsdbCluster,
  claims: readonly TsdbNamespace[],
  sources: {
    readonly api: KubeClient;
    readonly coordinator: Coordinator;
    /** Null for an external one. */
    readonly etcd: EtcdAdmin | null;
    readonly tlsSecrets: TlsSecrets;
    /** Objects that the operator is going to have: whoever has their names is looked at. */
    readonly wanted: readonly KubeObject[];
    readonly memory: Memory;
    readonly machines: Machines;
  },
  signal: AbortSignal,
): Promise<Observed> {
  const { api, coordinator, etcd, memory } = sources;
  const namespace = cluster.metadata.namespace!;
  const selector = `${label.cluster}=${cluster.metadata.name}`;
  const listed = async (kind: keyof typeof resource) =>
    (await api.list(resource[kind], namespace, selector, signal)).items;
  const [
    services,
    configMaps,
    budgets,
    policies,
    statefulSets,
    deployments,
    cronJobs,
    jobs,
    pods,
    volumeClaims,
  ] = await Promise.all([
    listed('service'),
    listed('configMap'),
    listed('disruptionBudget'),
    listed('networkPolicy'),
    listed('statefulSet'),
    listed('deployment'),
    listed('cronJob'),
    listed('job'),
    listed('pod'),
    listed('volumeClaim'),
  ]);
  const found = [
    ...services,
    ...configMaps,
    ...budgets,
    ...policies,
    ...statefulSets,
    ...deployments,
    ...cronJobs,
    ...jobs,
    ...volumeClaims,
  ];
  const live = new Map(found.map((object) => [childKey(object), object]));
  const ofKind = <T extends KubeObject>(kind: string) =>
    new Map(
      [...live.values()]
        // Of others too: they are looked at, and never scaled or waited for.
        .filter(
          (object) =>
            object.kind === kind &&
            (isOurs({ cluster }, object) || isOrphaned({ cluster }, object)),
        )
        .map((object) => [object.metadata.name, object as T]),
    );
  // One that a name is taken by, without our label, must be seen before it is written over.
  for (const wanted of sources.wanted) {
    if (live.has(childKey(wanted))) continue;
    const { name } = wanted.metadata;
    const object = await api.get(resourceOf(wanted), namespace, name, signal);
    if (object !== null) live.set(childKey(wanted), object);
  }
  const objects = [...live.values(), ...pods];
  const replicaSets = await olderReplicaSets(cluster, pods, api, signal);
  const { nowMillis } = memory;
  const predecessor = predecessorObjects({ cluster, objects, replicaSets, nowMillis });
  // Who answers may be the predecessor's, and is only asked when that has gone.
  const problem =
    predecessor.length === 0 ? null : `of the cluster before there is ${predecessor.join(', ')}`;
  const appliedAs = [...live].flatMap(([key, object]) => {
    const hash = memory.appliedAs(object);
    return hash === null ? [] : [[key, hash] as const];
  });
  const names = new Names(cluster);
  const sets = ofKind<StatefulSet>('StatefulSet');
  const members = pods.map(({ metadata }) => metadata.name);
  const etcdPods = members.filter((name) => names.etcdOrdinal(name) !== null).sort();
  const record = recordOf(live.get(`ConfigMap/${names.record}`));
  const placed = pods as readonly KubeObject[] as readonly Pod[];
  const isAsked = replaceAfterMillis(cluster) !== null;
  const reaches = isAsked
    ? await volumeReaches(placed, volumeClaims, sources.machines, signal)
    : new Map<string, Reach>();
  return {
    cluster,
    claims,
    children: live,
    statefulSets: new Map([...sets].filter(([name]) => name !== names.aggregators)),
    aggregators: sets.get(names.aggregators) ?? null,
    deployments: ofKind<Deployment>('Deployment'),
    pods: placed,
    volumeClaims,
    foreignClaims: await foreignClaims(cluster, volumeClaims, api, signal),
    predecessor,
    coordinator:
      problem === null
        ? await coordinatorView(coordinator, startingText(names, live, placed), signal)
        : { reachable: false, problem },
    etcd:
      etcd === null
        ? null
        : problem === null
          ? await etcd.view(etcdPods, signal)
          : { reachable: false, problem },
    tlsSecrets: sources.tlsSecrets,
    appliedAs: new Map(appliedAs),
    record: typeof record === 'string' ? null : record,
    recordProblem: typeof record === 'string' ? record : null,
    failureOf: (action) => memory.failures.of(action),
    failureOfKey: (key) => memory.failures.ofKey(key),
    awaySinceMillis: memory.awaySince.note(reaches, memory.nowMillis),
    unknownReach: [...reaches].flatMap(([pod, { state }]) => (state === 'unknown' ? [pod] : [])),
    nowMillis: memory.nowMillis,
    mayRoll: memory.mayRoll,
    rolledNow: memory.rolledNow,
  };
}

/** Why no coordinator answers, where Kubernetes knows; null when one is ready. */
function startingText(
  names: Names,
  live: ReadonlyMap<string, KubeObject>,
  pods: readonly Pod[],
): string | null {
  const deployment = live.get(`Deployment/${names.coordinator}`) as Deployment | undefined;
  if (deployment === undefined) return 'coordinators are not there yet';
  if ((deployment.status?.availableReplicas ?? 0) > 0) return null;
  const own = coordinatorTroubles(pods, deployment);
  const troubles = own.length === 0 ? '' : `: ${own.join('; ')}`;
  return `0 of ${deployment.spec.replicas ?? 1} coordinators are ready${troubles}`;
}

/** @param starting said instead of what a request fails with */
async function coordinatorView(
  coordinator: Coordinator,
  starting: string | null,
  signal: AbortSignal,
): Promise<CoordinatorView> {
  try {
    const [placement, aggregators, registry, healths] = await Promise.all([
      coordinator.placement(signal),
      // Who cannot be asked for them has nodes all the same.
      coordinator.aggregators(signal).catch(messageOf),
      coordinator.registry(signal),
      // Nodes that hang keep nobody from what the coordinator itself knows.
      coordinator.healths(signal).catch(messageOf),
    ]);
    const { namespaces } = registry;
    const awaitsApproval = placement?.awaitsApproval ?? registry.awaitsApproval;
    return { reachable: true, placement, awaitsApproval, aggregators, namespaces, healths };
  } catch (error) {
    if (signal.aborted) throw error;
    return { reachable: false, problem: starting ?? messageOf(error) };
  }
}
