/**
 * The grammar's package lags a little behind the language that it is for: the same text, as long as before, in words that it
 * knows. Whoever builds the tree reads the words of the query itself.
 */
import { type Token, tokensOf } from './tokens.ts';

const durationWords: ReadonlySet<string> = new Set(['step', 'range', 'min_of', 'max_of']);
const mayHaveThem = /(?:step|range|min_of|max_of)\s*\(|offset/i;

/** A function that the grammar knows in the place of those that it does not: as long, any other would do. */
const standIn = 'resets';

/** `offset` is a metric's name where an operand is wanted. */
const standInName = 'metric';
const wantsOperand = /^(?:[-+*/%^<>(,]|[=!<>]=|[<>]\/|and|or|unless|atan2|bool)$/i;

export function withKnownWords(query: string): string {
  if (!mayHaveThem.test(query)) return query;
  const tokens = tokensOf(query);
  let text = query;
  let inDuration = 0;
  /** By open bracket: whether it begins a duration. */
  const open: boolean[] = [];
  for (const [i, token] of tokens.entries()) {
    if ('([{'.includes(token.text)) {
      const begins = token.text === '[' || (token.text === '(' && isOffset(tokens, i));
      open.push(begins);
      if (begins) inDuration += 1;
    } else if (')]}'.includes(token.text)) {
      if (open.pop() === true) inDuration -= 1;
    } else {
      const word = token.text.toLowerCase();
      if (word === 'offset' && (i === 0 || wantsOperand.test(tokens[i - 1]!.text))) {
        if (open.at(-1) !== true) text = replaced(text, token, standInName);
        continue;
      }
      if (tokens[i + 1]?.text !== '(' || !durationWords.has(word)) continue;
      const isInDuration = inDuration > 0 || isOffset(tokens, i);
      if (isInDuration) text = replaced(text, token, word);
      else if (word.endsWith('_of')) text = replaced(text, token, standIn);
    }
  }
  return text;
}

/** Whether the token begins what stands behind `offset`: a sign, or a function's name, may be between. */
function isOffset(tokens: readonly Token[], at: number): boolean {
  let before = at - 1;
  if (tokens[at]!.text === '(' && durationWords.has(tokens[before]?.text.toLowerCase() ?? '')) {
    before -= 1;
  }
  if (/^[-+]$/.test(tokens[before]?.text ?? '')) before -= 1;
  return tokens[before]?.text.toLowerCase() === 'offset';
}

function replaced(text: string, { start, text: old }: Token, word: string): string {
  return text.slice(0, start) + word + text.slice(start + old.length);
}
