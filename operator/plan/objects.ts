/**
 * Which child objects are to be written, grown or deleted. Each stands for itself: one that is
 * another's, or that the server refuses, keeps no other from being brought to its wanted state.
 */
import { type Desired, isShrinking } from '../desired/desired.ts';
import { componentOf } from '../desired/former.ts';
import { Names } from '../resource/names.ts';
import { contains } from '../resource/merge.ts';
import { etcdClaimActions } from '../etcd_part/claims.ts';
import { quantityOf } from '../desired/quantity.ts';
import { childKey, isOurs, isOrphaned, type Observed } from '../observe/observe.ts';
import { contentHash } from '../resource/content_hash.ts';
import { annotation } from '../resource/keys.ts';
import type { Job, KubeObject } from '../resource/kube_objects.ts';
import type { Rollout } from './rollout.ts';
import { type Action, objectOf } from '../action/action.ts';
import { type Part, type Reason, waitingFor } from '../part/part.ts';
import { classOfSet, unfitVolumes } from '../observe/volume_classes.ts';

/** Objects that are named in a message; more are counted. */
const namedMax = 5;

export function objectsPart(observed: Observed, desired: Desired, rollout: Rollout): Part {
  const actions: Action[] = formerConfigs(observed, desired, rollout);
  const stalled: Reason[] = [];
  for (const wanted of desired.objects) {
    const live = observed.children.get(childKey(wanted));
    if (live === undefined) {
      const before = rollout.holds(wanted) ? formerOf(desired, wanted) : undefined;
      actions.push({ kind: 'apply', object: before ?? wanted });
    } else if (live.metadata.deletionTimestamp !== undefined) continue;
    else {
      const foreign = foreignObject(observed, live);
      if (foreign !== null) stalled.push(foreign);
      else if (rollout.holds(wanted)) actions.push(...growthOf(observed, live, wanted));
      else if (wanted.kind === 'PersistentVolumeClaim') {
        stalled.push(...keptClass(live, wanted));
        const object = ofClass(wanted, classOfClaim(live));
        if (!isAsWanted(observed, live, object)) actions.push({ kind: 'apply', object });
      }
      // What a job runs cannot change.
      else if (wanted.kind === 'Job') actions.push(...outdatedJob(live, wanted));
      else if (hasVolumes(wanted)) {
        actions.push(...statefulSetActions(observed, live, wanted));
      } else if (!isAsWanted(observed, live, wanted))
        actions.push({ kind: 'apply', object: wanted });
    }
  }
  actions.push(...etcdClaimActions(observed), ...retainingSets(observed, desired, rollout));
  actions.push(...staleObjects(observed, desired));
  const shrunk = shrunkVolume(observed, desired);
  if (shrunk !== null) stalled.push(shrunk);
  const objects = [...new Set(actions.map(objectOf))];
  const list = objects.length > namedMax ? `${objects.length} objects` : objects.join(', ');
  const message = `brought to what the resource asks for: ${list}`;
  // Pods are to be others than they are: that is no small thing done besides.
  const isOfPods = actions.some(
    (action) =>
      action.kind === 'apply' &&
      (action.object.kind === 'StatefulSet' || action.object.kind === 'Deployment'),
  );
  const reason = isOfPods ? 'PodsChanging' : 'Applying';
  const waiting = actions.length > 0 ? { reason, message } : null;
  return { actions, waiting, stalled };
}

/** A change that is held is not made by making its set, or Deployment, anew. */
const formerOf = ({ former }: Desired, wanted: KubeObject): KubeObject | undefined =>
  former.workloads.get(childKey(wanted));

/** What pods of workloads that come back as they were are to find, where it has gone with them. */
function formerConfigs({ children }: Observed, desired: Desired, rollout: Rollout): Action[] {
  const components = new Set(
    desired.objects
      .filter((wanted) => formerOf(desired, wanted) !== undefined && rollout.holds(wanted))
      .map(componentOf),
  );
  return desired.former.configs
    .filter((config) => components.has(componentOf(config)) && !children.has(childKey(config)))
    .map((object) => ({ kind: 'apply', object }));
}

/**
 * A set that has been made smaller deletes volumes of pods that are too many until it is written
 * again. One whose template is held back, or refused, is not: it is only told to keep them.
 */
