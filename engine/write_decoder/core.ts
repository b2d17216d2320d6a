/**
 * What a write decoder's machine does, below the checks in write_decoder.ts: the kernel (kernel.ts)
 * and its plain twin (write_decoder_twin.ts), which a fuzz holds equal.
 */
import type { LineProblem } from './lines/problems.ts';
import { snappyProblemText } from './snappy.ts';

/** Longest body as it comes, compressed. */
export const bodyBytesMax: number = 38 * 1024 * 1024;
/** Longest body when uncompressed. */
export const rawBytesMax: number = 32 * 1024 * 1024;
/** Most samples of one body. */
export const writeDecoderRowsMax: number = 1 << 20;

/** Most texts of a version 2 body. */
export const symbolsMax: number = 1 << 20;
/** Most bytes that the labels of all series of a version 2 body take, written out. */
export const labelTextBytesMax: number = 128 * 1024 * 1024;

/** Most native histograms of one body. */
export const histogramsMax: number = 1 << 18;
/** Most bytes of their values, as they are stored. */
export const histogramBytesMax: number = 63 * 1024 * 1024;

/** Of Prometheus remote write: prometheus.WriteRequest, or io.prometheus.write.v2.Request. */
export type RemoteWriteVersion = 1 | 2;

/** Most exemplars of one body, and bytes of their values, that are taken; more are left out. */
export const exemplarsMax: number = 1 << 13;
export const exemplarBytesMax: number = 4 * 1024 * 1024;
/** Most entries of metadata of one body; more are left out. */
export const metadataMax: number = 1 << 16;

/** Slot of every series whose tags cannot be kept: too many or too long. It is always refused, as the two after it. */
export const oversizeSlot = 0;
/** Of version 2: of every series without a metric name, and of every one that names texts which are not there. */
export const namelessSlot = 1;
export const unresolvedSlot = 2;

/** Why an exemplar is none. */
export const exemplarProblem = { tooLong: 1, notUtf8: 2, badReference: 3, badTime: 4 } as const;

/** Negative answers of `remoteWrite`, beside those of `snappyProblem`. */
export const writeDecoderProblem = {
  malformed: -10,
  tooManyRows: -11,
  /** Everything that could be evicted belongs to this body. */
  noRoom: -12,
  /** Version 2: more texts in the table than `symbolsMax`. */
  tooManySymbols: -13,
  /** Version 2: the labels of all series, written out, are longer than `labelTextBytesMax`. */
  tooMuchText: -14,
  /** More than `histogramsMax`, or their values take more than `histogramBytesMax`. */
  tooManyHistograms: -15,
} as const;

/**
 * Of a packed sample, little-endian: u32 slot and generation, i64 milliseconds, float64, and i64 nanoseconds of its start, whole
 * milliseconds, 0 for none.
 */
export const packedSampleBytes = 32;

export function writeDecoderProblemText(problem: number): string {
  switch (problem) {
    case writeDecoderProblem.malformed:
      return 'the protobuf message is malformed';
    case writeDecoderProblem.tooManyRows:
      return `more than ${writeDecoderRowsMax} samples`;
    case writeDecoderProblem.noRoom:
      return 'more series than the memory for identities holds';
    case writeDecoderProblem.tooManySymbols:
      return `more than ${symbolsMax} symbols`;
    case writeDecoderProblem.tooMuchText:
      return `labels of all series are longer than ${labelTextBytesMax} bytes`;
    case writeDecoderProblem.tooManyHistograms:
      return `more than ${histogramsMax} native histograms, or than ${histogramBytesMax} bytes of them`;
    default:
      return `snappy: ${snappyProblemText(problem, rawBytesMax)}`;
  }
}

export interface HistogramColumns {
  readonly count: number;
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  readonly timestampsMillis: BigInt64Array;
  /** Unix nanoseconds, 0 for none. */
  readonly startNanos: BigInt64Array;
  /** Ends of the typed values, one after the other; a bad one has an empty one. */
  readonly valueEnds: Uint32Array;
  readonly valueBytes: Uint8Array;
}

export interface ExemplarColumns {
  readonly count: number;
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  /** As `exemplarNanos` of engine/typed/exemplar.ts; 0 of a bad one. */
  readonly timestampNanos: BigInt64Array;
  /** Ends of the typed values, one after the other; a bad one has an empty one. */
  readonly valueEnds: Uint32Array;
  readonly valueBytes: Uint8Array;
  /** `exemplarProblem`, 0 for none. */
  readonly problems: Uint8Array;
  /** Further ones, for which there was no room. */
  readonly leftOutCount: number;
}

/** Of metric families in version 1, of series in version 2. */
export interface MetadataColumns {
  readonly count: number;
  /** Of version 2. */
  slot(row: number): number;
  generation(row: number): number;
  /** By the numbers of remote write; any word. */
  type(row: number): number;
  /** Texts of the request are named that are not there. */
  isUnresolved(row: number): boolean;
  /** Below 2^53: equal of equal metadata in one process. */
  hash(row: number): number;
  /** Texts as they came. Names are of version 1. */
  name(row: number): Uint8Array;
  help(row: number): Uint8Array;
  unit(row: number): Uint8Array;
  /** Further ones, for which there was no room. */
  readonly leftOutCount: number;
}

