/**
 * The forward side of the index: for each slot its terms in the order of the canonical layout,
 * ID scheme and shard. Rows and terms lie in pages, so that growing never copies what is there, and
 * a row is two words side by side, so that finding a series touches one cache line of it:
 *
 *     word 0    run: where its terms begin
 *     word 1    number of terms (bits 0 to 13), ID scheme (14 and 15), shard (16 to 31)
 *
 * Runs of removed series are used again by series with as many tags. 52 bytes a series of eleven
 * tags. Explicit IDs are held once, derived ones not at all.
 */
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { assert } from '#lib/assert.ts';

const pageBits = 16;
const pageWords = 1 << pageBits;
const pageMask = pageWords - 1;

const rowPageBits = 12;
const rowPageSlots = 1 << rowPageBits;
const rowMask = rowPageSlots - 1;

const termCountBits = 14;
const termCountMask = (1 << termCountBits) - 1;

/** Most terms of one series: each takes four bytes of a layout of at most 65,535. */
export const seriesTermsMax: number = termCountMask;

/** Shards are below this. */
export const shardsMax: number = 65_536;

/** ID schemes are below this. */
export const idSchemesEnd = 5;
/**
 * Two bits of a row have the scheme: an explicit ID is always kept beside, so that of an explicit one without that is the fifth
 * scheme.
 */
const schemeMask = 3;

/** Most terms of one page. */
export const termsPageWords: number = pageWords;

export class SeriesTable {
  readonly #pages: Uint32Array[];
  #pageUsed: number;
  /** By number of terms: offsets of runs to use again. */
  readonly #freeRuns: Map<number, number[]>;
  /** Pages of rows; of no rows where no slot was used yet. */
  readonly #rows: Uint32Array[];
  #rowPagesUsed: number;
  #present: Uint32Array;
  #pagesWords: number;
  readonly #explicitIds: Map<number, Uint8Array>;
  #explicitIdBytes: number;
  #slotsEnd: number;
  #count: number;

  constructor() {
    this.#pages = [];
    this.#pageUsed = pageWords;
    this.#freeRuns = new Map();
    this.#rows = [];
    this.#rowPagesUsed = 0;
    this.#present = new Uint32Array(2);
    this.#pagesWords = 0;
    this.#explicitIds = new Map();
    this.#explicitIdBytes = 0;
    this.#slotsEnd = 0;
    this.#count = 0;
  }

  /** @param terms terms[0 .. termCount) is copied */
  insert(
    slot: number,
    terms: Uint32Array,
    termCount: number,
    idScheme: number,
    explicitId: Uint8Array,
    shard: number,
  ): void {
    const run = this.#takeRun(termCount);
    if (termCount > 0) {
      const page = this.#pages[run >>> pageBits]!;
      for (let i = 0; i < termCount; i++) page[(run & pageMask) + i] = terms[i]!;
    }
    this.place(slot, run, termCount, idScheme, explicitId, shard);
  }

