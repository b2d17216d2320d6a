/**
 * Aggregations over series, by group, at every step. Rows stream through; only the groups' rows are
 * held.
 */
import { textOf } from '#engine/histograms/text.ts';
import { isAbsent, setAbsent } from '#engine/window_functions/row.ts';
import type { RowBuffer } from '#engine/window_functions/row.ts';
import { quantileOf } from '#engine/window_functions/quickselect.ts';
import type { Span } from '../words/position.ts';
import {
  copyCells,
  dropHistograms,
  histogramOf,
  makeCells,
  makeCellsPaced,
} from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import { metricNameTag } from '#lib/tags.ts';
import { executionError } from '../words/errors.ts';
import { quoted } from '../words/literals.ts';
import { formatGeneral, formatNumber } from '#engine/window_functions/number_format.ts';
import { Labels } from '../rows/labels.ts';
import { labelsUnits } from '../rows/paced.ts';
import type { Pacer } from '../rows/pacer.ts';
import type { AggregatePlan } from '../plan/plan.ts';
import { loadPrepared, Matrix, notReady } from '../rows/rows.ts';
import type { Rows } from '../rows/rows.ts';
import { extremes, limitCount, limitRatio } from './choices.ts';
import { groupRows, materializeFloats, noteIgnored, rowsByGroup } from './groups.ts';
import { HistogramReducer } from './histogram_reducer.ts';

/**
 * @param parameter of topk, bottomk and quantile: a value for each step
 * @param parameterText of count_values: the label
 */
export async function aggregate(
  plan: AggregatePlan,
  rows: Rows,
  parameter: Float64Array | null,
  parameterText: string | null,
  context: Context,
): Promise<Rows> {
  switch (plan.operator) {
    case 'sum':
    case 'avg':
    case 'min':
    case 'max':
    case 'count':
    case 'group':
    case 'stddev':
    case 'stdvar':
      return reduce(plan, plan.operator, rows, context);
    case 'quantile':
      return quantile(plan, rows, parameter!, context);
    case 'topk':
    case 'bottomk':
      return extremes(plan, rows, parameter!, context);
    case 'count_values':
      return countValues(plan, rows, parameterText!, context);
    case 'limitk':
      return limitCount(plan, rows, parameter!, context);
    case 'limit_ratio':
      return limitRatio(plan, rows, parameter!, context);
  }
}

/** Accumulators of one operator over all groups; cell = group * stepCount + step. */
interface Reducer {
  add(row: RowBuffer, at: number, cellStart: number, stepCount: number): void;
  /** Writes cells [from, past) of the outcome, those without one left as they are. */
  finish(target: RowBuffer, from: number, past: number): void;
}

/** Cells whose outcome is made in one go. */
const cellsAtOnce = 1 << 17;

/** Of a group at a step: the outcome, and what the largest reducer keeps for it. */
const cellBytes = 40;

async function reduce(
  plan: AggregatePlan,
  operator: ReducingOperator,
  rows: Rows,
  context: Context,
): Promise<Rows> {
  const { groupOfRow, labels } = await groupRows(rows, plan.grouping, context.pacer.work);
  const { stepCount } = rows;
  const cellCount = labels.length * stepCount;
  if (context.pacer.hold(cellCount, cellBytes)) await context.pacer.room();
  const reducer = await makeReducer(operator, cellCount, context.pacer);
  const histograms = new HistogramReducer(plan, stepCount, context.annotations);
  const addsHistograms = operator === 'sum' || operator === 'avg';
  for (let index = 0; index < rows.count; index++) {
    let at = rows.load(index);
    if (at === notReady) at = await loadPrepared(rows, index);
    const { buffer } = rows;
    const cellStart = groupOfRow[index]! * stepCount;
    if (addsHistograms && buffer.block !== null) {
      const { name } = rows.labels[index]!;
      await histograms.addRow(buffer, at, cellStart, name, context.pacer);
    } else if (operator === 'count' || operator === 'group' || buffer.histograms === null) {
      reducer.add(buffer, at, cellStart, stepCount);
    } else {
      const floats = makeCells(stepCount);
      copyCells(buffer, at, stepCount, floats, 0);
      const hasHistograms = dropHistograms(floats);
      reducer.add(floats, 0, cellStart, stepCount);
      if (addsHistograms) {
        const { name } = rows.labels[index]!;
        await histograms.addRow(buffer, at, cellStart, name, context.pacer);
      } else if (hasHistograms) noteIgnored(plan, plan.input.span, context);
    }
    if (context.pacer.spend(stepCount)) await context.pacer.pause();
  }
  const result = await Matrix.makePaced(labels, stepCount, context.pacer);
  for (let from = 0; from < cellCount; from += cellsAtOnce) {
    const past = Math.min(cellCount, from + cellsAtOnce);
    reducer.finish(result.buffer, from, past);
    if (context.pacer.spend(2 * (past - from))) await context.pacer.pause();
  }
  await histograms.finish(result.buffer, context.pacer);
  return result;
}

