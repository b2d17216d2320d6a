/**
 * Decodes a series of a bundle into columns: all its chunks merged in time order, every timestamp
 * once.
 */
import { assert } from '#lib/assert.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import type { SeriesBundle } from '../codec/series_bundle.ts';
import {
  clampInt64,
  loadStoreKernel,
  wasmPageBytes,
  wasmPagesMin,
  type LoadedStoreKernel,
} from './kernel.ts';
import type { StoreExports } from './store_exports.ts';

/** Rows of one series before they are merged: more are refused. */
const decodeRowsMax = 1 << 24;
const memoryBytesMax = 2 ** 30;
/** The chunks lie here, the work space after them. */
const chunksAt = (wasmPagesMin - 1) * wasmPageBytes;
/** Room after the chunks for loads beyond their end, and for the addresses of the columns. */
const slackBytes = 256;

/** Memories of disposed decoders that wait for the next ones. */
const pool: LoadedStoreKernel[] = [];
const poolCountMax = 8;
/** A memory that has grown beyond this is let go of. */
const pooledBytesMax = 32 << 20;

/**
 * A decoder has a memory of its own, from 3 MiB, which takes a millisecond to make: keep the
 * decoder, or say `using`, then the next one takes over the memory. The columns are gone with it.
 */
export class Decoder implements Disposable {
  /** Floor of Unix milliseconds. */
  timestampMillis: Float64Array;
  timestampNanos: BigInt64Array;
  values: Float64Array;
  /** The bytes of `values`, two words a row (low, high): a stale marker is compared by bits. */
  valueWords: Uint32Array;

  readonly #memory: WebAssembly.Memory;
  readonly #kernel: StoreExports;
  #input: Uint8Array;
  #answers: Uint32Array;
  /** Room for so many rows and chunks; it lies at the same place until it must grow. */
  #rowCapacity: number;
  #chunkCapacity: number;
  /** Addresses of the columns that are views now. */
  #millisAt: number;
  #nanosAt: number;
  #valuesAt: number;
  #isDisposed: boolean;

  constructor() {
    const { memory, kernel } = pool.pop() ?? loadStoreKernel(memoryBytesMax);
    this.#memory = memory;
    this.#kernel = kernel;
    this.#input = new Uint8Array(0);
    this.#answers = new Uint32Array(0);
    this.#rowCapacity = 0;
    this.#chunkCapacity = 0;
    this.#millisAt = 0;
    this.#nanosAt = 0;
    this.#valuesAt = 0;
    this.#isDisposed = false;
    this.timestampMillis = new Float64Array(0);
    this.timestampNanos = new BigInt64Array(0);
    this.values = new Float64Array(0);
    this.valueWords = new Uint32Array(0);
    this.#makeRoom(4096, 1024, 64);
  }

