/**
 * Slices of an aggregated namespace: stretches of time whose windows are made at once, from the raw rows of filesets
 * (docs/AGGREGATION.md, Where windows are made). Decided of what a node has at one moment.
 */
import { foldWindowsMax } from '#engine/aggregation/fold.ts';
import type { UnixNanos } from '#lib/time.ts';

const sliceNanosMax = 12n * 3_600_000_000_000n;
/** One less than a series may have at once: a slice has a window for each end in it, and one begins before it. */
const sliceWindowsMax = BigInt(foldWindowsMax - 1);
/** What of the raw retention it is waited at most: for rows of memory, and before windows are made once more. */
const partOfRetention = 8n;
/** Between two times that the windows of a slice are made, at least; an eighth of the raw retention where that is less. */
const remadeNanosMax = 600_000_000_000n;

/** Windows whose ends are in [startNanos, endNanos). */
export interface Slice {
  readonly startNanos: bigint;
  readonly endNanos: bigint;
}

/**
 * Nanoseconds of a slice: a whole part of a block, so that its windows are in one, of whole windows; the resolution where
 * that is longer than a block.
 */
export function sliceNanosOf(resolutionNanos: bigint, blockSizeNanos: bigint): bigint {
  if (resolutionNanos >= blockSizeNanos) return resolutionNanos;
  const windows = blockSizeNanos / resolutionNanos;
  const ofTime = sliceNanosMax / resolutionNanos;
  const most = ofTime < sliceWindowsMax ? ofTime : sliceWindowsMax;
  for (let parts = 1n; parts <= windows; parts++) {
    if (windows % parts === 0n && windows / parts <= (most > 0n ? most : 1n)) {
      return (windows / parts) * resolutionNanos;
    }
  }
  return resolutionNanos;
}

/** Times of the rows that the windows of a slice are made of: [startNanos, endNanos). */
export function rawRangeOf({ startNanos, endNanos }: Slice, resolutionNanos: bigint): Slice {
  return {
    startNanos: startNanos - resolutionNanos + 1n,
    endNanos: endNanos - resolutionNanos + 1n,
  };
}

/** A raw fileset in use. */
export interface RawFile {
  readonly shard: number;
  readonly blockStartNanos: bigint;
  readonly endNanos: bigint;
}

/** What a raw namespace has. */
export interface RawState<F extends RawFile> {
  readonly blockSizeNanos: bigint;
  readonly bufferPastNanos: bigint;
  readonly retentionNanos: bigint;
  /** What is before this is past retention. */
  readonly expiredBeforeNanos: UnixNanos;
  /** In use. */
  readonly files: readonly F[];
  /** Starts of blocks with rows in memory. */
  readonly inMemory: ReadonlySet<bigint>;
}

/** A slice of a shard. */
export interface ShardSlice extends Slice {
  readonly shard: number;
}

/** Slices that raw filesets have rows of, the oldest first. */
export function slicesOf(
  files: readonly RawFile[],
  resolutionNanos: bigint,
  sliceNanos: bigint,
): ShardSlice[] {
  const slices = new Map<string, ShardSlice>();
  for (const { shard, blockStartNanos, endNanos } of files) {
    // Rows of its last instant may be in the window that ends a resolution later.
    let startNanos = floorTo(blockStartNanos, sliceNanos);
    for (; startNanos < endNanos + resolutionNanos; startNanos += sliceNanos) {
      const slice = { shard, startNanos, endNanos: startNanos + sliceNanos };
      if (overlaps(rawRangeOf(slice, resolutionNanos), { startNanos: blockStartNanos, endNanos })) {
        slices.set(`${shard}/${startNanos}`, slice);
      }
    }
  }
  return [...slices.values()].sort((a, b) => {
    return a.startNanos < b.startNanos ? -1 : a.startNanos > b.startNanos ? 1 : a.shard - b.shard;
  });
}

/** Filesets of a shard that have rows of a range, by ascending block. */
export function filesOf<F extends RawFile>(
  { files }: Pick<RawState<F>, 'files'>,
  shard: number,
  range: Slice,
): F[] {
  return files
    .filter((file) => {
      const extent = { startNanos: file.blockStartNanos, endNanos: file.endNanos };
      return file.shard === shard && overlaps(extent, range);
    })
    .sort((a, b) => (a.blockStartNanos < b.blockStartNanos ? -1 : 1));
}

/** Whether all rows of a range are in filesets, or it has been waited for long enough. */
export function isSettled(
  raw: Omit<RawState<RawFile>, 'files'>,
  range: Slice,
  nowNanos: UnixNanos,
): boolean {
  const { blockSizeNanos, bufferPastNanos, retentionNanos, inMemory } = raw;
  const lastBlock = floorTo(range.endNanos - 1n, blockSizeNanos);
  const closedNanos = lastBlock + blockSizeNanos + bufferPastNanos;
  if (nowNanos < closedNanos) return false;
  if (nowNanos >= closedNanos + retentionNanos / partOfRetention) return true;
  let block = floorTo(range.startNanos, blockSizeNanos);
  for (; block <= lastBlock; block += blockSizeNanos) if (inMemory.has(block)) return false;
  return true;
}

function overlaps(a: Slice, b: Slice): boolean {
  return a.startNanos < b.endNanos && b.startNanos < a.endNanos;
}

/** How long the windows of a slice stay before they are made once more for rows that came since. */
export function remadeAfterNanos(rawRetentionNanos: bigint): bigint {
  const part = rawRetentionNanos / partOfRetention;
  return part < remadeNanosMax ? part : remadeNanosMax;
}

function floorTo(nanos: bigint, step: bigint): bigint {
  const rest = ((nanos % step) + step) % step;
  return nanos - rest;
}
