/**
 * A kernel's memory for work on the chunks of one series: they are copied in, the kernel works on
 * them, and what it has made is copied out.
 */
import { badRequest, TsdbError } from '#lib/errors.ts';
import {
  clampInt64,
  loadStoreKernel,
  wasmPageBytes,
  wasmPagesMin,
  type LoadedStoreKernel,
} from './kernel.ts';
import type { StoreExports } from './store_exports.ts';

/** Rows of one series and block before they are merged: more are refused. */
const workRowsMax = 1 << 22;
const memoryBytesMax = 2 ** 30;
/** Address of the chunks. */
export const chunksAt: number = (wasmPagesMin - 1) * wasmPageBytes;
/** Room after each region for loads and stores beyond its end. */
const slackBytes = 256;
/** Of a deletion. */
const cutBytes = 24;
/** A memory that has grown beyond this is let go of. */
const keptBytesMax = 32 << 20;

/** Start and end in nanoseconds, the end left out: of all rows that a store takes. */
export const allTimes: readonly [startNanos: bigint, endNanos: bigint] = [
  -(2n ** 63n),
  2n ** 63n - 1n,
];

/** A deletion: of rows with a time in [startNanos, endNanos) those with a version up to this one go. */
export interface RowCut {
  readonly startNanos: bigint;
  readonly endNanos: bigint;
  readonly version: number;
}

/** Chunks that were taken in; all are addresses but the counts. */
export interface TakenIn {
  readonly kernel: StoreExports;
  readonly end: number;
  readonly rowCount: number;
  readonly chunkCount: number;
  /** Work space for the rows. */
  readonly work: number;
  readonly out: number;
}

/** The same of typed chunks. */
export interface TakenTyped {
  readonly kernel: StoreExports;
  readonly end: number;
  readonly rowCount: number;
  /** Of all values. */
  readonly valueBytes: number;
  readonly work: number;
  readonly out: number;
}

export class ChunkWorkshop {
  /** Made at the first call. */
  #loaded: LoadedStoreKernel | null = null;

  /** The memory, until the next call. */
  get buffer(): ArrayBuffer {
    return this.#loaded!.memory.buffer;
  }

  /**
   * Copies chunks in, checks their headers, and makes room for the rows of those that overlap the
   * range.
   * @param outBytes room for what is made of so many rows
   * @throws {TsdbError} BAD_REQUEST when a chunk is malformed, RESOURCE_EXHAUSTED when there are
   *   more than four million rows
   */
  takeIn(
    parts: readonly Uint8Array[],
    [startNanos, endNanos]: readonly [bigint, bigint],
    outBytes: (kernel: StoreExports, rowCount: number) => number,
  ): TakenIn {
    const { memory, kernel, end } = this.#copyIn(parts);
    const chunkCount = kernel.scanChunks(chunksAt, end, startNanos, endNanos);
    if (chunkCount === -1) throw malformedPart();
    const rowCount = kernel.answer();
    if (rowCount > workRowsMax) throw tooLarge();
    const work = aligned(end + slackBytes);
    const out = aligned(work + kernel.mergeBytes(rowCount, chunkCount) + slackBytes);
    reserve(memory, out + outBytes(kernel, rowCount) + slackBytes);
    return { kernel, end, rowCount, chunkCount, work, out };
  }

  /**
   * `takeIn` of typed chunks, which are read whole.
   * @param outBytes room besides that for the chunks that they become
   * @returns null when they have more values than can be merged
   * @throws {TsdbError} BAD_REQUEST when one is malformed
   */
  takeInTyped(
    chunks: readonly Uint8Array[],
    [startNanos, endNanos]: readonly [bigint, bigint],
    outBytes: number,
  ): TakenTyped | null {
    const { memory, kernel, end } = this.#copyIn(chunks);
    const answers = aligned(end + slackBytes);
    const work = answers + 64;
    reserve(memory, work + kernel.typedMeasureBytes.value + slackBytes);
    const found = kernel.measureTyped(chunksAt, end, startNanos, endNanos, work, answers);
    if (found === 0) throw malformedPart();
    if (found === 2) return null;
    const [rowCount, fields, valueBytes] = new Float64Array(
      memory.buffer,
      answers,
      3,
    ) as unknown as [number, number, number];
    const out = aligned(work + kernel.typedWorkBytes(rowCount, valueBytes) + slackBytes);
    const room = kernel.typedOutBytes(rowCount, fields, valueBytes) + outBytes;
    reserve(memory, out + room + slackBytes);
    return { kernel, end, rowCount, valueBytes, work, out };
  }

  /** Bytes that `putCuts` takes. */
  roomForCuts(cuts: readonly RowCut[]): number {
    return aligned(cuts.length * cutBytes);
  }

  /** Puts deletions there, as the kernel takes them; the room for what is made begins after them. */
  putCuts(at: number, cuts: readonly RowCut[]): { readonly cutsAt: number; readonly out: number } {
    const words = new BigInt64Array(this.buffer, at, 3 * cuts.length);
    cuts.forEach(({ startNanos, endNanos, version }, i) => {
      words.set([clampInt64(startNanos), clampInt64(endNanos), BigInt(version)], 3 * i);
    });
    return { cutsAt: at, out: at + this.roomForCuts(cuts) };
  }

  #copyIn(parts: readonly Uint8Array[]): LoadedStoreKernel & { readonly end: number } {
    const length = parts.reduce((sum, part) => sum + part.length, 0);
    if (length > memoryBytesMax >> 2) throw tooLarge();
    const { memory, kernel } = (this.#loaded ??= loadStoreKernel(memoryBytesMax));
    reserve(memory, chunksAt + length + slackBytes);
    let end = chunksAt;
    for (const part of parts) {
      new Uint8Array(memory.buffer, end, part.length).set(part);
      end += part.length;
    }
    return { memory, kernel, end };
  }

  /** A copy of what was made. @param end of it, 0 when the kernel could not make it */
  handOut(out: number, end: number): Uint8Array {
    if (end === 0) throw malformedPart();
    const made = new Uint8Array(this.buffer, out, end - out).slice();
    this.tidy();
    return made;
  }

  /** Lets go of a memory that has grown large. */
  tidy(): void {
    if (this.buffer.byteLength > keptBytesMax) this.#loaded = null;
  }
}

export function malformedPart(): TsdbError {
  return badRequest('cannot merge, cut or read chunks: a chunk is malformed');
}

function aligned(address: number): number {
  return Math.ceil(address / 64) * 64;
}

function reserve(memory: WebAssembly.Memory, bytes: number): void {
  if (bytes > memoryBytesMax) throw tooLarge();
  const missing = bytes - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / wasmPageBytes));
}

function tooLarge(): TsdbError {
  return new TsdbError(
    'RESOURCE_EXHAUSTED',
    `cannot merge, cut or read chunks: they have more than ${workRowsMax} rows`,
  );
}
