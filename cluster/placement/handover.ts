/**
 * Handover takes two versions of the placement, so that no reader that is cut off from the key-value
 * store and the owners can disagree on who counts:
 *
 *     moving      giver LEAVING, taker INITIALIZING   the giver is read; writes need both, as one replica
 *     step 1      giver LEAVING, taker AVAILABLE      the taker is read; writes need both, as one replica
 *     step 2      taker AVAILABLE                     the giver has left
 *
 * In step 1 the taker still names the giver as its `sourceId`. The giver, as soon as it knows of step
 * 1, answers for the shard no more; the other owners, as soon as they know, answer for it no reader of
 * an older version. Step 2 comes when the giver, or all others, know: a reader of an older version
 * then finds no majority, whoever else has not heard of it.
 */
import type { Instance, Placement } from './placement.ts';

const nobody: ReadonlySet<string> = new Set();

/**
 * By shard the owners that gave it to another one and have not left: LEAVING, and nobody is about to
 * take it from them. They are written to and not read. Shards without any are not in it.
 */
export function retiredOwners({
  instances,
}: Pick<Placement, 'instances'>): ReadonlyMap<number, ReadonlySet<string>> {
  const leaving = new Map<number, Set<string>>();
  for (const { id: instanceId, shards } of instances) {
    for (const { id, state } of shards) {
      if (state !== 'LEAVING') continue;
      const ofShard = leaving.get(id);
      if (ofShard === undefined) leaving.set(id, new Set([instanceId]));
      else ofShard.add(instanceId);
    }
  }
  if (leaving.size === 0) return leaving;
  for (const { shards } of instances) {
    for (const { id, state, sourceId } of shards) {
      if (state !== 'INITIALIZING') continue;
      const ofShard = leaving.get(id);
      if (ofShard?.delete(sourceId) === true && ofShard.size === 0) leaving.delete(id);
    }
  }
  return leaving;
}

/**
 * What instances say of this very version of the placement: true for those that adopted it, false
 * for those that have not yet. Who is not in it could not be reached.
 */
export type Adoption = ReadonlyMap<string, boolean>;

/**
 * Step 2, for each shard for which it is due: the giver leaves, and an instance that thereby loses its
 * last shard goes too.
 *
 * @returns the placement itself when nothing changes
 */
export function finishHandovers(placement: Placement, adoption: Adoption): Placement {
  const due = new Map<number, ReadonlySet<string>>();
  for (const [shard, givers] of retiredOwners(placement)) {
    const owners = readOnce(placement, shard);
    const those = new Set([...givers].filter((giver) => isDue(placement, giver, owners, adoption)));
    if (those.size > 0) due.set(shard, those);
  }
  if (due.size === 0) return placement;
  const instances = placement.instances.flatMap((instance): Instance[] => {
    let changes = false;
    const shards = instance.shards.flatMap((shard) => {
      const gone = due.get(shard.id) ?? nobody;
      const leaves = shard.state === 'LEAVING' && gone.has(instance.id);
      if (!leaves && !gone.has(shard.sourceId)) return [shard];
      changes = true;
      return leaves ? [] : [{ ...shard, sourceId: '' }];
    });
    if (!changes) return [instance];
    return shards.length === 0 ? [] : [{ ...instance, shards }];
  });
  return { ...placement, instances };
}

/**
 * Whether a giver may leave. With one replica the others are no majority without it, so there it is
 * left out only when it cannot be reached.
 */
function isDue(
  { replicaFactor }: Placement,
  giver: string,
  owners: readonly string[],
  adoption: Adoption,
): boolean {
  if (adoption.get(giver) === true) return true;
  if (replicaFactor === 1 && adoption.has(giver)) return false;
  return owners.every((id) => id === giver || adoption.get(id) === true);
}

/** Owners that some version of the placement may let read: one that is INITIALIZING never answers. */
function readOnce({ instances }: Placement, shard: number): string[] {
  return instances
    .filter(({ shards }) => {
      return shards.some(({ id, state }) => id === shard && state !== 'INITIALIZING');
    })
    .map(({ id }) => id);
}
