/**
 * What a pod does, as Kubernetes says. A pod is ready when all of its containers are, those of a
 * `podTemplate` too; our own process serves whatever becomes of these, and where data are at stake that
 * alone counts.
 */
import { label } from './keys.ts';
import type { ContainerStatus, Pod } from './kube_objects.ts';

/** Whether it is ready and not on its way out. */
export function podReady(pod: Pod): boolean {
  return (
    pod.metadata.deletionTimestamp === undefined &&
    (pod.status?.conditions ?? []).some(({ type, status }) => type === 'Ready' && status === 'True')
  );
}

/** Reasons of a kubelet that knows all containers; one that is not heard any more gives none. */
const reasonsOfOthers: readonly string[] = ['ContainersNotReady', 'ReadinessGatesNotReady'];

/** Whether our process of it serves: the pod is ready, or only something else of it is not. */
export function podServes(pod: Pod): boolean {
  if (podReady(pod)) return true;
  if (pod.metadata.deletionTimestamp !== undefined) return false;
  const ready = pod.status?.conditions?.find(({ type }) => type === 'Ready');
  return reasonsOfOthers.includes(ready?.reason ?? '') && ownStatus(pod)?.ready === true;
}

/** Whether our process has served since its pod was made, as far as anybody knows. */
export function hasServed(pod: Pod): boolean {
  return podReady(pod) || ownStatus(pod)?.ready === true;
}

/** Since when it is ready, Unix milliseconds; null while it is not, or when nothing says it. */
export function readySinceMillis(pod: Pod): number | null {
  if (!podReady(pod)) return null;
  const ready = pod.status?.conditions?.find(({ type }) => type === 'Ready');
  const since = Date.parse(ready?.lastTransitionTime ?? '');
  return Number.isNaN(since) ? null : since;
}

/**
 * Of the container with our process, which has the name of its component; undefined while nothing is said
 * of it, and of coordinators: nobody reaches one whose pod is not ready.
 */
function ownStatus({ metadata, status }: Pod): ContainerStatus | undefined {
  const component = metadata.labels?.[label.component];
  if (component === 'coordinator') return undefined;
  return status?.containerStatuses?.find(({ name }) => name === component);
}

/** Of the containers without which our process does not run. */
function statusesOfOwn(pod: Pod): readonly ContainerStatus[] {
  const { containerStatuses = [], initContainerStatuses = [] } = pod.status ?? {};
  const own = ownStatus(pod);
  if (own === undefined) return [...initContainerStatuses, ...containerStatuses];
  return own.state?.running === undefined ? [...initContainerStatuses, own] : [own];
}

/** Starts so often that a container of a sound configuration would have come up. */
const crashesMin = 5;

/**
 * Whether our process ends again and again, and what it starts with will not change. One that waits for
 * an init container has not started at all: its data are not the cause.
 */
export function isCrashLooping(pod: Pod): boolean {
  const own = ownStatus(pod);
  return (own === undefined ? (pod.status?.containerStatuses ?? []) : [own]).some(
    ({ restartCount, state }) =>
      restartCount >= crashesMin && state?.waiting?.reason === 'CrashLoopBackOff',
  );
}

/** What a container waits for that comes by itself. */
export const passingReasons: readonly string[] = ['ContainerCreating', 'PodInitializing'];

/**
 * Our process does not run and will not by itself: image or configuration is bad, or there is no place
 * for it.
 */
export function isStuck(pod: Pod): boolean {
  const { phase = 'Pending', conditions = [] } = pod.status ?? {};
  if (phase !== 'Running' && phase !== 'Pending') return true;
  if (conditions.some((one) => one.type === 'PodScheduled' && one.status === 'False')) return true;
  return statusesOfOwn(pod).some(
    ({ state }) =>
      state?.waiting !== undefined && !passingReasons.includes(state.waiting.reason ?? ''),
  );
}
