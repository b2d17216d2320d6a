/**
 * Volumes of another storage class than their set's: they are given up one by one, and the nodes
 * filled anew. A volume that is on its way out, and whose pod only keeps it, is like one of these.
 */
import type { Observed } from './observe.ts';
import { leavingGroups } from './isolation_groups.ts';
import { label } from '../resource/keys.ts';
import type { KubeObject, Pod, StatefulSet } from '../resource/kube_objects.ts';
import { podServes } from '../resource/pod_state.ts';

interface ClaimSpec {
  readonly storageClassName?: string;
}

const classOf = (claim: KubeObject): string | undefined =>
  (claim['spec'] as ClaimSpec).storageClassName;

/** Of the volumes that a set makes; undefined for that of the Kubernetes cluster. */
export function classOfSet(set: KubeObject): string | undefined {
  const { volumeClaimTemplates } = set['spec'] as {
    readonly volumeClaimTemplates?: readonly { readonly spec: ClaimSpec }[];
  };
  return volumeClaimTemplates?.[0]?.spec.storageClassName;
}

export interface UnfitVolume {
  readonly pod: Pod;
  readonly claim: KubeObject;
  readonly why: string;
}

export function unfitVolumes(observed: Observed): UnfitVolume[] {
  const { pods, statefulSets, volumeClaims } = observed;
  const leaving = leavingGroups(observed);
  const claims = new Map(volumeClaims.map((claim) => [claim.metadata.name, claim]));
  return pods.flatMap((pod): UnfitVolume[] => {
    const { name } = pod.metadata;
    const claim = claims.get(`data-${name}`);
    const set = statefulSets.get(name.replace(/-\d+$/, ''));
    if (claim === undefined || set === undefined || isLeaving(pod, set)) return [];
    if (claim.metadata.deletionTimestamp !== undefined) {
      return [{ pod, claim, why: 'its volume was deleted and goes with it' }];
    }
    const [is, wanted] = [classOf(claim), classOfSet(set)];
    if (wanted === undefined || is === wanted) return [];
    // What serves and is to go is not filled anew before.
    const group = pod.metadata.labels?.[label.group];
    if (group !== undefined && leaving.has(group) && podServes(pod)) return [];
    return [{ pod, claim, why: `its volume is of storage class ${is} and is to be of ${wanted}` }];
  });
}

/** It ends, or its set has become smaller. */
function isLeaving({ metadata }: Pod, set: StatefulSet): boolean {
  const ordinal = Number(metadata.name.slice(metadata.name.lastIndexOf('-') + 1));
  return metadata.deletionTimestamp !== undefined || ordinal >= (set.spec.replicas ?? 1);
}
