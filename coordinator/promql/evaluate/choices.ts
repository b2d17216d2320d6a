/** Aggregations that keep some of the rows as they are: topk, bottomk, limitk and limit_ratio. */
import { isAbsent } from '#engine/window_functions/row.ts';
import { formatGeneral } from '#engine/window_functions/number_format.ts';
import { xxhash64 } from '#lib/hashing/xxhash64.ts';
import { executionError } from '../words/errors.ts';
import type { AggregatePlan } from '../plan/plan.ts';
import { BoundedHeap } from '../rows/bounded_heap.ts';
import { copyCells } from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import type { Labels } from '../rows/labels.ts';
import { labelsUnits } from '../rows/paced.ts';
import { materialize, Matrix } from '../rows/rows.ts';
import type { Rows } from '../rows/rows.ts';
import { groupRows, materializeFloats, rowsByGroup } from './groups.ts';

/** What a parameter comes to over all steps; both NaN when one is. */
function boundsOf(parameter: Float64Array): { least: number; greatest: number } {
  let [least, greatest] = [Infinity, -Infinity];
  for (const value of parameter) {
    least = Math.min(least, value);
    greatest = Math.max(greatest, value);
  }
  return { least, greatest };
}

const int64Limit = 2 ** 63;

/** @returns whether any row may be kept @throws {PromqlError} when it is no number of rows */
function checkCount(parameter: Float64Array): boolean {
  const { least, greatest } = boundsOf(parameter);
  if (greatest < 1) return false;
  if (Number.isNaN(greatest)) throw executionError('Parameter value is NaN');
  if (least <= -int64Limit) {
    throw executionError(`Scalar value ${formatGeneral(least)} underflows int64`);
  }
  if (greatest >= int64Limit) {
    throw executionError(`Scalar value ${formatGeneral(greatest)} overflows int64`);
  }
  return true;
}

/**
 * topk and bottomk: the kept series with their own labels, absent at steps where they are not among
 * the k.
 */
export async function extremes(
  plan: AggregatePlan,
  rows: Rows,
  parameter: Float64Array,
  context: Context,
): Promise<Rows> {
  const { stepCount } = rows;
  if (!checkCount(parameter)) return Matrix.make([], stepCount);
  const sign = plan.operator === 'topk' ? 1 : -1;
  const matrix = await materializeFloats(plan, rows, plan.span, context);
  const { values, words } = matrix.buffer;
  const groups = await groupRows(matrix, plan.grouping, context.pacer.work);
  if (context.pacer.hold(matrix.count * stepCount)) await context.pacer.room();
  const result = await Matrix.makePaced(matrix.labels, stepCount, context.pacer);
  const order: number[] = [];
  for (const members of rowsByGroup(groups)) {
    const heap = new BoundedHeap(members.length);
    for (let step = 0; step < stepCount; step++) {
      heap.reset(Math.min(Math.trunc(parameter[step]!), members.length));
      for (const row of members) {
        const cell = row * stepCount + step;
        const value = values[cell]!;
        if (value !== value && isAbsent(words, cell)) continue;
        heap.offer(row, value * sign);
      }
      for (let i = 0; i < heap.size; i++) {
        const cell = heap.rows[i]! * stepCount + step;
        copyCells(matrix.buffer, cell, 1, result.buffer, cell);
      }
      // They may be more than a call takes.
      if (!context.isRangeQuery && stepCount === 1) {
        for (const row of heap.sortedRows()) order.push(row);
      }
      if (context.pacer.spend(members.length)) await context.pacer.pause();
    }
  }
  if (context.isRangeQuery || stepCount !== 1) return result;
  const sorted = Matrix.make(
    order.map((row) => result.labels[row]!),
    1,
  );
  for (const [index, row] of order.entries()) {
    copyCells(result.buffer, row, 1, sorted.buffer, index);
  }
  return sorted;
}

/** limitk: the first k rows of each group that have a value at a step, histograms among them. */
export async function limitCount(
  plan: AggregatePlan,
  rows: Rows,
  parameter: Float64Array,
  context: Context,
): Promise<Rows> {
  const { stepCount } = rows;
  if (!checkCount(parameter)) return Matrix.make([], stepCount);
  const { pacer } = context;
  const matrix = await materialize(rows, pacer);
  const groups = await groupRows(matrix, plan.grouping, pacer.work);
  if (pacer.hold(matrix.count * stepCount)) await pacer.room();
  const result = await Matrix.makePaced(matrix.labels, stepCount, pacer);
  for (const members of rowsByGroup(groups)) {
    for (let step = 0; step < stepCount; step++) {
      let left = Math.trunc(parameter[step]!);
      for (let i = 0; i < members.length && left > 0; i++) {
        const cell = members[i]! * stepCount + step;
        if (isAbsent(matrix.buffer.words, cell)) continue;
        copyCells(matrix.buffer, cell, 1, result.buffer, cell);
        left -= 1;
      }
      if (pacer.spend(members.length)) await pacer.pause();
    }
  }
  return result;
}

/** limit_ratio: a share of all rows, chosen by their labels alone; of a negative one the others. */
export async function limitRatio(
  plan: AggregatePlan,
  rows: Rows,
  parameter: Float64Array,
  context: Context,
): Promise<Rows> {
  const { stepCount } = rows;
  const { least, greatest } = boundsOf(parameter);
  if (least === 0 && greatest === 0) return Matrix.make([], stepCount);
  if (Number.isNaN(greatest)) throw executionError('Ratio value is NaN');
  for (const [bad, limit] of [
    [greatest > 1 ? greatest : null, 1],
    [least < -1 ? least : null, -1],
  ] as const) {
    if (bad === null) continue;
    context.annotations.warn(
      `ratio value should be between -1 and 1, got ${formatGeneral(bad)}, capping to ${limit}`,
      plan.parameter!.span,
    );
  }
  const { pacer } = context;
  const matrix = await materialize(rows, pacer);
  if (pacer.hold(matrix.count * stepCount)) await pacer.room();
  const result = await Matrix.makePaced(matrix.labels, stepCount, pacer);
  for (const [index, labels] of matrix.labels.entries()) {
    const place = placeOf(labels);
    for (let step = 0; step < stepCount; step++) {
      const ratio = Math.max(-1, Math.min(1, parameter[step]!));
      const isKept = ratio >= 0 ? place < ratio : place >= 1 + ratio;
      if (ratio === 0 || !isKept) continue;
      const cell = index * stepCount + step;
      copyCells(matrix.buffer, cell, 1, result.buffer, cell);
    }
    if (pacer.spend(stepCount + 8 * labelsUnits)) await pacer.pause();
  }
  return result;
}

/** Between 0 and 1, by the hash that Prometheus has of the labels. */
function placeOf({ tags }: Labels): number {
  const parts: Uint8Array[] = [];
  for (const { name, value } of tags) parts.push(sized(name), sized(value));
  return Number(xxhash64(Buffer.concat(parts))) / 2 ** 64;
}

/** A text behind its length in bytes: one byte, or 255 and three. */
function sized(text: string): Uint8Array {
  const bytes = Buffer.from(text);
  const { length } = bytes;
  const head =
    length < 255
      ? Uint8Array.of(length)
      : Uint8Array.of(255, length & 255, (length >> 8) & 255, (length >> 16) & 255);
  return Buffer.concat([head, bytes]);
}
