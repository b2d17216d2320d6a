/**
 * Windows over counters that say when they started: a start after the row before is a reset, and a start within the window
 * takes the place of what would be extrapolated to its edge. As Prometheus 3.15 does it where start timestamps are used.
 */
import { WindowIndex } from '../../window_functions/window_index.ts';
import type { WindowRequest } from '../../window_functions/windows.ts';
import { changeByRows, windowNote } from './change.ts';
import { counterHint, type FloatHistogram, reconciled } from '../float_histogram.ts';
import type { SeriesRows } from './series_rows.ts';

/** The functions that look at start times. */
export type StartFunction = 'rate' | 'increase' | 'irate' | 'resets';

export function looksAtStarts(name: string): name is StartFunction {
  return name === 'rate' || name === 'increase' || name === 'irate' || name === 'resets';
}

/** A row of either kind. */
interface Row {
  readonly millis: number;
  readonly startMillis: number;
  readonly value: number | FloatHistogram;
}

/** Whether the counter began anew between two rows. A start after its own row is none, and the same one again no reset. */
export function isStartReset(before: Omit<Row, 'value'>, next: Omit<Row, 'value'>): boolean {
  const { startMillis: start } = next;
  // None that is known, or none that can be.
  if (start === before.startMillis || start === 0 || start >= next.millis) return false;
  if (start !== before.millis) return start > before.millis;
  // Deltas start where the one before ends; counters whose start nobody knows do so once.
  if (before.startMillis > before.millis) return false;
  return before.startMillis !== 0 && before.startMillis !== before.millis;
}

function overlaps(before: Row, { startMillis }: Row): boolean {
  return startMillis !== 0 && startMillis < before.millis && startMillis !== before.startMillis;
}

/** An edge of the window farther away than this many mean intervals is not extrapolated to. */
const extrapolationIntervals = 1.1;

/** What it takes to look at a row, in units of work. */
const floatUnits = 4;
const histogramUnits = 500;

export class StartWindows {
  readonly #request: WindowRequest;
  readonly #rows: SeriesRows;
  readonly #floats: { readonly starts: Int32Array; readonly ends: Int32Array };
  readonly #histograms: { readonly starts: Int32Array; readonly ends: Int32Array };
  /** Bits of `windowNote`, of all steps so far. */
  notes: number = windowNote.nothing;
  /** Steps at which the start of a row overlaps with the row before it. */
  overlappingSteps = 0;

  /** @param request of a `StartFunction` */
  constructor(request: WindowRequest, rows: SeriesRows) {
    this.#request = request;
    this.#rows = rows;
    const { floatMillis, histogramMillis } = rows;
    this.#floats = new WindowIndex().locate(request, floatMillis, floatMillis.length);
    this.#histograms = new WindowIndex().locate(request, histogramMillis, histogramMillis.length);
  }

  /** In units of work (lib/turns/turns.ts), about. */
  stepUnits(step: number): number {
    const of = ({ starts, ends }: { starts: Int32Array; ends: Int32Array }): number =>
      Math.max(0, ends[step]! - starts[step]!);
    return floatUnits * of(this.#floats) + histogramUnits * of(this.#histograms);
  }

  /** @returns null when nothing comes of the window */
  step(step: number): number | FloatHistogram | null {
    const rows = this.#rowsOf(step);
    switch (this.#request.function as StartFunction) {
      case 'rate':
      case 'increase':
        return this.#rate(rows, step);
      case 'irate':
        return this.#instantRate(rows);
      case 'resets':
        return rows.length === 0 ? null : resetsOf(rows);
    }
  }

  /** In the order of their times. */
  #rowsOf(step: number): Row[] {
    const { floatMillis, floats, floatStarts, histogramMillis, histograms, histogramStarts } =
      this.#rows;
    const all: Row[] = [];
    for (let i = this.#floats.starts[step]!; i < this.#floats.ends[step]!; i++) {
      const startMillis = floatStarts?.[i] ?? 0;
      all.push({ millis: floatMillis[i]!, startMillis, value: floats[i]! });
    }
    const floatCount = all.length;
    for (let i = this.#histograms.starts[step]!; i < this.#histograms.ends[step]!; i++) {
      const startMillis = histogramStarts?.[i] ?? 0;
      all.push({ millis: histogramMillis[i]!, startMillis, value: histograms.at(i) });
    }
    const isMixed = floatCount > 0 && floatCount < all.length;
    return isMixed ? all.sort((a, b) => a.millis - b.millis) : all;
  }

