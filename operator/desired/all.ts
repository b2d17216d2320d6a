/** Every child object of a cluster as it should be. */
import { isStale, type KubeObject } from '../resource/api.ts';
import type { Observed } from '../observe/observe.ts';
import { type ImageDefaults, marked } from './common.ts';
import { coordinatorObjects } from './coordinator.ts';
import { etcdObjects } from './etcd.ts';
import { Names } from './names.ts';
import { nodeObjects, nodeStatefulSet } from './nodes.ts';

/** What the number of nodes in a group is derived from. */
export type GroupState = Pick<Observed, 'cluster' | 'statefulSets' | 'pods' | 'coordinator'>;

/** Sets of nodes keep their live number of replicas: scaling is a step of its own. */
export function wantedObjects(observed: GroupState, images: ImageDefaults): KubeObject[] {
  const { cluster } = observed;
  const objects = [
    ...etcdObjects(cluster, images),
    ...nodeObjects(cluster),
    ...coordinatorObjects(cluster, images),
  ];
  return [
    ...objects.map((object) => marked(object)),
    ...cluster.spec.isolationGroups.map((group) =>
      nodeStatefulSet(
        cluster,
        group,
        replicasOf(observed, group.name),
        images,
        isShrinking(observed, group.name) ? 'Delete' : 'Retain',
      ),
    ),
  ];
}

/** Pods whose shards have moved are on their way out, with their volumes. */
function isShrinking({ cluster, statefulSets }: GroupState, group: string): boolean {
  const live = statefulSets.get(new Names(cluster).group(group));
  if (live?.spec.persistentVolumeClaimRetentionPolicy?.whenScaled !== 'Delete') return false;
  return isStale(live) || (live.status?.replicas ?? 0) > (live.spec.replicas ?? 1);
}

/**
 * A set that is not there (a new cluster, or one between deletion and creation for larger volumes)
 * is made large enough for every node that has run: a pod too few would lose its volume with its
 * shards.
 */
function replicasOf(observed: GroupState, group: string): number {
  const { cluster, coordinator } = observed;
  const names = new Names(cluster);
  const live = observed.statefulSets.get(names.group(group))?.spec.replicas;
  if (live !== undefined) return live;
  const placed =
    coordinator.reachable && coordinator.placement !== null
      ? Object.keys(coordinator.placement.instances)
      : [];
  const ordinals = [...placed, ...observed.pods.map(({ metadata }) => metadata.name)]
    .map((id) => names.ordinalIn(group, id))
    .filter((ordinal) => ordinal !== null);
  const published = cluster.status?.groups?.find(({ name }) => name === group)?.replicas ?? 0;
  return Math.max(
    cluster.spec.nodes.replicasPerGroup,
    published,
    ...ordinals.map((ordinal) => ordinal + 1),
  );
}
