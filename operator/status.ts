/** What the resources say about themselves: pure functions of what was observed and planned. */
import { type ClusterStatus, podsHash, type TsdbCluster } from './resource/tsdb_cluster.ts';
import { type Condition, type CronJob, isStale } from './resource/kube_objects.ts';
import { podReady, podServes, readySinceMillis } from './resource/pod_state.ts';
import { annotation, label } from './resource/keys.ts';
import type { TsdbNamespace } from './resource/tsdb_namespace.ts';
import type { Desired } from './desired/desired.ts';
import { Names } from './resource/names.ts';
import { nameOfNamespace } from './desired/namespaces.ts';
import { componentOf } from './desired/former.ts';
import { type Component, selectorOf, templateOf } from './desired/common.ts';
import { memberPod } from './observe/etcd_members.ts';
import { lastSnapshot } from './observe/etcd_restore.ts';
import { allGroups } from './observe/isolation_groups.ts';
import type { Observed } from './observe/observe.ts';
import type { PlacementView } from './coordinator/coordinator_client.ts';
import { awaitsSamples, hasSamples, namespaceStall } from './plan/namespaces.ts';
import { isServing, isSettled, othersReadiness, unreadyNodes } from './plan/readiness.ts';
import { canFinish, formatLevels } from './plan/formats.ts';
import { nodePods, outdatedPods, rfc3339 } from './plan/rollout.ts';
import { windowsAt } from './resource/maintenance_windows.ts';
import { keyOf } from './action/action.ts';
import { etcdPart } from './etcd_part/members.ts';
import type { Plan, Reason } from './part/part.ts';

/** Of a condition: the names of all nodes of a large cluster are more than its schema takes. */
const messageCharactersMax = 4_000;

type Verdict = Pick<Condition, 'status' | 'reason' | 'message'>;

const yes = (reason: string, message = ''): Verdict => ({ status: 'True', reason, message });
const no = (reason: string, message: string): Verdict => ({ status: 'False', reason, message });
const unknown = (reason: string, message: string): Verdict => ({
  status: 'Unknown',
  reason,
  message,
});

/** One pass: what was seen and what is asked for. */
export interface Pass {
  readonly observed: Observed;
  readonly desired: Desired;
}

/** @param now RFC 3339, for conditions that change */
export function clusterStatus(pass: Pass, plan: Plan, now: string): ClusterStatus {
  const { observed, desired } = pass;
  const { cluster } = observed;
  const names = new Names(cluster);
  const verdicts = verdictsOf(pass, plan);
  // A paused cluster is as an earlier generation of its resource asked for.
  const generation =
    (plan.isPending ? cluster.status?.observedGeneration : undefined) ??
    cluster.metadata.generation ??
    0;
  const placement = observed.coordinator.reachable ? observed.coordinator.placement : null;
  const pods = nodePods(observed);
  const etcdSet = observed.statefulSets.get(names.etcd);
  const registry = observed.coordinator.reachable ? observed.coordinator.namespaces : new Map();
  const outdated = new Set(outdatedPods(observed));
  return {
    observedGeneration: generation,
    ...rolledGeneration(observed, plan, generation),
    images: imagesOf(observed),
    phase: phaseOf(observed, verdicts, plan),
    replicasPerGroup: Math.min(
      ...cluster.spec.isolationGroups.map(
        ({ name }) => observed.statefulSets.get(names.group(name))?.status?.replicas ?? 0,
      ),
    ),
    groupCount: cluster.spec.isolationGroups.length,
    selector: selectorTextOf(cluster),
    shards: shardsText(observed),
    ...(placement === null ? {} : { placementVersion: placement.version }),
    ...(plan.gated === null ? {} : { plan: plan.gated }),
    ...maintenanceWindow(observed),
    groups: cluster.spec.isolationGroups.map(({ name }) => {
      const set = observed.statefulSets.get(names.group(name));
      const own = [...pods.values()].filter((pod) => pod.metadata.labels?.[label.group] === name);
      return {
        name,
        replicas: set?.status?.replicas ?? 0,
        readyReplicas: own.filter(podReady).length,
        updatedReplicas:
          set === undefined || isStale(set)
            ? 0
            : own.length - own.filter((pod) => outdated.has(pod)).length,
      };
    }),
    nodes: [...pods.values()]
      .map((pod) => ({ id: pod.metadata.name, ready: podReady(pod) }))
      .sort((a, b) => (a.id < b.id ? -1 : 1)),
    ...(etcdSet === undefined
      ? {}
      : {
          etcd: {
            replicas: etcdSet.status?.replicas ?? 0,
            readyReplicas: etcdSet.status?.readyReplicas ?? 0,
            ...etcdMembers(observed),
            ...etcdSnapshots(observed),
          },
        }),
    ...(observed.aggregators === null
      ? {}
      : {
          aggregator: {
            replicas: observed.aggregators.status?.replicas ?? 0,
            readyReplicas: observed.aggregators.status?.readyReplicas ?? 0,
          },
        }),
    namespaces: desired.namespaces.desired.map(({ name }) => ({
      name,
      ready: registry.get(name)?.ready === true,
    })),
    conditions: conditionsOf(verdicts, cluster.status?.conditions ?? [], generation, now),
  };
}

