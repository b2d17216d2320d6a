/**
 * When what pods are made from may change. A template that is written is as good as rolled out: a pod
 * that dies for another reason comes back with it. So it is held back until its turn has come:
 * approved under `updatePolicy: Gated`, one component at a time, and when only the operator has
 * changed, one cluster at a time.
 */
import type { Component } from '../desired/common.ts';
import { classDefault, templateOf } from '../desired/common.ts';
import type { Desired } from '../desired/desired.ts';
import { componentOf } from '../desired/former.ts';
import { etcdSkew } from '../etcd/version_skew.ts';
import { contains } from '../resource/merge.ts';
import { childKey, type Observed } from '../observe/observe.ts';
import { contentHash } from '../resource/content_hash.ts';
import { annotation, label } from '../resource/keys.ts';
import { isStale, type KubeObject, type Pod } from '../resource/kube_objects.ts';
import { hasServed, isStuck, podReady, podServes } from '../resource/pod_state.ts';
import { downgradeOf } from './formats.ts';
import { isOutdated } from './resize.ts';
import { classOfSet, unfitVolumes } from '../observe/volume_classes.ts';
import type { GatedChanges, Plan, Reason } from '../part/part.ts';
import { windowsAt } from '../resource/maintenance_windows.ts';

/** A new pod is waited for so long; a node that replays its log takes some minutes. */
export const awaitedMillisMax: number = 10 * 60_000;

/** In the order in which they are rolled. */
const rolledComponents: readonly Component[] = ['etcd', 'node', 'coordinator', 'aggregator'];

export interface Rollout {
  /** Whether this workload is not to be written now. */
  holds(wanted: KubeObject): boolean;
  /** Whether pods of older revisions may be replaced. */
  readonly isApproved: boolean;
  /** Whether this is the time for it, also for pods that serve. */
  readonly isOpen: boolean;
  readonly gated: GatedChanges | null;
  /** Why changes are held; null when none is. */
  readonly waiting: Reason | null;
  /** What comes when nothing else is waited for: the turn of the next component. */
  readonly later: Reason | null;
  /** What a person must change. */
  readonly stalled: readonly Reason[];
  readonly state: Plan['rollout'];
}

/** To the second, as conditions have it. */
export const rfc3339 = (millis: number): string =>
  new Date(millis).toISOString().replace(/\.\d+Z$/, 'Z');

