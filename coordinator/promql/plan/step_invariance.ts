/** Whether an expression has the same value at all steps, so that it is evaluated at one. */
import type { Expr } from '../parse/ast.ts';
import { functions } from '../functions/table.ts';
import type { Looks } from './looks.ts';

export class StepInvariance {
  readonly #looks: Looks;
  /** What stands inside of others is asked for with each of them. */
  readonly #found = new Map<Expr, boolean>();

  constructor(looks: Looks) {
    this.#looks = looks;
  }

  isOf(expr: Expr): boolean {
    let is = this.#found.get(expr);
    if (is === undefined) {
      is = this.#isOfParts(expr);
      this.#found.set(expr, is);
    }
    return is;
  }

  #isOfParts(expr: Expr): boolean {
    const is = (part: Expr): boolean => this.isOf(part);
    switch (expr.kind) {
      case 'number':
      case 'string':
        return true;
      case 'vectorSelector':
      case 'subquery':
        return expr.at !== null;
      case 'matrixSelector':
        return expr.selector.at !== null;
      case 'unary':
      case 'paren':
        return is(expr.expr);
      case 'binary':
        return is(expr.left) && is(expr.right);
      case 'aggregate':
        return is(expr.expr) && (expr.parameter === null || is(expr.parameter));
      case 'call':
        if (expr.name === 'info') {
          return is(expr.args[0]!) && this.#looks.commonOf(expr.args[0]!) !== null;
        }
        return !functions.get(expr.name)!.dependsOnTime && expr.args.every(is);
    }
  }
}

/** Range vectors are pinned by their reference times already; literals cost nothing. */
export function worthRepeating(expr: Expr): boolean {
  return (
    expr.kind !== 'number' &&
    expr.kind !== 'string' &&
    expr.kind !== 'matrixSelector' &&
    expr.kind !== 'subquery'
  );
}