/**
 * The placement by which the data path goes; null when etcd does not say: it is away, has lost it, or
 * has an earlier one, and who runs goes on by what it knew.
 */
function placementInForce({ coordinator }: Observed): PlacementView | null {
  return coordinator.reachable && !coordinator.awaitsApproval ? coordinator.placement : null;
}

type ClusterImages = NonNullable<ClusterStatus['images']>;

interface PodSpec {
  readonly containers?: readonly { readonly name: string; readonly image: string }[];
}

/** Images that all pods of a component have, where there are as many as there are to be, and all serve. */
function imagesOf({ pods, statefulSets, aggregators, deployments }: Observed): ClusterImages {
  const all = [...statefulSets.values(), ...(aggregators === null ? [] : [aggregators])];
  const ofSets = (component: Component): string | null => {
    const sets = all.filter((set) => componentOf(set) === component);
    const wanted = sets.reduce((sum, { spec }) => sum + (spec.replicas ?? 1), 0);
    const own = pods.filter((pod) => componentOf(pod) === component);
    const images = new Set(own.map(({ spec }) => imageIn(spec as PodSpec, component)));
    const areAll = own.length === wanted && own.every(podReady) && images.size === 1;
    return areAll ? ([...images][0] ?? null) : null;
  };
  const ofDeployments = [...deployments.values()].map((deployment): string | null => {
    const wanted = deployment.spec.replicas ?? 1;
    const { replicas = 0, updatedReplicas = 0, availableReplicas = 0 } = deployment.status ?? {};
    const areAll = [replicas, updatedReplicas, availableReplicas].every((n) => n === wanted);
    if (isStale(deployment) || !areAll) return null;
    const { spec } = templateOf(deployment) as { readonly spec: PodSpec };
    return imageIn(spec, 'coordinator') ?? null;
  });
  const [etcd, node, aggregator] = [ofSets('etcd'), ofSets('node'), ofSets('aggregator')];
  const [coordinator = null] = ofDeployments;
  return {
    ...(etcd === null ? {} : { etcd }),
    ...(node === null ? {} : { node }),
    ...(coordinator === null ? {} : { coordinator }),
    ...(aggregator === null ? {} : { aggregator }),
  };
}

/** Others may stand beside ours, and before it. */
function imageIn({ containers = [] }: PodSpec = {}, component: Component): string | undefined {
  return containers.find(({ name }) => name === component)?.image;
}

/** Copies that are whole and on nodes that serve, of all. */
function shardsText(observed: Observed): string {
  const { cluster, record, pods } = observed;
  const all = cluster.spec.numberOfShards * cluster.spec.replicationFactor;
  const placement = placementInForce(observed);
  if (placement === null) {
    return (record?.placement ?? null) === null ? `0/${all}` : `?/${all}`;
  }
  const serving = new Set(pods.filter(podServes).map(({ metadata }) => metadata.name));
  const shards = Object.values(placement.instances).flatMap((instance) =>
    serving.has(instance.id) ? instance.shards : [],
  );
  return `${shards.filter(({ state }) => state === 'AVAILABLE').length}/${all}`;
}

