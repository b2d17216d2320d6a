/**
 * The simple patterns that nearly all dashboards use, matched without a regexp engine: literals,
 * `.*`, `.+` and alternations of them, such as `prod|staging`, `api-.*` or `(eu|us)-.+-db`. Such a
 * pattern is a list of globs; a text matches when one of them does. Matching is linear: the
 * literals between gaps are sought leftmost and are short, the first and the last one are compared
 * in place.
 */

/** Literals with gaps between them: parts[0] gap[0] parts[1] gap[1] … parts[n]. */
export interface Glob {
  readonly parts: readonly string[];
  /** Least number of characters of each gap: 0 for `.*`, 1 for `.+`. One shorter than `parts`. */
  readonly gaps: readonly (0 | 1)[];
}

/** More alternatives with gaps than this are left to the engine, for each is tried in turn. */
const gapAlternativesMax = 256;
/** Most alternatives that groups may multiply to, as `(a|b)(c|d)` does to four. */
const productAlternativesMax = 10_000;
/**
 * Longer literals between two gaps are left to the engine: seeking them naively would not be
 * linear.
 */
const middlePartLengthMax = 64;
const groupDepthMax = 20;

const quantifiers = '*+?{';
const emptyGlob: Glob = { parts: [''], gaps: [] };

interface Cursor {
  readonly pattern: string;
  at: number;
}

/**
 * Globs that match what the RE2 pattern matches, anchored on both ends, or null when it needs the
 * engine.
 */
export function globsOfPattern(pattern: string): readonly Glob[] | null {
  const cursor: Cursor = { pattern, at: 0 };
  const globs = parseAlternation(cursor, 0);
  if (globs === null || cursor.at !== pattern.length) return null;
  let withGaps = 0;
  for (const glob of globs) {
    if (glob.gaps.length === 0) continue;
    if (++withGaps > gapAlternativesMax) return null;
    for (let i = 1; i < glob.parts.length - 1; i++) {
      if (glob.parts[i]!.length > middlePartLengthMax) return null;
    }
  }
  return globs;
}

function parseAlternation(cursor: Cursor, depth: number): Glob[] | null {
  const globs: Glob[] = [];
  for (;;) {
    const alternative = parseSequence(cursor, depth);
    if (alternative === null) return null;
    for (const glob of alternative) globs.push(glob);
    if (cursor.pattern[cursor.at] !== '|') return globs;
    cursor.at++;
  }
}

function parseSequence(cursor: Cursor, depth: number): Glob[] | null {
  const { pattern } = cursor;
  let globs: Glob[] = [emptyGlob];
  const start = cursor.at;
  while (cursor.at < pattern.length) {
    const character = pattern[cursor.at]!;
    if (character === '|' || character === ')') break;
    if (character === '^' || character === '$') {
      if (!isRedundantAnchor(cursor, start, depth)) return null;
      cursor.at++;
      continue;
    }
    const item = parseItem(cursor, depth);
    if (item === null || item.length * globs.length > productAlternativesMax) return null;
    if (quantifiers.includes(pattern[cursor.at] ?? ' ')) return null;
    globs = product(globs, item);
  }
  return globs;
}

/** The whole pattern is anchored anyway, so `^` at its start and `$` at its end say nothing new. */
function isRedundantAnchor(cursor: Cursor, start: number, depth: number): boolean {
  const { pattern, at } = cursor;
  if (depth > 0) return false;
  if (pattern[at] === '^') return at === start && !quantifiers.includes(pattern[at + 1] ?? ' ');
  return at + 1 === pattern.length || pattern[at + 1] === '|';
}

function parseItem(cursor: Cursor, depth: number): readonly Glob[] | null {
  const { pattern } = cursor;
  const character = pattern[cursor.at]!;
  if (character === '.') {
    const quantifier = pattern[cursor.at + 1];
    if (quantifier !== '*' && quantifier !== '+') return null;
    cursor.at += 2;
    return [{ parts: ['', ''], gaps: [quantifier === '*' ? 0 : 1] }];
  }
  if (character === '(') return parseGroup(cursor, depth);
  return parseLiteral(cursor);
}

function parseGroup(cursor: Cursor, depth: number): Glob[] | null {
  const { pattern } = cursor;
  if (depth === groupDepthMax) return null;
  cursor.at++;
  if (pattern.startsWith('?:', cursor.at)) cursor.at += 2;
  else if (pattern[cursor.at] === '?') return null;
  const globs = parseAlternation(cursor, depth + 1);
  if (globs === null || pattern[cursor.at] !== ')') return null;
  cursor.at++;
  return globs;
}

