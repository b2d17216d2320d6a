/** The tokens of a script, one after the other, and where something is wrong. */
import { badRequest, shownText, type TsdbError } from '#lib/errors.ts';
import { nameEnd, spacesEnd, wordEnd } from './characters.ts';

/** The longer of two that begin alike stands first. */
export const operators = ['<=', '<', '==', '!=', '>=', '>'] as const;

/** Longest part of a line that an error shows before, and from, where it is. */
const shownBesideMax = 60;

/** Walks over the text of one script. All that it takes is taken with the spaces and comments before it. */
export class Scanner {
  readonly text: string;
  position = 0;

  constructor(text: string) {
    this.text = text;
  }

  /** @param suggestion '' for none */
  error(reason: string, suggestion: string, position: number = this.position): TsdbError {
    return scriptError('parse', this.text, position, reason, suggestion);
  }

  skipSpaces(): void {
    this.position = spacesEnd(this.text, this.position);
  }

  /** Takes a character that comes next; the empty one stands for the end, which stays. */
  take(character: string): boolean {
    this.skipSpaces();
    if (this.text.charAt(this.position) !== character) return false;
    this.position += character.length;
    return true;
  }

  takeName(): string | null {
    return this.#takeTo(nameEnd);
  }

  /** Takes a run of the characters of patterns. */
  takeWord(): string | null {
    return this.#takeTo(wordEnd);
  }

  takeOperator(): string | null {
    this.skipSpaces();
    const operator = operators.find((each) => this.text.startsWith(each, this.position));
    if (operator === undefined) return null;
    this.position += operator.length;
    return operator;
  }

  /** Takes a name and the colon behind it, or nothing. */
  takeKeyword(): string | null {
    const start = this.position;
    const keyword = this.takeName();
    if (keyword !== null && this.take(':')) return keyword;
    this.position = start;
    return null;
  }

  /** Takes a name and the sign of a macro behind it, or nothing. A comparison is no sign. */
  takeMacroName(): string | null {
    const start = this.position;
    const name = this.takeName();
    if (name !== null) {
      this.skipSpaces();
      // "a===5;" is the macro a, which compares.
      const signs = this.text.slice(this.position, this.position + 3);
      const isComparison = signs.startsWith('==') && signs !== '===';
      if (!isComparison && this.take('=')) return name;
    }
    this.position = start;
    return null;
  }

  /**
   * Takes what stands between two quotes.
   * @throws {TsdbError} BAD_REQUEST when there is one quote alone
   */
  takeString(): string | null {
    const start = this.position;
    if (!this.take('"')) return null;
    const end = this.text.indexOf('"', this.position);
    if (end < 0) {
      const isEscaped = this.text.lastIndexOf('\\"', start) >= 0;
      const suggestion = isEscaped ? 'a backslash is no escape: no string has a quote in it' : '';
      throw this.error('a string has no end', suggestion, this.position - 1);
    }
    const text = this.text.slice(this.position, end);
    this.position = end + 1;
    return text;
  }

  /** What stands here, for a message. */
  found(): string {
    const { text, position } = this;
    if (position >= text.length) return 'the end';
    const end = wordEnd(text, position);
    if (end > position) return JSON.stringify(shownText(text.slice(position, end)));
    return JSON.stringify(String.fromCodePoint(text.codePointAt(position)!));
  }

  #takeTo(endOf: (text: string, position: number) => number): string | null {
    this.skipSpaces();
    const start = this.position;
    this.position = endOf(this.text, start);
    return this.position === start ? null : this.text.slice(start, this.position);
  }
}

/**
 * A bad request that says where in a script something is wrong.
 * @param suggestion '' for none
 */
export function scriptError(
  doing: 'parse' | 'evaluate',
  text: string,
  position: number,
  reason: string,
  suggestion: string,
): TsdbError {
  const hint = suggestion === '' ? '' : ` (${suggestion})`;
  return badRequest(
    `cannot ${doing} script: ${reason} at ${placeOf(text, position)}${hint}: ${shownAround(text, position)}`,
  );
}

/** Line and column from 1; a column is a character, one that takes two places of the text included. */
function placeOf(text: string, position: number): string {
  let line = 1;
  let lineStart = 0;
  for (let at = 0; at < position; at++) {
    if (!endsLine(text, at)) continue;
    line += 1;
    lineStart = at + 1;
  }
  let column = 1;
  for (const _ of text.slice(lineStart, position)) column += 1;
  return `line ${line}, column ${column}`;
}

/** A carriage return and a line feed end one line. */
function endsLine(text: string, position: number): boolean {
  const character = text[position];
  return character === '\n' || (character === '\r' && text[position + 1] !== '\n');
}

/** The line with the place, or what of it is near. */
function shownAround(text: string, position: number): string {
  const isEnd = (at: number) => text[at] === '\n' || text[at] === '\r';
  let start = position;
  while (start > 0 && position - start < shownBesideMax && !isEnd(start - 1)) start -= 1;
  let end = position;
  while (end < text.length && end - position < shownBesideMax && !isEnd(end)) end += 1;
  const before = start > 0 && !isEnd(start - 1) ? '…' : '';
  const after = end < text.length && !isEnd(end) ? '…' : '';
  return JSON.stringify(`${before}${text.slice(start, end)}${after}`);
}
