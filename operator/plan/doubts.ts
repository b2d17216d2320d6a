/**
 * What must not be taken away since somebody else needs it: of blocks that were damaged at one owner
 * of a shard another one may have the only whole copy. AVAILABLE does not tell that. And volumes that
 * are not to be given up, whoever would give them up.
 */
import type { PlacementInstance, PlacementView } from '../coordinator/coordinator_client.ts';
import { memberPod } from '../observe/etcd_members.ts';
import type { Observed } from '../observe/observe.ts';
import { annotation, label } from '../resource/keys.ts';
import { isUnbound, type KubeObject, type Pod } from '../resource/kube_objects.ts';
import { podServes } from '../resource/pod_state.ts';
import { Names } from '../resource/names.ts';
import { type Part, waitingFor } from '../part/part.ts';
import { isServing, nodesWithout } from './readiness.ts';
import { letsRoll, nodePods } from './rollout.ts';

export interface Doubt {
  /** Whether somebody lacks blocks, or only has not said that it lacks none. */
  readonly reason: 'DataInDoubt' | 'NodesSilent';
  readonly text: string;
}

/**
 * Why these nodes cannot be taken away; null when no other owner of their shards lacks anything. An
 * owner that does not say so may; one that cannot, of a release before, and all of them behind such a
 * coordinator, are taken for whole.
 * @param owners those that are asked
 */
export function doubtOf(
  observed: Observed,
  placement: PlacementView | null,
  ids: readonly string[],
  owners: readonly PlacementInstance[] = Object.values(placement?.instances ?? {}),
): Doubt | null {
  const { coordinator } = observed;
  if (placement === null || !coordinator.reachable || coordinator.healths === null) return null;
  const { healths } = coordinator;
  const leaving = ids.filter((id) => id in placement.instances && !isIgnored(observed, id));
  const shards = new Set(
    leaving.flatMap((id) => placement.instances[id]!.shards.map((shard) => shard.id)),
  );
  if (shards.size === 0) return null;
  for (const other of owners) {
    if (ids.includes(other.id) || !other.shards.some(({ id }) => shards.has(id))) continue;
    const health = typeof healths === 'string' ? { error: healths } : healths.get(other.id);
    if (health === undefined || 'error' in health) {
      const why = health === undefined ? 'it was not asked' : health.error;
      const text = `${other.id} has not said yet that it lacks no blocks (${why})`;
      return { reason: 'NodesSilent', text };
    }
    if (health.shardsLacking.some((shard) => shards.has(shard))) {
      const from = leaving.join(', ');
      const text = `${other.id} lacks ${health.blocksLacking} blocks of shards, which it takes from others, ${from} among them; when it never can, annotate pod ${from} with ${annotation.ignoreDoubts}=true`;
      return { reason: 'DataInDoubt', text };
    }
  }
  return null;
}

/** @returns null when nothing is in the way */
export function doubtPart(
  observed: Observed,
  placement: PlacementView | null,
  ids: readonly string[],
): Part | null {
  const doubt = doubtOf(observed, placement, ids);
  return doubt === null
    ? null
    : waitingFor(doubt.reason, `${ids.join(', ')} must stay as long as ${doubt.text}`);
}

/** Said on the pod itself, so that it is good for this one and goes with it. */
function isIgnored({ pods }: Observed, id: string): boolean {
  const pod = pods.find(({ metadata }) => metadata.name === id);
  return pod?.metadata.annotations?.[annotation.ignoreDoubts] === 'true';
}

/** A pod, and what goes with it. */
export interface GivenUp {
  readonly pod: Pod;
  /** Its volume; null for a pod that only has to go: its volume may be reached from elsewhere. */
  readonly claim: KubeObject | null;
  /** What a person asked for may cost the only copy. */
  readonly isAsked?: boolean;
  /** It serves: it is evicted, and only when nobody else is away. */
  readonly isServing?: boolean;
}

/** The volume of a pod, when it was deleted and only the pod keeps it; else null. */
export function goingVolume({ volumeClaims }: Observed, { metadata }: Pod): KubeObject | null {
  const claim = volumeClaims.find((one) => one.metadata.name === `data-${metadata.name}`);
  return claim?.metadata.deletionTimestamp === undefined ? null : claim;
}

/**
 * A pod whose volume was deleted and goes with it: to start it anew is to give that up, whatever it is started anew for.
 * @returns why it is not; null when its volume stays, or is elsewhere too
 */