function maintenanceWindow({
  cluster,
  nowMillis,
}: Observed): Pick<ClusterStatus, 'maintenanceWindow'> {
  const windows = cluster.spec.maintenanceWindows ?? [];
  if (windows.length === 0) return {};
  const { isOpen, untilMillis } = windowsAt(windows, nowMillis);
  const until = untilMillis === null ? {} : { until: rfc3339(untilMillis) };
  return { maintenanceWindow: { open: isOpen, ...until } };
}

/** As etcd itself says; nothing while it does not. */
function etcdMembers({ etcd }: Observed): Pick<NonNullable<ClusterStatus['etcd']>, 'members'> {
  if (!etcd?.reachable) return {};
  return {
    members: etcd.members
      .map(({ name, id, state, isLearner }) => ({
        name,
        id,
        version: state?.version ?? '',
        leader: state?.isLeader ?? false,
        learner: isLearner,
      }))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
  };
}

/** Nothing when the resource asks for none. */
function etcdSnapshots(observed: Observed): Pick<NonNullable<ClusterStatus['etcd']>, 'snapshots'> {
  const { cluster, children } = observed;
  if (cluster.spec.etcd?.snapshots === undefined) return {};
  const { etcdSnapshots: name } = new Names(cluster);
  const { lastSuccessfulTime } =
    (children.get(`CronJob/${name}`) as CronJob | undefined)?.status ?? {};
  // The pod goes before the next snapshot when somebody removes it.
  const { lastSuccessfulTime: _, ...known } = cluster.status?.etcd?.snapshots ?? {};
  const last = lastSnapshot(observed) ?? known;
  return {
    snapshots: { ...(lastSuccessfulTime === undefined ? {} : { lastSuccessfulTime }), ...last },
  };
}

function rolledGeneration(
  { cluster, failureOf }: Observed,
  { rollout, isPending, actions }: Plan,
  generation: number,
): Pick<ClusterStatus, 'rolledGeneration' | 'rolledPods'> {
  // What is refused is tried for ever.
  const isDone = actions.every((action) => failureOf(action)?.isRefused === true);
  if (rollout === 'none' && !isPending && isDone) {
    return { rolledGeneration: generation, rolledPods: podsHash(cluster) };
  }
  const { rolledGeneration: before, rolledPods } = cluster.status ?? {};
  return {
    ...(before === undefined ? {} : { rolledGeneration: before }),
    ...(rolledPods === undefined ? {} : { rolledPods }),
  };
}

/**
 * Of the pods of the first group: an autoscaler takes the number of pods that it selects for the
 * number that it sets, which is that of one group.
 */
function selectorTextOf(cluster: TsdbCluster): string {
  const selector = selectorOf(cluster, 'node', cluster.spec.isolationGroups[0]!.name);
  return Object.entries(selector)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}

/**
 * Conditions by type; a type that is left out is not published (Reconciling and Stalled only when
 * true).
 */
