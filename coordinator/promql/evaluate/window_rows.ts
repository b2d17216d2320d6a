/** Functions over ranges: of stored series and of subqueries. */
import { isAbsent, makeRowBuffer } from '#engine/window_functions/row.ts';
import type { WindowRequest } from '#engine/window_functions/windows.ts';
import type { Context } from '../rows/context.ts';
import { executionError } from '../parse/errors.ts';
import { functions } from '../functions/table.ts';
import type { Evaluator } from './evaluator.ts';
import { withoutNames } from './names.ts';
import { formatNumber } from '#engine/window_functions/number_format.ts';
import type { Grid, WindowPlan } from '../plan/plan.ts';
import { Rows } from '../rows/rows.ts';
import { SelectorRows, windowRequest, windowWork } from './selector_rows.ts';

export async function evaluateWindow(plan: WindowPlan, evaluator: Evaluator): Promise<Rows> {
  const { context } = evaluator;
  const parameters: Float64Array[] = [];
  for (const parameter of plan.parameters) parameters.push(await evaluator.scalar(parameter));
  checkParameters(plan, parameters, context);
  const rows = await rowsOf(plan, parameters, evaluator);
  const { wantsCounter, keepsName } = functions.get(plan.name)!;
  if (wantsCounter) noteGauges(rows, plan, context);
  return keepsName ? rows : withoutNames(rows, plan, context.pacer);
}

async function rowsOf(
  plan: WindowPlan,
  parameters: readonly Float64Array[],
  evaluator: Evaluator,
): Promise<Rows> {
  const { source, grid } = plan;
  const { context } = evaluator;
  if (source.kind === 'selector') {
    return SelectorRows.of(plan.function, source, grid, parameters, context);
  }
  const inner = await evaluator.vector(source.inner);
  const request = windowRequest(plan.function, source, grid, parameters);
  return new SubqueryRows(inner, source.inner.grid, request, context);
}

function checkParameters(
  plan: WindowPlan,
  parameters: readonly Float64Array[],
  context: Context,
): void {
  if (plan.function === 'quantile') {
    const bad = parameters[0]!.find((q) => Number.isNaN(q) || q < 0 || q > 1);
    if (bad !== undefined) {
      context.annotations.warn(
        `quantile value should be between 0 and 1, got ${formatNumber(bad)}`,
        plan.parameters[0]!.span,
      );
    }
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

/** A rate of something that is not named like a counter is often a mistake. */
function noteGauges(rows: Rows, plan: WindowPlan, context: Context): void {
  const { source } = plan;
  const span = source.span;
  const fixed =
    source.kind === 'selector'
      ? source.matchers.find(({ name, kind }) => name === '__name__' && kind === '=')
      : undefined;
  const names =
    fixed === undefined
      ? new Set(rows.labels.map((labels) => labels.name))
      : new Set(rows.count > 0 ? [fixed.value] : []);
  for (const name of names) {
    if (name === '' || /_(total|sum|count|bucket)$/.test(name)) continue;
    context.annotations.info(
      `metric might not be a counter, name does not end in _total/_sum/_count/_bucket: ${JSON.stringify(name)}`,
      span,
    );
  }
}

/** Windows over the values of an expression on its own grid. */
class SubqueryRows extends Rows {
  readonly #inner: Rows;
  readonly #innerGrid: Grid;
  readonly #request: WindowRequest;
  readonly #context: Context;
  readonly #times: Float64Array;
  readonly #values: Float64Array;

  constructor(inner: Rows, innerGrid: Grid, request: WindowRequest, context: Context) {
    super(inner.labels, request.stepCount, makeRowBuffer(request.stepCount));
    this.#inner = inner;
    this.#innerGrid = innerGrid;
    this.#request = request;
    this.#context = context;
    this.#times = new Float64Array(innerGrid.stepCount);
    this.#values = new Float64Array(innerGrid.stepCount);
  }

  load(index: number): number {
    const { startMillis, stepMillis, stepCount } = this.#innerGrid;
    const at = this.#inner.load(index);
    const { values, words } = this.#inner.buffer;
    let count = 0;
    for (let step = 0; step < stepCount; step++) {
      const value = values[at + step]!;
      if (value !== value && isAbsent(words, at + step)) continue;
      this.#times[count] = startMillis + step * stepMillis;
      this.#values[count++] = value;
    }
    this.#context.windows.evaluateColumns(
      this.#request,
      this.#times,
      this.#values,
      count,
      this.buffer,
      0,
    );
    this.#context.pacer.note(stepCount + windowWork(this.#request, count));
    return 0;
  }
}
