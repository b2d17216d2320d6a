/**
 * Why a pod does not run, as Kubernetes says it of the pod: that is what a person looks up next.
 * Texts stay the same while the trouble does, though Kubernetes' own go to and fro between attempts:
 * each change is a write of the status.
 */
import { type KubeObject, passingReasons, type Pod } from '../resource/kube_objects.ts';
import { annotation } from '../resource/keys.ts';
import type { Observed } from './observe.ts';
import { isUnbound } from './volume_classes.ts';

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
export function podTrouble({ status }: Pod): string | null {
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

/** Names of pods, with their troubles. */
export function withTroubles(
  names: readonly string[],
  { pods, volumeClaims, unknownReach }: Pick<Observed, 'pods' | 'volumeClaims' | 'unknownReach'>,
): string {
  const byName = new Map(pods.map((pod) => [pod.metadata.name, pod]));
  return names
    .map((name) => {
      const pod = byName.get(name);
      const trouble = pod === undefined ? null : podTrouble(pod);
      if (trouble === null) return name;
      const claim = volumeClaims.find(({ metadata }) => metadata.name === `data-${name}`);
      const remedy = unknownReach.includes(name)
        ? `; when the machine of its volume is gone for good, annotate the pod with ${annotation.replace}=true`
        : '';
      return `${name} (${unmadeVolume(claim)}${trouble}${remedy})`;
    })
    .join(', ');
}

/** The scheduler says of a class that makes no volumes, or is not there, only that there is no volume. */
function unmadeVolume(claim: KubeObject | undefined): string {
  if (claim === undefined || !isUnbound(claim)) return '';
  const { storageClassName } = claim['spec'] as { readonly storageClassName?: string };
  return `StorageClass ${storageClassName ?? '(none)'} has not made its volume: `;
}

const short = (text: string): string =>
  text.length <= textMax ? text.trim() : `${text.slice(0, textMax - 1).trim()}…`;
