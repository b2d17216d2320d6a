/**
 * Rows of a series that has native histograms, with the floats among them: of each time the row that wins
 * (docs/TYPED_ROWS.md, Order).
 */
import { readFloats } from '../../store/chunk_merge.ts';
import { apart, typedInOrder } from '../../store/typed_chunks.ts';
import { isAbsent } from '../../window_functions/row.ts';
import { HistogramChanges, type HistogramSeries, ListedHistograms } from './change.ts';
import type { FloatHistogram } from '../float_histogram.ts';
import { NumberRooms } from './number_rooms.ts';
import { type HistogramRows, joinedParts, readHistogramPart } from './histogram_rows.ts';

/** Floats and histograms apart, each in ascending time. */
export interface SeriesRows {
  readonly floatMillis: Float64Array;
  readonly floats: Float64Array;
  readonly histogramMillis: Float64Array;
  readonly histograms: HistogramSeries;
  /** Start times of either, Unix milliseconds, 0 for none; null when no row has any. */
  readonly floatStarts: Float64Array | null;
  readonly histogramStarts: Float64Array | null;
  /** Where the series ends by a marker of either kind, ascending. */
  readonly staleMillis: Float64Array;
}

/** What a subquery has computed. @param millis of both, ascending */
export function rowsOfValues(
  floatMillis: Float64Array,
  floats: Float64Array,
  histogramMillis: Float64Array,
  histograms: readonly FloatHistogram[],
): SeriesRows {
  const staleMillis = new Float64Array(0);
  return {
    floatMillis,
    floats,
    histogramMillis,
    histograms: new ListedHistograms(histograms),
    floatStarts: null,
    histogramStarts: null,
    staleMillis,
  };
}

export interface ReadPart {
  readonly rowCount: number;
  /** What it takes in memory. */
  readonly bytes: number;
}

/** Of a row beside its counts: time, start, places. */
const rowBytes = 40;

/** Reads a series chunk by chunk, so that its reader can give way between two of them. Its rows are there until its end. */
export class SeriesReading implements Disposable {
  readonly #range: readonly [startNanos: bigint, endNanos: bigint];
  readonly #floatChunks: readonly Uint8Array[];
  readonly #typedChunks: readonly Uint8Array[];
  readonly #parts: HistogramRows[] = [];
  readonly #rooms = new NumberRooms();

  /**
   * @param chunks of both kinds, one after the other
   * @throws {TsdbError} BAD_REQUEST when one is malformed, RESOURCE_EXHAUSTED when there are more rows or values than can
   *   be merged
   */
  constructor(chunks: Uint8Array, range: readonly [startNanos: bigint, endNanos: bigint]) {
    const { floats, typed } = apart([chunks]);
    this.#range = range;
    this.#floatChunks = floats;
    this.#typedChunks = typedInOrder(typed, range);
  }

