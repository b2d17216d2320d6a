/**
 * What a write decoder's machine does, below the checks in write_decoder.ts: the kernel (kernel.ts)
 * and its plain twin (write_decoder_twin.ts), which a fuzz holds equal.
 */
import { snappyProblemText } from './snappy.ts';

/** Longest body as it comes, compressed. */
export const bodyBytesMax: number = 38 * 1024 * 1024;
/** Longest body when uncompressed. */
export const rawBytesMax: number = 32 * 1024 * 1024;
/** Most samples of one body. */
export const writeDecoderRowsMax: number = 1 << 20;

/** Series with more tags are refused. */
export const tagsCountMax = 1024;

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

/** Slot of every series whose tags cannot be kept: too many or too long. It is always refused. */
export const oversizeSlot = 0;

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

export interface WriteDecoderCore {
  /**
   * Reads a body into rows.
   * @returns number of rows, or a problem: then no rows and no new series are kept
   */
  remoteWrite(body: Uint8Array, version?: RemoteWriteVersion): number;
  /** Starts rows that `addRow` gives one by one. */
  beginRows(): void;
  /**
   * @param tags canonical
   * @returns 0, or `writeDecoderProblem.noRoom`: then none of the rows since `beginRows` are kept
   */
  addRow(tags: Uint8Array, timestampNanos: bigint, value: number): number;
  /** Rows of the last body; views until the next one. */
  readonly rowCount: number;
  readonly rowSlots: Uint32Array;
  /** Generation of the row's slot. */
  readonly rowGenerations: Uint32Array;
  readonly rowTimestamps: BigInt64Array;
  readonly rowValues: Float64Array;
  /** Unix nanoseconds, 0 for none; null when the body has no start times of samples. */
  readonly rowStartNanos: BigInt64Array | null;
  /** Some of the rows, or of the histograms, are of `oversizeSlot`. */
  readonly hasOversizeRows: boolean;
  /** Native histograms of the last body; views until the next one. */
  readonly histograms: HistogramColumns;
  /** Why one of these is bad. To be asked for before tags are. */
  histogramProblem(row: number): string;
  /** Slots that the last body gave to new series, each once. */
  readonly newSlots: Uint32Array;
  /**
   * Judges the new series about which there is no doubt: names well-formed, not reserved and each
   * once, values printable ASCII without quotes and backslashes. They get ID scheme and hash of the
   * quoted scheme.
   * @returns how many are left; these stand first in `newSlots` now
   */
  judgePlainQuoted(): number;
  /** Takes the new slots away again. */
  forgetNew(): void;
  /** By slot; the views hold until the next body. */
  readonly idHash: Uint32Array;
  readonly generation: Uint32Array;
  readonly refused: Uint8Array;
  readonly idScheme: Uint8Array;
  /** View of the canonical tags until the next call; empty for a slot without a series. */
  tags(slot: number): Uint8Array;
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
