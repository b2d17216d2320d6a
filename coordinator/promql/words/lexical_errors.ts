/** The first place of a query's text that is no word of the language, in Prometheus' words. */

export interface LexicalError {
  /** Where the word begins. */
  readonly start: number;
  /** The place that is told. */
  readonly place: number;
  readonly reason: string;
}

/** @returns null when every word is one, and all brackets end */
export function lexicalError(query: string): LexicalError | null {
  return new Scan(query).firstError();
}

const spaces = /[ \t\r\n]*/y;
const comment = /#[^\r\n]*/y;
const name = /[a-zA-Z_:][a-zA-Z0-9_:]*/y;
const labelRest = /[a-zA-Z0-9_]*/y;
const letters = /[a-zA-Z_]+/y;
const durationWords: ReadonlySet<string> = new Set(['step', 'range', 'min_of', 'max_of']);
/** What follows the number that a duration begins with. */
const durationRest = /[smhdwy]s?(?:[0-9]+[smhdw]s?)*(?![a-zA-Z0-9_])/y;
/** As far as such a duration is read before what is wrong with it. */
const durationPart = /(?:[smhdwy]s?(?:[0-9]+[smhdw]s?)*(?:[0-9]+|[a-zA-Z0-9_])?)?/y;
const operators: ReadonlySet<string> = new Set('*/%+-^,@<>'.split(''));

class Scan {
  readonly #query: string;
  #at = 0;
  #start = 0;
  #place: number | null = null;
  #parens = 0;
  #isInBraces = false;
  #isInBrackets = false;
  /** From a bracket to the first number after it. */
  #isInDuration = false;
  #hasColon = false;
  #reason: string | null = null;

  constructor(query: string) {
    this.#query = query;
  }

