/**
 * Regular expressions of users: RE2 syntax, always anchored on both ends, `.` matches line ends too
 * (as PromQL and its label functions have it), linear in the length of the text. Simple patterns
 * are matched without an engine (glob.ts). The only importer of re2js.
 */
import { RE2JS, RE2JSSyntaxException } from 're2js';
import { badRequest, messageOf } from '../errors.ts';
import {
  type ByteGlob,
  byteGlobMatches,
  byteGlobOf,
  type Glob,
  globMatches,
  globsOfPattern,
} from './glob.ts';

/** Longer patterns are refused. Alternations of thousands of literals stay below. */
export const regexpLengthMax: number = 1_048_576;

/**
 * Patterns that compile to more instructions are refused, for a text costs up to that many steps a
 * character.
 */
export const regexpProgramSizeMax: number = 30_000;

/** A test of one text that takes more units of work (lib/turns/turns.ts) holds up others. */
const testUnitsMax = 1_000_000;

/** Of the engine, which keeps the states of most patterns as it meets them. */
const stepsPerUnit = 4;

/** Whether a test of a text of so many characters, or a replacement, holds up others. */
export function isDear(regexp: AnchoredRegexp, length: number, isReplaced = false): boolean {
  return regexp.units(length, isReplaced) > testUnitsMax;
}

export interface AnchoredRegexp {
  readonly pattern: string;
  /** What a test of a text of so many characters takes at most, in units of work (lib/turns/turns.ts). */
  units(length: number, isReplaced?: boolean): number;
  /** True when the whole text matches. */
  test(text: string): boolean;
  /** The same for bytes[start, end), which are UTF-8. */
  testBytes(bytes: Uint8Array, start: number, end: number): boolean;
  /** Every text that matches begins with this; often ''. */
  readonly literalPrefix: string;
  /**
   * The only texts that match, without duplicates, when the pattern is a list of literals; else
   * null.
   */
  readonly set: readonly string[] | null;
  /** 'everything' for patterns such as `.*`, 'notEmpty' for `.+`. */
  readonly matches: 'everything' | 'notEmpty' | 'some';
  /**
   * The template with the groups of the match put in, or null when the text does not match.
   * Templates are Go's: `$1`, `$name`, `${name}`, `$$`; a name is the longest run of letters,
   * digits and `_`; a group that does not exist or took no part is empty.
   * @throws {TsdbError} BAD_REQUEST when the pattern is too large for the engine
   */
  replace(text: string, template: string): string | null;
}

/**
 * Compiles a pattern for use on whole texts.
 * @throws {TsdbError} BAD_REQUEST with reason and position
 */
export function compileAnchored(pattern: string): AnchoredRegexp {
  if (pattern.length > regexpLengthMax) {
    throw badRequest(
      `cannot compile regexp: longer than ${regexpLengthMax} characters: ${pattern.slice(0, 100)}…`,
    );
  }
  const globs = globsOfPattern(pattern);
  if (globs === null) return new EngineRegexp(pattern);
  if (globs.every((glob) => glob.gaps.length === 0)) return new LiteralRegexp(pattern, globs);
  return new GlobRegexp(pattern, globs);
}

class LiteralRegexp implements AnchoredRegexp {
  readonly pattern: string;
  readonly set: readonly string[];
  readonly literalPrefix: string;
  readonly matches = 'some';
  readonly #texts: Set<string>;
  #engine: RE2JS | null = null;

