/**
 * Text → typed syntax tree, checked. The one place that meets the PromQL grammar of the Prometheus project (a lezer
 * parser); builder.ts makes the tree, check.ts has the type rules.
 */
import { parser } from '@prometheus-io/lezer-promql';
import type { Matcher } from '../storage.ts';
import type { Expr } from './ast.ts';
import { Builder } from './builder.ts';
import type { ParseOptions } from './builder.ts';
import { checkTypes } from './check.ts';
import { parseError } from './errors.ts';
import { explainSyntaxError } from './syntax_error.ts';
import { childrenOf, firstErrorOffset } from './tree.ts';

export type { ParseOptions } from './builder.ts';

/** Longest query text in UTF-16 units. */
export const queryLengthMax: number = 1 << 20;

/**
 * @throws {PromqlError} bad_data, with line and column
 */
export function parseQuery(query: string, options: ParseOptions): Expr {
  if (query.length > queryLengthMax) {
    throw parseError(query, 0, `query is longer than ${queryLengthMax} characters`);
  }
  if (query.trim() === '') throw parseError(query, 0, 'no expression found in input');
  const root = parser.parse(withoutTrailingDots(query)).topNode;
  const errorOffset = firstErrorOffset(root);
  if (errorOffset >= 0) throw explainSyntaxError(query, errorOffset);
  const children = childrenOf(root);
  if (children.length !== 1) throw explainSyntaxError(query, query.length);
  const expr = new Builder(query, options).expression(children[0]!);
  checkTypes(query, expr);
  return expr;
}

/**
 * A selector alone, as `match[]` parameters have it.
 * @throws {PromqlError} bad_data
 */
export function parseSelector(text: string): Matcher[] {
  const expr = parseQuery(text, { experimentalFunctions: false });
  if (expr.kind !== 'vectorSelector' || expr.offsetMillis !== 0 || expr.at !== null) {
    throw parseError(text, 0, 'expected type vector selector');
  }
  return [...expr.matchers];
}

const trailingDot =
  /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`|#[^\n]*|[a-zA-Z_:][a-zA-Z0-9_:]*|(?<![\w.])(\d[\d_]*)\.(?![\da-zA-Z_.])|(?<![\w.])(\d[\d_]*)\.(e[+-]?)(?=\d)/gi;

/** The grammar does not know `2.` and `2.e3`: the same text, as long as before, in forms that it knows. */
function withoutTrailingDots(query: string): string {
  return query.replace(
    trailingDot,
    (whole, digits?: string, mantissa?: string, exponent?: string) => {
      if (digits !== undefined) return `${digits} `;
      return mantissa === undefined ? whole : `${mantissa}${exponent}0`;
    },
  );
}
