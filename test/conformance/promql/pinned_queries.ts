/**
 * The queries by which promqltest also tries an instant query: all selectors pinned to its time by `@`, evaluated at other
 * times.
 */
import type { Expr } from '#coordinator/promql/parse/ast.ts';
import type { PromqlEngine } from '#coordinator/promql/engine.ts';
import { turningOf } from '#engine/aside/turning_testing.ts';
import { parseQuery } from '#coordinator/promql/parse/parser.ts';

export interface TimedQuery {
  readonly query: string;
  readonly timeMillis: number;
}

/** Their values depend on the time of evaluation even when their arguments are pinned. */
const timeFunctions: ReadonlySet<string> = new Set([
  'days_in_month',
  'day_of_month',
  'day_of_week',
  'day_of_year',
  'hour',
  'minute',
  'month',
  'year',
  'predict_linear',
  'time',
  'timestamp',
  'start_timestamp',
  'end',
  'range',
  'start',
  'step',
]);

export async function pinnedQueries(
  { query, timeMillis }: TimedQuery,
  engine: PromqlEngine,
): Promise<TimedQuery[]> {
  const expr = await parseQuery(query, engine.features, turningOf());
  const places: number[] = [];
  if (!collectPlaces(expr, places)) return [];
  let pinned = query;
  for (const place of places.sort((a, b) => b - a)) {
    pinned = `${pinned.slice(0, place)} @ ${(timeMillis / 1000).toFixed(3)}${pinned.slice(place)}`;
  }
  const times =
    timeMillis === 0
      ? [-1000, 0, 1000]
      : [-10 * timeMillis, 0, Math.trunc(timeMillis / 5), timeMillis, 10 * timeMillis];
  return times.map((time) => ({ query: pinned, timeMillis: time }));
}

/** Ends of the selectors that are not pinned. @returns false when a function depends on the time of evaluation */
function collectPlaces(expr: Expr, places: number[]): boolean {
  const all = (parts: readonly Expr[]): boolean =>
    parts.every((part) => collectPlaces(part, places));
  switch (expr.kind) {
    case 'number':
    case 'string':
      return true;
    case 'vectorSelector':
      if (expr.at === null) places.push(expr.span.end);
      return true;
    case 'matrixSelector':
      if (expr.selector.at === null) places.push(expr.span.end);
      return true;
    case 'subquery': {
      // Selectors within stay as they are.
      if (expr.at === null) places.push(expr.span.end);
      return collectPlaces(expr.expr, []);
    }
    case 'call':
      return !timeFunctions.has(expr.name) && all(expr.args);
    case 'aggregate':
      return all(expr.parameter === null ? [expr.expr] : [expr.parameter, expr.expr]);
    case 'binary':
      return all([expr.left, expr.right]);
    case 'unary':
    case 'paren':
      return collectPlaces(expr.expr, places);
  }
}
