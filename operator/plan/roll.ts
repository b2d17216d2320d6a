/**
 * Replaces pods of an older revision, one by one, by eviction: whoever drains a machine at the same
 * time and this operator cannot take two at once. The sets of nodes and of etcd are OnDelete.
 */
import { etcdReplicasOf } from '../resource/tsdb_cluster.ts';
import { Names } from '../resource/names.ts';
import { allGroups } from '../observe/isolation_groups.ts';
import type { Observed } from '../observe/observe.ts';
import { withTroubles } from '../observe/pod_trouble.ts';
import { label } from '../resource/keys.ts';
import type { Pod } from '../resource/kube_objects.ts';
import { isStuck, podReady, podServes } from '../resource/pod_state.ts';
import type { PlacementView } from '../coordinator/coordinator_client.ts';
import { batchOf } from './batch.ts';
import { doubtPart, evictionPart } from './doubts.ts';
import { isPodOf, nodePods, outdatedPods, type Rollout } from './rollout.ts';
import { doing, nothing, type Part } from '../part/part.ts';

interface Rolling {
  readonly pod: Pod;
  readonly outdated: boolean;
}

/** Pods of all groups, in order of groups; on their way out neither outdated nor ready. */
function rollingPods(observed: Observed): Rolling[] {
  const pods = [...nodePods(observed).values()];
  const outdated = new Set(outdatedPods(observed));
  return allGroups(observed).flatMap((name) =>
    pods
      .filter((pod) => pod.metadata.labels?.[label.group] === name)
      .map((pod) => ({ pod, outdated: outdated.has(pod) })),
  );
}

/** A deleted pod is away for a moment before its set makes it again. */
function hasMissingPods(observed: Observed, all: readonly Rolling[]): boolean {
  const names = new Names(observed.cluster);
  return allGroups(observed).some((name) => {
    const own = all.filter(({ pod }) => pod.metadata.labels?.[label.group] === name);
    return own.length < (observed.statefulSets.get(names.group(name))?.spec.replicas ?? 0);
  });
}

/** A probe that failed says less than etcd itself. */
function servesEtcd({ etcd }: Observed, pod: Pod): boolean {
  if (podServes(pod)) return true;
  if (etcd?.reachable !== true) return false;
  return etcd.members.some(({ name, state }) => name === pod.metadata.name && state !== null);
}

/**
 * An outdated pod that serves nothing is replaced whatever else is broken: that may be the cure.
 * One that runs may be about to serve, so it waits while replaced pods of other groups are still
 * starting.
 * @param isEtcdChanging a member comes or goes, so that its pod is left alone
 * @param placement null when there is none, or nobody knows
 */
export function deadRollPart(
  observed: Observed,
  { isApproved }: Rollout,
  isEtcdChanging: boolean,
  placement: PlacementView | null,
): Part | null {
  if (!isApproved) return null;
  const mayGo = (pod: Pod): boolean => evictionPart(observed, placement, pod) === null;
  const etcd = etcdPods(observed).find(
    ({ pod, outdated }) => outdated && !servesEtcd(observed, pod) && mayGo(pod),
  );
  if (etcd !== undefined && !isEtcdChanging) return replacing(observed, etcd.pod);
  const all = rollingPods(observed);
  const dead = all.filter(
    ({ pod, outdated }) =>
      outdated && !podServes(pod) && isMissedByNobody(observed, all, pod) && mayGo(pod),
  );
  const starting =
    all.some(({ pod, outdated }) => !outdated && !podReady(pod) && !isStuck(pod)) ||
    hasMissingPods(observed, all);
  const next = dead.find(({ pod }) => isStuck(pod)) ?? (starting ? undefined : dead[0]);
  return next === undefined ? null : replacing(observed, next.pod);
}

/** The first outdated pod that does not serve and would be replaced, but for its volume, which goes with it. */
export function keptDeadPart(
  observed: Observed,
  { isApproved }: Rollout,
  placement: PlacementView | null,
): Part | null {
  if (!isApproved) return null;
  for (const { pod, outdated } of [...etcdPods(observed), ...rollingPods(observed)]) {
    if (!outdated || podServes(pod)) continue;
    const kept = evictionPart(observed, placement, pod);
    if (kept !== null) return kept;
  }
  return null;
}

/**
 * Whether a node that is not ready can go whatever else is broken: its process does not answer, or the placement counts
 * on nothing of it. One that lacks some blocks, or takes its time, still serves the rest: it goes when all others serve,
 * as one that is ready does.
 */
