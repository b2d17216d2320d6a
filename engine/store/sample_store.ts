/**
 * What keeps a node's samples: one `Store`, or a `StoreSet` of several when one memory is not
 * enough.
 */
import { TsdbError } from '#lib/errors.ts';
import type { ByteCollector } from './byte_collector.ts';
import type {
  RowsOfKind,
  HeldBlock,
  StoredBlock,
  StoredChunks,
  StoreNamespace,
  StoreRows,
  StoreTypedRows,
} from './rows.ts';

/** A block would have more typed values than are admitted to one. */
export class TooManyValues extends TsdbError {}

/** Batches that are checked one after the other before the first of them is applied; alternates. */
export type WriteGroup = 0 | 1;

export interface SampleStore {
  /**
   * Sets the rules of a namespace, or changes them for the writes and expiries that follow.
   * @throws {TsdbError} BAD_REQUEST when the block size of a namespace changes
   */
  setNamespace(ordinal: number, options: StoreNamespace): void;

  /** Forgets the rules of a namespace of which no series is left: its ordinal may be another's. */
  forgetNamespace(ordinal: number): void;

  /**
   * Gives a slot to a new series; its reference is the slot with its `generation`.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when memory is over the budget
   */
  createSeries(namespaceOrdinal: number): number;

  /** Forgets a series with all its samples; its references are refused from now on. */
  releaseSeries(slot: number): void;

  /** Generation by slot, from 1. A view: fetch it again after each call. */
  readonly generation: Uint32Array;

  /**
   * The write rules, before the commit log. Sets the outcome of each row that has none yet (0): the
   * reference is valid and of this namespace, the time lies in [now - bufferPast, now +
   * bufferFuture) or, with cold writes, not before now - retention, and there is memory.
   * @returns how many rows have an outcome other than 0
   */
  check(rows: StoreRows, namespaceOrdinal: number, nowNanos: bigint, outcomes: Uint8Array): number;

  /**
   * Whether sealed chunks keep the version of each row (kind 4 of docs/formats/chunk.md), which
   * release 0.1.0 does not read, or have one for all. From the beginning they have one.
   */
  keepRowVersions(keeps: boolean): void;

  readonly keepsRowVersions: boolean;

  /**
   * Rows with versions up to this one may be in files although the memory never held them: of a start
   * before, or from other nodes. Rows that derive their versions and may meet them are superseded.
   * @param blockEndNanos of the last block that they are of; null for any
   */
  noteFiles(version: number, blockEndNanos: bigint | null): void;

  /**
   * Applies the rows whose outcome is 0; they are readable when this returns. A row whose series
   * was released since its check is left out.
   * @param version of the batch: decides between rows with one timestamp
   * @param isDerived rows have the versions that `derivedVersion` gives. One that cannot replace
   *   another value of its time, or perhaps such in a file, gets the outcome `superseded`: it has to
   *   be sent with its batch's own version
   * @returns how many were superseded
   */
  append(rows: StoreRows, version: number, outcomes: Uint8Array, isDerived?: boolean): number;

  /**
   * `append` in steps of some milliseconds at most where rows are late; rows of the steps before are readable between them. The columns
   * stay as they are meanwhile, and nothing else is checked or appended.
   */
  appendInSteps(
    rows: StoreRows,
    version: number,
    outcomes: Uint8Array,
    isDerived: boolean,
  ): Generator<void, number>;

  /**
   * `check` of typed rows; a value that is not canonical has the outcome `badValue`. Typed rows need
   * `keepRowVersions`.
   */
  checkTyped(
    rows: StoreTypedRows,
    namespaceOrdinal: number,
    nowNanos: bigint,
    outcomes: Uint8Array,
  ): number;

  /**
   * Rows that are checked from now on are counted together until `endGroup`, when all of them are
   * applied or given up: what several batches bring to a block must be merged there like that of one. Of
   * two groups at a time one is checked. Without groups each batch is applied before the next is checked.
   */
  beginGroup(group: WriteGroup): void;

  endGroup(group: WriteGroup): void;

  /**
   * `append` of typed rows. Of two rows of one time and version a typed one goes before a float, and of
   * typed ones the later by bytes, then by start; a read gives both kinds, in chunks of their own.
   */
  appendTyped(
    rows: StoreTypedRows,
    version: number,
    outcomes: Uint8Array,
    isDerived?: boolean,
  ): number;

  /** `appendTyped`, as `appendInSteps`. */
  appendTypedInSteps(
    rows: StoreTypedRows,
    version: number,
    outcomes: Uint8Array,
    isDerived: boolean,
  ): Generator<void, number>;

