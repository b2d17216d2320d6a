/**
 * Ends handovers of shards (cluster/placement/handover.ts): a giver leaves as soon as it knows that it
 * is not read any more; when it does not, since it is dead or cut off, the taker asks all owners what
 * they know and ends it for it.
 */
import type { Compare } from '#cluster/kv/kv.ts';
import type { NodeHealth, NodeService } from '#cluster/node/service.ts';
import { type Adoption, finishHandovers, retiredOwners } from '#cluster/placement/handover.ts';
import type { Instance, Placement } from '#cluster/placement/placement.ts';
import type { PlacementStore } from '#cluster/placement/store.ts';
import type { Clock } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { OwnedShard, ShardTable } from './storage/namespace/shards.ts';

export interface HandoversOptions {
  readonly instanceId: string;
  readonly clock: Clock;
  readonly log: Log;
  /** With the placement that this node has adopted. */
  readonly shards: ShardTable;
  readonly placements: PlacementStore;
  /** The service of another instance. */
  readonly nodeServiceOf: (instance: Instance) => NodeService;
  /** Holds as long as this process may speak for its instance. */
  readonly isStanding: () => Compare;
}

/** An owner that does not say in this time what it knows counts as one that cannot be reached. */
const healthMillisMax = 2_000;

export class Handovers {
  readonly #options: HandoversOptions;

  constructor(options: HandoversOptions) {
    this.#options = options;
  }

  /**
   * Leaves what this node has handed over; all at once.
   * @returns whether the placement was changed
   * @throws {TsdbError} UNAVAILABLE when the key-value store cannot be reached
   */
  async leave(signal: AbortSignal): Promise<boolean> {
    const { instanceId, shards } = this.#options;
    if (!shards.all().some(({ isRetired }) => isRetired)) return false;
    const { placement, version } = shards;
    // Of the others nothing is known: they are not asked.
    const ids = placement!.instances.map(({ id }) => [id, id === instanceId] as const);
    return this.#finish(version, new Map(ids), signal);
  }

  /**
   * Asks the owners of shards that this node has taken over from others that have not left, and of
   * those that nobody took over from, and lets go who may.
   * @returns whether the placement was changed
   * @throws {TsdbError} UNAVAILABLE when the key-value store cannot be reached
   */
  async end(signal: AbortSignal): Promise<boolean> {
    const { instanceId, shards } = this.#options;
    const { placement, version } = shards;
    if (placement === null) return false;
    const owners = ownersOf(placement, shardsToEnd(placement, instanceId));
    if (owners.length === 0) return false;
    const adoption = new Map<string, boolean>();
    await Promise.all(
      owners.map(async (owner) => {
        const health = owner.id === instanceId ? null : await this.#healthOf(owner, signal);
        if (owner.id === instanceId) adoption.set(owner.id, true);
        else if (health !== null) adoption.set(owner.id, health.placementVersion >= version);
      }),
    );
    return this.#finish(version, adoption, signal);
  }

  /**
   * Of those that the shards come from, the ones that know no handover in two versions, since their
   * release is an earlier one: they leave in the version in which the shards are marked. Who cannot
   * be reached is none of them.
   */
  async leavingAtOnce(
    shards: Iterable<Pick<OwnedShard, 'sourceId'>>,
    signal: AbortSignal,
  ): Promise<Adoption> {
    const sources = new Set([...shards].map(({ sourceId }) => sourceId));
    const givers = this.#options.shards.placement?.instances.filter(({ id }) => sources.has(id));
    const leaving = new Map<string, boolean>();
    await Promise.all(
      (givers ?? []).map(async (giver) => {
        const health = await this.#healthOf(giver, signal);
        if (health?.retires === false) leaving.set(giver.id, true);
      }),
    );
    return leaving;
  }

  /** What an instance says of itself; null when it cannot be reached. */
  async #healthOf(owner: Instance, signal: AbortSignal): Promise<NodeHealth | null> {
    const { clock, log, nodeServiceOf } = this.#options;
    try {
      const health = await nodeServiceOf(owner).health(clock.deadline(healthMillisMax, signal));
      return health.instanceId === owner.id ? health : null;
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof TsdbError)) throw error;
      log.debug({ peer: owner.id, error: messageOf(error) }, 'owner cannot be reached');
      return null;
    }
  }

  /** @param version what is known was asked of: of a later one it says nothing */
  async #finish(version: number, adoption: Adoption, signal: AbortSignal): Promise<boolean> {
    const { placements, isStanding, log } = this.#options;
    const current = await placements.require(signal);
    if (current.version !== version) return false;
    const next = finishHandovers(current.value, adoption);
    if (next === current.value) return false;
    const { compares, operations } = placements.writing(current, next);
    const { succeeded } = await placements.kv.transact(
      [...compares, isStanding()],
      operations,
      signal,
    );
    if (succeeded) log.info({ version: version + 1 }, 'shards are handed over');
    return succeeded;
  }
}

/** Shards with an owner that should leave, of which this instance is the taker or nobody is. */
function shardsToEnd(placement: Placement, instanceId: string): Set<number> {
  const shards = new Set<number>();
  const retired = retiredOwners(placement);
  if (retired.size === 0) return shards;
  const takers = new Map<string, string>();
  for (const { id: taker, shards: taken } of placement.instances) {
    for (const { id, sourceId } of taken) {
      if (sourceId !== '') takers.set(`${id}/${sourceId}`, taker);
    }
  }
  const mine = placement.instances.find(({ id }) => id === instanceId)?.shards ?? [];
  for (const { id, state } of mine) {
    for (const giver of retired.get(id) ?? []) {
      const taker = takers.get(`${id}/${giver}`);
      if (taker === instanceId || (taker === undefined && state === 'AVAILABLE')) shards.add(id);
    }
  }
  return shards;
}

function ownersOf({ instances }: Placement, shards: ReadonlySet<number>): Instance[] {
  return instances.filter((instance) => instance.shards.some(({ id }) => shards.has(id)));
}