function verdictsOf(pass: Pass, plan: Plan): Map<string, Verdict> {
  const { observed } = pass;
  const verdicts = new Map<string, Verdict>();
  verdicts.set('EtcdReady', etcdVerdict(observed));
  const { coordinator } = observed;
  const initialized = coordinator.reachable
    ? coordinator.placement === null
      ? noPlacement(observed)
      : yes('PlacementExists', 'the placement is there')
    : unknown('CoordinatorUnreachable', coordinator.problem);
  verdicts.set('PlacementInitialized', initialized);
  verdicts.set(
    'PlacementStable',
    coordinator.reachable && coordinator.placement !== null
      ? isSettled(coordinator.placement)
        ? yes('ShardsAvailable', 'all shards are AVAILABLE')
        : no('ShardsMoving', 'shards are INITIALIZING or LEAVING')
      : initialized,
  );
  verdicts.set('NamespacesReady', namespacesVerdict(pass));
  const broken = [...verdicts.values()].find(({ status }) => status !== 'True');
  verdicts.set('Available', availableVerdict(observed));
  const lost = lostText(observed);
  if (lost !== null) verdicts.set('RowsLost', yes('BlocksLost', lost));
  if (canFinish(observed)) {
    const { written, readable } = formatLevels(observed)!;
    const message = `all nodes read formats of level ${readable} and write ${written}: when nobody wants to go back to the release before, annotate ${annotation.finishUpgrade}=true`;
    verdicts.set('UpgradeFinished', no('CanBeFinished', message));
  }
  const { waiting } = plan;
  if (observed.cluster.spec.paused === true) {
    verdicts.set('Paused', yes('Paused', waiting?.message ?? 'spec.paused is true'));
  }
  if (plan.stalled.length > 0) {
    const { reason } = plan.stalled[0]!;
    const message = plan.stalled.map((one) => one.message).join('; ');
    verdicts.set('Stalled', yes(reason, message));
    verdicts.set('Ready', no(reason, message));
    return verdicts;
  }
  const tried = failuresText(observed, plan);
  const isDone = waiting === null || quietReasons.includes(waiting.reason);
  const unready = isDone ? (broken ?? unreadyNodes(observed) ?? unreadyOthers(observed)) : waiting;
  // Nothing goes on while a person is asked: who waits for the end of it must not time out.
  const isAsking = waiting?.reason === 'ApprovalRequired';
  if (isAsking) verdicts.set('ApprovalRequired', yes('ApprovalRequired', waiting.message));
  const going = isAsking ? unready : (waiting ?? unready);
  const reconciling = waiting?.reason === 'Paused' ? null : going;
  if (reconciling !== null) {
    verdicts.set('Reconciling', yes(reconciling.reason, reconciling.message + tried));
  }
  if (unready !== null) verdicts.set('Ready', no(unready.reason, unready.message + tried));
  else if (plan.isPending) verdicts.set('Ready', no('Paused', waiting?.message ?? ''));
  else {
    const asked = isAsking ? '; a change waits for its approval' : '';
    const message = `all nodes serve and all shards are available${asked}`;
    verdicts.set('Ready', yes('AllNodesServe', message));
  }
  return verdicts;
}

/** Of nodes that had to take what few others had, for the rest was given up; null when there are none. */
export function lostText({ coordinator }: Observed): string | null {
  const healths = coordinator.reachable ? coordinator.healths : null;
  if (healths === null || typeof healths === 'string') return null;
  const lost = [...healths].flatMap(([id, health]) =>
    'error' in health || health.blocksLost === 0 ? [] : [`${id} ${health.blocksLost} blocks`],
  );
  if (lost.length === 0) return null;
  return `filled from fewer replicas than have all rows: ${lost.sort().join(', ')}; acknowledged rows of these may be missing for good, and the logs of the nodes name the blocks (docs/OPERATIONS.md, Machines that do not come back); said until the nodes are started anew`;
}

/** What is not ready beside the nodes, whatever is waited for. */
const unreadyOthers = (observed: Observed): Reason | null =>
  othersReadiness(observed, etcdPart(observed) === null)?.waiting ?? null;

/** What is done besides, while the cluster is as its resource asks for. */
const quietReasons: readonly string[] = [
  'Applying',
  'Paused',
  'ApprovalRequired',
  'RolloutHeld',
  'OutsideMaintenanceWindow',
];
/** Actions that failed and are tried again. */
function failuresText(observed: Observed, plan: Plan): string {
  const failures = plan.actions.flatMap((action) => {
    const failure = observed.failureOf(action);
    return failure === null || failure.isEarly ? [] : [`${keyOf(action)}: ${failure.message}`];
  });
  return failures.length === 0 ? '' : `; last attempt failed: ${failures.join('; ')}`;
}

function noPlacement({ record }: Observed): Verdict {
  return (record?.placement ?? null) === null
    ? no('NoPlacement', 'there is no placement yet')
    : no('NoPlacement', 'etcd has no placement any more');
}