function retainingSets(observed: Observed, desired: Desired, rollout: Rollout): Action[] {
  const names = new Names(observed.cluster);
  return observed.cluster.spec.isolationGroups.flatMap(({ name }): Action[] => {
    const set = observed.statefulSets.get(names.group(name));
    if (set === undefined || !isOurs(observed, set) || isShrinking(set)) return [];
    const { replicas, persistentVolumeClaimRetentionPolicy: policy } = set.spec;
    const wanted = desired.objects.find((object) => childKey(object) === childKey(set));
    const isWritten = wanted !== undefined && !rollout.holds(wanted);
    if (isWritten || policy?.whenScaled !== 'Delete') return [];
    return [{ kind: 'scale-set', set, replicas: replicas ?? 1, whenScaled: 'Retain' }];
  });
}

/**
 * An object under one of our names that is not ours is left alone, also when nobody controls it; ours
 * is one that was left behind by a TSDBCluster that went without its children.
 */
function foreignObject(observed: Observed, live: KubeObject): Reason | null {
  if (isOurs(observed, live) || isOrphaned(observed, live)) return null;
  const controller = live.metadata.ownerReferences?.find((owner) => owner.controller === true);
  const whose =
    controller === undefined
      ? 'was not made by this operator'
      : `is controlled by ${controller.kind} ${controller.name}`;
  return { reason: 'ForeignObject', message: `${childKey(live)} ${whose}` };
}

/**
 * Everything wanted stands in the live object, or the live one is what the server made of it: it
 * writes '1000m' as '1' and drops what it does not know, and must not be asked again and again.
 */
function isAsWanted(observed: Observed, live: KubeObject, wanted: KubeObject): boolean {
  return contains(live, wanted) || observed.appliedAs.get(childKey(wanted)) === contentHash(wanted);
}

interface SetSpec extends Record<string, unknown> {
  readonly volumeClaimTemplates: readonly {
    readonly spec: { readonly resources: { readonly requests: { readonly storage: string } } };
  }[];
}

const specOf = (set: KubeObject): SetSpec => set['spec'] as SetSpec;
/** A set of pods that have some: that of aggregators has none. */
const hasVolumes = (wanted: KubeObject): boolean =>
  wanted.kind === 'StatefulSet' && componentOf(wanted) !== 'aggregator';
const claimSizeOf = (set: KubeObject): string =>
  specOf(set).volumeClaimTemplates[0]!.spec.resources.requests.storage;

/**
 * A StatefulSet's claim template cannot change, so a grown volume needs a new set over the same
 * pods.
 */
function statefulSetActions(observed: Observed, live: KubeObject, wanted: KubeObject): Action[] {
  const spec = { ...specOf(wanted), volumeClaimTemplates: specOf(live).volumeClaimTemplates };
  const object = { ...wanted, spec };
  // First: a claim that nothing is bound to yet, or that may not grow, must not hold up the cure of
  // its pod.
  const actions: Action[] = isAsWanted(observed, live, object) ? [] : [{ kind: 'apply', object }];
  // Its volumes are given up one by one (volume_classes.ts), not grown.
  if (classOfSet(wanted) !== classOfSet(live)) {
    return [...actions, { kind: 'delete', object: live, orphan: true }];
  }
  const size = claimSizeOf(wanted);
  const [asked, was] = [quantityOf(size), quantityOf(claimSizeOf(live))];
  const claims = fitClaims(observed, wanted.metadata.name);
  const others = claims.filter((claim) => {
    const is = quantityOf(requestedSize(claim));
    if (asked === was) return isTakenBack(claim, asked);
    return is < asked ? asked > was || phaseOf(claim) === 'Bound' : isTakenBack(claim, asked);
  });
  for (const claim of others) {
    // The server refuses to change another one.
    if (phaseOf(claim) === 'Bound') actions.push({ kind: 'expand-claim', claim, size });
  }
  if (asked === was || (asked < was && grownVolume(claims, asked) !== null)) return actions;
  // The set is a sign of what is left to do: it goes after the last claim has grown. And not before all
  // else of it was taken: one that is refused could not be made again.
  return actions.length > 0 || others.length > 0
    ? actions
    : [{ kind: 'delete', object: live, orphan: true }];
}

