/**
 * Decides what to do next: a pure function of what was observed and what is desired. Objects that
 * are only written may all go in one pass; of everything that touches running nodes at most one
 * action is planned, and only when the placement is settled. The rest waits, with a reason for the
 * status.
 */
import { TsdbError } from '#lib/errors.ts';
import { isStale, type Pod, podReady } from '../resource/kube_objects.ts';
import type { InstanceRequest, PlacementView } from '../coordinator/coordinator_client.ts';
import type { Desired } from '../desired/desired.ts';
import { etcdReplicasOf } from '../desired/etcd.ts';
import { Names } from '../desired/names.ts';
import { namespaceOptions, namespaceProblem, retentionNanosOf } from '../desired/namespaces.ts';
import { sized } from '../desired/nodes.ts';
import type { Observed } from '../observe/observe.ts';
import { foreignObject, objectActions, shrunkVolume } from './objects.ts';
import { deadRollPlan, liveRollPlan, nodePods } from './roll.ts';
import {
  type Action,
  doing,
  nothing,
  type Plan,
  type Reason,
  stalledBy,
  waitingFor,
} from './types.ts';

export type { Action, Plan } from './types.ts';

export function plan(observed: Observed, desired: Desired): Plan {
  if (observed.cluster.spec.paused === true) return waitingFor('Paused', 'spec.paused is true');
  try {
    const next = livePlan(observed, desired);
    return next.stalled === null ? { ...next, stalled: invalidNamespace(observed) } : next;
  } catch (error) {
    // The schema refuses what it can; a duration that is too large for example only shows here.
    if (!(error instanceof TsdbError && error.code === 'BAD_REQUEST')) throw error;
    return stalledBy('InvalidSpec', error.message);
  }
}

/** Of the cluster's own list. Everything else goes on. */
function invalidNamespace({ cluster }: Observed): Reason | null {
  for (const spec of cluster.spec.namespaces ?? []) {
    const problem = namespaceProblem(spec);
    if (problem === null) continue;
    return { reason: 'InvalidSpec', message: `namespace ${spec.name}: ${problem}` };
  }
  return null;
}

function livePlan(observed: Observed, desired: Desired): Plan {
  const foreign = foreignObject(observed, desired);
  if (foreign !== null) return { ...nothing, stalled: foreign };
  const objects = objectActions(observed, desired);
  if (objects.length > 0) {
    const message = `${objects.length} objects are brought to their wanted state`;
    return doing(objects, 'Applying', message);
  }
  const dead = deadRollPlan(observed);
  if (dead !== null && dead.actions.length > 0) return dead;
  const others = placedPlan(observed, desired);
  if (dead === null) return others;
  // Replacing it waits for an approval, and nothing else waits for that.
  return others.actions.length > 0 ? { ...others, gated: dead.gated } : dead;
}

/** What goes on when all objects are as they should be and no pod is to be replaced. */
function placedPlan(observed: Observed, desired: Desired): Plan {
  const { coordinator } = observed;
  if (!coordinator.reachable) return waitingFor('CoordinatorUnreachable', coordinator.problem);
  if (coordinator.placement === null) return initPlan(observed, desired);
  const next = placementPlan(observed, coordinator.placement, desired);
  if (next.stalled !== null) return next;
  const namespaces = namespaceActions(observed, desired, isSettled(coordinator.placement));
  if (namespaces.length === 0) return next;
  return {
    ...next,
    actions: [...next.actions, ...namespaces],
    waiting: next.waiting ?? {
      reason: 'NamespacesChanging',
      message: 'namespaces are brought to their wanted state',
    },
  };
}

function wantedOf(observed: Observed, group: string): InstanceRequest[] {
  const { cluster } = observed;
  const names = new Names(cluster);
  return Array.from({ length: cluster.spec.nodes.replicasPerGroup }, (_, ordinal) =>
    names.instance(group, names.pod(group, ordinal)),
  );
}

function allWanted(observed: Observed): InstanceRequest[] {
  return observed.cluster.spec.isolationGroups.flatMap(({ name }) => wantedOf(observed, name));
}

const isRunning = (pod: Pod | undefined): boolean =>
  pod?.status?.phase === 'Running' && pod.metadata.deletionTimestamp === undefined;

const isServing = (pod: Pod | undefined): boolean => pod !== undefined && podReady(pod);

