/**
 * The placement: made once, brought back when it was lost, and followed as nodes come and go. Of
 * everything that moves shards or takes nodes away at most one action is planned, and only when the
 * placement is settled.
 */
import type {
  InstanceRequest,
  PlacementInstance,
  PlacementShard,
  PlacementView,
} from '../coordinator/coordinator_client.ts';
import { restoreJobName } from '../desired/etcd_snapshots.ts';
import { Names } from '../resource/names.ts';
import { approvedSnapshot, restoreProgress } from '../observe/etcd_restore.ts';
import { allGroups } from '../observe/isolation_groups.ts';
import type { Observed } from '../observe/observe.ts';
import { withTroubles } from '../observe/pod_trouble.ts';
import { annotation } from '../resource/keys.ts';
import type { Pod } from '../resource/kube_objects.ts';
import { podServes, readySinceMillis } from '../resource/pod_state.ts';
import { doubtPart } from './doubts.ts';
import { leavingInstances } from './leaving_groups.ts';
import { downIn, isServing, isSettled, nodesWithout } from './readiness.ts';
import { nodePods } from './rollout.ts';
import type { Action } from '../action/action.ts';
import { doing, type Part, type Reason, stalledBy, waitingFor } from '../part/part.ts';

/** What keeps the placement from being touched at all, or makes it; null when it is ours. */
export function placementPart(observed: Observed): Part | null {
  const { coordinator, record } = observed;
  if (!coordinator.reachable) return waitingFor('CoordinatorUnreachable', coordinator.problem);
  const { placement } = coordinator;
  if (observed.recordProblem !== null) {
    return stalledBy('RecordUnreadable', `${observed.recordProblem}: mend or delete it`);
  }
  const mismatch = recordMismatch(observed);
  if (mismatch !== null) return { actions: [], waiting: null, stalled: [mismatch] };
  if (placement !== null && awaitsRestoredPlacement(observed, placement)) {
    return restoredStorePart(observed, placement);
  }
  if (placement !== null) {
    const foreign = foreignPlacement(observed, placement);
    return foreign === null ? null : stalledBy('ForeignPlacement', foreign);
  }
  const known = observed.cluster.status?.placementVersion ?? 0;
  const approval = observed.cluster.metadata.annotations?.[annotation.approvePlacement];
  const version = Math.max(record?.placement?.version ?? 0, known);
  // Somebody who runs knows one, although neither record nor status does.
  const { awaitsApproval } = coordinator;
  if (version === 0 && !awaitsApproval) return initPart(observed);
  // A cluster that was deleted with `data: Retain` and applied again has lost its etcd by itself.
  const { annotations, uid } = observed.cluster.metadata;
  const isExpected =
    (record !== null && record.clusterUid !== uid) ||
    annotations?.[annotation.restoreEtcd] !== undefined;
  if (approval === 'restore' || (isExpected && approval !== 'anew')) return restorePart(observed);
  if (approval === 'anew' && !awaitsApproval) return initPart(observed);
  const which = version === 0 ? '' : ` (version ${version})`;
  const anew = awaitsApproval
    ? '; nodes or coordinators know one, so it is not made anew'
    : ', or =anew to begin with an empty one when no node knows it any more';
  const message = `the placement${which} is gone from etcd, and who runs goes on by what it knew: annotate ${annotation.approvePlacement}=restore to bring back what the nodes know${anew}`;
  return stalledBy('PlacementLost', message);
}

/**
 * Whether the placement is one of before the key-value store went back. After the approval its version
 * is above all that anybody knew.
 */
export function awaitsRestoredPlacement(observed: Observed, placement: PlacementView): boolean {
  const { cluster, record } = observed;
  if (placement.awaitsApproval) return true;
  const known = record?.placement?.version ?? 0;
  const { approvePlacement } = annotation;
  // Versions rise: an older one comes from a backup, whether or not a node has seen that already.
  if (placement.version < known) return cluster.metadata.annotations?.[approvePlacement] !== 'anew';
  const snapshot = approvedSnapshot(cluster);
  if (snapshot === null || placement.version > known) return false;
  const { state } = restoreProgress(observed, restoreJobName(cluster, snapshot));
  return state === 'done' && !isCompared(observed);
}

