/**
 * Which shards this node has, by the placement that it adopted, and what it may do with them.
 *
 *     placement   INITIALIZING / AVAILABLE / LEAVING     decides who writes and who counts
 *     local       bootstrapping / ready                  decides whether an answer is whole
 */
import { instanceById, type Placement, type ShardState } from '#cluster/placement/placement.ts';

export interface OwnedShard {
  readonly id: number;
  readonly state: ShardState;
  /** Instance that an INITIALIZING shard is taken over from, or ''. */
  readonly sourceId: string;
  /** As in `Shard`. */
  readonly assignment: string | undefined;
}

export interface ShardChange {
  /** Shards that this node did not own before. */
  readonly added: readonly OwnedShard[];
  /** Shards that it does not own any more. */
  readonly removed: readonly number[];
}

/**
 * A change of placements is a step of the sequencer, so rows see one table from check to
 * application.
 */
export class ShardTable {
  readonly #instanceId: string;
  #owned: ReadonlyMap<number, OwnedShard> = new Map();
  #owners = new Map<number, ReadonlySet<string>>();
  /** By shard: writers with an older placement do not know all of its owners. */
  #writerVersionMin = new Map<number, number>();
  placement: Placement | null = null;
  version = 0;
  /** No shard refuses a writer with this placement version or a later one. */
  writerVersionMax = 0;

  constructor(instanceId: string) {
    this.#instanceId = instanceId;
  }

  get shardCount(): number {
    return this.placement?.numShards ?? 0;
  }

  get(shard: number): OwnedShard | undefined {
    return this.#owned.get(shard);
  }

  /** In order of ID. */
  all(): OwnedShard[] {
    return [...this.#owned.values()];
  }

  /**
   * Whether a writer with this placement version knows every owner of a shard. When one was added
   * since, the writer's acknowledgement would leave it out.
   */
  writerIsStale(shard: number, placementVersion: number): boolean {
    return placementVersion < (this.#writerVersionMin.get(shard) ?? 0);
  }

  /**
   * Takes the placement that follows, or none when it was deleted. Versions count from 1 again when
   * a deleted placement was made anew.
   */
  adopt(placement: Placement | null, version: number): ShardChange {
    if (version < this.version) {
      this.#owners.clear();
      this.#writerVersionMin.clear();
      this.writerVersionMax = 0;
    }
    const before = this.#owned;
    const mine = placement === null ? undefined : instanceById(placement, this.#instanceId);
    this.#owned = new Map(
      (mine?.shards ?? []).map(({ id, state, sourceId, assignment }) => [
        id,
        { id, state, sourceId, assignment },
      ]),
    );
    this.#noteOwners(placement, version);
    this.placement = placement;
    this.version = version;
    return {
      added: this.all().filter(({ id }) => !before.has(id)),
      removed: [...before.keys()].filter((id) => !this.#owned.has(id)),
    };
  }

  #noteOwners(placement: Placement | null, version: number): void {
    const owners = new Map<number, Set<string>>();
    const moving = new Set<number>();
    for (const instance of placement?.instances ?? []) {
      for (const shard of instance.shards) {
        let set = owners.get(shard.id);
        if (set === undefined) owners.set(shard.id, (set = new Set()));
        set.add(instance.id);
        if (shard.state === 'INITIALIZING') moving.add(shard.id);
      }
    }
    const first = this.placement === null || this.#owners.size === 0;
    for (const [shard, now] of owners) {
      const known = this.#owners.get(shard);
      const grew = first ? moving.has(shard) : !isSubset(now, known);
      if (!grew) continue;
      this.#writerVersionMin.set(shard, version);
      this.writerVersionMax = version;
    }
    this.#owners = owners;
  }
}

function isSubset(part: ReadonlySet<string>, whole: ReadonlySet<string> | undefined): boolean {
  return whole !== undefined && part.isSubsetOf(whole);
}
