/** Functions over ranges: of stored series and of subqueries. */
import { type Cells, hasFloat } from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import type { Labels } from '../rows/labels.ts';
import { executionError } from '../words/errors.ts';
import { functions } from '../functions/table.ts';
import type { Evaluator } from '../rows/evaluator.ts';
import { withoutNames } from '../rows/names.ts';
import { isQuantile, noteQuantiles } from './window_notes.ts';
import { formatGeneral } from '#engine/window_functions/number_format.ts';
import type { WindowPlan } from '../plan/plan.ts';
import type { Span } from '../words/position.ts';
import { loadPrepared, notReady, Rows } from '../rows/rows.ts';
import { isAbsent } from '#engine/window_functions/row.ts';
import { selectorRows, windowRequest } from './selector_rows.ts';
import { ColumnRows, columnsOf, isLong, SubqueryRows } from './subquery.ts';

export async function evaluateWindow(plan: WindowPlan, evaluator: Evaluator): Promise<Rows> {
  const { context } = evaluator;
  const parameters: Float64Array[] = [];
  for (const parameter of plan.parameters) parameters.push(await evaluator.scalar(parameter));
  if (plan.function === 'doubleExponential') await checkFactors(plan, parameters, evaluator);
  const { keepsName } = functions.get(plan.name)!;
  const rows = noted(await rowsOf(plan, parameters, evaluator), plan, parameters, context);
  // Of those that are asked for presence alone no label is looked at.
  if (keepsName || plan.name === 'absent_over_time') return rows;
  return withoutNames(rows, plan, context, 'not at all');
}

/** Of a step of a subquery: its row, a time and a value. */
const subqueryStepBytes = 24;

async function rowsOf(
  plan: WindowPlan,
  parameters: readonly Float64Array[],
  evaluator: Evaluator,
): Promise<Rows> {
  const { source, grid } = plan;
  const { context } = evaluator;
  if (source.kind === 'selector') {
    return selectorRows(plan.function, source, grid, parameters, context);
  }
  const request = windowRequest(plan.function, source, grid, parameters);
  if (isLong(source)) {
    return new ColumnRows(await columnsOf(source, evaluator), source, request, context);
  }
  if (context.pacer.take(subqueryStepBytes * source.inner.grid.stepCount)) {
    await context.pacer.room();
  }
  const inner = await evaluator.vector(source.inner);
  return new SubqueryRows(inner, source, request, context);
}

/** @throws {PromqlError} execution, when a factor is wrong at a step at which there are rows */
async function checkFactors(
  plan: WindowPlan,
  parameters: readonly Float64Array[],
  evaluator: Evaluator,
): Promise<void> {
  // What is no number is no wrong one, as in Prometheus.
  const isGood = (factor: number): boolean => !(factor <= 0 || factor >= 1);
  if (parameters.every((factors) => factors.every(isGood))) return;
  const { pacer } = evaluator.context;
  const rows = await rowsOf({ ...plan, function: 'present' }, [], evaluator);
  for (let index = 0; index < rows.count; index++) {
    let at = rows.load(index);
    if (at === notReady) at = await loadPrepared(rows, index);
    for (let step = 0; step < rows.stepCount; step++) {
      if (isAbsent(rows.buffer.words, at + step)) continue;
      for (const [place, name] of [
        [0, 'smoothing factor. Expected: 0 < sf'],
        [1, 'trend factor. Expected: 0 < tf'],
      ] as const) {
        const factor = parameters[place]![step]!;
        if (!isGood(factor))
          throw executionError(`invalid ${name} < 1, got: ${formatFixed(factor)}`);
      }
    }
    if (pacer.spend(rows.stepCount)) await pacer.pause();
  }
}

/** As Go's `%f`. */
function formatFixed(value: number): string {
  return Number.isFinite(value) ? value.toFixed(6) : formatGeneral(value);
}

/** With what there is to tell of rows that are asked for. */
function noted(
  rows: Rows,
  plan: WindowPlan,
  parameters: readonly Float64Array[],
  context: Context,
): Rows {
  if (functions.get(plan.name)!.wantsCounter) {
    const counters = new CounterNames(plan.source.span, context);
    return new NotedRows(rows, (labels, cells, at) =>
      counters.note(labels, cells, at, rows.stepCount),
    );
  }
  if (plan.function !== 'quantile') return rows;
  const [quantiles] = parameters as [Float64Array];
  if (quantiles.every(isQuantile)) return rows;
  const { span } = plan.parameters[0]!;
  return new NotedRows(rows, (_, { words }, at) => {
    noteQuantiles(
      quantiles.filter((__, step) => !isAbsent(words, at + step)),
      span,
      context.annotations,
    );
  });
}

class NotedRows extends Rows {
  readonly #source: Rows;
  readonly #note: (labels: Labels, cells: Cells, at: number) => void;

  constructor(source: Rows, note: (labels: Labels, cells: Cells, at: number) => void) {
    super(source.labels, source.stepCount, source.buffer, source);
    this.#source = source;
    this.#note = note;
  }

  load(index: number): number {
    const at = this.#source.load(index);
    this.buffer = this.#source.buffer;
    if (at !== notReady) this.#note(this.labels[index]!, this.buffer, at);
    return at;
  }

  prepare(index: number): Promise<void> {
    return this.#source.prepare(index);
  }
}

/** A rate of floats that are not named like a counter is often a mistake. */
class CounterNames {
  readonly #span: Span;
  readonly #context: Context;
  readonly #noted = new Set<string>();

  constructor(span: Span, context: Context) {
    this.#span = span;
    this.#context = context;
  }

  note(labels: Labels, cells: Cells, at: number, stepCount: number): void {
    const { name } = labels;
    if (name === '') return;
    const { features, annotations } = this.#context;
    const type = features.typeAndUnitLabels ? (labels.get('__type__') ?? '') : null;
    const text = type === null ? textOfName(name) : textOfType(type, name);
    if (text === null || this.#noted.has(text) || !hasFloat(cells, at, stepCount)) return;
    this.#noted.add(text);
    annotations.info(`metric might not be a counter, ${text}`, this.#span);
  }
}

/** @returns null for a counter */
function textOfName(name: string): string | null {
  if (/_(total|sum|count|bucket)$/.test(name)) return null;
  return `name does not end in _total/_sum/_count/_bucket: ${JSON.stringify(name)}`;
}

function textOfType(type: string, name: string): string | null {
  if (type === 'counter' || type === 'histogram') return null;
  return `__type__ label is not set to "counter" or "histogram", got ${JSON.stringify(type)}: ${JSON.stringify(name)}`;
}
