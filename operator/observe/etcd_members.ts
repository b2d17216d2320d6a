/** What is known of the members of a cluster's own etcd, and of the volumes that they have. */
import type { Observed } from './observe.ts';
import { Names } from '../resource/names.ts';
import { etcdReplicasMax, type TsdbCluster } from '../resource/tsdb_cluster.ts';
import type { EtcdMember } from '../etcd/etcd_admin.ts';
import type { ClusterRecord, RecordedMember } from '../record/record.ts';

/** The pod that is, or is to be, this member; null for one that is nobody of ours. */
export function memberPod(cluster: TsdbCluster, { name, peerUrl }: EtcdMember): string | null {
  const names = new Names(cluster);
  // One that was added and has not started has no name yet.
  const pod = name === '' ? (/^https?:\/\/([^.:/]+)\./.exec(peerUrl)?.[1] ?? '') : name;
  const ordinal = names.etcdOrdinal(pod);
  // There are as many pods as the highest ordinal asks for.
  return ordinal !== null && ordinal < etcdReplicasMax ? pod : null;
}

/** Of the volume of a member; undefined when there is none. */
export function claimUidOf(
  { volumeClaims }: Pick<Observed, 'volumeClaims'>,
  pod: string,
): string | undefined {
  return volumeClaims.find(({ metadata }) => metadata.name === `data-${pod}`)?.metadata.uid;
}

/** By the names of their pods, without those that etcd has removed. */
export function membersIn(record: ClusterRecord | null): [string, RecordedMember][] {
  return Object.entries(record?.etcdMembers ?? {}).filter(([, member]) => !member.isRemoved);
}

/** Its configuration lets it start on an empty volume. */
export function isListed(
  { cluster, children }: Pick<Observed, 'cluster' | 'children'>,
  pod: string,
): boolean {
  const live = children.get(`ConfigMap/${new Names(cluster).etcdMembers}`);
  const { ETCD_INITIAL_CLUSTER: list = '' } = (live?.['data'] ?? {}) as Record<string, string>;
  return list.split(',').some((one) => one.startsWith(`${pod}=`));
}

/** Somebody is to start without data: a member that joins, or one that was never seen to answer. */
export function isAnyoneJoining(
  { cluster, record }: Pick<Observed, 'cluster' | 'record'>,
  members: readonly EtcdMember[],
): boolean {
  const known = new Map(membersIn(record));
  return members.some((member) => {
    const pod = memberPod(cluster, member);
    const isRecorded = pod !== null && known.get(pod)?.memberId === member.id;
    return member.isLearner || member.name === '' || !isRecorded;
  });
}

/**
 * Whether there are data to come back to: `fresh` when there never were, `lost` when so many volumes
 * are others than those which members had that no quorum can come back.
 */
export function etcdHistory(
  observed: Pick<Observed, 'cluster' | 'record' | 'volumeClaims'>,
): 'fresh' | 'kept' | 'lost' {
  const { cluster, record } = observed;
  const recorded = membersIn(record);
  if (recorded.length === 0) return 'fresh';
  const isOfOther = record!.clusterUid !== cluster.metadata.uid;
  // Volumes that end go with the cluster before; who deletes those of a running one is asked.
  const present = observed.volumeClaims.filter(
    ({ metadata }) => !isOfOther || metadata.deletionTimestamp === undefined,
  );
  const kept = recorded.filter(([pod, { claimUid, laterClaimUid, laterAnswers }]) => {
    const uid = claimUidOf({ volumeClaims: present }, pod);
    return uid !== undefined && (uid === claimUid || (laterAnswers && uid === laterClaimUid));
  });
  if (kept.length > recorded.length / 2) return 'kept';
  // It was deleted with the volumes of its etcd, and has come back.
  return isOfOther && kept.length === 0 ? 'fresh' : 'lost';
}