/** Nodes compare the store with what they know every ten seconds: after so long they have found nothing that it lacks. */
const comparedMillis = 60_000;
/** So long a node is waited for that does not come. It tells what it knows when it does: then the store awaits approval. */
const absentMillis = 600_000;

/** Whether nodes have looked what a snapshot lacks that was taken when the placement was as it is. */
function isCompared(observed: Observed): boolean {
  const { cluster, pods, nowMillis } = observed;
  const names = new Names(cluster);
  const readyMillis = (pod: Pod): number => nowMillis - (readySinceMillis(pod) ?? nowMillis);
  const members = pods
    .filter(({ metadata }) => names.etcdOrdinal(metadata.name) !== null)
    .map(readyMillis)
    .sort((a, b) => b - a);
  // As long as a majority of etcd answers.
  const storeMillis = members[members.length >> 1] ?? 0;
  if (storeMillis < comparedMillis) return false;
  const nodes = [...nodePods(observed).values()];
  return storeMillis >= absentMillis || nodes.every((pod) => readyMillis(pod) >= comparedMillis);
}

/** Nodes say what they knew soon after they start: who has not by then needs a person. */
const untoldMillis = 300_000;

function restoredStorePart(observed: Observed, { awaitsApproval }: PlacementView): Part {
  const { annotations, uid } = observed.cluster.metadata;
  const { record } = observed;
  const isApproved =
    // It has come back without its etcd, and what the nodes know is being brought back.
    (record !== null && record.clusterUid !== uid) ||
    annotations?.[annotation.restoreEtcd] !== undefined ||
    annotations?.[annotation.approvePlacement] === 'restore';
  if (!isApproved) {
    // What nodes know to be older the database itself does not take.
    const others = awaitsApproval ? '' : ', or =anew to take what stands';
    const message = `etcd has gone back to an earlier state, as from a backup, and nothing is changed: annotate ${annotation.approvePlacement}=restore to bring back what the nodes know${others}`;
    return stalledBy('StoreRestored', message);
  }
  if (awaitsApproval) return restorePart(observed);
  const message = 'nodes look what the snapshot of etcd lacks of what they know';
  return waitingFor('PlacementRestoring', message);
}

/** The coordinator's words when no node has found the store to have gone back. */
const nothingAwaitsApproval = 'nothing awaits approval';

/** What the nodes knew last stands again: the coordinator refuses until all of them have said it. */
function restorePart(observed: Observed): Part {
  const action: Action = { kind: 'placement-approve' };
  const failure = observed.failureOf(action);
  const message = 'the placement is brought back from what the nodes know';
  const waits =
    failure?.isEarly === true && !failure.message.includes(nothingAwaitsApproval)
      ? '; it waits until all of them have said that'
      : '';
  const restoring = doing([action], 'PlacementRestoring', message + waits);
  if (failure === null) return restoring;
  const gone = goneNodes(observed);
  const isLate = observed.nowMillis - failure.sinceMillis >= untoldMillis;
  if (gone.length === 0 && !isLate) return restoring;
  const who =
    gone.length === 0
      ? 'see the logs of the nodes'
      : `nodes that cannot say what they knew: ${withTroubles(gone, observed)}; bring their machines back`;
  const allServe = gone.length === 0 && nodesWithout(observed, podServes).length === 0;
  if (allServe && failure.message.includes(nothingAwaitsApproval)) {
    const text = `the placement cannot be brought back: ${failure.message}, so no node knows one any more, as when it was deleted by the API: annotate ${annotation.approvePlacement}=anew to begin with an empty one`;
    return { ...restoring, stalled: [{ reason: 'PlacementIncomplete', message: text }] };
  }
  const reason = {
    reason: 'PlacementIncomplete',
    message: `${message}: ${failure.message}; ${who}, or say that what they knew is gone for good: tsdbctl placement approve --force, and after it ${annotation.approvePlacement}=anew when nobody knew of a placement (docs/OPERATIONS.md, The key-value store was restored)`,
  };
  return { ...restoring, stalled: [reason] };
}

/** Nodes of the placement that nobody starts: they have no pod, or no machine for it. */
function goneNodes(observed: Observed): string[] {
  const pods = nodePods(observed);
  return (observed.record?.placement?.instanceIds ?? []).filter((id) => {
    const pod = pods.get(id);
    const isPlaced = pod?.status?.conditions?.every(
      ({ type, status }) => type !== 'PodScheduled' || status === 'True',
    );
    return isPlaced !== true;
  });
}

