/**
 * Decides what to do next: a pure function of what was observed. Objects that are only written may all
 * go in one pass; of everything that touches running nodes at most one action is planned, and only when
 * the placement is settled. The rest waits, with a reason for the status.
 */
import { annotation, type KubeObject, label, type Pod, podReady, type StatefulSet } from './api.ts';
import type { InstanceRequest, PlacementView } from './coordinator_client.ts';
import { contentHash, type ImageDefaults } from './desired/common.ts';
import { coordinatorObjects } from './desired/coordinator.ts';
import { etcdObjects } from './desired/etcd.ts';
import { contains } from './desired/merge.ts';
import { Names, ordinalOf } from './desired/names.ts';
import { namespaceClaims, namespaceOptions, retentionNanosOf } from './desired/namespaces.ts';
import { nodeObjects, nodeStatefulSet } from './desired/nodes.ts';
import { childKey, type Observed } from './observe.ts';

export type Action =
  | { readonly kind: 'apply'; readonly object: KubeObject }
  | { readonly kind: 'delete'; readonly object: KubeObject; readonly orphan: boolean }
  | { readonly kind: 'delete-pod'; readonly pod: Pod; readonly reason: string }
  | { readonly kind: 'expand-claim'; readonly claim: KubeObject; readonly size: string }
  | {
      readonly kind: 'placement-init';
      readonly numberOfShards: number;
      readonly replicationFactor: number;
      readonly instances: readonly InstanceRequest[];
    }
  | { readonly kind: 'placement-add'; readonly instances: readonly InstanceRequest[] }
  | { readonly kind: 'placement-remove'; readonly instanceIds: readonly string[] }
  | { readonly kind: 'namespace-add'; readonly name: string; readonly options: object }
  | { readonly kind: 'namespace-update'; readonly name: string; readonly options: object }
  | { readonly kind: 'namespace-ready'; readonly name: string }
  | { readonly kind: 'namespace-delete'; readonly name: string };

export interface Plan {
  readonly actions: readonly Action[];
  /** Why nothing more is done now; null when all is as wanted. */
  readonly waiting: { readonly reason: string; readonly message: string } | null;
  /** Something a person must change; nothing is done then. */
  readonly stalled: { readonly reason: string; readonly message: string } | null;
  /** Under updatePolicy Gated: changes that wait for their approval. */
  readonly gated: { readonly hash: string; readonly actions: readonly string[] } | null;
}

const nothing: Plan = { actions: [], waiting: null, stalled: null, gated: null };
const doing = (actions: readonly Action[], reason: string, message: string): Plan => ({
  ...nothing,
  actions,
  waiting: { reason, message },
});
const waitingFor = (reason: string, message: string): Plan => doing([], reason, message);

export function plan(observed: Observed, images: ImageDefaults): Plan {
  if (observed.cluster.spec.paused === true) return waitingFor('Paused', 'spec.paused is true');
  const foreign = foreignObject(observed, images);
  if (foreign !== null) return { ...nothing, stalled: foreign };
  const objects = objectActions(observed, images);
  if (objects.length > 0) {
    return doing(
      objects,
      'Applying',
      `${objects.length} objects are brought to their wanted state`,
    );
  }
  const { coordinator } = observed;
  if (!coordinator.reachable) {
    return waitingFor('CoordinatorUnreachable', coordinator.problem);
  }
  if (coordinator.placement === null) return initPlan(observed);
  return placementPlan(observed, coordinator.placement, images);
}

/** A child's name taken by an object that is not ours is left alone. */
function foreignObject(
  observed: Observed,
  images: ImageDefaults,
): { reason: string; message: string } | null {
  const uid = observed.cluster.metadata.uid;
  for (const object of wantedObjects(observed, images)) {
    const live = liveOf(observed, object);
    const controller = live?.metadata.ownerReferences?.find((owner) => owner.controller === true);
    if (controller !== undefined && controller.uid !== uid) {
      return {
        reason: 'ForeignObject',
        message: `${childKey(object)} is controlled by ${controller.kind} ${controller.name}`,
      };
    }
  }
  return null;
}

