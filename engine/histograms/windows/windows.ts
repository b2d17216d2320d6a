/**
 * Window functions over series that have native histograms, floats among them or not. What windows of floats alone come to
 * is for `WindowEvaluator`; here is what histograms change about it. As Prometheus 3.15 does it (promql/functions.go).
 */
import { absentBits, type RowBuffer, setAbsent } from '../../window_functions/row.ts';
import { WindowIndex } from '../../window_functions/window_index.ts';
import type { WindowRequest } from '../../window_functions/windows.ts';
import { firstAbove } from './ascending.ts';
import { windowNote } from './change.ts';
import { ChangeCounts, type RowWindow } from './change_counts.ts';
import { counterHint, type FloatHistogram, reconciled } from '../float_histogram.ts';
import { HistogramMean } from '../histogram_mean.ts';
import { HistogramSum } from '../histogram_sum.ts';
import type { HistogramBlock } from './histogram_block.ts';
import type { SeriesRows } from './series_rows.ts';

type Outcome = number | FloatHistogram | null | 'ofFloats';

/** About what a look at a histogram takes, in units of work (lib/turns/turns.ts). */
const lookUnits = 400;

export class HistogramWindows {
  readonly #request: WindowRequest;
  readonly #rows: SeriesRows;
  readonly #floats: { readonly starts: Int32Array; readonly ends: Int32Array };
  readonly #histograms: { readonly starts: Int32Array; readonly ends: Int32Array };
  /** Null until it is asked for. */
  #changes: ChangeCounts | null = null;
  /** Bits of `windowNote`, of all windows that were looked at. */
  notes: number = windowNote.nothing;

  constructor(request: WindowRequest, rows: SeriesRows) {
    this.#request = request;
    this.#rows = rows;
    const { floatMillis, histogramMillis } = rows;
    this.#floats = new WindowIndex().locate(request, floatMillis, floatMillis.length);
    this.#histograms = new WindowIndex().locate(request, histogramMillis, histogramMillis.length);
  }

  /** Whether the evaluator has to have put what the floats come to into the row, before `step` is called. */
  get needsFloats(): boolean {
    const name = this.#request.function;
    return name !== 'instant' && name !== 'instantTime' && this.#rows.floats.length > 0;
  }

  /** About what `step` takes. */
  stepUnits(step: number): number {
    const [start, end] = [this.#histograms.starts[step]!, this.#histograms.ends[step]!];
    switch (this.#request.function) {
      case 'sum':
      case 'avg':
        return lookUnits * Math.max(1, end - start);
      case 'rate':
      case 'increase':
        return lookUnits * (end - start < 2 ? 1 : this.#rows.histograms.looksOver(start, end - 1));
      default:
        return lookUnits * 2;
    }
  }

  /**
   * Puts the outcome of a step into the row, unless it is what the floats come to.
   * @returns the histogram, when it is one
   */
  step(step: number, target: RowBuffer, at: number): FloatHistogram | null {
    const outcome = this.#outcome(
      {
        a: this.#floats.starts[step]!,
        b: this.#floats.ends[step]!,
        c: this.#histograms.starts[step]!,
        d: this.#histograms.ends[step]!,
      },
      step,
    );
    if (outcome === 'ofFloats') {
      if (!this.needsFloats) setAbsent(target.words, at + step);
      return null;
    }
    if (outcome === null) {
      target.bits[at + step] = absentBits;
      return null;
    }
    if (typeof outcome === 'number') {
      target.values[at + step] = outcome;
      return null;
    }
    target.values[at + step] = Number.NaN;
    return outcome;
  }

  #outcome(window: RowWindow, step: number): Outcome {
    const name = this.#request.function;
    if (name === 'instant' || name === 'instantTime') return this.#instant(window, step);
    const hasFloats = window.b > window.a;
    if (window.d === window.c) return 'ofFloats';
    switch (name) {
      case 'rate':
      case 'increase':
      case 'delta':
        if (hasFloats) return this.#mixed();
        return this.#extrapolated(window, step);
      case 'sum':
      case 'avg':
        if (hasFloats) return this.#mixed();
        return name === 'sum' ? this.#sum(window) : this.#mean(window);
      case 'irate':
      case 'idelta':
        return this.#instantChange(window);
      case 'changes':
      case 'resets':
        this.#changes ??= new ChangeCounts(this.#rows, name);
        if (hasFloats) return this.#changes.ofAll(window);
        return this.#changes.ofHistograms(window.c, window.d);
      case 'count':
        return window.b - window.a + window.d - window.c;
      case 'present':
        return 1;
      case 'last':
        return this.#isFloatLast(window) ? 'ofFloats' : this.#at(window.d - 1);
      case 'first':
        return this.#isFloatFirst(window) ? 'ofFloats' : this.#at(window.c);
      case 'timeOfLast':
        if (this.#isFloatLast(window)) return 'ofFloats';
        return this.#rows.histogramMillis[window.d - 1]! / 1000;
      case 'timeOfFirst':
        if (this.#isFloatFirst(window)) return 'ofFloats';
        return this.#rows.histogramMillis[window.c]! / 1000;
      case 'min':
      case 'max':
      case 'stddev':
      case 'stdvar':
      case 'deriv':
      case 'predictLinear':
      case 'quantile':
      case 'mad':
      case 'doubleExponential':
      case 'timeOfMin':
      case 'timeOfMax':
        if (hasFloats) this.notes |= windowNote.ignored;
        return 'ofFloats';
    }
  }

  #at(place: number): FloatHistogram {
    return this.#rows.histograms.at(place);
  }

  /** For sums whose empty buckets are looked at: they have those that the rows of the window make empty, and no others. */
  #compactAt(place: number): FloatHistogram {
    return this.#at(place).compact();
  }

