/**
 * Decodes a series of a bundle into columns: all its chunks merged in time order, every timestamp once.
 */
import { assert } from '#lib/assert.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import type { SeriesBundle } from './series_bundle.ts';
import {
  clampInt64,
  loadStoreKernel,
  wasmPageBytes,
  wasmPagesMin,
  type StoreKernel,
} from './store_kernel.ts';

/** Rows of one series before they are merged: more are refused. */
const decodeRowsMax = 1 << 24;
const memoryBytesMax = 2 ** 30;
/** The chunks lie here, the work space behind them. */
const chunksAt = (wasmPagesMin - 1) * wasmPageBytes;
/** Room behind the chunks for loads beyond their end, and for the addresses of the columns. */
const slackBytes = 256;

export class Decoder {
  /** Floor of Unix milliseconds. */
  timestampMillis: Float64Array;
  timestampNanos: BigInt64Array;
  values: Float64Array;
  /** The bytes of `values`, two words a row (low, high): a stale marker is compared by bits. */
  valueWords: Uint32Array;

  readonly #memory: WebAssembly.Memory;
  readonly #kernel: StoreKernel;

  constructor() {
    const { memory, kernel } = loadStoreKernel(memoryBytesMax);
    this.#memory = memory;
    this.#kernel = kernel;
    this.timestampMillis = new Float64Array(0);
    this.timestampNanos = new BigInt64Array(0);
    this.values = new Float64Array(0);
    this.valueWords = new Uint32Array(0);
  }

  /**
   * Decodes series `index`: rows in [startNanos, endNanos) in ascending time. Of rows with one timestamp
   * the one with the higher version stays, on equal versions the one with the larger value bits. The
   * columns hold the rows until the next call, in memory of the decoder.
   * @returns the row count, which is the length of the columns
   * @throws {TsdbError} BAD_REQUEST when a chunk is malformed, RESOURCE_EXHAUSTED when the series has more
   *   than 16 million rows in the range
   */
  decode(bundle: SeriesBundle, index: number, startNanos: bigint, endNanos: bigint): number {
    const [start, end] = [clampInt64(startNanos), clampInt64(endNanos)];
    const offset = bundle.chunkOffset[index]!;
    const offsetEnd = bundle.chunkOffset[index + 1]!;
    const chunksEnd = chunksAt + offsetEnd - offset;
    this.#grow(chunksEnd + slackBytes);
    const bytes = new Uint8Array(this.#memory.buffer, chunksAt, offsetEnd - offset + slackBytes);
    bytes.set(bundle.chunkData.subarray(offset, offsetEnd));

    const chunkCount = this.#kernel.scanChunks(chunksAt, chunksEnd, start, end);
    if (chunkCount === -1) throw malformed(index);
    const rowsBefore = this.#kernel.answer();
    if (rowsBefore > decodeRowsMax) {
      throw new TsdbError(
        'RESOURCE_EXHAUSTED',
        `cannot decode series: it has more than ${decodeRowsMax} rows in the range: ${rowsBefore}`,
      );
    }
    const answers = (chunksEnd + 127) & ~63;
    const work = answers + 64;
    this.#grow(work + this.#kernel.decodeBytes(rowsBefore, chunkCount));
    const rows = this.#kernel.decodeChunks(
      chunksAt,
      chunksEnd,
      start,
      end,
      rowsBefore,
      chunkCount,
      work,
      answers,
    );
    if (rows === -1) throw malformed(index);
    const { buffer } = this.#memory;
    const [millis, nanos, values] = new Uint32Array(buffer, answers, 3);
    this.timestampMillis = new Float64Array(buffer, millis, rows);
    this.timestampNanos = new BigInt64Array(buffer, nanos, rows);
    this.values = new Float64Array(buffer, values, rows);
    this.valueWords = new Uint32Array(buffer, values, rows * 2);
    return rows;
  }

  #grow(bytes: number): void {
    const missing = bytes + wasmPageBytes - this.#memory.buffer.byteLength;
    if (missing <= 0) return;
    const pages = Math.ceil(missing / wasmPageBytes);
    assert(bytes + 2 * wasmPageBytes < memoryBytesMax, 'a series fits into the decoder');
    this.#memory.grow(pages);
  }
}

function malformed(index: number): TsdbError {
  return badRequest(`cannot decode series: a chunk is malformed: series ${index} of the bundle`);
}
