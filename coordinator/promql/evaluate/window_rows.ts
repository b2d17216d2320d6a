/** Functions over ranges: of stored series and of subqueries. */
import type { Context } from '../rows/context.ts';
import { executionError } from '../parse/errors.ts';
import { functions } from '../functions/table.ts';
import type { Evaluator } from './evaluator.ts';
import { withoutNames } from './names.ts';
import { formatNumber } from '#engine/window_functions/number_format.ts';
import type { WindowPlan } from '../plan/plan.ts';
import type { Rows } from '../rows/rows.ts';
import { SelectorRows, windowRequest } from './selector_rows.ts';
import { ColumnRows, columnsOf, isLong, SubqueryRows } from './subquery.ts';

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
    return SelectorRows.of(plan.function, source, grid, parameters, context);
  }
  const request = windowRequest(plan.function, source, grid, parameters);
  if (isLong(source)) {
    return new ColumnRows(await columnsOf(source, evaluator), request, context);
  }
  if (context.pacer.take(subqueryStepBytes * source.inner.grid.stepCount)) {
    await context.pacer.room();
  }
  const inner = await evaluator.vector(source.inner);
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