  #rate(rows: readonly Row[], step: number): number | FloatHistogram | null {
    const [first, last] = [rows[0], rows.at(-1)];
    if (first === undefined || last === undefined) return null;
    const ofFloats = typeof first.value === 'number';
    if (rows.some(({ value }) => (typeof value === 'number') !== ofFloats)) {
      this.notes |= windowNote.mixedWithFloats;
      return null;
    }
    let change = rows.length === 1 ? null : this.#changeOf(rows);
    if (rows.length > 1 && change === null) return null;
    const {
      function: name,
      rangeMillis,
      referenceStartMillis,
      referenceStepMillis,
    } = this.#request;
    const reference = referenceStartMillis + step * referenceStepMillis;
    const opening = reference - rangeMillis;
    let sampledSeconds = (last.millis - first.millis) / 1000;
    const meanInterval = rows.length > 1 ? sampledSeconds / (rows.length - 1) : 0;
    const threshold = meanInterval * extrapolationIntervals;
    let toStart = (first.millis - opening) / 1000;
    let toEnd = (reference - last.millis) / 1000;
    const { startMillis: start } = first;
    if (start !== 0 && start > opening && start < first.millis) {
      // As if there were a row of zero at the start.
      toStart = 0;
      sampledSeconds = (last.millis - start) / 1000;
      change = this.#withFirst(change, first.value);
      if (change === null) return null;
    } else if (change === null) return null;
    else {
      if (toStart >= threshold) toStart = meanInterval / 2;
      toStart = Math.min(toStart, toZero(first.value, change, sampledSeconds));
    }
    if (toEnd >= threshold) toEnd = meanInterval / 2;
    let factor = sampledSeconds === 0 ? 1 : (sampledSeconds + toStart + toEnd) / sampledSeconds;
    if (name === 'rate') factor /= rangeMillis / 1000;
    return typeof change === 'number' ? change * factor : change.scale(factor);
  }

  #changeOf(rows: readonly Row[]): number | FloatHistogram | null {
    if (rows.some((row, i) => i > 0 && overlaps(rows[i - 1]!, row))) this.overlappingSteps += 1;
    if (typeof rows[0]!.value !== 'number') {
      const window = rows.map(({ value }) => value as FloatHistogram);
      const isResetAt = (place: number): boolean => isStartReset(rows[place - 1]!, rows[place]!);
      const { histogram, notes } = changeByRows(window, true, isResetAt);
      this.notes |= notes;
      return histogram;
    }
    let change = (rows.at(-1)!.value as number) - rows[0]!.value;
    for (let i = 1; i < rows.length; i++) {
      const [before, next] = [rows[i - 1]!, rows[i]!];
      const fell = (next.value as number) < (before.value as number);
      if (fell || isStartReset(before, next)) change += before.value as number;
    }
    return change;
  }

  #withFirst(
    change: number | FloatHistogram | null,
    first: number | FloatHistogram,
  ): number | FloatHistogram | null {
    if (typeof first === 'number') return ((change as number | null) ?? 0) + first;
    if (change === null || typeof change === 'number') return first.copy();
    if (!change.isLike(first)) {
      this.notes |= windowNote.mixed;
      return null;
    }
    if ((change.add(first) & reconciled.bounds) !== 0) this.notes |= windowNote.addedBounds;
    return change;
  }

  #instantRate(rows: readonly Row[]): number | FloatHistogram | null {
    const [before, last] = rows.slice(-2);
    if (before === undefined || last === undefined || last.millis === before.millis) return null;
    const seconds = (last.millis - before.millis) / 1000;
    const isReset = isStartReset(before, last);
    if (typeof last.value === 'number' && typeof before.value === 'number') {
      const hasFallen = isReset || last.value < before.value;
      return (hasFallen ? last.value : last.value - before.value) / seconds;
    }
    if (typeof last.value === 'number' || typeof before.value === 'number') {
      this.notes |= windowNote.mixedWithFloats;
      return null;
    }
    if ([last.value.hint, before.value.hint].includes(counterHint.gauge)) {
      this.notes |= windowNote.isGauge;
    }
    const change = last.value.copy();
    if (!isReset && !last.value.isResetAfter(before.value)) {
      if (!change.isLike(before.value)) {
        this.notes |= windowNote.mixed;
        return null;
      }
      if ((change.subtract(before.value) & reconciled.bounds) !== 0) {
        this.notes |= windowNote.subtractedBounds;
      }
    }
    change.hint = counterHint.gauge;
    return change.compact().divide(seconds);
  }
}

