/** The selectors of a query: what it reads, whatever it does with it. */
import type { Matcher } from '../../select/storage.ts';
import type { Expr, VectorSelector } from './ast.ts';
import type { Duration } from './durations.ts';

/** What a query reads of some series. */
export interface SelectorOfQuery {
  readonly selector: VectorSelector;
  /** 0 for the newest row alone. */
  readonly range: Duration;
}

/** Matchers of each selector, in the order of the text. */
export function selectorsOfQuery(expr: Expr): readonly (readonly Matcher[])[] {
  return readsOfQuery(expr).map(({ selector }) => selector.matchers);
}

/** In the order of the text. Queries are nested at most `nestingMax` deep. */
export function readsOfQuery(expr: Expr): readonly SelectorOfQuery[] {
  const found: SelectorOfQuery[] = [];
  const walk = (each: Expr): void => {
    switch (each.kind) {
      case 'number':
      case 'string':
        return;
      case 'vectorSelector':
        found.push({ selector: each, range: 0 });
        return;
      case 'matrixSelector':
        found.push({ selector: each.selector, range: each.range });
        return;
      case 'subquery':
      case 'unary':
      case 'paren':
        walk(each.expr);
        return;
      case 'call':
        for (const argument of each.args) walk(argument);
        return;
      case 'aggregate':
        if (each.parameter !== null) walk(each.parameter);
        walk(each.expr);
        return;
      case 'binary':
        walk(each.left);
        walk(each.right);
        return;
      default:
        each satisfies never;
    }
  };
  walk(expr);
  return found;
}
