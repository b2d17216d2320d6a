/**
 * Which shards this node has, by the placement that it adopted, and what it may do with them.
 *
 *     placement   INITIALIZING / AVAILABLE / LEAVING     decides who writes and who counts
 *     local       bootstrapping / ready                  decides whether an answer is whole
 */
import { retiredOwners } from '#cluster/placement/handover.ts';
import { instanceById, type Placement, type ShardState } from '#cluster/placement/placement.ts';
import { TsdbError } from '#lib/errors.ts';

export interface OwnedShard {
  readonly id: number;
  readonly state: ShardState;
  /** Instance that an INITIALIZING shard is taken over from, or ''. */
  readonly sourceId: string;
  /** As in `Shard`. */
  readonly assignment: string | undefined;
  /** It is LEAVING, and another instance is read in its place. */
  readonly isRetired: boolean;
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
  /** By shard: owners that are read, or will be when they have it. */
  #readers = new Map<number, ReadonlySet<string>>();
  /** By shard: writers with an older placement do not know all of its owners. */
  #writerVersionMin = new Map<number, number>();
  /** By shard: readers with an older placement may count an owner that is not read any more. */
  #readerVersionMin = new Map<number, number>();
  /** Who had which shard before this placement version this process does not know. */
  #firstVersion = 0;
  placement: Placement | null = null;
  version = 0;
  /**
   * Whether answers count and writes are taken: not before the data folder is known to be the one
   * that the cluster saw last.
   */
  counts = true;
  /** Whether the placement was read once, also when there is none: before that nobody knows. */
  isKnown = false;
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
   * since, the writer's acknowledgement would leave it out. Version 0 is of a writer that knows no
   * placement, and is refused where shards move.
   */
  writerIsStale(shard: number, placementVersion: number): boolean {
    const known = placementVersion === 0 ? 0 : this.#firstVersion;
    return placementVersion < (this.#writerVersionMin.get(shard) ?? known);
  }

  /**
   * Whether a reader with this placement version may count an owner of the shard that is not read any
   * more, and that may not know it: an answer to it must not count. Version 0 is of a reader that
   * counts nobody.
   */
  readerIsStale(shard: number, placementVersion: number): boolean {
    if (placementVersion === 0) return false;
    return placementVersion < (this.#readerVersionMin.get(shard) ?? this.#firstVersion);
  }

  /** @throws {TsdbError} UNAVAILABLE when this node does not count yet */
  checkCounts(): void {
    if (this.counts) return;
    throw new TsdbError(
      'UNAVAILABLE',
      'the data folder of this node is not checked yet: the key-value store cannot be reached',
    );
  }

  /**
   * Takes the placement that follows, or none when it was deleted. Versions count from 1 again when
   * a deleted placement was made anew.
   */
  adopt(placement: Placement | null, version: number): ShardChange {
    if (version < this.version) {
      this.#owners.clear();
      this.#readers.clear();
    }
    const before = this.#owned;
    const mine = placement === null ? undefined : instanceById(placement, this.#instanceId);
    const retired = placement === null ? new Map() : retiredOwners(placement);
    this.#owned = new Map(
      (mine?.shards ?? []).map(({ id, state, sourceId, assignment }) => [
        id,
        {
          id,
          state,
          // Whom an AVAILABLE shard came from changes nothing here.
          sourceId: state === 'INITIALIZING' ? sourceId : '',
          assignment,
          isRetired: retired.get(id)?.has(this.#instanceId) === true,
        },
      ]),
    );
    this.#noteOwners(placement, version, retired);
    this.placement = placement;
    this.version = version;
    this.isKnown = true;
    return {
      added: this.all().filter(({ id }) => !before.has(id)),
      removed: [...before.keys()].filter((id) => !this.#owned.has(id)),
    };
  }

  #noteOwners(
    placement: Placement | null,
    version: number,
    retired: ReturnType<typeof retiredOwners>,
  ): void {
    const owners = new Map<number, Set<string>>();
    const moving = new Set<number>();
    for (const instance of placement?.instances ?? []) {
      for (const shard of instance.shards) {
        let set = owners.get(shard.id);
        if (set === undefined) owners.set(shard.id, (set = new Set()));
        set.add(instance.id);
        if (shard.state !== 'AVAILABLE') moving.add(shard.id);
      }
    }
    const first = this.placement === null || this.#owners.size === 0;
    if (first) {
      this.#firstVersion = version;
      this.#writerVersionMin.clear();
      this.#readerVersionMin.clear();
      this.writerVersionMax = version;
    }
    for (const [shard, now] of owners) {
      const known = this.#owners.get(shard);
      const grew = first ? moving.has(shard) : !isSubset(now, known);
      if (!grew) continue;
      this.#writerVersionMin.set(shard, version);
      this.writerVersionMax = version;
    }
    this.#noteReaders(owners, retired, version);
    this.#owners = owners;
  }

  #noteReaders(
    owners: ReadonlyMap<number, ReadonlySet<string>>,
    retired: ReturnType<typeof retiredOwners>,
    version: number,
  ): void {
    const before = this.#readers;
    this.#readers = new Map();
    for (const [shard, all] of owners) {
      const gone = retired.get(shard);
      const now = gone === undefined ? all : all.difference(gone);
      this.#readers.set(shard, now);
      const known = before.get(shard);
      if (known !== undefined && !isSubset(known, now)) {
        this.#readerVersionMin.set(shard, version);
      }
    }
  }
}

function isSubset(part: ReadonlySet<string>, whole: ReadonlySet<string> | undefined): boolean {
  return whole !== undefined && part.isSubsetOf(whole);
}
