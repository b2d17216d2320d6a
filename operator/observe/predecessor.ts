/**
 * What Kubernetes still takes away of a TSDBCluster of the same name that was deleted before this one was
 * made. Its coordinators and its etcd answer until they end, under the same addresses: what they say is
 * not of this cluster, whose etcd is made when theirs has gone with its volumes.
 */
import type { KubeClient } from '../kube/kube_api.ts';
import { type KubeObject, type OwnerReference, resource } from '../resource/kube_objects.ts';
import { label } from '../resource/keys.ts';
import { Names } from '../resource/names.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';

/** How long past its time a pod is waited for: later its machine is away, and nobody reaches it. */
const terminationMillisMax = 90_000;

interface Children {
  readonly cluster: TsdbCluster;
  /** Of every kind that the operator makes, with the label of the cluster, pods included. */
  readonly objects: readonly KubeObject[];
  /** As `olderReplicaSets` gives them. */
  readonly replicaSets: readonly KubeObject[];
  readonly nowMillis: number;
}

/**
 * Those of coordinators that are older than the cluster, as far as they are there: whose they are tells
 * pods that go from pods that were taken over.
 */
export async function olderReplicaSets(
  cluster: TsdbCluster,
  pods: readonly KubeObject[],
  api: Pick<KubeClient, 'get'>,
  signal: AbortSignal,
): Promise<KubeObject[]> {
  const names = new Set(
    pods
      .filter((pod) => isCoordinator(pod) && !isYounger(pod, cluster))
      .map(controllerOf)
      .flatMap((owner) => (owner?.kind === resource.replicaSet.kind ? [owner.name] : [])),
  );
  const { namespace } = cluster.metadata;
  const found = await Promise.all(
    [...names].map((name) => api.get(resource.replicaSet, namespace!, name, signal)),
  );
  return found.filter((set) => set !== null);
}

/** @returns `kind/name` of each, first the pods, which take their time */
export function predecessorObjects({
  cluster,
  objects,
  replicaSets,
  nowMillis,
}: Children): string[] {
  const names = new Names(cluster);
  const sets = new Set(
    objects.filter(({ kind }) => kind === 'StatefulSet').map(({ metadata }) => metadata.uid),
  );
  const deployment = objects.find(
    ({ kind, metadata }) => kind === 'Deployment' && metadata.name === names.coordinator,
  );
  const isLeft = (object: KubeObject): boolean => {
    if (object.kind !== 'Pod') return isOwnedByPredecessor(cluster, object);
    if (isOverdue(object, nowMillis) || isYounger(object, cluster)) return false;
    // Pods of sets that were orphaned are taken over with their set.
    const controller = controllerOf(object);
    if (controller?.kind === 'StatefulSet') return !sets.has(controller.uid);
    if (controller?.kind !== resource.replicaSet.kind || !isCoordinator(object)) return false;
    const set = replicaSets.find(({ metadata }) => metadata.uid === controller.uid);
    if (set === undefined) return true;
    // One that was orphaned is taken over with its pods, as old as they are, by the next Deployment.
    const owner = controllerOf(set);
    return owner !== undefined && owner.uid !== deployment?.metadata.uid;
  };
  const left = objects.filter(isLeft);
  const namesOf = (isPod: boolean): string[] =>
    left
      .filter(({ kind }) => (kind === 'Pod') === isPod)
      .map(({ kind, metadata }) => `${kind}/${metadata.name}`)
      .sort();
  return [...namesOf(true), ...namesOf(false)];
}

const isCoordinator = ({ metadata }: KubeObject): boolean =>
  metadata.labels?.[label.component] === 'coordinator';

const controllerOf = ({ metadata }: KubeObject): OwnerReference | undefined =>
  metadata.ownerReferences?.find((owner) => owner.controller === true);

/** Nobody else owns it: it goes as soon as Kubernetes comes to it. */
function isOwnedByPredecessor({ metadata }: TsdbCluster, object: KubeObject): boolean {
  const { ownerReferences = [] } = object.metadata;
  return (
    ownerReferences.length > 0 &&
    ownerReferences.every(
      ({ kind, name, uid }) =>
        kind === resource.cluster.kind && name === metadata.name && uid !== metadata.uid,
    )
  );
}

/** Kubernetes gives times in whole seconds. */
const isYounger = (object: KubeObject, cluster: TsdbCluster): boolean =>
  madeAt(object) > madeAt(cluster);

const madeAt = ({ metadata }: KubeObject): number => Date.parse(metadata.creationTimestamp ?? '');

const isOverdue = ({ metadata }: KubeObject, nowMillis: number): boolean =>
  nowMillis - Date.parse(metadata.deletionTimestamp ?? '') > terminationMillisMax;