  constructor(pattern: string, globs: readonly Glob[]) {
    this.pattern = pattern;
    this.#texts = new Set(globs.map((glob) => glob.parts[0]!));
    this.set = [...this.#texts];
    this.literalPrefix = commonPrefix(this.set);
  }

  units(length: number, isReplaced = false): number {
    return length + (isReplaced ? length * this.pattern.length : 0);
  }

  test(text: string): boolean {
    return this.#texts.has(text);
  }

  testBytes(bytes: Uint8Array, start: number, end: number): boolean {
    return this.#texts.has(textOf(bytes, start, end));
  }

  replace(text: string, template: string): string | null {
    if (!this.test(text)) return null;
    this.#engine ??= compileEngine(this.pattern);
    return replaceByEngine(this.#engine, text, template);
  }
}

class GlobRegexp implements AnchoredRegexp {
  readonly pattern: string;
  readonly set = null;
  readonly literalPrefix: string;
  readonly matches: 'everything' | 'notEmpty' | 'some';
  readonly #globs: readonly Glob[];
  readonly #byteGlobs: readonly ByteGlob[];
  #engine: RE2JS | null = null;

  constructor(pattern: string, globs: readonly Glob[]) {
    this.pattern = pattern;
    this.#globs = globs;
    this.#byteGlobs = globs.map(byteGlobOf);
    this.literalPrefix = commonPrefix(globs.map((glob) => glob.parts[0]!));
    const isGap = (glob: Glob, least: 0 | 1) =>
      glob.gaps.length === 1 && glob.gaps[0] === least && glob.parts.every((part) => part === '');
    if (globs.some((glob) => isGap(glob, 0))) this.matches = 'everything';
    else if (!globs.some((glob) => isGap(glob, 1))) this.matches = 'some';
    else this.matches = globs.some((glob) => globMatches(glob, '')) ? 'everything' : 'notEmpty';
  }

  units(length: number, isReplaced = false): number {
    const parts = isReplaced ? this.pattern.length : this.#globs.length;
    return length * (1 + parts);
  }

  test(text: string): boolean {
    for (const glob of this.#globs) if (globMatches(glob, text)) return true;
    return false;
  }

  testBytes(bytes: Uint8Array, start: number, end: number): boolean {
    const globs = this.#byteGlobs;
    for (let i = 0; i < globs.length; i++) {
      if (byteGlobMatches(globs[i]!, bytes, start, end)) return true;
    }
    return false;
  }

  replace(text: string, template: string): string | null {
    if (!this.test(text)) return null;
    this.#engine ??= compileEngine(this.pattern);
    return replaceByEngine(this.#engine, text, template);
  }
}

class EngineRegexp implements AnchoredRegexp {
  readonly pattern: string;
  readonly set = null;
  readonly literalPrefix = '';
  readonly matches = 'some';
  readonly #engine: RE2JS;

  constructor(pattern: string) {
    this.pattern = pattern;
    this.#engine = compileEngine(pattern);
  }

  units(length: number): number {
    return (length * this.#engine.programSize()) / stepsPerUnit;
  }

  test(text: string): boolean {
    return this.#engine.testExact(text);
  }

  testBytes(bytes: Uint8Array, start: number, end: number): boolean {
    // The engine walks strings faster than bytes, and most values are short.
    return this.#engine.testExact(textOf(bytes, start, end));
  }

  replace(text: string, template: string): string | null {
    return replaceByEngine(this.#engine, text, template);
  }
}

function compileEngine(pattern: string): RE2JS {
  let engine: RE2JS;
  try {
    engine = RE2JS.compile(pattern, RE2JS.DOTALL);
  } catch (error) {
    throw badRequest(`cannot compile regexp: ${compileProblem(pattern, error)}`, { cause: error });
  }
  const size = engine.programSize();
  if (size > regexpProgramSizeMax) {
    throw badRequest(
      `cannot compile regexp: needs ${size} instructions, at most ${regexpProgramSizeMax} are allowed: ${quoted(pattern)}`,
    );
  }
  return engine;
}

/** Reason, place and pattern of a compile error. */
function compileProblem(pattern: string, error: unknown): string {
  if (!(error instanceof RE2JSSyntaxException)) return `${messageOf(error)}: ${quoted(pattern)}`;
  const reason = error.getDescription();
  const fragment = (error.getPattern() ?? '').replace(/^\(\?s\)/, '');
  const position = fragment === '' || fragment === pattern ? -1 : pattern.indexOf(fragment);
  const place = position < 0 ? '' : ` at position ${position} (${quoted(fragment)})`;
  return `${reason}${place}: ${quoted(pattern)}`;
}

function quoted(text: string): string {
  return `\`${text.length > 200 ? `${text.slice(0, 200)}…` : text}\``;
}

function replaceByEngine(engine: RE2JS, text: string, template: string): string | null {
  const matcher = engine.matcher(text);
  if (!matcher.matches()) return null;
  const names = engine.namedGroups();
  return expandTemplate(template, (reference) => {
    if (/^\d+$/.test(reference)) {
      const isIndex = reference === '0' || !reference.startsWith('0');
      if (!isIndex || Number(reference) > matcher.groupCount()) return '';
      return matcher.group(Number(reference)) ?? '';
    }
    const index = Object.hasOwn(names, reference) ? names[reference] : undefined;
    return index === undefined ? '' : (matcher.group(index) ?? '');
  });
}

const templateReference = /\$(?:\$|\{([\p{L}\p{Nd}_]+)\}|([\p{L}\p{Nd}_]+))/gu;

/** Puts groups into a template of Go's form; a `$` that begins no reference stays as it is. */
function expandTemplate(template: string, groupOf: (reference: string) => string): string {
  return template.replace(templateReference, (whole, braced?: string, bare?: string) =>
    whole === '$$' ? '$' : groupOf((braced ?? bare)!),
  );
}

function commonPrefix(texts: readonly string[]): string {
  let prefix = texts[0] ?? '';
  for (const text of texts) {
    let length = 0;
    while (length < prefix.length && prefix[length] === text[length]) length++;
    prefix = prefix.slice(0, length);
  }
  // Half of a surrogate pair is no prefix of UTF-8 bytes.
  return prefix.isWellFormed() ? prefix : prefix.slice(0, -1);
}

const textDecoder = new TextDecoder('utf-8', { ignoreBOM: true });

function textOf(bytes: Uint8Array, start: number, end: number): string {
  let text = '';
  for (let i = start; i < end; i++) {
    // Short ASCII texts, the usual ones, are built faster here than by a call into the decoder.
    if (bytes[i]! > 127 || end - start > 32) return textDecoder.decode(bytes.subarray(start, end));
    text += String.fromCharCode(bytes[i]!);
  }
  return text;
}
