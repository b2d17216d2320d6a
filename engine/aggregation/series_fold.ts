/** Rows of one series to windows, whatever they are: floats by the kernel, native histograms one by one. */
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { readMixedRows } from '../store/read/mixed_rows.ts';
import { apart, hasTyped, readTyped } from '../store/typed_chunks.ts';
import { allTimes } from '../store/workshop.ts';
import { encodeTypedRows } from '../typed/codec.ts';
import { valueOfHistogramWindow } from '../typed/histogram_window.ts';
import { typedBytesMax, typedColumnValuesMax, typedRowsMax } from '../codec/layout.ts';
import { staleBits } from '../typed/histogram.ts';
import { bitsOfDouble, doubleOf, fieldType, TypedValueReader } from '../typed/typed_value.ts';
import {
  type AggregatedWindow,
  emptyWindow,
  valueOfWindow,
  windowLagsMax,
  windowOfValue,
} from '../typed/window.ts';
import { WindowFold } from './fold.ts';
import { foldFloats, foldMixed, inHalves, type TimeRange } from './fold_rows.ts';
import { type FoldedHistograms, HistogramFold } from './histogram_fold.ts';

/** A window of a series that has histograms, but for what is deleted. */
interface MadeWindow {
  readonly endNanos: bigint;
  readonly rowVersion: number;
  readonly valueOf: (deletions: bigint) => Uint8Array;
}

/** A column of a chunk may have zeros in the place of as many fields again. */
const chunkFieldsMax = typedColumnValuesMax / 2;

/** One series at a time: `begin`, `add` as often as there are rows, `end`, `chunks`. */
export class SeriesFold {
  readonly #floats = new WindowFold();
  readonly #histograms = new HistogramFold();
  /** Null where the kernel has them all. */
  #made: readonly MadeWindow[] | null = null;

  /** As `WindowFold`. */
  begin(resolutionNanos: bigint, windowsMax: number): this {
    this.#floats.begin(resolutionNanos, windowsMax);
    this.#histograms.begin(resolutionNanos);
    this.#made = null;
    return this;
  }