/** The resource asks for what the data of its volumes are not. */
function recordMismatch({ cluster, record }: Observed): Reason | null {
  const known = record?.placement ?? null;
  if (known === null) return null;
  const names = new Names(cluster);
  const { record: name } = names;
  if (shapeOf(known) === shapeOf(cluster.spec)) {
    // Of a cluster that runs groups come and go.
    if (record!.clusterUid === cluster.metadata.uid) return null;
    const groups = cluster.spec.isolationGroups.map((one) => one.name);
    const others = known.instanceIds.filter((id) =>
      groups.every((group) => names.ordinalIn(group, id) === null),
    );
    if (others.length === 0) return null;
    const message = `the volumes of this cluster are of nodes in isolation groups that spec.isolationGroups does not name: ${others.join(', ')}; name these groups again, or delete the volumes and ConfigMap ${name}`;
    return { reason: 'OtherVolumes', message };
  }
  const message = `the volumes of this cluster have ${shapeOf(known)} and spec asks for ${shapeOf(cluster.spec)}: ask for what is there, or delete the volumes and ConfigMap ${name}; numberOfShards cannot be changed, so that takes to delete this TSDBCluster, which leaves the volumes as long as it has not taken them over`;
  return { reason: 'OtherVolumes', message };
}

const shapeOf = (shape: {
  readonly numberOfShards: number;
  readonly replicationFactor: number;
}): string => `${shape.numberOfShards} shards of ${shape.replicationFactor} copies`;

/** Why a placement that is there is not the cluster's; null when it is. */
function foreignPlacement(observed: Observed, placement: PlacementView): string | null {
  const { cluster } = observed;
  const names = new Names(cluster);
  const wanted = shapeOf(cluster.spec);
  if (shapeOf(placement) !== wanted) {
    return `the placement has ${shapeOf(placement)} and spec asks for ${wanted}`;
  }
  const groups = allGroups(observed);
  const groupOf = (id: string): string | undefined =>
    groups.find((name) => names.ordinalIn(name, id) !== null);
  const instances = Object.values(placement.instances);
  const others = instances.filter(({ id }) => groupOf(id) === undefined).map(({ id }) => id);
  if (others.length > 0) return `the placement has instances of others: ${others.join(', ')}`;
  const elsewhere = instances.filter(
    ({ id, isolationGroup, endpoint }: PlacementInstance) =>
      isolationGroup !== groupOf(id) || endpoint !== names.instance(isolationGroup, id).endpoint,
  );
  if (elsewhere.length === 0) return null;
  const list = elsewhere.map(
    ({ id, isolationGroup, endpoint }) => `${id} at ${endpoint} in ${isolationGroup}`,
  );
  return `the placement has instances that are not where our nodes are: ${list.join(', ')}`;
}

function wantedOf(observed: Observed, group: string): InstanceRequest[] {
  const { cluster } = observed;
  const names = new Names(cluster);
  return Array.from({ length: cluster.spec.nodes.replicasPerGroup }, (_, ordinal) =>
    names.instance(group, names.pod(group, ordinal)),
  );
}

function initPart(observed: Observed): Part {
  const { cluster, statefulSets } = observed;
  const { spec } = cluster;
  const names = new Names(cluster);
  const wanted = spec.nodes.replicasPerGroup;
  // The resource may ask for more since its sets were made. Too many are taken away when it is
  // known where shards are.
  const small = spec.isolationGroups.flatMap(({ name }) => {
    const set = statefulSets.get(names.group(name));
    return set !== undefined && (set.spec.replicas ?? 1) < wanted ? [set] : [];
  });
  if (small.length > 0) {
    return doing(
      small.map((set) => ({ kind: 'scale-set', set, replicas: wanted, whenScaled: 'Retain' })),
      'ScalingUp',
      `${small.map(({ metadata }) => metadata.name).join(', ')} ${small.length === 1 ? 'goes' : 'go'} to ${wanted} nodes`,
    );
  }
  const pods = nodePods(observed);
  const instances = spec.isolationGroups.flatMap(({ name }) => wantedOf(observed, name));
  const missing = instances.filter(({ id }) => !isServing(pods.get(id)));
  if (missing.length > 0) {
    const list = withTroubles(
      missing.map(({ id }) => id),
      observed,
    );
    return waitingFor('PodsStarting', `placement waits for nodes to answer: ${list}`);
  }
  const { numberOfShards, replicationFactor } = spec;
  return doing(
    [{ kind: 'placement-init', numberOfShards, replicationFactor, instances }],
    'PlacementInitializing',
    `placement of ${numberOfShards} shards over ${instances.length} nodes is initialised`,
  );
}

