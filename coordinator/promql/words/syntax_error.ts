/**
 * Says what is wrong where the grammar stops: by the tokens near the place, in Prometheus' words.
 */
import { parseError } from './errors.ts';
import type { PromqlError } from './errors.ts';
import { functions } from '../functions/table.ts';
import { lexicalError } from './lexical_errors.ts';
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

const groupingWords = new Set(['by', 'without', 'on', 'ignoring', 'group_left', 'group_right']);

/** Words of the language that have no name of their own. */
const plainWords = new Set(['start', 'end', 'step', 'range', 'min_of', 'max_of']);

const fillWords = new Set(['fill', 'fill_left', 'fill_right']);

/**
 * The error for a text that the grammar refuses.
 * @param offset where the grammar stopped
 */
export function explainSyntaxError(query: string, offset: number): PromqlError {
  const tokens = tokensOf(query);
  const token = tokens.find(({ start, text }) => start + text.length > offset);
  const lexical = lexicalError(query);
  const isFirst = token === undefined || (lexical?.start ?? 0) < token.start + token.text.length;
  if (lexical !== null && isFirst) return parseError(query, lexical.place, lexical.reason);
  const call = unknownFunction(query, tokens, offset);
  if (call !== null)
    return lexical === null ? call : parseError(query, lexical.place, lexical.reason);
  const at = token === undefined ? tokens.length : tokens.indexOf(token);
  const what = token === undefined ? 'end of input' : describe(token.text);
  const place = token?.start ?? query.length;
  return parseError(query, place, `unexpected ${what}${context(tokens, at)}`);
}

function describe(text: string): string {
  const word = text.toLowerCase();
  if (word === 'atan2') return `<op:${text}>`;
  if (keywords.has(word)) return `<${text}>`;
  if (aggregators.has(word)) return `<aggr:${text}>`;
  if (plainWords.has(word)) return JSON.stringify(text);
  if (/^(?:[0-9.]|inf$|nan$)/.test(word)) {
    return `${/[ywdhms]$/.test(word) ? 'duration' : 'number'} ${JSON.stringify(text)}`;
  }
  if (/^[a-zA-Z_:]/.test(text)) return `identifier ${JSON.stringify(text)}`;
  if (/^["'`]/.test(text)) return `string ${JSON.stringify(text)}`;
  if (/^(==|!=|>=|<=|=~|!~|<\/|>\/|[-+*/%^<>])$/.test(text)) return `<op:${text}>`;
  return JSON.stringify(text);
}

const wantsDuration = ', expected number, duration, step(), or range()';

/** Where the token stands: behind a word, inside braces, after `by (`, or in a range. */
function context(tokens: readonly Token[], at: number): string {
  const textAt = (place: number): string => tokens[place]?.text.toLowerCase() ?? '';
  const open: number[] = [];
  for (let i = 0; i < at; i++) {
    if ('([{'.includes(textAt(i))) open.push(i);
    if (')]}'.includes(textAt(i))) open.pop();
  }
  const index = open.at(-1) ?? -1;
  const bracket = textAt(index);
  const previous = textAt(at - 1);
  if (bracket === '{') {
    if (/^(=|!=|=~|!~)$/.test(previous)) return ' in label matching, expected string';
    if (previous === '{' || previous === ',') {
      return ' in label matching, expected identifier or "}"';
    }
    if (/^["'`]/.test(previous)) return ' in label matching, expected "," or "}"';
    return ' in label matching, expected label matching operator';
  }
  if (open.some((place) => textAt(place) === '[')) {
    if (bracket === '[' && /^(?:[0-9.]|\))/.test(previous)) {
      return ' in subquery or range, expected ":" or "]"';
    }
    return ` in subquery or range selector${wantsDuration}`;
  }
  if (previous === 'on' || previous === 'ignoring') return ' in grouping opts, expected "("';
  if (aggregators.has(textAt(at - 2)) && (previous === 'by' || previous === 'without')) {
    return ' in grouping opts, expected "("';
  }
  const before = /^[-+]$/.test(previous) ? textAt(at - 2) : previous;
  if (before === 'offset') return ` in offset${wantsDuration}`;
  if (before === '@') return ' in @, expected timestamp';
  const opener = textAt(index - 1);
  if (groupingWords.has(opener) && index >= 0) return ' in grouping opts, expected label';
  return isAggregation(tokens, index, at) ? ' in aggregation' : '';
}

/** Whether an aggregation has its operator, and not yet its arguments. */
function isAggregation(tokens: readonly Token[], opener: number, at: number): boolean {
  const textAt = (place: number): string => tokens[place]?.text.toLowerCase() ?? '';
  if (at - 1 === opener) return aggregators.has(textAt(opener - 1));
  if (textAt(at - 1) !== ')') return false;
  let place = at - 1;
  for (let depth = 0; place >= 0; place--) {
    if (textAt(place) === ')') depth += 1;
    else if (textAt(place) === '(') depth -= 1;
    if (depth === 0) break;
  }
  return /^(?:by|without)$/.test(textAt(place - 1)) && aggregators.has(textAt(place - 2));
}

function unknownFunction(
  query: string,
  tokens: readonly Token[],
  offset: number,
): PromqlError | null {
  for (const [index, token] of tokens.entries()) {
    if (tokens[index + 1]?.text !== '(' || tokens[index + 1]!.start > offset) continue;
    const word = token.text.toLowerCase();
    if (!/^[a-zA-Z_:]/.test(word) || keywords.has(word) || fillWords.has(word)) continue;
    if (functions.has(token.text) || aggregators.has(word)) continue;
    if (['@', 'offset'].includes(tokens[index - 1]?.text.toLowerCase() ?? '')) continue;
    return parseError(
      query,
      token.start,
      `unknown function with name ${JSON.stringify(token.text)}`,
    );
  }
  return null;
}
