/** How many rows of a window are other than the ones before them, or reset: `changes` and `resets`. */
import type { SeriesRows } from './series_rows.ts';

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
  /** Places up to which so many histograms are other than the one before them, or reset; null until they are asked for. */
  #counts: Int32Array | null = null;

  constructor(rows: SeriesRows, name: 'changes' | 'resets') {
    this.#rows = rows;
    this.#isOfResets = name === 'resets';
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
    const { histograms } = this.#rows;
    return this.#isOfResets ? histograms.isReset(place) : histograms.isOther(place);
  }

  /** From a float to a histogram, and back, is a change and a reset. */
  ofAll({ a, b, c, d }: RowWindow): number {
    const { floatMillis, floats, histogramMillis } = this.#rows;
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
        if (this.#isOfResets ? value < before : isChange) count += 1;
      } else if (last !== null && this.#isChange(histogram)) count += 1;
      last = next;
      if (isFloat) float++;
      else histogram++;
    }
    return count;
  }
}