  /**
   * Decodes series `index`: rows in [startNanos, endNanos) in ascending time. Of rows with one
   * timestamp the one with the higher version stays, on equal versions the one with the larger
   * value bits. The columns hold the rows until the next call, in memory of the decoder; they may
   * be longer.
   * @returns the row count
   * @throws {TsdbError} BAD_REQUEST when a chunk is malformed, RESOURCE_EXHAUSTED when the series
   *   has more than 16 million rows in the range
   */
  decode(bundle: SeriesBundle, index: number, startNanos: bigint, endNanos: bigint): number {
    assert(!this.#isDisposed, 'a decoder is not used after its end');
    const [start, end] = [clampInt64(startNanos), clampInt64(endNanos)];
    const offset = bundle.chunkOffset[index]!;
    const length = bundle.chunkOffset[index + 1]! - offset;
    if (length > this.#input.length) this.#makeRoom(length, this.#rowCapacity, this.#chunkCapacity);
    this.#input.set(bundle.chunkData.subarray(offset, offset + length));

    const chunkCount = this.#kernel.scanChunks(chunksAt, chunksAt + length, start, end);
    if (chunkCount === -1) throw malformed(index);
    const rowsBefore = this.#kernel.answer();
    if (rowsBefore > decodeRowsMax) {
      throw new TsdbError(
        'RESOURCE_EXHAUSTED',
        `cannot decode series: it has more than ${decodeRowsMax} rows in the range: ${rowsBefore}`,
      );
    }
    if (rowsBefore > this.#rowCapacity || chunkCount > this.#chunkCapacity) {
      this.#makeRoom(this.#input.length, rowsBefore, chunkCount);
    }
    const rows = this.#kernel.decodeChunks(
      chunksAt,
      chunksAt + length,
      start,
      end,
      this.#rowCapacity,
      this.#chunkCapacity,
      this.#answers.byteOffset + 64,
      this.#answers.byteOffset,
      0,
    );
    if (rows === -1) throw malformed(index);
    this.#showColumns();
    return rows;
  }

  [Symbol.dispose](): void {
    const empty = new ArrayBuffer(0);
    this.timestampMillis = new Float64Array(empty);
    this.timestampNanos = new BigInt64Array(empty);
    this.values = new Float64Array(empty);
    this.valueWords = new Uint32Array(empty);
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    if (pool.length < poolCountMax && this.#memory.buffer.byteLength <= pooledBytesMax) {
      pool.push({ memory: this.#memory, kernel: this.#kernel });
    }
  }

  /**
   * Views are made again only when the columns are elsewhere: making them costs as much as many
   * rows.
   */
  #showColumns(): void {
    const [millisAt, nanosAt, valuesAt] = [this.#answers[0]!, this.#answers[1]!, this.#answers[2]!];
    const { buffer } = this.#memory;
    // The rows of the range may begin after the begin of the column.
    const rowFirst = this.#answers[3]!;
    const rows = this.#rowCapacity - rowFirst;
    if (millisAt !== this.#millisAt) {
      this.#millisAt = millisAt;
      this.timestampMillis = new Float64Array(buffer, millisAt, rows);
    }
    if (nanosAt !== this.#nanosAt) {
      this.#nanosAt = nanosAt;
      this.timestampNanos = new BigInt64Array(buffer, nanosAt, rows);
    }
    if (valuesAt !== this.#valuesAt) {
      this.#valuesAt = valuesAt;
      this.values = new Float64Array(buffer, valuesAt, rows);
      this.valueWords = new Uint32Array(buffer, valuesAt, rows * 2);
    }
  }

  /** Room for so much at least, twice as much as before when it grows. Keeps the chunks. */
  #makeRoom(chunkBytes: number, rows: number, chunks: number): void {
    const inputBytes =
      chunkBytes > this.#input.length
        ? Math.max(chunkBytes, 2 * this.#input.length)
        : this.#input.length;
    const doubled = (needed: number, before: number, most: number) =>
      needed > before ? Math.max(needed, Math.min(2 * before, most)) : before;
    this.#rowCapacity = doubled(rows, this.#rowCapacity, decodeRowsMax);
    this.#chunkCapacity = doubled(chunks, this.#chunkCapacity, decodeRowsMax);
    const answersAt = (chunksAt + inputBytes + slackBytes + 63) & ~63;
    const workBytes = this.#kernel.decodeBytes(this.#rowCapacity, this.#chunkCapacity);
    const bytes = answersAt + 64 + workBytes + wasmPageBytes;
    if (bytes > memoryBytesMax) {
      this.#rowCapacity = 0;
      this.#chunkCapacity = 0;
      throw new TsdbError('RESOURCE_EXHAUSTED', 'cannot decode series: it is too large to decode');
    }
    const missing = bytes - this.#memory.buffer.byteLength;
    if (missing > 0) this.#memory.grow(Math.ceil(missing / wasmPageBytes));
    const { buffer } = this.#memory;
    this.#input = new Uint8Array(buffer, chunksAt, inputBytes);
    this.#answers = new Uint32Array(buffer, answersAt, 4);
    // What lay at these addresses before may be shorter.
    this.#millisAt = 0;
    this.#nanosAt = 0;
    this.#valuesAt = 0;
  }
}

function malformed(index: number): TsdbError {
  return badRequest(`cannot decode series: a chunk is malformed: series ${index} of the bundle`);
}
