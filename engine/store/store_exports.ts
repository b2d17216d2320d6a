// Written by engine/build_kernels.mjs from engine/store/kernel/store.kernel.ts

/**
 * What the kernel exports. Addresses, lengths and counts are numbers below 2^32, of which those of
 * 2^31 and more come back negative.
 */
export interface StoreExports {
  /** Room that it needs after the chunks' own length. */
  readonly packRoomBytes: { readonly value: number };
  /** Work space of `packChunks`. */
  readonly packWorkBytes: { readonly value: number };
  /** Work space of `measureTyped`. */
  readonly typedMeasureBytes: { readonly value: number };
  /** Bytes that the slot at which a read stopped needs. */
  answer(): number;
  /**
   * Applies the rows whose outcome is 0. Those that another value supersedes get that outcome;
   * gives how many. The answer is how many rows were looked at: it ends before the others after so
   * many late ones. Late ones come after the others, in an order of their own, those of one time as
   * they came: a later one that does not replace the other is superseded.
   * @param starts i64 nanoseconds, 0 for none; 0 for a column of none
   * @param late room for two u16 a row
   * @param rowCount at most 65,536
   * @param isDerived versions of rows are derived from their times
   */
  append(
    slots: number,
    generations: number,
    times: number,
    starts: number,
    values: number,
    outcomes: number,
    late: number,
    rowCount: number,
    unitNanos: bigint,
    version: bigint,
    isDerived: number,
  ): number;
  /**
   * `append` of typed rows whose values `checkTyped` has looked at; the answer is as there.
   * @param starts i64 nanoseconds, 0 for none
   */
  appendTyped(
    slots: number,
    generations: number,
    times: number,
    starts: number,
    ends: number,
    bytes: number,
    outcomes: number,
    late: number,
    rowCount: number,
    unitNanos: bigint,
    version: bigint,
    isDerived: number,
  ): number;
  /** Writes starts (i64) of the blocks that have rows, ascending; gives how many there are. */
  blockStarts(slot: number, out: number, countMax: number): number;
  /**
   * Writes how many series have each block of a namespace, by ascending start, from the given one
   * on: start i64, series as float64. Gives how many were written, at most `countMax`.
   */
  blocks(namespaceOrdinal: number, from: number, out: number, countMax: number): number;
  /**
   * Sets the outcomes (u8) of rows that have none; gives how many have one other than 0. The
   * columns: u32 slots, u32 generations, i64 times in units, i64 start times (0 for a column of
   * none), and the outcomes.
   */
  check(
    slots: number,
    generations: number,
    times: number,
    starts: number,
    outcomes: number,
    rowCount: number,
    unitNanos: bigint,
    namespaceOrdinal: number,
    nanosFrom: bigint,
    nanosEnd: bigint,
    budgetBytes: number,
    reserveBytes: number,
  ): number;
  /**
   * `check` of typed rows, whose values end at `ends` (u32) and lie one after the other at `bytes`:
   * these are looked at whole.
   * @param group 0 or 1: what it is counted with until it is applied
   */
  checkTyped(
    slots: number,
    generations: number,
    times: number,
    ends: number,
    bytes: number,
    outcomes: number,
    rowCount: number,
    unitNanos: bigint,
    namespaceOrdinal: number,
    nanosFrom: bigint,
    nanosEnd: bigint,
    budgetBytes: number,
    group: number,
  ): number;
  /** Nothing of the group (0 or 1) is on its way: it begins, or all of it is applied. */
  clearTypedGroup(group: number): void;
  /** A slot, or 2^32 - 1 when memory is over the budget. */
  createSeries(namespaceOrdinal: number, budgetBytes: number): number;
  /**
   * The rows of one chunk that no deletion covers, as `keepRows`: of kinds that keep the version of
   * each row. The answer is how many rows went.
   * @param cuts three i64 each: start, end (left out), and the highest version of rows that go
   */
  cutRows(
    at: number,
    end: number,
    cuts: number,
    cutCount: number,
    work: number,
    out: number,
  ): number;
  /**
   * `mergeTyped` of all rows that no deletion covers; the answer is how many rows went.
   * @param cuts as in `cutRows`
   */
  cutTyped(
    at: number,
    end: number,
    cuts: number,
    cutCount: number,
    rows: number,
    valueBytes: number,
    work: number,
    out: number,
  ): number;
  /** Work space for rows without their start times. */
  decodeBytes(rows: number, chunks: number): number;
  /**
   * Decodes and merges the chunks that overlap the range, in work space of `decodeBytes`, with
   * `needAll` of `mergeBytes`. Gives the rows, or -1 when a payload is malformed. Six u32 at
   * `answers`: addresses of the rows' milliseconds, nanoseconds and values, how many rows of the
   * columns lie before them, and with `needAll` the addresses of their lags (1/64 milliseconds from
   * time to version), 0 when all have the one that follows as an i64, and of their start times, 0
   * when none has one.
   */
  decodeChunks(
    at: number,
    end: number,
    nanosFrom: bigint,
    nanosEnd: bigint,
    rows: number,
    chunks: number,
    work: number,
    answers: number,
    needAll: number,
  ): number;
  /**
   * Writes two u64 to `out`, the digest of the rows in [nanosFrom, nanosEnd) of chunks that
   * `scanChunks` has read with this range, in work space of `mergeBytes`. Chunks that follow each
   * other in time are not merged. Gives the rows, or -1 when a payload is malformed.
   * @param id what `hashId` has written
   */
  digestRows(
    id: number,
    at: number,
    end: number,
    nanosFrom: bigint,
    nanosEnd: bigint,
    rows: number,
    chunks: number,
    work: number,
    out: number,
  ): number;
  /**
   * Writes two u64 to `out`, the digest of the rows in the range of chunks that were measured;
   * gives how many they are.
   * @param id what `hashId` has written
   */
  digestTyped(
    id: number,
    at: number,
    end: number,
    nanosFrom: bigint,
    nanosEnd: bigint,
    rows: number,
    valueBytes: number,
    work: number,
    out: number,
  ): number;
  dropBlock(slots: number, count: number, blockStart: bigint): void;
  /**
   * Drops the block of each series that is live and still as it was flushed; gives how many did.
   */
  dropFlushed(slots: number, count: number, blockStart: bigint): number;
  /**
   * Drops what ends at or before the cutoff, for the slots [from, end); writes slots of series that
   * hold nothing. Gives how many, and the answer is the slot to go on from. One walk of a namespace
   * goes on at a time, and begins with slot 0; writes may come between its calls.
   */
  expire(
    namespaceOrdinal: number,
    cutoff: bigint,
    from: number,
    end: number,
    out: number,
    countMax: number,
  ): number;
  generationOf(slot: number): number;
  /**
   * Writes two u64 to `out`, the hash of an ID.
   * @param at the ID, with zeros after it up to a multiple of eight bytes
   */
  hashId(at: number, length: number, out: number): void;
  /** Begins a memory that is all zero; `tablesAddress` then takes the codec's tables. */
  init(pageMax: number): void;
  /** 0, or why the chunks are refused (`insert…` in reads.ts). */
  insertChunks(slot: number, at: number, length: number): number;
  isLive(slot: number): number;
  /**
   * The rows of [nanosFrom, nanosEnd) of one chunk that `scanChunks` has read, as chunks at `out`,
   * in work space of `mergeBytes`. Gives their end, or 0 when the payload is malformed.
   */
  keepRows(
    at: number,
    end: number,
    nanosFrom: bigint,
    nanosEnd: bigint,
    work: number,
    out: number,
  ): number;
  /**
   * What the typed chunks in [at, end) that overlap the range come to: three float64 at `answers`,
   * rows, fields and bytes of values. Gives 1, 0 when one is malformed, or 2 when they are too much
   * to be merged.
   */
  measureTyped(
    at: number,
    end: number,
    nanosFrom: bigint,
    nanosEnd: bigint,
    work: number,
    answers: number,
  ): number;
  memoryBytes(): number;
  /** The same with the start times, when a chunk that `scanChunks` has read has some. */
  mergeBytes(rows: number, chunks: number): number;
  /**
   * Merges all chunks in [at, end), which `scanChunks` has read, into long ones at `out`, in work
   * space of `mergeBytes`. Gives their end, or 0 when a payload is malformed.
   */
  mergeChunks(
    at: number,
    end: number,
    rows: number,
    chunks: number,
    work: number,
    out: number,
  ): number;
  /**
   * Writes the rows in the range of chunks that were measured as long chunks to `out`; gives their
   * end.
   */
  mergeTyped(
    at: number,
    end: number,
    nanosFrom: bigint,
    nanosEnd: bigint,
    rows: number,
    valueBytes: number,
    work: number,
    out: number,
  ): number;
  /** Room for the long chunks of so many rows. */
  mergedBytesMax(rows: number): number;
  /** Versions of rows that are in files, of blocks up to this end, are not above. */
  noteFiles(version: bigint, blockEnd: bigint): void;
  /**
   * Writes the chunks of some series, one after the other, to `out` and their lengths (u32) over
   * those given; gives their end, or 0 when a chunk is malformed.
   */
  packChunks(chunks: number, lengths: number, count: number, work: number, out: number): number;
  /**
   * Chunks of the series of slots [from, count) that overlap the range, one after the other, and
   * their lengths (u32). Gives the slot that did not fit any more, or the count.
   */
  read(
    slots: number,
    from: number,
    count: number,
    start: bigint,
    end: bigint,
    out: number,
    room: number,
    lengths: number,
  ): number;
  /**
   * The same for one block of each series, merged and encoded anew; with `isFlush` the blocks are
   * marked as unchanged since.
   */
  readBlock(
    slots: number,
    from: number,
    count: number,
    blockStart: bigint,
    out: number,
    room: number,
    lengths: number,
    isFlush: number,
  ): number;
  /**
   * Finds the rows in the range of chunks that were measured; gives how many they are. Four u32 at
   * `answers`: addresses of their times, lags and start times (i64) and of where their values are
   * (u64, address and length above 32 bits).
   */
  readTyped(
    at: number,
    end: number,
    nanosFrom: bigint,
    nanosEnd: bigint,
    rows: number,
    valueBytes: number,
    work: number,
    answers: number,
  ): number;
  releaseSeries(slot: number): void;
  sampleCount(): number;
  /**
   * For a decoder, whose memory holds no series: reads the headers of chunks in [at, end). Gives
   * how many overlap the range, or -1 when one is malformed; the answer is how many rows they have.
   * What is written of them keeps the version of each row when one of them does.
   */
  scanChunks(at: number, end: number, nanosFrom: bigint, nanosEnd: bigint): number;
  seriesCount(): number;
  seriesEnd(): number;
  /** Sealed chunks keep the version of each row from now on, or have one for all. */
  setKeepsRowVersions(keeps: number): void;
  setNamespace(ordinal: number, blockSizeNanos: bigint): void;
  /**
   * Writes the slots (u32) in [from, end) of the series that have rows in a block, or in any,
   * ascending; gives how many. The answer is as that of `sums`.
   */
  slotsWithRows(
    namespaceOrdinal: number,
    blockStart: bigint,
    inAnyBlock: number,
    from: number,
    end: number,
    nodesMax: number,
    out: number,
  ): number;
  /**
   * A region for columns and answers; 0 without memory. It keeps its place until more is asked for.
   */
  stage(bytes: number): number;
  /**
   * Writes what the series of slots [from, end) have of each block of a namespace, by ascending
   * start: start i64, then as float64 how many series, rows and bytes. Gives how many blocks there
   * are, or more than `countMax` when they do not fit. The answer is the slot to go on from, before
   * the end when so many blocks of series were looked at.
   */
  sums(
    namespaceOrdinal: number,
    from: number,
    end: number,
    nodesMax: number,
    out: number,
    countMax: number,
  ): number;
  tablesAddress(): number;
  /** Room for the chunks of what was measured. */
  typedOutBytes(rows: number, fields: number, valueBytes: number): number;
  /** Work space for what was measured. */
  typedWorkBytes(rows: number, valueBytes: number): number;
}
