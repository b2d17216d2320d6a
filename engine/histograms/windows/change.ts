/**
 * How a histogram has changed over a window of its rows: what `rate`, `increase` and `delta` extrapolate. A window within one
 * run costs its buckets, and those of the rows before each reset; which rows are reset is found once for all windows. The
 * definition, row by row, is `changeByRows`; its order of steps is that of Prometheus 3.15 (`histogramRate`).
 */
import { assert } from '#lib/assert.ts';
import { customSchema } from '../../typed/histogram.ts';
import { counterHint, FloatHistogram, reconciled } from '../float_histogram.ts';
import { firstAbove } from './ascending.ts';
import { blockNumbersMax, changesOver, type HistogramBlock } from './histogram_block.ts';
import {
  histogramAt,
  histogramOfNumbers,
  type HistogramRows,
  type HistogramRun,
  matrixColumn,
  numbersOf,
} from './histogram_rows.ts';

/** What a query should tell of a window: bits. */
export const windowNote = {
  nothing: 0,
  /** Exponential and custom buckets in one window: nothing comes of it. */
  mixed: 1,
  /** A gauge where a counter is asked for. */
  isGauge: 2,
  /** No gauge where one is asked for. */
  isNoGauge: 4,
  /** Custom bounds that differ were reconciled to those in common: when rows were subtracted, added, or added up. */
  subtractedBounds: 8,
  addedBounds: 16,
  summedBounds: 32,
  /** Floats and histograms in one window: nothing comes of it. */
  mixedWithFloats: 64,
  /** Histograms in a window of floats of which only these count. */
  ignored: 128,
  /** Of histograms that were added up one says reset, another none. */
  hintsCollide: 256,
} as const;

export interface HistogramChange {
  /** Null when it is `mixed`. A gauge. */
  readonly histogram: FloatHistogram | null;
  /** Bits of `windowNote`. */
  readonly notes: number;
}

/**
 * @param window at least two histograms, in the order of their times
 * @param isResetAt whether something else tells that the counter was reset before the row at a place
 */
export function changeByRows(
  window: readonly FloatHistogram[],
  isCounter: boolean,
  isResetAt: (place: number) => boolean = () => false,
): HistogramChange {
  assert(window.length >= 2, 'a change is between two rows');
  const last = window.at(-1)!;
  const between = window.slice(1, -1);
  let first = window[0]!;
  let notes: number = windowNote.nothing;
  const mixed = { histogram: null, notes: windowNote.mixed };
  if (isCounter) {
    if (window.some(({ hint }) => hint === counterHint.gauge)) notes |= windowNote.isGauge;
    const second = window[1]!;
    if (isResetAt(1) || second.isResetAfter(first)) {
      const { schema, customBounds } = second;
      first = new FloatHistogram({ schema, customBounds, count: 0, sum: 0 });
    }
    if (last.isCustom !== first.isCustom)
      return { histogram: null, notes: notes | windowNote.mixed };
    if (between.some(({ isCustom }) => isCustom !== first.isCustom)) return mixed;
  } else if (first.hint !== counterHint.gauge || last.hint !== counterHint.gauge) {
    notes |= windowNote.isNoGauge;
  }
  if (last.isCustom !== first.isCustom) return mixed;
  const schemas = [first, last, ...(isCounter ? between : [])].map(({ schema }) => schema);
  const change = last.ofSchema(Math.min(...schemas));
  if ((change.subtract(first) & reconciled.bounds) !== 0) notes |= windowNote.subtractedBounds;
  if (isCounter) {
    let before = first;
    for (const [i, histogram] of window.slice(1).entries()) {
      const isReset = isResetAt(i + 1) || histogram.isResetAfter(before);
      if (isReset && (change.add(before) & reconciled.bounds) !== 0) {
        notes |= windowNote.addedBounds;
      }
      before = histogram;
    }
  }
  change.hint = counterHint.gauge;
  return { histogram: change.compact(), notes };
}

/** Numbers of changes that are made room for at once. */
const roomMax = 8_192;

