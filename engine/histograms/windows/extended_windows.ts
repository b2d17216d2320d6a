/**
 * Windows that rows beyond their edges have a say in, of floats and of histograms. An *anchored* one begins with the last row
 * up to its opening; the edges of a *smoothed* one lie on the line between the rows on both sides of them. Nothing is
 * extrapolated. Functions, and the order of their steps, are those of Prometheus 3.15 (promql/functions.go, engine.go).
 */
import { assert } from '#lib/assert.ts';
import { WindowIndex } from '../../window_functions/window_index.ts';
import type { WindowRequest } from '../../window_functions/windows.ts';
import { windowNote } from './change.ts';
import { ChangeCounts, type RowWindow } from './change_counts.ts';
import { counterHint, type FloatHistogram, reconciled } from '../float_histogram.ts';
import type { SeriesRows } from './series_rows.ts';

export interface WindowExtension {
  readonly kind: 'anchored' | 'smoothed';
  /** How far before the opening of a window rows are looked for, and how far after its end. */
  readonly beforeMillis: number;
  readonly afterMillis: number;
}

/** What a window is measured from and to, both rows of one kind. */
interface Edges {
  readonly first: number;
  readonly last: number;
  /** Unix milliseconds of the window itself, (opening, end]. */
  readonly openingMillis: number;
  readonly endMillis: number;
}

/** About what it takes to make a histogram of two, in units of work (lib/turns/turns.ts). */
const histogramUnits = 1000;
/** To ask whether one is reset, or of what kind it is. */
const lookUnits = 30;
/** To find the edges. */
const edgeUnits = 50;

export class ExtendedWindows {
  readonly #request: WindowRequest;
  readonly #isSmoothed: boolean;
  readonly #rows: SeriesRows;
  /** Of the windows with what is around them. */
  readonly #floats: { readonly starts: Int32Array; readonly ends: Int32Array };
  readonly #histograms: { readonly starts: Int32Array; readonly ends: Int32Array };
  readonly #changes: ChangeCounts | null;
  /** Bits of `windowNote`, of all windows that were looked at. */
  notes: number = windowNote.nothing;

  /**
   * @param request of `rate`, `increase` and `delta`; anchored also of `changes` and `resets`, smoothed also of `instant`,
   *   whose range is how far it looks back
   * @param rows of all windows with what is around them
   * @param asksStarts `resets` looks at start times; no other function of such windows does
   */
  constructor(
    request: WindowRequest,
    extension: WindowExtension,
    rows: SeriesRows,
    asksStarts = false,
  ) {
    const { kind, beforeMillis, afterMillis } = extension;
    const { function: name } = request;
    this.#request = request;
    this.#isSmoothed = kind === 'smoothed';
    this.#rows = rows;
    const extended = {
      ...request,
      referenceStartMillis: request.referenceStartMillis + afterMillis,
      rangeMillis: request.rangeMillis + beforeMillis + afterMillis,
    };
    const { floatMillis, histogramMillis } = rows;
    this.#floats = new WindowIndex().locate(extended, floatMillis, floatMillis.length);
    this.#histograms = new WindowIndex().locate(extended, histogramMillis, histogramMillis.length);
    this.#changes =
      name === 'changes' || name === 'resets' ? new ChangeCounts(rows, name, asksStarts) : null;
  }