/** Whether the data path serves: most replicas of every shard are whole and on nodes that serve. */
function availableVerdict(observed: Observed): Verdict {
  const { coordinator, cluster } = observed;
  const placement = placementInForce(observed);
  if (placement === null) {
    return (
      servesFromMemory(observed) ??
      (coordinator.reachable
        ? noPlacement(observed)
        : unknown('CoordinatorUnreachable', coordinator.problem))
    );
  }
  const pods = nodePods(observed);
  const serving = new Uint8Array(cluster.spec.numberOfShards);
  for (const { id, shards } of Object.values(placement.instances)) {
    if (!isServing(pods.get(id))) continue;
    // One that is LEAVING answers until its successor is read.
    for (const shard of shards) if (shard.state !== 'INITIALIZING') serving[shard.id]!++;
  }
  const majority = Math.floor(cluster.spec.replicationFactor / 2) + 1;
  const without = serving.filter((count) => count < majority).length;
  return without === 0
    ? yes('QuorumServes', 'a majority of the replicas of every shard serves')
    : no(
        'NoQuorum',
        `${without} of ${serving.length} shards have no majority of replicas that serve`,
      );
}

/**
 * Etcd does not say where the shards are, and coordinators and nodes go on by what they knew. Copies of
 * a shard are in different isolation groups. @returns null when too few serve for that to be sure
 */
function servesFromMemory(observed: Observed): Verdict | null {
  const { cluster, record } = observed;
  const names = new Names(cluster);
  const ids = record?.placement?.instanceIds ?? [];
  const isOwn = record?.clusterUid === cluster.metadata.uid;
  if (ids.length === 0 || !isOwn || !doCoordinatorsKnow(observed)) return null;
  const pods = nodePods(observed);
  const down = ids.filter((id) => !isServing(pods.get(id)));
  const groups = allGroups(observed);
  const downGroups = new Set(
    down.map((id) => groups.find((name) => names.ordinalIn(name, id) !== null) ?? id),
  );
  if (downGroups.size > (cluster.spec.replicationFactor - 1) >> 1) return null;
  const serving = `${ids.length - down.length} of ${ids.length} nodes`;
  return yes(
    'QuorumServes',
    `etcd does not say where shards are; ${serving} serve by what they know`,
  );
}

/** A coordinator that has read an etcd which has lost the placement is ready, and serves nothing. */
function doCoordinatorsKnow({ cluster, coordinator, deployments, pods }: Observed): boolean {
  const deployment = deployments.get(new Names(cluster).coordinator);
  if ((deployment?.status?.availableReplicas ?? 0) === 0) return false;
  // No store answers that it could have read since.
  if (!coordinator.reachable) return true;
  const readySince = (component: string): number[] =>
    pods
      .filter(({ metadata }) => metadata.labels?.[label.component] === component)
      .flatMap((pod) => readySinceMillis(pod) ?? []);
  const isExternal = cluster.spec.etcd?.external !== undefined;
  const etcdSince = Math.min(...readySince('etcd'));
  return !isExternal && readySince('coordinator').some((since) => since < etcdSince);
}

function etcdVerdict(observed: Observed): Verdict {
  const { cluster, etcd } = observed;
  if (cluster.spec.etcd?.external !== undefined) {
    return observed.coordinator.reachable
      ? yes('External', 'the coordinator reads it')
      : unknown('CoordinatorUnreachable', observed.coordinator.problem);
  }
  if (etcd === null || !etcd.reachable) return no('NoQuorum', etcd?.problem ?? '');
  if (etcd.alarms.length > 0) {
    const kinds = new Set(etcd.alarms.map(({ kind }) => kind));
    return no('AlarmRaised', `etcd takes no writes: ${[...kinds].join(', ')}`);
  }
  const silent = etcd.members
    .filter(({ state }) => state === null)
    .map((member) => memberPod(cluster, member) ?? member.peerUrl);
  const healthy = etcd.members.length - silent.length;
  const without = silent.length === 0 ? '' : `, without ${silent.sort().join(', ')}`;
  return yes('QuorumReady', `${healthy} of ${etcd.members.length} members answer${without}`);
}

/** Resources that ask for what cannot be say it themselves, and are not waited for. */
const noSamples = 'its windows are made of samples, and no namespace of samples is ready';

