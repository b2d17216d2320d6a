/**
 * A plan for a part of its grid: values of a step depend on nothing of other steps, so an expression over
 * millions of steps is evaluated a part at a time.
 */
import type { Grid, Plan, Reference, Source, SubquerySource } from './plan.ts';

/** Steps [from, from + count) of the plan's grid. */
export function sliced(plan: Plan, from: number, count: number): Plan {
  const grid = gridFrom(plan.grid, from, count);
  const of = (part: Plan): Plan => sliced(part, from, count);
  switch (plan.kind) {
    case 'number':
    case 'string':
    case 'repeat':
      return { ...plan, grid };
    case 'select':
      return { ...plan, grid, source: moved(plan.source, from) };
    case 'window': {
      const source = sourceFrom(plan.source, from, count);
      return { ...plan, grid, source, parameters: plan.parameters.map(of) };
    }
    case 'rangeVector':
      return { ...plan, grid, source: sourceFrom(plan.source, from, count) };
    case 'stitched': {
      const parts: Plan[] = [];
      let at = 0;
      for (const part of plan.parts) {
        const { stepCount } = part.grid;
        const first = Math.max(0, from - at);
        const past = Math.min(stepCount, from + count - at);
        if (past > first) parts.push(sliced(part, first, past - first));
        at += stepCount;
      }
      return { ...plan, grid, parts };
    }
    case 'united':
      return { ...plan, grid, parts: plan.parts.map(of) };
    case 'call':
      return { ...plan, grid, args: plan.args.map(of) };
    case 'info':
      return { ...plan, grid, input: of(plan.input), reference: moved(plan.reference, from) };
    case 'aggregate': {
      const parameter = plan.parameter === null ? null : of(plan.parameter);
      return { ...plan, grid, input: of(plan.input), parameter };
    }
    case 'binary':
      return { ...plan, grid, left: of(plan.left), right: of(plan.right) };
    case 'negate':
      return { ...plan, grid, input: of(plan.input) };
  }
}

function gridFrom({ startMillis, stepMillis }: Grid, from: number, count: number): Grid {
  return { startMillis: startMillis + from * stepMillis, stepMillis, stepCount: count };
}

function moved<One extends Reference>(source: One, from: number): One {
  const { referenceStartMillis, referenceStepMillis } = source;
  return { ...source, referenceStartMillis: referenceStartMillis + from * referenceStepMillis };
}

function sourceFrom(
  source: Source | SubquerySource,
  from: number,
  count: number,
): Source | SubquerySource {
  const at = moved(source, from);
  if (at.kind === 'selector' || at.referenceStepMillis === 0) return at;
  // Of the steps inside those that its windows touch.
  const { startMillis, stepMillis, stepCount } = at.inner.grid;
  const openingMillis = at.referenceStartMillis - at.rangeMillis;
  const endMillis = at.referenceStartMillis + (count - 1) * at.referenceStepMillis;
  const first = Math.max(0, Math.floor((openingMillis - startMillis) / stepMillis) + 1);
  const last = Math.min(stepCount - 1, Math.floor((endMillis - startMillis) / stepMillis));
  return { ...at, inner: sliced(at.inner, first, Math.max(0, last - first + 1)) };
}
