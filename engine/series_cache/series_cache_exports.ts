// Written by engine/build_kernels.mjs from engine/series_cache/kernel/series_cache.kernel.ts

/**
 * What the kernel exports. Addresses, lengths and counts are numbers below 2^32, of which those of
 * 2^31 and more come back negative.
 */
export interface SeriesCacheExports {
  readonly entryBytes: { readonly value: number };
  /** Makes an entry at an address of the key that was just not found. */
  add(entry: number, parent: number, extra: number, length: number): void;
  /** What is asked for next followed nothing. */
  beginEntries(): void;
  clearEntries(): void;
  /** Times of the points that were taken, in milliseconds. */
  earliestMillis(): number;
  /** Number of the entry of the key that was put; 0 when there is none. */
  find(parent: number, extra: number, length: number): number;
  /**
   * @param keyAt where keys are put that are looked for
   * @param table words of zeros, a power of two
   * @param root room for an entry without a key, zeros
   * @param random `randomBytes`, which nobody else knows
   * @param short room for 16 bytes
   * @param rows room for points of numbers, 32 bytes each
   * @param ends room for where they end, 4 bytes each
   */
  init(
    keyAt: number,
    table: number,
    tableWords: number,
    root: number,
    random: number,
    short: number,
    rows: number,
    ends: number,
  ): void;
  /** 1 when the point behind those that were taken goes on behind the bytes. */
  isCut(): number;
  latestMillis(): number;
  /**
   * Takes points of numbers below an entry from `at` on, each a field of its metric's data; answers
   * how many. A row has u32 slot and generation, i64 milliseconds, a float64, and i64 nanoseconds
   * of the start, 0 for none.
   * @param withStarts 1: with their start times
   */
  numbers(at: number, end: number, parent: number, withStarts: number, pointsMax: number): number;
  /** How many random bytes digests of keys need. */
  randomBytes(keyBytesMax: number): number;
}