/** Whether a claim was to be larger than is asked for now, and its volume has less: Kubernetes takes that back. */
function isTakenBack(claim: KubeObject, asked: bigint): boolean {
  const capacity = capacityOf(claim);
  if (capacity === undefined || quantityOf(requestedSize(claim)) <= asked) return false;
  return quantityOf(capacity) < asked;
}

/**
 * A volume that has at least as much as is asked for now, and was to have more, when there is none of which
 * anything can be taken back, or was: then all that is asked for is that volumes shrink.
 */
function grownVolume(claims: readonly KubeObject[], asked: bigint): KubeObject | null {
  const isGrown = (claim: KubeObject): boolean =>
    quantityOf(requestedSize(claim)) > asked && !isTakenBack(claim, asked);
  // Nothing is on one that was never made.
  const made = claims.filter((claim) => phaseOf(claim) === 'Bound');
  return made.length > 0 && made.every(isGrown) ? made[0]! : null;
}

/** Volumes grow although the template of their pods is held back. */
function growthOf(observed: Observed, live: KubeObject, wanted: KubeObject): Action[] {
  if (!hasVolumes(wanted)) return [];
  return statefulSetActions(observed, live, wanted).filter(({ kind }) => kind === 'expand-claim');
}

/** A job that has not ended and was made from something else, such as a bad image. */
function outdatedJob(live: KubeObject, wanted: KubeObject): Action[] {
  const isDone = (live as Job).status?.conditions?.some(
    ({ type, status }) => type === 'Complete' && status === 'True',
  );
  const madeFrom = live.metadata.annotations?.[annotation.content];
  if (isDone === true || madeFrom === wanted.metadata.annotations?.[annotation.content]) return [];
  return [{ kind: 'delete', object: live, orphan: false }];
}

const failureCharactersMax = 300;

const phaseOf = (claim: KubeObject): string | undefined =>
  (claim['status'] as { phase?: string } | undefined)?.phase;

export const requestedSize = (claim: KubeObject): string =>
  (claim['spec'] as { resources: { requests: { storage: string } } }).resources.requests.storage;

const capacityOf = (claim: KubeObject): string | undefined =>
  (claim['status'] as { capacity?: { storage?: string } } | undefined)?.capacity?.storage;

/** Volume claims of one set's pods, not those of a set `x-y` for `x`. */
function claimsOf(observed: Observed, set: string): KubeObject[] {
  const prefix = `data-${set}-`;
  return observed.volumeClaims.filter(
    ({ metadata }) =>
      metadata.name.startsWith(prefix) && /^[0-9]+$/.test(metadata.name.slice(prefix.length)),
  );
}

/** Without those that are given up. */
function fitClaims(observed: Observed, set: string): KubeObject[] {
  const unfit = new Set(unfitVolumes(observed).map(({ claim }) => claim));
  return claimsOf(observed, set).filter((claim) => !unfit.has(claim));
}

/** A volume that the resource now asks smaller than it is; null when none. */
function shrunkVolume(observed: Observed, desired: Desired): Reason | null {
  for (const wanted of desired.objects) {
    const live = observed.children.get(childKey(wanted));
    if (!hasVolumes(wanted) || live === undefined) continue;
    // That of somebody else may have no volumes at all.
    if (foreignObject(observed, live) !== null) continue;
    if (quantityOf(claimSizeOf(wanted)) >= quantityOf(claimSizeOf(live))) continue;
    if (classOfSet(wanted) !== classOfSet(live)) continue;
    const claims = fitClaims(observed, wanted.metadata.name);
    const grown = grownVolume(claims, quantityOf(claimSizeOf(wanted)));
    // What has not come is taken back.
    if (grown === null) continue;
    const was = claimSizeOf(live);
    const is = capacityOf(grown) ?? was;
    const asks =
      quantityOf(is) < quantityOf(was)
        ? `ask for more than ${is}, which they have, or for ${was}, which they were to have`
        : `ask for ${was}`;
    const message = `volumes of ${wanted.metadata.name} have ${is} and cannot shrink to ${claimSizeOf(wanted)}: ${asks}`;
    return { reason: 'VolumesCannotShrink', message };
  }
  return null;
}

const classOfClaim = (claim: KubeObject): string | undefined =>
  (claim['spec'] as { readonly storageClassName?: string }).storageClassName;

