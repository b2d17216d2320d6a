/** Calls of functions over instant vectors and scalars. */
import { isAbsent, setAbsent } from '#engine/window_functions/row.ts';
import type { Matcher } from '../../select/storage.ts';
import { unwrapParens } from '../parse/ast.ts';
import type { Expr } from '../parse/ast.ts';
import { executionError } from '../parse/errors.ts';
import type { Executor } from '../evaluate/execute.ts';
import { Labels } from '../rows/labels.ts';
import type { CallPlan } from '../plan/plan.ts';
import { mapPresent, rowsOfScalar, timesInSeconds } from '../rows/row_values.ts';
import { MappedRows, Matrix, RelabelledRows, materialize, mergeSameLabels } from '../rows/rows.ts';
import type { Rows } from '../rows/rows.ts';
import { histogramFraction, histogramQuantile } from './histogram.ts';
import { labelJoiner, labelReplacer } from './label_functions.ts';
import { mathFunctions, roundTo, timeFunctions } from './math.ts';

export async function evaluateCall(plan: CallPlan, executor: Executor): Promise<Rows> {
  const { name, args } = plan;
  const ofValue = mathFunctions[name];
  if (ofValue !== undefined) return mapValues(plan, executor, ofValue);
  const ofTime = timeFunctions[name];
  if (ofTime !== undefined) {
    if (args.length > 0) return mapValues(plan, executor, ofTime);
    return rowsOfScalar(timesInSeconds(plan.grid).map((value) => ofTime(value)));
  }
  switch (name) {
    case 'absent':
    case 'absent_over_time':
      return absent(plan, executor);
    case 'clamp':
      return clamp(
        plan,
        executor,
        await executor.scalar(args[1]!),
        await executor.scalar(args[2]!),
      );
    case 'clamp_max':
      return clamp(plan, executor, null, await executor.scalar(args[1]!));
    case 'clamp_min':
      return clamp(plan, executor, await executor.scalar(args[1]!), null);
    case 'histogram_quantile':
      return histogramQuantile(
        plan,
        await executor.scalar(args[0]!),
        await executor.vector(args[1]!),
        executor.context,
      );
    case 'histogram_fraction':
      return histogramFraction(
        plan,
        await executor.scalar(args[0]!),
        await executor.scalar(args[1]!),
        await executor.vector(args[2]!),
        executor.context,
      );
    case 'histogram_avg':
    case 'histogram_count':
    case 'histogram_stddev':
    case 'histogram_stdvar':
    case 'histogram_sum':
      // They take native histograms only; a vector of floats has none.
      await executor.vector(args[0]!);
      return Matrix.make([], plan.grid.stepCount);
    case 'label_join':
    case 'label_replace':
      return relabel(plan, executor);
    case 'round': {
      const nearest = args[1] === undefined ? null : await executor.scalar(args[1]);
      return mapValues(plan, executor, (value, step) => roundTo(value, nearest?.[step] ?? 1));
    }
    case 'sort':
    case 'sort_desc':
    case 'sort_by_label':
    case 'sort_by_label_desc':
      return sort(plan, executor);
    case 'timestamp': {
      const times = timesInSeconds(plan.grid);
      return mapValues(plan, executor, (_, step) => times[step]!);
    }
    case 'vector':
      return rowsOfScalar(await executor.scalar(args[0]!));
    default:
      throw executionError(`function ${JSON.stringify(name)} is not available`);
  }
}

async function mapValues(
  plan: CallPlan,
  executor: Executor,
  map: (value: number, step: number) => number,
): Promise<Rows> {
  const input = plan.args[0]!;
  const rows = await executor.vector(input);
  const mapped = new MappedRows(rows, rows.labels, (row) => mapPresent(row, map));
  return executor.withoutNames(mapped, input);
}

async function clamp(
  plan: CallPlan,
  executor: Executor,
  least: Float64Array | null,
  greatest: Float64Array | null,
): Promise<Rows> {
  const input = plan.args[0]!;
  const rows = await executor.vector(input);
  const mapped = new MappedRows(rows, rows.labels, (row) => {
    mapPresent(row, (value, step) => {
      let clamped = value;
      if (greatest !== null) clamped = Math.min(greatest[step]!, clamped);
      if (least !== null) clamped = Math.max(least[step]!, clamped);
      return clamped;
    });
    if (least === null || greatest === null) return;
    for (let step = 0; step < rows.stepCount; step++) {
      if (greatest[step]! < least[step]!) setAbsent(row.words, step);
    }
  });
  return executor.withoutNames(mapped, input);
}

