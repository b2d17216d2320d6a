// Written by engine/build_kernels.mjs from engine/window_functions/kernel/windows.kernel.ts

/**
 * What the kernel exports. Addresses, lengths and counts are numbers below 2^32, of which those of
 * 2^31 and more come back negative.
 */
export interface WindowsExports {
  /** Of a `Chunk` and what reading its rows finds. */
  readonly chunkStructBytes: { readonly value: number };
  /** Decoding writes up to this many bytes after the last row of a column. */
  readonly columnSlackBytes: { readonly value: number };
  /** Of an entry. */
  readonly listedBytes: { readonly value: number };
  countRow(starts: number, ends: number, steps: number, out: number): void;
  /**
   * rate and increase; false when more than `visitsMax` rows were looked at again for windows with
   * resets, then nothing counts. `prefix` has room for n f64.
   */
  counterRow(
    values: number,
    rows: number,
    starts: number,
    ends: number,
    steps: number,
    constants: number,
    prefix: number,
    range: number,
    isRate: number,
    visitsMax: number,
    out: number,
  ): number;
  /** Rows decoded of the listed chunks, or -1. */
  decode(
    chunk: number,
    tables: number,
    entries: number,
    found: number,
    from: bigint,
    past: bigint,
    columns: number,
    spare: number,
  ): number;
  deltaRow(
    values: number,
    starts: number,
    ends: number,
    steps: number,
    constants: number,
    out: number,
  ): void;
  /** Takes the stale markers out of the columns; returns the rows that stay. */
  dropStale(times: number, values: number, rows: number): number;
  /** min or max; `blocks` has room for n / 16 + 1 f64. NaN only where all rows are NaN. */
  extremeRow(
    values: number,
    rows: number,
    starts: number,
    ends: number,
    steps: number,
    blocks: number,
    wantsGreatest: number,
    out: number,
  ): void;
  /**
   * The newest row of each window, unless it is a stale marker (then its bits say so by
   * themselves).
   */
  instantRow(values: number, starts: number, ends: number, steps: number, out: number): void;
  /** Lists the chunks in the range; rows to make room for, or -1 when one is malformed. */
  list(
    chunk: number,
    start: number,
    end: number,
    from: bigint,
    past: bigint,
    entries: number,
    found: number,
  ): number;
  /** First and past-the-last row of the window (reference - range, reference] of every step. */
  locate(
    millis: number,
    rows: number,
    referenceStart: number,
    referenceStep: number,
    range: number,
    steps: number,
    starts: number,
    ends: number,
  ): void;
  /**
   * Prints the points from `first` on as `, [value, time]`, and `null` for a value that is absent
   * or NaN, or, where nulls are left out, nothing. Ends as `printRow` does.
   * @param present of each point a byte, 0 or 1
   * @param start Unix seconds of point 0
   */
  printPoints(
    values: number,
    present: number,
    first: number,
    points: number,
    start: number,
    step: number,
    leavesOutNulls: number,
    out: number,
    outEnd: number,
    state: number,
  ): void;
  /**
   * Prints the steps from `first` on, each with its prefix `,[time,"` in front; absent steps are
   * left out. Ends when `out` is full or at a number that is not printed here. `state` takes the
   * step to go on with and the end of the text.
   */
  printRow(
    values: number,
    first: number,
    steps: number,
    prefixes: number,
    out: number,
    outEnd: number,
    state: number,
  ): void;
  /**
   * What a rate needs of the times alone, once for all series with the same times: per step seconds
   * to the start, to the end and between first and last row, and the factor when the start is not
   * moved; seconds of 0 mark no value.
   */
  rateConstants(
    millis: number,
    starts: number,
    ends: number,
    steps: number,
    referenceStart: number,
    referenceStep: number,
    range: number,
    isRate: number,
    constants: number,
  ): void;
  sameTimes(a: number, b: number, rows: number): number;
  /**
   * sum or avg; nothing counts unless it is done, with no more looks at rows than it may. `prefix`
   * has room for n + 1 f64.
   */
  sumRow(
    values: number,
    rows: number,
    starts: number,
    ends: number,
    steps: number,
    prefix: number,
    isMean: number,
    visitsMax: number,
    out: number,
  ): number;
  /** Floor of Unix milliseconds as f64. */
  toMillis(times: number, rows: number, millis: number): void;
}
