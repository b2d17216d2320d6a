/**
 * What Kubernetes still takes away of a TSDBCluster of the same name that was deleted before this one was
 * made. Its coordinators and its etcd answer until they end, under the same addresses: what they say is
 * not of this cluster, whose etcd is made when theirs has gone with its volumes.
 */
import {
  type Deployment,
  type KubeObject,
  type OwnerReference,
  resource,
} from '../resource/kube_objects.ts';
import { label } from '../resource/keys.ts';
import { Names } from '../resource/names.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';

/** How long past its time a pod is waited for: later its machine is away, and nobody reaches it. */
const terminationMillisMax = 90_000;

interface Children {
  readonly cluster: TsdbCluster;
  /** Of every kind that the operator makes, with the label of the cluster, pods included. */
  readonly objects: readonly KubeObject[];
  readonly nowMillis: number;
}

/** @returns `kind/name` of each, first the pods, which take their time */
export function predecessorObjects({ cluster, objects, nowMillis }: Children): string[] {
  const names = new Names(cluster);
  const sets = new Set(
    objects.filter(({ kind }) => kind === 'StatefulSet').map(({ metadata }) => metadata.uid),
  );
  const deployment = objects.find(
    ({ kind, metadata }) => kind === 'Deployment' && metadata.name === names.coordinator,
  ) as Deployment | undefined;
  const isLeft = (object: KubeObject): boolean => {
    if (object.kind !== 'Pod') return isOwnedByPredecessor(cluster, object);
    // Kubernetes gives times in whole seconds.
    if (isOverdue(object, nowMillis) || madeAt(object) > madeAt(cluster)) return false;
    // Pods of sets that were orphaned are taken over with their set.
    const controller = controllerOf(object);
    if (controller?.kind === 'StatefulSet') return !sets.has(controller.uid);
    const component = object.metadata.labels?.[label.component];
    if (component !== 'coordinator') return false;
    return deployment === undefined || madeAt(object) < madeAt(deployment);
  };
  const left = objects.filter(isLeft);
  const namesOf = (isPod: boolean): string[] =>
    left
      .filter(({ kind }) => (kind === 'Pod') === isPod)
      .map(({ kind, metadata }) => `${kind}/${metadata.name}`)
      .sort();
  return [...namesOf(true), ...namesOf(false)];
}

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

const madeAt = ({ metadata }: KubeObject): number => Date.parse(metadata.creationTimestamp ?? '');

const isOverdue = ({ metadata }: KubeObject, nowMillis: number): boolean =>
  nowMillis - Date.parse(metadata.deletionTimestamp ?? '') > terminationMillisMax;