export function rolloutOf(observed: Observed, desired: Desired): Rollout {
  const workloads = desired.objects.filter((object) => templateOf(object) !== undefined);
  const pending = workloads.filter((wanted) => {
    const live = standing(observed, desired, wanted);
    return live !== undefined && !(hasTemplate(live, wanted) && hasClass(live, wanted));
  });
  const outdated = [...outdatedPods(observed), ...unfitVolumes(observed).map(({ pod }) => pod)];
  const classes = workloads.map(classOfSet).filter((name) => name !== classDefault);
  const hash = contentHash([
    ...workloads.map(({ metadata }) => metadata.annotations?.[annotation.template]),
    ...classes.filter((name) => name !== undefined),
  ]);
  const { cluster } = observed;
  const isGated = cluster.spec.updatePolicy === 'Gated';
  const isApproved = !isGated || cluster.metadata.annotations?.[annotation.approve] === hash;
  const { isOpen, untilMillis, problem } = windowsAt(
    cluster.spec.maintenanceWindows ?? [],
    observed.nowMillis,
  );
  const skew = etcdSkewOf(observed, pending);
  const downgrade = pending
    .filter((wanted) => componentOf(wanted) === 'node')
    .map((wanted) => downgradeOf(observed, templateOf(wanted)))
    .find((message) => message !== null);
  const stalled = [
    ...(downgrade === undefined ? [] : [{ reason: 'DowngradeRefused', message: downgrade }]),
    ...(problem === null ? [] : [{ reason: 'InvalidSpec', message: problem }]),
    ...(skew === null || !isApproved ? [] : [{ reason: 'EtcdVersionSkew', message: skew }]),
  ];
  const none = { isApproved, isOpen, gated: null, waiting: null, later: null, stalled };
  if (pending.length + outdated.length === 0) {
    return { ...none, holds: () => false, state: 'none' };
  }
  if (!isApproved) {
    const actions = changesOf(observed, desired, pending, outdated);
    const given = cluster.metadata.annotations?.[annotation.approve];
    const others = given === undefined ? '' : `; what stands there, ${given}, is another change`;
    return {
      ...none,
      state: 'gated',
      holds: (wanted) => pending.includes(wanted),
      gated: { hash, actions },
      waiting: {
        reason: 'ApprovalRequired',
        message: `annotate ${annotation.approve}=${hash} to ${actions.join(', ')}${others}`,
      },
    };
  }
  // Who has approved it has said when.
  if (pending.length > 0 && !isGated && !observed.mayRoll) {
    const message = `the operator has changed: its clusters are rolled one after the other, and this one waits for its turn${observed.rolledNow.length === 0 ? '' : `; now it is that of ${observed.rolledNow.join(', ')}`}`;
    return {
      ...none,
      state: 'held',
      holds: (wanted) => pending.includes(wanted),
      waiting: { reason: 'RolloutHeld', message },
    };
  }
  const impossible = [
    ...(skew === null ? [] : ['etcd']),
    ...(downgrade === undefined ? [] : ['node']),
  ];
  const possible = pending.filter((wanted) => !impossible.includes(componentOf(wanted)));
  if (!isOpen) {
    const cured = new Set(observed.pods.filter(isStuck).map(componentOf));
    const next = untilMillis === null ? 'never' : `at ${rfc3339(untilMillis)}`;
    return {
      ...none,
      state: 'closed',
      holds: (wanted) =>
        pending.includes(wanted) && !(possible.includes(wanted) && cured.has(componentOf(wanted))),
      waiting: {
        reason: 'OutsideMaintenanceWindow',
        message: `pods are replaced when the next maintenance window opens, ${next}`,
      },
    };
  }
  const turn = turnOf(observed, possible);
  const next = possible.filter((wanted) => !turn.has(componentOf(wanted))).map(childKey);
  const message = `changed when all that was replaced before serves: ${next.join(', ')}`;
  return {
    ...none,
    state: 'begun',
    later: next.length === 0 ? null : { reason: 'Updating', message },
    holds: (wanted) =>
      pending.includes(wanted) && !(possible.includes(wanted) && turn.has(componentOf(wanted))),
  };
}

/** Why the members of etcd cannot have the image that they are to have; null when they can. */
function etcdSkewOf({ etcd }: Observed, pending: readonly KubeObject[]): string | null {
  const set = pending.find((wanted) => componentOf(wanted) === 'etcd');
  if (set === undefined || !etcd?.reachable) return null;
  const { containers } = (templateOf(set) as { spec: { containers: { image: string }[] } }).spec;
  const versions = etcd.members.flatMap(({ state }) => (state === null ? [] : [state.version]));
  return etcdSkew(containers[0]!.image, versions);
}

/**
 * The components that may change now: the first that is not done, and those with pods that are not
 * ready, which a new template may cure.
 */
function turnOf(observed: Observed, pending: readonly KubeObject[]): ReadonlySet<string> {
  const turn = new Set<string>();
  const first = rolledComponents.find(
    (component) =>
      pending.some((wanted) => componentOf(wanted) === component) || isRolling(observed, component),
  );
  if (first !== undefined) turn.add(first);
  for (const pod of observed.pods) if (!podReady(pod)) turn.add(componentOf(pod));
  return turn;
}

/** The workload that is there, or what comes back in its place. */
const standing = (
  { children }: Observed,
  { former }: Desired,
  wanted: KubeObject,
): KubeObject | undefined =>
  children.get(childKey(wanted)) ?? former.workloads.get(childKey(wanted));

