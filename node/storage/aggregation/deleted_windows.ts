/**
 * Windows of a series of which something was deleted: each says the version of the last deletion that it was made without,
 * so that it stays before those that replicas made of what is gone; and one of which nothing is left says that, where its time
 * is not deleted itself (docs/AGGREGATION.md).
 */
import { doubleOf } from '#engine/typed/typed_value.ts';
import { staleBits } from '#engine/typed/histogram.ts';
import { type AggregatedWindow, windowField } from '#engine/typed/window.ts';
import { apart } from '#engine/store/typed_chunks.ts';
import { TypedColumnsReader } from '#engine/typed/columns.ts';
import type { Tombstone } from '../tombstones/tombstones.ts';
import type { Slice } from './slices.ts';
import { encodeWindowRows, windowRowsOf } from './window_rows.ts';

/** The series ends with what is gone. */
const nothing: Omit<AggregatedWindow, 'deletions'> = {
  rows: 0,
  lags: 0,
  others: 0,
  last: doubleOf(staleBits),
  min: 0,
  max: 0,
  sum: 0,
  resets: 0,
  lastNumber: 0,
};

/**
 * @param made windows that were made now, as typed chunks
 * @param before those that the aggregated namespace has of the series, as typed chunks
 * @param tombstones that match the series
 * @returns typed chunks
 */
export function withDeletions(
  made: readonly Uint8Array[],
  before: readonly Uint8Array[],
  tombstones: readonly Tombstone[],
  slice: Slice,
  resolutionNanos: bigint,
): Uint8Array {
  const old = windowRowsOf(before, slice);
  const windows = windowRowsOf(made, slice);
  const deletionsOf = (endNanos: bigint): bigint =>
    tombstones.reduce((most, { deletion }) => {
      // Of the rows in (end - resolution, end].
      const isTouched =
        deletion.startNanos <= endNanos && deletion.endNanos > endNanos - resolutionNanos + 1n;
      const version = BigInt(deletion.version);
      return isTouched && version > most ? version : most;
    }, 0n);
  for (const endNanos of old.keys()) {
    if (!windows.has(endNanos) && deletionsOf(endNanos) > 0n) {
      windows.set(endNanos, { ...nothing, deletions: 0n, version: 0 });
    }
  }
  for (const [endNanos, window] of windows) {
    const [own, known] = [deletionsOf(endNanos), old.get(endNanos)?.deletions ?? 0n];
    windows.set(endNanos, { ...window, deletions: own > known ? own : known });
  }
  return encodeWindowRows(windows);
}

const askedDeletions = new Map([[windowField.deletions, 'all' as const]]);
let reader: TypedColumnsReader | null = null;

/** Whether one of these windows was made without something that was deleted. */
export function knowsDeletions(chunks: readonly Uint8Array[]): boolean {
  return apart(chunks).typed.some((chunk) => {
    reader ??= new TypedColumnsReader();
    return reader.read(chunk, askedDeletions).columns.length > 0;
  });
}
