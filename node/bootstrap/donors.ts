/** From whom a shard is taken: a pure function of the placement. */
import { type Assigned, isFirstAssignment } from '#cluster/placement/assignments.ts';
import { retiredOwners } from '#cluster/placement/handover.ts';
import type { Instance, Placement, Shard } from '#cluster/placement/placement.ts';
import { majority } from '#cluster/session/consistency.ts';

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

interface Owner {
  readonly instance: Instance;
  /** The shard as the instance has it. */
  readonly own: Shard;
}

interface LookedThrough {
  /** By shard, in the order of the instances. */
  readonly ownersOf: ReadonlyMap<number, readonly Owner[]>;
  readonly retiredOf: ReturnType<typeof retiredOwners>;
}

/** A plan is made for each shard of a placement, which never changes. */
const known = new WeakMap<Placement, LookedThrough>();

function lookedThrough(placement: Placement): LookedThrough {
  let found = known.get(placement);
  if (found !== undefined) return found;
  const ownersOf = new Map<number, Owner[]>();
  for (const instance of placement.instances) {
    for (const own of instance.shards) {
      const owners = ownersOf.get(own.id);
      if (owners === undefined) ownersOf.set(own.id, [{ instance, own }]);
      else owners.push({ instance, own });
    }
  }
  found = { ownersOf, retiredOf: retiredOwners(placement) };
  known.set(placement, found);
  return found;
}

/** Instances that readers count for a shard, in the order of the placement. */
export function readOwners(placement: Placement, shard: number): Instance[] {
  const { ownersOf, retiredOf } = lookedThrough(placement);
  // Who handed it over is the same replica as who has it now.
  const retired = retiredOf.get(shard);
  return (ownersOf.get(shard) ?? []).flatMap(({ instance, own }) =>
    own.state === 'INITIALIZING' || retired?.has(instance.id) === true ? [] : [instance],
  );
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
  const { ownersOf } = lookedThrough(placement);
  const others = (ownersOf.get(shard.id) ?? []).filter(
    ({ instance }) => instance.id !== instanceId,
  );
  const owners = readOwners(placement, shard.id).filter(({ id }) => id !== instanceId);
  // One that never had it must not begin empty, and so count, while others have what they gave up.
  const isNew =
    isFirstAssignment(placement, shard) &&
    others.every(({ own }) => isFirstAssignment(placement, own));
  if (owners.length === 0 && !isNew) {
    const needed = others.length;
    return {
      candidates: others.map(({ instance }) => instance),
      needed,
      areAll: true,
      areCovering: needed === 0,
      areRemains: true,
    };
  }
  const source = owners.find(({ id }) => id === shard.sourceId);
  // An acknowledged write is on a majority, so on one of any set that is too large to miss it.
  const covering = placement.replicaFactor - majority(placement.replicaFactor) + 1;
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
