/**
 * What must not be taken away since somebody else needs it: of blocks that were damaged at one owner
 * of a shard another one may have the only whole copy. AVAILABLE does not tell that.
 */
import type { PlacementView } from '../coordinator/coordinator_client.ts';
import type { Observed } from '../observe/observe.ts';
import { annotation } from '../resource/keys.ts';
import { type Part, waitingFor } from '../part/part.ts';

export interface Doubt {
  /** Whether somebody lacks blocks, or only has not said that it lacks none. */
  readonly reason: 'DataInDoubt' | 'NodesSilent';
  readonly text: string;
}

/**
 * Why these nodes cannot be taken away; null when no other owner of their shards lacks anything. An
 * owner that does not say so may; one that cannot, of a release before, and all of them behind such a
 * coordinator, are taken for whole.
 */
export function doubtOf(
  observed: Observed,
  placement: PlacementView | null,
  ids: readonly string[],
): Doubt | null {
  const { coordinator } = observed;
  if (placement === null || !coordinator.reachable || coordinator.healths === null) return null;
  const { healths } = coordinator;
  const leaving = ids.filter((id) => id in placement.instances && !isIgnored(observed, id));
  const shards = new Set(
    leaving.flatMap((id) => placement.instances[id]!.shards.map((shard) => shard.id)),
  );
  if (shards.size === 0) return null;
  for (const other of Object.values(placement.instances)) {
    if (ids.includes(other.id) || !other.shards.some(({ id }) => shards.has(id))) continue;
    const health = typeof healths === 'string' ? { error: healths } : healths.get(other.id);
    if (health === undefined || 'error' in health) {
      const why = health === undefined ? 'it was not asked' : health.error;
      const text = `${other.id} has not said yet that it lacks no blocks (${why})`;
      return { reason: 'NodesSilent', text };
    }
    if (health.shardsLacking.some((shard) => shards.has(shard))) {
      const from = leaving.join(', ');
      const text = `${other.id} lacks ${health.blocksLacking} blocks of shards, which it takes from others, ${from} among them; when it never can, annotate pod ${from} with ${annotation.ignoreDoubts}=true`;
      return { reason: 'DataInDoubt', text };
    }
  }
  return null;
}

/** @returns null when nothing is in the way */
export function doubtPart(
  observed: Observed,
  placement: PlacementView | null,
  ids: readonly string[],
): Part | null {
  const doubt = doubtOf(observed, placement, ids);
  return doubt === null
    ? null
    : waitingFor(doubt.reason, `${ids.join(', ')} must stay as long as ${doubt.text}`);
}

/** Said on the pod itself, so that it is good for this one and goes with it. */
function isIgnored({ pods }: Observed, id: string): boolean {
  const pod = pods.find(({ metadata }) => metadata.name === id);
  return pod?.metadata.annotations?.[annotation.ignoreDoubts] === 'true';
}
