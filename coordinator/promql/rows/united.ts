/** Vectors of the same steps as one, each of other series. */
import type { UnitedPlan } from '../plan/plan.ts';
import { copyCells } from './cells.ts';
import type { Evaluator } from './evaluator.ts';
import { materialize, Matrix, mergeSameLabels, type Rows } from './rows.ts';

/** @throws {PromqlError} when series of two of them have the same labels now, and values at one step */
export async function united(
  { parts, notes, grid }: UnitedPlan,
  evaluator: Evaluator,
): Promise<Rows> {
  const { annotations, pacer } = evaluator.context;
  const { stepCount } = grid;
  const found: Matrix[] = [];
  for (const [at, part] of parts.entries()) {
    const rows = await materialize(await evaluator.vector(part), pacer);
    if (rows.count > 0) annotations.tell(notes[at]!);
    found.push(rows);
  }
  const labels = found.flatMap((rows) => rows.labels);
  if (pacer.hold(labels.length * stepCount)) await pacer.room();
  const whole = await Matrix.makePaced(labels, stepCount, pacer);
  let target = 0;
  for (const rows of found) {
    for (let index = 0; index < rows.count; index++) {
      copyCells(rows.buffer, index * stepCount, stepCount, whole.buffer, target);
      target += stepCount;
      if (pacer.spend(stepCount)) await pacer.pause();
    }
    pacer.give(8 * rows.count * stepCount);
  }
  return mergeSameLabels(whole, pacer);
}
