/** What a person approved for an etcd that has lost its data, and how far it has come. */
import { annotation, label } from '../resource/keys.ts';
import type { Job, KubeObject } from '../resource/kube_objects.ts';
import { Names } from '../resource/names.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import { type Snapshot, snapshotName } from '../etcd_snapshots/folder.ts';
import { etcdHistory } from './etcd_members.ts';
import type { Observed } from './observe.ts';

/** `empty`, a snapshot's name or `latest`; null when nothing is approved. */
export function approvedRestore({ metadata }: TsdbCluster): string | null {
  return metadata.annotations?.[annotation.restoreEtcd] ?? null;
}

/** The last snapshot that a pod of the schedule says it has taken; null when none is there. */
export function lastSnapshot({ pods }: Pick<Observed, 'pods'>): Snapshot | null {
  const taken = pods
    .filter(({ metadata }) => metadata.labels?.[label.component] === 'etcd-snapshots')
    .flatMap(({ status }) => status?.containerStatuses ?? [])
    .flatMap(({ state }) => parsedSnapshot(state?.terminated?.message) ?? []);
  return taken.sort((a, b) => (a.name < b.name ? 1 : -1))[0] ?? null;
}

function parsedSnapshot(text: string | undefined): Snapshot | null {
  try {
    const { name, bytes } = JSON.parse(text ?? '') as Snapshot;
    return typeof name === 'string' && typeof bytes === 'number' ? { name, bytes } : null;
  } catch {
    return null;
  }
}

/** Of a snapshot, whether or not there is one of this name; null when none is approved. */
export function approvedSnapshot(cluster: TsdbCluster): string | null {
  const wish = approvedRestore(cluster);
  return wish !== null && (wish === 'latest' || snapshotName.test(wish)) ? wish : null;
}

type Known = Pick<
  Observed,
  'cluster' | 'record' | 'volumeClaims' | 'etcd' | 'pods' | 'children' | 'statefulSets'
>;

/** The snapshot that an etcd without data is made from; null when it is made otherwise, or runs. */
export function restoredSnapshot(observed: Known): string | null {
  const { cluster, etcd } = observed;
  if (etcd === null || etcd.reachable || etcdHistory(observed) !== 'fresh') return null;
  return approvedSnapshot(cluster);
}

/**
 * Whether the volume of the first member may be filled: no member has run on it, and none runs.
 * @param jobName of the job that fills it
 */
export function isReadyForRestore(observed: Known, jobName: string): boolean {
  const { cluster, children, pods, volumeClaims } = observed;
  if (children.has(`Job/${jobName}`)) return true;
  const names = new Names(cluster);
  const isMade = volumeClaims.some(
    ({ metadata }) =>
      names.etcdOrdinalOfClaim(metadata.name) !== null &&
      metadata.annotations?.[annotation.restoredBy] !== jobName,
  );
  return !isMade && !pods.some(({ metadata }) => names.etcdOrdinal(metadata.name) !== null);
}

/** Volumes of members that have no pod, as `memberClaims`. */
export function abandonedClaims(observed: Known, keptFor: string | null): readonly KubeObject[] {
  const running = new Set(observed.pods.map(({ metadata }) => metadata.name));
  return memberClaims(observed, keptFor).filter(
    ({ metadata }) => !running.has(metadata.name.slice('data-'.length)),
  );
}

/**
 * Volumes of members.
 * @param keptFor the job for which one may have been made, which is none of them; null when none is
 */
export function memberClaims(
  { cluster, volumeClaims }: Known,
  keptFor: string | null,
): readonly KubeObject[] {
  const names = new Names(cluster);
  return volumeClaims.filter(
    ({ metadata }) =>
      names.etcdOrdinalOfClaim(metadata.name) !== null &&
      metadata.deletionTimestamp === undefined &&
      (keptFor === null || metadata.annotations?.[annotation.restoredBy] !== keptFor),
  );
}

/**
 * Whether etcd lacks what the cluster is known to have had: it has lost its data, begins anew, or waits
 * for what the nodes know. A snapshot of that would stand before those that have more.
 */
export function isEtcdLacking(
  observed: Pick<Observed, 'cluster' | 'record' | 'volumeClaims' | 'coordinator'>,
): boolean {
  const { cluster, record, coordinator } = observed;
  const known = Math.max(record?.placement?.version ?? 0, cluster.status?.placementVersion ?? 0);
  if (coordinator.reachable && coordinator.awaitsApproval) return true;
  if (known === 0) return false;
  if (approvedRestore(cluster) !== null || etcdHistory(observed) !== 'kept') return true;
  return coordinator.reachable && (coordinator.placement?.version ?? 0) < known;
}

export type RestoreProgress =
  | { readonly state: 'running' }
  /** @property snapshot its name; null when its pod is gone */
  | { readonly state: 'done'; readonly snapshot: string | null }
  | { readonly state: 'failed'; readonly problem: string };

export function restoreProgress(
  { children, pods, cluster }: Known,
  jobName: string,
): RestoreProgress {
  const job = children.get(`Job/${jobName}`) as Job | undefined;
  const ofJob = pods.filter(
    ({ metadata }) => metadata.labels?.[label.component] === 'etcd-restore',
  );
  const said = ofJob
    .flatMap(({ status }) => [
      ...(status?.initContainerStatuses ?? []),
      ...(status?.containerStatuses ?? []),
    ])
    .flatMap(({ state }) => state?.terminated?.message ?? []);
  const isTrue = (type: string): boolean =>
    job?.status?.conditions?.some((one) => one.type === type && one.status === 'True') ?? false;
  if (isTrue('Complete')) {
    // Of a job before this one, which may write still.
    const isAlone = ofJob.every(
      ({ status }) => status?.phase === 'Succeeded' || status?.phase === 'Failed',
    );
    if (!isAlone) return { state: 'running' };
    const [snapshot = null] = said.flatMap((text) => parsedSnapshot(text)?.name ?? []);
    return { state: 'done', snapshot };
  }
  if (!isTrue('Failed')) return { state: 'running' };
  const { message = 'its job failed' } =
    job?.status?.conditions?.find(({ type }) => type === 'Failed') ?? {};
  const names = new Names(cluster);
  const problem = said.at(-1)?.trim() ?? `${message}: look at the pods of ${names.etcdRestore}`;
  return { state: 'failed', problem };
}
