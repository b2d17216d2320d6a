/**
 * Volumes that their driver grows only when their pod starts anew: it is evicted, one at a time, as in a
 * roll.
 */
import type { PlacementView } from '../coordinator/coordinator_client.ts';
import type { Observed } from '../observe/observe.ts';
import { doing, type Part, waitingFor } from '../part/part.ts';
import { label } from '../resource/keys.ts';
import type { KubeObject } from '../resource/kube_objects.ts';
import { doubtPart } from './doubts.ts';
import type { Rollout } from './rollout.ts';

/** A kubelet that can do it under a running pod has done it by then. */
const onlineMillisMax = 600_000;

/** When all nodes and members serve; null when no volume waits for its pod. */
export function offlineGrowthPart(
  observed: Observed,
  { isApproved, isOpen }: Rollout,
  placement: PlacementView,
): Part | null {
  let waiting: Part | null = null;
  for (const claim of observed.volumeClaims) {
    const pod = observed.pods.find(
      ({ metadata }) => claim.metadata.name === `data-${metadata.name}`,
    );
    if (pod === undefined || !isOverdue(claim, observed.nowMillis)) continue;
    const { name, labels } = pod.metadata;
    const grows = `${claim.metadata.name} grows when ${name} starts anew`;
    if (!isApproved || !isOpen) {
      const message = `${grows}, which waits for its window or approval; kubectl delete pod does it at once`;
      return waitingFor('VolumesGrowing', message);
    }
    const isNode = labels?.[label.component] === 'node';
    const doubt = isNode ? doubtPart(observed, placement, [name]) : null;
    if (doubt === null) {
      const reason = 'its volume grows when it starts anew';
      return doing([{ kind: 'evict-pod', pod, reason, together: [] }], 'VolumesGrowing', grows);
    }
    waiting ??= doubt;
  }
  return waiting;
}

function isOverdue(claim: KubeObject, nowMillis: number): boolean {
  const { conditions = [] } = (claim['status'] ?? {}) as {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly lastTransitionTime?: string;
    }[];
  };
  const pending = conditions.find(
    ({ type, status }) => type === 'FileSystemResizePending' && status === 'True',
  );
  if (pending === undefined) return false;
  return nowMillis - (Date.parse(pending.lastTransitionTime ?? '') || 0) > onlineMillisMax;
}
