/**
 * Everything that a cluster's resources ask for, as values that are built once a pass: the
 * blueprint from the resource alone, since whoever observes looks for objects that have its names;
 * then what is desired, from the blueprint and what was observed.
 */
import { childKey, type Observed } from '../observe/observe.ts';
import { isStale, type KubeObject, type StatefulSet } from '../resource/kube_objects.ts';
import {
  etcdReplicasOf,
  type IsolationGroupSpec,
  type TsdbCluster,
} from '../resource/tsdb_cluster.ts';
import { type Component, type ImageDefaults, marked, templateOf } from './common.ts';
import { aggregatorObjects } from './aggregators.ts';
import { coordinatorObjects } from './coordinator.ts';
import { groupSpecOf, leavingGroups } from '../observe/isolation_groups.ts';
import { etcdHistory, isAnyoneJoining, memberPod, membersIn } from '../observe/etcd_members.ts';
import { etcdMembersConfig, etcdObjects } from './etcd.ts';
import { componentOf, type Former, formerOf } from './former.ts';
import { etcdRestoreObjects, etcdSnapshotObjects, restoreJobName } from './etcd_snapshots.ts';
import {
  approvedSnapshot,
  isEtcdLacking,
  isReadyForRestore,
  restoredSnapshot,
} from '../observe/etcd_restore.ts';
import type { PodRight } from '../overlay/pod_rules.ts';
import { type Refusal, refusalsOf } from '../overlay/refusals.ts';
import { label } from '../resource/keys.ts';
import { Names } from '../resource/names.ts';
import { type NamespaceClaims, namespaceClaims } from './namespaces.ts';
import { networkPolicies } from './network_policies.ts';
import { nodeObjects, nodeStatefulSet, sized } from './nodes.ts';

/** What the resource alone decides. */
export interface Blueprint {
  readonly images: ImageDefaults;
  /** All children but the sets of nodes. */
  readonly objects: readonly KubeObject[];
  /** Sets of nodes by isolation group, without a size. */
  readonly nodeSets: ReadonlyMap<string, KubeObject>;
  readonly refusals: readonly Refusal[];
  readonly nodeSetOf: (group: IsolationGroupSpec) => KubeObject;
  /** The same operator's for another resource. */
  readonly build: (cluster: TsdbCluster, images: ImageDefaults) => Blueprint;
}

export interface Desired {
  /** Every child object as it should be. Sets of nodes keep their live size: scaling is planned. */
  readonly objects: readonly KubeObject[];
  /** Sets of nodes by isolation group, without a size. */
  readonly nodeSets: ReadonlyMap<string, KubeObject>;
  readonly namespaces: NamespaceClaims;
  /** What the resource asks for and does not get: the pods of its component stay as they are. */
  readonly refusals: readonly Refusal[];
  readonly images: ImageDefaults;
  /** As long as changes are held, workloads that are away come back as these. */
  readonly former: Former;
}

/**
 * @param operatorNamespace the Kubernetes namespace that the operator runs in
 * @param podsMay what a podTemplate may do beside what all may
 */
export function blueprintOf(
  cluster: TsdbCluster,
  images: ImageDefaults,
  operatorNamespace: string,
  podsMay: ReadonlySet<PodRight> = new Set(),
): Blueprint {
  const refusals = refusalsOf(cluster, podsMay);
  const refused = new Set<string | undefined>(refusals.map(({ component }) => component));
  const isKept = (object: KubeObject): boolean =>
    (object.kind === 'ConfigMap' || templateOf(object) !== undefined) &&
    refused.has(object.metadata.labels?.[label.component]);
  // What is refused may have any shape, and is not laid over anything.
  const bare = withoutOverlays(cluster);
  const given = (component: Component): TsdbCluster => (refused.has(component) ? bare : cluster);
  const objects = [
    ...etcdObjects(given('etcd'), images),
    ...etcdSnapshotObjects(given('etcd'), images),
    ...nodeObjects(given('node')),
    ...coordinatorObjects(given('coordinator'), images),
    ...aggregatorObjects(given('aggregator'), images),
    ...networkPolicies(cluster, operatorNamespace),
  ];
  const nodeSetOf = (group: IsolationGroupSpec) => nodeStatefulSet(given('node'), group, images);
  return {
    images,
    objects: objects.filter((object) => !isKept(object)).map((object) => marked(object)),
    nodeSets: new Map(
      (refused.has('node') ? [] : cluster.spec.isolationGroups).map((group) => [
        group.name,
        nodeSetOf(group),
      ]),
    ),
    refusals,
    nodeSetOf,
    build: (other, defaults) => blueprintOf(other, defaults, operatorNamespace, podsMay),
  };
}