  #window(step: number): RowWindow {
    return {
      a: this.#floats.starts[step]!,
      b: this.#floats.ends[step]!,
      c: this.#histograms.starts[step]!,
      d: this.#histograms.ends[step]!,
    };
  }

  /** About what `step` takes. */
  stepUnits(step: number): number {
    const { a, b, c, d } = this.#window(step);
    return edgeUnits + b - a + (d > c ? histogramUnits + lookUnits * (d - c) : 0);
  }

  /** The outcome of a step; null for none. */
  step(step: number): number | FloatHistogram | null {
    const window = this.#window(step);
    const { function: name } = this.#request;
    if (name === 'changes' || name === 'resets') return this.#count(window, step);
    const [hasFloats, hasHistograms] = [window.b > window.a, window.d > window.c];
    if (!hasFloats && !hasHistograms) return null;
    if (hasFloats && hasHistograms) {
      this.notes |= windowNote.mixedWithFloats;
      return null;
    }
    if (name === 'instant') {
      return hasFloats ? this.#floatAt(window, step) : this.#histogramAt(window, step);
    }
    return hasFloats ? this.#changeOfFloats(window, step) : this.#changeOfHistograms(window, step);
  }

  get #isCounter(): boolean {
    return this.#request.function !== 'delta';
  }

  #endMillis(step: number): number {
    const { referenceStartMillis, referenceStepMillis } = this.#request;
    return referenceStartMillis + step * referenceStepMillis;
  }

  /**
   * Of the rows [from, past), at least one.
   * @returns null when there is nothing after the opening
   */
  #edges(times: Float64Array, from: number, past: number, step: number): Edges | null {
    const endMillis = this.#endMillis(step);
    const openingMillis = endMillis - this.#request.rangeMillis;
    // The newest row is the last one at the latest, so it is never the anchor.
    const newest = past - 1;
    const first = firstWhere(from, newest, (row) => times[row]! > openingMillis) - 1;
    const last = this.#isSmoothed
      ? firstWhere(from, newest, (row) => times[row]! >= endMillis)
      : newest;
    if (times[last]! <= openingMillis) return null;
    return { first: Math.max(from, first), last, openingMillis, endMillis };
  }

  /** Whether smoothed rows have all come too late. */
  #isBeyond(times: Float64Array, { first, endMillis }: Edges): boolean {
    return this.#isSmoothed && times[first]! > endMillis;
  }

  /** Whether an edge lies between two rows of the window, so that it is smoothed. */
  #isLeftBetween(times: Float64Array, { first, openingMillis }: Edges): boolean {
    return this.#isSmoothed && times[first]! < openingMillis;
  }

  #isRightBetween(times: Float64Array, from: number, { last, endMillis }: Edges): boolean {
    return this.#isSmoothed && last > from && times[last]! > endMillis;
  }

  #floatsAtEdges(from: number, edges: Edges, isCounter: boolean): [left: number, right: number] {
    const { floatMillis: times, floats } = this.#rows;
    const { first, last, openingMillis, endMillis } = edges;
    return [
      this.#isLeftBetween(times, edges)
        ? this.#floatBetween(first, openingMillis, isCounter)
        : floats[first]!,
      this.#isRightBetween(times, from, edges)
        ? this.#floatBetween(last - 1, endMillis, isCounter)
        : floats[last]!,
    ];
  }

  /** On the line from a row to the next one; a counter that was reset between them began at 0. */
  #floatBetween(row: number, timeMillis: number, isCounter: boolean): number {
    const { floatMillis: times, floats } = this.#rows;
    const after = floats[row + 1]!;
    const before = isCounter && after < floats[row]! ? 0 : floats[row]!;
    const [since, whole] = [timeMillis - times[row]!, times[row + 1]! - times[row]!];
    return before + ((after - before) * since) / whole;
  }

  #changeOfFloats({ a, b }: RowWindow, step: number): number | null {
    const { floatMillis: times, floats } = this.#rows;
    const edges = this.#edges(times, a, b, step);
    if (edges === null || this.#isBeyond(times, edges)) return null;
    const [left, right] = this.#floatsAtEdges(a, edges, this.#isCounter);
    let change = right - left;
    if (this.#isCounter) {
      const [begin, past] = rowsBetween(times, edges);
      let resets = 0;
      let before = left;
      for (let row = begin; row < past; row++) {
        if (floats[row]! < before) resets += before;
        before = floats[row]!;
      }
      if (right < before) resets += before;
      change += resets;
    }
    return this.#request.function === 'rate' ? change / this.#rangeSeconds : change;
  }

  get #rangeSeconds(): number {
    return this.#request.rangeMillis / 1000;
  }

  #changeOfHistograms({ c, d }: RowWindow, step: number): FloatHistogram | null {
    const { histogramMillis: times, histograms } = this.#rows;
    const edges = this.#edges(times, c, d, step);
    if (edges === null || this.#isBeyond(times, edges)) return null;
    if (!this.#areOfOneKind(edges)) return null;
    const { first, last, openingMillis, endMillis } = edges;
    const isCounter = this.#isCounter;
    const left = this.#isLeftBetween(times, edges)
      ? this.#histogramBetween(first, openingMillis, isCounter)
      : histograms.at(first);
    const right = this.#isRightBetween(times, c, edges)
      ? this.#histogramBetween(last - 1, endMillis, isCounter)
      : histograms.at(last);
    if (!isCounter && [left, right].some(({ hint }) => hint !== counterHint.gauge)) {
      this.notes |= windowNote.isNoGauge;
    }
    const change = right.copy();
    this.#noteBounds(change.subtract(left), windowNote.subtractedBounds);
    const resets = isCounter ? this.#resetsBetween(edges, left, right) : null;
    if (resets !== null) this.#noteBounds(change.add(resets), windowNote.addedBounds);
    if (this.#request.function === 'rate') change.divide(this.#rangeSeconds);
    change.hint = counterHint.gauge;
    return change.compact();
  }

  /** Whether all have custom buckets, or none has; else that is noted, as are gauges among counters. */
  #areOfOneKind({ first, last }: Edges): boolean {
    const { histograms } = this.#rows;
    const isCustom = histograms.isCustom(first);
    for (let place = first; place <= last; place++) {
      if (histograms.isCustom(place) !== isCustom) {
        this.notes |= windowNote.mixed;
        return false;
      }
      if (this.#isCounter && histograms.isGauge(place)) this.notes |= windowNote.isGauge;
    }
    return true;
  }

  /** As `#floatBetween`, of two of one kind. */
  #histogramBetween(place: number, timeMillis: number, isCounter: boolean): FloatHistogram {
    const { histogramMillis: times, histograms } = this.#rows;
    const [since, whole] = [timeMillis - times[place]!, times[place + 1]! - times[place]!];
    const [before, between] = [histograms.at(place), histograms.at(place + 1).copy()];
    if (isCounter && histograms.isReset(place + 1)) return between.scale(since / whole);
    this.#noteBounds(between.subtract(before), windowNote.subtractedBounds);
    between.scale(since / whole);
    this.#noteBounds(between.add(before), windowNote.addedBounds);
    return between;
  }

  #noteBounds(outcome: number, note: number): void {
    if ((outcome & reconciled.bounds) !== 0) this.notes |= note;
  }

  /** What was before each reset between the edges, added up; null without a reset. */
  #resetsBetween(edges: Edges, left: FloatHistogram, right: FloatHistogram): FloatHistogram | null {
    const { histogramMillis: times, histograms } = this.#rows;
    const { first, last } = edges;
    const isLeftBetween = this.#isLeftBetween(times, edges);
    // The left edge began at 0 if it lies within a reset, which counts no more then.
    const isLeftReset = isLeftBetween && histograms.isReset(first + 1);
    const begin = isLeftReset ? first + 2 : first + 1;
    if (begin > last) return null;
    let sum: FloatHistogram | null = null;
    for (let place = begin; place < last; place++) {
      if (place === first + 1 && isLeftBetween) {
        if (histograms.at(place).isResetAfter(left)) sum = this.#added(sum, left);
      } else if (histograms.isReset(place)) sum = this.#added(sum, histograms.at(place - 1));
    }
    const before = last === first + 1 ? left : histograms.at(last - 1);
    return right.isResetAfter(before) ? this.#added(sum, before) : sum;
  }

  #added(sum: FloatHistogram | null, histogram: FloatHistogram): FloatHistogram {
    if (sum === null) return histogram.copy();
    this.#noteBounds(sum.add(histogram), windowNote.addedBounds);
    return sum;
  }

  /** From the last row up to the opening, of either kind, to the end. */
  #count({ a, b, c, d }: RowWindow, step: number): number | null {
    const { floatMillis, histogramMillis } = this.#rows;
    const openingMillis = this.#endMillis(step) - this.#request.rangeMillis;
    const float = firstWhere(a, b, (row) => floatMillis[row]! > openingMillis);
    const histogram = firstWhere(c, d, (place) => histogramMillis[place]! > openingMillis);
    if (float === b && histogram === d) return null;
    const floatAnchor = float > a ? floatMillis[float - 1]! : -Infinity;
    const histogramAnchor = histogram > c ? histogramMillis[histogram - 1]! : -Infinity;
    const isFloatAnchor = float > a && floatAnchor >= histogramAnchor;
    const isHistogramAnchor = histogram > c && !isFloatAnchor;
    const begin = isFloatAnchor ? float - 1 : float;
    const beginHistograms = isHistogramAnchor ? histogram - 1 : histogram;
    assert(this.#changes !== null, 'changes and resets are counted');
    if (begin === b) return this.#changes.ofHistograms(beginHistograms, d);
    return this.#changes.ofAll({ a: begin, b, c: beginHistograms, d });
  }

  /** The row at a time, or what lies between its neighbours; after the last one it stays. */
  #floatAt({ a, b }: RowWindow, step: number): number | null {
    const { floatMillis: times, floats } = this.#rows;
    const endMillis = this.#endMillis(step);
    const next = firstWhere(a, b, (row) => times[row]! > endMillis);
    if (next === a) return null;
    if (next === b || times[next - 1] === endMillis) return floats[next - 1]!;
    return this.#floatBetween(next - 1, endMillis, false);
  }

  #histogramAt({ c, d }: RowWindow, step: number): FloatHistogram | null {
    const { histogramMillis: times, histograms } = this.#rows;
    const endMillis = this.#endMillis(step);
    const next = firstWhere(c, d, (place) => times[place]! > endMillis);
    if (next === c) return null;
    const place = next - 1;
    if (times[place] === endMillis) return histograms.at(place);
    if (next === d) {
      const last = histograms.at(place).copy();
      // What a hint says is of a row and the one before, not of a value that stays.
      last.hint = counterHint.unknown;
      return last;
    }
    if (histograms.isCustom(place) !== histograms.isCustom(next)) {
      this.notes |= windowNote.mixed;
      return null;
    }
    const areGauges = histograms.isGauge(place) && histograms.isGauge(next);
    return this.#histogramBetween(place, endMillis, !areGauges);
  }

  /**
   * The floats of a window as samples, with one at each of its edges, of the one step of an instant query.
   * @returns null when there is nothing after the opening
   */
  samples(): { readonly timestampMillis: Float64Array; readonly values: Float64Array } | null {
    const { floatMillis: times, floats } = this.#rows;
    const { a, b } = this.#window(0);
    const edges = b > a ? this.#edges(times, a, b, 0) : null;
    if (edges === null) return null;
    const [left, right] = this.#floatsAtEdges(a, edges, false);
    const [begin, past] = rowsBetween(times, edges);
    const inside = Math.max(0, past - begin);
    const timestampMillis = new Float64Array(inside + 2);
    const values = new Float64Array(inside + 2);
    timestampMillis.set(times.subarray(begin, begin + inside), 1);
    values.set(floats.subarray(begin, begin + inside), 1);
    [timestampMillis[0], values[0]] = [edges.openingMillis, left];
    [timestampMillis[inside + 1], values[inside + 1]] = [edges.endMillis, right];
    return { timestampMillis, values };
  }
}

/** Those that are neither before the opening or the end nor at one of them. */
function rowsBetween(times: Float64Array, edges: Edges): [begin: number, past: number] {
  const { first, last, openingMillis, endMillis } = edges;
  return [
    times[first]! <= openingMillis ? first + 1 : first,
    times[last]! >= endMillis ? last : last + 1,
  ];
}

/** The first of [from, past) for which it is so, as it is for all after it; `past` without one. */
function firstWhere(from: number, past: number, isSo: (row: number) => boolean): number {
  let [low, high] = [from, past];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isSo(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