  /**
   * Rows of a time that comes after those before.
   * @param parts chunks of floats and typed rows, in any order
   * @throws {TsdbError} BAD_REQUEST when one is malformed
   */
  add(parts: readonly Uint8Array[], range: TimeRange): void {
    const isOfFloats = !hasTyped(parts) && !this.#histograms.goesOnAt(range[0]);
    if (isOfFloats) return foldFloats(this.#floats, parts, range);
    inHalves(range, (some) => {
      const rows = readMixedRows(parts, some);
      foldMixed(this.#floats, rows);
      this.#histograms.add(rows);
    });
  }

  /** @returns how many windows there are */
  end(): number {
    const count = this.#floats.end();
    const histograms = this.#histograms.end();
    if (histograms.length === 0) return count;
    this.#made = united(this.#floatWindows(count), histograms);
    return this.#made.length;
  }

  /** Ends of the windows, in Unix nanoseconds: a view until the next call. */
  get endNanos(): BigInt64Array {
    if (this.#made === null) return this.#floats.endNanos;
    return BigInt64Array.from(this.#made, ({ endNanos }) => endNanos);
  }

  /** As `WindowFold`. */
  chunks(deletions: Float64Array | null = null): Uint8Array {
    return this.#made === null ? this.#floats.chunks(deletions) : chunksOf(this.#made, deletions);
  }

  #floatWindows(count: number): FloatWindow[] {
    if (count === 0) return [];
    const { timestampNanos, values, lags } = readTyped(
      apart([this.#floats.chunks()]).typed,
      allTimes,
    );
    return values.map((value, i) => ({
      endNanos: timestampNanos[i]!,
      lag: lags[i]!,
      window: windowOfValue(value),
    }));
  }
}

interface FloatWindow {
  readonly endNanos: bigint;
  readonly lag: bigint;
  readonly window: AggregatedWindow;
}

/** A window that has both is of the kind that its last row is of which is no stale marker; it counts the rows of both. */
function united(
  floats: readonly FloatWindow[],
  histograms: readonly FoldedHistograms[],
): MadeWindow[] {
  const byEnd = new Map(floats.map((each) => [each.endNanos, each]));
  const made = histograms.map((of): MadeWindow => {
    const { endNanos } = of;
    const beside = byEnd.get(endNanos);
    byEnd.delete(endNanos);
    const lag = beside !== undefined && beside.lag > of.lag ? beside.lag : of.lag;
    const rows = of.rows + (beside?.window.rows ?? 0);
    const lags = Math.min(of.lags + (beside?.window.lags ?? 0), windowLagsMax);
    const { histograms } = of;
    const float = beside?.window ?? emptyWindow;
    return {
      endNanos,
      rowVersion: versionOf(endNanos, lag),
      valueOf: (deletions) =>
        histograms === null || (of.endsWithFloat && beside !== undefined)
          ? valueOfWindow({
              ...endingWith(float, of),
              deletions,
              rows,
              lags,
              others: float.others + of.rows,
            })
          : valueOfHistogramWindow({
              deletions,
              rows,
              lags,
              others: of.others + float.rows,
              endsStale: of.endsStale,
              ...histograms,
            }),
    };
  });
  for (const { endNanos, lag, window } of byEnd.values()) {
    made.push({
      endNanos,
      rowVersion: versionOf(endNanos, lag),
      valueOf: (deletions) => valueOfWindow({ ...window, deletions }),
    });
  }
  return made.sort((a, b) => (a.endNanos < b.endNanos ? -1 : 1));
}

/** A window of floats that a stale marker of a histogram may have ended. */
function endingWith(window: AggregatedWindow, { endsStale }: FoldedHistograms): AggregatedWindow {
  const isStale = bitsOfDouble(window.last) === staleBits;
  if (!endsStale || isStale) return window;
  return { ...window, last: doubleOf(staleBits), lastNumber: window.last };
}

/** No version is below that of 1970. */
function versionOf(endNanos: bigint, lag: bigint): number {
  return Math.max(0, Number(versionAtNanos(endNanos) + lag));
}

/** As many to a chunk as it may have. */
function chunksOf(windows: readonly MadeWindow[], deletions: Float64Array | null): Uint8Array {
  const parts: Uint8Array[] = [];
  let first = 0;
  let values: Uint8Array[] = [];
  let [bytes, fields] = [0, 0];
  const end = (past: number): void => {
    const some = windows.slice(first, past);
    let at = 0;
    const chunk = encodeTypedRows({
      timestampNanos: BigInt64Array.from(some, ({ endNanos }) => endNanos),
      valueBytes: new Uint8Array(Buffer.concat(values)),
      valueEnds: Uint32Array.from(values, ({ length }) => (at += length)),
      rowVersions: Float64Array.from(some, ({ rowVersion }) => rowVersion),
      startNanos: null,
    });
    parts.push(chunk);
    [first, values, bytes, fields] = [past, [], 0, 0];
  };
  for (const [i, { valueOf }] of windows.entries()) {
    const value = valueOf(BigInt(deletions?.[i] ?? 0));
    const count = countFields(value);
    const isFull =
      values.length === typedRowsMax ||
      bytes + value.length > typedBytesMax ||
      fields + count > chunkFieldsMax;
    if (isFull && values.length > 0) end(i);
    values.push(value);
    bytes += value.length;
    fields += count;
  }
  if (values.length > 0) end(windows.length);
  return new Uint8Array(Buffer.concat(parts));
}

/** With those of the messages in it. */
function countFields(value: Uint8Array): number {
  const count = (reader: TypedValueReader): number => {
    let fields = 0;
    while (reader.next())
      fields += reader.type === fieldType.message ? 1 + count(reader.within()) : 1;
    return fields;
  };
  return count(new TypedValueReader().open(value));
}
