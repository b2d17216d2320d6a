/** How many rows of a window are other than the ones before them, or reset: `changes` and `resets`. */
import type { SeriesRows } from './series_rows.ts';
import { isStartReset } from './start_windows.ts';

/** The rows of a window: floats [a, b), histograms [c, d). */
export interface RowWindow {
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly d: number;
}

export class ChangeCounts {
  readonly #rows: SeriesRows;
  readonly #isOfResets: boolean;
  readonly #asksStarts: boolean;
  /** Places up to which so many histograms are other than the one before them, or reset; null until they are asked for. */
  #counts: Int32Array | null = null;

  /** @param asksStarts a start after the row before is a reset, too */
  constructor(rows: SeriesRows, name: 'changes' | 'resets', asksStarts = false) {
    this.#rows = rows;
    this.#isOfResets = name === 'resets';
    this.#asksStarts = asksStarts && this.#isOfResets;
  }

  /** Of histograms [c, d) alone, at least one, by counts up to each of them. */
  ofHistograms(c: number, d: number): number {
    this.#counts ??= this.#count();
    return this.#counts[d - 1]! - this.#counts[c]!;
  }

  #count(): Int32Array {
    const counts = new Int32Array(this.#rows.histograms.count);
    for (let place = 1; place < counts.length; place++) {
      counts[place] = counts[place - 1]! + (this.#isChange(place) ? 1 : 0);
    }
    return counts;
  }

  /** Whether a histogram is other than the one before, or reset. */
  #isChange(place: number): boolean {
    const { histogramMillis, histograms, histogramStarts } = this.#rows;
    if (!this.#isOfResets) return histograms.isOther(place);
    return histograms.isReset(place) || this.#isStarted(histogramMillis, histogramStarts, place);
  }

  /** Whether a row says that it has started after the one before. */
  #isStarted(millis: Float64Array, starts: Float64Array | null, row: number): boolean {
    if (!this.#asksStarts || starts === null) return false;
    return isStartReset(
      { millis: millis[row - 1]!, startMillis: starts[row - 1]! },
      { millis: millis[row]!, startMillis: starts[row]! },
    );
  }

  /** From a float to a histogram, and back, is a change and a reset. */
  ofAll({ a, b, c, d }: RowWindow): number {
    const { floatMillis, floats, floatStarts, histogramMillis } = this.#rows;
    let count = 0;
    let last: 'float' | 'histogram' | null = null;
    for (let float = a, histogram = c; float < b || histogram < d; ) {
      const isFloat =
        histogram >= d || (float < b && floatMillis[float]! < histogramMillis[histogram]!);
      const next = isFloat ? 'float' : 'histogram';
      if (last !== null && last !== next) count += 1;
      else if (last !== null && isFloat) {
        const [before, value] = [floats[float - 1]!, floats[float]!];
        const isChange = before !== value && (before === before || value === value);
        const isReset = value < before || this.#isStarted(floatMillis, floatStarts, float);
        if (this.#isOfResets ? isReset : isChange) count += 1;
      } else if (last !== null && this.#isChange(histogram)) count += 1;
      last = next;
      if (isFloat) float++;
      else histogram++;
    }
    return count;
  }
}
