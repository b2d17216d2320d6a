/**
 * Who owns the volumes of etcd's members: they go with the TSDBCluster when its policy says so, and
 * never with their StatefulSet, which somebody may delete by mistake.
 */
import type { Action } from '../action/action.ts';
import type { Observed } from '../observe/observe.ts';
import { Names } from '../resource/names.ts';

export function etcdClaimActions({ cluster, etcd, volumeClaims }: Observed): Action[] {
  if (etcd === null) return [];
  const names = new Names(cluster);
  const { uid } = cluster.metadata;
  const goesWithIt = cluster.spec.deletionPolicy?.metadata !== 'Retain';
  return volumeClaims.flatMap((claim): Action[] => {
    const { name, deletionTimestamp, ownerReferences = [] } = claim.metadata;
    const isOfMember = names.etcdOrdinalOfClaim(name) !== null;
    const isOwned = ownerReferences.some((owner) => owner.uid === uid);
    if (!isOfMember || deletionTimestamp !== undefined || isOwned === goesWithIt) return [];
    return [{ kind: 'own-claim', claim, cluster, goesWithIt }];
  });
}
