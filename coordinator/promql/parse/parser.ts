/**
 * Text → typed syntax tree, checked. The one place that meets the PromQL grammar of the Prometheus
 * project (a lezer parser); builder.ts makes the tree, check.ts has the type rules.
 */
import { parser } from '@prometheus-io/lezer-promql';
import type { SyntaxNode } from '@lezer/common';
import { messageOf } from '#lib/errors.ts';
import type { Matcher } from '../../select/storage.ts';
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

/** Calls, aggregations and brackets inside of each other; trees are walked by recursion. */
export const nestingMax = 300;

/**
 * Operators on the way from the outermost to the innermost part of a query: those that follow each other
 * (`a + b + c` has two) and those around the brackets that they stand in. Trees are as deep, are walked by
 * recursion. `^` counts as two.
 */
export const operatorsMax = 1_000;

/**
 * @throws {PromqlError} bad_data, with line and column
 */
export function parseQuery(query: string, options: ParseOptions): Expr {
  if (query.length > queryLengthMax) {
    throw parseError(query, 0, `query is longer than ${queryLengthMax} characters`);
  }
  if (query.trim() === '') throw parseError(query, 0, 'no expression found in input');
  checkOperators(query);
  const root = syntaxTreeOf(query);
  const errorOffset = firstErrorOffset(root);
  if (errorOffset >= 0) throw explainSyntaxError(query, errorOffset);
  checkNesting(query, root);
  const children = childrenOf(root);
  if (children.length !== 1) throw explainSyntaxError(query, query.length);
  const expr = new Builder(query, options).expression(children[0]!);
  checkTypes(query, expr);
  return expr;
}

const strictParser = parser.configure({ strict: true });

/** Texts up to here are parsed past their errors, for the best message. */
const explainedLengthMax = 4_096;

/**
 * The grammar's tree. Its way to go on after an error takes time with the square of the text's
 * length, so that a long text is only parsed up to its first error.
 */
function syntaxTreeOf(query: string): SyntaxNode {
  const text = withoutTrailingDots(query);
  if (text.length <= explainedLengthMax) return treeOf(parser, text);
  try {
    return treeOf(strictParser, text);
  } catch (error) {
    const offset = /^No parse at (\d+)$/.exec(messageOf(error))?.[1];
    if (offset === undefined) throw error;
    throw explainSyntaxError(query, Number(offset));
  }
}

/** What of the parser's state its package does not declare. */
interface LongReductions {
  bigReductionCount: number;
}

/**
 * The parser takes a long text in which 300 operators follow each other for one that it has to end, and
 * tells of an error that is not there. It may go on: `checkOperators` bounds the levels of its tree.
 */
function treeOf(of: typeof parser, text: string): SyntaxNode {
  const parse = of.startParse(text);
  for (;;) {
    const tree = parse.advance();
    if (tree !== null) return tree.topNode;
    (parse as unknown as LongReductions).bigReductionCount = 0;
  }
}

/** Texts (also those without an end), comments and names are passed over; what is left are operators and brackets. */
const operatorToken =
  /"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`[^`]*`?|#[^\n]*|[\w:.]+|[=!<>]=|[=!]~|[-+*/%^<>]|[([{,)\]}]/g;
const operatorWords: ReadonlySet<string> = new Set(['and', 'or', 'unless', 'atan2']);

/** Operators at one level of brackets, and of the deepest part that is finished. */
interface Level {
  operators: number;
  inside: number;
  deepest: number;
}

/** @throws {PromqlError} bad_data when the tree would be too deep */
function checkOperators(query: string): void {
  const outer: Level[] = [];
  let level: Level = { operators: 0, inside: 0, deepest: 0 };
  for (const { 0: text, index } of query.matchAll(operatorToken)) {
    // The parser keeps all of a right-associative chain until its end, which takes it twice the room.
    if (text === '^') level.operators += 2;
    else if (/^[-+*/%<>=!]/.test(text) || operatorWords.has(text.toLowerCase()))
      level.operators += 1;
    else if ('([{'.includes(text)) {
      outer.push(level);
      level = { operators: 0, inside: 0, deepest: 0 };
    } else if (text === ',') {
      level.deepest = Math.max(level.deepest, level.operators + level.inside);
      level.operators = 0;
      level.inside = 0;
    } else if (')]}'.includes(text)) {
      const inside = Math.max(level.deepest, level.operators + level.inside);
      level = outer.pop() ?? level;
      level.inside = Math.max(level.inside, inside);
    } else continue;
    if (level.operators + level.inside > operatorsMax) {
      throw parseError(
        query,
        index,
        `more than ${operatorsMax} operators in each other's operands`,
      );
    }
  }
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

const nestingNodes = new Set(['ParenExpr', 'FunctionCallBody', 'SubqueryExpr', 'UnaryExpr']);

function checkNesting(query: string, root: SyntaxNode): void {
  let depth = 0;
  root.cursor().iterate(
    (node) => {
      if (!nestingNodes.has(node.name)) return;
      depth += 1;
      if (depth > nestingMax) {
        throw parseError(query, node.from, `nested more than ${nestingMax} times`);
      }
    },
    (node) => {
      if (nestingNodes.has(node.name)) depth -= 1;
    },
  );
}

/** Texts without an end too: whoever looks for it again and again takes time with the square of the length. */
const trailingDot =
  /"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`[^`]*`?|#[^\n]*|[a-zA-Z_:][a-zA-Z0-9_:]*|(?<![\w.])(\d[\d_]*)\.(?![\da-zA-Z_.])|(?<![\w.])(\d[\d_]*)\.(e[+-]?)(?=\d)/gi;

/**
 * The grammar does not know `2.` and `2.e3`: the same text, as long as before, in forms that it
 * knows.
 */
function withoutTrailingDots(query: string): string {
  return query.replace(
    trailingDot,
    (whole, digits?: string, mantissa?: string, exponent?: string) => {
      if (digits !== undefined) return `${digits} `;
      return mantissa === undefined ? whole : `${mantissa}${exponent}0`;
    },
  );
}
