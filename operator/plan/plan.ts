/**
 * Decides what to do next: a pure function of what was observed and what is desired, put together
 * from parts that do not wait for each other unless they say so. Objects that are only written may
 * all go in one pass; of everything that touches running nodes at most one action is planned, and
 * only when the placement is settled. The rest waits, with a reason for the status.
 */
import { TsdbError } from '#lib/errors.ts';
import type { PlacementView } from '../coordinator/coordinator_client.ts';
import type { Desired } from '../desired/desired.ts';
import { quantityOf } from '../desired/quantity.ts';
import { childKey, type Observed } from '../observe/observe.ts';
import { recordedInputs } from '../desired/former.ts';
import { recordedPlacement, recordObject } from '../desired/record.ts';
import { etcdPart, recordedMembers } from '../etcd_part/members.ts';
import { label } from '../resource/keys.ts';
import { contains } from '../resource/merge.ts';
import { aggregatorsPart } from '../aggregators_part/aggregators.ts';
import { finishPart, formatLevels, imageFormats } from './formats.ts';
import { dropGroupPart, removeGroupPart } from './leaving_groups.ts';
import { withoutForeignClaims } from './foreign_claims.ts';
import { knownOwners, namespacesPart, namespaceStall, ownersOf } from './namespaces.ts';
import { objectsPart, requestedSize } from './objects.ts';
import { offlineGrowthPart, stuckGrowths } from './offline_growth.ts';
import {
  growPart,
  movingPart,
  placementPart,
  removePart,
  resizePart,
  restoreSetsPart,
  takeBackPart,
} from './placement.ts';
import { replacePart } from './replace.ts';
import { isSettled, nodesReadiness, othersReadiness, withoutCoordinators } from './readiness.ts';
import { refusedResizes, resizePodsPart, withoutRoom } from './resize.ts';
import { deadRollPart, etcdRollPart, keptDeadPart, liveRollPart } from './roll.ts';
import { letsRoll, madeComponents, type Rollout, rolloutOf } from './rollout.ts';
import type { Action } from '../action/action.ts';
import { nothing, type Part, type Plan, type Reason, stalledBy, waitingFor } from '../part/part.ts';

/** Objects of a predecessor that are named. */
const namedMax = 5;

export function plan(observed: Observed, desired: Desired): Plan {
  try {
    const next = livePlan(observed, desired);
    return observed.cluster.spec.paused === true ? pausedPlan(next) : next;
  } catch (error) {
    // The schema refuses what it can; a duration that is too large for example only shows here.
    if (!(error instanceof TsdbError && error.code === 'BAD_REQUEST')) throw error;
    const stalled = stalledBy('InvalidSpec', error.message);
    return { ...stalled, gated: null, isPending: false, rollout: 'none' };
  }
}

/** Nothing is done but taking notes, and it is said whether there is something to do. */
function pausedPlan({ actions, waiting, stalled }: Plan): Plan {
  const notes = actions.filter(isNote);
  const isPending = actions.length > notes.length || waiting !== null;
  const message = isPending
    ? `spec.paused is true; what waits for its end: ${waiting?.message ?? 'changes'}`
    : 'spec.paused is true';
  const paused = waitingFor('Paused', message);
  return { ...paused, actions: notes, stalled, gated: null, isPending, rollout: 'none' };
}

/** What the operator writes down for itself. */
const isNote = (action: Action): boolean =>
  action.kind === 'apply' && action.object.metadata.labels?.[label.component] === 'record';

/**
 * Nothing is made before all of it has gone: a pod would run on a volume that goes, and what is written
 * to an etcd that goes would be lost with it.
 */
function predecessorPlan({ cluster, predecessor }: Observed): Plan {
  const { name } = cluster.metadata;
  const list = [...predecessor.slice(0, namedMax), ...(predecessor.length > namedMax ? ['…'] : [])];
  const message = `Kubernetes takes away what is left of the cluster ${name} that was deleted before: ${list.join(', ')}`;
  const waiting = waitingFor('PredecessorEnding', message);
  return { ...waiting, gated: null, isPending: false, rollout: 'begun' };
}

