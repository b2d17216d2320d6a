/**
 * Which shards this node has, by the placement that it adopted, and what it may do with them.
 *
 *     placement   INITIALIZING / AVAILABLE / LEAVING     decides who writes and who counts
 *     local       bootstrapping / ready                  decides whether an answer is whole
 */
import { retiredOwners } from '#cluster/placement/handover.ts';
import {
  type Instance,
  instanceById,
  type Placement,
  type ShardState,
} from '#cluster/placement/placement.ts';
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

/** Whether readers count this owner of it: one that is LEAVING they do until another one has it. */
export function isRead({ state, isRetired }: OwnedShard): boolean {
  return state !== 'INITIALIZING' && !isRetired;
}

export interface ShardChange {
  /** Shards that this node did not own before. */
  readonly added: readonly OwnedShard[];
  /** Shards that it does not own any more. */
  readonly removed: readonly number[];
  /** Of these, those that it has handed over: others have their rows. */
  readonly handedOver: readonly number[];
}

/** Who takes a shard from this node, and as what. */
interface Taker extends Pick<Instance, 'id' | 'endpoint'> {
  readonly assignment: string | undefined;
}

/** Shards whose rows may be here, whoever owns them. */
export interface HeldShards {
  /** Of their placement. */
  readonly shardCount: number;
  readonly shards: ReadonlySet<number>;
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
  /** By LEAVING shard: who takes it, as was seen while it was on its way. */
  readonly #takers = new Map<number, Taker>();
  placement: Placement | null = null;
  version = 0;
  /** With those that it owns. */
  held: HeldShards = { shardCount: 0, shards: new Set() };
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

  /** Without a placement, of the one that what is here is of. */
  get shardCount(): number {
    return this.placement?.numShards ?? this.held.shardCount;
  }

  get(shard: number): OwnedShard | undefined {
    return this.#owned.get(shard);
  }

  /** In order of ID. */
  all(): OwnedShard[] {
    return [...this.#owned.values()];
  }

  /** Those that a placement counts on here: what is taken from another owner is that one's until then. */
  reliedOn(): OwnedShard[] {
    return this.all().filter(({ id, state, sourceId }) => {
      if (state !== 'INITIALIZING' || this.placement === null) return true;
      const giver = instanceById(this.placement, sourceId);
      return giver?.shards.some((shard) => shard.id === id && shard.state === 'LEAVING') !== true;
    });
  }

  /** Whether rows of the shard may be here: it is owned, or was taken away and is not gone yet. */
  isHere(shard: number): boolean {
    return this.#owned.has(shard) || this.held.shards.has(shard);
  }

  /** Whether series of shards are here that this node does not own. */
  get hasOthers(): boolean {
    return this.held.shards.size > this.#owned.size;
  }

  /**
   * Of the shards that are asked for, those whose series are served: what was taken away is not.
   * @param wanted null for all; the answer is null when these are all that there are
   */
  served(wanted: Uint32Array | null): Uint32Array | null {
    if (!this.hasOthers) return wanted;
    const own = Uint32Array.from(this.#owned.keys()).sort();
    return wanted === null ? own : own.filter((shard) => wanted.includes(shard));
  }

  /** Shards of which rows may be here, ascending. */
  here(): number[] {
    return [...this.held.shards.union(new Set(this.#owned.keys()))].sort((a, b) => a - b);
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
    const removed = [...before.keys()].filter((id) => !this.#owned.has(id));
    const handedOver = removed.filter((id) => before.get(id)!.isRetired && this.#hasTaken(id));
    this.#noteTakers();
    return { added: this.all().filter(({ id }) => !before.has(id)), removed, handedOver };
  }

  /** Whether the placement says of the one who was seen taking a shard that it has it. */
  #hasTaken(shard: number): boolean {
    const taker = this.#takers.get(shard);
    if (taker === undefined || this.placement === null) return false;
    const instance = instanceById(this.placement, taker.id);
    const taken = instance?.shards.find(({ id }) => id === shard);
    return (
      instance?.endpoint === taker.endpoint &&
      taken?.state === 'AVAILABLE' &&
      taken.assignment === taker.assignment
    );
  }

  /**
   * Who takes LEAVING shards. That somebody *has* one counts only of whom was seen taking it: so no
   * single change of the placement makes this node believe that others have its rows.
   */
  #noteTakers(): void {
    const takers = new Map<number, Taker & { readonly state: ShardState }>();
    for (const { id, endpoint, shards } of this.placement?.instances ?? []) {
      for (const { id: shard, sourceId, assignment, state } of shards) {
        if (sourceId !== this.#instanceId) continue;
        takers.set(shard, { id, endpoint, assignment, state });
      }
    }
    for (const shard of this.#takers.keys()) {
      if (this.#owned.get(shard)?.state !== 'LEAVING') this.#takers.delete(shard);
    }
    for (const { id, state } of this.#owned.values()) {
      if (state !== 'LEAVING') continue;
      const known = this.#takers.get(id);
      const now = takers.get(id);
      if (now?.state === 'INITIALIZING') this.#takers.set(id, now);
      else if (now?.id !== known?.id || now?.assignment !== known?.assignment) {
        this.#takers.delete(id);
      }
    }
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
