/** Rows of chunks, and of chunks joined. */
import type { Histogram } from '#engine/typed/histogram.ts';
import { nanosPerMilli } from '#lib/time.ts';
import type { ImportHistogram } from '../source.ts';

export interface FloatRows {
  readonly kind: 'floats';
  /** Unix milliseconds, ascending. */
  readonly millis: Float64Array;
  readonly values: Float64Array;
}

export interface HistogramRows {
  readonly kind: 'histograms';
  /** Unix milliseconds, ascending. */
  readonly millis: Float64Array;
  readonly histograms: readonly Histogram[];
}

/** Of one chunk, at least one. */
export type ChunkRows = FloatRows | HistogramRows;

/** Unix milliseconds. */
export interface MillisRange {
  /** Inclusive. */
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

/** Times whose nanoseconds 64 bits hold. */
export const millisMax = 9_223_372_036_854;

export interface JoinedRows {
  readonly timestampNanos: BigInt64Array;
  readonly values: Float64Array;
  readonly histograms: readonly ImportHistogram[];
}

/**
 * Rows of chunks, ascending and each time once.
 * @param chunks of two rows with one time that of the later chunk is taken
 * @param isKept of which times rows are taken; null for all
 */
export function joinedRows(
  chunks: readonly ChunkRows[],
  isKept: ((millis: number) => boolean) | null,
): JoinedRows {
  const ascending = isAscending(chunks) ? chunks : withoutOverlaps(chunks);
  const floats = ascending.filter(({ kind }) => kind === 'floats') as readonly FloatRows[];
  const total = floats.reduce((sum, { millis }) => sum + millis.length, 0);
  const timestampNanos = new BigInt64Array(total);
  const timeWords = new Int32Array(timestampNanos.buffer);
  const values = new Float64Array(total);
  // A NaN keeps its bits as words alone.
  const valueBits = new BigUint64Array(values.buffer);
  let count = 0;
  for (const chunk of floats) {
    if (isKept === null) values.set(chunk.values, count);
    const bits = new BigUint64Array(chunk.values.buffer);
    // Pairs of entries() would cost as much as all else.
    for (let row = 0; row < chunk.millis.length; row++) {
      const millis = chunk.millis[row]!;
      if (isKept !== null) {
        if (!isKept(millis)) continue;
        valueBits[count] = bits[row]!;
      }
      writeNanos(timeWords, count++, millis);
    }
  }
  const histograms: ImportHistogram[] = [];
  for (const chunk of ascending) {
    if (chunk.kind === 'floats') continue;
    for (const [row, histogram] of chunk.histograms.entries()) {
      const millis = chunk.millis[row]!;
      if (isKept !== null && !isKept(millis)) continue;
      histograms.push({ timestampNanos: BigInt(millis) * nanosPerMilli, histogram });
    }
  }
  return {
    timestampNanos: timestampNanos.subarray(0, count),
    values: values.subarray(0, count),
    histograms,
  };
}

function isAscending(chunks: readonly ChunkRows[]): boolean {
  return chunks.every(({ millis }, i) => i === 0 || millis[0]! > chunks[i - 1]!.millis.at(-1)!);
}

/** The same rows, in as few chunks as their kinds allow. */
function withoutOverlaps(chunks: readonly ChunkRows[]): ChunkRows[] {
  const rows = chunks.flatMap((chunk, order) =>
    Array.from(chunk.millis, (millis, row) => ({ millis, chunk, order, row })),
  );
  rows.sort((a, b) => a.millis - b.millis || a.order - b.order);
  const kept = rows.filter(({ millis }, i) => millis !== rows[i + 1]?.millis);
  const runs: ChunkRows[] = [];
  for (let first = 0, past = 0; first < kept.length; first = past) {
    const { kind } = kept[first]!.chunk;
    while (past < kept.length && kept[past]!.chunk.kind === kind) past++;
    const run = kept.slice(first, past);
    const millis = Float64Array.from(run, (each) => each.millis);
    if (kind === 'histograms') {
      const histograms = run.map(({ chunk, row }) => (chunk as HistogramRows).histograms[row]!);
      runs.push({ kind, millis, histograms });
    } else {
      const values = new Float64Array(run.length);
      for (const [i, { chunk, row }] of run.entries()) {
        values.set((chunk as FloatRows).values.subarray(row, row + 1), i);
      }
      runs.push({ kind, millis, values });
    }
  }
  return runs;
}

/** Of milliseconds within `millisMax`, in parts of which each product is exact. */
function writeNanos(words: Int32Array, row: number, millis: number): void {
  const high = Math.floor(millis / 2 ** 26);
  const parts = high * 1e6;
  const highWord = Math.floor(parts / 2 ** 6);
  const rest = (parts - highWord * 2 ** 6) * 2 ** 26;
  const low = (millis - high * 2 ** 26) * 1e6 + rest;
  words[2 * row] = low;
  words[2 * row + 1] = highWord + Math.floor(low / 2 ** 32);
}