function livePlan(observed: Observed, desired: Desired): Plan {
  if (observed.predecessor.length > 0) return predecessorPlan(observed);
  const rollout = rolloutOf(observed, desired);
  const placing = placementPart(observed);
  const etcd = etcdPart(observed);
  const secrets = secretsPart(observed);
  const resizing = resizePodsPart(observed);
  const finishing = placing === null && rollout.state === 'none' ? finishPart(observed) : null;
  const parts = [
    secrets,
    nodesPart(observed, desired, rollout, placing, etcd),
    // Nothing is done by a placement that is not ours.
    ...(placing === null ? [namespacesPart(observed, desired), aggregatorsPart(observed)] : []),
    ...(etcd === null ? [] : [etcd]),
    ...(resizing === null ? [] : [resizing]),
    ...(finishing === null ? [] : [finishing]),
    recordPart(observed, desired, placing === null),
    objectsPart(observed, desired, rollout),
  ];
  const checked = withoutForeignClaims(
    observed,
    parts.flatMap((part) => part.actions),
  );
  const { actions } = checked;
  // Who only writes objects lets nobody overlook what is waited for besides.
  const isAwaited = ({ waiting }: Part): boolean =>
    waiting !== null && waiting.reason !== 'Applying';
  const active = parts.find((part) => isAwaited(part) && part.actions.length > 0);
  // Without its etcd the coordinator does not answer either, and etcd not without its certificates:
  // that says less.
  const cause = observed.etcd?.reachable === false ? etcd : null;
  const all = [secrets, ...(cause === null ? [] : [cause]), ...parts];
  const passive = all.find(isAwaited) ?? all.find(({ waiting }) => waiting !== null);
  // What waits for a window takes days; what is done besides is looked at meanwhile.
  const closed = rollout.state === 'closed' ? passive?.waiting : undefined;
  const first = active?.waiting ?? closed ?? rollout.waiting ?? passive?.waiting ?? null;
  // What is held for it is said with it.
  const waiting =
    first === null || rollout.later === null
      ? (first ?? rollout.later)
      : { ...first, message: `${first.message}; ${rollout.later.message}` };
  const noRoom = withoutRoom(observed);
  const stalled = [
    ...parts.flatMap((part) => part.stalled),
    ...rollout.stalled,
    ...withoutCoordinators(observed),
    ...stuckGrowths(observed),
    ...checked.stalled,
    ...desired.refusals,
    ...invalidNamespaces(observed, desired),
    ...refusals(observed, actions),
    ...(noRoom === null ? [] : [noRoom]),
  ];
  // First what is written, then what goes by it.
  const order = (action: Action): number =>
    action.kind === 'apply' ? 0 : action.kind === 'evict-pod' ? 2 : 1;
  return {
    actions: actions.toSorted((a, b) => order(a) - order(b)),
    waiting,
    stalled,
    refused: refusedResizes(observed),
    gated: rollout.gated,
    isPending: false,
    rollout: rollout.state,
  };
}

/** What touches running processes: the first that has something to do; what it waits for is said. */
function nodesPart(
  observed: Observed,
  desired: Desired,
  rollout: Rollout,
  placing: Part | null,
  etcd: Part | null,
): Part {
  const { coordinator } = observed;
  const known = placing === null && coordinator.reachable ? coordinator.placement : null;
  const dead = deadRollPart(observed, rollout, (etcd?.actions.length ?? 0) > 0, known);
  if (dead !== null) return dead;
  const replacing = replacePart(observed, rollout, known);
  if (replacing !== null && replacing.actions.length > 0) return replacing;
  if (placing !== null) return placing;
  if (!coordinator.reachable || coordinator.placement === null) return nothing;
  const { placement } = coordinator;
  const early =
    restoreSetsPart(observed, placement) ??
    takeBackPart(observed, placement) ??
    resizePart(observed, placement) ??
    dropGroupPart(observed, placement);
  if (early !== null) return early;
  if (!isSettled(placement)) return withReason(movingPart(observed, placement), replacing);
  // Who comes comes before a whole group goes.
  const moving =
    removePart(observed, placement) ??
    growPart(observed, placement) ??
    removeGroupPart(observed, placement);
  // What grows waits for pods that perhaps never come, and nothing else waits with it.
  if (moving !== null && moving.actions.length > 0) return moving;
  const readiness = nodesReadiness(observed);
  const mayRoll = nodesReadiness(observed, letsRoll(observed)) === null && etcd === null;
  const roll = mayRoll ? nextRoll(observed, desired, rollout, placement) : null;
  const kept = roll ?? moving ?? replacing ?? keptDeadPart(observed, rollout, known);
  return kept ?? readiness ?? othersReadiness(observed, etcd === null) ?? nothing;
}

/** Shards perhaps wait for a node that itself waits for a volume. */
function withReason(moving: Part, replacing: Part | null): Part {
  const why = replacing?.waiting ?? null;
  if (moving.waiting === null || why === null) return moving;
  const { reason, message } = moving.waiting;
  return { ...moving, waiting: { reason, message: `${message}; ${why.message}` } };
}

/** One component at a time, etcd first: nodes are evicted only by an etcd that is whole. */
function nextRoll(
  observed: Observed,
  desired: Desired,
  rollout: Rollout,
  placement: PlacementView,
): Part | null {
  // Pods of a component of which something is refused stay as they are.
  const refused = new Set(desired.refusals.map(({ component }) => component));
  return (
    (refused.has('etcd') ? null : etcdRollPart(observed, rollout)) ??
    (refused.has('node') ? null : liveRollPart(observed, rollout, placement)) ??
    offlineGrowthPart(observed, rollout, placement)
  );
}

