import type { UnixNanos } from '#lib/time.ts';

/**
 * Shards whose rows are all here, as far as this node knows, and those that lack nothing but some
 * blocks.
 */
export class ReadyShards extends Set<number> {
  readonly #lost = new Map<number, number>();
  /** By shard that is here but for some blocks: starts of these. */
  readonly #lacking = new Map<number, Set<bigint>>();
  /** Of these, those whose files are damaged: another volume must not be written without them. */
  readonly #damaged = new Map<number, Set<bigint>>();

  constructor() {
    super();
  }

  override add(shard: number): this {
    this.#lacking.delete(shard);
    this.#damaged.delete(shard);
    return super.add(shard);
  }

  /** Nothing is known of what is here of the shard. */
  override delete(shard: number): boolean {
    if (this.isHere(shard)) this.#countLoss(shard);
    this.#lacking.delete(shard);
    this.#damaged.delete(shard);
    return super.delete(shard);
  }

  /**
   * Files of these blocks are damaged; of a shard that was here, the others still are.
   */
  lose(shard: number, blocks: ReadonlySet<bigint>): void {
    this.doubt(shard, blocks);
    this.#damaged.set(shard, blocks.union(this.#damaged.get(shard) ?? new Set()));
  }

  /** Rows of these blocks may be missing, and what is here of them is sound. */
  doubt(shard: number, blocks: ReadonlySet<bigint>): void {
    const wasReady = super.delete(shard);
    const before = this.#lacking.get(shard);
    if (wasReady || before !== undefined) {
      this.#lacking.set(shard, before === undefined ? new Set(blocks) : before.union(blocks));
    }
    this.#countLoss(shard);
  }

  /** All rows of these blocks are here again. */
  regain(shard: number, blocks: ReadonlySet<bigint>): void {
    for (const lacking of [this.#lacking, this.#damaged]) {
      const left = lacking.get(shard)?.difference(blocks);
      if (left !== undefined) lacking.set(shard, left);
    }
  }

  /** Whether rows of a block may go to a fileset. */
  mayFlush(shard: number, blockStart: bigint): boolean {
    return this.isHere(shard) && this.#damaged.get(shard)?.has(blockStart) !== true;
  }

  /** Whether all rows of these blocks are here; with null, of the whole shard. */
  hasBlocks(shard: number, blocks: ReadonlySet<bigint> | null): boolean {
    if (this.has(shard)) return true;
    return blocks !== null && this.#lacking.get(shard)?.isDisjointFrom(blocks) === true;
  }

  /** Whether the shard is here, and lacks nothing of the blocks that are wanted. */
  hasWanted(shard: number, isWanted: (blockStart: bigint) => boolean): boolean {
    return this.has(shard) || this.#lacking.get(shard)?.values().some(isWanted) === false;
  }

  /** Whether all rows are here of the blocks that start in [fromNanos, endNanos). */
  hasBlocksFrom(shard: number, fromNanos: UnixNanos, endNanos: UnixNanos): boolean {
    if (this.has(shard)) return true;
    const lacking = this.#lacking.get(shard);
    return lacking?.values().every((start) => start < fromNanos || start >= endNanos) === true;
  }

  /** Whether all rows are here but for those of blocks that the shard lost. */
  isHere(shard: number): boolean {
    return this.has(shard) || this.#lacking.has(shard);
  }

  /** Starts of the blocks of shards that are here but for these, by shard. */
  lacking(): [shard: number, starts: ReadonlySet<bigint>][] {
    return [...this.#lacking].filter(([, starts]) => starts.size > 0);
  }

  /** How often the shard lost something, be it that all of it is here again. */
  losses(shard: number): number {
    return this.#lost.get(shard) ?? 0;
  }

  #countLoss(shard: number): void {
    this.#lost.set(shard, this.losses(shard) + 1);
  }
}
