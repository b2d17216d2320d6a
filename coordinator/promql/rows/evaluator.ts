/** What functions, windows and operators evaluate their arguments with; execute.ts has it. */
import type { Plan } from '../plan/plan.ts';
import type { Context } from './context.ts';
import type { Rows } from './rows.ts';

export interface Evaluator {
  readonly context: Context;
  /** One value for each step. */
  scalar(plan: Plan): Promise<Float64Array>;
  vector(plan: Plan): Promise<Rows>;
}
