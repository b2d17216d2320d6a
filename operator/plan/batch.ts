/**
 * Which nodes are replaced together in a roll. All of one isolation group may be away when every
 * shard has a majority of its replicas in the others; the first of each group goes alone, so that a
 * bad image or configuration costs one pod.
 */
import type { PlacementView } from '../coordinator/coordinator_client.ts';
import type { Observed } from '../observe/observe.ts';
import { label } from '../resource/keys.ts';
import type { Pod } from '../resource/kube_objects.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import { podReady } from '../resource/pod_state.ts';
import { doubtOf, goingVolume } from './doubts.ts';

export const groupOf = ({ metadata }: Pod): string | undefined => metadata.labels?.[label.group];

/** Of a group, as the resource says; a part of a node is none, but one is always allowed. */
function maxUnavailableOf({ spec }: TsdbCluster): number {
  const { maxUnavailable = 1, replicasPerGroup } = spec.nodes;
  if (typeof maxUnavailable === 'number') return maxUnavailable;
  return Math.max(1, Math.floor((Number.parseInt(maxUnavailable, 10) * replicasPerGroup) / 100));
}

/** Whether a majority of each shard's replicas is outside of the group. */
function hasMajorityWithout(placement: PlacementView, group: string | undefined): boolean {
  const replicas = new Uint8Array(placement.numberOfShards);
  for (const { isolationGroup, shards } of Object.values(placement.instances)) {
    if (isolationGroup === group) continue;
    for (const shard of shards) if (shard.state === 'AVAILABLE') replicas[shard.id]!++;
  }
  const majority = Math.floor(placement.replicationFactor / 2) + 1;
  return replicas.every((count) => count >= majority);
}

/**
 * Pods that go together with the first one of a cluster in which all serve.
 * @param outdated of older revisions, `first` among them
 * @param updated of the newest one
 */
export function batchOf(
  observed: Observed,
  placement: PlacementView,
  first: Pod,
  { outdated, updated }: { readonly outdated: readonly Pod[]; readonly updated: readonly Pod[] },
): Pod[] {
  const group = groupOf(first);
  const max = maxUnavailableOf(observed.cluster);
  const isProven = updated.some((pod) => groupOf(pod) === group);
  if (goingVolume(observed, first) !== null) return [];
  // Its eviction asks no budget, and the others of a batch are not evicted.
  if (!podReady(first)) return [];
  if (max === 1 || !isProven || !hasMajorityWithout(placement, group)) return [];
  const batch = [first];
  for (const pod of outdated) {
    if (batch.length === max) break;
    if (pod === first || groupOf(pod) !== group || goingVolume(observed, pod) !== null) continue;
    const ids = [...batch, pod].map(({ metadata }) => metadata.name);
    if (doubtOf(observed, placement, ids) === null) batch.push(pod);
  }
  return batch.slice(1);
}
