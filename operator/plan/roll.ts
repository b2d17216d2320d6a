/** Replaces pods of an older revision, one by one: StatefulSets of nodes are OnDelete. */
import { annotation, label } from '../resource/keys.ts';
import { isStale, type Pod, podReady, type StatefulSet } from '../resource/kube_objects.ts';
import { contentHash } from '../resource/content_hash.ts';
import { Names } from '../desired/names.ts';
import type { Observed } from '../observe/observe.ts';
import { doing, nothing, type Plan } from './types.ts';

/** Pods of the storage nodes by name. */
export function nodePods(observed: Observed): Map<string, Pod> {
  const pods = observed.pods.filter(
    ({ metadata }) => metadata.labels?.[label.component] === 'node',
  );
  return new Map(pods.map((pod) => [pod.metadata.name, pod]));
}

interface Rolling {
  readonly pod: Pod;
  readonly outdated: boolean;
}

/** Pods of all groups, in order of groups; on their way out neither outdated nor ready. */
function rollingPods(observed: Observed): Rolling[] {
  const pods = [...nodePods(observed).values()];
  const names = new Names(observed.cluster);
  return observed.cluster.spec.isolationGroups.flatMap(({ name }) => {
    const set: StatefulSet | undefined = observed.statefulSets.get(names.group(name));
    const revision = set === undefined || isStale(set) ? undefined : set.status?.updateRevision;
    return pods
      .filter((pod) => pod.metadata.labels?.[label.group] === name)
      .map((pod) => ({
        pod,
        outdated:
          revision !== undefined &&
          pod.metadata.deletionTimestamp === undefined &&
          pod.metadata.labels?.['controller-revision-hash'] !== revision,
      }));
  });
}

/** What a container waits for that comes by itself. */
const passingReasons: readonly string[] = ['ContainerCreating', 'PodInitializing'];

/**
 * It does not run and will not by itself: image or configuration is bad, or there is no place for
 * it.
 */
function isStuck({ status }: Pod): boolean {
  const { phase = 'Pending', conditions = [], containerStatuses = [] } = status ?? {};
  if (phase !== 'Running' && phase !== 'Pending') return true;
  if (conditions.some((one) => one.type === 'PodScheduled' && one.status === 'False')) return true;
  return containerStatuses.some(
    ({ state }) =>
      state?.waiting !== undefined && !passingReasons.includes(state.waiting.reason ?? ''),
  );
}

/** A deleted pod is away for a moment before its set makes it again. */
function hasMissingPods(observed: Observed, all: readonly Rolling[]): boolean {
  const names = new Names(observed.cluster);
  return observed.cluster.spec.isolationGroups.some(({ name }) => {
    const own = all.filter(({ pod }) => pod.metadata.labels?.[label.group] === name);
    return own.length < (observed.statefulSets.get(names.group(name))?.spec.replicas ?? 0);
  });
}

/**
 * An outdated pod that serves nothing is replaced whatever else is broken: that may be the cure.
 * One that runs may be about to serve, so it waits while replaced pods of other groups are still
 * starting.
 */
export function deadRollPlan(observed: Observed): Plan | null {
  const all = rollingPods(observed);
  const dead = all.filter(({ pod, outdated }) => outdated && !podReady(pod));
  const starting =
    all.some(({ pod, outdated }) => !outdated && !podReady(pod) && !isStuck(pod)) ||
    hasMissingPods(observed, all);
  const next = dead.find(({ pod }) => isStuck(pod)) ?? (starting ? undefined : dead[0]);
  return next === undefined ? null : rollPlan(observed, next.pod);
}

/**
 * The next outdated pod of a cluster in which all serve; null when all are of the newest revision.
 */
export function liveRollPlan(observed: Observed): Plan | null {
  const next = rollingPods(observed).find(({ outdated }) => outdated);
  return next === undefined ? null : rollPlan(observed, next.pod);
}

function rollPlan(observed: Observed, pod: Pod): Plan {
  const { cluster } = observed;
  const outdated = rollingPods(observed)
    .filter((rolling) => rolling.outdated)
    .map((rolling) => rolling.pod.metadata.name);
  const replacing = doing(
    [{ kind: 'delete-pod', pod, reason: 'its revision is not the newest' }],
    'Updating',
    `pods are replaced one by one: ${outdated.join(', ')}`,
  );
  if (cluster.spec.updatePolicy !== 'Gated') return replacing;
  const names = new Names(cluster);
  const revisions = cluster.spec.isolationGroups.map(
    ({ name }) => observed.statefulSets.get(names.group(name))?.status?.updateRevision,
  );
  const hash = contentHash(revisions);
  if (cluster.metadata.annotations?.[annotation.approve] === hash) return replacing;
  return {
    ...nothing,
    waiting: {
      reason: 'ApprovalRequired',
      message: `annotate ${annotation.approve}=${hash} to replace ${outdated.join(', ')}`,
    },
    gated: { hash, actions: outdated.map((name) => `replace pod ${name}`) },
  };
}