type ReducingOperator = 'sum' | 'avg' | 'min' | 'max' | 'count' | 'group' | 'stddev' | 'stdvar';

async function makeReducer(
  operator: ReducingOperator,
  cellCount: number,
  pacer: Pacer,
): Promise<Reducer> {
  switch (operator) {
    case 'sum':
      return new SumReducer(cellCount);
    case 'avg':
      return new AvgReducer(cellCount);
    case 'min':
      return new ExtremeReducer(await makeCellsPaced(cellCount, pacer), false);
    case 'max':
      return new ExtremeReducer(await makeCellsPaced(cellCount, pacer), true);
    case 'stddev':
    case 'stdvar':
      return new VarianceReducer(cellCount, operator === 'stddev');
    case 'count':
    case 'group':
      return new CountReducer(cellCount, operator === 'group');
  }
}

/** Compensated sums (Neumaier). */
class SumReducer implements Reducer {
  readonly #sums: Float64Array;
  readonly #compensations: Float64Array;
  readonly #seen: Uint8Array;

  constructor(cellCount: number) {
    this.#sums = new Float64Array(cellCount);
    this.#compensations = new Float64Array(cellCount);
    this.#seen = new Uint8Array(cellCount);
  }

  add(row: RowBuffer, at: number, cellStart: number, stepCount: number): void {
    const { values, words } = row;
    const sums = this.#sums;
    const compensations = this.#compensations;
    const seen = this.#seen;
    for (let step = 0; step < stepCount; step++) {
      const value = values[at + step]!;
      if (value !== value && isAbsent(words, at + step)) continue;
      const cell = cellStart + step;
      const sum = sums[cell]!;
      const next = sum + value;
      if (next === Infinity || next === -Infinity) compensations[cell] = 0;
      else if (Math.abs(sum) >= Math.abs(value)) {
        compensations[cell] = compensations[cell]! + (sum - next + value);
      } else compensations[cell] = compensations[cell]! + (value - next + sum);
      sums[cell] = next;
      seen[cell] = 1;
    }
  }

  finish(target: RowBuffer, from: number, past: number): void {
    for (let cell = from; cell < past; cell++) {
      if (this.#seen[cell] === 1) {
        target.values[cell] = this.#sums[cell]! + this.#compensations[cell]!;
      }
    }
  }
}

/** Sum by count; a cell whose sum overflows goes on as a running mean. */
class AvgReducer implements Reducer {
  readonly #sums: Float64Array;
  readonly #compensations: Float64Array;
  readonly #counts: Float64Array;
  readonly #isRunning: Uint8Array;

  constructor(cellCount: number) {
    this.#sums = new Float64Array(cellCount);
    this.#compensations = new Float64Array(cellCount);
    this.#counts = new Float64Array(cellCount);
    this.#isRunning = new Uint8Array(cellCount);
  }

  add(row: RowBuffer, at: number, cellStart: number, stepCount: number): void {
    for (let step = 0; step < stepCount; step++) {
      const value = row.values[at + step]!;
      if (value !== value && isAbsent(row.words, at + step)) continue;
      this.#addValue(cellStart + step, value);
    }
  }

  #addValue(cell: number, value: number): void {
    const sums = this.#sums;
    const count = this.#counts[cell]! + 1;
    this.#counts[cell] = count;
    if (count === 1) {
      sums[cell] = value;
      return;
    }
    if (this.#isRunning[cell] === 0) {
      const next = sums[cell]! + value;
      if (next !== Infinity && next !== -Infinity) {
        this.#compensate(cell, sums[cell]!, value, next);
        return;
      }
      this.#isRunning[cell] = 1;
      sums[cell] = sums[cell]! / (count - 1);
      this.#compensations[cell] = this.#compensations[cell]! / (count - 1);
    }
    const share = (count - 1) / count;
    const mean = sums[cell]! * share;
    this.#compensations[cell] = this.#compensations[cell]! * share;
    this.#compensate(cell, mean, value / count, mean + value / count);
  }

  #compensate(cell: number, sum: number, value: number, next: number): void {
    if (next === Infinity || next === -Infinity) this.#compensations[cell] = 0;
    else if (Math.abs(sum) >= Math.abs(value)) {
      this.#compensations[cell] = this.#compensations[cell]! + (sum - next + value);
    } else this.#compensations[cell] = this.#compensations[cell]! + (value - next + sum);
    this.#sums[cell] = next;
  }

  finish(target: RowBuffer, from: number, past: number): void {
    for (let cell = from; cell < past; cell++) {
      const count = this.#counts[cell]!;
      if (count === 0) continue;
      const sum = this.#sums[cell]!;
      const compensation = this.#compensations[cell]!;
      target.values[cell] =
        this.#isRunning[cell] === 1 ? sum + compensation : sum / count + compensation / count;
    }
  }
}

