/**
 * Who owns the volumes of etcd's members: they go with the TSDBCluster when its policy says so, and
 * never with their StatefulSet, which somebody may delete by mistake.
 */
import type { Action } from '../action/action.ts';
import type { Observed } from '../observe/observe.ts';
import { Names } from '../resource/names.ts';
import { etcdReplicasOf, type TsdbCluster } from '../resource/tsdb_cluster.ts';

export function etcdClaimActions({ cluster, etcd, volumeClaims }: Observed): Action[] {
  if (etcd === null) return [];
  const names = new Names(cluster);
  const { uid } = cluster.metadata;
  const goesWithIt = volumesGoWith(cluster);
  return volumeClaims.flatMap((claim): Action[] => {
    const { name, deletionTimestamp, ownerReferences = [] } = claim.metadata;
    const isOfMember = names.etcdOrdinalOfClaim(name) !== null;
    const isOwned = ownerReferences.some((owner) => owner.uid === uid);
    if (!isOfMember || deletionTimestamp !== undefined || isOwned === goesWithIt) return [];
    return [{ kind: 'own-claim', claim, cluster, goesWithIt }];
  });
}

/** Of its own etcd. */
export const volumesGoWith = ({ spec }: TsdbCluster): boolean =>
  spec.etcd?.external === undefined && spec.deletionPolicy?.metadata !== 'Retain';

/**
 * Some volumes of etcd would stay if the cluster went now: Kubernetes has just made them, or is going
 * to. Applied again, the cluster would have members with data of another etcd.
 */
export function wouldLeaveEtcdVolumes({
  cluster,
  volumeClaims,
  statefulSets,
}: Pick<Observed, 'cluster' | 'volumeClaims' | 'statefulSets'>): boolean {
  if (!volumesGoWith(cluster)) return false;
  const names = new Names(cluster);
  const owned = new Set(
    volumeClaims
      .filter(({ metadata: { ownerReferences = [] } }) =>
        ownerReferences.some(({ uid }) => uid === cluster.metadata.uid),
      )
      .map(({ metadata }) => names.etcdOrdinalOfClaim(metadata.name)),
  );
  const pods = Math.max(etcdReplicasOf(cluster), statefulSets.get(names.etcd)?.spec.replicas ?? 0);
  return Array.from({ length: pods }, (_, at) => at).some((ordinal) => !owned.has(ordinal));
}
