/** Subqueries: the values of an expression on a grid of its own, and windows over them. */
import { counterHint, type FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { rowsOfValues } from '#engine/histograms/windows/series_rows.ts';
import { isAbsent } from '#engine/window_functions/row.ts';
import type { WindowRequest } from '#engine/window_functions/windows.ts';
import type { Grid, SubquerySource } from '../plan/plan.ts';
import { sliced } from '../plan/slice.ts';
import { bytesOfHistogram, type Cells, histogramOf, makeCells } from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import type { Labels } from '../rows/labels.ts';
import type { Pacer } from '../rows/pacer.ts';
import { loadPrepared, notReady, Rows } from '../rows/rows.ts';
import type { Evaluator } from '../rows/evaluator.ts';
import { ColumnWindows } from './column_windows.ts';
import { noteWindows } from './window_notes.ts';

/**
 * Steps of a row that is made in one go: some milliseconds for each operation on it. Longer subqueries are
 * evaluated in parts.
 */
export const stepsAtOnce = 262_144;

/** Of a time and a value; what is joined is given free part by part. */
const columnRowBytes = 18;

/** Present values of one series, in ascending time, as they come: a part for each slice of the grid. */
class ColumnParts {
  readonly labels: Labels;
  readonly #times: Float64Array[] = [];
  readonly #values: Float64Array[] = [];
  readonly #histogramTimes: number[] = [];
  readonly #histograms: FloatHistogram[] = [];
  count = 0;

  constructor(labels: Labels) {
    this.labels = labels;
  }

  /** Adds what row [at, at + stepCount) of the rows' buffer has. @returns how many bytes its histograms take */
  add({ buffer, stepCount }: Rows, at: number, grid: Grid): number {
    const times = new Float64Array(stepCount);
    const values = new Float64Array(stepCount);
    const bytes = this.#addHistograms(buffer, at, grid);
    const count = collectFloats(buffer, at, grid, times, values);
    if (count === 0) return bytes;
    this.#times.push(count < stepCount ? times.slice(0, count) : times);
    this.#values.push(count < stepCount ? values.slice(0, count) : values);
    this.count += count;
    return bytes;
  }

  #addHistograms(buffer: Cells, at: number, grid: Grid): number {
    if (buffer.histograms === null) return 0;
    let bytes = 0;
    const found = collectHistograms(buffer, at, grid);
    for (const [i, histogram] of found.histograms.entries()) {
      this.#histogramTimes.push(found.times[i]!);
      this.#histograms.push(histogram);
      bytes += bytesOfHistogram(histogram);
    }
    return bytes;
  }

  get isEmpty(): boolean {
    return this.count === 0 && this.#histograms.length === 0;
  }

  /** All as one; the parts are gone then. */
  async joined(pacer: Pacer): Promise<Column> {
    const { labels, count } = this;
    const joined: Column = {
      labels,
      count,
      times: sharedColumn(count),
      values: sharedColumn(count),
      histogramTimes: Float64Array.from(this.#histogramTimes),
      histograms: this.#histograms,
    };
    let at = 0;
    while (this.#times.length > 0) {
      const times = this.#times.shift()!;
      joined.times.set(times, at);
      joined.values.set(this.#values.shift()!, at);
      at += times.length;
      if (pacer.spend(times.length)) await pacer.pause();
    }
    return joined;
  }
}

/** Puts the numbers of a row into columns. @returns how many */
function collectFloats(
  { values, words, histograms }: Cells,
  at: number,
  { startMillis, stepMillis, stepCount }: Grid,
  times: Float64Array,
  numbers: Float64Array,
): number {
  let count = 0;
  for (let step = 0; step < stepCount; step++) {
    const value = values[at + step]!;
    if (value !== value) {
      if (isAbsent(words, at + step)) continue;
      if (histograms !== null && histograms[at + step] !== undefined) continue;
    }
    times[count] = startMillis + step * stepMillis;
    numbers[count++] = value;
  }
  return count;
}

function collectHistograms(
  buffer: Cells,
  at: number,
  { startMillis, stepMillis, stepCount }: Grid,
): { readonly times: number[]; readonly histograms: FloatHistogram[] } {
  const times: number[] = [];
  const histograms: FloatHistogram[] = [];
  for (let step = 0; step < stepCount; step++) {
    const histogram = histogramOf(buffer, at + step);
    if (histogram === null) continue;
    times.push(startMillis + step * stepMillis);
    histograms.push(withoutHint(histogram));
  }
  return { times, histograms };
}

/** What a hint says is of the stored row before, which a step may pass over or have twice. */
function withoutHint(histogram: FloatHistogram): FloatHistogram {
  const { hint } = histogram;
  if (hint === counterHint.unknown || hint === counterHint.gauge) return histogram;
  const copy = histogram.copy();
  copy.hint = counterHint.unknown;
  return copy;
}

/** Values of one series, each kind in ascending time. */
export interface Column {
  readonly labels: Labels;
  /** Unix milliseconds. */
  readonly times: Float64Array;
  readonly values: Float64Array;
  /** Of floats. */
  readonly count: number;
  readonly histogramTimes: Float64Array;
  readonly histograms: readonly FloatHistogram[];
}

/** Which a thread may read without a copy. */
const sharedColumn = (rows: number): Float64Array =>
  new Float64Array(new SharedArrayBuffer(rows * 8));

/**
 * All values of a subquery that is too long for one go, or is the query.
 * @param changed what is to be the columns in the place of the rows of the expression
 */
export async function columnsOf(
  source: SubquerySource,
  evaluator: Evaluator,
  changed: (rows: Rows) => Promise<Rows> = async (rows) => rows,
): Promise<readonly Column[]> {
  const { pacer } = evaluator.context;
  const { stepCount } = source.inner.grid;
  const columns = new Map<string, ColumnParts>();
  for (let from = 0; from < stepCount; from += stepsAtOnce) {
    const part = sliced(source.inner, from, Math.min(stepsAtOnce, stepCount - from));
    const rows = await changed(await evaluator.vector(part));
    for (const [index, labels] of rows.labels.entries()) {
      let at = rows.load(index);
      if (at === notReady) at = await loadPrepared(rows, index);
      let column = columns.get(labels.key);
      if (column === undefined) {
        column = new ColumnParts(labels);
        columns.set(labels.key, column);
      }
      const before = column.count;
      const histogramBytes = column.add(rows, at, part.grid);
      if (pacer.hold(column.count - before, columnRowBytes)) await pacer.room();
      if (pacer.take(histogramBytes)) await pacer.room();
      if (pacer.spend(2 * rows.stepCount)) await pacer.pause();
    }
  }
  const joined: Column[] = [];
  for (const column of columns.values()) {
    if (!column.isEmpty) joined.push(await column.joined(pacer));
  }
  return joined;
}

/** Whether `columnsOf` is needed. */
export const isLong = ({ inner }: SubquerySource): boolean => inner.grid.stepCount > stepsAtOnce;

/** Windows over the values of an expression on its own grid. */
export class SubqueryRows extends Rows {
  readonly #inner: Rows;
  readonly #source: SubquerySource;
  readonly #windows: ColumnWindows;
  readonly #context: Context;
  readonly #times: Float64Array;
  readonly #values: Float64Array;
  /** The row that the buffer holds because it was made aside; -1 for none. */
  #prepared: number;

  constructor(inner: Rows, source: SubquerySource, request: WindowRequest, context: Context) {
    super(inner.labels, request.stepCount, makeCells(request.stepCount));
    this.#inner = inner;
    this.#source = source;
    this.#windows = new ColumnWindows(request, context);
    this.#context = context;
    this.#times = new Float64Array(source.inner.grid.stepCount);
    this.#values = new Float64Array(source.inner.grid.stepCount);
    this.#prepared = -1;
  }

  load(index: number): number {
    if (index === this.#prepared) return 0;
    this.#prepared = -1;
    const at = this.#inner.load(index);
    if (at === notReady || this.#inner.buffer.histograms !== null) return notReady;
    const count = this.#collect(at);
    return this.#windows.evaluate(this.#times, this.#values, count, this.buffer) ? 0 : notReady;
  }

  /** Puts the floats of the inner row into the columns. */
  #collect(at: number): number {
    const { grid } = this.#source.inner;
    this.#context.pacer.note(grid.stepCount);
    return collectFloats(this.#inner.buffer, at, grid, this.#times, this.#values);
  }

  async prepare(index: number): Promise<void> {
    let at = this.#inner.load(index);
    if (at === notReady) at = await loadPrepared(this.#inner, index);
    const count = this.#collect(at);
    const [times, values] = [this.#times.slice(0, count), this.#values.slice(0, count)];
    const { buffer } = this.#inner;
    if (buffer.histograms === null) {
      await this.#windows.evaluateAside(times, values, count, this.buffer);
    } else {
      const found = collectHistograms(buffer, at, this.#source.inner.grid);
      const rows = rowsOfValues(times, values, Float64Array.from(found.times), found.histograms);
      const notes = await this.#windows.evaluateMixed(rows, this.buffer);
      const { name } = this.labels[index]!;
      noteWindows(notes, name, this.#source.span, this.#context.annotations);
    }
    this.#prepared = index;
  }
}

/** Windows over columns. */
export class ColumnRows extends Rows {
  readonly #columns: readonly Column[];
  readonly #source: SubquerySource;
  readonly #windows: ColumnWindows;
  readonly #context: Context;
  /** The row that the buffer holds because it was made aside; -1 for none. */
  #prepared: number;

  constructor(
    columns: readonly Column[],
    source: SubquerySource,
    request: WindowRequest,
    context: Context,
  ) {
    super(
      columns.map(({ labels }) => labels),
      request.stepCount,
      makeCells(request.stepCount),
    );
    this.#columns = columns;
    this.#source = source;
    this.#windows = new ColumnWindows(request, context);
    this.#context = context;
    this.#prepared = -1;
  }

  load(index: number): number {
    if (index === this.#prepared) return 0;
    this.#prepared = -1;
    const { times, values, count, histograms } = this.#columns[index]!;
    if (histograms.length > 0) return notReady;
    return this.#windows.evaluate(times, values, count, this.buffer) ? 0 : notReady;
  }

  async prepare(index: number): Promise<void> {
    const { labels, times, values, count, histogramTimes, histograms } = this.#columns[index]!;
    if (histograms.length === 0) {
      await this.#windows.evaluateAside(times, values, count, this.buffer);
    } else {
      const rows = rowsOfValues(times, values, histogramTimes, histograms);
      const notes = await this.#windows.evaluateMixed(rows, this.buffer);
      noteWindows(notes, labels.name, this.#source.span, this.#context.annotations);
    }
    this.#prepared = index;
  }
}
