/**
 * Which series have rows of a block in memory, by shard. Finding them takes a walk over all series
 * of the store, and replicas compare many shards one after the other: what was found serves all of
 * them for a second.
 */
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { Clock } from '#lib/env/env.ts';
import type { NamespaceState } from '../namespace/namespace.ts';

/** A row that comes meanwhile counts with the next comparison. */
const keptMillis = 1_000;

export interface MemoryMember {
  readonly slot: number;
  /** Of the slot: it may be another series' by now. */
  readonly generation: number;
}

interface Found {
  readonly atMillis: number;
  readonly truncations: number;
  /** Starts of the blocks with rows in memory. */
  readonly starts: ReadonlySet<bigint>;
  /** Of some of these, by shard. */
  readonly blocks: Map<bigint, ReadonlyMap<number, readonly MemoryMember[]>>;
}

const nobody: readonly MemoryMember[] = [];

export class MemoryRows {
  readonly #store: SampleStore;
  readonly #clock: Clock;
  #found = new WeakMap<NamespaceState, Found>();

  constructor(store: SampleStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Series of a shard with rows of the block in memory. */
  of(namespace: NamespaceState, shard: number, blockStartNanos: bigint): readonly MemoryMember[] {
    // Its number in the store may be nobody's by now, or another one's.
    if (namespace.isDropped) return nobody;
    const found = this.#find(namespace);
    if (!found.starts.has(blockStartNanos)) return nobody;
    let shards = found.blocks.get(blockStartNanos);
    if (shards === undefined) {
      shards = this.#byShard(namespace, blockStartNanos);
      found.blocks.set(blockStartNanos, shards);
    }
    return shards.get(shard) ?? nobody;
  }

  #find(namespace: NamespaceState): Found {
    const now = this.#clock.monotonicMillis();
    const { truncations } = namespace;
    const known = this.#found.get(namespace);
    const isNew = known !== undefined && now - known.atMillis < keptMillis;
    if (isNew && known.truncations === truncations) return known;
    const blocks = this.#store.blocks(namespace.ordinal);
    const starts = new Set(blocks.map(({ blockStartNanos }) => blockStartNanos));
    const found = { atMillis: now, truncations, starts, blocks: new Map() };
    this.#found.set(namespace, found);
    return found;
  }

  #byShard(
    { index, ordinal }: NamespaceState,
    blockStartNanos: bigint,
  ): ReadonlyMap<number, readonly MemoryMember[]> {
    const shards = new Map<number, MemoryMember[]>();
    const { generation } = this.#store;
    for (const slot of this.#store.slotsOfBlock(ordinal, blockStartNanos)) {
      const shard = index.shard(slot);
      let members = shards.get(shard);
      if (members === undefined) shards.set(shard, (members = []));
      members.push({ slot, generation: generation[slot]! });
    }
    return shards;
  }
}
