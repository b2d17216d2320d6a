// Written by engine/build_kernels.mjs from engine/aggregation/kernel/aggregation.kernel.ts

/**
 * What the kernel exports. Addresses, lengths and counts are numbers below 2^32, of which those of
 * 2^31 and more come back negative.
 */
export interface AggregationExports {
  /**
   * Begins a series.
   * @param fold `foldBytes`
   * @param columns `columnsBytes`
   */
  beginFold(fold: number, resolution: bigint, columns: number, capacity: number): void;
  /** Room for a chunk of so many windows. */
  chunkBytes(windows: number): number;
  /** Room for the columns of so many windows. */
  columnsBytes(windows: number): number;
  /** Work space to write so many windows. */
  encodeBytes(windows: number): number;
  /**
   * Writes rows in strictly ascending time as a chunk of floats as they are, all with the version
   * of the last; gives its end.
   * @param lags room for i64 of the rows
   * @param out `rawBytes`
   */
  encodeFloats(times: number, values: number, lags: number, rows: number, out: number): number;
  /**
   * Writes windows from `first` on as a typed chunk; gives its end. Their versions are those of
   * their times, or of rows that were written later.
   * @param deletions of all windows, as doubles: version of the last deletion that its rows were
   * without; 0 where there is none of any
   * @param scratch `scratchBytes`
   * @param work `encodeBytes`
   * @param out `chunkBytes`
   */
  encodeWindows(
    fold: number,
    first: number,
    count: number,
    deletions: number,
    scratch: number,
    tables: number,
    work: number,
    out: number,
  ): number;
  /**
   * Closes the last window; gives how many there are. Then columns of 8 bytes a window lie
   * `capacity` windows apart.
   */
  endFold(fold: number): number;
  /** Of the state of a series. */
  foldBytes(): number;
  /**
   * Takes rows that come after those before, in strictly ascending time: i64 times and float64s.
   * @param lags i64 of each; 0 where none is above 0
   */
  foldRows(fold: number, times: number, values: number, lags: number, rows: number): void;
  /** Room for a chunk of so many rows as they are. */
  rawBytes(rows: number): number;
  /** Of the region `scratch`. */
  scratchBytes(): number;
}
