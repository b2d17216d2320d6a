/** What the resources say about themselves: pure functions of what was observed and planned. */
import type { ClusterStatus, TsdbCluster } from './resource/tsdb_cluster.ts';
import { type Condition, podReady } from './resource/kube_objects.ts';
import { label } from './resource/keys.ts';
import type { TsdbNamespace } from './resource/tsdb_namespace.ts';
import type { Desired } from './desired/desired.ts';
import { etcdReplicasOf } from './desired/etcd.ts';
import { Names } from './desired/names.ts';
import { nameOfNamespace, namespaceProblem } from './desired/namespaces.ts';
import type { Observed } from './observe/observe.ts';
import { isSettled, type Plan, unreadyNodes } from './plan/plan.ts';
import { nodePods } from './plan/roll.ts';

type Verdict = Pick<Condition, 'status' | 'reason' | 'message'>;

const yes = (reason: string, message = ''): Verdict => ({ status: 'True', reason, message });
const no = (reason: string, message: string): Verdict => ({ status: 'False', reason, message });
const unknown = (reason: string, message: string): Verdict => ({
  status: 'Unknown',
  reason,
  message,
});

/** @param now RFC 3339, for conditions that change */
/** One pass: what was seen and what is asked for. */
export interface Pass {
  readonly observed: Observed;
  readonly desired: Desired;
}

export function clusterStatus(pass: Pass, plan: Plan, now: string): ClusterStatus {
  const { observed, desired } = pass;
  const { cluster } = observed;
  const names = new Names(cluster);
  const verdicts = verdictsOf(pass, plan);
  const placement = observed.coordinator.reachable ? observed.coordinator.placement : null;
  const shards = Object.values(placement?.instances ?? {}).flatMap((instance) => instance.shards);
  const available = shards.filter(({ state }) => state === 'AVAILABLE').length;
  const pods = nodePods(observed);
  const etcdSet = observed.statefulSets.get(names.etcd);
  const registry = observed.coordinator.reachable ? observed.coordinator.namespaces : new Map();
  const revisions = new Map(
    [...observed.statefulSets].map(([name, set]) => [name, set.status?.updateRevision]),
  );
  return {
    observedGeneration: cluster.metadata.generation ?? 0,
    phase: phaseOf(verdicts, plan),
    replicasPerGroup: Math.min(
      ...cluster.spec.isolationGroups.map(
        ({ name }) => observed.statefulSets.get(names.group(name))?.status?.replicas ?? 0,
      ),
    ),
    groupCount: cluster.spec.isolationGroups.length,
    selector: `${label.cluster}=${cluster.metadata.name},${label.component}=node`,
    shards: `${available}/${cluster.spec.numberOfShards * cluster.spec.replicationFactor}`,
    ...(placement === null ? {} : { placementVersion: placement.version }),
    ...(plan.gated === null ? {} : { plan: plan.gated }),
    groups: cluster.spec.isolationGroups.map(({ name }) => {
      const set = observed.statefulSets.get(names.group(name));
      const own = [...pods.values()].filter((pod) => pod.metadata.labels?.[label.group] === name);
      return {
        name,
        replicas: set?.status?.replicas ?? 0,
        readyReplicas: own.filter(podReady).length,
        updatedReplicas: own.filter(
          (pod) =>
            pod.metadata.labels?.['controller-revision-hash'] === revisions.get(names.group(name)),
        ).length,
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
          },
        }),
    namespaces: desired.namespaces.desired.map(({ name }) => ({
      name,
      ready: registry.get(name)?.ready === true,
    })),
    conditions: conditionsOf(
      verdicts,
      cluster.status?.conditions ?? [],
      cluster.metadata.generation ?? 0,
      now,
    ),
  };
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
      ? no('NoPlacement', 'there is no placement yet')
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
  if (observed.cluster.spec.paused === true) verdicts.set('Paused', yes('Paused', 'spec.paused'));
  const broken = [...verdicts].find(([type, { status }]) => type !== 'Paused' && status !== 'True');
  const tried = observed.lastError === null ? '' : `; last attempt failed: ${observed.lastError}`;
  if (plan.stalled !== null) {
    verdicts.set('Stalled', yes(plan.stalled.reason, plan.stalled.message));
    verdicts.set('Ready', no(plan.stalled.reason, plan.stalled.message));
    return verdicts;
  }
  const { waiting } = plan;
  if (waiting !== null && waiting.reason !== 'Paused') {
    verdicts.set('Reconciling', yes(waiting.reason, waiting.message + tried));
  } else if (broken !== undefined && waiting === null) {
    verdicts.set('Reconciling', yes(broken[1].reason, broken[1].message + tried));
  }
  // A change that waits for its approval takes nothing from a cluster that serves.
  const unready =
    waiting === null || waiting.reason === 'Paused' || waiting.reason === 'ApprovalRequired'
      ? (broken?.[1] ?? unreadyNodes(observed))
      : waiting;
  verdicts.set(
    'Ready',
    unready === null
      ? yes('AllNodesServe', 'all nodes serve and all shards are available')
      : no(unready.reason, unready.message + tried),
  );
  return verdicts;
}