  /**
   * Copies of the chunks that overlap [startNanos, endNanos). Rows that are not sealed yet come as
   * raw chunks with their versions. Chunks may overlap: `Decoder` merges them.
   */
  read(slots: Uint32Array, startNanos: bigint, endNanos: bigint): StoredChunks;

  /**
   * `read`, to a target that may hold bytes already. @returns offsets in the target, one more than
   * slots
   */
  readInto(
    target: ByteCollector,
    slots: Uint32Array,
    startNanos: bigint,
    endNanos: bigint,
  ): Uint32Array;

  /**
   * Adds sealed chunks of filesets, snapshots or peers to a series, all or none.
   * @throws {TsdbError} BAD_REQUEST when one is malformed or spans two blocks, RESOURCE_EXHAUSTED
   *   when memory is over the budget, `TooManyValues` when a block would have more than are admitted
   */
  insertChunks(slot: number, chunks: Uint8Array): void;

  /**
   * The rows of one block, merged and encoded anew as for a file; an empty range when there are
   * none.
   */
  readBlock(slots: Uint32Array, blockStartNanos: bigint): StoredChunks;

  /**
   * `readBlock`, and marks the block of each series as unchanged since: whatever is written to it
   * takes the mark away. When the rows are safe in a file, `dropFlushed` forgets what has its mark.
   */
  flushBlock(slots: Uint32Array, blockStartNanos: bigint): StoredChunks;

  /**
   * Forgets the rows of a block of those series that are unchanged since `flushBlock`; the others
   * keep all of theirs. A slot that was released since is passed over.
   * @returns how many series were dropped
   */
  dropFlushed(slots: Uint32Array, blockStartNanos: bigint): number;

  /** Blocks with rows in memory, by ascending start. Takes time by their number alone. */
  blocks(namespaceOrdinal: number): HeldBlock[];

  /**
   * What the blocks with rows in memory hold, by ascending start: a walk over all series, so many slots of the store a
   * step. Anything may be called in between; it must be given up when the namespace is forgotten.
   */
  sumsInSteps(namespaceOrdinal: number, slotsAStep: number): Generator<void, StoredBlock[]>;

  /** Slots of the series that have rows in the block, ascending. Walks over all series. */
  slotsOfBlock(namespaceOrdinal: number, blockStartNanos: bigint): Uint32Array;

  /**
   * The same in steps, as `sumsInSteps`: gives what was found in each, which is all that had rows when it began and has
   * them still when its turn comes.
   * @param blockStartNanos null: series that have rows in any block
   */
  slotsInSteps(
    namespaceOrdinal: number,
    blockStartNanos: bigint | null,
    slotsAStep: number,
  ): Generator<Uint32Array, void>;

  /** Starts of the blocks in which the series has rows, ascending. */
  blockStarts(slot: number): bigint[];

  /** Forgets the rows of a block. */
  dropBlock(slots: Uint32Array, blockStartNanos: bigint): void;

  /**
   * Drops the blocks that end at or before now - retention.
   * @returns slots of the namespace that hold nothing in memory (there may be rows in files) and
   *   for which no row was admitted since the expiry before this one (such a row may be on its way
   *   through the commit log), ascending
   */
  expire(namespaceOrdinal: number, nowNanos: bigint): Uint32Array;

  /**
   * As `expire`, so many slots of the store a step. Anything may be called in between, but for
   * another expiry of the namespace; a series that was looked at and got rows since may be among
   * the slots, and so may one that is no more. It may be given up before its end, and must be when
   * the namespace is forgotten.
   */
  expireInSteps(
    namespaceOrdinal: number,
    nowNanos: bigint,
    slotsAStep: number,
  ): Generator<void, Uint32Array>;

  readonly seriesCount: number;

  /** Memory in use, from about 2 MiB. */
  readonly memoryBytes: number;

  /** Rows held; rows with one timestamp count each until they are merged. */
  readonly sampleCount: number;
}

/** `appendInSteps` or `appendTypedInSteps`, by the kind of the rows. */
export function appendRows(
  store: SampleStore,
  { kind, rows }: RowsOfKind,
  version: number,
  outcomes: Uint8Array,
  isDerived: boolean,
): Generator<void, number> {
  return kind === 'float'
    ? store.appendInSteps(rows, version, outcomes, isDerived)
    : store.appendTypedInSteps(rows, version, outcomes, isDerived);
}
