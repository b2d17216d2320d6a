/** Windows of samples of late, of which nodes make theirs hours later: a column of them, made when it is asked for. */
import { CounterRows } from '#engine/aggregation/counter_rows.ts';
import {
  eachFloatsOfWindows,
  type ReadColumn,
  type ValueColumn,
} from '#engine/aggregation/floats.ts';
import { foldWindowsMax } from '#engine/aggregation/fold.ts';
import { SeriesFold } from '#engine/aggregation/series_fold.ts';
import { chunkHeaders, kindsAll } from '#engine/codec/chunk.ts';
import { apart } from '#engine/store/typed_chunks.ts';
import { allTimes } from '#engine/store/workshop.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { SelectRange } from './storage.ts';

/** About what it takes to decode a byte of samples and to fold it, in units of work (lib/turns/turns.ts). */
const foldUnitsAByte = 20;
/** About so many rows are folded in one go: some milliseconds. */
const rowsAtOnce = 65_536;
/** Made with the first request that needs it; whoever uses it has it back before somebody else has a turn. */
let shared: SeriesFold | null = null;

/**
 * @param chunks of a series
 * @param range of rows of whole windows
 * @returns chunks of floats
 */
export async function recentWindows(
  chunks: Uint8Array,
  range: SelectRange,
  resolutionNanos: bigint,
  column: ReadColumn | ValueColumn,
  work: Work,
): Promise<Uint8Array[]> {
  const made: Uint8Array[] = [];
  const fold = (shared ??= new SeriesFold());
  const counter = new CounterRows(resolutionNanos);
  for (const { parts, fromNanos, toNanos } of stretchesOf(chunks, range, resolutionNanos)) {
    fold.begin(resolutionNanos, foldWindowsMax);
    fold.add(parts, [fromNanos, toNanos]);
    const windows = fold.end() === 0 ? [] : apart([fold.chunks()]).typed;
    made.push(...eachFloatsOfWindows(windows, column, allTimes, counter));
    const bytes = parts.reduce((sum, { length }) => sum + length, 0);
    if (work.spend(foldUnitsAByte * bytes)) await work.pause();
  }
  return made;
}

interface Stretch {
  /** Chunks with rows of it. */
  readonly parts: readonly Uint8Array[];
  /** As of a range of rows. */
  readonly fromNanos: bigint;
  readonly toNanos: bigint;
}

/**
 * Stretches of whole windows from the first row to the last, wherever the range ends: whoever asks for all there is says a
 * time far ahead.
 */
function* stretchesOf(
  chunks: Uint8Array,
  { startNanos, endNanos }: SelectRange,
  resolutionNanos: bigint,
): Generator<Stretch> {
  const spans: ChunkSpan[] = [];
  let [at, rows] = [0, 0];
  let [firstNanos, lastNanos] = [endNanos - 1n, startNanos];
  for (const header of chunkHeaders(chunks, 0, chunks.length, kindsAll)) {
    const chunk = chunks.subarray(at, header.end);
    at = header.end;
    if (header.firstNanos >= endNanos || header.lastNanos < startNanos) continue;
    spans.push({ chunk, firstNanos: header.firstNanos, lastNanos: header.lastNanos });
    rows += header.rowCount;
    firstNanos = lesser(firstNanos, header.firstNanos);
    lastNanos = greater(lastNanos, header.lastNanos);
  }
  if (rows === 0) return;
  firstNanos = greater(firstNanos, startNanos);
  lastNanos = lesser(lastNanos, endNanos - 1n);
  const windows = Number((lastNanos - firstNanos) / resolutionNanos) + 1;
  // Rows are about as far apart from each other everywhere.
  const windowsAtOnce = Math.min(foldWindowsMax, Math.ceil((windows * rowsAtOnce) / rows));
  const stretchNanos = resolutionNanos * BigInt(windowsAtOnce);
  const beginNanos = startNanos + floorTo(firstNanos - startNanos, resolutionNanos);
  for (let fromNanos = beginNanos; fromNanos <= lastNanos; fromNanos += stretchNanos) {
    const toNanos = lesser(fromNanos + stretchNanos, endNanos);
    const parts = spans
      .filter((span) => span.lastNanos >= fromNanos && span.firstNanos < toNanos)
      .map(({ chunk }) => chunk);
    if (parts.length > 0) yield { parts, fromNanos, toNanos };
  }
}

interface ChunkSpan {
  readonly chunk: Uint8Array;
  readonly firstNanos: bigint;
  readonly lastNanos: bigint;
}

export function floorTo(nanos: bigint, step: bigint): bigint {
  const rest = ((nanos % step) + step) % step;
  return nanos - rest;
}

export const lesser = (a: bigint, b: bigint): bigint => (a < b ? a : b);
export const greater = (a: bigint, b: bigint): bigint => (a > b ? a : b);