function isMissedByNobody(observed: Observed, all: readonly Rolling[], pod: Pod): boolean {
  if (isStuck(pod)) return true;
  const { coordinator } = observed;
  const { name } = pod.metadata;
  if (coordinator.reachable) {
    const { placement, healths } = coordinator;
    const shards = placement?.instances[name]?.shards ?? [];
    if (shards.every(({ state }) => state === 'INITIALIZING')) return true;
    const health = healths instanceof Map ? healths.get(name) : undefined;
    if (health !== undefined && 'error' in health) return true;
  }
  const allOthersServe = all.every((one) => one.pod === pod || podServes(one.pod));
  return allOthersServe && !hasMissingPods(observed, all);
}

/**
 * The next outdated storage node of a cluster in which all serve; null when all are of the newest
 * revision, or may not be replaced.
 */
export function liveRollPart(
  observed: Observed,
  { isApproved, isOpen }: Rollout,
  placement: PlacementView,
): Part | null {
  if (!isApproved || !isOpen) return null;
  const all = rollingPods(observed);
  // What is not ready, and serves all the same, may be cured by it.
  const outdated = readyLast(all.filter((one) => one.outdated).map(({ pod }) => pod));
  const updated = all.filter((one) => !one.outdated).map(({ pod }) => pod);
  let waiting: Part | null = null;
  for (const pod of outdated) {
    const { name } = pod.metadata;
    const doubt = evictionPart(observed, placement, pod) ?? doubtPart(observed, placement, [name]);
    if (doubt === null) {
      const together = batchOf(observed, placement, pod, { outdated, updated });
      return replacing(observed, pod, together);
    }
    waiting ??= doubt;
  }
  return waiting;
}

/**
 * The next outdated member of an etcd in which all serve; null when there is none, or when a member
 * is away.
 */
export function etcdRollPart(observed: Observed, { isApproved, isOpen }: Rollout): Part | null {
  const members = etcdPods(observed);
  const leader = observed.etcd?.reachable
    ? observed.etcd.members.find(({ state }) => state?.isLeader)?.name
    : undefined;
  // The leader last: an election is a pause.
  const outdated = members.filter((member) => member.outdated);
  if (outdated.length === 0 || !isApproved || !isOpen) return null;
  const isWell = ({ pod, outdated: isOld }: Rolling): boolean =>
    isOld ? servesEtcd(observed, pod) : podReady(pod);
  const serving = members.filter(isWell).length;
  if (serving < etcdReplicasOf(observed.cluster)) {
    const others = members.filter((member) => !isWell(member));
    const list = withTroubles(
      others.map(({ pod }) => pod.metadata.name),
      observed,
    );
    const without = list === '' ? '' : `, without ${list}`;
    const message = `etcd members are replaced when all serve: ${serving} of ${etcdReplicasOf(observed.cluster)} do${without}`;
    return { ...nothing, waiting: { reason: 'Updating', message } };
  }
  const kept = outdated.map(({ pod }) => evictionPart(observed, null, pod));
  const mayGo = outdated.filter((_, i) => kept[i] === null);
  const others = mayGo.filter(({ pod }) => pod.metadata.name !== leader);
  const next = others.findLast(({ pod }) => !podReady(pod)) ?? others.at(-1) ?? mayGo[0];
  return next === undefined ? kept[0]! : replacing(observed, next.pod);
}

const readyLast = (pods: readonly Pod[]): Pod[] =>
  pods.toSorted((a, b) => Number(podReady(a)) - Number(podReady(b)));

function etcdPods(observed: Observed): Rolling[] {
  const set = new Names(observed.cluster).etcd;
  const outdated = new Set(outdatedPods(observed));
  return observed.pods
    .filter((pod) => isPodOf(pod, set))
    .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
    .map((pod) => ({ pod, outdated: outdated.has(pod) }));
}

function replacing(observed: Observed, pod: Pod, together: readonly Pod[] = []): Part {
  const outdated = outdatedPods(observed).map(({ metadata }) => metadata.name);
  const count = together.length + 1;
  return doing(
    [{ kind: 'evict-pod', pod, reason: 'its revision is not the newest', together }],
    'Updating',
    `pods are replaced ${count === 1 ? 'one by one' : `${count} at a time`}: ${outdated.sort().join(', ')}`,
  );
}
