/**
 * Which series are live in which index block: one bitset a block over the slots. A new block
 * costs one bit a series and nothing is indexed again.
 */
import { blockOverlaps } from '#lib/block_time.ts';
import type { UnixNanos } from '#lib/time.ts';
import { hasBit, wordsFor } from './postings.ts';

interface LiveBlock {
  readonly startNanos: UnixNanos;
  /** Another number each time that something may have become live in it. */
  marks: number;
  words: Uint32Array;
}

export class LiveBlocks {
  readonly #blockSizeNanos: bigint;
  /** Ascending by start. */
  readonly #blocks: LiveBlock[];
  #lastUsed: LiveBlock | null;
  #marks = 0;

  constructor(blockSizeNanos: bigint) {
    this.#blockSizeNanos = blockSizeNanos;
    this.#blocks = [];
    this.#lastUsed = null;
  }

  mark(slots: ArrayLike<number>, count: number, blockStartNanos: UnixNanos): void {
    const block = this.#blockAt(blockStartNanos);
    let words = block.words;
    block.marks = ++this.#marks;
    for (let i = 0; i < count; i++) {
      const slot = slots[i]!;
      if (slot >>> 5 >= words.length) words = grow(block, slot);
      const before = words[slot >>> 5]!;
      const bit = 1 << (slot & 31);
      // Nearly always it is set: to look costs less than to write.
      if ((before & bit) === 0) words[slot >>> 5] = before | bit;
    }
  }

  markOne(slot: number, blockStartNanos: UnixNanos): void {
    const block = this.#blockAt(blockStartNanos);
    block.marks = ++this.#marks;
    const words = slot >>> 5 >= block.words.length ? grow(block, slot) : block.words;
    words[slot >>> 5]! |= 1 << (slot & 31);
  }

  /** Series that have nothing left in a block. */
  unmark(slots: ArrayLike<number>, blockStartNanos: UnixNanos): void {
    const words = this.bitsOf(blockStartNanos);
    if (words === null) return;
    for (let i = 0; i < slots.length; i++) {
      const slot = slots[i]!;
      if (slot >>> 5 < words.length) words[slot >>> 5]! &= ~(1 << (slot & 31));
    }
  }

  /** Tells a block from what it was before something became live in it; null when there is no such block. */
  marksOf(blockStartNanos: UnixNanos): number | null {
    return this.#blocks.find(({ startNanos }) => startNanos === blockStartNanos)?.marks ?? null;
  }

  /** A block in which nothing is live is none. */
  dropIfEmpty(blockStartNanos: UnixNanos): void {
    const at = this.#blocks.findIndex(({ startNanos }) => startNanos === blockStartNanos);
    if (at < 0 || this.#blocks[at]!.words.some((word) => word !== 0)) return;
    this.#blocks.splice(at, 1);
    this.#lastUsed = null;
  }

  /** Sets all bits of a block from a copy of these. */
  load(blockStartNanos: UnixNanos, bits: Uint32Array): void {
    const block = this.#blockAt(blockStartNanos);
    const words = new Uint32Array(Math.ceil(bits.length * 1.25));
    words.set(bits);
    block.words = words;
    block.marks = ++this.#marks;
  }

  /** Bits of the block, borrowed; null when there is no such block. */
  bitsOf(blockStartNanos: UnixNanos): Uint32Array | null {
    return this.#blocks.find(({ startNanos }) => startNanos === blockStartNanos)?.words ?? null;
  }

  #blockAt(startNanos: UnixNanos): LiveBlock {
    if (this.#lastUsed !== null && this.#lastUsed.startNanos === startNanos) return this.#lastUsed;
    let at = this.#blocks.length;
    while (at > 0 && this.#blocks[at - 1]!.startNanos >= startNanos) at--;
    let block = this.#blocks[at];
    if (block === undefined || block.startNanos !== startNanos) {
      block = { startNanos, marks: 0, words: new Uint32Array(8) };
      this.#blocks.splice(at, 0, block);
    }
    this.#lastUsed = block;
    return block;
  }

  isLive(slot: number, blockStartNanos: UnixNanos): boolean {
    const words = this.bitsOf(blockStartNanos);
    return words !== null && hasBit(words, slot);
  }

  isLiveSomewhere(slot: number): boolean {
    for (const { words } of this.#blocks) if (hasBit(words, slot)) return true;
    return false;
  }

  /** Bitsets, borrowed, of the blocks that overlap [startNanos, endNanos). */
  overlapping(startNanos: UnixNanos, endNanos: UnixNanos): Uint32Array[] {
    const found: Uint32Array[] = [];
    if (endNanos <= startNanos) return found;
    const range = { startNanos, endNanos };
    for (const block of this.#blocks) {
      if (blockOverlaps(block.startNanos, this.#blockSizeNanos, range)) found.push(block.words);
    }
    return found;
  }

  remove(slots: Uint32Array): void {
    for (const { words } of this.#blocks) {
      for (let i = 0; i < slots.length; i++) {
        const word = slots[i]! >>> 5;
        if (word < words.length) words[word]! &= ~(1 << (slots[i]! & 31));
      }
    }
  }

  /** Drops the blocks that end at or before this time. */
  expire(beforeNanos: UnixNanos): void {
    const kept = this.#blocks.findIndex(
      ({ startNanos }) => startNanos + this.#blockSizeNanos > beforeNanos,
    );
    this.#blocks.splice(0, kept < 0 ? this.#blocks.length : kept);
    this.#lastUsed = null;
  }

  /** Sets the bits of all slots that are live in some block. */
  orAllInto(words: Uint32Array): void {
    for (const block of this.#blocks) {
      const length = Math.min(block.words.length, words.length);
      for (let i = 0; i < length; i++) words[i]! |= block.words[i]!;
    }
  }

  get blockStarts(): UnixNanos[] {
    return this.#blocks.map(({ startNanos }) => startNanos);
  }

  get memoryBytes(): number {
    return this.#blocks.reduce((bytes, { words }) => bytes + words.byteLength, 0);
  }
}

function grow(block: LiveBlock, slot: number): Uint32Array {
  const words = new Uint32Array(Math.ceil(wordsFor(slot + 1) * 1.25));
  words.set(block.words);
  block.words = words;
  return words;
}
