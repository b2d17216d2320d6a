/** The characters of a target: what a path is made of, and where something is wrong. */
import { badRequest, shownText } from '#lib/errors.ts';
import type { TsdbError } from '#lib/errors.ts';

/** Characters that end a path unless they are escaped. Braces enclose alternatives. */
const symbols = '(){},.\'"\\|';
const identifier = /[A-Za-z_][A-Za-z0-9_]*/y;
const spaces = /[ \t\r\n]*/y;

/** Walks over the text of one target, once. */
export class Scanner {
  readonly text: string;
  position = 0;

  constructor(text: string) {
    this.text = text;
  }

  /** Position, from 1, is that of `position` when not given. */
  error(reason: string, position: number = this.position): TsdbError {
    return badRequest(
      `cannot parse target: ${reason} at position ${position + 1}: ${JSON.stringify(shownText(this.text))}`,
    );
  }

  skipSpaces(): void {
    spaces.lastIndex = this.position;
    spaces.test(this.text);
    this.position = spaces.lastIndex;
  }

  get isAtEnd(): boolean {
    return this.position >= this.text.length;
  }

  /** The next character, '' at the end. */
  get next(): string {
    return this.text.charAt(this.position);
  }

  /** Takes a character that comes next, with the spaces before it. */
  take(character: string): boolean {
    this.skipSpaces();
    if (this.next !== character) return false;
    this.position += 1;
    return true;
  }

  /** @throws {TsdbError} BAD_REQUEST when something else comes */
  expect(character: string, what: string): void {
    if (this.take(character)) return;
    throw this.error(`expected ${what}, not ${this.found()}`);
  }

  found(): string {
    return this.isAtEnd ? 'the end' : JSON.stringify(this.next);
  }

  /** Takes `name` when `follower` stands behind it; else nothing is taken. */
  takeNameBefore(follower: string): string | null {
    this.skipSpaces();
    const start = this.position;
    identifier.lastIndex = start;
    if (!identifier.test(this.text)) return null;
    const name = this.text.slice(start, identifier.lastIndex);
    this.position = identifier.lastIndex;
    if (this.take(follower)) return name;
    this.position = start;
    return null;
  }

  /** Takes a string in either quote; a backslash stands for itself but before that quote. */
  takeString(): string {
    const quote = this.next;
    const start = this.position;
    for (let at = start + 1; at < this.text.length; at++) {
      const character = this.text[at]!;
      if (character === '\\') at += 1;
      else if (character === quote) {
        this.position = at + 1;
        return this.text.slice(start + 1, at).replaceAll(`\\${quote}`, quote);
      }
    }
    throw this.error('a string has no end', start);
  }

  /**
   * Takes a path.
   * @throws {TsdbError} BAD_REQUEST when a brace stays open, or there is nothing to take
   */
  takePath(): string {
    const start = this.position;
    let path = '';
    let braces = 0;
    for (; this.position < this.text.length; this.position++) {
      const character = this.next;
      if (character === '\\') {
        const escaped = this.text.charAt(this.position + 1);
        if (escaped === '' || !(symbols.includes(escaped) || escaped === '=')) {
          throw this.error('a backslash has to stand before one of (){},.\'"\\|=');
        }
        path += escaped;
        this.position += 1;
        continue;
      }
      if (character === '{') braces += 1;
      else if (character === '}') {
        if (braces === 0) break;
        braces -= 1;
      } else if (character === ',') {
        if (braces === 0) break;
      } else if (character !== '.' && (symbols.includes(character) || character <= ' ')) break;
      path += character;
    }
    if (braces > 0) throw this.error('a brace has no end', start);
    if (path === '') throw this.error(`expected a path or a function, not ${this.found()}`);
    return path;
  }
}
