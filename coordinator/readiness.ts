/** Whether the nodes take writes, as far as they say. */
import type { NodeService } from '#cluster/node/service.ts';
import type { Instance } from '#cluster/placement/placement.ts';
import { majority } from '#cluster/session/consistency.ts';
import type { Topology } from '#cluster/topology/topology.ts';
import { TsdbError } from '#lib/errors.ts';

/**
 * Whether of every shard a majority of the replicas lies on nodes that can be reached and refuse no
 * writes, as one with a full disk does. A pair of owners that counts as one replica needs both.
 */
export async function takesWrites(
  topology: Pick<Topology, 'view'>,
  nodeOf: (instance: Instance) => NodeService,
  signal: AbortSignal,
): Promise<boolean> {
  const { ownership } = topology.view;
  if (ownership === null) return false;
  const needed = majority(ownership.replicaFactor);
  const isEnough = (taking: readonly boolean[]): boolean =>
    ownership.classes.every(({ members, replicas }) => {
      const counts = replicas.filter(({ mask }) =>
        members.every((instance, bit) => (mask & (1 << bit)) === 0 || taking[instance]),
      );
      return counts.length >= needed;
    });
  // What those that have answered say, and what would be if all others took writes.
  const known = ownership.instances.map(() => false);
  const possible = ownership.instances.map(() => true);
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  const answers = ownership.instances.map(async (instance, i) => {
    known[i] = possible[i] = await saysItTakesWrites(nodeOf(instance), signal);
    // A node that does not answer holds nobody up once the others decide.
    if (isEnough(known)) resolve(true);
    else if (!isEnough(possible)) resolve(false);
  });
  Promise.all(answers).then(() => resolve(isEnough(known)), reject);
  return promise;
}

async function saysItTakesWrites(node: NodeService, signal: AbortSignal): Promise<boolean> {
  try {
    return (await node.health(signal)).writesRefused === '';
  } catch (error) {
    if (error instanceof TsdbError) return false;
    throw error;
  }
}
