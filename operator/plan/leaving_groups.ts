/**
 * Isolation groups that the resource does not name any more: their nodes leave the placement, then
 * their set and its volumes go, as those of nodes that are scaled away. One group after the other, and
 * not before the groups that stay have nodes in the placement for every copy. A group that is named
 * again meanwhile is one that is to have nodes, whatever has left already.
 */
import type { PlacementView } from '../coordinator/coordinator_client.ts';
import { leavingGroups } from '../observe/isolation_groups.ts';
import type { Observed } from '../observe/observe.ts';
import { Names } from '../resource/names.ts';
import { doubtPart } from './doubts.ts';
import { downIn } from './readiness.ts';
import { doing, type Part, waitingFor } from '../part/part.ts';

/** Of the placement, after everything that comes has come. */
export function removeGroupPart(observed: Observed, placement: PlacementView): Part | null {
  const { cluster } = observed;
  const groupsPlaced = new Set(
    Object.values(placement.instances).map(({ isolationGroup }) => isolationGroup),
  );
  const staying = cluster.spec.isolationGroups.filter(({ name }) => groupsPlaced.has(name));
  for (const group of leavingGroups(observed).keys()) {
    const ids = instancesOf(observed, placement, group);
    if (ids.length === 0) continue;
    if (staying.length < placement.replicationFactor) {
      const message = `isolation group ${group} leaves when ${placement.replicationFactor} others have nodes in the placement`;
      return waitingFor('ScalingDown', message);
    }
    const down = downIn(observed, placement, ids);
    if (down.length > 0) {
      return waitingFor('NodesNotReady', `placement remove waits for nodes: ${down.join(', ')}`);
    }
    const doubt = doubtPart(observed, placement, ids);
    if (doubt !== null) return doubt;
    return doing(
      [{ kind: 'placement-remove', instanceIds: ids, force: false }],
      'ScalingDown',
      `isolation group ${group} leaves: shards move away from ${ids.join(', ')}`,
    );
  }
  return null;
}

/** Nothing of it is in the placement any more: at any time. */
export function dropGroupPart(observed: Observed, placement: PlacementView): Part | null {
  for (const [group, set] of leavingGroups(observed)) {
    if (instancesOf(observed, placement, group).length > 0) continue;
    // One that is not there is made for the pods that are left of it, and takes them along.
    if (set === null || set.metadata.deletionTimestamp !== undefined) continue;
    const message = `isolation group ${group} goes with its volumes`;
    if (set.spec.replicas !== 0) {
      return doing(
        [{ kind: 'scale-set', set, replicas: 0, whenScaled: 'Delete' }],
        'ScalingDown',
        message,
      );
    }
    const names = new Names(observed.cluster);
    const isOfGroup = (pod: string): boolean => names.ordinalIn(group, pod) !== null;
    if (observed.pods.some(({ metadata }) => isOfGroup(metadata.name))) {
      return waitingFor('ScalingDown', message);
    }
    // Also those that were left when somebody else made the set smaller.
    const claims = observed.volumeClaims.filter(({ metadata }) =>
      isOfGroup(metadata.name.replace(/^data-/, '')),
    );
    const left = claims.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    if (claims.length > left.length) return waitingFor('ScalingDown', message);
    const objects = left.length > 0 ? left : [set];
    return doing(
      objects.map((object) => ({ kind: 'delete', object, orphan: false })),
      'ScalingDown',
      message,
    );
  }
  return null;
}

export function leavingInstances(observed: Observed, placement: PlacementView): string[] {
  const groups = [...leavingGroups(observed).keys()];
  return groups.flatMap((group) => instancesOf(observed, placement, group));
}

function instancesOf({ cluster }: Observed, placement: PlacementView, group: string): string[] {
  const names = new Names(cluster);
  return Object.keys(placement.instances).filter((id) => names.ordinalIn(group, id) !== null);
}
