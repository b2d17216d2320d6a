/**
 * Volumes that their driver grows only when their pod starts anew: it is evicted, one at a time, as in a
 * roll. Once for each: what that did not help is for a person.
 */
import type { PlacementView } from '../coordinator/coordinator_client.ts';
import type { Observed } from '../observe/observe.ts';
import { doing, type Part, type Reason, waitingFor } from '../part/part.ts';
import { label } from '../resource/keys.ts';
import type { KubeObject, Pod } from '../resource/kube_objects.ts';
import { doubtPart, evictionPart } from './doubts.ts';
import { type ClaimCondition, claimCondition, growthFailure, sizesOf } from './objects.ts';
import type { Rollout } from './rollout.ts';

/** A kubelet that can do it, under a running pod or before a new one starts, has done it by then. */
const growthMillisMax = 600_000;

/** When all nodes and members serve; null when no volume waits for its pod. */
export function offlineGrowthPart(
  observed: Observed,
  { isApproved, isOpen }: Rollout,
  placement: PlacementView,
): Part | null {
  let waiting: Part | null = null;
  for (const { claim, pod, isTried } of overdueGrowths(observed)) {
    if (isTried) continue;
    const { name, labels } = pod.metadata;
    const grows = `${claim.metadata.name} grows when ${name} starts anew`;
    if (!isApproved || !isOpen) {
      const message = `${grows}, which waits for its window or approval; kubectl delete pod does it at once`;
      return waitingFor('VolumesGrowing', message);
    }
    const isNode = labels?.[label.component] === 'node';
    const doubt =
      evictionPart(observed, placement, pod) ??
      (isNode ? doubtPart(observed, placement, [name]) : null);
    if (doubt === null) {
      const reason = 'its volume grows when it starts anew';
      return doing([{ kind: 'evict-pod', pod, reason, together: [] }], 'VolumesGrowing', grows);
    }
    waiting ??= doubt;
  }
  return waiting;
}

/** Volumes that have not grown although their pods have started anew for it. */
export function stuckGrowths(observed: Observed): Reason[] {
  const infeasible = observed.volumeClaims.flatMap((claim): Reason[] => {
    const failure = growthFailure(claim);
    if (failure === null || !isInfeasible(claim)) return [];
    const message = `volume ${sizesOf(claim)}, and its driver cannot do that: ${failure}; ask for less, above what it has, or mend the driver`;
    return [{ reason: 'VolumeGrowthStuck', message }];
  });
  return [...infeasible, ...stuckOffline(observed)];
}

/** The driver has said that it never will. */
function isInfeasible(claim: KubeObject): boolean {
  const { allocatedResourceStatuses = {} } = (claim['status'] ?? {}) as {
    readonly allocatedResourceStatuses?: Readonly<Record<string, string>>;
  };
  return allocatedResourceStatuses['storage']?.endsWith('Infeasible') === true;
}

function stuckOffline(observed: Observed): Reason[] {
  return overdueGrowths(observed).flatMap(({ claim, pod, condition, isTried }) => {
    if (!isTried) return [];
    const said = condition.message === undefined ? '' : ` (${condition.message})`;
    const message = `volume ${sizesOf(claim)}, and has not grown although ${pod.metadata.name} has started anew: condition ${condition.type}${said} of claim ${claim.metadata.name} stays; kubectl describe of both and the log of the volume's driver say why; when that can grow it, delete the pod`;
    return [{ reason: 'VolumeGrowthStuck', message }];
  });
}

interface Growth {
  readonly claim: KubeObject;
  readonly pod: Pod;
  readonly condition: ClaimCondition;
  /** The pod is younger than the condition, and had the time that it takes. */
  readonly isTried: boolean;
}

function overdueGrowths({ volumeClaims, pods, nowMillis }: Observed): Growth[] {
  return volumeClaims.flatMap((claim): Growth[] => {
    const pod = pods.find(({ metadata }) => claim.metadata.name === `data-${metadata.name}`);
    const condition = claimCondition(claim, ['FileSystemResizePending']);
    if (pod === undefined || condition === undefined) return [];
    const sinceMillis = Date.parse(condition.lastTransitionTime ?? '') || 0;
    const madeAtMillis = Date.parse(pod.metadata.creationTimestamp ?? '') || 0;
    if (nowMillis - Math.max(sinceMillis, madeAtMillis) <= growthMillisMax) return [];
    return [{ claim, pod, condition, isTried: madeAtMillis >= sinceMillis }];
  });
}
