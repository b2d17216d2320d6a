/** Subqueries: the values of an expression on a grid of its own, and windows over them. */
import type { Aside } from '#engine/aside/aside.ts';
import { isAbsent, makeRowBuffer } from '#engine/window_functions/row.ts';
import { tooDear, type WindowRequest } from '#engine/window_functions/windows.ts';
import type { Grid, SubquerySource } from '../plan/plan.ts';
import { sliced } from '../plan/slice.ts';
import type { Context } from '../rows/context.ts';
import type { Labels } from '../rows/labels.ts';
import type { Pacer } from '../rows/pacer.ts';
import { loadPrepared, notReady, Rows } from '../rows/rows.ts';
import type { Evaluator } from './evaluator.ts';
import { rowUnitsMax, windowWork } from './selector_rows.ts';

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
  count = 0;

  constructor(labels: Labels) {
    this.labels = labels;
  }

  /** Adds what row [at, at + stepCount) of the rows' buffer has. @returns how many values */
  add({ buffer, stepCount }: Rows, at: number, grid: Grid): number {
    const times = new Float64Array(stepCount);
    const values = new Float64Array(stepCount);
    let count = 0;
    for (let step = 0; step < stepCount; step++) {
      const value = buffer.values[at + step]!;
      if (value !== value && isAbsent(buffer.words, at + step)) continue;
      times[count] = grid.startMillis + step * grid.stepMillis;
      values[count++] = value;
    }
    if (count === 0) return 0;
    this.#times.push(count < stepCount ? times.slice(0, count) : times);
    this.#values.push(count < stepCount ? values.slice(0, count) : values);
    this.count += count;
    return count;
  }

  /** All as one; the parts are gone then. */
  async joined(pacer: Pacer): Promise<Column> {
    const { labels, count } = this;
    const joined = { labels, count, times: sharedColumn(count), values: sharedColumn(count) };
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

export interface Column {
  readonly labels: Labels;
  /** Unix milliseconds. */
  readonly times: Float64Array;
  readonly values: Float64Array;
  readonly count: number;
}

/** Which a thread may read without a copy. */
const sharedColumn = (rows: number): Float64Array =>
  new Float64Array(new SharedArrayBuffer(rows * 8));

/** All values of a subquery that is too long for one go. */
export async function columnsOf(
  source: SubquerySource,
  evaluator: Evaluator,
): Promise<readonly Column[]> {
  const { pacer } = evaluator.context;
  const { stepCount } = source.inner.grid;
  const columns = new Map<string, ColumnParts>();
  for (let from = 0; from < stepCount; from += stepsAtOnce) {
    const part = sliced(source.inner, from, Math.min(stepsAtOnce, stepCount - from));
    const rows = await evaluator.vector(part);
    for (const [index, labels] of rows.labels.entries()) {
      let at = rows.load(index);
      if (at === notReady) at = await loadPrepared(rows, index);
      let column = columns.get(labels.key);
      if (column === undefined) {
        column = new ColumnParts(labels);
        columns.set(labels.key, column);
      }
      if (pacer.hold(column.add(rows, at, part.grid), columnRowBytes)) await pacer.room();
      if (pacer.spend(2 * rows.stepCount)) await pacer.pause();
    }
  }
  const joined: Column[] = [];
  for (const column of columns.values()) {
    if (column.count > 0) joined.push(await column.joined(pacer));
  }
  return joined;
}

/** Whether `columnsOf` is needed. */
export const isLong = ({ inner }: SubquerySource): boolean => inner.grid.stepCount > stepsAtOnce;

/** One row of windows over columns, at once or aside. */
class ColumnWindows {
  readonly #request: WindowRequest;
  readonly #context: Context;

  constructor(request: WindowRequest, context: Context) {
    this.#request = request;
    this.#context = context;
  }

  /** @returns whether it was done */
  evaluate(times: Float64Array, values: Float64Array, count: number, rows: Rows): boolean {
    const { windows, pacer } = this.#context;
    const { buffer } = rows;
    const done = windows.evaluateColumns(
      this.#request,
      times,
      values,
      count,
      buffer,
      0,
      rowUnitsMax,
    );
    if (done === tooDear) return false;
    pacer.note(Math.min(windowWork(this.#request, count), rowUnitsMax));
    return true;
  }

  async evaluateAside(
    timestampMillis: Float64Array,
    values: Float64Array,
    rowCount: number,
    rows: Rows,
  ): Promise<void> {
    const { aside, pacer }: { aside: Aside; pacer: Pacer } = this.#context;
    const columns = { timestampMillis, values, rowCount };
    const job = { kind: 'columnsRow', request: this.#request, ...columns } as const;
    const { bits } = await pacer.work.outside(aside.run(job, pacer.work));
    rows.buffer.bits.set(bits);
  }
}

/** Windows over the values of an expression on its own grid. */
export class SubqueryRows extends Rows {
  readonly #inner: Rows;
  readonly #innerGrid: Grid;
  readonly #windows: ColumnWindows;
  readonly #context: Context;
  readonly #times: Float64Array;
  readonly #values: Float64Array;
  /** The row that the buffer holds because it was made aside; -1 for none. */
  #prepared: number;

  constructor(inner: Rows, innerGrid: Grid, request: WindowRequest, context: Context) {
    super(inner.labels, request.stepCount, makeRowBuffer(request.stepCount));
    this.#inner = inner;
    this.#innerGrid = innerGrid;
    this.#windows = new ColumnWindows(request, context);
    this.#context = context;
    this.#times = new Float64Array(innerGrid.stepCount);
    this.#values = new Float64Array(innerGrid.stepCount);
    this.#prepared = -1;
  }

  load(index: number): number {
    if (index === this.#prepared) return 0;
    this.#prepared = -1;
    const at = this.#inner.load(index);
    if (at === notReady) return notReady;
    const count = this.#collect(at);
    return this.#windows.evaluate(this.#times, this.#values, count, this) ? 0 : notReady;
  }

  /** Puts the present values of the inner row into the columns. */
  #collect(at: number): number {
    const { startMillis, stepMillis, stepCount } = this.#innerGrid;
    const { values, words } = this.#inner.buffer;
    let count = 0;
    for (let step = 0; step < stepCount; step++) {
      const value = values[at + step]!;
      if (value !== value && isAbsent(words, at + step)) continue;
      this.#times[count] = startMillis + step * stepMillis;
      this.#values[count++] = value;
    }
    this.#context.pacer.note(stepCount);
    return count;
  }

  async prepare(index: number): Promise<void> {
    let at = this.#inner.load(index);
    if (at === notReady) at = await loadPrepared(this.#inner, index);
    const count = this.#collect(at);
    const [times, values] = [this.#times.slice(0, count), this.#values.slice(0, count)];
    await this.#windows.evaluateAside(times, values, count, this);
    this.#prepared = index;
  }
}

/** Windows over columns. */
export class ColumnRows extends Rows {
  readonly #columns: readonly Column[];
  readonly #windows: ColumnWindows;
  /** The row that the buffer holds because it was made aside; -1 for none. */
  #prepared: number;

  constructor(columns: readonly Column[], request: WindowRequest, context: Context) {
    super(
      columns.map(({ labels }) => labels),
      request.stepCount,
      makeRowBuffer(request.stepCount),
    );
    this.#columns = columns;
    this.#windows = new ColumnWindows(request, context);
    this.#prepared = -1;
  }

  load(index: number): number {
    if (index === this.#prepared) return 0;
    this.#prepared = -1;
    const { times, values, count } = this.#columns[index]!;
    return this.#windows.evaluate(times, values, count, this) ? 0 : notReady;
  }

  async prepare(index: number): Promise<void> {
    const { times, values, count } = this.#columns[index]!;
    await this.#windows.evaluateAside(times, values, count, this);
    this.#prepared = index;
  }
}
