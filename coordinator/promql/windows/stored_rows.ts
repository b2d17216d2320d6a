/** The rows of one stored series, decoded for who looks at them while one row of the grid is made. */
import { chunkHeaders, kindsAll } from '#engine/codec/chunk.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import {
  rowsOfValues,
  SeriesReading,
  type SeriesRows,
} from '#engine/histograms/windows/series_rows.ts';
import { Decoder } from '#engine/store/decoder.ts';
import { isAbsent, makeRowBuffer } from '#engine/window_functions/row.ts';
import type { SelectRange } from '../../select/storage.ts';
import type { Fetched } from '../rows/reads.ts';
import type { Pacer } from '../rows/pacer.ts';

/** About what it takes to decode a histogram, in units of work (lib/turns/turns.ts). */
export const histogramUnits = 800;
/** Chunks are joined to one series, for which both are there. */
const joiningFactor = 2;
/** Of a float: its time and its value. */
const floatRowBytes = 16;

type NanosRange = readonly [startNanos: bigint, endNanos: bigint];

/** Rows of floats that are decoded in one go: some milliseconds. */
export const floatRowsAtOnce = 131_072;

/** A series of floats, for who decodes it a part of its time after the other. */
export interface FloatParts {
  /** At least as many as there are. */
  readonly rowsMax: number;
  readonly ranges: readonly NanosRange[];
}

export function floatPartsOf(
  { chunkData, chunkOffset }: SeriesBundle,
  index: number,
  { startNanos, endNanos }: SelectRange,
): FloatParts {
  let rowsMax = 0;
  let firstNanos = endNanos;
  let lastNanos = startNanos;
  const [offset, end] = [chunkOffset[index]!, chunkOffset[index + 1]!];
  for (const header of chunkHeaders(chunkData, offset, end, kindsAll)) {
    if (header.firstNanos >= endNanos || header.lastNanos < startNanos) continue;
    rowsMax += header.rowCount;
    if (header.firstNanos < firstNanos) firstNanos = header.firstNanos;
    if (header.lastNanos > lastNanos) lastNanos = header.lastNanos;
  }
  const count = Math.ceil(rowsMax / floatRowsAtOnce);
  if (count <= 1) return { rowsMax, ranges: [[startNanos, endNanos]] };
  // Rows are about as far apart from each other everywhere.
  const spanNanos = lastNanos - firstNanos;
  const bounds = Array.from({ length: count - 1 }, (_, part) => {
    return firstNanos + (spanNanos * BigInt(part + 1)) / BigInt(count);
  });
  const starts = [startNanos, ...bounds.map((bound) => (bound > startNanos ? bound : startNanos))];
  const ranges = starts.map((from, part): NanosRange => {
    const to = starts[part + 1] ?? endNanos;
    return [from, to < endNanos ? to : endNanos];
  });
  return { rowsMax, ranges };
}

/** Rows in memory, until nobody looks at them any more. */
export class HeldRows implements Disposable {
  readonly rows: SeriesRows;
  readonly #bytes: number;
  readonly #pacer: Pacer;
  readonly #reading: Disposable | null;

  /** @param reading which ends with them */
  constructor(rows: SeriesRows, bytes: number, pacer: Pacer, reading: Disposable | null = null) {
    this.rows = rows;
    this.#bytes = bytes;
    this.#pacer = pacer;
    this.#reading = reading;
  }

  [Symbol.dispose](): void {
    this.#reading?.[Symbol.dispose]();
    this.#pacer.give(this.#bytes);
  }
}

/** Of a series of either kind, in the range that was fetched. */
export function readStoredRows(
  { fetch, bundle, isTyped, hasStarts }: Fetched,
  index: number,
  pacer: Pacer,
): Promise<HeldRows> {
  const { startNanos, endNanos } = fetch.range;
  if (isTyped?.[index] !== 1 && hasStarts?.[index] !== 1) {
    return readFloatRows(bundle, index, [startNanos, endNanos], pacer);
  }
  const { chunkData, chunkOffset } = bundle;
  const chunks = chunkData.subarray(chunkOffset[index]!, chunkOffset[index + 1]!);
  return readSeriesRows(chunks, [startNanos, endNanos], pacer);
}

/**
 * Of a series that has typed rows.
 * @param isOfStats as of `HistogramChanges`
 */
export async function readSeriesRows(
  chunks: Uint8Array,
  range: NanosRange,
  pacer: Pacer,
  isOfStats = false,
): Promise<HeldRows> {
  const reading = new SeriesReading(chunks, range);
  let bytes = 0;
  for (let part = reading.next(); part !== null; part = reading.next()) {
    const partBytes = joiningFactor * part.bytes;
    bytes += partBytes;
    if (pacer.take(partBytes)) await pacer.room();
    if (pacer.spend(histogramUnits * part.rowCount)) await pacer.pause();
  }
  return new HeldRows(reading.rows(isOfStats), bytes, pacer, reading);
}

async function readFloatRows(
  bundle: SeriesBundle,
  index: number,
  [startNanos, endNanos]: NanosRange,
  pacer: Pacer,
): Promise<HeldRows> {
  using decoder = new Decoder();
  const rowCount = decoder.decode(bundle, index, startNanos, endNanos);
  const bytes = floatRowBytes * rowCount;
  if (pacer.take(bytes)) await pacer.room();
  const rows = floatsOf(decoder, rowCount);
  if (pacer.spend(rowCount)) await pacer.pause();
  return new HeldRows(rows, bytes, pacer);
}

/** Without stale markers. */
function floatsOf({ timestampMillis, valueWords }: Decoder, rowCount: number): SeriesRows {
  const times = new Float64Array(rowCount);
  const { values, words } = makeRowBuffer(rowCount);
  let count = 0;
  for (let row = 0; row < rowCount; row++) {
    if (isAbsent(valueWords, row)) continue;
    times[count] = timestampMillis[row]!;
    words[2 * count] = valueWords[2 * row]!;
    words[2 * count + 1] = valueWords[2 * row + 1]!;
    count++;
  }
  const noTimes = new Float64Array(0);
  return rowsOfValues(times.subarray(0, count), values.subarray(0, count), noTimes, []);
}
