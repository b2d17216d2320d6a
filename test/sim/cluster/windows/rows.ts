/** Windows of a bundle as what is compared of them. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { readTyped } from '#engine/store/typed_chunks.ts';
import { bitsOfDouble } from '#engine/typed/typed_value.ts';
import { type AggregatedWindow, countOf, windowOfValue } from '#engine/typed/window.ts';
import { decodeTags } from '#lib/tags.ts';

const nanosPerMilli = 1_000_000n;

/** What is compared of a window: resets depend on the slices that it is made in. */
export interface Seen {
  readonly count: number;
  readonly lastBits: bigint;
  readonly lastNumber: number;
  readonly min: number;
  readonly max: number;
  readonly sum: number;
}

interface WindowRows {
  readonly endNanos: bigint;
  readonly rows: number;
  readonly others: number;
}

/** By series and end, Unix milliseconds. */
export type WindowsBySeries = ReadonlyMap<string, ReadonlyMap<number, Seen>>;

/** Those with rows. */
export function seenOf(
  windows: readonly (Omit<Seen, 'count'> & WindowRows)[],
): ReadonlyMap<number, Seen> {
  return new Map(
    windows
      .filter((window) => countOf(window) > 0)
      .map(({ endNanos, rows, others, lastBits, lastNumber, min, max, sum }) => [
        Number(endNanos / nanosPerMilli),
        { count: countOf({ rows, others }), lastBits, lastNumber, min, max, sum },
      ]),
  );
}

export function windowsOf(bundle: SeriesBundle): WindowsBySeries {
  const all = new Map<string, ReadonlyMap<number, Seen>>();
  const { tagsData, tagsOffset, chunkData, chunkOffset } = bundle;
  for (let i = 0; i < bundle.seriesCount; i++) {
    const tags = decodeTags(tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!));
    const chunks = chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!);
    const { timestampNanos, values } = readTyped([chunks], [0n, 2n ** 62n]);
    const windows = values.map((value, at) => withBits(timestampNanos[at]!, windowOfValue(value)));
    all.set(tags.map(({ name, value }) => `${name}=${value}`).join(','), seenOf(windows));
  }
  return all;
}

function withBits(endNanos: bigint, window: AggregatedWindow): Omit<Seen, 'count'> & WindowRows {
  return { ...window, endNanos, lastBits: bitsOfDouble(window.last) };
}

export function textOf(seen: Seen | undefined): string {
  if (seen === undefined) return 'missing';
  const { count, lastBits, min, max, sum } = seen;
  return `${count} rows from ${min} to ${max}, ${sum} in all, the last of bits ${lastBits.toString(16)}`;
}
