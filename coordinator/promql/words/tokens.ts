/**
 * The words of a query's text, and how many there may be: all that follows takes time by their number, not by
 * the length of the text.
 */
import { parseError } from './errors.ts';

/**
 * Words, numbers, strings, operators, brackets and comments of a query, and of all selectors of a request
 * together.
 */
export const tokensMax = 20_000;

/**
 * Operators on the way from the outermost to the innermost part of a query: those that follow each other
 * (`a + b + c` has two) and those around the brackets that they stand in. Trees are as deep, are walked by
 * recursion. `^` counts as two.
 */
export const operatorsMax = 1_000;

export interface Token {
  readonly text: string;
  readonly start: number;
}

/** A string without its end goes to the end of its line, or of all. */
const tokenPattern =
  /\s+|#[^\n]*|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`[^`]*`?|[0-9.][0-9a-zA-Z_.]*|[a-zA-Z_:][a-zA-Z0-9_:]*|==|!=|>=|<=|=~|!~|<\/|>\/|[\s\S]/gu;

/** All tokens but comments. */
export function tokensOf(query: string): Token[] {
  const tokens: Token[] = [];
  for (const { 0: text, index: start } of query.matchAll(tokenPattern)) {
    if (!/^[\s#]/.test(text)) tokens.push({ text, start });
  }
  return tokens;
}

const operatorWords: ReadonlySet<string> = new Set(['and', 'or', 'unless', 'atan2']);
const operatorWordLengthMax = 6;

function isOperator(text: string): boolean {
  if (/^(?:[-+*/%<>]|[=!<>]=$|[<>]\/$|[=!]~$)/.test(text)) return true;
  return text.length <= operatorWordLengthMax && operatorWords.has(text.toLowerCase());
}

/** Operators at one level of brackets, and of the deepest part that is finished. */
interface Level {
  operators: number;
  inside: number;
  deepest: number;
}

/**
 * Looks at a text no further than it may be long.
 * @param before tokens of other texts that count with these
 * @returns the tokens of all
 * @throws {PromqlError} bad_data when they are too many, or the tree would be too deep
 */
export function countTokens(query: string, before: number): number {
  let tokens = before;
  const outer: Level[] = [];
  let level: Level = { operators: 0, inside: 0, deepest: 0 };
  for (const { 0: text, index } of query.matchAll(tokenPattern)) {
    if (/^\s/.test(text)) continue;
    tokens += 1;
    if (tokens > tokensMax) {
      throw parseError(
        query,
        index,
        `more than ${tokensMax} words, numbers, strings, operators, brackets and comments`,
      );
    }
    // The parser keeps all of a right-associative chain until its end, which takes it twice the room.
    if (text === '^') level.operators += 2;
    else if (isOperator(text)) level.operators += 1;
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
  return tokens;
}