/** 1 at the steps where no series has a value; labels are what the selector pins down. */
async function absent(plan: CallPlan, executor: Executor): Promise<Rows> {
  const { pacer } = executor.context;
  const rows = await executor.vector(plan.args[0]!);
  const { stepCount } = plan.grid;
  const result = Matrix.make([absentLabels(plan.call.args[0]!)], stepCount);
  result.buffer.values.fill(1);
  for (let index = 0; index < rows.count; index++) {
    const at = rows.load(index);
    for (let step = 0; step < stepCount; step++) {
      if (!isAbsent(rows.buffer.words, at + step)) setAbsent(result.buffer.words, step);
    }
    if (pacer.spend(stepCount)) await pacer.pause();
  }
  return result;
}

function absentLabels(argument: Expr): Labels {
  const expr = unwrapParens(argument);
  let matchers: readonly Matcher[];
  if (expr.kind === 'vectorSelector') matchers = expr.matchers;
  else if (expr.kind === 'matrixSelector') matchers = expr.selector.matchers;
  else return Labels.empty;
  const values = new Map<string, string | null>();
  for (const { name, kind, value } of matchers) {
    if (name === '__name__') continue;
    // A label that is named twice, or not by equality alone, has no known value.
    values.set(name, kind === '=' && !values.has(name) ? value : null);
  }
  return Labels.of(
    [...values].flatMap(([name, value]) => (value === null ? [] : [{ name, value }])),
  );
}

async function relabel(plan: CallPlan, executor: Executor): Promise<Rows> {
  const rows = await executor.vector(plan.args[0]!);
  const texts = plan.args.slice(1).map((argument) => executor.text(argument));
  const change = plan.name === 'label_replace' ? labelReplacer(texts) : labelJoiner(texts);
  const labels = rows.labels.map(change);
  return mergeSameLabels(new RelabelledRows(rows, labels), executor.context.pacer);
}

async function sort(plan: CallPlan, executor: Executor): Promise<Rows> {
  const { context } = executor;
  const rows = await materialize(await executor.vector(plan.args[0]!), context.pacer);
  if (context.isRangeQuery || rows.stepCount !== 1) return rows;
  const order = rows.labels.map((_, index) => index);
  const { values } = rows.buffer;
  if (plan.name.startsWith('sort_by_label')) {
    const names = plan.args.slice(1).map((argument) => executor.text(argument));
    const sign = plan.name === 'sort_by_label' ? 1 : -1;
    order.sort((a, b) => sign * compareNaturally(rows.labels[a]!, rows.labels[b]!, names));
  } else {
    const sign = plan.name === 'sort' ? 1 : -1;
    order.sort((a, b) => {
      const left = values[a]!;
      const right = values[b]!;
      if (left !== left || right !== right) return left === left ? -1 : right === right ? 1 : 0;
      return sign * (left - right) || a - b;
    });
  }
  const sorted = Matrix.make(
    order.map((index) => rows.labels[index]!),
    1,
  );
  for (const [target, index] of order.entries()) {
    sorted.buffer.bits[target] = rows.buffer.bits[index]!;
  }
  return sorted;
}

/** By the named labels, runs of digits as numbers; then by all labels. */
function compareNaturally(a: Labels, b: Labels, names: readonly string[]): number {
  for (const name of names) {
    const order = compareTexts(a.get(name), b.get(name));
    if (order !== 0) return order;
  }
  return a.compare(b);
}

function compareTexts(a: string, b: string): number {
  const left = a.match(/\d+|\D+/g) ?? [];
  const right = b.match(/\d+|\D+/g) ?? [];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    const x = left[i]!;
    const y = right[i]!;
    if (x === y) continue;
    if (/^\d/.test(x) && /^\d/.test(y) && Number(x) !== Number(y)) return Number(x) - Number(y);
    return x < y ? -1 : 1;
  }
  return left.length - right.length;
}
