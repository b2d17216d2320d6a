// Written by engine/build_kernels.mjs from engine/series_cache/kernel/series_cache.kernel.ts

/**
 * What the kernel exports. Addresses, lengths and counts are numbers below 2^32, of which those of
 * 2^31 and more come back negative.
 */
export interface SeriesCacheExports {
  /** Of an entry beside its key. */
  readonly entryHeadBytes: { readonly value: number };
  /** Makes an entry at an address of the key that was just not found. */
  add(entry: number, parent: number, extra: number, length: number): void;
  /** What is asked for next followed nothing. */
  beginEntries(): void;
  clearEntries(): void;
  /** Times of the points that were taken, in milliseconds. */
  earliestMillis(): number;
  /** Number of the entry of the key that was put; 0 when there is none. */
  find(parent: number, extra: number, length: number): number;
  /** 1 when some that were taken have a start time. */
  hasStarts(): number;
  /**
   * @param keyAt where keys are put that are looked for
   * @param table words of zeros, a power of two
   * @param root room for an entry without a key, zeros
   * @param columns `numbersBytes`
   */
  init(
    keyAt: number,
    table: number,
    tableWords: number,
    root: number,
    seed: number,
    columns: number,
    pointsMax: number,
  ): void;
  /** 1 when the point behind those that were taken goes on behind the bytes. */
  isCut(): number;
  latestMillis(): number;
  /**
   * Takes points of numbers below an entry from `at` on, each a field of its metric's data; answers
   * how many.
   * @param withStarts 1: with their start times
   */
  numbers(at: number, end: number, parent: number, withStarts: number, pointsMax: number): number;
  /**
   * Of columns of so many points, in this order: i64 times in milliseconds, float64s, i64 starts in
   * nanoseconds, u32 slots, generations and where the points end.
   */
  numbersBytes(points: number): number;
}
