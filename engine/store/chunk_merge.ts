/**
 * Merges the chunks of one series from several sources, as a flush of late rows and a repair do,
 * cuts one by time, and gives the rows of one.
 */
import { badRequest, TsdbError } from '#lib/errors.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { chunkKind, decodeRawChunk, parseChunkHeader, type ChunkRows } from '../codec/chunk.ts';
import { decodeRowsChunk } from '../codec/chunk_rows.ts';
import { loadStoreKernel, wasmPageBytes, wasmPagesMin, type LoadedStoreKernel } from './kernel.ts';

/** Rows of one series and block before they are merged: more are refused. */
const mergeRowsMax = 1 << 22;
const memoryBytesMax = 2 ** 30;
const chunksAt = (wasmPagesMin - 1) * wasmPageBytes;
/** Room after each region for loads and stores beyond its end. */
const slackBytes = 256;
/** A memory that has grown beyond this is let go of. */
const keptBytesMax = 32 << 20;
const int64Min = -(2n ** 63n);
const int64Max = 2n ** 63n - 1n;

/** Made at the first call; merging takes nothing from one call to the next. */
let workshop: LoadedStoreKernel | null = null;

/**
 * Merges chunks of one series and one block, in whatever order they come: long chunks in ascending
 * time, every time once. Of rows with one timestamp the one with the higher version stays, on equal
 * versions the one with the larger value bits. The result has the version of each row (kind float
 * lags) when one of the chunks is of that kind, or when asked; else each of its chunks has the
 * highest one for all of its rows.
 * @throws {TsdbError} BAD_REQUEST when a chunk is malformed, RESOURCE_EXHAUSTED when there are more
 *   than four million rows
 */
export function mergeChunks(
  parts: readonly Uint8Array[],
  keepsRowVersions: boolean = false,
): Uint8Array {
  const { kernel, end, rowCount, chunkCount, work, out } = takeIn(parts);
  if (keepsRowVersions) kernel.setKeepsRowVersions(1);
  return handOut(out, kernel.mergeChunks(chunksAt, end, rowCount, chunkCount, work, out));
}

/**
 * The rows of a chunk with a time in [startNanos, endNanos), as chunks; nothing when there is none.
 * They are of its kind, or, of one that is not compressed, of kind float.
 * @throws {TsdbError} as `mergeChunks()`
 */
export function keepRows(chunk: Uint8Array, startNanos: bigint, endNanos: bigint): Uint8Array {
  const { kernel, end, work, out } = takeIn([chunk]);
  return handOut(out, kernel.keepRows(chunksAt, end, startNanos, endNanos, work, out));
}

/**
 * Rows of one chunk of any kind, each with its version; fresh columns.
 * @throws {TsdbError} BAD_REQUEST when it is malformed
 */
export function decodeChunk(chunk: Uint8Array): Required<ChunkRows> {
  const header = parseChunkHeader(chunk, 0, chunk.length);
  if (header.kind === chunkKind.rawFloat) return decodeRawChunk(chunk, header);
  if (header.kind === chunkKind.rows) return decodeRowsChunk(chunk, header);
  const { rowCount, version } = header;
  const { kernel, end, work, out } = takeIn([chunk]);
  const args = [chunksAt, end, int64Min, int64Max, rowCount, 1, work, out, 1] as const;
  if (kernel.decodeChunks(...args) !== rowCount) throw malformedPart();
  const { buffer } = workshop!.memory;
  const [, nanosAt, valuesAt, , lagsAt] = new Uint32Array(buffer, out, 5);
  const timestampNanos = new BigInt64Array(buffer, nanosAt, rowCount).slice();
  const lag = new BigInt64Array(buffer, out + 24, 1)[0]!;
  const lags = lagsAt === 0 ? null : new BigInt64Array(buffer, lagsAt, rowCount);
  return {
    timestampNanos,
    values: new Float64Array(buffer, valuesAt, rowCount).slice(),
    version,
    rowVersions: Float64Array.from(timestampNanos, (nanos, row) =>
      Number(versionAtNanos(nanos) + (lags?.[row] ?? lag)),
    ),
  };
}

/** Copies chunks into the kernel's memory, checks their headers, and makes room for their rows. */
function takeIn(parts: readonly Uint8Array[]) {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  if (length > memoryBytesMax >> 2) throw tooLarge();
  workshop ??= loadStoreKernel(memoryBytesMax);
  const { memory, kernel } = workshop;
  reserve(memory, chunksAt + length + slackBytes);
  let end = chunksAt;
  for (const part of parts) {
    new Uint8Array(memory.buffer, end, part.length).set(part);
    end += part.length;
  }
  const chunkCount = kernel.scanChunks(chunksAt, end, int64Min, int64Max);
  if (chunkCount === -1) throw malformedPart();
  const rowCount = kernel.answer();
  if (rowCount > mergeRowsMax) throw tooLarge();
  const work = aligned(end + slackBytes);
  const out = aligned(work + kernel.decodeBytes(rowCount, chunkCount) + slackBytes);
  reserve(memory, out + kernel.mergedBytesMax(rowCount) + slackBytes);
  return { kernel, end, rowCount, chunkCount, work, out };
}

/** @param end of the chunks that the kernel has made, 0 when it could not */
function handOut(out: number, end: number): Uint8Array {
  if (end === 0) throw malformedPart();
  const { memory } = workshop!;
  const chunks = new Uint8Array(memory.buffer, out, end - out).slice();
  if (memory.buffer.byteLength > keptBytesMax) workshop = null;
  return chunks;
}

function aligned(address: number): number {
  return Math.ceil(address / 64) * 64;
}

function reserve(memory: WebAssembly.Memory, bytes: number): void {
  if (bytes > memoryBytesMax) throw tooLarge();
  const missing = bytes - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / wasmPageBytes));
}

function malformedPart(): TsdbError {
  return badRequest('cannot merge, cut or read chunks: a chunk is malformed');
}

function tooLarge(): TsdbError {
  return new TsdbError(
    'RESOURCE_EXHAUSTED',
    `cannot merge, cut or read chunks: they have more than ${mergeRowsMax} rows`,
  );
}