function namespacesVerdict({ observed, desired: { namespaces } }: Pass): Verdict {
  const { coordinator } = observed;
  if (!coordinator.reachable) return unknown('CoordinatorUnreachable', coordinator.problem);
  const wanted = namespaces.desired.filter(
    (one) => one.claim === null || namespaceStall(observed, one) === null,
  );
  // Resources that wait for one of samples say it themselves.
  const waiting = wanted.filter(({ name, claim }) => {
    const live = coordinator.namespaces.get(name);
    return live?.ready !== true && !(claim !== null && live && awaitsSamples(observed, live));
  });
  if (waiting.length === 0) {
    const names = wanted
      .filter(({ name }) => coordinator.namespaces.get(name)?.ready === true)
      .map(({ name }) => name)
      .join(', ');
    const asked = names === '' ? 'none is asked for' : `ready: ${names}`;
    if (hasSamples(observed)) return yes('AllReady', asked);
    const message = `${asked}; none takes samples: they are refused until a namespace without resolution is ready`;
    return yes('NoneTakesSamples', message);
  }
  const list = waiting.map((one) => {
    const stall = namespaceStall(observed, one);
    const live = coordinator.namespaces.get(one.name);
    if (stall !== null) return `${one.name} (${stall.message})`;
    return live && awaitsSamples(observed, live) ? `${one.name} (${noSamples})` : one.name;
  });
  return no('NotReady', `not ready: ${list.join(', ')}`);
}

function phaseOf(
  { cluster, record }: Observed,
  verdicts: Map<string, Verdict>,
  plan: Plan,
): string {
  if (plan.stalled.length > 0) return 'Stalled';
  if (verdicts.has('Paused')) return 'Paused';
  const { status, reason } = verdicts.get('Ready')!;
  // The only sign of it in the columns: Ready stays as it is while a person is asked.
  if (status === 'True') return verdicts.has('ApprovalRequired') ? 'AwaitingApproval' : 'Running';
  const { uid, annotations } = cluster.metadata;
  const isAsked = annotations?.[annotation.restoreEtcd] !== undefined;
  // To the end of it, whatever of it goes on: members that join, nodes that say what they knew.
  if (isAsked && reason !== 'EtcdNoQuorum') return 'Restoring';
  switch (reason) {
    case 'ScalingUp':
    case 'ScalingDown':
      return 'Scaling';
    case 'Updating':
    case 'PodsChanging':
      return 'Updating';
    case 'NodesNotReady':
      return 'Degraded';
    case 'PlacementRestoring':
    case 'EtcdRestoring':
      return 'Restoring';
    default: {
      const initialized = verdicts.get('PlacementInitialized')!.status;
      if (initialized === 'True') return 'Reconciling';
      if ((record?.placement ?? null) === null) return 'Creating';
      // It has served before, and is about to come back, or nobody says now how far it serves.
      const isRestoring = record!.clusterUid !== uid || initialized !== 'Unknown';
      return isRestoring ? 'Restoring' : 'Degraded';
    }
  }
}

/** Transition times are kept while a condition's status stays. */
export function conditionsOf(
  verdicts: ReadonlyMap<string, Verdict>,
  previous: readonly Condition[],
  observedGeneration: number,
  now: string,
): Condition[] {
  return [...verdicts].map(([type, verdict]) => {
    const before = previous.find((condition) => condition.type === type);
    // How long etcd has been full, not how long something has been wrong with it.
    const isSame =
      before?.status === verdict.status &&
      (type !== 'EtcdReady' || before.reason === verdict.reason);
    const lastTransitionTime = isSame ? before.lastTransitionTime : now;
    const { status, reason } = verdict;
    const message = shortened(verdict.message);
    return { type, status, reason, message, observedGeneration, lastTransitionTime };
  });
}

const shortened = (text: string): string =>
  text.length <= messageCharactersMax ? text : `${text.slice(0, messageCharactersMax - 1)}…`;

/** Only a change of resources helps. */
const stalledReasons: readonly string[] = [
  'NameConflict',
  'InvalidSpec',
  'NotOwned',
  'ImmutableChange',
  'Refused',
];