function initPlan(observed: Observed, desired: Desired): Plan {
  const { cluster, statefulSets } = observed;
  const { spec } = cluster;
  const names = new Names(cluster);
  const wanted = spec.nodes.replicasPerGroup;
  // The resource may ask for more since its sets were made. Too many are taken away when it is
  // known where shards are.
  const small = spec.isolationGroups.filter(
    ({ name }) => (statefulSets.get(names.group(name))?.spec.replicas ?? wanted) < wanted,
  );
  if (small.length > 0) {
    const objects = small.map(({ name }) => sized(desired.nodeSets.get(name)!, wanted, 'Retain'));
    return doing(
      objects.map((object) => ({ kind: 'apply', object })),
      'ScalingUp',
      `isolation groups ${small.map(({ name }) => name).join(', ')} go to ${wanted} nodes`,
    );
  }
  const pods = nodePods(observed);
  const instances = allWanted(observed);
  const missing = instances.filter(({ id }) => !isRunning(pods.get(id)));
  if (missing.length > 0) {
    const list = missing.map(({ id }) => id).join(', ');
    return waitingFor('PodsStarting', `placement waits for pods to run: ${list}`);
  }
  const { numberOfShards, replicationFactor } = spec;
  return doing(
    [{ kind: 'placement-init', numberOfShards, replicationFactor, instances }],
    'PlacementInitializing',
    `placement of ${numberOfShards} shards over ${instances.length} nodes is initialised`,
  );
}

export function isSettled(placement: PlacementView): boolean {
  return Object.values(placement.instances).every((instance) =>
    instance.shards.every((shard) => shard.state === 'AVAILABLE'),
  );
}

function placementPlan(observed: Observed, placement: PlacementView, desired: Desired): Plan {
  const { cluster } = observed;
  const names = new Names(cluster);
  const ours = (id: string) =>
    cluster.spec.isolationGroups.some(({ name }) => names.ordinalIn(name, id) !== null);
  const foreign = Object.keys(placement.instances).filter((id) => !ours(id));
  if (foreign.length > 0) {
    const message = `the placement has instances of others: ${foreign.join(', ')}`;
    return stalledBy('ForeignPlacement', message);
  }
  const restore = restorePlan(observed, placement, desired);
  if (restore !== null) return restore;
  if (!isSettled(placement)) {
    return waitingFor('ShardsInitializing', 'shards are bootstrapping or move');
  }
  const shrunk = shrunkVolume(observed, desired);
  return (
    removePlan(observed, placement) ??
    growOrShrinkPlan(observed, placement, desired) ??
    readinessPlan(observed) ??
    (shrunk === null ? nothing : { ...nothing, stalled: shrunk })
  );
}

/**
 * Sets that somebody made smaller than their shards need: nothing else can go on without those
 * nodes.
 */
function restorePlan(observed: Observed, placement: PlacementView, desired: Desired): Plan | null {
  const { cluster, statefulSets } = observed;
  const names = new Names(cluster);
  const objects = cluster.spec.isolationGroups.flatMap((group) => {
    const live = statefulSets.get(names.group(group.name))?.spec.replicas;
    const ordinals = Object.keys(placement.instances).map((id) => names.ordinalIn(group.name, id));
    const needed = Math.max(...ordinals.map((ordinal) => (ordinal ?? -1) + 1));
    if (live === undefined || live >= needed) return [];
    return [sized(desired.nodeSets.get(group.name)!, needed, 'Retain')];
  });
  if (objects.length === 0) return null;
  const list = objects.map(({ metadata }) => metadata.name).join(', ');
  return doing(
    objects.map((object) => ({ kind: 'apply', object })),
    'NodesNotReady',
    `nodes that have shards come back: ${list}`,
  );
}

function namespaceActions(observed: Observed, desired: Desired, settled: boolean): Action[] {
  const { coordinator } = observed;
  if (!coordinator.reachable) return [];
  const actions: Action[] = [];
  for (const { name, spec } of desired.namespaces.desired) {
    // Its own status says so; the cluster and the other namespaces go on.
    if (namespaceProblem(spec) !== null) continue;
    const live = coordinator.namespaces.get(name);
    if (live === undefined) {
      actions.push({ kind: 'namespace-add', name, options: namespaceOptions(spec) });
      continue;
    }
    // The schema holds everything else of a namespace immutable.
    const retentionPeriodNanos = String(retentionNanosOf(spec));
    if (live.retentionNanos !== retentionPeriodNanos) {
      const options = { retentionOptions: { retentionPeriodNanos } };
      actions.push({ kind: 'namespace-update', name, options });
    }
    if (!live.ready && settled) actions.push({ kind: 'namespace-ready', name });
  }
  return actions;
}

/** Nodes of the placement that do not serve, without the given ones. */
function downIn(observed: Observed, placement: PlacementView, except: readonly string[]): string[] {
  const pods = nodePods(observed);
  return Object.keys(placement.instances).filter(
    (id) => !except.includes(id) && !isServing(pods.get(id)),
  );
}

/** One group at a time: the shards of its last ordinals move before their pods go. */
function removePlan(observed: Observed, placement: PlacementView): Plan | null {
  const { cluster } = observed;
  const names = new Names(cluster);
  for (const { name } of cluster.spec.isolationGroups) {
    const excess = Object.keys(placement.instances).filter(
      (id) => (names.ordinalIn(name, id) ?? -1) >= cluster.spec.nodes.replicasPerGroup,
    );
    if (excess.length === 0) continue;
    const down = downIn(observed, placement, excess);
    if (down.length > 0) {
      return waitingFor('NodesNotReady', `placement remove waits for nodes: ${down.join(', ')}`);
    }
    return doing(
      [{ kind: 'placement-remove', instanceIds: excess }],
      'ScalingDown',
      `shards move away from ${excess.join(', ')}`,
    );
  }
  return null;
}