const noPlaces = new Int32Array(0);
const noBounds = new Float64Array(0);
const noFactor = (): number => 1;

/** Windows at some steps: of each the places of its first and its last row, none earlier than those of the one before. */
export interface ChangeWindows {
  readonly steps: Int32Array;
  readonly firsts: Int32Array;
  readonly lasts: Int32Array;
}

export interface BlockOfChanges {
  readonly block: HistogramBlock;
  /** Bits of `windowNote`. */
  readonly notes: number;
}

/** Histograms in the order of their times, none a stale marker: of a series, or of a subquery. */
export interface HistogramSeries {
  readonly count: number;
  at(place: number): FloatHistogram;
  /**
   * @param first place of the first row of the window
   * @param last of the last one, beyond `first`
   * @param factorOf what the change is multiplied by, from its count; nothing without it
   */
  over(
    first: number,
    last: number,
    isCounter: boolean,
    factorOf?: (count: number) => number,
  ): HistogramChange;
  /**
   * As `over`, of many windows at once.
   * @param room for so many numbers, which belong to the block
   * @returns null when they have to be made one by one
   */
  blockOver(
    windows: ChangeWindows,
    isCounter: boolean,
    factorOf: (window: number, countChange: number) => number,
    room: (length: number) => Float64Array,
  ): BlockOfChanges | null;
  /** Of the row at a place. */
  countAt(place: number): number;
  /** How many rows `over` looks at, for a counter. */
  looksOver(first: number, last: number): number;
  /** Whether the counter was reset between the one before and this one. */
  isReset(place: number): boolean;
  /** Whether the histogram is another one than the one before. */
  isOther(place: number): boolean;
  isGauge(place: number): boolean;
  /** Whether it has custom buckets. */
  isCustom(place: number): boolean;
}

/** Of histograms that were computed. */
export class ListedHistograms implements HistogramSeries {
  readonly #list: readonly FloatHistogram[];

  constructor(list: readonly FloatHistogram[]) {
    this.#list = list;
  }

  get count(): number {
    return this.#list.length;
  }

  at(place: number): FloatHistogram {
    return this.#list[place]!;
  }