  firstError(): LexicalError | null {
    while (this.#reason === null) {
      this.#skip(spaces);
      this.#start = this.#at;
      if (!this.#isInDuration && this.#skip(comment)) continue;
      if (this.#at === this.#query.length) {
        this.#end();
        break;
      }
      const character = this.#next();
      if (this.#isInDuration) this.#inDuration(character);
      else if (/["'`]/.test(character)) this.#string(character);
      else if (this.#isInBraces) this.#insideBraces(character);
      else this.#statement(character);
    }
    if (this.#reason === null) return null;
    return { start: this.#start, place: this.#place ?? this.#start, reason: this.#reason };
  }

  #end(): void {
    if (this.#isInDuration) this.#reason = 'unexpected end of input in duration expression';
    else if (this.#isInBraces) this.#reason = 'unexpected end of input inside braces';
    else if (this.#parens > 0) this.#reason = 'unclosed left parenthesis';
    else if (this.#isInBrackets) this.#reason = 'unclosed left bracket';
  }

  #next(): string {
    const character = String.fromCodePoint(this.#query.codePointAt(this.#at)!);
    this.#at += character.length;
    return character;
  }

  #peek(): string {
    return this.#query[this.#at] ?? '';
  }

  #skip(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    const length = pattern.exec(this.#query)?.[0].length ?? 0;
    this.#at += length;
    return length > 0;
  }

  #accept(characters: string): boolean {
    const isOne = this.#peek() !== '' && characters.includes(this.#peek());
    if (isOne) this.#at += 1;
    return isOne;
  }

  #string(quote: string): void {
    for (;;) {
      if (this.#at === this.#query.length || (quote !== '`' && this.#peek() === '\n')) {
        this.#reason = `unterminated ${quote === '`' ? 'raw' : 'quoted'} string`;
        return;
      }
      const character = this.#next();
      if (character === quote) return;
      if (character === '\\' && quote !== '`') this.#escape(quote);
      if (this.#reason !== null) return;
    }
  }

  #escape(quote: string): void {
    if (this.#at === this.#query.length) {
      this.#reason = 'escape sequence not terminated';
      return;
    }
    const first = this.#next();
    if ('abfnrtv\\'.includes(first) || first === quote) return;
    const isOctal = /[0-7]/.test(first);
    const length = isOctal ? 3 : { x: 2, u: 4, U: 8 }[first];
    if (length === undefined) {
      this.#reason = `unknown escape sequence ${codePoint(first)}`;
      return;
    }
    const digit = isOctal ? /[0-7]/ : /[0-9a-fA-F]/;
    let text = isOctal ? first : '';
    while (text.length < length) {
      if (this.#at === this.#query.length) {
        this.#reason = 'escape sequence not terminated';
        return;
      }
      const next = this.#next();
      if (!digit.test(next)) {
        this.#reason = `illegal character ${codePoint(next)} in escape sequence`;
        return;
      }
      text += next;
    }
    const value = Number.parseInt(text, isOctal ? 8 : 16);
    if (value > (isOctal ? 255 : 0x10ffff) || (value >= 0xd800 && value < 0xe000)) {
      this.#reason = 'escape sequence is an invalid Unicode code point';
    }
  }

  #insideBraces(character: string): void {
    if (/[a-zA-Z_]/.test(character)) this.#skip(labelRest);
    else if (character === '}') this.#isInBraces = false;
    else if (character === '=') this.#accept('~');
    else if (character === '!') {
      if (!this.#accept('~=')) this.#afterSign('!', ' inside braces');
    } else if (character === '{') this.#reason = "unexpected left brace '{'";
    else if (character !== ',') {
      this.#reason = `unexpected character inside braces: ${quoted(character)}`;
    }
  }

  #statement(character: string): void {
    switch (character) {
      case '=':
        if (this.#peek() === '~') this.#afterSign('=', '');
        else this.#accept('=');
        return;
      case '!':
        if (!this.#accept('=')) this.#afterSign('!', '');
        return;
      case '(':
        this.#parens += 1;
        return;
      case ')':
        this.#closeParen();
        return;
      case '{':
        this.#isInBraces = true;
        return;
      case '[':
        if (this.#isInBrackets) this.#reason = "unexpected left bracket '['";
        this.#isInBrackets = true;
        this.#isInDuration = true;
        this.#hasColon = false;
        return;
      case ']':
        if (!this.#isInBrackets) this.#reason = "unexpected right bracket ']'";
        this.#isInBrackets = false;
        return;
    }
    if (this.#isNumber(character)) this.#number();
    else if (/[a-zA-Z_:]/.test(character)) this.#word(character);
    else if (!operators.has(character)) {
      this.#reason = `unexpected character: ${quoted(character)}`;
    }
  }

  #afterSign(sign: string, where: string): void {
    const next = this.#at === this.#query.length ? '' : this.#next();
    this.#reason = `unexpected character after '${sign}'${where}: ${quoted(next)}`;
  }

  /** What may stand before the first number of a range. */
  #inDuration(character: string): void {
    if (character === ']') {
      this.#isInBrackets = false;
      this.#isInDuration = false;
    } else if (character === ':') {
      this.#reason = 'unexpected colon before duration in duration expression';
    } else if (character === '(') this.#parens += 1;
    else if (character === ')') this.#closeParen();
    else if (this.#isNumber(character)) {
      this.#isInDuration = false;
      this.#number();
    } else if (/[a-zA-Z]/.test(character)) {
      this.#skip(letters);
      if (durationWords.has(this.#query.slice(this.#start, this.#at).toLowerCase())) return;
      this.#reason = `unexpected character in duration expression: ${quoted(character)}`;
    } else if (!'+-*/%^,'.includes(character)) {
      this.#reason = `unexpected character in duration expression: ${quoted(character)}`;
    }
  }

  #isNumber(character: string): boolean {
    return /[0-9]/.test(character) || (character === '.' && /[0-9]/.test(this.#peek()));
  }

  #closeParen(): void {
    this.#parens -= 1;
    if (this.#parens >= 0) return;
    this.#place = this.#at;
    this.#reason = "unexpected right parenthesis ')'";
  }

  #word(first: string): void {
    this.#at = this.#start;
    if (!this.#isInBrackets) {
      this.#skip(name);
      return;
    }
    if (first === ':') {
      this.#at += 1;
      if (this.#hasColon) this.#reason = "unexpected colon ':'";
      this.#hasColon = true;
      return;
    }
    this.#skip(letters);
    const word = this.#query.slice(this.#start, this.#at).toLowerCase();
    if (!durationWords.has(word)) {
      this.#reason = `unexpected character: ${quoted(first)}, expected ':'`;
    }
  }

  #number(): void {
    this.#at = this.#start;
    if (this.#scanNumber()) return;
    const end = this.#at;
    if (this.#skip(durationRest)) {
      this.#duration();
      return;
    }
    this.#at = end;
    this.#skip(durationPart);
    this.#badNumber();
  }

  #badNumber(): void {
    const text = this.#query.slice(this.#start, this.#at);
    this.#reason = `bad number or duration syntax: ${JSON.stringify(text)}`;
  }

  /** Units from the longest to the shortest, each once. */
  #duration(): void {
    const text = this.#query.slice(this.#start, this.#at);
    const bad = [...text.matchAll(/[a-z]+/g)].find(([unit]) => !/^(?:ms|[ywdhms])$/.test(unit));
    if (bad !== undefined) {
      this.#reason = `unknown unit ${JSON.stringify(bad[0])} in duration ${JSON.stringify(text)}`;
    } else if (!/^(\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?$/.test(text)) {
      this.#reason = `not a valid duration string: ${JSON.stringify(text)}`;
    }
  }

  /** Up to what cannot be part of a number; whether that may follow one. */
  #scanNumber(): boolean {
    let digits = '0123456789';
    if (this.#accept('0') && this.#accept('xX')) {
      this.#accept('_');
      digits += 'abcdefABCDEF';
    }
    const isHex = digits.length > 10;
    this.#accept('.');
    this.#accept(digits);
    let hasPoint = false;
    let hasExponent = false;
    while (this.#peek() !== '' && `${digits}._eE`.includes(this.#peek())) {
      if (this.#peek() === '.' && hasPoint && this.#accept('.')) return false;
      if (/[eE]/.test(this.#peek()) && hasExponent && this.#accept('eE')) return false;
      if (this.#accept('.')) {
        hasPoint = true;
        if (this.#accept('_.') || isHex) return false;
      } else if (this.#accept('eE')) {
        hasExponent = true;
        this.#accept('+-');
        if (this.#accept('._eE') || this.#peek() === '') return false;
      } else if (this.#accept('_')) {
        if (this.#accept('._eE') || this.#peek() === '') return false;
      } else while (this.#accept(digits));
    }
    return !/[a-zA-Z0-9_]/.test(this.#peek());
  }
}

/** A character as Go shows it. */
function quoted(character: string): string {
  if (character === '') return "'\\x00'";
  return character === "'"
    ? "'\\''"
    : `'${JSON.stringify(character).slice(1, -1).replace('\\"', '"')}'`;
}

function codePoint(character: string): string {
  const hex = character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0');
  return `U+${hex} '${character}'`;
}