export function desiredOf(
  { objects, nodeSets, nodeSetOf, images, refusals, build }: Blueprint,
  observed: Pick<Observed, 'claims' | keyof GroupState>,
): Desired {
  // What cures the nodes of the others cures those that are still needed, too.
  const isRefused = refusals.some(({ component }) => component === 'node');
  const leaving = [...(isRefused ? [] : leavingGroups(observed))]
    .filter(([, set]) => set?.spec.replicas !== 0)
    .map(([group, set]) => [group, nodeSetOf(groupSpecOf(group, set))] as const);
  const bare = isRefused ? bareSets(observed, images) : { config: [], sets: [] };
  const sets = [...nodeSets, ...leaving, ...bare.sets].map(([group, set]) =>
    sized(
      set,
      replicasOf(observed, group),
      isShrinking(liveSet(observed, group)) ? 'Delete' : 'Retain',
    ),
  );
  const isLacking = isEtcdLacking(observed);
  const others = objects
    .map((object) => withLiveReplicas(observed, object))
    .map((object) => (object.kind === 'CronJob' ? suspended(object, isLacking) : object));
  const config = etcdConfigOf(observed);
  // The pods of its Job are laid over as those of the members are.
  const isEtcdRefused = refusals.some(({ component }) => component === 'etcd');
  const restored = isEtcdRefused
    ? { ...observed, cluster: withoutOverlays(observed.cluster) }
    : observed;
  const all = [
    ...(config === null ? [] : [config]),
    ...restoreObjects(restored, images),
    ...others,
    ...bare.config,
    ...sets,
  ];
  return {
    objects: all,
    nodeSets,
    refusals,
    images,
    former: formerOf(observed, all, build),
    namespaces: namespaceClaims(observed.cluster, observed.claims),
  };
}

/** A schedule that goes on, or takes no snapshots for now. */
const suspended = (schedule: KubeObject, suspend: boolean): KubeObject => ({
  ...schedule,
  spec: { ...(schedule['spec'] as object), suspend },
});

/** The resource without what it lays over pods and their configuration. */
function withoutOverlays(cluster: TsdbCluster): TsdbCluster {
  const plain = <T extends object>(part: T): T => {
    const { podTemplate: _, config: __, ...rest } = part as Record<string, unknown>;
    return rest as T;
  };
  const { nodes, etcd, coordinator, aggregator } = cluster.spec;
  const spec = {
    ...plain(cluster.spec),
    nodes: plain(nodes),
    ...(etcd === undefined ? {} : { etcd: plain(etcd) }),
    ...(coordinator === undefined ? {} : { coordinator: plain(coordinator) }),
    ...(aggregator === undefined ? {} : { aggregator: plain(aggregator) }),
  };
  return { ...cluster, spec };
}

/**
 * Sets that are away while what is laid over their pods is refused (they were to be made anew for larger
 * volumes): without it, so that a pod which ends comes back.
 */
function bareSets(
  observed: GroupState,
  images: ImageDefaults,
): {
  readonly config: readonly KubeObject[];
  readonly sets: readonly (readonly [string, KubeObject])[];
} {
  const { cluster, pods } = observed;
  const bare = withoutOverlays(cluster);
  const away = cluster.spec.isolationGroups.filter(
    ({ name }) =>
      liveSet(observed, name) === undefined &&
      pods.some(({ metadata }) => metadata.labels?.[label.group] === name),
  );
  if (away.length === 0) return { config: [], sets: [] };
  const config = nodeObjects(bare).filter(({ kind }) => kind === 'ConfigMap');
  const sets = away.map((group) => [group.name, nodeStatefulSet(bare, group, images)] as const);
  return { config: config.map((object) => marked(object)), sets };
}

/**
 * While etcd is made from a snapshot; what has been done stays to be seen until the approval is used
 * up.
 */
function restoreObjects(observed: GroupState, images: ImageDefaults): KubeObject[] {
  const { cluster, children } = observed;
  const snapshot = approvedSnapshot(cluster);
  if (snapshot === null) return [];
  const jobName = restoreJobName(cluster, snapshot);
  const isWanted =
    restoredSnapshot(observed) === null
      ? children.has(`Job/${jobName}`)
      : isReadyForRestore(observed, jobName);
  if (!isWanted) return [];
  // The volume becomes the member's as soon as there is one.
  return etcdRestoreObjects(cluster, images, snapshot)
    .filter((object) => object.kind === 'Job' || !children.has(childKey(object)))
    .map((object) => marked(object));
}

/**
 * When the resource does not say how many coordinators there are, somebody else does, as an
 * autoscaler.
 */
function withLiveReplicas(observed: GroupState, object: KubeObject): KubeObject {
  const { cluster, deployments, statefulSets } = observed;
  if (componentOf(object) === 'aggregator') return withPlacedAggregators(observed, object);
  if (object.kind === 'StatefulSet') {
    // Members come and go one by one (etcd_part/members.ts), and none runs before its volume is restored.
    const live = statefulSets.get(object.metadata.name);
    const replicas = live?.spec.replicas ?? membersOf(observed);
    if (replicas === undefined) return object;
    const spec = object['spec'] as StatefulSet['spec'];
    const whenScaled = isShrinking(live) ? 'Delete' : 'Retain';
    const policy = { ...spec.persistentVolumeClaimRetentionPolicy, whenScaled };
    return { ...object, spec: { ...spec, replicas, persistentVolumeClaimRetentionPolicy: policy } };
  }
  const live = deployments.get(object.metadata.name)?.spec.replicas;
  const isFree = object.kind === 'Deployment' && cluster.spec.coordinator?.replicas === undefined;
  if (!isFree || live === undefined) return object;
  return { ...object, spec: { ...(object['spec'] as object), replicas: live } };
}

