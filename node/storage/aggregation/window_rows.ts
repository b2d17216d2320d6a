/** Windows of a series one by one, where the kernel that makes them from rows cannot say what is to be said of them. */
import { apart, readTyped } from '#engine/store/typed_chunks.ts';
import { encodeTypedRows } from '#engine/typed/codec.ts';
import { valueKind } from '#engine/typed/typed_value.ts';
import { type AggregatedWindow, valueOfWindow, windowOfValue } from '#engine/typed/window.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import type { Slice } from './slices.ts';

/** Of so many fields a chunk has no more than it may have. */
const chunkWindowsMax = 2_048;

/** With its version, where that is later than that of its time. */
export interface WindowRow extends AggregatedWindow {
  readonly version: number;
}

/** By end. */
export type WindowRows = Map<bigint, WindowRow>;

/** @param chunks each behind its length, of any replicas; what somebody wrote by hand is passed over */
export function windowRowsOf(
  chunks: readonly Uint8Array[],
  { startNanos, endNanos }: Slice,
): WindowRows {
  const { timestampNanos, values, lags } = readTyped(apart(chunks).typed, [startNanos, endNanos]);
  return new Map(
    values.flatMap((value, i): [bigint, WindowRow][] => {
      if (value[0] !== valueKind.window) return [];
      const at = timestampNanos[i]!;
      return [[at, { ...windowOfValue(value), version: Number(versionAtNanos(at) + lags[i]!) }]];
    }),
  );
}

/** @returns typed chunks, each behind its length */
export function encodeWindowRows(windows: WindowRows): Uint8Array {
  const ends = [...windows.keys()].sort((a, b) => (a < b ? -1 : 1));
  const chunks: Uint8Array[] = [];
  for (let first = 0; first < ends.length; first += chunkWindowsMax) {
    const some = ends.slice(first, first + chunkWindowsMax);
    const values = some.map((end) => valueOfWindow(windows.get(end)!));
    let end = 0;
    chunks.push(
      encodeTypedRows({
        timestampNanos: BigInt64Array.from(some),
        valueBytes: new Uint8Array(Buffer.concat(values)),
        valueEnds: Uint32Array.from(values, ({ length }) => (end += length)),
        rowVersions: Float64Array.from(some, (at) =>
          Math.max(Number(versionAtNanos(at)), windows.get(at)!.version),
        ),
        startNanos: null,
      }),
    );
  }
  return new Uint8Array(Buffer.concat(chunks));
}