/** Components of which every workload is there and made from what is wanted now, with a hash of that. */
export function madeComponents(
  { children }: Observed,
  { objects }: Desired,
): Map<Component, string> {
  const isMade = (wanted: KubeObject): boolean => {
    const live = children.get(childKey(wanted));
    return live !== undefined && hasTemplate(live, wanted);
  };
  const made = rolledComponents.flatMap((component): [Component, string][] => {
    const own = objects.filter(
      (object) => templateOf(object) !== undefined && componentOf(object) === component,
    );
    if (own.length === 0 || !own.every(isMade)) return [];
    const hashes = own.map(({ metadata }) => metadata.annotations?.[annotation.template]);
    return [[component, contentHash(hashes)]];
  });
  return new Map(made);
}

/** Sets of an older operator do not say what their template was made from. */
function hasTemplate(live: KubeObject, wanted: KubeObject): boolean {
  const made = live.metadata.annotations?.[annotation.template];
  if (made !== undefined) return made === wanted.metadata.annotations?.[annotation.template];
  return contains(templateOf(live), templateOf(wanted));
}

const hasClass = (live: KubeObject, wanted: KubeObject): boolean =>
  classOfSet(live) === classOfSet(wanted);

/**
 * All is of the newest revision, and something of it has not served yet: nobody knows whether it will. A
 * pod without a machine says nothing of its revision, nor do containers that are not ours.
 */
export function isProving(observed: Observed): boolean {
  if (observed.cluster.spec.paused === true) return false;
  const sets = [...observed.statefulSets.values()];
  const isUnproven = sets.some(({ metadata, spec }) => {
    const all = observed.pods.filter((pod) => isPodOf(pod, metadata.name));
    const own = all.filter((pod) => pod.metadata.deletionTimestamp === undefined);
    // The next one is made when the one before has gone, and that of a machine which is silent never goes.
    const silent = all.filter(({ metadata: { deletionTimestamp = '' } }) => {
      return observed.nowMillis - Date.parse(deletionTimestamp) > awaitedMillisMax;
    });
    return (
      own.length + silent.length < (spec.replicas ?? 1) ||
      !own.every((pod) => hasServed(pod) || isUnplaced(pod))
    );
  });
  return isUnproven || isRolling(observed, 'coordinator') || isRolling(observed, 'aggregator');
}

/** No machine takes it, and not since it asks for more than it did. */
function isUnplaced({ status }: Pod): boolean {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  return scheduled?.status === 'False' && !/Insufficient/.test(scheduled.message ?? '');
}

function isRolling(observed: Observed, component: Component): boolean {
  if (component === 'aggregator') {
    const { aggregators } = observed;
    if (aggregators === null) return false;
    const { updatedReplicas = 0, readyReplicas = 0 } = aggregators.status ?? {};
    const wanted = aggregators.spec.replicas ?? 1;
    return isStale(aggregators) || Math.min(updatedReplicas, readyReplicas) < wanted;
  }
  if (component !== 'coordinator') {
    const unfit = unfitVolumes(observed).map(({ pod }) => pod);
    const isOfIt = (pod: Pod): boolean => componentOf(pod) === component;
    if ([...outdatedPods(observed), ...unfit].some(isOfIt)) return true;
    if (isUnsettled(observed, component)) return true;
    // The last one that was replaced has to serve first.
    return observed.pods.some((pod) => isOfIt(pod) && isAwaited(pod, observed.nowMillis));
  }
  return [...observed.deployments.values()].some((deployment) => {
    const { updatedReplicas = 0, availableReplicas = 0 } = deployment.status ?? {};
    const wanted = deployment.spec.replicas ?? 1;
    return isStale(deployment) || Math.min(updatedReplicas, availableReplicas) < wanted;
  });
}

/**
 * Nobody can tell yet which pods are outdated, or one that was evicted is away for the moment until its set makes it anew.
 */
function isUnsettled({ statefulSets, pods }: Observed, component: Component): boolean {
  return [...statefulSets.values()].some((set) => {
    if (componentOf(set) !== component) return false;
    const own = pods.filter((pod) => isPodOf(pod, set.metadata.name));
    return isStale(set) || own.length < (set.spec.replicas ?? 1);
  });
}

/**
 * It is new, and may be about to serve. One that has no machine may wait for just what comes next to
 * make room for it, and one that has not come for long says nothing about what was changed.
 */