/** How lines are read. */
export interface LineOptions {
  /** A number of lines/layout.ts. */
  readonly format: number;
  /** Nothing comes behind the text, not even the rest of its last line. */
  readonly isLast: boolean;
  /** After so many rows no further line is read. */
  readonly rowsMax: number;
  /** Unit of times in the lines, and the time of a line that has none. */
  readonly unitNanos: bigint;
  readonly nowNanos: bigint;
}

/** Bad lines. */
export interface LineProblems {
  readonly count: number;
  /** The first `lineProblemsMax` of lines/layout.ts. */
  readonly listed: readonly LineProblem[];
}

export interface WriteDecoderCore {
  /**
   * Reads a body into rows.
   * @returns number of rows, or a problem: then no rows and no new series are kept
   */
  remoteWrite(body: Uint8Array, version?: RemoteWriteVersion): number;
  /**
   * Reads lines of a text into rows, as many as are written at once.
   * @returns how many bytes were read, or `writeDecoderProblem.noRoom`: then nothing is kept
   */
  lines(pieces: readonly Uint8Array[], options: LineOptions): number;
  /** Of what was read of the last text. */
  readonly lineProblems: LineProblems;
  readonly lineFeeds: number;
  /** Unit of the rows' times. */
  readonly timeUnitNanos: 1_000_000 | 1;
  /** Starts rows that `addRow` gives one by one. */
  beginRows(): void;
  /**
   * @param tags canonical
   * @returns 0, or `writeDecoderProblem.noRoom`: then none of the rows since `beginRows` are kept
   */
  addRow(tags: Uint8Array, timestampNanos: bigint, value: number): number;
  /** Slot of canonical tags, `oversizeSlot` for those that are not kept, or `writeDecoderProblem.noRoom`. */
  slotOf(tags: Uint8Array): number;
  /** Keeps the series of a slot until the next body; false when the slot is another one's, or nobody's. */
  use(slot: number, generation: number): boolean;
  /**
   * Adds a row after `beginRows`.
   * @param slot in use
   * @param timestampMillis whole, as startMillis, which is 0 for none
   * @param valueLow and `valueHigh`: words of the float64
   */
  addSample(
    slot: number,
    timestampMillis: number,
    valueLow: number,
    valueHigh: number,
    startMillis: number,
  ): void;
  /**
   * Adds rows after `beginRows`, up to the first one whose slot is another one's by now, or nobody's: the others are in use.
   * @returns how many
   */
  addPackedSamples(packed: Uint8Array): number;
  /**
   * Adds a row after `beginRows`, at so many nanoseconds after whole seconds, which are in 64 bits of nanoseconds.
   * @param slot in use
   * @param value any number; NaN has no bits of its own
   */
  addSampleAt(slot: number, seconds: number, nanos: number, value: number): void;
  /**
   * Adds a native histogram after `beginRows`.
   * @param message of remote write 2
   * @returns why it is none that can be stored, and was not added; null when it was
   */
  addHistogram(slot: number, message: Uint8Array): string | null;
  /** After rows of `addSample` and `addHistogram`, which have milliseconds. */
  endRows(): void;
  /** After rows of `addSampleAt`: in milliseconds when none is finer. */
  endRowsInNanos(): void;
  /** Rows of the last body; views until the next one. */
  readonly rowCount: number;
  readonly rowSlots: Uint32Array;
  /** Generation of the row's slot. */
  readonly rowGenerations: Uint32Array;
  readonly rowTimestamps: BigInt64Array;
  readonly rowValues: Float64Array;
  /** Unix nanoseconds, 0 for none; null when the body has no start times of samples. */
  readonly rowStartNanos: BigInt64Array | null;
  /** Some of the rows, histograms or exemplars are of `oversizeSlot`, `namelessSlot` or `unresolvedSlot`. */
  readonly hasOversizeRows: boolean;
  /** Native histograms of the last body; views until the next one. */
  readonly histograms: HistogramColumns;
  /** Why one of these is bad. To be asked for before tags are. */
  histogramProblem(row: number): string;
  /** Of the first series of the last body that has no metric name, in version 2; 0 for none. */
  readonly firstNamelessSlot: number;
  /** Exemplars of the last body; views until the next one. */
  readonly exemplars: ExemplarColumns;
  /** Of the last body, until the next one. Texts are to be asked for before tags of many slots are. */
  readonly metadata: MetadataColumns;
  /** Slots that the last body gave to new series, each once. */
  readonly newSlots: Uint32Array;
  /**
   * Judges the new series about which there is no doubt: paths, which get ID scheme and hash of their own scheme, and with
   * `plainQuoted` those with names that are well-formed, not reserved and each once, and values of printable ASCII without
   * quotes and backslashes, which get those of the quoted scheme.
   * @returns how many are left; these stand first in `newSlots` now
   */
  judgePlain(plainQuoted: boolean): number;
  /** Takes the new slots away again. */
  forgetNew(): void;
  /** By slot; the views hold until the next body. */
  readonly idHash: Uint32Array;
  readonly generation: Uint32Array;
  readonly refused: Uint8Array;
  readonly idScheme: Uint8Array;
  /** View of the canonical tags until the next call; empty for a slot without a series. */
  tags(slot: number): Uint8Array;
  /** Their length, without a view. */
  tagBytes(slot: number): number;
  /**
   * A copy of the canonical tags of many slots, one after the other, with the end of each. Rows of
   * the last body stay.
   */
  tagsOfAll(slots: Uint32Array): { tags: Uint8Array; ends: Uint32Array };
  /** Live series. */
  readonly seriesCount: number;
  /** Bytes that were touched so far, or an estimate. */
  readonly memoryBytes: number;
}