  /** Enters a series whose terms lie at `run`: for loading. Its slot is not in use. */
  place(
    slot: number,
    run: number,
    termCount: number,
    idScheme: number,
    explicitId: Uint8Array,
    shard: number,
  ): void {
    assert(termCount <= termCountMask && idScheme < idSchemesEnd, 'a series fits into its row');
    if (slot >>> 5 >= this.#present.length) this.#growPresent(slot);
    if (slot >= this.#slotsEnd) this.#slotsEnd = slot + 1;
    const rows = this.#rowsFor(slot);
    const at = 2 * (slot & rowMask);
    rows[at] = run;
    assert(
      (idScheme === idSchemeCode.explicit) === explicitId.length > 0,
      'a series has an ID of its own, or one of its tags',
    );
    const bits = idScheme === idSchemeCode.path ? idSchemeCode.explicit : idScheme;
    rows[at + 1] = termCount | (bits << termCountBits) | (shard << 16);
    this.#present[slot >>> 5]! |= 1 << (slot & 31);
    this.#count++;
    if (explicitId.length > 0) {
      this.#explicitIds.set(slot, explicitId.slice());
      this.#explicitIdBytes += explicitId.length;
    }
  }

  #takeRun(termCount: number): number {
    if (termCount === 0) return 0;
    const free = this.#freeRuns.get(termCount)?.pop();
    if (free !== undefined) return free;
    if (termCount > pageWords - this.#pageUsed) {
      this.#pages.push(new Uint32Array(pageWords));
      this.#pagesWords += pageWords;
      this.#pageUsed = 0;
    }
    const run = (this.#pages.length - 1) * pageWords + this.#pageUsed;
    this.#pageUsed += termCount;
    return run;
  }

  /**
   * Takes a page of terms that were loaded, at most `termsPageWords`. @returns run of the first
   * word
   */
  addPage(terms: Uint32Array): number {
    assert(terms.length <= pageWords, 'a page of terms is not longer than its numbers reach');
    this.#pages.push(terms);
    this.#pagesWords += terms.length;
    this.#pageUsed = pageWords;
    return (this.#pages.length - 1) * pageWords;
  }

  #rowsFor(slot: number): Uint32Array {
    const index = slot >>> rowPageBits;
    while (this.#rows.length <= index) this.#rows.push(noRows);
    let rows = this.#rows[index]!;
    if (rows.length === 0) {
      rows = new Uint32Array(2 * rowPageSlots);
      this.#rows[index] = rows;
      this.#rowPagesUsed++;
    }
    return rows;
  }

  #growPresent(slot: number): void {
    const size = Math.max((slot >>> 5) + 1, Math.ceil(this.#present.length * 1.5));
    const present = new Uint32Array(size);
    present.set(this.#present);
    this.#present = present;
  }

  remove(slot: number): void {
    assert(this.has(slot), 'a removed series is in the index');
    this.releaseRun(this.#runOf(slot), this.termCount(slot));
    this.#present[slot >>> 5]! &= ~(1 << (slot & 31));
    this.#count--;
    const explicitId = this.#explicitIds.get(slot);
    if (explicitId !== undefined) {
      this.#explicitIdBytes -= explicitId.length;
      this.#explicitIds.delete(slot);
    }
  }

  /** Says that a run of terms belongs to no series: another one may have it. */
  releaseRun(run: number, termCount: number): void {
    if (termCount === 0) return;
    const runs = this.#freeRuns.get(termCount);
    if (runs === undefined) this.#freeRuns.set(termCount, [run]);
    else runs.push(run);
  }

  has(slot: number): boolean {
    return slot < this.#slotsEnd && (this.#present[slot >>> 5]! & (1 << (slot & 31))) !== 0;
  }

  #runOf(slot: number): number {
    return this.#rows[slot >>> rowPageBits]![2 * (slot & rowMask)]!;
  }

  #detailsOf(slot: number): number {
    return this.#rows[slot >>> rowPageBits]![2 * (slot & rowMask) + 1]!;
  }

  /**
   * Page that holds the terms of the series, from `termsStart(slot)` on; only for series with
   * terms.
   */
  termsPage(slot: number): Uint32Array {
    return this.#pages[this.#runOf(slot) >>> pageBits]!;
  }

  termsStart(slot: number): number {
    return this.#runOf(slot) & pageMask;
  }

  termCount(slot: number): number {
    return this.#detailsOf(slot) & termCountMask;
  }

  idScheme(slot: number): number {
    const bits = (this.#detailsOf(slot) >>> termCountBits) & schemeMask;
    if (bits !== idSchemeCode.explicit) return bits;
    return this.#explicitIds.has(slot) ? bits : idSchemeCode.path;
  }

  shard(slot: number): number {
    return this.#detailsOf(slot) >>> 16;
  }

  /** Empty when the ID derives from the tags. Borrowed. */
  explicitId(slot: number): Uint8Array {
    return this.#explicitIds.get(slot) ?? noBytes;
  }

  /** Bits of the slots that are in use. Borrowed until the next insertion. */
  get present(): Uint32Array {
    return this.#present;
  }

  /** All slots are below this. */
  get slotsEnd(): number {
    return this.#slotsEnd;
  }

  get count(): number {
    return this.#count;
  }

  get memoryBytes(): number {
    const columns = this.#rowPagesUsed * rowPageSlots * 8 + this.#present.byteLength;
    const ids = this.#explicitIdBytes + this.#explicitIds.size * 128;
    return columns + ids + this.#pagesWords * 4;
  }
}

const noBytes = new Uint8Array(0);
const noRows = new Uint32Array(0);