/**
 * A run of plain characters and escaped punctuation; stops before a character that has a
 * quantifier.
 */
function parseLiteral(cursor: Cursor): readonly Glob[] | null {
  const { pattern } = cursor;
  let literal = '';
  while (cursor.at < pattern.length) {
    let character = pattern[cursor.at]!;
    let length = 1;
    if (character === '\\') {
      character = pattern[cursor.at + 1] ?? '';
      if (!isPunctuation(character)) return null;
      length = 2;
    } else if ('.()|^$'.includes(character)) break;
    else if ('[]{}*+?'.includes(character)) return null;
    if (quantifiers.includes(pattern[cursor.at + length] ?? ' ')) return null;
    literal += character;
    cursor.at += length;
  }
  return [{ parts: [literal], gaps: [] }];
}

function isPunctuation(character: string): boolean {
  return character !== '' && '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~'.includes(character);
}

function product(left: readonly Glob[], right: readonly Glob[]): Glob[] {
  const globs: Glob[] = [];
  for (const a of left) {
    for (const b of right) globs.push(concatenate(a, b));
  }
  return globs;
}

function concatenate(a: Glob, b: Glob): Glob {
  const joined = a.parts[a.parts.length - 1]! + b.parts[0]!;
  return {
    parts: [...a.parts.slice(0, -1), joined, ...b.parts.slice(1)],
    gaps: [...a.gaps, ...b.gaps],
  };
}

/** True when the whole text matches. */
export function globMatches(glob: Glob, text: string): boolean {
  const { parts, gaps } = glob;
  const first = parts[0]!;
  if (gaps.length === 0) return text === first;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (let i = 1; i < parts.length - 1; i++) {
    at = skipCharacters(text, at, gaps[i - 1]!);
    if (at < 0) return false;
    at = text.indexOf(parts[i]!, at);
    if (at < 0) return false;
    at += parts[i]!.length;
  }
  at = skipCharacters(text, at, gaps[gaps.length - 1]!);
  const last = parts[parts.length - 1]!;
  return at >= 0 && text.length - at >= last.length && text.endsWith(last);
}

/** Position after `count` (0 or 1) characters from `at`, or -1 when the text ends before. */
function skipCharacters(text: string, at: number, count: 0 | 1): number {
  if (count === 0) return at;
  if (at >= text.length) return -1;
  return at + (text.codePointAt(at)! > 0xffff ? 2 : 1);
}

/** A glob over UTF-8 bytes. */
export interface ByteGlob {
  readonly parts: readonly Uint8Array[];
  readonly gaps: readonly (0 | 1)[];
}

export function byteGlobOf(glob: Glob): ByteGlob {
  const encoder = new TextEncoder();
  return { parts: glob.parts.map((part) => encoder.encode(part)), gaps: glob.gaps };
}

/** True when bytes[start, end), which are UTF-8, match as a whole. */
export function byteGlobMatches(
  glob: ByteGlob,
  bytes: Uint8Array,
  start: number,
  end: number,
): boolean {
  const { parts, gaps } = glob;
  const first = parts[0]!;
  if (end - start < first.length || !equalAt(bytes, start, first)) return false;
  let at = start + first.length;
  if (gaps.length === 0) return at === end;
  for (let i = 1; i < parts.length - 1; i++) {
    at = skipRune(bytes, at, end, gaps[i - 1]!);
    if (at < 0) return false;
    at = seek(bytes, at, end, parts[i]!);
    if (at < 0) return false;
    at += parts[i]!.length;
  }
  at = skipRune(bytes, at, end, gaps[gaps.length - 1]!);
  const last = parts[parts.length - 1]!;
  return at >= 0 && end - at >= last.length && equalAt(bytes, end - last.length, last);
}

function skipRune(bytes: Uint8Array, at: number, end: number, count: 0 | 1): number {
  if (count === 0) return at;
  if (at >= end) return -1;
  let next = at + 1;
  while (next < end && (bytes[next]! & 0xc0) === 0x80) next++;
  return next;
}

function seek(bytes: Uint8Array, start: number, end: number, part: Uint8Array): number {
  const last = end - part.length;
  for (let at = start; at <= last; at++) if (equalAt(bytes, at, part)) return at;
  return -1;
}

function equalAt(bytes: Uint8Array, at: number, part: Uint8Array): boolean {
  for (let i = 0; i < part.length; i++) if (bytes[at + i] !== part[i]) return false;
  return true;
}
