/** What keeps a cluster from being as its resource says, after all that could be done was done. */
import { Names } from '../resource/names.ts';
import type { PlacementView } from '../coordinator/coordinator_client.ts';
import { allGroups } from '../observe/isolation_groups.ts';
import type { Observed } from '../observe/observe.ts';
import { coordinatorTroubles, podTrouble, withTroubles } from '../observe/pod_trouble.ts';
import { isStale, type Pod } from '../resource/kube_objects.ts';
import { podReady, podServes } from '../resource/pod_state.ts';
import { aggregatorsReadiness } from '../aggregators_part/aggregators.ts';
import { growingVolumes } from './objects.ts';
import { awaitedMillisMax, isAwaited, nodePods, staleSets } from './rollout.ts';
import { nothing, type Part, type Reason, waitingFor } from '../part/part.ts';

export const isServing = (pod: Pod | undefined): boolean => pod !== undefined && podServes(pod);

export function isSettled(placement: PlacementView): boolean {
  return Object.values(placement.instances).every((instance) =>
    instance.shards.every((shard) => shard.state === 'AVAILABLE'),
  );
}

/** Nodes of the placement that do not serve, without the given ones. */
export function downIn(
  observed: Observed,
  placement: PlacementView,
  except: readonly string[],
): string[] {
  const pods = nodePods(observed);
  return Object.keys(placement.instances).filter(
    (id) => !except.includes(id) && !isServing(pods.get(id)),
  );
}

/** Nodes of the sets and of the placement that have no pod, or one that does not hold this; sorted. */
export function nodesWithout(observed: Observed, holds: (pod: Pod) => boolean): string[] {
  const { cluster, statefulSets, coordinator } = observed;
  const names = new Names(cluster);
  const pods = nodePods(observed);
  const ids = allGroups(observed).flatMap((name) => {
    const replicas = statefulSets.get(names.group(name))?.spec.replicas ?? 0;
    return Array.from({ length: replicas }, (_, ordinal) => names.pod(name, ordinal));
  });
  const placed = coordinator.reachable ? Object.keys(coordinator.placement?.instances ?? {}) : [];
  const all = new Set([...ids, ...placed, ...pods.keys()]);
  return [...all]
    .filter((id) => {
      const pod = pods.get(id);
      return pod === undefined || !holds(pod);
    })
    .sort();
}

/**
 * Nodes of the sets and of the placement that are not ready; null when all are.
 * @param isReady of a pod; other than usual where less is asked for
 */
export function unreadyNodes(
  observed: Observed,
  isReady: (pod: Pod) => boolean = podReady,
): Reason | null {
  const { cluster } = observed;
  const names = new Names(cluster);
  const unready = nodesWithout(observed, isReady);
  if (unready.length === 0) return null;
  const wanted = new Set(
    cluster.spec.isolationGroups.flatMap(({ name }) =>
      Array.from({ length: cluster.spec.nodes.replicasPerGroup }, (_, ordinal) =>
        names.pod(name, ordinal),
      ),
    ),
  );
  // Nobody misses what the resource does not ask for.
  if (!unready.some((id) => wanted.has(id))) {
    return { reason: 'ScalingDown', message: `nodes leave: ${unready.join(', ')}` };
  }
  if (areReplaced(observed, unready)) {
    return { reason: 'Updating', message: `pods were replaced and start: ${unready.join(', ')}` };
  }
  const filled = unready.flatMap((id) => fillingText(observed, id) ?? []);
  const message = [`nodes are not ready: ${withTroubles(unready, observed)}`, ...filled].join('; ');
  return { reason: 'NodesNotReady', message };
}

/** How far a node is that takes shards; null when it takes none. */
function fillingText({ coordinator }: Observed, id: string): string | null {
  const placement = coordinator.reachable ? coordinator.placement : null;
  const shards = placement?.instances[id]?.shards ?? [];
  const whole = shards.filter(({ state }) => state === 'AVAILABLE').length;
  return shards.some(({ state }) => state === 'INITIALIZING')
    ? `${id} has ${whole} of its ${shards.length} shards`
    : null;
}

/**
 * Whether nodes are away since this operator replaces them, which is no loss that anybody has to look
 * at: it was at that before, and all of them are about to serve.
 */
