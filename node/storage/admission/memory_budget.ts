/**
 * One number for heads, chunks, index, caches and answers of a node. When it runs short the cache of files
 * shrinks, blocks are flushed early, and at last new series are refused (429), before the process
 * could die.
 */

/**
 * Parts of the budget: from the first on flushes are hastened, from the second on new series are
 * refused.
 */
const hastenFrom = 0.7;
const hastenTo = 0.6;
const refuseFrom = 0.9;
/**
 * Of the budget: what a hastened flush frees at least. Records of series and the index stay whatever is flushed; where they are
 * most of it, flushes that win little would go on for ever.
 */
const flushablePart = 1 / 8;
/** The same where new series are refused: there little is worth it, too. */
const flushablePartWhenFull = 1 / 32;
/** What pages of files and directories may take, when nothing else needs it. */
const pagesPart = 1 / 8;
const directoriesPart = 1 / 16;
/** What counts of caches at most where flushes are hastened: they give back the rest by themselves. */
const cachesPart = pagesPart + directoriesPart;
/** New series between two measurements. */
const seriesBetween = 1024;

export interface MemoryUse {
  /** Heads and chunks. */
  readonly storeBytes: number;
  readonly indexBytes: number;
  readonly cacheBytes: number;
  /** Answers of reads, until they have left. */
  readonly readBytes: number;
}

export class MemoryBudget {
  readonly totalBytes: number;
  readonly #measure: () => MemoryUse;
  #usedBytes = 0;
  #seriesLeft = 0;
  /** Series that were refused, for metrics. */
  refused = 0;
  /** What flushes would free when blocks were looked at last, and what the store had then: before that, all it has. */
  #flushableBytes = 0;
  #storeBytesThen = 0;

  constructor(totalBytes: number, measure: () => MemoryUse) {
    this.totalBytes = totalBytes;
    this.#measure = measure;
  }

  /** Measured now. */
  get use(): MemoryUse {
    return this.#measure();
  }

  /** Most bytes of pages of files. @param wanted by the configuration */
  pageBytesMax(wanted: number): number {
    return Math.min(wanted, Math.floor(this.totalBytes * pagesPart));
  }

  get directoryBytesMax(): number {
    return Math.floor(this.totalBytes * directoriesPart);
  }

  /** Whether one more series may be made. Measures now and then, not each time. */
  admitsSeries(): boolean {
    if (this.#seriesLeft === 0) {
      this.#seriesLeft = seriesBetween;
      this.#usedBytes = sumOf(this.#measure());
    }
    this.#seriesLeft -= 1;
    if (this.#usedBytes <= refuseFrom * this.totalBytes) return true;
    this.refused += 1;
    // What is freed meanwhile counts at once.
    this.#seriesLeft = 0;
    return false;
  }

  /** @param bytes what flushes of all blocks would free now */
  noteFlushable(bytes: number): void {
    this.#flushableBytes = bytes;
    this.#storeBytesThen = this.#measure().storeBytes;
  }

  /** Whether flushes should be hastened, and there is something to win by them. */
  get isShort(): boolean {
    return this.#isAbove(hastenFrom);
  }

  /** Whether hastened flushes should go on. */
  get isStillShort(): boolean {
    return this.#isAbove(hastenTo);
  }

  #isAbove(part: number): boolean {
    const use = this.#measure();
    const cacheBytes = Math.min(use.cacheBytes, cachesPart * this.totalBytes);
    const used = sumOf({ ...use, cacheBytes }) / this.totalBytes;
    if (used <= part) return false;
    // Rows come and go between two looks.
    const flushable = this.#flushableBytes + use.storeBytes - this.#storeBytesThen;
    const least = used > refuseFrom ? flushablePartWhenFull : flushablePart;
    return flushable >= least * this.totalBytes;
  }
}

function sumOf({ storeBytes, indexBytes, cacheBytes, readBytes }: MemoryUse): number {
  return storeBytes + indexBytes + cacheBytes + readBytes;
}
