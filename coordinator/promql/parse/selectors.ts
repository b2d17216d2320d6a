/** The selectors of a query: what it reads, whatever it does with it, and of which time. */
import type { Matcher } from '../../select/storage.ts';
import type { AtModifier, Expr, Subquery, VectorSelector } from './ast.ts';
import { type Duration, millisOfDuration } from './durations.ts';

/** What a query reads of some series. */
export interface SelectorOfQuery {
  readonly selector: VectorSelector;
  /** 0 for the newest row alone. */
  readonly range: Duration;
  /** Its name, where one is called with the range; '' for none. */
  readonly function: string;
  /** Those around it, the outermost first. */
  readonly subqueries: readonly Subquery[];
}

/** Times of a query, in Unix milliseconds. */
export interface TimesOfQuery {
  readonly startMillis: number;
  readonly endMillis: number;
  /** 0 of an instant query. */
  readonly stepMillis: number;
}

/** Matchers of each selector, in the order of the text. */
export function selectorsOfQuery(expr: Expr): readonly (readonly Matcher[])[] {
  return readsOfQuery(expr).map(({ selector }) => selector.matchers);
}

/** In the order of the text. Queries are nested at most `nestingMax` deep. */
export function readsOfQuery(expr: Expr): readonly SelectorOfQuery[] {
  const found: SelectorOfQuery[] = [];
  const walk = (each: Expr, subqueries: readonly Subquery[], call = ''): void => {
    switch (each.kind) {
      case 'number':
      case 'string':
        return;
      case 'vectorSelector':
        found.push({ selector: each, range: 0, function: '', subqueries });
        return;
      case 'matrixSelector':
        found.push({ selector: each.selector, range: each.range, function: call, subqueries });
        return;
      case 'subquery':
        walk(each.expr, [...subqueries, each]);
        return;
      case 'unary':
      case 'paren':
        walk(each.expr, subqueries, call);
        return;
      case 'call':
        for (const argument of each.args) walk(argument, subqueries, each.name);
        return;
      case 'aggregate':
        if (each.parameter !== null) walk(each.parameter, subqueries);
        walk(each.expr, subqueries);
        return;
      case 'binary':
        walk(each.left, subqueries);
        walk(each.right, subqueries);
        return;
      default:
        each satisfies never;
    }
  };
  walk(expr, []);
  return found;
}

/**
 * The time whose rows a selector looks at, with the ranges, offsets and `@` of itself and of the subqueries around it.
 * @param lookbackMillis how far back the newest row is looked for
 * @throws {PromqlError} bad_data for a duration that makes no sense
 */
export function timeOfRead(
  { selector, range, subqueries }: SelectorOfQuery,
  times: TimesOfQuery,
  lookbackMillis: number,
): { readonly startMillis: number; readonly endMillis: number } {
  const context = {
    stepMillis: times.stepMillis,
    rangeMillis: times.endMillis - times.startMillis,
  };
  let { startMillis, endMillis } = times;
  const look = ({ at, offset }: VectorSelector | Subquery): void => {
    if (at !== null) startMillis = endMillis = millisOfAt(at, times);
    const offsetMillis = millisOfDuration(offset, context, true);
    startMillis -= offsetMillis;
    endMillis -= offsetMillis;
  };
  for (const subquery of subqueries) {
    look(subquery);
    startMillis -= millisOfDuration(subquery.range, context, false);
  }
  look(selector);
  const { extension } = selector;
  // What lies at the edges of a range is looked for as the newest row is, on both sides where it is made of both.
  const isOfEdge = range === 0 || extension !== null;
  startMillis -= millisOfDuration(range, context, false) + (isOfEdge ? lookbackMillis : 0);
  if (extension === 'smoothed') endMillis += lookbackMillis;
  return { startMillis, endMillis };
}

/** Both ends are those of the query, also in a subquery. */
function millisOfAt(at: AtModifier, { startMillis, endMillis }: TimesOfQuery): number {
  if (at.kind === 'time') return at.millis;
  return at.kind === 'start' ? startMillis : endMillis;
}