export function evictionPart(
  observed: Observed,
  placement: PlacementView | null,
  pod: Pod,
): Part | null {
  const claim = goingVolume(observed, pod);
  if (claim === null) return null;
  const { name, annotations } = pod.metadata;
  const isAsked = annotations?.[annotation.replace] === 'true';
  const danger = dangerOf(observed, placement, { pod, claim, isAsked, isServing: podServes(pod) });
  if (danger === null) return null;
  const message = `${name} starts anew when ${danger}: its volume was deleted and goes with it`;
  return waitingFor('Replacing', message);
}

/** Nobody has ever known of a placement: there is nothing on any volume. */
function hasNeverServed({ cluster, coordinator, record, recordProblem }: Observed): boolean {
  if (!coordinator.reachable || coordinator.placement !== null) return false;
  const isKnown = (record?.placement ?? null) !== null || recordProblem !== null;
  return !isKnown && !coordinator.awaitsApproval && (cluster.status?.placementVersion ?? 0) === 0;
}

/** Why the volume cannot be given up now; null when what is on it is elsewhere too. */
export function dangerOf(
  observed: Observed,
  placement: PlacementView | null,
  { pod, claim, isAsked, isServing: serves }: GivenUp,
): string | null {
  // Nothing is on it.
  if (claim !== null && isUnbound(claim)) return null;
  const { name, labels } = pod.metadata;
  if (labels?.[label.component] === 'etcd') return etcdDanger(observed, name);
  if (placement === null) return hasNeverServed(observed) ? null : 'the placement is known';
  const own = placement.instances[name];
  // It has never joined, or has left: there is nothing on it.
  if (own === undefined) {
    const isRecorded = observed.record?.placement?.instanceIds.includes(name) === true;
    return isRecorded ? 'it is written down that it has left' : null;
  }
  if (placement.replicationFactor === 1 && own.shards.length > 0 && isAsked !== true) {
    return `a person says that its shards, of which there is one copy, are lost: annotate pod ${name} with ${annotation.replace}=true`;
  }
  const pods = nodePods(observed);
  const isElsewhere = (other: PlacementInstance): boolean =>
    other.isolationGroup !== own.isolationGroup;
  const others = Object.values(placement.instances).filter(({ id }) => id !== name);
  // Those of its group have no replica of what it has: one disk after the other is enough, and none waits for one that
  // nobody fills.
  const [replicas, neighbours] = [
    others.filter(isElsewhere),
    others.filter((one) => !isElsewhere(one)),
  ];
  const filled = neighbours.find(
    (other) => !isWhole(other) && pods.get(other.id)?.status?.phase === 'Running',
  );
  if (filled !== undefined) return `${filled.id} has all of its shards`;
  const serving = replicas.filter(({ id }) => isServing(pods.get(id)));
  // What it has counts for nothing: it takes its shards from others anyway.
  const isEmpty =
    serves !== true &&
    own.shards.every(
      ({ id, state }) => state === 'INITIALIZING' && serving.some((other) => hasWhole(other, id)),
    );
  if (!isEmpty) {
    for (const other of replicas) {
      if (!isWhole(other)) return `${other.id} has all of its shards`;
      if (!serving.includes(other)) return `${other.id} serves`;
    }
  }
  // One that did not come back, whatever it has, may be the first of many.
  const unready = nodesWithout(observed, letsRoll(observed)).filter((id) => id !== name);
  if (serves === true && unready.length > 0) return 'all other nodes are ready';
  const doubt = doubtOf(observed, placement, [name], isEmpty ? serving : others);
  return doubt === null ? null : `this has ended: ${doubt.text}`;
}

const isWhole = ({ shards }: PlacementInstance): boolean =>
  shards.every(({ state }) => state === 'AVAILABLE');

const hasWhole = ({ shards }: PlacementInstance, shard: number): boolean =>
  shards.some(({ id, state }) => id === shard && state !== 'INITIALIZING');

function etcdDanger({ etcd, cluster }: Observed, pod: string): string | null {
  if (!etcd?.reachable) return 'etcd has a quorum';
  const others = etcd.members.filter((member) => memberPod(cluster, member) !== pod);
  const isLearner = etcd.members.some((one) => one.isLearner && !others.includes(one));
  // Without it they must be a majority, or all that etcd knows is on its volume.
  if (!isLearner && others.length <= etcd.members.length / 2)
    return 'etcd has three members (spec.etcd.replicas: 3)';
  const isSafe = others.every(({ state, isLearner }) => state !== null && !isLearner);
  return isSafe ? null : `all other members of ${new Names(cluster).etcd} serve`;
}
