/**
 * Blocks of time, and the times that a namespace takes. Each block of a namespace begins at a
 * multiple of the block size since 1970, and is the range [start, start + size).
 *
 * The store's kernel has block starts and the bounds of rows too (engine/store/kernel/series.ts,
 * reads.ts); tests and the fuzz of the store hold them equal to this file.
 */
import type { UnixNanos } from './time.ts';

/** Start of the block that holds the time: rounded down, before 1970 too. */
export function blockStartOf(nanos: UnixNanos, blockSizeNanos: bigint): UnixNanos {
  const rest = nanos % blockSizeNanos;
  return nanos - (rest < 0n ? rest + blockSizeNanos : rest);
}

/** Whether a block has a time of [startNanos, endNanos). */
export function blockOverlaps(
  blockStartNanos: UnixNanos,
  blockSizeNanos: bigint,
  { startNanos, endNanos }: { readonly startNanos: UnixNanos; readonly endNanos: UnixNanos },
): boolean {
  return blockStartNanos < endNanos && blockStartNanos + blockSizeNanos > startNanos;
}

/** Whether all of a block is past retention. */
export function isBlockExpired(
  blockStartNanos: UnixNanos,
  blockSizeNanos: bigint,
  retentionNanos: bigint,
  nowNanos: UnixNanos,
): boolean {
  return blockStartNanos + blockSizeNanos <= nowNanos - retentionNanos;
}

/** Times of rows lie between minus this and this, both left out: the years 1823 to 2116. */
export const rowNanosMax: bigint = 2n ** 62n;

/** What says which times a namespace takes. */
export interface WriteRules {
  /** Takes rows that are at most so old. */
  readonly bufferPastNanos: bigint;
  /** Takes rows of the future that are less than this ahead. */
  readonly bufferFutureNanos: bigint;
  readonly retentionNanos: bigint;
  /** Takes rows older than the buffer too, as far back as the retention goes. */
  readonly coldWrites: boolean;
}

/** Times [startNanos, endNanos) that are taken at a moment. */
export interface WriteWindow {
  readonly startNanos: UnixNanos;
  readonly endNanos: UnixNanos;
}

export function writeWindow(rules: WriteRules, nowNanos: UnixNanos): WriteWindow {
  const { bufferPastNanos, bufferFutureNanos, retentionNanos, coldWrites } = rules;
  const pastNanos =
    coldWrites && retentionNanos > bufferPastNanos ? retentionNanos : bufferPastNanos;
  const startNanos = nowNanos - pastNanos;
  const endNanos = nowNanos + bufferFutureNanos;
  return {
    startNanos: startNanos > -rowNanosMax ? startNanos : 1n - rowNanosMax,
    endNanos: endNanos < rowNanosMax ? endNanos : rowNanosMax,
  };
}

/** Why a time is refused, or that it is not. */
export type WindowSide = 'tooFarPast' | 'inside' | 'tooFarFuture';

export function sideOfWindow({ startNanos, endNanos }: WriteWindow, nanos: UnixNanos): WindowSide {
  if (nanos < startNanos) return 'tooFarPast';
  return nanos < endNanos ? 'inside' : 'tooFarFuture';
}

/** The limit that a refused time missed, and by how much. */
export function missOfWindow(
  { startNanos, endNanos }: WriteWindow,
  nanos: UnixNanos,
  side: Exclude<WindowSide, 'inside'>,
): { limitNanos: UnixNanos; offByNanos: bigint } {
  return side === 'tooFarPast'
    ? { limitNanos: startNanos, offByNanos: startNanos - nanos }
    : { limitNanos: endNanos, offByNanos: nanos - endNanos };
}