function areReplaced(observed: Observed, unready: readonly string[]): boolean {
  const { cluster, nowMillis } = observed;
  const pods = nodePods(observed);
  const ready = cluster.status?.conditions?.find(({ type }) => type === 'Ready');
  if (ready?.reason !== 'Updating') return false;
  // One that is not made anew has no date.
  const untilMillis = Date.parse(ready.lastTransitionTime) + (pods.size + 1) * awaitedMillisMax;
  if (nowMillis >= untilMillis) return false;
  return unready.every((id) => {
    const pod = pods.get(id);
    if (pod === undefined) return true;
    // How a process ended that was asked to says nothing.
    const endedMillis = nowMillis - Date.parse(pod.metadata.deletionTimestamp ?? '');
    if (endedMillis < awaitedMillisMax) return true;
    return isAwaited(pod, nowMillis) && podTrouble(pod) === null;
  });
}

/** Nodes that are not ready, and everything around the nodes. @param isReady as of `unreadyNodes` */
export function nodesReadiness(
  observed: Observed,
  isReady: (pod: Pod) => boolean = podReady,
): Part | null {
  const unready = unreadyNodes(observed, isReady);
  if (unready !== null) return { ...nothing, waiting: unready };
  const stale = staleSets(observed);
  if (stale.length > 0) {
    return waitingFor('Updating', `Kubernetes has not taken up changes of ${stale.join(', ')}`);
  }
  // Its pod serves, and nobody would make it anew.
  const released = [...observed.statefulSets.values()].filter(
    ({ spec, status }) => (status?.replicas ?? 0) < (spec.replicas ?? 1),
  );
  if (released.length === 0) return null;
  const list = released.map(({ metadata }) => metadata.name).join(', ');
  return waitingFor(
    'Updating',
    `Kubernetes does not count all pods of ${list} as theirs: their sets were just made anew, or somebody has changed labels of pods (kubectl get pods --show-labels; deleting such a pod mends it)`,
  );
}

/** Nobody writes, reads, or is asked by the operator, and no autoscaler goes on from none. */
export function withoutCoordinators({ cluster, deployments }: Observed): Reason[] {
  const { coordinator: name } = new Names(cluster);
  if (deployments.get(name)?.spec.replicas !== 0) return [];
  const message = `there are 0 coordinators, as somebody has scaled them: nothing is written or read, and the operator can do little; kubectl scale deployment ${name} --replicas=2, or set spec.coordinator.replicas`;
  return [{ reason: 'NoCoordinators', message }];
}

/** A probe that has failed once says nothing. */
const probeMillis = 30_000;

function unreadyMillis({ nowMillis }: Observed, { status }: Pod): number {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return nowMillis - (Date.parse(ready?.lastTransitionTime ?? '') || nowMillis);
}

/** @param isEtcdWell its own part has nothing to do and nothing to wait for */
export function othersReadiness(observed: Observed, isEtcdWell: boolean): Part | null {
  const { cluster, deployments } = observed;
  const names = new Names(cluster);
  // Whether its members answer etcd says itself.
  const members = observed.statefulSets.get(names.etcd)?.spec.replicas ?? 0;
  const unready = observed.pods
    .filter((pod) => (names.etcdOrdinal(pod.metadata.name) ?? members) < members)
    .filter((pod) => !podReady(pod) && unreadyMillis(observed, pod) > probeMillis)
    .map(({ metadata }) => metadata.name);
  if (isEtcdWell && unready.length > 0) {
    const list = withTroubles(unready.sort(), observed);
    return waitingFor('EtcdNotReady', `pods of etcd are not ready, though it answers: ${list}`);
  }
  const deployment = deployments.get(names.coordinator);
  if (deployment !== undefined) {
    const wanted = deployment.spec.replicas ?? 1;
    const { availableReplicas = 0, updatedReplicas = 0, replicas = 0 } = deployment.status ?? {};
    const troubles = coordinatorTroubles(observed.pods, deployment);
    const why = troubles.length === 0 ? '' : `: ${troubles.join('; ')}`;
    if (isStale(deployment) || Math.min(availableReplicas, updatedReplicas) < wanted) {
      const message = `${availableReplicas} of ${wanted} coordinators are available, ${updatedReplicas} are of the newest revision${why}`;
      return waitingFor('CoordinatorsNotReady', message);
    }
    if (replicas > wanted) {
      // One that is new counts as updated before it serves.
      const what =
        why === '' ? 'old coordinators are ending' : `new coordinators do not start${why}`;
      return waitingFor('CoordinatorsNotReady', what);
    }
  }
  return aggregatorsReadiness(observed) ?? growingVolumes(observed);
}