  over(
    first: number,
    last: number,
    isCounter: boolean,
    factorOf: (count: number) => number = noFactor,
  ): HistogramChange {
    return scaled(changeByRows(this.#list.slice(first, last + 1), isCounter), factorOf);
  }

  blockOver(): null {
    return null;
  }

  countAt(place: number): number {
    return this.at(place).count;
  }

  looksOver(first: number, last: number): number {
    return last + 1 - first;
  }

  isReset(place: number): boolean {
    return this.at(place).isResetAfter(this.at(place - 1));
  }

  isOther(place: number): boolean {
    return !this.at(place).equals(this.at(place - 1));
  }

  isGauge(place: number): boolean {
    return this.at(place).hint === counterHint.gauge;
  }

  isCustom(place: number): boolean {
    return this.at(place).isCustom;
  }
}

/** Changes over windows of the rows of one series. */
export class HistogramChanges implements HistogramSeries {
  readonly #rows: HistogramRows;
  /** Rows of the range that are no stale markers; windows are of these. */
  readonly places: Int32Array;
  /** By row: place of its run. */
  readonly #runOfRow: Int32Array;
  readonly #hasGauges: boolean;
  readonly #isOfStats: boolean;
  /** Those of these rows that are reset after the one before, ascending; null until they are asked for. */
  #resets: Int32Array | null = null;
  /** For the numbers of changes: arrays of their own would cost more than what is in them. */
  #room = new Float64Array(0);
  #roomUsed = 0;

  /** @param isOfStats whether counts and sums alone are asked for, and whether they were reset */
  constructor(rows: HistogramRows, isOfStats = false) {
    this.#isOfStats = isOfStats;
    const { isStale, runs, hasRowBefore } = rows;
    this.#rows = rows;
    const count = isStale.length;
    this.#hasGauges = rows.hints.includes(counterHint.gauge);
    const places = new Int32Array(count);
    let placeCount = 0;
    for (let row = hasRowBefore ? 1 : 0; row < count; row++) {
      if (isStale[row] === 0) places[placeCount++] = row;
    }
    this.places = places.subarray(0, placeCount);
    this.#runOfRow = new Int32Array(count);
    for (const [i, { first, past }] of runs.entries()) this.#runOfRow.fill(i, first, past);
  }

  get count(): number {
    return this.places.length;
  }

  over(
    first: number,
    last: number,
    isCounter: boolean,
    factorOf: (count: number) => number = noFactor,
  ): HistogramChange {
    assert(first < last && last < this.places.length, 'a change is between two rows');
    const run = this.#runAt(first);
    if (run !== this.#runAt(last)) {
      if (isCounter) return scaled(this.#overRuns(first, last), factorOf);
      // Of a gauge nothing between its ends counts.
      return scaled(changeByRows([this.at(first), this.at(last)], false), factorOf);
    }
    const { matrix, width } = run;
    const height = run.past - run.first;
    const at = this.#takeRoom(width);
    const change = this.#room;
    const resets = isCounter ? this.#resetsWithin(first, last) : noPlaces;
    const atLast = this.places[last]! - run.first;
    if (resets.length > 0 && resets[0] === first + 1) {
      // What was before a reset of the second row is of no account.
      for (let i = 0; i < width; i++) change[at + i] = matrix[i * height + atLast]!;
    } else {
      const atFirst = this.places[first]! - run.first;
      for (let i = 0; i < width; i++) {
        change[at + i] = matrix[i * height + atLast]! - matrix[i * height + atFirst]!;
      }
    }
    for (const reset of resets) {
      if (reset === first + 1) continue;
      const before = this.places[reset - 1]! - run.first;
      for (let i = 0; i < width; i++) change[at + i]! += matrix[i * height + before]!;
    }
    const factor = factorOf(change[at + matrixColumn.count]!);
    const isUsual = Number.isFinite(factor);
    if (isUsual) for (let i = 0; i < width; i++) change[at + i]! *= factor;
    const histogram = histogramOfNumbers(run, change, at, counterHint.gauge);
    if (!isUsual) histogram.scale(factor);
    const notes = this.#notes(first, last, isCounter);
    return { histogram: this.#isOfStats ? statsOf(histogram) : histogram, notes };
  }

  blockOver(
    { steps, firsts, lasts }: ChangeWindows,
    isCounter: boolean,
    factorOf: (window: number, countChange: number) => number,
    room: (length: number) => Float64Array,
  ): BlockOfChanges | null {
    const count = steps.length;
    if (count === 0) return null;
    const run = this.#runAt(firsts[0]!);
    if (run !== this.#runAt(lasts[count - 1]!)) return null;
    const width = this.#isOfStats ? matrixColumn.buckets : run.width;
    let work = count * width;
    const rowOf = (place: number): number => this.places[place]! - run.first;
    const added: { window: number; row: number }[] = [];
    const fromNothing: number[] = [];
    let notes: number = windowNote.nothing;
    for (let i = 0; i < count; i++) {
      const [first, last] = [firsts[i]!, lasts[i]!];
      const resets = isCounter ? this.#resetsWithin(first, last) : noPlaces;
      work += resets.length * width + (this.#hasGauges ? last - first : 0);
      if (work > blockNumbersMax) return null;
      notes |= this.#notes(first, last, isCounter);
      for (const reset of resets) {
        if (reset === first + 1) fromNothing.push(i);
        else added.push({ window: i, row: rowOf(reset - 1) });
      }
    }
    const numbers = room(count * width);
    const windows = { firsts: firsts.map(rowOf), lasts: lasts.map(rowOf), added, fromNothing };
    if (!changesOver(run, width, windows, factorOf, numbers)) return null;
    if (!this.#isOfStats) return { block: { ...run, steps, numbers }, notes };
    const zeros = matrixColumn.zeroCount * count;
    numbers.fill(0, zeros, zeros + count);
    const layout = { schema: run.schema, zeroThreshold: 0, customBounds: noBounds };
    const block = { ...layout, positive: noPlaces, negative: noPlaces, steps, numbers };
    return { block, notes };
  }

  /** @returns where the next numbers go in `#room` */
  #takeRoom(width: number): number {
    if (this.#roomUsed + width > this.#room.length) {
      // Whoever keeps one change keeps those beside it.
      this.#room = new Float64Array(Math.max(width, Math.min(2 * this.#room.length, roomMax)));
      this.#roomUsed = 0;
    }
    const at = this.#roomUsed;
    this.#roomUsed += width;
    return at;
  }

  countAt(place: number): number {
    const run = this.#runAt(place);
    const height = run.past - run.first;
    return run.matrix[matrixColumn.count * height + this.places[place]! - run.first]!;
  }

  looksOver(first: number, last: number): number {
    return 2 + this.#resetsWithin(first, last).length;
  }

  /** As `changeByRows`, with the rows alone that have a say: both ends, and those before resets. */
  #overRuns(first: number, last: number): HistogramChange {
    const histogramAtPlace = (place: number): FloatHistogram => {
      const histogram = this.#histogram(this.places[place]!);
      // Without buckets there are no bounds that could differ.
      return this.#isOfStats ? statsOf(histogram) : histogram;
    };
    const resets = this.#resetsWithin(first, last);
    const end = histogramAtPlace(last);
    let start = histogramAtPlace(first);
    if (resets[0] === first + 1) {
      const { schema, customBounds } = histogramAtPlace(first + 1);
      start = new FloatHistogram({ schema, customBounds, count: 0, sum: 0 });
    }
    let notes = this.#notes(first, last, true);
    if (end.isCustom !== start.isCustom) {
      return { histogram: null, notes: notes | windowNote.mixed };
    }
    let schema = Math.min(start.schema, end.schema);
    for (const run of this.#runsBetween(first, last)) {
      if ((run.schema === customSchema) !== start.isCustom) {
        return { histogram: null, notes: windowNote.mixed };
      }
      schema = Math.min(schema, run.schema);
    }
    const change = end.ofSchema(schema);
    if ((change.subtract(start) & reconciled.bounds) !== 0) notes |= windowNote.subtractedBounds;
    for (const reset of resets) {
      const before = reset === first + 1 ? start : histogramAtPlace(reset - 1);
      if ((change.add(before) & reconciled.bounds) !== 0) notes |= windowNote.addedBounds;
    }
    change.hint = counterHint.gauge;
    return { histogram: change.compact(), notes };
  }

  /** Those that have a row between two places. */
  *#runsBetween(first: number, last: number): Generator<HistogramRun> {
    for (let place = first + 1; place < last; ) {
      const run = this.#runAt(place);
      yield run;
      place = firstAbove(this.places, run.past - 1);
    }
  }

  /**
   * It says whether it goes on after the row before it. That it does not is left open unless only its counts are asked for,
   * as Prometheus leaves it: whoever compares two rows finds out, and what is made of many may have another row before it.
   */
  at(place: number): FloatHistogram {
    const histogram = this.#histogram(this.places[place]!);
    if (histogram.hint !== counterHint.gauge && this.#rowBefore(place) >= 0) {
      const reset = this.#isOfStats ? counterHint.reset : counterHint.unknown;
      histogram.hint = this.isReset(place) ? reset : counterHint.notReset;
    }
    return this.#isOfStats ? statsOf(histogram) : histogram;
  }

  #histogram(row: number): FloatHistogram {
    return histogramAt(this.#rows, this.#runOf(row), row);
  }

  #runOf(row: number): HistogramRun {
    return this.#rows.runs[this.#runOfRow[row]!]!;
  }

  #runAt(place: number): HistogramRun {
    return this.#runOf(this.places[place]!);
  }

  /** The row before that at a place; -1 when it is not known. */
  #rowBefore(place: number): number {
    if (place > 0) return this.places[place - 1]!;
    const { hasRowBefore, isStale } = this.#rows;
    return hasRowBefore && isStale[0] === 0 ? 0 : -1;
  }

  #notes(first: number, last: number, isCounter: boolean): number {
    if (!isCounter) {
      const areGauges = this.isGauge(first) && this.isGauge(last);
      return areGauges ? windowNote.nothing : windowNote.isNoGauge;
    }
    if (!this.#hasGauges) return windowNote.nothing;
    for (let place = first; place <= last; place++) {
      if (this.isGauge(place)) return windowNote.isGauge;
    }
    return windowNote.nothing;
  }

  isGauge(place: number): boolean {
    return this.#rows.hints[this.places[place]!] === counterHint.gauge;
  }

  isCustom(place: number): boolean {
    return this.#runAt(place).schema === customSchema;
  }

  /** Places in (first, last] whose rows are reset after the ones before. */
  #resetsWithin(first: number, last: number): Int32Array {
    const resets = (this.#resets ??= this.#findResets());
    if (resets.length === 0) return noPlaces;
    return resets.subarray(firstAbove(resets, first), firstAbove(resets, last));
  }

  #findResets(): Int32Array {
    const resets: number[] = [];
    for (let place = 0; place < this.places.length; ) {
      const { past } = this.#runAt(place);
      const next = firstAbove(this.places, past - 1);
      const isLess = this.#lessWithin(place, next);
      for (; place < next; place++) {
        const before = this.#rowBefore(place);
        if (before >= 0 && this.#isReset(place, before, isLess)) resets.push(place);
      }
    }
    return Int32Array.from(resets);
  }

  /**
   * By row of the run that has the rows at places [first, past): 1 where anything but the sum is less than in the row before, or
   * a bucket is empty that was not; of one that is NaN nothing is less.
   */
  #lessWithin(first: number, past: number): Uint8Array {
    const run = this.#runAt(first);
    const { matrix, width } = run;
    const height = run.past - run.first;
    const rows: number[] = [];
    const before = this.#rowBefore(first);
    if (before >= run.first) rows.push(before - run.first);
    for (let place = first; place < past; place++) rows.push(this.places[place]! - run.first);
    const isLess = new Uint8Array(height);
    for (let column = 0; column < width; column++) {
      if (column === matrixColumn.sum) continue;
      const isBucket = column >= matrixColumn.buckets;
      const at = column * height;
      let then = matrix[at + rows[0]!]!;
      for (let i = 1; i < rows.length; i++) {
        const now = matrix[at + rows[i]!]!;
        if (now < then || (then !== then && now === 0 && isBucket)) isLess[rows[i]!] = 1;
        then = now;
      }
    }
    return isLess;
  }