  /** Reads another chunk. @returns what it had; null when there is no other one */
  next(): ReadPart | null {
    const chunk = this.#typedChunks[this.#parts.length];
    if (chunk === undefined) return null;
    const part = readHistogramPart(chunk, this.#range, this.#parts.length === 0, this.#rooms);
    this.#parts.push(part);
    const rowCount = part.timestampNanos.length;
    const matrixBytes = part.runs.reduce((sum, { matrix }) => sum + matrix.byteLength, 0);
    return { rowCount, bytes: rowBytes * rowCount + matrixBytes };
  }

  /**
   * All rows, once `next` has been called for each chunk.
   * @param isOfStats as of `HistogramChanges`
   */
  rows(isOfStats = false): SeriesRows {
    const histograms = joinedParts(this.#parts, this.#rooms);
    const floats = readFloats(this.#floatChunks, this.#range);
    const beaten = beatenRows(floats, histograms);
    return {
      ...floatsOf(floats, beaten.floats),
      ...histogramsOf(histograms, beaten.histograms, isOfStats),
      staleMillis: staleMillisOf(floats, histograms, beaten),
    };
  }

  [Symbol.dispose](): void {
    this.#rooms[Symbol.dispose]();
  }
}

type FloatRows = ReturnType<typeof readFloats>;

/** 1 for each row whose time another one has that wins. */
interface Beaten {
  readonly floats: Uint8Array;
  readonly histograms: Uint8Array;
}

/** Of rows of one time that with the higher version wins, of one version the histogram. */
function beatenRows(floats: FloatRows, histograms: HistogramRows): Beaten {
  const [floatTimes, times] = [floats.timestampNanos, histograms.timestampNanos];
  const beaten = {
    floats: new Uint8Array(floatTimes.length),
    histograms: new Uint8Array(times.length),
  };
  for (let a = 0, b = 0; a < floatTimes.length && b < times.length; ) {
    if (floatTimes[a]! < times[b]!) a++;
    else if (times[b]! < floatTimes[a]!) b++;
    else {
      const staysFloat = floats.lags[a]! > histograms.lags[b]!;
      if (staysFloat) beaten.histograms[b] = 1;
      else beaten.floats[a] = 1;
      a++;
      b++;
    }
  }
  return beaten;
}

function floatsOf(
  { timestampNanos, values, startNanos }: FloatRows,
  isBeaten: Uint8Array,
): Pick<SeriesRows, 'floatMillis' | 'floats' | 'floatStarts'> {
  const words = new Uint32Array(values.buffer, values.byteOffset, 2 * values.length);
  const isKept = (_: number | bigint, row: number): boolean =>
    isBeaten[row] === 0 && !isAbsent(words, row);
  return {
    floatMillis: millisOf(timestampNanos.filter(isKept)),
    floats: values.filter(isKept),
    floatStarts: startNanos === null ? null : millisOf(startNanos.filter(isKept)),
  };
}

function histogramsOf(
  all: HistogramRows,
  isBeaten: Uint8Array,
  isOfStats: boolean,
): Pick<SeriesRows, 'histogramMillis' | 'histograms' | 'histogramStarts'> {
  // A beaten row counts as a marker: neither has counts that anybody looks at.
  const isStale = all.isStale.map((stale, row) => stale | isBeaten[row]!);
  const histograms = new HistogramChanges({ ...all, isStale }, isOfStats);
  const { places } = histograms;
  return {
    histogramMillis: millisAt(all.timestampNanos, places),
    histograms,
    histogramStarts: all.startNanos === null ? null : millisAt(all.startNanos, places),
  };
}

function staleMillisOf(floats: FloatRows, histograms: HistogramRows, beaten: Beaten): Float64Array {
  const { values } = floats;
  const words = new Uint32Array(values.buffer, values.byteOffset, 2 * values.length);
  const floatEnds = placesWhere(
    values.length,
    (row) => beaten.floats[row] === 0 && isAbsent(words, row),
  );
  const ends = placesWhere(
    histograms.isStale.length,
    (row) => beaten.histograms[row] === 0 && histograms.isStale[row] === 1,
  );
  return Float64Array.from([
    ...millisAt(floats.timestampNanos, floatEnds),
    ...millisAt(histograms.timestampNanos, ends),
  ]).sort();
}

function placesWhere(count: number, isSo: (row: number) => boolean): Int32Array {
  const places: number[] = [];
  for (let row = 0; row < count; row++) if (isSo(row)) places.push(row);
  return Int32Array.from(places);
}

/** Rounded down. */
function millisOf(nanos: BigInt64Array): Float64Array {
  return millisAt(nanos, Int32Array.from(nanos.keys()));
}

const nanosOfMilli = 1_000_000;
/** 2^32 nanoseconds in milliseconds, and the nanoseconds that are left then. */
const highMillis = 4_294;
const highNanos = 967_296;

/** Of those at places, rounded down: by words, since a BigInt each would cost more than all else that is done with a row. */
function millisAt(nanos: BigInt64Array, places: Int32Array): Float64Array {
  const { buffer, byteOffset, length } = nanos;
  const low = new Uint32Array(buffer, byteOffset, 2 * length);
  const high = new Int32Array(buffer, byteOffset, 2 * length);
  const millis = new Float64Array(places.length);
  for (let i = 0; i < places.length; i++) {
    const at = 2 * places[i]!;
    const [upper, lower] = [high[at + 1]!, low[at]!];
    millis[i] = upper * highMillis + Math.floor((upper * highNanos + lower) / nanosOfMilli);
  }
  return millis;
}