/** Status of one TSDBNamespace; `pass` is null when its cluster does not exist. */
export function namespaceStatus(
  claim: TsdbNamespace,
  pass: Pass | null,
  now: string,
): NonNullable<TsdbNamespace['status']> {
  const verdict = namespaceVerdict(claim, pass);
  const generation = claim.metadata.generation ?? 0;
  const verdicts = new Map<string, Verdict>([['Ready', verdict]]);
  if (verdict.status !== 'True') {
    if (stalledReasons.includes(verdict.reason))
      verdicts.set('Stalled', { ...verdict, status: 'True' });
    else verdicts.set('Reconciling', { ...verdict, status: 'True' });
  }
  return {
    observedGeneration: generation,
    namespace: nameOfNamespace(claim),
    conditions: conditionsOf(verdicts, claim.status?.conditions ?? [], generation, now),
  };
}

function namespaceVerdict(claim: TsdbNamespace, pass: Pass | null): Verdict {
  if (pass === null) {
    return no('ClusterNotFound', `TSDBCluster ${claim.spec.clusterRef.name} does not exist`);
  }
  const { observed, desired } = pass;
  for (const [loser, winner] of desired.namespaces.conflicts) {
    if (loser.metadata.uid === claim.metadata.uid) {
      return no('NameConflict', `namespace ${nameOfNamespace(claim)} is claimed by ${winner}`);
    }
  }
  if (claim.metadata.deletionTimestamp !== undefined) {
    return no('Deleting', 'the resource is on its way out');
  }
  const name = nameOfNamespace(claim);
  const stall = namespaceStall(observed, { name, spec: claim.spec, claim });
  if (stall !== null) return no(stall.reason, stall.message);
  if (!observed.coordinator.reachable) {
    return no('CoordinatorUnreachable', observed.coordinator.problem);
  }
  const live = observed.coordinator.namespaces.get(nameOfNamespace(claim));
  if (live === undefined) {
    const failure = observed.failureOfKey(`namespace-add ${name}`);
    const why = failure === null ? '' : `: ${failure.message}`;
    return no('Pending', `the namespace is not registered yet${why}`);
  }
  if (awaitsSamples(observed, live)) return no('NoneTakesSamples', noSamples);
  if (!live.ready) {
    const failure = observed.failureOfKey(`namespace-ready ${name}`);
    const why = failure === null ? '' : `; last attempt to make it ready: ${failure.message}`;
    return no('Bootstrapping', `the namespace is registered and bootstraps${why}`);
  }
  return yes('NamespaceReady', 'the namespace takes writes and queries');
}

/** Conditions that sum up the others: whatever they say first is news. */
const summaries: readonly string[] = [
  ...['Ready', 'Reconciling', 'Stalled', 'Paused', 'ApprovalRequired'],
];
const badReasons: readonly string[] = ['NodesNotReady', 'NoQuorum'];

/**
 * Events for conditions that changed, so that `kubectl describe` tells the story: each sentence
 * once.
 */
export function transitionsOf(
  cluster: TsdbCluster,
  status: ClusterStatus,
): { readonly reason: string; readonly message: string; readonly type: 'Normal' | 'Warning' }[] {
  const before = cluster.status?.conditions ?? [];
  const conditions = status.conditions ?? [];
  const stalled = conditions.find(({ type }) => type === 'Stalled')?.reason;
  const events = new Map<string, ReturnType<typeof transitionsOf>[number]>();
  for (const { type, status: now, reason, message } of conditions) {
    const old = before.find((condition) => condition.type === type);
    if (old?.status === now && old.reason === reason) continue;
    // What a part lacks is told by the summary; what it has reached is told by itself.
    const silent = now === 'Unknown' || (now === 'False' && old?.status !== 'True');
    if (silent && !summaries.includes(type)) continue;
    events.set(`${reason} ${message}`, {
      reason,
      message: message === '' ? reason : message,
      type: badReasons.includes(reason) || reason === stalled ? 'Warning' : 'Normal',
    });
  }
  return [...events.values()];
}
