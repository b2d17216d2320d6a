/**
 * Slices of an aggregated namespace: stretches of time whose windows are made at once, from the raw rows of filesets
 * (docs/AGGREGATION.md, Where windows are made). Decided of what a node has at one moment.
 */
import { foldWindowsMax } from '#engine/aggregation/fold.ts';
import type { UnixNanos } from '#lib/time.ts';

/** Part of the raw retention that a slice has at most. */
const sliceOfRetention = 4n;
const sliceNanosMax = 12n * 3_600_000_000_000n;
/** One less than a series may have at once: a slice has a window for each end in it, and one begins before it. */
const sliceWindowsMax = BigInt(foldWindowsMax - 1);

/** Windows whose ends are in [startNanos, endNanos). */
export interface Slice {
  readonly startNanos: bigint;
  readonly endNanos: bigint;
}

/** How time is cut into slices: each is in one block, or is one window where that is longer. */
export interface Cut {
  readonly blockNanos: bigint;
  /** The last of a block may be shorter. */
  readonly sliceNanos: bigint;
}

/** @param rawRetentionNanos of the rows: when the last windows of a slice are due, those of its first must not be gone */
export function cutOf(
  resolutionNanos: bigint,
  blockSizeNanos: bigint,
  rawRetentionNanos: bigint,
): Cut {
  if (resolutionNanos >= blockSizeNanos) {
    return { blockNanos: resolutionNanos, sliceNanos: resolutionNanos };
  }
  const windows = blockSizeNanos / resolutionNanos;
  const ofRetention = rawRetentionNanos / sliceOfRetention;
  const ofTime = (ofRetention < sliceNanosMax ? ofRetention : sliceNanosMax) / resolutionNanos;
  const most = ofTime < sliceWindowsMax ? ofTime : sliceWindowsMax;
  const parts = ceilOf(windows, most > 0n ? most : 1n);
  return { blockNanos: blockSizeNanos, sliceNanos: ceilOf(windows, parts) * resolutionNanos };
}

const ceilOf = (a: bigint, b: bigint): bigint => (a + b - 1n) / b;

/** Slices that have a time of a range, the oldest first. */
export function slicesIn(
  { blockNanos, sliceNanos }: Cut,
  { startNanos, endNanos }: Slice,
): Slice[] {
  const slices: Slice[] = [];
  for (let at = startNanos; at < endNanos; at = slices.at(-1)!.endNanos) {
    const block = floorTo(at, blockNanos);
    const start = block + floorTo(at - block, sliceNanos);
    const [end, blockEnd] = [start + sliceNanos, block + blockNanos];
    slices.push({ startNanos: start, endNanos: end < blockEnd ? end : blockEnd });
  }
  return slices;
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
export interface RawState {
  readonly blockSizeNanos: bigint;
  readonly bufferPastNanos: bigint;
  readonly retentionNanos: bigint;
  /** What is before this is past retention. */
  readonly expiredBeforeNanos: UnixNanos;
  /** Starts of blocks with rows in memory. */
  readonly inMemory: ReadonlySet<bigint>;
}

/** A slice of a shard. */
export interface ShardSlice extends Slice {
  readonly shard: number;
}

/** Slices that raw filesets of a shard have rows of, the oldest first. */
export function slicesOf(files: readonly RawFile[], resolutionNanos: bigint, cut: Cut): Slice[] {
  const slices = new Map<bigint, Slice>();
  for (const { blockStartNanos: startNanos, endNanos } of files) {
    // Rows of its last instant may be in the window that ends a resolution later.
    for (const slice of slicesIn(cut, { startNanos, endNanos: endNanos + resolutionNanos })) {
      if (overlaps(rawRangeOf(slice, resolutionNanos), { startNanos, endNanos })) {
        slices.set(slice.startNanos, slice);
      }
    }
  }
  return [...slices.values()].sort(byStart);
}

export function byStart(a: Slice, b: Slice): number {
  return a.startNanos < b.startNanos ? -1 : a.startNanos > b.startNanos ? 1 : 0;
}

/** Of a shard's filesets, in ascending order and without overlap, those that have rows of a range. */
export function filesOf<F extends RawFile>(
  files: readonly F[],
  { startNanos, endNanos }: Slice,
): readonly F[] {
  let first = 0;
  for (let past = files.length; first < past; ) {
    const middle = (first + past) >> 1;
    if (files[middle]!.endNanos <= startNanos) first = middle + 1;
    else past = middle;
  }
  let past = first;
  while (past < files.length && files[past]!.blockStartNanos < endNanos) past++;
  return files.slice(first, past);
}

/** Whether the blocks of a range take no rows any more but late ones. */
export function isClosed(raw: RawState, range: Slice, nowNanos: UnixNanos): boolean {
  const lastBlock = floorTo(range.endNanos - 1n, raw.blockSizeNanos);
  return nowNanos >= lastBlock + raw.blockSizeNanos + raw.bufferPastNanos;
}

/** Whether memory has rows of blocks of a range. */
export function isInMemory({ blockSizeNanos, inMemory }: RawState, range: Slice): boolean {
  let block = floorTo(range.startNanos, blockSizeNanos);
  for (; block < range.endNanos; block += blockSizeNanos) if (inMemory.has(block)) return true;
  return false;
}

/** Starts of the blocks of a range that are not past retention. */
export function blocksIn(raw: RawState, { startNanos, endNanos }: Slice): bigint[] {
  const { blockSizeNanos, expiredBeforeNanos } = raw;
  const starts: bigint[] = [];
  let start = floorTo(startNanos, blockSizeNanos);
  for (; start < endNanos; start += blockSizeNanos) {
    if (start >= expiredBeforeNanos) starts.push(start);
  }
  return starts;
}

export function overlaps(a: Slice, b: Slice): boolean {
  return a.startNanos < b.endNanos && b.startNanos < a.endNanos;
}

function floorTo(nanos: bigint, step: bigint): bigint {
  const rest = ((nanos % step) + step) % step;
  return nanos - rest;
}
