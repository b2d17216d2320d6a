/**
 * How a histogram has changed over a window of its rows: what `rate`, `increase` and `delta` extrapolate. A window within one
 * run costs its buckets, and those of the rows before each reset; which rows are reset is found once for all windows. The
 * definition, row by row, is `changeByRows`; its order of steps is that of Prometheus 3.15 (`histogramRate`).
 */
import { assert } from '#lib/assert.ts';
import { counterHint, FloatHistogram, reconciled } from './float_histogram.ts';
import {
  histogramAt,
  histogramOfNumbers,
  type HistogramRows,
  type HistogramRun,
  matrixColumn,
  numbersOf,
} from './histogram_rows.ts';

/** What a query should tell of a change: bits. */
export const changeNote = {
  nothing: 0,
  /** Exponential and custom buckets in one window: no change can be told. */
  mixed: 1,
  /** A gauge where a counter is asked for. */
  isGauge: 2,
  /** No gauge where one is asked for. */
  isNoGauge: 4,
  /** Custom bounds that differ, and that were reconciled to those in common: when rows were subtracted, or added. */
  subtractedBounds: 8,
  addedBounds: 16,
} as const;

export interface HistogramChange {
  /** Null when it is `mixed`. A gauge. */
  readonly histogram: FloatHistogram | null;
  readonly notes: number;
}

/** @param window at least two histograms, in the order of their times */
export function changeByRows(
  window: readonly FloatHistogram[],
  isCounter: boolean,
): HistogramChange {
  assert(window.length >= 2, 'a change is between two rows');
  const last = window.at(-1)!;
  const between = window.slice(1, -1);
  let first = window[0]!;
  let notes: number = changeNote.nothing;
  const mixed = { histogram: null, notes: changeNote.mixed };
  if (isCounter) {
    if (window.some(({ hint }) => hint === counterHint.gauge)) notes |= changeNote.isGauge;
    const second = window[1]!;
    if (second.isResetAfter(first)) {
      const { schema, customBounds } = second;
      first = new FloatHistogram({ schema, customBounds, count: 0, sum: 0 });
    }
    if (last.isCustom !== first.isCustom)
      return { histogram: null, notes: notes | changeNote.mixed };
    if (between.some(({ isCustom }) => isCustom !== first.isCustom)) return mixed;
  } else if (first.hint !== counterHint.gauge || last.hint !== counterHint.gauge) {
    notes |= changeNote.isNoGauge;
  }
  if (last.isCustom !== first.isCustom) return mixed;
  const schemas = [first, last, ...(isCounter ? between : [])].map(({ schema }) => schema);
  const change = last.ofSchema(Math.min(...schemas));
  if ((change.subtract(first) & reconciled.bounds) !== 0) notes |= changeNote.subtractedBounds;
  if (isCounter) {
    let before = first;
    for (const histogram of window.slice(1)) {
      if (histogram.isResetAfter(before) && (change.add(before) & reconciled.bounds) !== 0) {
        notes |= changeNote.addedBounds;
      }
      before = histogram;
    }
  }
  change.hint = counterHint.gauge;
  return { histogram: change.compact(), notes };
}

/** Changes over windows of the rows of one series. */
export class HistogramChanges {
  readonly #rows: HistogramRows;
  /** Rows that are no stale markers; windows are of these. */
  readonly places: Int32Array;
  /** Place of its run, of each of these. */
  readonly #runs: Int32Array;
  readonly #hasGauges: boolean;
  /** Those of these rows that are reset after the one before, ascending; null until they are asked for. */
  #resets: Int32Array | null = null;

  constructor(rows: HistogramRows) {
    const { isStale, runs } = rows;
    this.#rows = rows;
    const count = isStale.length;
    this.#hasGauges = rows.hints.includes(counterHint.gauge);
    this.places = Int32Array.from({ length: count }, (_, row) => row).filter(
      (row) => isStale[row] === 0,
    );
    const runOfRow = new Int32Array(count);
    for (const [i, { first, past }] of runs.entries()) runOfRow.fill(i, first, past);
    this.#runs = this.places.map((row) => runOfRow[row]!);
  }