function liveOf(observed: Observed, object: KubeObject): KubeObject | undefined {
  const { name } = object.metadata;
  if (object.kind === 'StatefulSet') return observed.statefulSets.get(name);
  if (object.kind === 'Deployment') return observed.deployments.get(name);
  return observed.children.get(childKey(object));
}

/** Every child with its live number of replicas: scaling is a step of its own. */
function wantedObjects(observed: Observed, images: ImageDefaults): KubeObject[] {
  const { cluster, statefulSets } = observed;
  const names = new Names(cluster);
  const sets = cluster.spec.isolationGroups.map((group) => {
    const live = statefulSets.get(names.group(group.name));
    const replicas = live?.spec.replicas ?? cluster.spec.nodes.replicasPerGroup;
    return nodeStatefulSet(cluster, group, replicas, images);
  });
  return [
    ...etcdObjects(cluster, images),
    ...nodeObjects(cluster),
    ...coordinatorObjects(cluster, images),
    ...sets,
  ];
}

function objectActions(observed: Observed, images: ImageDefaults): Action[] {
  const actions: Action[] = [];
  for (const wanted of wantedObjects(observed, images)) {
    const live = liveOf(observed, wanted);
    if (live === undefined) actions.push({ kind: 'apply', object: wanted });
    else if (wanted.kind === 'StatefulSet') {
      actions.push(...statefulSetActions(observed, live, wanted));
    } else if (!contains(live, wanted)) actions.push({ kind: 'apply', object: wanted });
  }
  return [...actions, ...staleConfigMaps(observed, images)];
}

interface ClaimTemplates {
  readonly volumeClaimTemplates: readonly {
    readonly spec: { readonly resources: { readonly requests: { readonly storage: string } } };
  }[];
}

const claimSize = (set: KubeObject): string =>
  (set['spec'] as ClaimTemplates).volumeClaimTemplates[0]!.spec.resources.requests.storage;

/** A StatefulSet's claim template cannot change, so a grown volume needs a new set over the same pods. */
function statefulSetActions(observed: Observed, live: KubeObject, wanted: KubeObject): Action[] {
  if (live.metadata.deletionTimestamp !== undefined) return [];
  const size = claimSize(wanted);
  if (claimSize(live) !== size) {
    const claims = observed.volumeClaims.filter((claim) =>
      claim.metadata.name.startsWith(`data-${wanted.metadata.name}-`),
    );
    const expansions: Action[] = claims
      .filter((claim) => !contains(claim['spec'], { resources: { requests: { storage: size } } }))
      .map((claim) => ({ kind: 'expand-claim', claim, size }));
    return [...expansions, { kind: 'delete', object: live, orphan: true }];
  }
  const spec = { ...(wanted['spec'] as object) } as Record<string, unknown>;
  delete spec['volumeClaimTemplates'];
  return contains(live, { ...wanted, spec }) ? [] : [{ kind: 'apply', object: wanted }];
}

/** ConfigMaps that no pod and no wanted object names any more. */
function staleConfigMaps(observed: Observed, images: ImageDefaults): Action[] {
  const used = JSON.stringify([
    observed.pods.map((pod) => pod['spec']),
    wantedObjects(observed, images),
    [...observed.statefulSets.values()].map(({ spec }) => spec),
    [...observed.deployments.values()].map(({ spec }) => spec),
  ]);
  return [...observed.children.values()]
    .filter((object) => object.kind === 'ConfigMap' && !used.includes(`"${object.metadata.name}"`))
    .map((object) => ({ kind: 'delete', object, orphan: false }));
}

/** Pods of the storage nodes by name. */
export function nodePods(observed: Observed): Map<string, Pod> {
  const pods = observed.pods.filter(
    ({ metadata }) => metadata.labels?.[label.component] === 'node',
  );
  return new Map(pods.map((pod) => [pod.metadata.name, pod]));
}

