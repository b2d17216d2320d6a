/**
 * The store of a node's samples: heads and sealed chunks of all series, in one memory of its own with a
 * fixed maximum. It holds no names: a series is a slot here, and the caller maps IDs to slots.
 */
import type { Random } from '#lib/env/env.ts';
import type { StoredChunks, StoreNamespace, StoreRows } from './store_rows.ts';
import { StoreTwin } from './store_twin.ts';

export type { StoredChunks, StoreNamespace, StoreRows } from './store_rows.ts';
export { storeOutcome } from './store_rows.ts';

export class Store {
  readonly #twin: StoreTwin;

  /** @param options.memoryBytesMax everything that the store may ever take */
  constructor(options: { random: Random; memoryBytesMax: number }) {
    this.#twin = new StoreTwin({ memoryBytesMax: options.memoryBytesMax });
  }

  /** Sets the rules of a namespace, or changes them for the writes, reads and expiries that follow. */
  setNamespace(ordinal: number, options: StoreNamespace): void {
    this.#twin.setNamespace(ordinal, options);
  }

  /**
   * Gives a slot to a new series; its reference is the slot with its `generation`.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when memory is over the budget
   */
  createSeries(namespaceOrdinal: number): number {
    return this.#twin.createSeries(namespaceOrdinal);
  }

  /** Forgets a series with all its samples; its references are refused from now on. */
  releaseSeries(slot: number): void {
    this.#twin.releaseSeries(slot);
  }

  /** Generation by slot, from 1. A view: fetch it again after each call. */
  get generation(): Uint32Array {
    return this.#twin.generation;
  }

  /**
   * The write rules, before the commit log. Sets the outcome of each row that has none yet (0): the
   * reference is valid and of this namespace, the time lies in [now - bufferPast, now + bufferFuture) or,
   * with cold writes, not before now - retention, and there is memory.
   * @returns how many rows have an outcome other than 0
   */
  check(rows: StoreRows, namespaceOrdinal: number, nowNanos: bigint, outcomes: Uint8Array): number {
    return this.#twin.check(rows, namespaceOrdinal, nowNanos, outcomes);
  }

  /**
   * Applies the rows whose outcome is 0; they are readable when this returns. A row whose series was
   * released since its check is left out.
   * @param version of the batch: decides between rows with one timestamp
   */
  append(rows: StoreRows, version: number, outcomes: Uint8Array): void {
    this.#twin.append(rows, version, outcomes);
  }

  /**
   * Copies of the chunks that overlap [startNanos, endNanos). Rows that are not sealed yet come as raw
   * chunks with their versions. Chunks may overlap: `Decoder` merges them.
   */
  read(slots: Uint32Array, startNanos: bigint, endNanos: bigint): StoredChunks {
    return this.#twin.read(slots, startNanos, endNanos);
  }

  /**
   * Adds sealed chunks of filesets, snapshots or peers to a series, all or none.
   * @throws {TsdbError} BAD_REQUEST when one is malformed or spans two blocks
   */
  insertChunks(slot: number, chunks: Uint8Array): void {
    this.#twin.insertChunks(slot, chunks);
  }

  /** The rows of one block, merged and encoded anew as for a file; an empty range when there are none. */
  readBlock(slots: Uint32Array, blockStartNanos: bigint): StoredChunks {
    return this.#twin.readBlock(slots, blockStartNanos);
  }

  /** Starts of the blocks in which the series has rows, ascending. */
  blockStarts(slot: number): bigint[] {
    return this.#twin.blockStarts(slot);
  }

  /** Forgets the rows of a block. */
  dropBlock(slots: Uint32Array, blockStartNanos: bigint): void {
    this.#twin.dropBlock(slots, blockStartNanos);
  }

  /**
   * Drops the blocks that end at or before now - retention.
   * @returns slots of the namespace that hold nothing and for which no row was admitted since the
   *   expiry before this one (such a row may be on its way through the commit log), ascending
   */
  expire(namespaceOrdinal: number, nowNanos: bigint): Uint32Array {
    return this.#twin.expire(namespaceOrdinal, nowNanos);
  }

  get seriesCount(): number {
    return this.#twin.seriesCount;
  }

  get memoryBytes(): number {
    return this.#twin.memoryBytes;
  }

  /** Rows held; rows with one timestamp count each until they are merged. */
  get sampleCount(): number {
    return this.#twin.sampleCount;
  }
}