function etcdVerdict(observed: Observed): Verdict {
  const { cluster, statefulSets } = observed;
  if (cluster.spec.etcd?.external !== undefined) {
    return observed.coordinator.reachable
      ? yes('External', 'the coordinator reads it')
      : unknown('CoordinatorUnreachable', observed.coordinator.problem);
  }
  const ready = statefulSets.get(new Names(cluster).etcd)?.status?.readyReplicas ?? 0;
  const members = etcdReplicasOf(cluster);
  const message = `${ready} of ${members} members are ready`;
  return ready > members / 2 ? yes('QuorumReady', message) : no('NoQuorum', message);
}

function namespacesVerdict({ observed, desired: { namespaces } }: Pass): Verdict {
  const { coordinator } = observed;
  if (!coordinator.reachable) return unknown('CoordinatorUnreachable', coordinator.problem);
  const { desired } = namespaces;
  const waiting = desired.filter(({ name }) => coordinator.namespaces.get(name)?.ready !== true);
  if (waiting.length === 0) {
    const names = desired.map(({ name }) => name).join(', ');
    return yes('AllReady', names === '' ? 'none is asked for' : `ready: ${names}`);
  }
  const list = waiting.map(({ name, spec }) => {
    const problem = namespaceProblem(spec);
    return problem === null ? name : `${name} (${problem})`;
  });
  return no('NotReady', `not ready: ${list.join(', ')}`);
}

function phaseOf(verdicts: Map<string, Verdict>, plan: Plan): string {
  if (plan.stalled !== null) return 'Stalled';
  if (verdicts.has('Paused')) return 'Paused';
  if (verdicts.get('Ready')?.status === 'True') return 'Running';
  switch (plan.waiting?.reason) {
    case 'ScalingUp':
    case 'ScalingDown':
      return 'Scaling';
    case 'Updating':
    case 'ApprovalRequired':
      return 'Updating';
    case 'NodesNotReady':
      return 'Degraded';
    default:
      return verdicts.get('PlacementInitialized')?.status === 'True' ? 'Reconciling' : 'Creating';
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
    const lastTransitionTime =
      before !== undefined && before.status === verdict.status ? before.lastTransitionTime : now;
    return { type, ...verdict, observedGeneration, lastTransitionTime };
  });
}

/** Only a change of resources helps. */
const stalledReasons: readonly string[] = ['NameConflict', 'InvalidSpec'];

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
  const problem = namespaceProblem(claim.spec);
  if (problem !== null) return no('InvalidSpec', problem);
  if (!observed.coordinator.reachable) {
    return no('CoordinatorUnreachable', observed.coordinator.problem);
  }
  const live = observed.coordinator.namespaces.get(nameOfNamespace(claim));
  if (live === undefined) return no('Pending', 'the namespace is not registered yet');
  if (!live.ready) return no('Bootstrapping', 'the namespace is registered and bootstraps');
  return yes('NamespaceReady', 'the namespace takes writes and queries');
}

/** Conditions that sum up the others: whatever they say first is news. */
const summaries: readonly string[] = ['Ready', 'Reconciling', 'Stalled', 'Paused'];
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
