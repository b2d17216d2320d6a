/** The selectors of a query: what it reads, whatever it does with it. */
import type { Matcher } from '../../select/storage.ts';
import type { Expr } from './ast.ts';

/** Matchers of each selector, in the order of the text. Queries are nested at most `nestingMax` deep. */
export function selectorsOfQuery(expr: Expr): readonly (readonly Matcher[])[] {
  const found: (readonly Matcher[])[] = [];
  const walk = (each: Expr): void => {
    switch (each.kind) {
      case 'number':
      case 'string':
        return;
      case 'vectorSelector':
        found.push(each.matchers);
        return;
      case 'matrixSelector':
        found.push(each.selector.matchers);
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
