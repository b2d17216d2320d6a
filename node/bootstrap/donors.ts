/** From whom a shard is taken: a pure function of the placement. */
import { type Assigned, isFirstAssignment } from '#cluster/placement/assignments.ts';
import { retiredOwners } from '#cluster/placement/handover.ts';
import type { Instance, Placement, Shard } from '#cluster/placement/placement.ts';

export interface DonorPlan {
  /**
   * Instances that may have the shard's data. Empty: nobody has any, and the shard begins empty.
   */
  readonly candidates: readonly Instance[];
  /** How many of them must give all they have, so that no acknowledged write is missed. */
  readonly needed: number;
  /** Nobody else may have data of the shard. */
  readonly areAll: boolean;
  /** What these give is all that was acknowledged. */
  readonly areCovering: boolean;
  /** Nobody has all of the shard any more: what they have of it is all that there is. */
  readonly areRemains: boolean;
}

/**
 * @param shard of `instanceId`, as the placement has it
 * @param sourceFailed the LEAVING source cannot be reached: the other replicas must do
 */
export function donorPlan(
  placement: Placement,
  instanceId: string,
  shard: Assigned & Pick<Shard, 'id'>,
  sourceFailed: boolean,
): DonorPlan {
  const others = placement.instances.filter(
    ({ id, shards }) => id !== instanceId && shards.some((other) => other.id === shard.id),
  );
  // Who handed it over is the same replica as who has it now.
  const retired = retiredOwners(placement).get(shard.id);
  const owners = others.filter(
    ({ id, shards }) =>
      retired?.has(id) !== true &&
      shards.some((other) => other.id === shard.id && other.state !== 'INITIALIZING'),
  );
  // One that never had it must not begin empty, and so count, while others have what they gave up.
  const isNew =
    isFirstAssignment(placement, shard) &&
    others.every(({ shards }) =>
      shards.some((other) => other.id === shard.id && isFirstAssignment(placement, other)),
    );
  if (owners.length === 0 && !isNew) {
    const needed = others.length;
    return {
      candidates: others,
      needed,
      areAll: true,
      areCovering: needed === 0,
      areRemains: true,
    };
  }
  const source = owners.find(({ id }) => id === shard.sourceId);
  // An acknowledged write is on a majority, so on one of any set that is too large to miss it.
  const majority = Math.floor(placement.replicaFactor / 2) + 1;
  const covering = placement.replicaFactor - majority + 1;
  const planOf = (candidates: readonly Instance[], needed: number): DonorPlan => ({
    candidates,
    needed,
    areAll: candidates.length === owners.length,
    areCovering: candidates[0] === source || needed === 0 || needed >= covering,
    areRemains: false,
  });
  if (source !== undefined && !sourceFailed) return planOf([source], 1);
  const candidates = owners.filter((owner) => owner !== source);
  if (source !== undefined) {
    return candidates.length >= covering ? planOf(candidates, covering) : planOf([source], 1);
  }
  return planOf(candidates, Math.min(candidates.length, covering));
}