/**
 * Sets that somebody made smaller than their shards need: nothing else can go on without those
 * nodes.
 */
export function restoreSetsPart(observed: Observed, placement: PlacementView): Part | null {
  const { cluster, statefulSets } = observed;
  const names = new Names(cluster);
  const actions = allGroups(observed).flatMap((group): Action[] => {
    const set = statefulSets.get(names.group(group));
    const ordinals = Object.keys(placement.instances).map((id) => names.ordinalIn(group, id));
    const needed = Math.max(...ordinals.map((ordinal) => (ordinal ?? -1) + 1));
    if (set === undefined || (set.spec.replicas ?? 1) >= needed) return [];
    return [{ kind: 'scale-set', set, replicas: needed, whenScaled: 'Retain' }];
  });
  if (actions.length === 0) return null;
  const list = actions.map((action) =>
    action.kind === 'scale-set' ? action.set.metadata.name : '',
  );
  return doing(actions, 'NodesNotReady', `nodes that have shards come back: ${list.join(', ')}`);
}

/**
 * Nodes that are not wanted and have never had a shard whole are taken back whatever else is broken:
 * what they were to take is where it was.
 */
export function takeBackPart(observed: Observed, placement: PlacementView): Part | null {
  const unwanted = [
    ...excessOf(observed, placement).flatMap(({ ids }) => ids),
    ...leavingInstances(observed, placement),
  ];
  const instanceIds = unwanted.filter((id) =>
    placement.instances[id]!.shards.every(({ state }) => state === 'INITIALIZING'),
  );
  if (instanceIds.length === 0 || isSettled(placement)) return null;
  return doing(
    [{ kind: 'placement-remove', instanceIds, force: true }],
    'ScalingDown',
    instanceIds.length === 1
      ? `${instanceIds[0]} leaves again, before it had a shard`
      : `${instanceIds.join(', ')} leave again, before they had a shard`,
  );
}

/** Instances beyond the wanted number, by group. */
function excessOf(
  { cluster }: Observed,
  placement: PlacementView,
): { readonly group: string; readonly ids: readonly string[] }[] {
  const names = new Names(cluster);
  return cluster.spec.isolationGroups.map(({ name }) => ({
    group: name,
    ids: Object.keys(placement.instances).filter(
      (id) => (names.ordinalIn(name, id) ?? -1) >= cluster.spec.nodes.replicasPerGroup,
    ),
  }));
}

/** Shards move, or are made whole: what for, and what is to come after that. */
export function movingPart(observed: Observed, placement: PlacementView): Part {
  const instances = Object.values(placement.instances);
  const excess = excessOf(observed, placement).flatMap(({ ids }) => ids);
  const unwanted = new Set([...excess, ...leavingInstances(observed, placement)]);
  const idsWith = (wanted: PlacementShard['state']): string[] =>
    instances
      .filter(({ shards }) => shards.some(({ state }) => state === wanted))
      .map(({ id }) => id)
      .sort();
  const [leaving, taking] = [idsWith('LEAVING'), idsWith('INITIALIZING')];
  const later = (ids: readonly string[], does: string): string =>
    ids.length === 0 ? '' : `; then ${[...ids].sort().join(', ')} ${does}`;
  const going = leaving.filter((id) => unwanted.has(id));
  if (going.length > 0) {
    const next = later([...unwanted.difference(new Set(going))], 'leave');
    return waitingFor('ScalingDown', `shards move away from ${going.join(', ')}${next}`);
  }
  if (leaving.length > 0) {
    const outside = observed.cluster.spec.isolationGroups
      .flatMap(({ name }) => wantedOf(observed, name))
      .flatMap(({ id }) => (id in placement.instances ? [] : [id]));
    const how = taking.length === 0 ? `away from ${leaving.join(', ')}` : `to ${taking.join(', ')}`;
    return waitingFor('ScalingUp', `shards move ${how}${later(outside, 'join')}`);
  }
  const away = taking.filter((id) => !isServing(nodePods(observed).get(id)));
  const troubles = away.length === 0 ? '' : `, of which do not run ${withTroubles(away, observed)}`;
  return waitingFor(
    'ShardsInitializing',
    `nodes take their shards: ${taking.join(', ')}${troubles}`,
  );
}