function wantedInstances(observed: Observed): InstanceRequest[] {
  const { cluster } = observed;
  const names = new Names(cluster);
  return cluster.spec.isolationGroups.flatMap((group) =>
    Array.from({ length: cluster.spec.nodes.replicasPerGroup }, (_, ordinal) =>
      names.instance(group.name, names.pod(group.name, ordinal)),
    ),
  );
}

const isRunning = (pod: Pod | undefined): boolean =>
  pod?.status?.phase === 'Running' && pod.metadata.deletionTimestamp === undefined;

function initPlan(observed: Observed): Plan {
  const { spec } = observed.cluster;
  const pods = nodePods(observed);
  const instances = wantedInstances(observed);
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

function placementPlan(observed: Observed, placement: PlacementView, images: ImageDefaults): Plan {
  const { cluster } = observed;
  const names = new Names(cluster);
  const ours = (id: string) =>
    cluster.spec.isolationGroups.some(({ name }) => id.startsWith(`${names.group(name)}-`));
  const foreign = Object.keys(placement.instances).filter((id) => !ours(id));
  if (foreign.length > 0) {
    const message = `the placement has instances of others: ${foreign.join(', ')}`;
    return { ...nothing, stalled: { reason: 'ForeignPlacement', message } };
  }
  const settled = isSettled(placement);
  const namespaces = namespaceActions(observed, settled);
  if (namespaces.length > 0) {
    return doing(namespaces, 'NamespacesChanging', 'namespaces are brought to their wanted state');
  }
  const dead = rollActions(observed, { onlyDead: true });
  if (dead.length > 0) return rollPlan(observed, dead);
  if (!settled) return waitingFor('ShardsInitializing', 'shards are bootstrapping');
  return (
    removePlan(observed, placement) ??
    addPlan(observed, placement) ??
    scalePlan(observed, images) ??
    readinessPlan(observed) ??
    nothing
  );
}

function namespaceActions(observed: Observed, settled: boolean): Action[] {
  const { cluster, claims, coordinator } = observed;
  if (!coordinator.reachable) return [];
  const actions: Action[] = [];
  for (const { name, spec } of namespaceClaims(cluster, claims).desired) {
    const live = coordinator.namespaces.get(name);
    if (live === undefined) {
      actions.push({ kind: 'namespace-add', name, options: namespaceOptions(spec) });
      continue;
    }
    const retention = retentionNanosOf(spec);
    if (live.retentionNanos !== String(retention)) {
      const retentionOptions = { retentionPeriodNanos: String(retention) };
      actions.push({ kind: 'namespace-update', name, options: { retentionOptions } });
    }
    if (!live.ready && settled) actions.push({ kind: 'namespace-ready', name });
  }
  return actions;
}

/** One group at a time, highest ordinals first: their shards move before their pods go. */
function removePlan(observed: Observed, placement: PlacementView): Plan | null {
  const { cluster } = observed;
  const names = new Names(cluster);
  for (const { name } of cluster.spec.isolationGroups) {
    const excess = Object.keys(placement.instances).filter(
      (id) =>
        id.startsWith(`${names.group(name)}-`) &&
        ordinalOf(id) >= cluster.spec.nodes.replicasPerGroup,
    );
    if (excess.length === 0) continue;
    return doing(
      [{ kind: 'placement-remove', instanceIds: excess }],
      'ScalingDown',
      `shards move away from ${excess.join(', ')}`,
    );
  }
  return null;
}

function addPlan(observed: Observed, placement: PlacementView): Plan | null {
  const pods = nodePods(observed);
  const outside = wantedInstances(observed).filter(
    ({ id }) => pods.has(id) && !(id in placement.instances),
  );
  if (outside.length === 0) return null;
  const starting = outside.filter(({ id }) => !isRunning(pods.get(id)));
  if (starting.length > 0) {
    const list = starting.map(({ id }) => id).join(', ');
    return waitingFor('PodsStarting', `placement add waits for pods to run: ${list}`);
  }
  // A shard has no replica to spare while another node is down.
  const down = [...pods.values()].filter(
    (pod) => pod.metadata.name in placement.instances && !podReady(pod),
  );
  if (down.length > 0) {
    const list = down.map(({ metadata }) => metadata.name).join(', ');
    return waitingFor('NodesNotReady', `placement add waits for nodes: ${list}`);
  }
  return doing(
    [{ kind: 'placement-add', instances: outside }],
    'ScalingUp',
    `${outside.map(({ id }) => id).join(', ')} join the placement`,
  );
}

function scalePlan(observed: Observed, images: ImageDefaults): Plan | null {
  const { cluster, statefulSets } = observed;
  const names = new Names(cluster);
  const wanted = cluster.spec.nodes.replicasPerGroup;
  for (const group of cluster.spec.isolationGroups) {
    const live = statefulSets.get(names.group(group.name))?.spec.replicas ?? wanted;
    if (live === wanted) continue;
    return doing(
      [{ kind: 'apply', object: nodeStatefulSet(cluster, group, wanted, images) }],
      live < wanted ? 'ScalingUp' : 'ScalingDown',
      `isolation group ${group.name} goes from ${live} to ${wanted} nodes`,
    );
  }
  return null;
}

/** What is left: nodes that are not ready, and pods of an older revision. */
function readinessPlan(observed: Observed): Plan | null {
  const pods = nodePods(observed);
  const missing = wantedInstances(observed).filter(({ id }) => !pods.has(id));
  const unready = [...pods.values()].filter((pod) => !podReady(pod));
  const names = [...missing.map(({ id }) => id), ...unready.map(({ metadata }) => metadata.name)];
  if (names.length > 0)
    return waitingFor('NodesNotReady', `nodes are not ready: ${names.join(', ')}`);
  const roll = rollActions(observed, { onlyDead: false });
  return roll.length === 0 ? null : rollPlan(observed, roll);
}

/** Pods whose revision is not their set's newest, all groups, in order. */
function outdatedPods(observed: Observed): Pod[] {
  const pods = nodePods(observed);
  const names = new Names(observed.cluster);
  const outdated: Pod[] = [];
  for (const { name } of observed.cluster.spec.isolationGroups) {
    const set: StatefulSet | undefined = observed.statefulSets.get(names.group(name));
    const status = set?.status;
    // A status of an older generation does not know the newest revision.
    if (status === undefined || status.observedGeneration !== set!.metadata.generation) continue;
    for (const pod of pods.values()) {
      if (pod.metadata.labels?.[label.group] !== name) continue;
      if (pod.metadata.deletionTimestamp !== undefined) continue;
      const revision = pod.metadata.labels['controller-revision-hash'];
      if (revision !== status.updateRevision) outdated.push(pod);
    }
  }
  return outdated;
}

/** One outdated pod: a dead one first (it serves nothing), else the first of a healthy cluster. */
function rollActions(observed: Observed, { onlyDead }: { onlyDead: boolean }): Action[] {
  const outdated = outdatedPods(observed);
  const pod = onlyDead ? outdated.find((candidate) => !podReady(candidate)) : outdated[0];
  if (pod === undefined) return [];
  return [{ kind: 'delete-pod', pod, reason: 'its revision is not the newest' }];
}

function rollPlan(observed: Observed, actions: readonly Action[]): Plan {
  const { cluster } = observed;
  const outdated = outdatedPods(observed).map(({ metadata }) => metadata.name);
  const message = `pods are replaced one by one: ${outdated.join(', ')}`;
  if (cluster.spec.updatePolicy !== 'Gated') return doing(actions, 'Updating', message);
  const names = new Names(cluster);
  const revisions = cluster.spec.isolationGroups.map(
    ({ name }) => observed.statefulSets.get(names.group(name))?.status?.updateRevision,
  );
  const hash = contentHash(revisions);
  if (cluster.metadata.annotations?.[annotation.approve] === hash) {
    return doing(actions, 'Updating', message);
  }
  return {
    ...nothing,
    waiting: {
      reason: 'ApprovalRequired',
      message: `annotate ${annotation.approve}=${hash} to replace ${outdated.join(', ')}`,
    },
    gated: { hash, actions: outdated.map((name) => `replace pod ${name}`) },
  };
}
