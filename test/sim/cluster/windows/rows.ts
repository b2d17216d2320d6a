/** Windows of a bundle as what is compared of them. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { readFloats } from '#engine/store/chunk_merge.ts';
import { apart, readTyped } from '#engine/store/typed_chunks.ts';
import { bitsOfDouble } from '#engine/typed/typed_value.ts';
import { type AggregatedWindow, countOf, windowOfValue } from '#engine/typed/window.ts';
import { decodeTags } from '#lib/tags.ts';

const nanosPerMilli = 1_000_000n;

/** What is compared of a window. */
export interface Seen {
  readonly count: number;
  readonly lastBits: bigint;
  readonly lastNumber: number;
  readonly min: number;
  readonly max: number;
  readonly sum: number;
  readonly resets: number;
  readonly first: number;
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
      .map(({ endNanos, rows, others, lastBits, lastNumber, min, max, sum, resets, first }) => [
        Number(endNanos / nanosPerMilli),
        { count: countOf({ rows, others }), lastBits, lastNumber, min, max, sum, resets, first },
      ]),
  );
}

export function windowsOf(bundle: SeriesBundle): WindowsBySeries {
  const all = new Map<string, ReadonlyMap<number, Seen>>();
  const { tagsData, tagsOffset, chunkData, chunkOffset } = bundle;
  for (let i = 0; i < bundle.seriesCount; i++) {
    const chunks = chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!);
    const { timestampNanos, values } = readTyped(apart([chunks]).typed, [0n, 2n ** 62n]);
    const windows = values.map((value, at) => withBits(timestampNanos[at]!, windowOfValue(value)));
    if (windows.length === 0) continue;
    all.set(nameOf(tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!)), seenOf(windows));
  }
  return all;
}

/** Rows of an aggregated namespace that are no windows: what rollups have made. By series and Unix nanoseconds. */
export function floatsOf(bundle: SeriesBundle): Map<string, Map<bigint, number>> {
  const all = new Map<string, Map<bigint, number>>();
  const { tagsData, tagsOffset, chunkData, chunkOffset } = bundle;
  for (let i = 0; i < bundle.seriesCount; i++) {
    const chunks = chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!);
    const { timestampNanos, values } = readFloats(apart([chunks]).floats, [0n, 2n ** 62n]);
    if (values.length === 0) continue;
    const tags = tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!);
    all.set(nameOf(tags), new Map(Array.from(values, (value, at) => [timestampNanos[at]!, value])));
  }
  return all;
}

/** Of all series of a bundle. */
export function namesOf({ seriesCount, tagsData, tagsOffset }: SeriesBundle): ReadonlySet<string> {
  const nameAt = (_: unknown, i: number): string =>
    nameOf(tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!));
  return new Set(Array.from({ length: seriesCount }, nameAt));
}

function nameOf(tags: Uint8Array): string {
  return decodeTags(tags)
    .map(({ name, value }) => `${name}=${value}`)
    .join();
}

function withBits(endNanos: bigint, window: AggregatedWindow): Omit<Seen, 'count'> & WindowRows {
  return { ...window, endNanos, lastBits: bitsOfDouble(window.last) };
}

export function textOf(seen: Seen | undefined): string {
  if (seen === undefined) return 'missing';
  const { count, lastBits, min, max, sum, resets } = seen;
  return `${count} rows from ${min} to ${max}, ${sum} in all, ${resets} before resets, the last of bits ${lastBits.toString(16)}`;
}
