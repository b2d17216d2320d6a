// Written by engine/build_kernels.mjs from engine/write_decoder/kernel/write_decoder.kernel.ts

/**
 * What the kernel exports. Addresses, lengths and counts are numbers below 2^32, of which those of
 * 2^31 and more come back negative.
 */
export interface WriteDecoderExports {
  readonly body: { readonly value: number };
  readonly canonical: { readonly value: number };
  readonly exemplarEnds: { readonly value: number };
  readonly exemplarGenerations: { readonly value: number };
  readonly exemplarProblems: { readonly value: number };
  readonly exemplarSlots: { readonly value: number };
  readonly exemplarTimes: { readonly value: number };
  readonly exemplarValues: { readonly value: number };
  /** Where the host writes 1 KiB of random bytes before `init`. */
  readonly hashKeys: { readonly value: number };
  readonly histogramEnds: { readonly value: number };
  readonly histogramGenerations: { readonly value: number };
  readonly histogramSlots: { readonly value: number };
  readonly histogramSources: { readonly value: number };
  readonly histogramStarts: { readonly value: number };
  readonly histogramTimestamps: { readonly value: number };
  readonly histogramValues: { readonly value: number };
  readonly lineNumbers: { readonly value: number };
  readonly lineProblems: { readonly value: number };
  readonly metadataEntries: { readonly value: number };
  readonly newSlots: { readonly value: number };
  /** Where the host writes powers of five before `init` (memory.ts). */
  readonly powersOfFive: { readonly value: number };
  readonly raw: { readonly value: number };
  readonly rowGenerations: { readonly value: number };
  readonly rowSlots: { readonly value: number };
  readonly rowStarts: { readonly value: number };
  readonly rowTimestamps: { readonly value: number };
  readonly rowValues: { readonly value: number };
  /** Where the host writes names of labels and types before `init` (memory.ts). */
  readonly typeTexts: { readonly value: number };
  /**
   * Takes the histogram whose message, of version 2, is the n bytes at `raw`; answers 0, 1 when it
   * is none that can be stored, or a negative problem.
   */
  addHistogram(n: number, slot: number, generation: number): number;
  /**
   * Takes the n packed samples at `raw` as rows from `row` on; answers how many before one whose
   * slot is another one's, or nobody's.
   */
  addPackedSamples(row: number, n: number): number;
  /** Starts a body: nothing that it uses from now on is evicted before the next one. */
  beginRows(): void;
  /**
   * Ends rows that the host has put in place. @param startCount up to the last one that has a start
   * time
   */
  endRows(rowCount: number, startCount: number): void;
  exemplarCount(): number;
  /** Exemplars of the body for which there was no room. */
  exemplarsLeftOut(): number;
  /** Slot of the first series of the body that has no metric name, 0 for none. */
  firstNameless(): number;
  forgetNew(): void;
  generation(): number;
  hasOversizeRows(): number;
  histogramCount(): number;
  idHash(): number;
  idScheme(): number;
  /** Lays the identity regions out; answers the end of the memory that is used, slack included. */
  init(slotsMax: number, tableSizeMax: number, segmentCount: number): number;
  /**
   * Judges new series about which there is no doubt: paths, and with `plainQuoted` 1 those whose
   * quoted ID needs no escapes. They get scheme and hash of their ID; the others move to the front
   * of the list of new slots. Answers the number of those.
   */
  judgePlain(plainQuoted: number): number;
  /** Line feeds in the first n bytes of the text. */
  lineFeeds(n: number): number;
  /** Rows whose values the host has to read. */
  lineNumberCount(): number;
  /** Bad lines; the first ones are listed. */
  lineProblemCount(): number;
  lineRowCount(): number;
  /**
   * Reads lines of the n bytes at `body`, which has room for one more, until there are `rowsMax`
   * rows, or those of the line that brings more; answers how many bytes were read, or a negative
   * problem that leaves nothing behind. Rows have their times in nanoseconds.
   * @param format of lines/layout.ts
   * @param isMore 1: its rows come to those of the texts before
   * @param isLast 1: nothing comes behind them
   * @param unitNanos of times in the lines, where the format does not say it
   * @param nanos time of a line that has none
   */
  lines(
    format: number,
    n: number,
    isMore: number,
    isLast: number,
    rowsMax: number,
    unitNanos: bigint,
    nanos: bigint,
  ): number;
  /** 1 when the rows so far are enough to be written. */
  linesAreEnough(rowsMax: number): number;
  liveCount(): number;
  metadataCount(): number;
  metadataLeftOut(): number;
  newCount(): number;
  /** 1 when some that were taken have a start time. */
  packedHaveStarts(): number;
  refused(): number;
  /**
   * Reads the n bytes at `body`, of version 1 or 2 of remote write; answers the number of rows, or
   * a negative problem that leaves nothing behind.
   * @param typeAndUnit 1: those of the metadata of version 2 become labels
   */
  remoteWrite(n: number, version: number, typeAndUnit: number): number;
  /**
   * Has the times of rows, which are in nanoseconds, in milliseconds, when none is finer; answers 1
   * when they are.
   */
  rowTimesInMillis(rowCount: number): number;
  /** Slot of the n bytes of canonical tags at `canonical`, or a negative problem. */
  slotOfCanonical(n: number): number;
  /** Rows of the body up to the last one that has a start time: 0 when none has. */
  startCount(): number;
  /**
   * Writes the canonical tags of a slot to `canonical`; answers their length, 0 for a slot without
   * a series.
   */
  tags(slot: number): number;
  /**
   * Writes the canonical tags of the `count` slots at `body` to `raw`, one after the other, and
   * over each slot the end of its tags there. Answers how many there was room for.
   */
  tagsOfAll(count: number): number;
  /** Bytes of the memory that were written so far. */
  touchedBytes(): number;
  /**
   * Keeps the series of a slot for this body; answers 0 when the slot is another one's, or
   * nobody's.
   */
  useSlot(slot: number, generation: number): number;
}
