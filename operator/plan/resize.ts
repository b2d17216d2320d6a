/**
 * Requests and limits of containers that run are changed in place, where Kubernetes can (1.33 on): no
 * pod is replaced for them. A limit of memory is not among them, since processes take their memory by
 * the limit that they start with. What the server does not know, or will not do, and what the machine
 * never can is rolled out as any other change.
 */
import type { Action } from '../action/action.ts';
import type { ActionFailure } from '../action/failures.ts';
import type { Observed } from '../observe/observe.ts';
import {
  isStale,
  type KubeObject,
  type Pod,
  type ResourceRequirements,
  type StatefulSet,
} from '../resource/kube_objects.ts';
import { podReady } from '../resource/pod_state.ts';
import { fieldManager } from '../resource/keys.ts';
import { contains } from '../resource/merge.ts';
import { doing, type Part, type Reason, waitingFor } from '../part/part.ts';

type Resize = Action & { readonly kind: 'resize-pod' };

export interface Container {
  readonly name: string;
  readonly resources?: ResourceRequirements;
  readonly resizePolicy?: readonly {
    readonly resourceName: string;
    readonly restartPolicy: string;
  }[];
}

interface PodSpec {
  readonly containers: readonly Container[];
  readonly volumes?: readonly { readonly name: string }[];
  readonly tolerations?: readonly object[];
}

interface Template {
  readonly metadata?: { readonly labels?: object; readonly annotations?: object };
  readonly spec: PodSpec;
}

/** As Kubernetes has it in pods, and not in their templates: a limit without a request is one. */
const resourcesOf = ({ resources = {} }: Container): Required<ResourceRequirements> => ({
  requests: { ...resources.limits, ...resources.requests },
  limits: resources.limits ?? {},
});

/** Kubernetes' class of quality of service: it never changes while a pod runs. */
function qualityOf(containers: readonly Container[]): string {
  const all = containers.flatMap((container) => {
    const { requests, limits } = resourcesOf(container);
    return ['cpu', 'memory'].map((name) => [requests[name], limits[name]] as const);
  });
  if (all.every(([request]) => request === undefined)) return 'BestEffort';
  const isExact = all.every(([request, limit]) => limit !== undefined && request === limit);
  return isExact ? 'Guaranteed' : 'Burstable';
}

const isSame = (a: object, b: object): boolean => contains(a, b) && contains(b, a);

/**
 * How the pod differs from its set's template: `null` when in more than what can be changed in place;
 * the containers as they should be, none when it is as the template says.
 */
function difference(pod: Pod, set: KubeObject): readonly Container[] | null {
  const { template } = set['spec'] as { readonly template: Template };
  const live = pod['spec'] as PodSpec;
  const names = new Set(template.spec.volumes?.map(({ name }) => name));
  const comparable = (spec: PodSpec): object => {
    // Kubernetes adds volumes and tolerations of its own.
    const { tolerations: _tolerations, volumes = [], ...others } = spec;
    return {
      ...others,
      volumes: volumes.filter(({ name }) => names.has(name)),
      containers: spec.containers.map(({ resources: _resources, ...rest }) => rest),
    };
  };
  const { labels = {}, annotations = {} } = template.metadata ?? {};
  if (!contains(pod.metadata.labels ?? {}, labels)) return null;
  if (!contains(pod.metadata.annotations ?? {}, annotations)) return null;
  const wantedTolerations = template.spec.tolerations ?? [];
  const hasTolerations = wantedTolerations.every((wanted) =>
    live.tolerations?.some((one) => contains(one, wanted)),
  );
  if (!hasTolerations || !contains(comparable(live), comparable(template.spec))) return null;
  if (qualityOf(live.containers) !== qualityOf(template.spec.containers)) return null;
  const changed: Container[] = [];
  for (const wanted of template.spec.containers) {
    const is = live.containers.find(({ name }) => name === wanted.name);
    if (is === undefined) return null;
    if (isSame(resourcesOf(is), resourcesOf(wanted))) continue;
    if (is.resources?.limits?.['memory'] !== wanted.resources?.limits?.['memory']) return null;
    if (restartsFor(is, wanted)) return null;
    changed.push({ name: wanted.name, resources: resourcesOf(wanted) });
  }
  return changed;
}

/** Kubernetes would end its process for it, past every gate of ours. */
function restartsFor(is: Container, wanted: Container): boolean {
  const [before, after] = [resourcesOf(is), resourcesOf(wanted)];
  return (is.resizePolicy ?? []).some(
    ({ resourceName: name, restartPolicy }) =>
      restartPolicy === 'RestartContainer' &&
      (before.requests[name] !== after.requests[name] ||
        before.limits[name] !== after.limits[name]),
  );
}

/** Nothing is said of the newest resources yet: a kubelet before Kubernetes 1.34 does not say of which it speaks. */
const isUnseen = ({ metadata, status }: Pod): boolean =>
  status?.observedGeneration !== undefined &&
  status.observedGeneration < (metadata.generation ?? 0);