/** One group at a time: pods, then their place in the placement. Nothing to remove is left here. */
function growOrShrinkPlan(
  observed: Observed,
  placement: PlacementView,
  desired: Desired,
): Plan | null {
  const { cluster, statefulSets } = observed;
  const names = new Names(cluster);
  const pods = nodePods(observed);
  const wanted = cluster.spec.nodes.replicasPerGroup;
  for (const group of cluster.spec.isolationGroups) {
    const live = statefulSets.get(names.group(group.name))?.spec.replicas ?? wanted;
    if (live !== wanted) {
      // Nothing of the pods that go is left in the placement.
      const volumes = live > wanted ? 'Delete' : 'Retain';
      return doing(
        [{ kind: 'apply', object: sized(desired.nodeSets.get(group.name)!, wanted, volumes) }],
        live < wanted ? 'ScalingUp' : 'ScalingDown',
        `isolation group ${group.name} goes from ${live} to ${wanted} nodes`,
      );
    }
    const outside = wantedOf(observed, group.name).filter(({ id }) => !(id in placement.instances));
    if (outside.length === 0) continue;
    const starting = outside.filter(({ id }) => !isRunning(pods.get(id)));
    if (starting.length > 0) {
      const list = starting.map(({ id }) => id).join(', ');
      return waitingFor('PodsStarting', `placement add waits for pods to run: ${list}`);
    }
    // A shard has no replica to spare while another node is down.
    const down = downIn(observed, placement, []);
    if (down.length > 0) {
      return waitingFor('NodesNotReady', `placement add waits for nodes: ${down.join(', ')}`);
    }
    return doing(
      [{ kind: 'placement-add', instances: outside }],
      'ScalingUp',
      `${outside.map(({ id }) => id).join(', ')} join the placement`,
    );
  }
  return null;
}

/** Nodes of the sets and of the placement that do not serve; null when all do. */
export function unreadyNodes(observed: Observed): Reason | null {
  const { cluster, statefulSets, coordinator } = observed;
  const names = new Names(cluster);
  const pods = nodePods(observed);
  const ids = cluster.spec.isolationGroups.flatMap(({ name }) => {
    const replicas = statefulSets.get(names.group(name))?.spec.replicas ?? 0;
    return Array.from({ length: replicas }, (_, ordinal) => names.pod(name, ordinal));
  });
  const placed = coordinator.reachable ? Object.keys(coordinator.placement?.instances ?? {}) : [];
  const all = new Set([...ids, ...placed, ...pods.keys()]);
  const unready = [...all].filter((id) => !isServing(pods.get(id)));
  if (unready.length === 0) return null;
  const message = `nodes are not ready: ${unready.sort().join(', ')}`;
  return { reason: 'NodesNotReady', message };
}

/**
 * What is left: nodes that do not serve, pods of an older revision, and everything around the
 * nodes.
 */
function readinessPlan(observed: Observed): Plan | null {
  const { cluster, statefulSets, deployments } = observed;
  const names = new Names(cluster);
  const unready = unreadyNodes(observed);
  if (unready !== null) return { ...nothing, waiting: unready };
  const stale = [...statefulSets.values()].filter(isStale).map(({ metadata }) => metadata.name);
  if (stale.length > 0) {
    return waitingFor('Updating', `Kubernetes has not taken up changes of ${stale.join(', ')}`);
  }
  const roll = liveRollPlan(observed);
  if (roll !== null && roll.gated === null) return roll;
  const etcd = statefulSets.get(names.etcd);
  if (cluster.spec.etcd?.external === undefined && etcd !== undefined) {
    const members = etcdReplicasOf(cluster);
    const { readyReplicas = 0, currentRevision, updateRevision } = etcd.status ?? {};
    if (readyReplicas < members || currentRevision !== updateRevision) {
      return waitingFor('EtcdNotReady', `${readyReplicas} of ${members} etcd members are ready`);
    }
  }
  const deployment = deployments.get(names.coordinator);
  if (deployment !== undefined) {
    const wanted = deployment.spec.replicas ?? 1;
    const { availableReplicas = 0, updatedReplicas = 0, replicas = 0 } = deployment.status ?? {};
    if (isStale(deployment) || Math.min(availableReplicas, updatedReplicas) < wanted) {
      const message = `${availableReplicas} of ${wanted} coordinators are available, ${updatedReplicas} are of the newest revision`;
      return waitingFor('CoordinatorsNotReady', message);
    }
    if (replicas > wanted) return waitingFor('CoordinatorsNotReady', 'old coordinators are ending');
  }
  return roll;
}
