/** Functions over ranges: of stored series and of subqueries. */
import type { Annotations } from '../rows/annotations.ts';
import { hasFloat } from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import { executionError } from '../words/errors.ts';
import { functions } from '../functions/table.ts';
import type { Evaluator } from '../rows/evaluator.ts';
import { withoutNames } from '../rows/names.ts';
import { noteQuantiles } from './window_notes.ts';
import { formatNumber } from '#engine/window_functions/number_format.ts';
import type { WindowPlan } from '../plan/plan.ts';
import type { Span } from '../words/position.ts';
import { notReady, Rows } from '../rows/rows.ts';
import { selectorRows, windowRequest } from './selector_rows.ts';
import { ColumnRows, columnsOf, isLong, SubqueryRows } from './subquery.ts';

export async function evaluateWindow(plan: WindowPlan, evaluator: Evaluator): Promise<Rows> {
  const { context } = evaluator;
  const parameters: Float64Array[] = [];
  for (const parameter of plan.parameters) parameters.push(await evaluator.scalar(parameter));
  checkParameters(plan, parameters, context);
  const { wantsCounter, keepsName } = functions.get(plan.name)!;
  const found = await rowsOf(plan, parameters, evaluator);
  const rows = wantsCounter ? new CounterRows(found, plan, context) : found;
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

function checkParameters(
  plan: WindowPlan,
  parameters: readonly Float64Array[],
  context: Context,
): void {
  if (plan.function === 'quantile') {
    noteQuantiles(parameters[0]!, plan.parameters[0]!.span, context.annotations);
  }
  if (plan.function === 'doubleExponential') {
    for (const [index, name] of ['smoothing', 'trend'].entries()) {
      const bad = parameters[index]!.find((factor) => !(factor > 0 && factor < 1));
      if (bad !== undefined) {
        throw executionError(
          `invalid ${name} factor. Expected: 0 < ${name === 'trend' ? 'tf' : 'sf'} < 1, got: ${formatNumber(bad)}`,
        );
      }
    }
  }
}

/** A rate of floats that are not named like a counter is often a mistake. */
class CounterRows extends Rows {
  readonly #source: Rows;
  readonly #span: Span;
  readonly #annotations: Annotations;
  readonly #noted = new Set<string>();

  constructor(source: Rows, { source: { span } }: WindowPlan, { annotations }: Context) {
    super(source.labels, source.stepCount, source.buffer, source);
    this.#source = source;
    this.#span = span;
    this.#annotations = annotations;
  }

  load(index: number): number {
    const at = this.#source.load(index);
    this.buffer = this.#source.buffer;
    if (at !== notReady) this.#note(this.labels[index]!.name, at);
    return at;
  }

  prepare(index: number): Promise<void> {
    return this.#source.prepare(index);
  }

  #note(name: string, at: number): void {
    if (name === '' || this.#noted.has(name) || !hasFloat(this.buffer, at, this.stepCount)) return;
    this.#noted.add(name);
    if (/_(total|sum|count|bucket)$/.test(name)) return;
    this.#annotations.info(
      `metric might not be a counter, name does not end in _total/_sum/_count/_bucket: ${JSON.stringify(name)}`,
      this.#span,
    );
  }
}