  /**
   * @param first place of the first row of the window, among `places`
   * @param last of the last one, beyond `first`
   */
  over(first: number, last: number, isCounter: boolean): HistogramChange {
    assert(first < last && last < this.places.length, 'a change is between two rows');
    if (this.#runs[first] !== this.#runs[last]) {
      const window = Array.from({ length: last + 1 - first }, (_, i) => this.at(first + i));
      return changeByRows(window, isCounter);
    }
    const run = this.#runAt(first);
    const change = numbersOf(run, this.places[last]!).slice();
    const resets = isCounter ? this.#resetsWithin(first, last) : [];
    // What was before a reset of the second row is of no account.
    if (resets[0] !== first + 1) subtract(change, numbersOf(run, this.places[first]!));
    for (const reset of resets) {
      if (reset > first + 1) add(change, numbersOf(run, this.places[reset - 1]!));
    }
    const histogram = histogramOfNumbers(run, change, counterHint.gauge);
    return { histogram, notes: this.#notes(first, last, isCounter) };
  }

  /** The histogram at a place. */
  at(place: number): FloatHistogram {
    return histogramAt(this.#rows, this.#runAt(place), this.places[place]!);
  }

  #runAt(place: number): HistogramRun {
    return this.#rows.runs[this.#runs[place]!]!;
  }

  #notes(first: number, last: number, isCounter: boolean): number {
    const isGauge = (place: number): boolean =>
      this.#rows.hints[this.places[place]!] === counterHint.gauge;
    if (!isCounter) {
      return isGauge(first) && isGauge(last) ? changeNote.nothing : changeNote.isNoGauge;
    }
    if (!this.#hasGauges) return changeNote.nothing;
    for (let place = first; place <= last; place++) if (isGauge(place)) return changeNote.isGauge;
    return changeNote.nothing;
  }

  /** Places in (first, last] whose rows are reset after the ones before. */
  #resetsWithin(first: number, last: number): Int32Array {
    const resets = (this.#resets ??= this.#findResets());
    return resets.subarray(firstAbove(resets, first), firstAbove(resets, last));
  }

  #findResets(): Int32Array {
    const resets: number[] = [];
    for (let place = 1; place < this.places.length; place++) {
      if (this.#isReset(place)) resets.push(place);
    }
    return Int32Array.from(resets);
  }

  #isReset(place: number): boolean {
    if (this.#runs[place] !== this.#runs[place - 1]) {
      return this.at(place).isResetAfter(this.at(place - 1));
    }
    const [row, before] = [this.places[place]!, this.places[place - 1]!];
    const hint = this.#rows.hints[row];
    if (hint === counterHint.reset) return true;
    if (hint === counterHint.notReset) return false;
    const run = this.#runAt(place);
    return isLess(numbersOf(run, row), numbersOf(run, before));
  }
}

function firstAbove(ascending: Int32Array, limit: number): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle]! <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether anything but the sum is less, or a bucket is not there that was not empty: of one that is NaN nothing is less. */
function isLess(numbers: Float64Array, before: Float64Array): boolean {
  for (let i = 0; i < numbers.length; i++) {
    const [now, then] = [numbers[i]!, before[i]!];
    if (now < then && i !== matrixColumn.sum) return true;
    if (then !== then && now === 0 && i >= matrixColumn.buckets) return true;
  }
  return false;
}

function subtract(numbers: Float64Array, others: Float64Array): void {
  for (let i = 0; i < numbers.length; i++) numbers[i]! -= others[i]!;
}

function add(numbers: Float64Array, others: Float64Array): void {
  for (let i = 0; i < numbers.length; i++) numbers[i]! += others[i]!;
}