/** Pods that need a Secret wait for it by themselves: it is only said by its name. */
function secretsPart({ tlsSecrets: { missing, forbidden } }: Observed): Part {
  const reason = 'SecretForbidden';
  const message = `the operator may not read ${forbidden.join(', ')}, and so not speak to etcd: operator.readSecrets of the chart lets it`;
  return {
    ...(missing.length === 0 ? nothing : waitingFor('SecretMissing', missing.join('; '))),
    stalled: forbidden.length === 0 ? [] : [{ reason, message }],
  };
}

/**
 * What outlives the cluster is written when it has changed.
 * @param isOurs whether the placement is the cluster's
 */
function recordPart(observed: Observed, desired: Desired, isOurs: boolean): Part {
  const { cluster, coordinator, children, record, recordProblem } = observed;
  if (recordProblem !== null) return nothing;
  const placement = isOurs && coordinator.reachable ? coordinator.placement : null;
  const etcdMembers = recordedMembers(observed);
  if (placement === null && record === null && Object.keys(etcdMembers).length === 0) {
    return nothing;
  }
  const levels = formatLevels(observed);
  const object = recordObject(cluster, {
    // Until its placement stands again the volumes are those of the TSDBCluster before.
    clusterUid:
      placement === null ? (record?.clusterUid ?? cluster.metadata.uid!) : cluster.metadata.uid!,
    placement: placement === null ? (record?.placement ?? null) : recordedPlacement(placement),
    namespaces: placement === null ? knownOwners(observed) : ownersOf(observed, desired),
    etcdMembers,
    ...(levels === null
      ? {}
      : { formats: { written: levels.written, images: imageFormats(observed) } }),
    ...recordedInputs(observed, madeComponents(observed, desired), desired.images),
  });
  const live = children.get(childKey(object));
  if (live !== undefined && contains(live, object)) return nothing;
  return { ...nothing, actions: [{ kind: 'apply', object }] };
}

/** Of the cluster's own list: those of resources say it themselves. */
function invalidNamespaces(observed: Observed, desired: Desired): Reason[] {
  return desired.namespaces.desired.flatMap((wanted) => {
    const stall = wanted.claim === null ? namespaceStall(observed, wanted) : null;
    return stall === null
      ? []
      : [{ reason: stall.reason, message: `namespace ${wanted.name}: ${stall.message}` }];
  });
}

const isSmaller = ({ claim, size }: Action & { readonly kind: 'expand-claim' }): boolean =>
  quantityOf(size) < quantityOf(requestedSize(claim));

/** What the server will not do as it is asked for. */
function refusals(observed: Observed, actions: readonly Action[]): Reason[] {
  return actions.flatMap((action) => {
    const failure = observed.failureOf(action);
    if (!failure?.isRefused) return [];
    switch (action.kind) {
      case 'apply': {
        const message = `${childKey(action.object)}: ${failure.message}`;
        return [{ reason: 'ApplyRefused', message }];
      }
      case 'expand-claim': {
        if (isSmaller(action)) {
          const asked = requestedSize(action.claim);
          const text = `${action.claim.metadata.name} was to have ${asked}, and this Kubernetes does not take that back (1.32 on does): ask for ${asked} again: ${failure.message}`;
          return [{ reason: 'VolumeGrowthRefused', message: text }];
        }
        const message = `${action.claim.metadata.name} cannot grow to ${action.size}: ${failure.message}`;
        return [{ reason: 'VolumeGrowthRefused', message }];
      }
      case 'placement-init':
      case 'placement-add':
      case 'placement-remove':
      case 'placement-approve':
        return [{ reason: 'PlacementRefused', message: failure.message }];
      case 'aggregators-init':
      case 'aggregators-add':
      case 'aggregators-remove':
      case 'aggregators-delete':
        return [{ reason: 'AggregatorsRefused', message: failure.message }];
      case 'upgrade-finish':
        // Said while it is tried again.
        return [];
      case 'resize-pod':
        // It is rolled instead, or said by all pods of which it is so.
        return [];
      case 'delete':
      case 'scale-set':
      case 'evict-pod':
      case 'replace-pod':
      case 'own-claim':
      case 'etcd-add':
      case 'etcd-promote':
      case 'etcd-remove':
      case 'etcd-move-leader':
      case 'etcd-defragment':
      case 'etcd-compact':
      case 'etcd-disarm':
        return [{ reason: 'ActionRefused', message: `${action.kind}: ${failure.message}` }];
      case 'namespace-delete': {
        // The resource that asked for it is gone.
        const { claim } = observed.record!.namespaces[action.name]!;
        const message = `namespace ${action.name}, of which TSDBNamespace ${claim} with reclaimPolicy: Delete is gone, cannot be deleted: ${failure.message}; to keep it, apply that TSDBNamespace again with reclaimPolicy: Retain`;
        return [{ reason: 'NamespaceDeletionRefused', message }];
      }
      case 'namespace-add':
      case 'namespace-update':
      case 'namespace-ready':
        // The resource that asks for it says so.
        return [];
      default:
        return action satisfies never;
    }
  });
}
