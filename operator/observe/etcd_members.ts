/** What is known of the members of a cluster's own etcd, and of the volumes that they have. */
import type { Observed } from './observe.ts';
import { Names } from '../resource/names.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import type { EtcdMember } from '../etcd/etcd_admin.ts';

/** The pod that is, or is to be, this member; null for one that is nobody of ours. */
export function memberPod(cluster: TsdbCluster, { name, peerUrl }: EtcdMember): string | null {
  const names = new Names(cluster);
  // One that was added and has not started has no name yet.
  const pod = name === '' ? (/^https?:\/\/([^.:/]+)\./.exec(peerUrl)?.[1] ?? '') : name;
  return names.etcdOrdinal(pod) === null ? null : pod;
}

/** Of the volume of a member; undefined when there is none. */
export function claimUidOf(
  { volumeClaims }: Pick<Observed, 'volumeClaims'>,
  pod: string,
): string | undefined {
  return volumeClaims.find(({ metadata }) => metadata.name === `data-${pod}`)?.metadata.uid;
}

/**
 * Whether there are data to come back to: `fresh` when there never were, `lost` when so many volumes
 * are others than those which members had that no quorum can come back.
 */
export function etcdHistory(
  observed: Pick<Observed, 'cluster' | 'record' | 'volumeClaims'>,
): 'fresh' | 'kept' | 'lost' {
  const { cluster, record } = observed;
  const recorded = Object.entries(record?.etcdMembers ?? {});
  if (recorded.length === 0) return 'fresh';
  const kept = recorded.filter(([pod, { claimUid }]) => claimUidOf(observed, pod) === claimUid);
  if (kept.length > recorded.length / 2) return 'kept';
  // It was deleted with the volumes of its etcd, and has come back.
  const isOfOther = record!.clusterUid !== cluster.metadata.uid;
  return isOfOther && kept.length === 0 ? 'fresh' : 'lost';
}