/** NaN only where every value is NaN. */
class ExtremeReducer implements Reducer {
  readonly #held: RowBuffer;
  readonly #wantsGreatest: boolean;

  /** @param held all absent */
  constructor(held: RowBuffer, wantsGreatest: boolean) {
    this.#held = held;
    this.#wantsGreatest = wantsGreatest;
  }

  add(row: RowBuffer, at: number, cellStart: number, stepCount: number): void {
    const { values, words } = row;
    const held = this.#held.values;
    const wantsGreatest = this.#wantsGreatest;
    for (let step = 0; step < stepCount; step++) {
      const value = values[at + step]!;
      const best = held[cellStart + step]!;
      if (value !== value) {
        if (best !== best && !isAbsent(words, at + step)) held[cellStart + step] = NaN;
      } else if (best !== best || (wantsGreatest ? value > best : value < best)) {
        held[cellStart + step] = value;
      }
    }
  }

  finish(target: RowBuffer, from: number, past: number): void {
    target.bits.set(this.#held.bits.subarray(from, past), from);
  }
}

class CountReducer implements Reducer {
  readonly #counts: Float64Array;
  readonly #isGroup: boolean;

  constructor(cellCount: number, isGroup: boolean) {
    this.#counts = new Float64Array(cellCount);
    this.#isGroup = isGroup;
  }

  add(row: RowBuffer, at: number, cellStart: number, stepCount: number): void {
    const { values, words } = row;
    const counts = this.#counts;
    for (let step = 0; step < stepCount; step++) {
      const value = values[at + step]!;
      if (value !== value && isAbsent(words, at + step)) continue;
      counts[cellStart + step] = counts[cellStart + step]! + 1;
    }
  }

  finish(target: RowBuffer, from: number, past: number): void {
    for (let cell = from; cell < past; cell++) {
      const count = this.#counts[cell]!;
      if (count > 0) target.values[cell] = this.#isGroup ? 1 : count;
    }
  }
}

/** Population variance by Welford's running form; NaN when any value is not finite. */
class VarianceReducer implements Reducer {
  readonly #means: Float64Array;
  readonly #squares: Float64Array;
  readonly #counts: Float64Array;
  readonly #isDeviation: boolean;

  constructor(cellCount: number, isDeviation: boolean) {
    this.#means = new Float64Array(cellCount);
    this.#squares = new Float64Array(cellCount);
    this.#counts = new Float64Array(cellCount);
    this.#isDeviation = isDeviation;
  }

  add(row: RowBuffer, at: number, cellStart: number, stepCount: number): void {
    for (let step = 0; step < stepCount; step++) {
      const value = row.values[at + step]!;
      if (value !== value && isAbsent(row.words, at + step)) continue;
      const cell = cellStart + step;
      const count = this.#counts[cell]! + 1;
      const mean = this.#means[cell]!;
      const delta = value - mean;
      const nextMean = mean + delta / count;
      this.#counts[cell] = count;
      this.#means[cell] = nextMean;
      this.#squares[cell] = Number.isFinite(value)
        ? this.#squares[cell]! + delta * (value - nextMean)
        : NaN;
    }
  }

