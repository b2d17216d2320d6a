/**
 * Merges the chunks of one series from several sources, as a flush of late rows and a repair do,
 * cuts one by time, and gives the rows of one.
 */
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import {
  chunkKind,
  decodeRawChunk,
  kindsFloat,
  parseChunkHeader,
  type ChunkRows,
} from '../codec/chunk.ts';
import { decodeRowsChunk } from '../codec/chunk_rows.ts';
import { apart, cutTyped, hasTyped, mergeTyped } from './typed_chunks.ts';
import { allTimes, ChunkWorkshop, chunksAt, malformedPart, type RowCut } from './workshop.ts';

export type { RowCut } from './workshop.ts';

/** Of what the kernel says of decoded rows. */
const answerBytes = 64;

/** Made of nothing at the first call; merging takes nothing from one call to the next. */
const workshop = new ChunkWorkshop();

/**
 * Merges chunks of one series and one block, in whatever order they come: long chunks in ascending
 * time, every time once. Of rows with one timestamp the one with the higher version stays, on equal
 * versions the one with the larger value bits, then the later start time. The result has the version
 * of each row (kinds float lags and float starts) when one of the chunks is of such a kind, or when
 * asked; else each of its chunks has the highest one for all of its rows. Chunks of typed rows are merged by
 * themselves, and come after the others.
 * @throws {TsdbError} BAD_REQUEST when a chunk is malformed, RESOURCE_EXHAUSTED when there are more
 *   than four million rows
 */
export function mergeChunks(
  parts: readonly Uint8Array[],
  keepsRowVersions: boolean = false,
): Uint8Array {
  if (hasTyped(parts)) {
    const { floats, typed } = apart(parts);
    const merged = floats.length === 0 ? [] : [mergeChunks(floats, keepsRowVersions)];
    return new Uint8Array(Buffer.concat([...merged, mergeTyped(typed, allTimes)]));
  }
  const { kernel, end, rowCount, chunkCount, work, out } = takeIn(parts);
  if (keepsRowVersions) kernel.setKeepsRowVersions(1);
  return workshop.handOut(out, kernel.mergeChunks(chunksAt, end, rowCount, chunkCount, work, out));
}

/**
 * The rows of a chunk with a time in [startNanos, endNanos), as chunks; nothing when there is none.
 * They are of its kind, or, of one that is not compressed, of kind float, or float lags where its rows have versions of
 * their own: others of the series may have rewritten some of them.
 * @throws {TsdbError} as `mergeChunks()`
 */
export function keepRows(chunk: Uint8Array, startNanos: bigint, endNanos: bigint): Uint8Array {
  if (hasTyped([chunk])) return mergeTyped([chunk], [startNanos, endNanos]);
  const { kernel, end, work, out } = takeIn([chunk]);
  if (parseChunkHeader(chunk, 0, chunk.length, kindsFloat).hasRowVersions)
    kernel.setKeepsRowVersions(1);
  return workshop.handOut(out, kernel.keepRows(chunksAt, end, startNanos, endNanos, work, out));
}

/**
 * The rows of a chunk that no deletion covers, as chunks: the very bytes when these are all, nothing when there is none.
 * @param chunk compressed, of a kind that keeps the version of each row
 * @throws {TsdbError} as `mergeChunks()`
 */
export function cutRows(chunk: Uint8Array, cuts: readonly RowCut[]): Uint8Array {
  if (hasTyped([chunk])) return cutTyped(chunk, cuts);
  const taken = workshop.takeIn(
    [chunk],
    allTimes,
    (kernel, rowCount) => workshop.roomForCuts(cuts) + kernel.mergedBytesMax(rowCount),
  );
  const { kernel, end, work } = taken;
  const { cutsAt, out } = workshop.putCuts(taken.out, cuts);
  const keptEnd = kernel.cutRows(chunksAt, end, cutsAt, cuts.length, work, out);
  const isWhole = keptEnd !== 0 && kernel.answer() === 0;
  const kept = workshop.handOut(out, keptEnd);
  return isWhole ? chunk : kept;
}

