/**
 * The ledger of doubt: blocks of shards of which rows that were acknowledged may be missing here,
 * since what held them was damaged. They count for no answer until others gave what they have. The
 * ledger is on disk before what the doubt was seen by is removed, so that no restart forgets it.
 */
import type { Env } from '#lib/env/env.ts';
import type { UnixNanos } from '#lib/time.ts';
import { readLedger, type StoredDoubt, writeLedger } from '../persist/doubt_file.ts';

interface Doubt {
  readonly cause: string;
  readonly foundNanos: UnixNanos;
  readonly namespace: string;
  readonly blocks: Map<number, ReadonlySet<UnixNanos>>;
}

const noBlocks: ReadonlySet<UnixNanos> = new Set();

export class DoubtLedger {
  readonly #env: Env;
  readonly #dataFolder: string;
  #doubts: Doubt[] = [];
  #sequence: number;
  /** Counts what was added and taken away. */
  #changes = 0;
  /** Of these, what is on disk. */
  #savedChanges = 0;
  #saving: Promise<void> | null = null;
  /** Why nothing is known of the doubts of earlier starts; '' when they are known. */
  readonly unreadable: string;
  /** Counts of this process, for metrics: blocks of shards of which nobody had all rows any more. */
  readonly counts: { blocksLost: number } = { blocksLost: 0 };

  private constructor(
    env: Env,
    dataFolder: string,
    stored: { readonly sequence: number; readonly doubts: readonly StoredDoubt[] },
    unreadable: string,
  ) {
    this.#env = env;
    this.#dataFolder = dataFolder;
    this.#sequence = stored.sequence;
    this.#doubts = stored.doubts.map((doubt) => ({ ...doubt, blocks: new Map(doubt.blocks) }));
    this.unreadable = unreadable;
    // What cannot be read is written over as soon as it is known what it may have said.
    if (unreadable !== '') this.#changes = 1;
  }

  static async open(env: Env, dataFolder: string): Promise<DoubtLedger> {
    const stored = await readLedger(env.disk, dataFolder);
    if (typeof stored === 'string') {
      // Above all that can have been written.
      const sequence = Math.floor(env.clock.nowMillis());
      return new DoubtLedger(env, dataFolder, { sequence, doubts: [] }, stored);
    }
    return new DoubtLedger(env, dataFolder, stored ?? { sequence: 0, doubts: [] }, '');
  }

  /** Blocks of shards that are in doubt, each counted once for each event. */
  get size(): number {
    let count = 0;
    for (const { blocks } of this.#doubts)
      for (const starts of blocks.values()) count += starts.size;
    return count;
  }

  /** For people who look: what is in doubt, the oldest first. */
  get all(): readonly StoredDoubt[] {
    return this.#doubts;
  }

  /** Shards of a namespace with blocks in doubt. */
  shardsOf(namespace: string): ReadonlySet<number> {
    const own = this.#doubts.filter((doubt) => doubt.namespace === namespace);
    return new Set(own.flatMap(({ blocks }) => [...blocks.keys()]));
  }

  /** Starts of the blocks of a shard that are in doubt. */
  blocksOf(namespace: string, shard: number): ReadonlySet<UnixNanos> {
    let all = noBlocks;
    for (const doubt of this.#doubts) {
      const starts = doubt.namespace === namespace ? doubt.blocks.get(shard) : undefined;
      if (starts !== undefined) all = all.size === 0 ? starts : all.union(starts);
    }
    return all;
  }

  /**
   * Nothing of this is on disk before `save` has resolved. What is seen again of one file, as by
   * each start until a snapshot replaces it, is one event.
   */
  add(
    cause: string,
    namespace: string,
    shards: readonly number[],
    starts: ReadonlySet<UnixNanos>,
  ): void {
    if (starts.size === 0 || shards.length === 0) return;
    const known = this.#doubts.find(
      (doubt) => doubt.cause === cause && doubt.namespace === namespace,
    );
    if (known !== undefined) {
      for (const shard of shards) {
        const before = known.blocks.get(shard) ?? noBlocks;
        if (starts.isSubsetOf(before)) continue;
        known.blocks.set(shard, before.union(starts));
        this.#changes += 1;
      }
      return;
    }
    const blocks = new Map(shards.map((shard) => [shard, starts]));
    this.#doubts.push({ cause, foundNanos: this.#env.clock.nowNanos(), namespace, blocks });
    this.#changes += 1;
  }

  /**
   * Ends the doubts of a shard: what others have is here, durably, or there is nobody to ask.
   * @param starts of blocks; null for all
   */
  end(namespace: string, shard: number, starts: ReadonlySet<UnixNanos> | null): void {
    for (const doubt of this.#doubts) {
      if (doubt.namespace !== namespace) continue;
      const before = doubt.blocks.get(shard);
      if (before === undefined) continue;
      const left = starts === null ? noBlocks : before.difference(starts);
      if (left.size === before.size) continue;
      if (left.size === 0) doubt.blocks.delete(shard);
      else doubt.blocks.set(shard, left);
      this.#changes += 1;
    }
    this.#doubts = this.#doubts.filter(({ blocks }) => blocks.size > 0);
  }

  /** Ends the doubts of what is not this node's any more. */
  keepOnly(isHere: (namespace: string, shard: number) => boolean): void {
    for (const { namespace, blocks } of this.#doubts) {
      for (const shard of blocks.keys()) {
        if (!isHere(namespace, shard)) this.end(namespace, shard, null);
      }
    }
  }

  /**
   * Resolves when the ledger is on disk as it is now.
   * @throws what the disk rejects with
   */
  async save(): Promise<void> {
    while (this.#savedChanges < this.#changes) {
      this.#saving ??= this.#write().finally(() => {
        this.#saving = null;
      });
      await this.#saving;
    }
  }

  async #write(): Promise<void> {
    const changes = this.#changes;
    this.#sequence += 1;
    const ledger = { sequence: this.#sequence, doubts: this.#doubts };
    await writeLedger(this.#env.disk, this.#dataFolder, ledger);
    this.#savedChanges = changes;
  }
}