const conditionOf = (pod: Pod, type: string) =>
  pod.status?.conditions?.find((one) => one.type === type && one.status === 'True');

function resizeOf(observed: Observed, pod: Pod, set: KubeObject): Action | 'done' | null {
  const containers = difference(pod, set);
  if (containers === null) return null;
  // Its machine will never have so much.
  if (conditionOf(pod, 'PodResizePending')?.reason === 'Infeasible') return null;
  if (containers.length === 0) return 'done';
  const action: Action = { kind: 'resize-pod', pod, containers };
  const failure = observed.failureOf(action);
  if (failure?.isRefused === true) return lacksRoom(failure) ? action : null;
  return podReady(pod) ? action : null;
}

/** Words of a quota, and of a LimitRange. */
const roomWords = /exceeded quota|usage per (?:Pod|Container) is/;

/** A pod that a quota has no room for, whether it is ready or not, would not come back from a roll. */
const lacksRoom = ({ isForbidden, message }: ActionFailure): boolean =>
  isForbidden && roomWords.test(message);

/** What a quota has no room for; null when nothing is refused for that. */
export function withoutRoom(observed: Observed): Reason | null {
  const refused = refusedResizes(observed).flatMap((action) => {
    const failure = observed.failureOf(action)!;
    return lacksRoom(failure)
      ? [`${action.pod.metadata.name} does not get its resources: ${failure.message}`]
      : [];
  });
  if (refused.length === 0) return null;
  const others = refused.length === 1 ? '' : `; nor do ${refused.length - 1} others`;
  return { reason: 'ResizeRefused', message: `${refused[0]}${others}` };
}

/**
 * Whether the pod has to be replaced to become as its set says: it is of another revision, or was
 * changed in place before and cannot be changed back so.
 */
export function isOutdated(observed: Observed, pod: Pod, set: StatefulSet): boolean {
  return isOther(pod, set) && resizeOf(observed, pod, set) === null;
}

/** Not known to be as its set says. */
function isOther({ metadata }: Pod, set: StatefulSet): boolean {
  const revision = metadata.labels?.['controller-revision-hash'];
  // A template that comes back has the revision that it had; who was resized meanwhile has not.
  const wasResized = metadata.managedFields?.some(
    (write) => write['subresource'] === 'resize' && Object.values(write).includes(fieldManager),
  );
  return revision !== set.status?.updateRevision || wasResized === true;
}

/** Refused ones too, which are rolled instead: their refusal must not be forgotten meanwhile. */
export function refusedResizes(observed: Observed): Resize[] {
  return outdatedOf(observed).flatMap(([pod, set]): Resize[] => {
    const containers = difference(pod, set);
    if (containers === null || containers.length === 0) return [];
    const action: Resize = { kind: 'resize-pod', pod, containers };
    return observed.failureOf(action)?.isRefused === true ? [action] : [];
  });
}

/** One pod at a time; null when none is to be changed. */
export function resizePodsPart(observed: Observed): Part | null {
  const all = outdatedOf(observed);
  const changed = all.filter(([pod, set]) => resizeOf(observed, pod, set) === 'done');
  for (const [pod] of changed) {
    const { name } = pod.metadata;
    const going = conditionOf(pod, 'PodResizePending') ?? conditionOf(pod, 'PodResizeInProgress');
    if (going !== undefined) {
      return waitingFor('Resizing', `${name}: ${going.type} ${going.message ?? ''}`.trim());
    }
    if (isUnseen(pod)) return waitingFor('Resizing', `${name} is to have its resources`);
  }
  const wanted = all.flatMap(([pod, set]) => {
    const action = resizeOf(observed, pod, set);
    return action === null || action === 'done' ? [] : [{ pod, action }];
  });
  // Who has to have less may make the room that another one was refused.
  const next = wanted.find(({ action }) => observed.failureOf(action)?.isRefused !== true);
  // Of those that were refused nobody waits for another one: each is tried again in its own time.
  const some = next === undefined ? wanted : [next];
  if (some.length === 0) return null;
  const names = some.map(({ pod }) => pod.metadata.name).join(', ');
  return doing(
    some.map(({ action }) => action),
    'Resizing',
    `${names} ${some.length === 1 ? 'gets its' : 'get their'} resources while running`,
  );
}

/** Pods that are perhaps not as their set says, with that. */
function outdatedOf(observed: Observed): [Pod, StatefulSet][] {
  return observed.pods.flatMap((pod): [Pod, StatefulSet][] => {
    const set = observed.statefulSets.get(pod.metadata.name.replace(/-\d+$/, ''));
    if (set === undefined || isStale(set) || pod.metadata.deletionTimestamp !== undefined) {
      return [];
    }
    return isOther(pod, set) ? [[pod, set]] : [];
  });
}