export function isAwaited(pod: Pod, nowMillis: number): boolean {
  if (podReady(pod) || isStuck(pod)) return false;
  const { creationTimestamp = '', deletionTimestamp } = pod.metadata;
  const sinceMillis = Date.parse(deletionTimestamp ?? creationTimestamp);
  return Number.isNaN(sinceMillis) || nowMillis - sinceMillis < awaitedMillisMax;
}

/** Whether it keeps nobody from a roll: a new one that is not ready does, an old one that serves does not. */
export function letsRoll(observed: Observed): (pod: Pod) => boolean {
  const outdated = new Set(outdatedPods(observed));
  return (pod) => podReady(pod) || (outdated.has(pod) && podServes(pod));
}

/**
 * Pods of sets that are not as their set's newest revision, and not on their way out; without those
 * that become so without being replaced.
 */
export function outdatedPods(observed: Observed): Pod[] {
  return [...observed.statefulSets.values()].flatMap((set) => {
    if (isStale(set) || set.status?.updateRevision === undefined) return [];
    return observed.pods.filter(
      (pod) =>
        isPodOf(pod, set.metadata.name) &&
        pod.metadata.deletionTimestamp === undefined &&
        isOutdated(observed, pod, set),
    );
  });
}

/** Pods of the storage nodes by name. */
export function nodePods(observed: Observed): Map<string, Pod> {
  const pods = observed.pods.filter(
    ({ metadata }) => metadata.labels?.[label.component] === 'node',
  );
  return new Map(pods.map((pod) => [pod.metadata.name, pod]));
}

/** Kubernetes has not said yet which revision pods are to have. */
export function staleSets(observed: Observed): string[] {
  return [...observed.statefulSets.values()].filter(isStale).map(({ metadata }) => metadata.name);
}

/** Not that of a set `x-y` for `x`. */
export function isPodOf({ metadata }: Pod, set: string): boolean {
  return (
    metadata.name.startsWith(`${set}-`) && /^[0-9]+$/.test(metadata.name.slice(set.length + 1))
  );
}

interface Template {
  readonly spec: {
    readonly containers: readonly {
      readonly name: string;
      readonly image: string;
      readonly resources?: object;
    }[];
    readonly volumes?: readonly object[];
  };
}

/** What differs between two templates, in few words. */
function templateChange(live: KubeObject, wanted: KubeObject): string {
  const [before, after] = [live, wanted].map((object) => templateOf(object) as Template) as [
    Template,
    Template,
  ];
  const changes = after.spec.containers.flatMap(({ name, image, resources }) => {
    const old = before.spec.containers.find((one) => one.name === name);
    if (old === undefined) return [`container ${name} is new`];
    return [
      ...(old.image === image ? [] : [`image ${old.image} becomes ${image}`]),
      ...(contains(old.resources, resources) ? [] : ['other resources']),
    ];
  });
  if (classOfSet(live) !== classOfSet(wanted)) {
    changes.push(`storage class ${classOfSet(live)} becomes ${classOfSet(wanted)}`);
  }
  if (!contains(before.spec.volumes, after.spec.volumes)) changes.push('another configuration');
  return changes.length === 0 ? 'another pod template' : changes.join(', ');
}

/** What an approval lets happen, as a person reads it. */
function changesOf(
  observed: Observed,
  desired: Desired,
  pending: readonly KubeObject[],
  outdated: readonly Pod[],
): string[] {
  const pods = new Set(outdated.map(({ metadata }) => metadata.name));
  for (const { kind, metadata } of pending) {
    if (kind !== 'StatefulSet') continue;
    for (const pod of observed.pods) if (isPodOf(pod, metadata.name)) pods.add(pod.metadata.name);
  }
  const others = pending.filter(({ kind }) => kind !== 'StatefulSet');
  const changes = pending.map((wanted) => {
    const live = standing(observed, desired, wanted)!;
    return `${componentOf(wanted)}: ${templateChange(live, wanted)}`;
  });
  return [
    ...new Set(changes),
    ...[...pods].sort().map((name) => `replace pod ${name}`),
    ...others.map((object) => `replace the pods of ${childKey(object)}`),
  ];
}