  #mixed(): null {
    this.notes |= windowNote.mixedWithFloats;
    return null;
  }

  #isFloatLast({ a, b, d }: RowWindow): boolean {
    const { floatMillis, histogramMillis } = this.#rows;
    return b > a && floatMillis[b - 1]! > histogramMillis[d - 1]!;
  }

  #isFloatFirst({ a, b, c }: RowWindow): boolean {
    const { floatMillis, histogramMillis } = this.#rows;
    return b > a && floatMillis[a]! < histogramMillis[c]!;
  }

  /** The newest row, unless it is a marker that ends the series. */
  #instant({ a, b, c, d }: RowWindow, step: number): Outcome {
    const { floatMillis, floats, histogramMillis, staleMillis } = this.#rows;
    const floatTime = b > a ? floatMillis[b - 1]! : -Infinity;
    const histogramTime = d > c ? histogramMillis[d - 1]! : -Infinity;
    const newest = Math.max(floatTime, histogramTime);
    if (newest === -Infinity) return null;
    const { referenceStartMillis, referenceStepMillis } = this.#request;
    const reference = referenceStartMillis + step * referenceStepMillis;
    if (lastUpTo(staleMillis, reference) > newest) return null;
    if (this.#request.function === 'instantTime') return newest / 1000;
    return floatTime > histogramTime ? floats[b - 1]! : this.#at(d - 1);
  }

  /** Whether the rows of a window have changed over a time. */
  #hasChange(first: number, last: number): boolean {
    const { histogramMillis } = this.#rows;
    return last > first && histogramMillis[first] !== histogramMillis[last];
  }

  #extrapolated({ c, d }: RowWindow, step: number): Outcome {
    const [first, last] = [c, d - 1];
    if (!this.#hasChange(first, last)) return null;
    const isCounter = this.#request.function !== 'delta';
    const { histogram, notes } = this.#rows.histograms.over(first, last, isCounter, (change) =>
      this.#extrapolation(first, last, step, change),
    );
    this.notes |= notes;
    return histogram;
  }

  /** What a change from row to row is multiplied by, that it is one over the window. @param change of the count */
  #extrapolation(first: number, last: number, step: number, change: number): number {
    const {
      function: name,
      rangeMillis,
      referenceStartMillis,
      referenceStepMillis,
    } = this.#request;
    const { histograms, histogramMillis } = this.#rows;
    const [firstTime, lastTime] = [histogramMillis[first]!, histogramMillis[last]!];
    const reference = referenceStartMillis + step * referenceStepMillis;
    const sampledSeconds = (lastTime - firstTime) / 1000;
    const meanInterval = sampledSeconds / (last - first);
    const threshold = meanInterval * extrapolationIntervals;
    let toStart = (firstTime - (reference - rangeMillis)) / 1000;
    let toEnd = (reference - lastTime) / 1000;
    if (toStart >= threshold) toStart = meanInterval / 2;
    if (toEnd >= threshold) toEnd = meanInterval / 2;
    if (name !== 'delta') {
      const count = histograms.countAt(first);
      if (change > 0 && count >= 0) {
        toStart = Math.min(toStart, sampledSeconds * (count / change));
      }
    }
    const factor = (sampledSeconds + toStart + toEnd) / sampledSeconds;
    return name === 'rate' ? factor / (rangeMillis / 1000) : factor;
  }

  /**
   * The outcomes of all steps at once.
   * @param room for so many numbers, which belong to the block
   * @returns null when they have to be made one by one
   */
  block(room: (length: number) => Float64Array): HistogramBlock | null {
    const { function: name, stepCount } = this.#request;
    const isCounter = name === 'rate' || name === 'increase';
    if (!(isCounter || name === 'delta') || this.#rows.floats.length > 0) return null;
    const { starts, ends } = this.#histograms;
    const windows = {
      steps: new Int32Array(stepCount),
      firsts: new Int32Array(stepCount),
      lasts: new Int32Array(stepCount),
    };
    let count = 0;
    for (let step = 0; step < stepCount; step++) {
      const [first, last] = [starts[step]!, ends[step]! - 1];
      if (!this.#hasChange(first, last)) continue;
      windows.steps[count] = step;
      windows.firsts[count] = first;
      windows.lasts[count] = last;
      count++;
    }
    const steps = windows.steps.subarray(0, count);
    const firsts = windows.firsts.subarray(0, count);
    const lasts = windows.lasts.subarray(0, count);
    const outcome = this.#rows.histograms.blockOver(
      { steps, firsts, lasts },
      isCounter,
      (i, change) => this.#extrapolation(firsts[i]!, lasts[i]!, steps[i]!, change),
      room,
    );
    if (outcome === null) return null;
    this.notes |= outcome.notes;
    return outcome.block;
  }

  #instantChange(window: RowWindow): Outcome {
    const isRate = this.#request.function === 'irate';
    const { floatMillis, histogramMillis, histograms } = this.#rows;
    const { a, b, c, d } = window;
    if (b - a + d - c < 2) return null;
    // Whether the last two are histograms, floats, or one of each.
    const isNewer = (float: number, histogram: number): boolean =>
      float >= a && (histogram < c || floatMillis[float]! > histogramMillis[histogram]!);
    const isLastFloat = isNewer(b - 1, d - 1);
    const isOtherFloat = isLastFloat ? isNewer(b - 2, d - 1) : isNewer(b - 1, d - 2);
    if (isLastFloat && isOtherFloat) return 'ofFloats';
    if (isLastFloat || isOtherFloat) return this.#mixed();
    const [before, last] = [histograms.at(d - 2), histograms.at(d - 1)];
    const seconds = (histogramMillis[d - 1]! - histogramMillis[d - 2]!) / 1000;
    if (seconds === 0) return null;
    const areGauges = [before, last].map(({ hint }) => hint === counterHint.gauge);
    if (isRate && areGauges.includes(true)) this.notes |= windowNote.isGauge;
    if (!isRate && areGauges.includes(false)) this.notes |= windowNote.isNoGauge;
    const change = last.copy();
    if (!isRate || !histograms.isReset(d - 1)) {
      if (!change.isLike(before)) {
        this.notes |= windowNote.mixed;
        return null;
      }
      if ((change.subtract(before) & reconciled.bounds) !== 0) {
        this.notes |= windowNote.subtractedBounds;
      }
    }
    change.hint = counterHint.gauge;
    change.compact();
    return isRate ? change.divide(seconds) : change;
  }

  #sum(window: RowWindow): Outcome {
    const { c, d } = window;
    const sum = new HistogramSum(this.#compactAt(c));
    for (let place = c + 1; place < d; place++) {
      const histogram = this.#compactAt(place);
      if (!this.#canAdd(sum, histogram)) return null;
      this.#noteSum(sum.add(histogram));
    }
    this.#noteHints(window);
    return sum.result();
  }

  #mean(window: RowWindow): Outcome {
    const { c, d } = window;
    const mean = new HistogramMean(this.#compactAt(c));
    for (let place = c + 1; place < d; place++) {
      const histogram = this.#compactAt(place);
      if (!this.#canAdd(mean, histogram)) return null;
      this.#noteSum(mean.add(histogram));
    }
    this.#noteHints(window);
    return mean.result();
  }

  #canAdd(sum: HistogramSum | HistogramMean, histogram: FloatHistogram): boolean {
    if (sum.isLike(histogram)) return true;
    this.notes |= windowNote.mixed;
    return false;
  }

  #noteSum(outcome: number): void {
    if ((outcome & reconciled.bounds) !== 0) this.notes |= windowNote.summedBounds;
  }

  #noteHints({ c, d }: RowWindow): void {
    let [isReset, isNotReset] = [false, false];
    for (let place = c; place < d; place++) {
      const { hint } = this.#at(place);
      isReset ||= hint === counterHint.reset;
      isNotReset ||= hint === counterHint.notReset;
    }
    if (isReset && isNotReset) this.notes |= windowNote.hintsCollide;
  }
}

/** An edge of the window farther away than this many mean intervals is not extrapolated to. */
const extrapolationIntervals = 1.1;

/** The last one that is not later; -Infinity without one. */
function lastUpTo(ascending: Float64Array, limit: number): number {
  const above = firstAbove(ascending, limit);
  return above === 0 ? -Infinity : ascending[above - 1]!;
}