/** Where a counter that has gone up by `change` since its first row would have been zero, in seconds before that row. */
function toZero(
  first: number | FloatHistogram,
  change: number | FloatHistogram,
  sampledSeconds: number,
): number {
  const countOf = (value: number | FloatHistogram): number =>
    typeof value === 'number' ? value : value.count;
  const [count, grown] = [countOf(first), countOf(change)];
  return grown > 0 && count >= 0 ? sampledSeconds * (count / grown) : Infinity;
}

function resetsOf(rows: readonly Row[]): number {
  let resets = 0;
  for (let i = 1; i < rows.length; i++) {
    const [before, next] = [rows[i - 1]!, rows[i]!];
    if (isStartReset(before, next)) resets += 1;
    else if (typeof before.value === 'number' && typeof next.value === 'number') {
      if (next.value < before.value) resets += 1;
    } else if (typeof before.value === 'number' || typeof next.value === 'number') resets += 1;
    else if (next.value.isResetAfter(before.value)) resets += 1;
  }
  return resets;
}

/** Start times of the newest rows of windows: of the function `instant`. */
export class NewestStarts {
  readonly notes: number = windowNote.nothing;
  readonly #request: WindowRequest;
  readonly #rows: SeriesRows;
  readonly #ends: { floats: Int32Array; histograms: Int32Array; stale: Int32Array };

  constructor(request: WindowRequest, rows: SeriesRows) {
    this.#request = request;
    this.#rows = rows;
    const endsOf = (millis: Float64Array): Int32Array =>
      new WindowIndex().locate(request, millis, millis.length).ends;
    this.#ends = {
      floats: endsOf(rows.floatMillis),
      histograms: endsOf(rows.histogramMillis),
      stale: endsOf(rows.staleMillis),
    };
  }

  stepUnits(): number {
    return floatUnits;
  }

  /** @returns seconds, 0 when nobody said; null when there is no row, or it has ended */
  step(step: number): number | null {
    const { referenceStartMillis, referenceStepMillis, rangeMillis } = this.#request;
    const { floatMillis, floatStarts, histogramMillis, histogramStarts, staleMillis } = this.#rows;
    const { floats, histograms, stale } = this.#ends;
    const [float, histogram] = [floats[step]! - 1, histograms[step]! - 1];
    const floatTime = floatMillis[float] ?? -Infinity;
    const histogramTime = histogramMillis[histogram] ?? -Infinity;
    const newest = Math.max(floatTime, histogramTime);
    const opening = referenceStartMillis + step * referenceStepMillis - rangeMillis;
    if (newest <= opening || (staleMillis[stale[step]! - 1] ?? -Infinity) > newest) return null;
    const start = floatTime > histogramTime ? floatStarts?.[float] : histogramStarts?.[histogram];
    return (start ?? 0) / 1000;
  }
}
