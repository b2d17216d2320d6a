/**
 * Says what is wrong where the grammar stops: by the tokens near the place, in Prometheus' words.
 */
import { parseError } from './errors.ts';
import type { PromqlError } from './errors.ts';
import { functions } from '../functions/table.ts';
import { type Token, tokensOf } from './tokens.ts';

const keywords = new Set([
  'and',
  'or',
  'unless',
  'atan2',
  'by',
  'without',
  'on',
  'ignoring',
  'group_left',
  'group_right',
  'bool',
  'offset',
]);

const aggregators = new Set(
  'avg bottomk count count_values group limitk limit_ratio max min quantile stddev stdvar sum topk'.split(
    ' ',
  ),
);

/** A token of a string that has its end; a token without one goes to the end of its line, or of all. */
const terminated = /^(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)$/;

/**
 * The error for a text that the grammar refuses.
 * @param offset where the grammar stopped
 */
export function explainSyntaxError(query: string, offset: number): PromqlError {
  const tokens = tokensOf(query);
  const literal = badLiteral(query, tokens);
  if (literal !== null) return literal;
  const call = unknownFunction(query, tokens, offset);
  if (call !== null) return call;
  const open: Token[] = [];
  for (const token of tokens) {
    if ('([{'.includes(token.text)) open.push(token);
    else if (')]}'.includes(token.text)) {
      const last = open.at(-1)?.text;
      const wanted = token.text === ')' ? '(' : token.text === ']' ? '[' : '{';
      if (last === wanted) open.pop();
      else if (last === undefined) {
        return parseError(
          query,
          token.start + (token.text === ')' ? 1 : 0),
          token.text === ')'
            ? "unexpected right parenthesis ')'"
            : `unexpected character: '${token.text}'`,
        );
      }
    }
  }
  const token = tokens.find((candidate) => candidate.start + candidate.text.length > offset);
  if (token === undefined) {
    const inner = open.at(-1)?.text;
    const reason =
      inner === '('
        ? 'unclosed left parenthesis'
        : inner === '{'
          ? 'unexpected end of input inside braces'
          : inner === '['
            ? 'unclosed left bracket'
            : 'unexpected end of input';
    return parseError(query, query.length, reason);
  }
  return parseError(
    query,
    token.start,
    `unexpected ${describe(token.text)}${context(tokens, token)}`,
  );
}

function describe(text: string): string {
  if (keywords.has(text.toLowerCase())) return `<${text.toLowerCase()}>`;
  if (/^[a-zA-Z_:]/.test(text)) return `identifier ${JSON.stringify(text)}`;
  if (/^[0-9.]/.test(text)) return `number ${JSON.stringify(text)}`;
  if (/^["'`]/.test(text)) return `string ${text}`;
  if (/^(==|!=|>=|<=|=~|!~|[-+*/%^<>])$/.test(text)) return `<op:${text}>`;
  return JSON.stringify(text);
}

/** Where the token stands: inside braces, after `by (`, or in a range. */
function context(tokens: readonly Token[], token: Token): string {
  const open: number[] = [];
  for (const [index, candidate] of tokens.entries()) {
    if (candidate === token) break;
    if ('([{'.includes(candidate.text)) open.push(index);
    if (')]}'.includes(candidate.text)) open.pop();
  }
  const index = open.at(-1);
  if (index === undefined) return '';
  const previous = tokens[tokens.indexOf(token) - 1]!.text;
  const bracket = tokens[index]!.text;
  if (bracket === '{') {
    if (/^(=|!=|=~|!~)$/.test(previous)) return ' in label matching, expected string';
    if (previous === '{' || previous === ',') {
      return ' in label matching, expected identifier or "}"';
    }
    if (/^["'`]/.test(previous)) return ' in label matching, expected "," or "}"';
    return ' in label matching, expected label matching operator';
  }
  if (bracket === '[') {
    return ' in subquery or range selector, expected number, duration, step(), or range()';
  }
  const before = tokens[index - 1]?.text.toLowerCase() ?? '';
  if (['by', 'without', 'on', 'ignoring', 'group_left', 'group_right'].includes(before)) {
    return ' in grouping opts, expected label';
  }
  return '';
}

function badLiteral(query: string, tokens: readonly Token[]): PromqlError | null {
  for (const { text, start } of tokens) {
    if (text === '.') return parseError(query, start, "unexpected character: '.'");
    if (/^[0-9.]/.test(text) && !isNumber(text)) {
      return parseError(query, start, `bad number or duration syntax: ${JSON.stringify(text)}`);
    }
    if (/^["'`]/.test(text) && !terminated.test(text)) {
      const kind = text.startsWith('`') ? 'raw' : 'quoted';
      return parseError(query, start, `unterminated ${kind} string`);
    }
  }
  return null;
}

function isNumber(text: string): boolean {
  return (
    /^0x[0-9a-f]+$/i.test(text) ||
    /^(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)(e[+-]?\d*)?$/i.test(text) ||
    /^(\d+(ms|[ywdhms]))+$/.test(text)
  );
}

function unknownFunction(
  query: string,
  tokens: readonly Token[],
  offset: number,
): PromqlError | null {
  for (const [index, token] of tokens.entries()) {
    if (tokens[index + 1]?.text !== '(' || tokens[index + 1]!.start > offset) continue;
    if (!/^[a-zA-Z_:]/.test(token.text) || keywords.has(token.text.toLowerCase())) continue;
    if (functions.has(token.text) || aggregators.has(token.text.toLowerCase())) continue;
    if (tokens[index - 1]?.text === '@') continue;
    return parseError(
      query,
      token.start,
      `unknown function with name ${JSON.stringify(token.text)}`,
    );
  }
  return null;
}
