/** Numbers, durations and quoted strings of query texts. */
import { isUtf8 } from 'node:buffer';

const unitMillis: Record<string, number> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
  y: 31_536_000_000,
};

const durationPattern =
  /^(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$/;
const durationUnits = ['y', 'w', 'd', 'h', 'm', 's', 'ms'];

/** Longest duration, in milliseconds: what fits into Go's signed 64-bit nanoseconds. */
export const durationMillisMax = 9_223_372_036_854;

/** Milliseconds of "1h30m" and the like, or null when it is not such a text. */
export function durationMillisOf(text: string): number | null {
  const match = durationPattern.exec(text);
  if (match === null || text === '') return null;
  let total = 0;
  for (const [index, unit] of durationUnits.entries()) {
    const count = match[index + 1];
    if (count !== undefined) total += Number(count) * unitMillis[unit]!;
  }
  return total;
}

/**
 * Value of a number literal; a duration counts in seconds. NaN when the text is no number and not
 * "nan".
 */
export function numberOf(text: string): number {
  const lower = text.toLowerCase();
  if (lower === 'inf') return Infinity;
  if (lower === 'nan') return NaN;
  const duration = durationMillisOf(text);
  if (duration !== null) return duration / 1000;
  if (/^0x[0-9a-f_]+$/i.test(text)) return Number(text.replaceAll('_', ''));
  if (/^0[0-7_]+$/.test(text)) return parseInt(text.replaceAll('_', ''), 8);
  if (/^(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(e[+-]?\d[\d_]*)?$/i.test(text)) {
    return Number(text.replaceAll('_', ''));
  }
  return NaN;
}

const simpleEscapes: Record<string, number> = {
  a: 7,
  b: 8,
  f: 12,
  n: 10,
  r: 13,
  t: 9,
  v: 11,
  '\\': 92,
  "'": 39,
  '"': 34,
};

/**
 * Text of a quoted literal with Go's escape sequences; back quotes are raw.
 * @param fail called with the reason when a sequence is wrong; must throw
 */
export function unquote(literal: string, fail: (reason: string) => never): string {
  const quote = literal[0]!;
  if (literal.length < 2 || !literal.endsWith(quote)) {
    fail(quote === '`' ? 'unterminated raw string' : 'unterminated quoted string');
  }
  const body = literal.slice(1, -1);
  return quote === '`' || !body.includes('\\') ? body : unescaped(body, quote, fail);
}

const numericEscape = /(?:x[0-9a-fA-F]{2}|[0-7]{3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})/y;

function unescaped(body: string, quote: string, fail: (reason: string) => never): string {
  // No escape sequence is shorter than what it stands for, and a UTF-16 unit is up to three bytes.
  const bytes = new ByteText(3 * body.length);
  let at = 0;
  while (at < body.length) {
    const backslash = body.indexOf('\\', at);
    if (backslash < 0) {
      bytes.text(body, at, body.length);
      break;
    }
    bytes.text(body, at, backslash);
    const letter = body[backslash + 1] ?? '';
    const simple = simpleEscapes[letter];
    if (simple !== undefined && (letter !== "'" && letter !== '"' ? true : letter === quote)) {
      bytes.byte(simple);
      at = backslash + 2;
      continue;
    }
    numericEscape.lastIndex = backslash + 1;
    const numeric = numericEscape.exec(body);
    if (numeric === null) {
      if (letter === '') fail('escape sequence not terminated');
      const code = letter.codePointAt(0)!;
      fail(
        `unknown escape sequence U+${code.toString(16).toUpperCase().padStart(4, '0')} '${letter}'`,
      );
    }
    const digits = numeric![0];
    if (digits.startsWith('u') || digits.startsWith('U')) {
      const code = parseInt(digits.slice(1), 16);
      if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        fail('escape sequence is an invalid Unicode code point');
      }
      const character = String.fromCodePoint(code);
      bytes.text(character, 0, character.length);
    } else {
      const value = digits.startsWith('x') ? parseInt(digits.slice(1), 16) : parseInt(digits, 8);
      if (value > 255) fail('escape sequence is an invalid Unicode code point');
      bytes.byte(value);
    }
    at = backslash + 1 + digits.length;
  }
  return bytes.toString();
}

/** Bytes that become a text. */
class ByteText {
  readonly #bytes: Buffer;
  #length = 0;

  constructor(lengthMax: number) {
    this.#bytes = Buffer.allocUnsafe(lengthMax);
  }

  byte(value: number): void {
    this.#bytes[this.#length++] = value;
  }

  text(of: string, start: number, end: number): void {
    for (let at = start; at < end; at++) {
      const code = of.charCodeAt(at);
      if (code > 127) {
        this.#length += this.#bytes.write(of.slice(at, end), this.#length);
        return;
      }
      this.#bytes[this.#length++] = code;
    }
  }

  toString(): string {
    const bytes = this.#bytes.subarray(0, this.#length);
    return isUtf8(bytes) ? bytes.toString() : withStrayBytes(bytes);
  }
}

/** A byte that is no UTF-8 is kept as the half of a surrogate pair: no text has one. */
const strayBase = 0xdc00;

function withStrayBytes(bytes: Buffer): string {
  let text = '';
  for (let at = 0; at < bytes.length; ) {
    const length = [1, 2, 3, 4].find((size) => isUtf8(bytes.subarray(at, at + size)));
    if (length === undefined || at + length > bytes.length) {
      text += String.fromCharCode(strayBase + bytes[at]!);
      at += 1;
    } else {
      text += bytes.toString('utf8', at, at + length);
      at += length;
    }
  }
  return text;
}

const goEscapes: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\x07': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
};

const notPlain = /["\\]|[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu;

/** As Go's %q prints it. */
export function quoted(text: string): string {
  return `"${text.replace(notPlain, escapedForGo)}"`;
}

function escapedForGo(character: string): string {
  const known = goEscapes[character];
  if (known !== undefined) return known;
  const code = character.codePointAt(0)!;
  const hex = code.toString(16);
  const isStrayByte = code >= strayBase && code < strayBase + 256;
  if (isStrayByte || code < 0x20 || code === 0x7f) return `\\x${hex.slice(-2).padStart(2, '0')}`;
  return code > 0xffff ? `\\U${hex.padStart(8, '0')}` : `\\u${hex.padStart(4, '0')}`;
}