/** The class of a claim never changes. */
const ofClass = (claim: KubeObject, storageClassName: string | undefined): KubeObject => ({
  ...claim,
  spec: { ...(claim['spec'] as object), storageClassName },
});

/** What is on the volume of etcd's snapshots is nowhere else: who asks for another class gives it up. */
function keptClass(live: KubeObject, wanted: KubeObject): Reason[] {
  const [is, asked] = [classOfClaim(live), classOfClaim(wanted)];
  if (is === asked) return [];
  const { name } = live.metadata;
  const message = `volume ${name} is of storage class ${is} and keeps it, with the snapshots that are on it; to have it of ${asked}, copy what is needed of them and delete the claim ${name}: it is made anew, empty; or take className back`;
  return [{ reason: 'SnapshotsClassKept', message }];
}

/** Claims that were granted more than their volumes have yet. */
export function growingVolumes(observed: Observed): Part | null {
  const growing = observed.volumeClaims.filter((claim) => {
    const capacity = capacityOf(claim);
    return capacity !== undefined && quantityOf(capacity) < quantityOf(requestedSize(claim));
  });
  if (growing.length === 0) return null;
  const texts = growing.map((claim) => {
    const failure = growthFailure(claim);
    return failure === null ? sizesOf(claim) : `${sizesOf(claim)} (${failure})`;
  });
  return waitingFor('VolumesGrowing', `volumes grow: ${texts.join(', ')}`);
}

export interface ClaimCondition {
  readonly type: string;
  readonly status: string;
  readonly lastTransitionTime?: string;
  readonly message?: string;
}

/** The first of these types that is true of a claim. */
export function claimCondition(
  claim: KubeObject,
  types: readonly string[],
): ClaimCondition | undefined {
  const { conditions = [] } = (claim['status'] ?? {}) as {
    readonly conditions?: readonly ClaimCondition[];
  };
  return conditions.find(({ type, status }) => types.includes(type) && status === 'True');
}

const failedGrowths: readonly string[] = ['ControllerResizeError', 'NodeResizeError'];

/** What its driver says why it does not grow; null when it says nothing. */
export function growthFailure(claim: KubeObject): string | null {
  const failed = claimCondition(claim, failedGrowths);
  return failed === undefined
    ? null
    : (failed.message ?? failed.type).slice(0, failureCharactersMax);
}

export const sizesOf = (claim: KubeObject): string =>
  `${claim.metadata.name} has ${capacityOf(claim)} and is to have ${requestedSize(claim)}`;

const removableKinds: readonly string[] = [
  ...['Service', 'PodDisruptionBudget', 'NetworkPolicy'],
  ...['CronJob', 'Job'],
];

/** Aggregators of ours have a place, or nobody knows. */
function areAggregatorsPlaced({ cluster, coordinator }: Observed): boolean {
  if (!coordinator.reachable || typeof coordinator.aggregators === 'string') return true;
  const names = new Names(cluster);
  const placed = Object.keys(coordinator.aggregators?.instances ?? {});
  return placed.some((id) => names.aggregatorOrdinal(id) !== null);
}

/** Services, ConfigMaps, budgets, policies and jobs of ours that no pod and no wanted object names any more. */
function staleObjects(observed: Observed, desired: Desired): Action[] {
  const wantedKeys = new Set([...desired.objects, ...desired.former.configs].map(childKey));
  const users = JSON.stringify([
    observed.pods.map((pod) => pod['spec']),
    [
      ...observed.statefulSets.values(),
      ...(observed.aggregators === null ? [] : [observed.aggregators]),
      ...observed.deployments.values(),
    ].map(({ spec }) => spec),
  ]);
  return [...observed.children]
    .filter(([key, object]) => {
      if (wantedKeys.has(key) || !isOurs(observed, object)) return false;
      if (object.metadata.deletionTimestamp !== undefined) return false;
      // Their pods end when nobody goes by them any more.
      if (componentOf(object) === 'aggregator' && areAggregatorsPlaced(observed)) return false;
      if (object.kind === 'ConfigMap') return !users.includes(`"${object.metadata.name}"`);
      // Of aggregators, who have no volumes.
      if (object.kind === 'StatefulSet') return componentOf(object) === 'aggregator';
      return removableKinds.includes(object.kind);
    })
    .map(([, object]) => ({ kind: 'delete', object, orphan: false }));
}
