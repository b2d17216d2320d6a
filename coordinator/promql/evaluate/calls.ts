/** Functions over instant vectors and scalars that are more than a map of values. */
import { sortPaced } from '#lib/turns/paced.ts';
import { varianceOf } from '#engine/histograms/estimates.ts';
import type { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { isAbsent, setAbsent } from '#engine/window_functions/row.ts';
import { metricNameTag } from '#lib/tags.ts';
import type { Matcher } from '../../select/storage.ts';
import { unwrapParens } from '../parse/ast.ts';
import type { Expr } from '../parse/ast.ts';
import { executionError } from '../words/errors.ts';
import { functions } from '../functions/table.ts';
import type { Evaluator } from '../rows/evaluator.ts';
import { withoutNames, withoutNamesAlone } from '../rows/names.ts';
import { type Cells, copyCells, dropHistograms, histogramOf } from '../rows/cells.ts';
import { Labels } from '../rows/labels.ts';
import { labelsUnits, namesUnits, visitPaced } from '../rows/paced.ts';
import type { Pacer } from '../rows/pacer.ts';
import type { Context } from '../rows/context.ts';
import { textOf } from '../plan/plan.ts';
import { greaterOf, lesserOf } from '../plan/operators.ts';
import type { CallPlan, Plan } from '../plan/plan.ts';
import { mapPresent, rowsOfScalar, timesInSeconds } from '../rows/row_values.ts';
import {
  loadPrepared,
  MappedRows,
  materialize,
  Matrix,
  mergeSameLabels,
  notReady,
  RelabelledRows,
} from '../rows/rows.ts';
import type { Rows } from '../rows/rows.ts';
import { histogramFraction, histogramQuantile, histogramQuantiles } from './histogram.ts';
import { type ChangeLabels, labelJoiner, labelReplacer } from './label_functions.ts';

type Call = (plan: CallPlan, evaluator: Evaluator) => Promise<Rows>;

/** By name, as in functions/table.ts. */
const calls: Readonly<Record<string, Call>> = {
  absent,
  absent_over_time: absent,
  clamp: (plan, evaluator) => clamp(plan, evaluator, plan.args[1]!, plan.args[2]!),
  clamp_max: (plan, evaluator) => clamp(plan, evaluator, null, plan.args[1]!),
  clamp_min: (plan, evaluator) => clamp(plan, evaluator, plan.args[1]!, null),
  histogram_avg: (plan, evaluator) =>
    ofHistograms(plan, evaluator, ({ sum, count }) => sum / count),
  histogram_count: (plan, evaluator) => ofHistograms(plan, evaluator, ({ count }) => count),
  histogram_fraction: async (plan, evaluator) => {
    const [least, greatest, rows] = plan.args as [Plan, Plan, Plan];
    return histogramFraction(
      plan,
      await evaluator.scalar(least),
      await evaluator.scalar(greatest),
      await evaluator.vector(rows),
      evaluator.context,
    );
  },
  histogram_quantile: async (plan, evaluator) => {
    const [quantile, rows] = plan.args as [Plan, Plan];
    return histogramQuantile(
      plan,
      await evaluator.scalar(quantile),
      await evaluator.vector(rows),
      evaluator.context,
    );
  },
  histogram_quantiles: async (plan, evaluator) => {
    const [rows, label, ...quantiles] = plan.args as [Plan, Plan, ...Plan[]];
    const values: Float64Array[] = [];
    for (const each of quantiles) values.push(await evaluator.scalar(each));
    const input = await evaluator.vector(rows);
    return histogramQuantiles(plan, textOf(label), values, input, evaluator.context);
  },
  histogram_stddev: (plan, evaluator) =>
    ofHistograms(plan, evaluator, (histogram) => Math.sqrt(varianceOf(histogram))),
  histogram_stdvar: (plan, evaluator) => ofHistograms(plan, evaluator, varianceOf),
  histogram_sum: (plan, evaluator) => ofHistograms(plan, evaluator, ({ sum }) => sum),
  label_join: (plan, evaluator) => relabel(plan, evaluator, labelJoiner),
  label_replace: (plan, evaluator) => relabel(plan, evaluator, labelReplacer),
  round: async (plan, evaluator) => {
    const [, multiple] = plan.args;
    const nearest = multiple === undefined ? null : await evaluator.scalar(multiple);
    return mapValues(plan, evaluator, (value, step) => roundTo(value, nearest?.[step] ?? 1));
  },
  sort: (plan, evaluator) => sort(plan, evaluator, byValue(1), 'floats'),
  sort_by_label: (plan, evaluator) => sort(plan, evaluator, byLabels(plan, 1), 'all'),
  sort_by_label_desc: (plan, evaluator) => sort(plan, evaluator, byLabels(plan, -1), 'all'),
  sort_desc: (plan, evaluator) => sort(plan, evaluator, byValue(-1), 'floats'),
  // Of anything but a selector it knows nothing.
  start_timestamp: async ({ args, grid }, evaluator) => {
    await evaluator.vector(args[0]!);
    return Matrix.make([], grid.stepCount);
  },
  timestamp: (plan, evaluator) => {
    const times = timesInSeconds(plan.grid);
    return mapAll(plan, evaluator, (row) => {
      row.histograms = null;
      for (let step = 0; step < times.length; step++) {
        if (!isAbsent(row.words, step)) row.values[step] = times[step]!;
      }
    });
  },
  vector: async (plan, evaluator) => rowsOfScalar(await evaluator.scalar(plan.args[0]!)),
};

export async function evaluateCall(plan: CallPlan, evaluator: Evaluator): Promise<Rows> {
  const { ofValue } = functions.get(plan.name)!;
  if (ofValue !== null) {
    if (plan.args.length > 0) return mapValues(plan, evaluator, ofValue);
    return rowsOfScalar(timesInSeconds(plan.grid).map((seconds) => ofValue(seconds)));
  }
  const call = calls[plan.name];
  if (call !== undefined) return call(plan, evaluator);
  throw executionError(`function ${JSON.stringify(plan.name)} is not available`);
}

/** A number of each native histogram; floats have none. */
function ofHistograms(
  plan: CallPlan,
  evaluator: Evaluator,
  valueOf: (histogram: FloatHistogram) => number,
): Promise<Rows> {
  const change = (row: Cells): void => {
    for (let step = 0; step < row.values.length; step++) {
      const histogram = histogramOf(row, step);
      if (histogram === null) setAbsent(row.words, step);
      else row.values[step] = valueOf(histogram);
    }
    row.histograms = null;
  };
  return mapAll(plan, evaluator, change, withoutNamesAlone);
}

/** To the nearest multiple; halves go up. */
function roundTo(value: number, nearest: number): number {
  const inverse = 1 / nearest;
  return Math.floor(value * inverse + 0.5) / inverse;
}

function mapValues(
  plan: CallPlan,
  evaluator: Evaluator,
  map: (value: number, step: number) => number,
): Promise<Rows> {
  return mapAll(plan, evaluator, (row) => mapPresent(row, map));
}

/** @param change of a row that starts at 0, in place */
async function mapAll(
  plan: CallPlan,
  evaluator: Evaluator,
  change: (row: Cells) => void,
  withoutNamesOf: (rows: Rows, origin: Plan, context: Context) => Promise<Rows> = withoutNames,
): Promise<Rows> {
  const input = plan.args[0]!;
  const rows = await evaluator.vector(input);
  const mapped = new MappedRows(rows, rows.labels, change);
  return withoutNamesOf(mapped, input, evaluator.context);
}

async function clamp(
  plan: CallPlan,
  evaluator: Evaluator,
  leastOf: Plan | null,
  greatestOf: Plan | null,
): Promise<Rows> {
  const least = leastOf === null ? null : await evaluator.scalar(leastOf);
  const greatest = greatestOf === null ? null : await evaluator.scalar(greatestOf);
  const input = plan.args[0]!;
  const rows = await evaluator.vector(input);
  const mapped = new MappedRows(rows, rows.labels, (row) => {
    mapPresent(row, (value, step) => {
      let clamped = value;
      if (greatest !== null) clamped = lesserOf(greatest[step]!, clamped);
      if (least !== null) clamped = greaterOf(least[step]!, clamped);
      return clamped;
    });
    if (least === null || greatest === null) return;
    for (let step = 0; step < rows.stepCount; step++) {
      if (greatest[step]! < least[step]!) setAbsent(row.words, step);
    }
  });
  return withoutNames(mapped, input, evaluator.context);
}

/** 1 at the steps where no series has a value; labels are what the selector pins down. */
async function absent(plan: CallPlan, evaluator: Evaluator): Promise<Rows> {
  const { pacer } = evaluator.context;
  const rows = await evaluator.vector(plan.args[0]!);
  const { stepCount } = plan.grid;
  const result = Matrix.make([absentLabels(plan.call.args[0]!)], stepCount);
  result.buffer.values.fill(1);
  for (let index = 0; index < rows.count; index++) {
    let at = rows.load(index);
    if (at === notReady) at = await loadPrepared(rows, index);
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
  const takesAway = ({ kind, value }: Matcher): boolean =>
    kind === '!~' || (kind === '!=' && value !== '');
  // Prometheus' index has put those last that take series away.
  const inOrder = [...matchers.filter((one) => !takesAway(one)), ...matchers.filter(takesAway)];
  for (const { name, kind, value } of inOrder) {
    if (name === '__name__') continue;
    // The first equality says what the value is, whatever stands before it; what comes later takes that back.
    if (kind === '=' && !values.has(name)) values.set(name, value);
    else if (values.has(name)) values.set(name, null);
  }
  return Labels.of(
    [...values].flatMap(([name, value]) => (value === null ? [] : [{ name, value }])),
  );
}

async function relabel(
  plan: CallPlan,
  evaluator: Evaluator,
  changeBy: (texts: readonly string[], context: Context) => Promise<ChangeLabels>,
): Promise<Rows> {
  const rows = await evaluator.vector(plan.args[0]!);
  const texts = plan.args.slice(1).map((argument) => textOf(argument));
  const { pacer } = evaluator.context;
  const change = await changeBy(texts, evaluator.context);
  const labels = await change(rows.labels);
  const isName = texts[0] === metricNameTag;
  // A name that was given anew is not the one that was to go.
  const kept = labels.map((label, i) =>
    label.losingName(rows.labels[i]!.losesName && (!isName || label === rows.labels[i])),
  );
  return mergeSameLabels(new RelabelledRows(rows, kept), pacer);
}

/** Compares two of one-step rows by index. */
interface Comparison {
  readonly compare: (a: number, b: number) => number;
  /** About what it takes, in units of work (lib/turns/turns.ts). */
  readonly units: number;
}

type Order = (rows: Matrix, pacer: Pacer) => Comparison | Promise<Comparison>;

/** NaN last; equal ones stay as they are. */
function byValue(sign: 1 | -1): Order {
  return ({ buffer: { values } }) => ({
    units: labelsUnits,
    compare: (a, b) => {
      const left = values[a]!;
      const right = values[b]!;
      if (left !== left || right !== right) return left === left ? -1 : right === right ? 1 : 0;
      return sign * (left - right) || a - b;
    },
  });
}

function byLabels(plan: CallPlan, sign: 1 | -1): Order {
  const asked = new Set(plan.args.slice(1).map((argument) => textOf(argument)));
  return async ({ labels }, { work }) => {
    const present = new Set<string>();
    let longest = 0;
    const note = (each: Labels): void => {
      for (const { name } of each.tags) present.add(name);
      longest = Math.max(longest, each.bytesWith('', ''));
    };
    await visitPaced(labels, note, work);
    const names = [...asked].filter((name) => present.has(name));
    return {
      units: namesUnits(names) + longest,
      compare: (a, b) => sign * compareNaturally(labels[a]!, labels[b]!, names),
    };
  };
}

/** Of an instant query; the rows of others come in the order of their labels anyway. */
async function sort(
  plan: CallPlan,
  evaluator: Evaluator,
  order: Order,
  kept: 'floats' | 'all',
): Promise<Rows> {
  const { context } = evaluator;
  const input = await evaluator.vector(plan.args[0]!);
  const taken = kept === 'all' ? input : new MappedRows(input, input.labels, dropHistograms);
  const rows = await materialize(taken, context.pacer);
  if (context.isRangeQuery || rows.stepCount !== 1) return rows;
  const { compare, units } = await order(rows, context.pacer);
  const indexes = await sortPaced(
    rows.labels.map((_, index) => index),
    compare,
    context.pacer.work,
    units,
  );
  const sorted = Matrix.make(
    indexes.map((index) => rows.labels[index]!),
    1,
  );
  for (const [target, index] of indexes.entries()) {
    copyCells(rows.buffer, index, 1, sorted.buffer, target);
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
  for (let at = 0; at < a.length && at < b.length; ) {
    const x = runAt(a, at);
    const y = runAt(b, at);
    if (x === y) {
      at += x.length;
      continue;
    }
    if (/^\d/.test(x) && /^\d/.test(y) && Number(x) !== Number(y)) return Number(x) - Number(y);
    return x < y ? -1 : 1;
  }
  return a.length - b.length;
}

const run = /\d+|\D+/y;

/** The run of digits, or of others, that begins here. */
function runAt(text: string, at: number): string {
  run.lastIndex = at;
  return run.exec(text)![0];
}