/** One group at a time: the shards of its last ordinals move before their pods go. */
export function removePart(observed: Observed, placement: PlacementView): Part | null {
  for (const { ids } of excessOf(observed, placement)) {
    if (ids.length === 0) continue;
    const down = downIn(observed, placement, ids);
    if (down.length > 0) {
      return waitingFor('NodesNotReady', `placement remove waits for nodes: ${down.join(', ')}`);
    }
    const doubt = doubtPart(observed, placement, ids);
    if (doubt !== null) return doubt;
    return doing(
      [{ kind: 'placement-remove', instanceIds: ids, force: false }],
      'ScalingDown',
      `shards move away from ${ids.join(', ')}`,
    );
  }
  return null;
}

/**
 * One group at a time: pods, then their place in the placement. Pods that have none in it go at any
 * time; new ones come when it is settled.
 */
export function resizePart(observed: Observed, placement: PlacementView): Part | null {
  const { cluster, statefulSets } = observed;
  const names = new Names(cluster);
  const wanted = cluster.spec.nodes.replicasPerGroup;
  for (const group of cluster.spec.isolationGroups) {
    const set = statefulSets.get(names.group(group.name));
    const live = set?.spec.replicas ?? wanted;
    const placed = Object.keys(placement.instances).map(
      (id) => (names.ordinalIn(group.name, id) ?? -1) + 1,
    );
    const least = Math.max(wanted, ...placed);
    if (set !== undefined && live > least) {
      // Nothing of the pods that go is left in the placement.
      return doing(
        [{ kind: 'scale-set', set, replicas: least, whenScaled: 'Delete' }],
        'ScalingDown',
        `isolation group ${group.name} goes from ${live} to ${least} nodes`,
      );
    }
  }
  return null;
}

export function growPart(observed: Observed, placement: PlacementView): Part | null {
  const { cluster, statefulSets } = observed;
  const names = new Names(cluster);
  const pods = nodePods(observed);
  const wanted = cluster.spec.nodes.replicasPerGroup;
  for (const group of cluster.spec.isolationGroups) {
    const set = statefulSets.get(names.group(group.name));
    const live = set?.spec.replicas ?? wanted;
    if (set !== undefined && live < wanted) {
      return doing(
        [{ kind: 'scale-set', set, replicas: wanted, whenScaled: 'Retain' }],
        'ScalingUp',
        `isolation group ${group.name} goes from ${live} to ${wanted} nodes`,
      );
    }
    const outside = wantedOf(observed, group.name).filter(({ id }) => !(id in placement.instances));
    if (outside.length === 0) continue;
    // A shard has no replica to spare while another node is down. Only a new group does not wait for
    // one that leaves: it may take the place of a zone that is lost.
    const placed = Object.keys(placement.instances);
    const isNew = placed.every((id) => names.ordinalIn(group.name, id) === null);
    const leaving = placed.filter(
      (id) =>
        isNew &&
        cluster.spec.isolationGroups.every(({ name }) => names.ordinalIn(name, id) === null),
    );
    const down = downIn(observed, placement, leaving);
    const starting = outside.flatMap(({ id }) => (isServing(pods.get(id)) ? [] : id));
    if (down.length + starting.length > 0) {
      const list = withTroubles([...down, ...starting], observed);
      const reason = down.length > 0 ? 'NodesNotReady' : 'ScalingUp';
      return waitingFor(reason, `placement add waits for nodes to answer: ${list}`);
    }
    return doing(
      [{ kind: 'placement-add', instances: outside }],
      'ScalingUp',
      `${outside.map(({ id }) => id).join(', ')} ${outside.length === 1 ? 'joins' : 'join'} the placement`,
    );
  }
  return null;
}
