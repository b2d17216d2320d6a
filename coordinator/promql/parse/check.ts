/** Type rules of the language, with the messages of Prometheus. */
import { comparisonOperators, documentedType, setOperators, typeOf } from './ast.ts';
import type { Aggregate, Binary, Call, Expr, VectorSelector } from './ast.ts';
import { parseError } from '../words/errors.ts';
import { functions } from '../functions/table.ts';
import type { ValueType } from '../functions/table.ts';

/**
 * Checks the whole tree, inner nodes first.
 * @throws {PromqlError} bad_data at the first mistake
 */
export function checkTypes(query: string, expr: Expr): void {
  new Checker(query).check(expr);
}

class Checker {
  readonly #query: string;

  constructor(query: string) {
    this.#query = query;
  }

  #fail(expr: Pick<Expr, 'span'>, message: string): never {
    throw parseError(this.#query, expr.span.start, message);
  }

  #expect(expr: Expr, wanted: ValueType, context: string): void {
    const type = typeOf(expr);
    if (type !== wanted) {
      this.#fail(
        expr,
        `expected type ${documentedType[wanted]} in ${context}, got ${documentedType[type]}`,
      );
    }
  }

  check(expr: Expr): void {
    switch (expr.kind) {
      case 'number':
      case 'string':
        return;
      case 'vectorSelector':
        this.#selector(expr);
        return;
      case 'matrixSelector':
        this.#selector(expr.selector);
        return;
      case 'paren':
        this.check(expr.expr);
        return;
      case 'unary': {
        this.check(expr.expr);
        const type = typeOf(expr.expr);
        if (type !== 'scalar' && type !== 'vector') {
          this.#fail(
            expr,
            `unary expression only allowed on expressions of type scalar or instant vector, got ${JSON.stringify(documentedType[type])}`,
          );
        }
        return;
      }
      case 'subquery': {
        this.check(expr.expr);
        const type = typeOf(expr.expr);
        if (type !== 'vector') {
          this.#fail(expr, `subquery is only allowed on instant vector, got ${type} instead`);
        }
        return;
      }
      case 'aggregate':
        this.#aggregate(expr);
        return;
      case 'binary':
        this.#binary(expr);
        return;
      case 'call':
        this.#call(expr);
        return;
    }
  }

  #selector(selector: VectorSelector): void {
    if (!selector.matchesEmpty) return;
    this.#fail(selector, 'vector selector must contain at least one non-empty matcher');
  }

  #aggregate(expr: Aggregate): void {
    this.check(expr.expr);
    this.#expect(expr.expr, 'vector', 'aggregation expression');
    if (expr.parameter === null) return;
    this.check(expr.parameter);
    const wanted = expr.operator === 'count_values' ? 'string' : 'scalar';
    this.#expect(expr.parameter, wanted, 'aggregation parameter');
  }

  #binary(expr: Binary): void {
    this.check(expr.left);
    this.check(expr.right);
    const left = typeOf(expr.left);
    const right = typeOf(expr.right);
    const { operator, matching } = expr;
    if (comparisonOperators.has(operator) && !expr.returnBool) {
      if (left === 'scalar' && right === 'scalar') {
        const at = this.#query.indexOf(operator, expr.left.span.end);
        throw parseError(this.#query, at, 'comparisons between scalars must use BOOL modifier');
      }
    }
    for (const [side, type] of [
      [expr.left, left],
      [expr.right, right],
    ] as const) {
      if (type !== 'scalar' && type !== 'vector') {
        this.#fail(side, 'binary expression must contain only scalar and instant vector types');
      }
    }
    const bothVectors = left === 'vector' && right === 'vector';
    if (matching !== null && !bothVectors && matching.labels.length > 0) {
      this.#fail(expr, 'vector matching only allowed between instant vectors');
    }
    const fills = matching !== null && (matching.fillLeft !== null || matching.fillRight !== null);
    if (fills && !bothVectors) {
      this.#fail(expr, 'filling in missing series only allowed between instant vectors');
    }
    if (fills && setOperators.has(operator)) {
      this.#fail(expr, 'filling in missing series not allowed for set operators');
    }
    if (setOperators.has(operator)) {
      if (!bothVectors) {
        this.#fail(expr, `set operator "${operator}" not allowed in binary scalar expression`);
      }
      if (matching !== null && matching.cardinality !== 'many-to-many') {
        this.#fail(expr, `no grouping allowed for "${operator}" operation`);
      }
    }
  }

  #call(expr: Call): void {
    const { args, optional, most } = functions.get(expr.name)!;
    const count = expr.args.length;
    const name = JSON.stringify(expr.name);
    const countMin = args.length - Math.abs(optional);
    const countMax = most ?? (optional < 0 ? Infinity : args.length);
    if (optional === 0 && count !== args.length) {
      this.#fail(expr, `expected ${args.length} argument(s) in call to ${name}, got ${count}`);
    }
    if (count < countMin) {
      this.#fail(
        expr,
        `expected at least ${countMin} argument(s) in call to ${name}, got ${count}`,
      );
    }
    if (count > countMax) {
      this.#fail(expr, `expected at most ${countMax} argument(s) in call to ${name}, got ${count}`);
    }
    const labelSelector = expr.name === 'info' ? expr.args[1] : undefined;
    // The first mistake is told of, in the order in which Prometheus looks for them.
    if (labelSelector !== undefined) this.#labelSelector(labelSelector, expr);
    expr.args.forEach((argument, index) => {
      if (argument === labelSelector) return;
      this.check(argument);
      const wanted = args[Math.min(index, args.length - 1)]!;
      this.#expect(argument, wanted, `call to function ${name}`);
    });
  }

  /** It says which labels are taken from which info series, and selects nothing by itself: all of it may match ''. */
  #labelSelector(argument: Expr, call: Call): void {
    const type = typeOf(argument);
    if (type !== 'vector') {
      // At the call, where others have it at the argument.
      this.#fail(
        call,
        `expected type ${documentedType.vector} in call to function ${JSON.stringify(call.name)}, got ${documentedType[type]}`,
      );
    }
    if (argument.kind !== 'vectorSelector') this.#fail(argument, 'expected label selectors only');
    if (argument.isNamed) {
      this.#fail(argument, 'expected label selectors only, got vector selector instead');
    }
  }
}