  isReset(place: number): boolean {
    return this.#resetsWithin(place - 1, place).length > 0;
  }

  #isReset(place: number, before: number, isLess: Uint8Array): boolean {
    const row = this.places[place]!;
    const run = this.#runOf(row);
    if (run !== this.#runOf(before)) {
      return this.#histogram(row).isResetAfter(this.#histogram(before));
    }
    const hint = this.#rows.hints[row];
    if (hint === counterHint.reset) return true;
    if (hint === counterHint.notReset) return false;
    return isLess[row - run.first] === 1;
  }

  isOther(place: number): boolean {
    const run = this.#runAt(place);
    if (run !== this.#runAt(place - 1)) return !this.at(place).equals(this.at(place - 1));
    const before = numbersOf(run, this.places[place - 1]!);
    return numbersOf(run, this.places[place]!).some((value, i) => !Object.is(value, before[i]));
  }
}

/** Multiplied by what its count says. */
function scaled(
  { histogram, notes }: HistogramChange,
  factorOf: (count: number) => number,
): HistogramChange {
  histogram?.scale(factorOf(histogram.count));
  return { histogram, notes };
}

/** Without its buckets. */
function statsOf({ schema, count, sum, hint }: FloatHistogram): FloatHistogram {
  return new FloatHistogram({ schema, count, sum, hint });
}