  finish(target: RowBuffer, from: number, past: number): void {
    for (let cell = from; cell < past; cell++) {
      const count = this.#counts[cell]!;
      if (count === 0) continue;
      const variance = this.#squares[cell]! / count;
      target.values[cell] = this.#isDeviation ? Math.sqrt(variance) : variance;
    }
  }
}

/** Of several wrong ones the least and the greatest. */
function noteQuantiles(quantiles: Float64Array, span: Span, { annotations }: Context): void {
  let [least, greatest] = [Infinity, -Infinity];
  for (const q of quantiles) {
    if (Number.isNaN(q)) [least, greatest] = [q, q];
    least = Math.min(least, q);
    greatest = Math.max(greatest, q);
  }
  const text = (q: number): string =>
    `quantile value should be between 0 and 1, got ${formatGeneral(q)}`;
  if (Number.isNaN(least)) annotations.warn(text(Number.NaN), span);
  if (greatest > 1) annotations.warn(text(greatest), span);
  if (least < 0) annotations.warn(text(least), span);
}

async function quantile(
  plan: AggregatePlan,
  rows: Rows,
  parameter: Float64Array,
  context: Context,
): Promise<Rows> {
  noteQuantiles(parameter, plan.parameter!.span, context);
  const { stepCount } = rows;
  const matrix = await materializeFloats(plan, rows, plan.input.span, context);
  const groups = await groupRows(matrix, plan.grouping, context.pacer.work);
  if (context.pacer.hold(groups.labels.length * stepCount)) await context.pacer.room();
  const result = await Matrix.makePaced(groups.labels, stepCount, context.pacer);
  const scratch = new Float64Array(matrix.count);
  const { values, words } = matrix.buffer;
  for (const [group, members] of rowsByGroup(groups).entries()) {
    for (let step = 0; step < stepCount; step++) {
      let count = 0;
      for (const row of members) {
        const cell = row * stepCount + step;
        const value = values[cell]!;
        if (value !== value && isAbsent(words, cell)) continue;
        scratch[count++] = value;
      }
      if (count > 0) {
        result.buffer.values[group * stepCount + step] = quantileOf(
          parameter[step]!,
          scratch,
          count,
        );
      }
      if (context.pacer.spend(members.length * 3)) await context.pacer.pause();
    }
  }
  return result;
}

/** Of a character of a histogram's text, in units of work. */
const textUnits = 4;

/** Of a count of values at a step: as it is counted, and in the outcome. */
const countBytes = 16;

async function countValues(
  plan: AggregatePlan,
  rows: Rows,
  label: string,
  context: Context,
): Promise<Rows> {
  if (label === '' || !label.isWellFormed()) {
    throw executionError(`invalid label name ${quoted(label)}`);
  }
  const { stepCount } = rows;
  const { pacer } = context;
  const { groupOfRow, labels } = await groupRows(rows, plan.grouping, pacer.work);
  // As Prometheus has it: what is left out is left out, the new label too.
  const isDropped =
    plan.grouping.without && [metricNameTag, ...plan.grouping.labels].includes(label);
  // Labels are made and compared as long as they are.
  const labelUnits = labelsUnits + 2 * label.length;
  const counts: { labels: Labels; row: Float64Array }[] = [];
  // Groups may become one when the new label replaces one of the grouping labels.
  const countsOfLabels = new Map<string, Float64Array>();
  const countsOfGroup: Map<string, Float64Array>[] = labels.map(() => new Map());
  for (let index = 0; index < rows.count; index++) {
    let at = rows.load(index);
    if (at === notReady) at = await loadPrepared(rows, index);
    const group = groupOfRow[index]!;
    for (let step = 0; step < stepCount; step++) {
      if (isAbsent(rows.buffer.words, at + step)) continue;
      const histogram = histogramOf(rows.buffer, at + step);
      const text =
        histogram === null ? formatNumber(rows.buffer.values[at + step]!) : textOf(histogram);
      if (histogram !== null && pacer.spend(textUnits * text.length)) await pacer.pause();
      let row = countsOfGroup[group]!.get(text);
      if (row === undefined) {
        if (pacer.take(labels[group]!.bytesWith(label, text))) await pacer.room();
        const groupLabels = isDropped ? labels[group]! : labels[group]!.with(label, text);
        row = countsOfLabels.get(groupLabels.key);
        if (row === undefined) {
          if (pacer.hold(stepCount, countBytes)) await pacer.room();
          row = new Float64Array(stepCount);
          countsOfLabels.set(groupLabels.key, row);
          counts.push({ labels: groupLabels, row });
        }
        countsOfGroup[group]!.set(text, row);
        if (pacer.spend(labelUnits + stepCount)) await pacer.pause();
      }
      row[step] = row[step]! + 1;
    }
    // Numbers are printed.
    if (pacer.spend(stepCount * 40)) await pacer.pause();
  }
  const result = Matrix.unwritten(
    counts.map((entry) => entry.labels),
    stepCount,
  );
  for (const [index, { row }] of counts.entries()) {
    for (let step = 0; step < stepCount; step++) {
      const cell = index * stepCount + step;
      if (row[step]! > 0) result.buffer.values[cell] = row[step]!;
      else setAbsent(result.buffer.words, cell);
    }
    if (pacer.spend(stepCount)) await pacer.pause();
  }
  return result;
}
