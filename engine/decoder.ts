/**
 * Decodes a series of a bundle into columns: all its chunks merged in time order, every timestamp once.
 */
import type { SeriesBundle } from './series_bundle.ts';
import { mergeChunks } from './decoder_twin.ts';

export class Decoder {
  /** Floor of Unix milliseconds. */
  timestampMillis: Float64Array;
  timestampNanos: BigInt64Array;
  values: Float64Array;
  /** The bytes of `values`, two words a row (low, high): a stale marker is compared by bits. */
  valueWords: Uint32Array;

  constructor() {
    this.timestampMillis = new Float64Array(0);
    this.timestampNanos = new BigInt64Array(0);
    this.values = new Float64Array(0);
    this.valueWords = new Uint32Array(0);
  }

  /**
   * Decodes series `index`: rows in [startNanos, endNanos) in ascending time. Of rows with one timestamp
   * the one with the higher version stays, on equal versions the one with the larger value bits. The
   * columns hold the rows until the next call and may be longer than the row count.
   * @returns the row count
   * @throws {TsdbError} BAD_REQUEST when a chunk is malformed
   */
  decode(bundle: SeriesBundle, index: number, startNanos: bigint, endNanos: bigint): number {
    const rows = mergeChunks(
      bundle.chunkData.subarray(bundle.chunkOffset[index]!, bundle.chunkOffset[index + 1]!),
      startNanos,
      endNanos,
    );
    this.timestampNanos = rows.timestampNanos;
    this.values = rows.values;
    this.valueWords = new Uint32Array(
      rows.values.buffer,
      rows.values.byteOffset,
      rows.values.length * 2,
    );
    this.timestampMillis = Float64Array.from(rows.timestampNanos, (nanos) =>
      Number((nanos - (((nanos % 1_000_000n) + 1_000_000n) % 1_000_000n)) / 1_000_000n),
    );
    return rows.timestampNanos.length;
  }
}
