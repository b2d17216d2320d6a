/**
 * Nodes and members of etcd whose machine, and so whose disk, does not come back: after a while the
 * volume is given up and a pod with an empty one takes its place, which takes its shards from the
 * others under the name that it had. Never while anybody else is filled or down whose data would be
 * needed for it; so never more than one disk at a time, and a replacement that is lost too is
 * replaced like the first.
 */
import type { PlacementView } from '../coordinator/coordinator_client.ts';
import type { Observed } from '../observe/observe.ts';
import type { Action } from '../action/action.ts';
import { annotation, label } from '../resource/keys.ts';
import { isUnbound, type Pod } from '../resource/kube_objects.ts';
import { isStuck, podServes } from '../resource/pod_state.ts';
import { replaceAfterMillis } from '../resource/tsdb_cluster.ts';
import { dangerOf, type GivenUp, goingVolume } from './doubts.ts';
import type { Rollout } from './rollout.ts';
import { doing, type Part, waitingFor } from '../part/part.ts';
import { unfitVolumes } from '../observe/volume_classes.ts';

/** What Kubernetes gives a pod to end, and some time for its machine to say so. */
const terminationMillisMax = 90_000;

interface Lost extends GivenUp {
  /** It is on its way out, and goes by itself: only its volume is left to be given up. */
  readonly isEnding?: boolean;
  readonly why: string;
  /** Milliseconds until it is given up; 0 for now. */
  readonly dueInMillis: number;
}

/** @param placement null when there is none, or nobody knows */
export function replacePart(
  observed: Observed,
  rollout: Rollout,
  placement: PlacementView | null,
): Part | null {
  const lost = observed.pods
    .flatMap((pod) => lostPod(observed, pod) ?? [])
    .sort((a, b) => a.dueInMillis - b.dueInMillis);
  const known = new Set(lost.map(({ pod }) => pod));
  const unfit = unfitPods(observed, rollout).filter(({ pod }) => !known.has(pod));
  let waiting: Part | null = null;
  for (const one of [...lost, ...unfit]) {
    const { pod, claim, why, dueInMillis } = one;
    const { name } = pod.metadata;
    const isKept = claim === null && one.isAsked !== true;
    const danger = isKept ? null : dangerOf(observed, placement, one);
    const action = replacementOf(one);
    if (dueInMillis === 0 && danger === null && action !== null) {
      return doing([action], 'Replacing', `${name} is replaced: ${why}`);
    }
    const until =
      dueInMillis > 0
        ? `in ${Math.ceil(dueInMillis / 60_000)} minutes`
        : `when ${danger ?? 'it has ended'}`;
    // What serves lacks nothing yet.
    const reason = one.isServing === true ? 'Replacing' : 'NodesNotReady';
    waiting ??= waitingFor(reason, `${name} is replaced ${until}: ${why}`);
  }
  return waiting;
}

/** Null when nothing is left to do but to wait for its end. */
function replacementOf({ pod, claim, isAsked, isServing, isEnding }: Lost): Action | null {
  if (isEnding !== true) {
    // A volume of another class is found again; an annotation goes with its pod.
    const evict = isServing !== true ? null : isAsked === true ? 'first' : 'last';
    return { kind: 'replace-pod', pod, claim, evict };
  }
  return claim === null || claim.metadata.deletionTimestamp !== undefined
    ? null
    : { kind: 'delete', object: claim, orphan: false };
}

function lostPod(observed: Observed, pod: Pod): Lost | null {
  const { metadata } = pod;
  const component = metadata.labels?.[label.component];
  if (component !== 'node' && component !== 'etcd') return null;
  const claim =
    observed.volumeClaims.find((one) => one.metadata.name === `data-${metadata.name}`) ?? null;
  const { deletionTimestamp } = metadata;
  const forMillis = observed.nowMillis - Date.parse(deletionTimestamp ?? '');
  const isEnding = forMillis < terminationMillisMax;
  if (metadata.annotations?.[annotation.replace] === 'true') {
    const why = `annotation ${annotation.replace}`;
    const isServing = podServes(pod);
    return { pod, claim, isAsked: true, isServing, isEnding, why, dueInMillis: 0 };
  }
  const waitMillis = replaceAfterMillis(observed.cluster);
  if (waitMillis === null || isEnding) return null;
  if (deletionTimestamp !== undefined) {
    const dueInMillis = Math.max(0, waitMillis - forMillis);
    // A volume that was deleted goes when the pod does.
    const going = goingVolume(observed, pod);
    return { pod, claim: going, why: 'its machine does not say that it has ended', dueInMillis };
  }
  const sinceMillis = observed.awaySinceMillis.get(metadata.name);
  if (sinceMillis === undefined || claim === null) return null;
  const dueInMillis = Math.max(0, sinceMillis + waitMillis - observed.nowMillis);
  return { pod, claim, why: 'the machine that has its volume is gone', dueInMillis };
}

/**
 * Pods with volumes that they are not to keep: those that serve when it is their time, those that
 * cannot start at once; who may be about to serve is waited for.
 */
function unfitPods(observed: Observed, { isApproved, isOpen }: Rollout): Lost[] {
  return unfitVolumes(observed).flatMap(({ pod, claim, why }): Lost[] => {
    if (podServes(pod)) {
      return isApproved && isOpen ? [{ pod, claim, why, isServing: true, dueInMillis: 0 }] : [];
    }
    return isStuck(pod) || isUnbound(claim) ? [{ pod, claim, why, dueInMillis: 0 }] : [];
  });
}