/** Rows, each with its version. */
export interface DecodedRows extends Required<ChunkRows> {
  /** Unix nanoseconds, 0 for none; null when no row has any. */
  readonly startNanos: BigInt64Array | null;
}

/**
 * Rows of one chunk of any kind of floats; fresh columns.
 * @throws {TsdbError} BAD_REQUEST when it is malformed
 */
export function decodeChunk(chunk: Uint8Array): DecodedRows {
  const header = parseChunkHeader(chunk, 0, chunk.length, kindsFloat);
  if (header.kind === chunkKind.rawFloat) {
    return { ...decodeRawChunk(chunk, header), startNanos: null };
  }
  if (header.kind === chunkKind.rows) {
    return { ...decodeRowsChunk(chunk, header), startNanos: null };
  }
  const { rowCount, version } = header;
  const { kernel, end, work, out } = takeIn([chunk]);
  const args = [chunksAt, end, ...allTimes, rowCount, 1, work, out, 1] as const;
  if (kernel.decodeChunks(...args) !== rowCount) throw malformedPart();
  const { buffer } = workshop;
  const [, nanosAt, valuesAt, , lagsAt, startsAt] = new Uint32Array(buffer, out, 6);
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
    startNanos: startsAt === 0 ? null : new BigInt64Array(buffer, startsAt, rowCount).slice(),
  };
}

/** Floats in ascending time, every time once, as columns of their own. */
export interface ReadFloatRows {
  readonly timestampNanos: BigInt64Array;
  readonly values: Float64Array;
  /** From a row's time to its version, in 1/64 milliseconds. */
  readonly lags: BigInt64Array;
  /** Unix nanoseconds, 0 for none; null when no row has any. */
  readonly startNanos: BigInt64Array | null;
}

/** The same in memory of the workshop: views until it is used again. */
export interface BorrowedFloatRows {
  readonly timestampNanos: BigInt64Array;
  readonly values: Float64Array;
  /** Those of each, or the one that all have. */
  readonly lags: BigInt64Array | bigint;
  readonly startNanos: BigInt64Array | null;
}

/**
 * Rows with a time in the range, of chunks of floats.
 * @throws {TsdbError} as `mergeChunks()`
 */
export function readFloats(
  parts: readonly Uint8Array[],
  range: readonly [startNanos: bigint, endNanos: bigint],
): ReadFloatRows {
  let rows: ReadFloatRows | null = null;
  visitFloats(parts, range, ({ timestampNanos, values, lags, startNanos }) => {
    rows = {
      timestampNanos: timestampNanos.slice(),
      values: values.slice(),
      lags: typeof lags === 'bigint' ? new BigInt64Array(values.length).fill(lags) : lags.slice(),
      startNanos: startNanos === null ? null : startNanos.slice(),
    };
  });
  return rows!;
}

/**
 * The same without a copy.
 * @throws {TsdbError} as `mergeChunks()`
 */
export function visitFloats(
  parts: readonly Uint8Array[],
  range: readonly [startNanos: bigint, endNanos: bigint],
  visit: (rows: BorrowedFloatRows) => void,
): void {
  const taken = workshop.takeIn(parts, range, () => answerBytes);
  const { kernel, end, rowCount, chunkCount, work, out } = taken;
  const args = [chunksAt, end, ...range, rowCount, chunkCount, work, out, 1] as const;
  const count = kernel.decodeChunks(...args);
  if (count === -1) throw malformedPart();
  const { buffer } = workshop;
  const [, nanosAt, valuesAt, , lagsAt, startsAt] = new Uint32Array(buffer, out, 6);
  const lag = new BigInt64Array(buffer, out + 24, 1)[0]!;
  visit({
    timestampNanos: new BigInt64Array(buffer, nanosAt, count),
    values: new Float64Array(buffer, valuesAt, count),
    lags: lagsAt === 0 ? lag : new BigInt64Array(buffer, lagsAt, count),
    startNanos: startsAt === 0 ? null : new BigInt64Array(buffer, startsAt, count),
  });
  workshop.tidy();
}

function takeIn(parts: readonly Uint8Array[]) {
  return workshop.takeIn(parts, allTimes, (kernel, rowCount) => kernel.mergedBytesMax(rowCount));
}
