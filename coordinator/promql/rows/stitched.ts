/** Vectors of stretches of steps, joined in time: each series once. */
import type { StitchedPlan } from '../plan/plan.ts';
import { copyCells } from './cells.ts';
import type { Evaluator } from './evaluator.ts';
import type { Labels } from './labels.ts';
import { materialize, Matrix } from './rows.ts';

export async function stitched(
  { parts, grid }: StitchedPlan,
  evaluator: Evaluator,
): Promise<Matrix> {
  const { pacer } = evaluator.context;
  const { stepCount } = grid;
  const places = new Map<string, number>();
  const labels: Labels[] = [];
  const found: Matrix[] = [];
  for (const part of parts) {
    const rows = await materialize(await evaluator.vector(part), pacer);
    for (const each of rows.labels) {
      if (!places.has(each.key)) {
        places.set(each.key, labels.length);
        labels.push(each);
      }
    }
    found.push(rows);
  }
  if (pacer.hold(labels.length * stepCount)) await pacer.room();
  const whole = await Matrix.makePaced(labels, stepCount, pacer);
  let at = 0;
  for (const rows of found) {
    for (const [index, each] of rows.labels.entries()) {
      const target = places.get(each.key)! * stepCount + at;
      copyCells(rows.buffer, index * rows.stepCount, rows.stepCount, whole.buffer, target);
      if (pacer.spend(rows.stepCount)) await pacer.pause();
    }
    pacer.give(8 * rows.count * rows.stepCount);
    at += rows.stepCount;
  }
  return whole;
}
