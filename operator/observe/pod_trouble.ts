/**
 * Why a pod does not run, as Kubernetes says it of the pod: that is what a person looks up next.
 * Texts stay the same while the trouble does, though Kubernetes' own go to and fro between attempts:
 * each change is a write of the status.
 */
import { type Deployment, isUnbound, type KubeObject, type Pod } from '../resource/kube_objects.ts';
import { passingReasons } from '../resource/pod_state.ts';
import { annotation, label } from '../resource/keys.ts';

const textMax = 200;
const imageReasons: readonly string[] = [
  'ErrImagePull',
  'ImagePullBackOff',
  'ErrImageNeverPull',
  'InvalidImageName',
  'ImageInspectError',
  'RegistryUnavailable',
];
/** Between two attempts their end says more. */
const silentReasons: readonly string[] = [...passingReasons, 'CrashLoopBackOff'];

/** @returns null when the pod runs, or is only starting */
export function podTrouble({ metadata, status }: Pod): string | null {
  const { deletionTimestamp, finalizers = [] } = metadata;
  const hasEnded = status?.phase === 'Succeeded' || status?.phase === 'Failed';
  if (deletionTimestamp !== undefined && hasEnded && finalizers.length > 0) {
    return short(`it has ended, and its finalizers keep it: ${finalizers.join(', ')}`);
  }
  const { conditions = [], containerStatuses = [], initContainerStatuses = [] } = status ?? {};
  const unscheduled = conditions.find(
    (one) => one.type === 'PodScheduled' && one.status === 'False',
  );
  if (unscheduled !== undefined) return short(unscheduled.message ?? 'no machine takes it');
  for (const { state, lastState, image } of [...initContainerStatuses, ...containerStatuses]) {
    const { reason = '', message = '' } = state?.waiting ?? {};
    if (imageReasons.includes(reason)) return short(`the image ${image ?? ''} cannot be pulled`);
    if (reason !== '' && !silentReasons.includes(reason)) return short(`${reason} ${message}`);
    const { exitCode = 0, reason: why = '' } = (state?.terminated ?? lastState?.terminated) || {};
    if (exitCode !== 0) {
      return why === 'OOMKilled'
        ? 'it has run out of memory'
        : `it has ended with code ${exitCode}`;
    }
  }
  return null;
}

/** Why coordinators do not run, each reason once; their pods have names that say nothing. */
export function coordinatorTroubles(pods: readonly Pod[], { status }: Deployment): string[] {
  const own = pods.filter(({ metadata }) => metadata.labels?.[label.component] === 'coordinator');
  // A quota, or a webhook.
  const refused = (status?.conditions ?? []).flatMap((one) =>
    one.type === 'ReplicaFailure' && one.status === 'True' ? [short(one.message ?? '')] : [],
  );
  return [...new Set([...own.flatMap((pod) => podTrouble(pod) ?? []), ...refused])];
}

interface Sight {
  readonly nowMillis: number;
  readonly pods: readonly Pod[];
  readonly volumeClaims: readonly KubeObject[];
  /** Pods of which nobody knows whether their volume can be reached. */
  readonly unknownReach: readonly string[];
}

/** Names of pods, with their troubles. */
export function withTroubles(
  names: readonly string[],
  { nowMillis, pods, volumeClaims, unknownReach }: Sight,
): string {
  const byName = new Map(pods.map((pod) => [pod.metadata.name, pod]));
  return names
    .map((name) => {
      const pod = byName.get(name);
      // Only events say why a set cannot make its pod, or a machine not mount its volumes.
      if (pod === undefined) {
        const kept = keptVolume(volumeClaims, name);
        if (kept !== null) return `${name} (${kept})`;
        return `${name} (there is no such pod; kubectl describe statefulset ${name.replace(/-\d+$/, '')} says why when it stays away)`;
      }
      const trouble = podTrouble(pod);
      if (trouble === null) {
        return isSlow(pod, nowMillis)
          ? `${name} (its containers are not made; kubectl describe pod ${name} says why)`
          : name;
      }
      const claim = volumeClaims.find(({ metadata }) => metadata.name === `data-${name}`);
      // A volume that was never made is on no machine.
      const isMade = claim === undefined || !isUnbound(claim);
      const remedy =
        isMade && unknownReach.includes(name) && !isOutsideGroup(pod, trouble)
          ? `; when the machine of its volume is gone for good, annotate the pod with ${annotation.replace}=true`
          : unfitText(pod, trouble);
      return `${name} (${unmadeVolume(claim)}${trouble}${remedy})`;
    })
    .join(', ');
}

/** Of volumes and images that are there. */
const creationMillisMax = 180_000;

function isSlow({ metadata, status }: Pod, nowMillis: number): boolean {
  if (metadata.deletionTimestamp !== undefined) return false;
  const ageMillis = nowMillis - Date.parse(metadata.creationTimestamp ?? '');
  const statuses = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  const isCreating = statuses.some(({ state }) => state?.waiting?.reason === 'ContainerCreating');
  return isCreating && ageMillis > creationMillisMax;
}

/** A volume that is deleted before its pod is made anew, and does not go. */
function keptVolume(claims: readonly KubeObject[], pod: string): string | null {
  const claim = claims.find(({ metadata }) => metadata.name === `data-${pod}`);
  const { deletionTimestamp, finalizers = [] } = claim?.metadata ?? {};
  // Kubernetes' own goes with the pod.
  const others = finalizers.filter((name) => name !== 'kubernetes.io/pvc-protection');
  if (deletionTimestamp === undefined || others.length === 0) return null;
  return short(
    `its volume data-${pod} is deleted, and its finalizers keep it: ${others.join(', ')}`,
  );
}

/** The affinity of its isolation group leaves it no machine. */
const isOutsideGroup = ({ metadata }: Pick<Pod, 'metadata'>, trouble: string): boolean =>
  metadata.labels?.[label.group] !== undefined && /match Pod's node affinity/.test(trouble);

/** What to change when no machine has what the pod asks for. */
function unfitText({ metadata }: Pod, trouble: string): string {
  if (isOutsideGroup({ metadata }, trouble)) {
    return `; the nodeAffinity of its group lets it run on no machine that has its volume: take that back, or, when the machine is gone or its data are to move, annotate the pod with ${annotation.replace}=true`;
  }
  if (!/ Insufficient \S/.test(trouble)) return '';
  const component = metadata.labels?.[label.component];
  const field = component === 'node' ? 'nodes' : component;
  return field === undefined ? '' : `; ${field}.resources asks for it`;
}

/** The scheduler says of a class that makes no volumes, or is not there, only that there is no volume. */
function unmadeVolume(claim: KubeObject | undefined): string {
  if (claim === undefined || !isUnbound(claim)) return '';
  const { storageClassName } = claim['spec'] as { readonly storageClassName?: string };
  return `StorageClass ${storageClassName ?? '(none)'} has not made its volume: `;
}

const short = (text: string): string =>
  text.length <= textMax ? text.trim() : `${text.slice(0, textMax - 1).trim()}…`;
