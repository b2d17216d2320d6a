/**
 * Text → typed syntax tree, checked. The one place that meets the PromQL grammar of the Prometheus
 * project (a lezer parser); builder.ts makes the tree, check.ts has the type rules.
 */
import { parser } from '@prometheus-io/lezer-promql';
import type { SyntaxNode } from '@lezer/common';
import type { Turning } from '#engine/aside/aside.ts';
import { learnRegexps } from '#engine/aside/regexps.ts';
import { messageOf } from '#lib/errors.ts';
import { QueryRegexps } from '#lib/regexp/regexps.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Matcher } from '../../select/storage.ts';
import { noFeatures, type PromqlFeatures } from './features.ts';
import type { Expr, VectorSelector } from './ast.ts';
import { Builder } from './builder.ts';
import { checkTypes } from './check.ts';
import { parseError } from '../words/errors.ts';
import { withKnownWords } from '../words/known_words.ts';
import { explainSyntaxError } from '../words/syntax_error.ts';
import { countTokens } from '../words/tokens.ts';
import { childrenOf, firstErrorOffset } from './tree.ts';

/** Longest query text in UTF-16 units. */
export const queryLengthMax: number = 1 << 20;

/** Calls, aggregations and brackets inside of each other; trees are walked by recursion. */
export const nestingMax = 300;

/** Of a step of the grammar's parser, and of the rest for each token: in units of work (lib/turns/turns.ts). */
const stepUnits = 200;
const tokenUnits = 400;

/**
 * In turns with others: what takes a part of a query of many tokens is some milliseconds.
 * @throws {PromqlError} bad_data, with line and column; as `Aside.run`
 */
export function parseQuery(
  query: string,
  features: PromqlFeatures,
  turning: Turning,
): Promise<Expr> {
  return parsed(query, features, turning, checkTypes);
}

async function parsed(
  query: string,
  features: PromqlFeatures,
  turning: Turning,
  check: (query: string, expr: Expr) => void,
): Promise<Expr> {
  const tokens = checkLength(query, 0);
  const root = await syntaxTreeOf(query, turning.work);
  if (turning.work.spend(tokens * tokenUnits)) await turning.work.pause();
  checkNesting(query, root);
  const children = childrenOf(root);
  if (children.length !== 1) throw explainSyntaxError(query, query.length);
  const regexps = new QueryRegexps();
  for (;;) {
    const expr = new Builder(query, features, regexps).expression(children[0]!);
    if (turning.work.spend(tokens * tokenUnits)) await turning.work.pause();
    check(query, expr);
    if (regexps.areFound) return expr;
    await learnRegexps(regexps, turning);
  }
}

/** @returns tokens of this and of those before it */
function checkLength(query: string, tokensBefore: number): number {
  if (query.length > queryLengthMax) {
    throw parseError(query, 0, `query is longer than ${queryLengthMax} characters`);
  }
  if (query.trim() === '') throw parseError(query, 0, 'no expression found in input');
  return countTokens(query, tokensBefore);
}

const strictParser = parser.configure({ strict: true });

/** Texts up to here are parsed past their errors, for the best message. */
const explainedLengthMax = 4_096;

/**
 * The grammar's tree. Its way to go on after an error takes time with the square of the text's
 * length, so that a long text is only parsed up to its first error.
 */
async function syntaxTreeOf(query: string, work: Work): Promise<SyntaxNode> {
  const text = withKnownWords(withoutTrailingDots(query));
  if (text.length <= explainedLengthMax) {
    const root = await treeOf(parser, text, work);
    const errorOffset = firstErrorOffset(root);
    if (errorOffset >= 0) throw explainSyntaxError(query, errorOffset);
    return root;
  }
  try {
    return await treeOf(strictParser, text, work);
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
 * tells of an error that is not there. It may go on: `countTokens` bounds the levels of its tree.
 */
async function treeOf(of: typeof parser, text: string, work: Work): Promise<SyntaxNode> {
  const parse = of.startParse(text);
  for (;;) {
    const tree = parse.advance();
    if (tree !== null) return tree.topNode;
    (parse as unknown as LongReductions).bigReductionCount = 0;
    if (work.spend(stepUnits)) await work.pause();
  }
}

/**
 * Selectors alone, as the `match[]` parameters of a request have them.
 * @throws {PromqlError} bad_data; as `Aside.run`
 */
export async function parseSelectors(
  texts: readonly string[],
  turning: Turning,
): Promise<Matcher[][]> {
  let length = 0;
  let tokens = 0;
  for (const text of texts) {
    length += text.length;
    if (length > queryLengthMax) {
      throw parseError(text, 0, `selectors are longer than ${queryLengthMax} characters together`);
    }
    tokens = checkLength(text, tokens);
  }
  const lists: Matcher[][] = [];
  for (const text of texts) lists.push(await parseSelector(text, turning));
  return lists;
}

async function parseSelector(text: string, turning: Turning): Promise<Matcher[]> {
  return [...selectorOf(text, await parseQuery(text, noFeatures, turning)).matchers];
}

/**
 * Whether a selector takes what has no labels, which one of series may not.
 * @throws as `parseSelectors`
 */
export async function takesNoLabels(text: string, turning: Turning): Promise<boolean> {
  const check = (query: string, expr: Expr): void => {
    selectorOf(query, expr);
  };
  return selectorOf(text, await parsed(text, noFeatures, turning, check)).matchesEmpty;
}

function selectorOf(text: string, expr: Expr): VectorSelector {
  if (expr.kind === 'vectorSelector' && expr.offset === 0 && expr.at === null) return expr;
  throw parseError(text, 0, 'expected type vector selector');
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
