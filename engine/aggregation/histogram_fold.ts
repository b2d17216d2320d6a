/**
 * Native histograms of one series to windows (docs/AGGREGATION.md): the last one of each, and the sum of all. The floats of
 * the series, stale markers among them, are folded by the kernel; of those in a window with histograms it is noted here which
 * was last.
 */
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { FloatHistogram } from '../histograms/float_histogram.ts';
import { HistogramSum } from '../histograms/histogram_sum.ts';
import type { MixedRows } from '../store/read/mixed_rows.ts';
import { histogramOfValue, isStaleHistogram, staleBits } from '../typed/histogram.ts';
import { valueKind } from '../typed/typed_value.ts';
import { windowLagsMax } from '../typed/window.ts';
import { windowEndOf } from './window_end.ts';
import { histogramsInWindow, type WindowHistograms } from './histograms_in_window.ts';

/** What the rows of one series came to that are in one window and are no floats. */
export interface FoldedHistograms {
  readonly endNanos: bigint;
  /** By how much the version of the window is later than that of its end. */
  readonly lag: bigint;
  readonly rows: number;
  readonly lags: number;
  /** Stale markers. */
  readonly others: number;
  /** Null where there are stale markers alone. */
  readonly histograms: WindowHistograms | null;
  /** The last row, floats included, is a stale marker. */
  readonly endsStale: boolean;
  /** The last row that is no stale marker is a float. */
  readonly endsWithFloat: boolean;
}

const beforeAllTime = -(2n ** 63n);

class OpenWindow {
  rows = 0;
  lags = 0;
  others = 0;
  version = 0n;
  last: Uint8Array | null = null;
  lastNanos = beforeAllTime;
  staleNanos = beforeAllTime;
  floatNanos = beforeAllTime;
  #sum: HistogramSum | null = null;
  #isSummable = true;
  #isOfFloats = false;

  add(value: Uint8Array): void {
    const histogram = histogramOfValue(value);
    this.#isOfFloats ||= histogram.isFloat;
    const next = FloatHistogram.ofValue(histogram);
    if (this.#sum === null) this.#sum = new HistogramSum(next);
    else if (this.#sum.isLike(next)) this.#sum.add(next);
    // Exponential and custom buckets have no common ones.
    else this.#isSummable = false;
  }

  histograms(): WindowHistograms | null {
    if (this.last === null) return null;
    const sum = this.#isSummable ? (this.#sum?.result() ?? null) : null;
    return histogramsInWindow(this.last, sum, this.#isOfFloats);
  }
}

export class HistogramFold {
  #resolutionNanos = 1n;
  readonly #windows = new Map<bigint, OpenWindow>();
  /** Of the last window with histograms. */
  #lastEndNanos = beforeAllTime;

  begin(resolutionNanos: bigint): void {
    this.#resolutionNanos = resolutionNanos;
    this.#windows.clear();
    this.#lastEndNanos = beforeAllTime;
  }

  /** Whether rows from a time on may be in a window that has histograms already. */
  goesOnAt(nanos: bigint): boolean {
    return nanos <= this.#lastEndNanos;
  }

  /** Rows that come after those before. */
  add({ timestampNanos, values, typed, lags }: MixedRows): void {
    const bits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
    for (const [row, value] of typed.entries()) {
      const nanos = timestampNanos[row]!;
      if (value !== null && value[0] !== valueKind.histogram) continue;
      const window = this.#windowAt(nanos);
      if (value === null) {
        // Counted by the kernel.
        if (bits[row] === staleBits) window.staleNanos = nanos;
        else window.floatNanos = nanos;
        continue;
      }
      window.rows += 1;
      this.#lastEndNanos = windowEndOf(nanos, this.#resolutionNanos);
      const lag = lags[row]!;
      if (lag > 0n) {
        window.lags += Number(lag);
        const version = versionAtNanos(nanos) + lag;
        if (version > window.version) window.version = version;
      }
      if (isStaleHistogram(value)) {
        window.others += 1;
        window.staleNanos = nanos;
        continue;
      }
      window.last = value;
      window.lastNanos = nanos;
      window.add(value);
    }
  }

  #windowAt(nanos: bigint): OpenWindow {
    const endNanos = windowEndOf(nanos, this.#resolutionNanos);
    let window = this.#windows.get(endNanos);
    if (window === undefined) this.#windows.set(endNanos, (window = new OpenWindow()));
    return window;
  }

  /** Those that have histograms, or stale markers of them, in ascending order. */
  end(): FoldedHistograms[] {
    const folded: FoldedHistograms[] = [];
    for (const [endNanos, window] of this.#windows) {
      const { rows, lags, others, lastNanos, staleNanos, floatNanos } = window;
      if (rows === 0) continue;
      const lag = window.version - versionAtNanos(endNanos);
      folded.push({
        endNanos,
        lag: lag > 0n ? lag : 0n,
        rows,
        lags: Math.min(lags, windowLagsMax),
        others,
        histograms: window.histograms(),
        endsStale: staleNanos > lastNanos && staleNanos > floatNanos,
        endsWithFloat: floatNanos > lastNanos,
      });
    }
    this.#windows.clear();
    return folded;
  }
}
