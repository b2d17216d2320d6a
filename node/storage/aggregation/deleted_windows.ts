/**
 * Windows of a series of which something was deleted: each says the version of the last deletion that it was made without,
 * so that it stays before those that replicas made of what is gone; and one of which nothing is left says that, where its time
 * is not deleted itself (docs/AGGREGATION.md).
 */
import { encodeTypedRows } from '#engine/typed/codec.ts';
import { doubleOf } from '#engine/typed/typed_value.ts';
import { staleBits } from '#engine/typed/histogram.ts';
import {
  type AggregatedWindow,
  valueOfWindow,
  windowField,
  windowOfValue,
} from '#engine/typed/window.ts';
import { apart, readTyped } from '#engine/store/typed_chunks.ts';
import { TypedColumnsReader } from '#engine/typed/columns.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import type { Tombstone } from '../tombstones/tombstones.ts';
import type { Slice } from './slices.ts';

/** Of so many fields a chunk has no more than it may have. */
const chunkWindowsMax = 2_048;

/** The series ends with what is gone. */
const nothing: Omit<AggregatedWindow, 'deletions'> = {
  count: 0,
  last: doubleOf(staleBits),
  min: 0,
  max: 0,
  sum: 0,
  resets: 0,
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
  const range = [slice.startNanos, slice.endNanos] as const;
  const old = windowsOf(before, range);
  const windows = windowsOf(made, range);
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
      windows.set(endNanos, { ...nothing, deletions: 0n });
    }
  }
  const ends = [...windows.keys()].sort((a, b) => (a < b ? -1 : 1));
  const values = ends.map((endNanos) => {
    const [own, known] = [deletionsOf(endNanos), old.get(endNanos)?.deletions ?? 0n];
    return valueOfWindow({ ...windows.get(endNanos)!, deletions: own > known ? own : known });
  });
  const chunks: Uint8Array[] = [];
  for (let first = 0; first < ends.length; first += chunkWindowsMax) {
    const some = values.slice(first, first + chunkWindowsMax);
    const timestampNanos = BigInt64Array.from(ends.slice(first, first + chunkWindowsMax));
    let end = 0;
    chunks.push(
      encodeTypedRows({
        timestampNanos,
        valueBytes: new Uint8Array(Buffer.concat(some)),
        valueEnds: Uint32Array.from(some, ({ length }) => (end += length)),
        rowVersions: Float64Array.from(timestampNanos, (nanos) => Number(versionAtNanos(nanos))),
        startNanos: null,
      }),
    );
  }
  return new Uint8Array(Buffer.concat(chunks));
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

function windowsOf(
  chunks: readonly Uint8Array[],
  range: readonly [bigint, bigint],
): Map<bigint, AggregatedWindow> {
  const { timestampNanos, values } = readTyped(chunks, range);
  return new Map(values.map((value, i) => [timestampNanos[i]!, windowOfValue(value)]));
}
