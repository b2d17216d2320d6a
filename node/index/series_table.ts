/**
 * The forward side of the index: for each ordinal its terms in the order of the canonical layout, ID scheme
 * and shard, in columns; the terms lie in pages, and runs of removed series are used again by series with as many
 * tags. About 53 bytes a series of eleven tags. Explicit IDs are held once, derived ones not at all.
 */
import { assert } from '#lib/assert.ts';

const pageBits = 16;
const pageWords = 1 << pageBits;
const pageMask = pageWords - 1;

/** Most terms of one page. */
export const termsPageWords: number = pageWords;

export class SeriesTable {
  readonly #pages: Uint32Array[];
  #pageUsed: number;
  /** By number of terms: offsets of runs to use again. */
  readonly #freeRuns: Map<number, number[]>;
  #runs: Uint32Array;
  #termCounts: Uint16Array;
  #idSchemes: Uint8Array;
  #shards: Uint16Array;
  #present: Uint32Array;
  #pagesWords: number;
  readonly #explicitIds: Map<number, Uint8Array>;
  #explicitIdBytes: number;
  #ordinalsEnd: number;
  #count: number;

  constructor() {
    this.#pages = [];
    this.#pageUsed = pageWords;
    this.#freeRuns = new Map();
    this.#runs = new Uint32Array(64);
    this.#termCounts = new Uint16Array(64);
    this.#idSchemes = new Uint8Array(64);
    this.#shards = new Uint16Array(64);
    this.#present = new Uint32Array(2);
    this.#pagesWords = 0;
    this.#explicitIds = new Map();
    this.#explicitIdBytes = 0;
    this.#ordinalsEnd = 0;
    this.#count = 0;
  }

  /** @param terms terms[0 .. termCount) is copied */
  insert(
    ordinal: number,
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
    this.place(ordinal, run, termCount, idScheme, explicitId, shard);
  }

  /** Enters a series whose terms lie at `run`: for loading. Its ordinal is not in use. */
  place(
    ordinal: number,
    run: number,
    termCount: number,
    idScheme: number,
    explicitId: Uint8Array,
    shard: number,
  ): void {
    if (ordinal >= this.#runs.length) this.#grow(ordinal);
    if (ordinal >= this.#ordinalsEnd) this.#ordinalsEnd = ordinal + 1;
    this.#runs[ordinal] = run;
    this.#termCounts[ordinal] = termCount;
    this.#idSchemes[ordinal] = idScheme;
    this.#shards[ordinal] = shard;
    this.#present[ordinal >>> 5]! |= 1 << (ordinal & 31);
    this.#count++;
    if (explicitId.length > 0) {
      this.#explicitIds.set(ordinal, explicitId.slice());
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

  /** Takes a page of terms that were loaded, at most `termsPageWords`. @returns run of the first word */
  addPage(terms: Uint32Array): number {
    assert(terms.length <= pageWords, 'a page of terms is not longer than its numbers reach');
    this.#pages.push(terms);
    this.#pagesWords += terms.length;
    this.#pageUsed = pageWords;
    return (this.#pages.length - 1) * pageWords;
  }

  /** Makes room for ordinals that are loaded. */
  reserve(ordinalsEnd: number): void {
    if (ordinalsEnd > this.#runs.length) this.#grow(ordinalsEnd - 1);
  }

  #grow(ordinal: number): void {
    const size = Math.max(ordinal + 1, Math.ceil(this.#runs.length * 1.5));
    const runs = new Uint32Array(size);
    runs.set(this.#runs);
    this.#runs = runs;
    const termCounts = new Uint16Array(size);
    termCounts.set(this.#termCounts);
    this.#termCounts = termCounts;
    const idSchemes = new Uint8Array(size);
    idSchemes.set(this.#idSchemes);
    this.#idSchemes = idSchemes;
    const shards = new Uint16Array(size);
    shards.set(this.#shards);
    this.#shards = shards;
    const present = new Uint32Array((size + 31) >>> 5);
    present.set(this.#present);
    this.#present = present;
  }

  remove(ordinal: number): void {
    assert(this.has(ordinal), 'a removed series is in the index');
    const termCount = this.#termCounts[ordinal]!;
    this.releaseRun(this.#runs[ordinal]!, termCount);
    this.#present[ordinal >>> 5]! &= ~(1 << (ordinal & 31));
    this.#count--;
    const explicitId = this.#explicitIds.get(ordinal);
    if (explicitId !== undefined) {
      this.#explicitIdBytes -= explicitId.length;
      this.#explicitIds.delete(ordinal);
    }
  }

  /** Says that a run of terms belongs to no series: another one may have it. */
  releaseRun(run: number, termCount: number): void {
    if (termCount === 0) return;
    const runs = this.#freeRuns.get(termCount);
    if (runs === undefined) this.#freeRuns.set(termCount, [run]);
    else runs.push(run);
  }

  has(ordinal: number): boolean {
    return (
      ordinal < this.#ordinalsEnd && (this.#present[ordinal >>> 5]! & (1 << (ordinal & 31))) !== 0
    );
  }

  /** Page that holds the terms of the series, from `termsStart(ordinal)` on; only for series with terms. */
  termsPage(ordinal: number): Uint32Array {
    return this.#pages[this.#runs[ordinal]! >>> pageBits]!;
  }

  termsStart(ordinal: number): number {
    return this.#runs[ordinal]! & pageMask;
  }

  termCount(ordinal: number): number {
    return this.#termCounts[ordinal]!;
  }

  idScheme(ordinal: number): number {
    return this.#idSchemes[ordinal]!;
  }

  shard(ordinal: number): number {
    return this.#shards[ordinal]!;
  }

  /** Empty when the ID derives from the tags. Borrowed. */
  explicitId(ordinal: number): Uint8Array {
    return this.#explicitIds.get(ordinal) ?? noBytes;
  }

  /** Bits of the ordinals that are in use. Borrowed until the next insertion. */
  get present(): Uint32Array {
    return this.#present;
  }

  /** All ordinals are below this. */
  get ordinalsEnd(): number {
    return this.#ordinalsEnd;
  }

  get count(): number {
    return this.#count;
  }

  get memoryBytes(): number {
    const columns =
      this.#runs.byteLength + this.#termCounts.byteLength + this.#idSchemes.byteLength;
    const rest = this.#shards.byteLength + this.#present.byteLength;
    const ids = this.#explicitIdBytes + this.#explicitIds.size * 128;
    return columns + rest + ids + this.#pagesWords * 4;
  }
}

const noBytes = new Uint8Array(0);