/** Who is in their placement stays until it has left that. */
function withPlacedAggregators(observed: GroupState, object: KubeObject): KubeObject {
  if (object.kind !== 'StatefulSet') return object;
  const { cluster, coordinator, aggregators } = observed;
  const names = new Names(cluster);
  const known = coordinator.reachable ? coordinator.aggregators : '';
  const placed =
    typeof known !== 'string'
      ? Object.keys(known?.instances ?? {})
      : [names.aggregatorPod((aggregators?.spec.replicas ?? 0) - 1)];
  const ordinals = placed.flatMap((id) => names.aggregatorOrdinal(id) ?? []);
  const spec = object['spec'] as StatefulSet['spec'];
  const replicas = Math.max(spec.replicas ?? 0, ...ordinals.map((ordinal) => ordinal + 1));
  return { ...object, spec: { ...spec, replicas } };
}

/** How many pods a set of etcd is made with: none that has data may go. Undefined: as many as wanted. */
function membersOf(observed: GroupState): number | undefined {
  const { cluster, pods, record } = observed;
  if (restoredSnapshot(observed) !== null) return 0;
  const names = new Names(cluster);
  const known = [
    ...pods.map(({ metadata }) => metadata.name),
    ...membersIn(record).map(([pod]) => pod),
  ];
  const ordinals = known.flatMap((name) => names.etcdOrdinal(name) ?? []);
  return Math.max(etcdReplicasOf(cluster), ...ordinals.map((ordinal) => ordinal + 1));
}

/** Who is to find whom; null for an external etcd. */
function etcdConfigOf(observed: GroupState): KubeObject | null {
  const { cluster, etcd, children } = observed;
  if (etcd === null) return null;
  const names = new Names(cluster);
  if (etcd.reachable) {
    // Who had data and starts without them would have its old place, and vote without its log.
    if (!isAnyoneJoining(observed, etcd.members)) return etcdMembersConfig(cluster, [], 'existing');
    const pods = etcd.members
      .map((member) => memberPod(cluster, member))
      .filter(isText)
      .sort();
    return etcdMembersConfig(cluster, pods, 'existing');
  }
  if (etcdHistory(observed) === 'fresh') {
    const pods = Array.from({ length: etcdReplicasOf(cluster) }, (_, at) => names.etcdPod(at));
    return etcdMembersConfig(cluster, pods, 'new');
  }
  const config = etcdMembersConfig(cluster, [], 'existing');
  const live = children.get(`ConfigMap/${names.etcdMembers}`);
  return live === undefined ? config : { ...config, data: live['data'] };
}

const isText = (text: string | null): text is string => text !== null;

/** What objects are derived from beside the resource. */
type GroupState = Pick<
  Observed,
  | 'cluster'
  | 'children'
  | 'statefulSets'
  | 'aggregators'
  | 'deployments'
  | 'pods'
  | 'volumeClaims'
  | 'coordinator'
  | 'etcd'
  | 'record'
>;

const liveSet = ({ cluster, statefulSets }: GroupState, group: string): StatefulSet | undefined =>
  statefulSets.get(new Names(cluster).group(group));

/** Pods whose shards have moved are on their way out, with their volumes. */
export function isShrinking(live: StatefulSet | undefined): boolean {
  if (live?.spec.persistentVolumeClaimRetentionPolicy?.whenScaled !== 'Delete') return false;
  return isStale(live) || (live.status?.replicas ?? 0) > (live.spec.replicas ?? 1);
}

/**
 * A set that is not there (a new cluster, or one between deletion and creation for larger volumes)
 * is made large enough for every node that has run: a pod too few would lose its volume with its
 * shards.
 */
function replicasOf(observed: GroupState, group: string): number {
  const { cluster, coordinator, record } = observed;
  const names = new Names(cluster);
  const live = liveSet(observed, group)?.spec.replicas;
  if (live !== undefined) return live;
  const placed =
    coordinator.reachable && coordinator.placement !== null
      ? Object.keys(coordinator.placement.instances)
      : [];
  const pods = observed.pods.map(({ metadata }) => metadata.name);
  const ordinals = [...placed, ...pods, ...(record?.placement?.instanceIds ?? [])]
    .map((id) => names.ordinalIn(group, id))
    .filter((ordinal) => ordinal !== null);
  const published = cluster.status?.groups?.find(({ name }) => name === group)?.replicas ?? 0;
  const isNamed = cluster.spec.isolationGroups.some(({ name }) => name === group);
  return Math.max(
    isNamed ? cluster.spec.nodes.replicasPerGroup : 0,
    published,
    ...ordinals.map((ordinal) => ordinal + 1),
  );
}
