import type { UnixNanos } from '#lib/time.ts';

/**
 * Shards whose rows are all here, as far as this node knows, and those that lack nothing but some
 * blocks.
 */
export class ReadyShards extends Set<number> {
  readonly #lost = new Map<number, number>();
  /** By shard that is here but for some blocks: starts of these. */
  readonly #lacking = new Map<number, Set<bigint>>();

  constructor() {
    super();
  }

  override add(shard: number): this {
    this.#lacking.delete(shard);
    return super.add(shard);
  }

  /** Nothing is known of what is here of the shard. */
  override delete(shard: number): boolean {
    if (this.isHere(shard)) this.#countLoss(shard);
    this.#lacking.delete(shard);
    return super.delete(shard);
  }

  /** Rows of these blocks are missing; of a shard that was here, the others still are. */
  lose(shard: number, blocks: ReadonlySet<bigint>): void {
    const wasReady = super.delete(shard);
    const before = this.#lacking.get(shard);
    if (wasReady || before !== undefined) {
      this.#lacking.set(shard, before === undefined ? new Set(blocks) : before.union(blocks));
    }
    this.#countLoss(shard);
  }

  /** Whether all rows of these blocks are here; with null, of the whole shard. */
  hasBlocks(shard: number, blocks: ReadonlySet<bigint> | null): boolean {
    if (this.has(shard)) return true;
    return blocks !== null && this.#lacking.get(shard)?.isDisjointFrom(blocks) === true;
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

  /** How often the shard lost something, be it that all of it is here again. */
  losses(shard: number): number {
    return this.#lost.get(shard) ?? 0;
  }

  #countLoss(shard: number): void {
    this.#lost.set(shard, this.losses(shard) + 1);
  }
}
