/**
 * Regular expressions of users: RE2 syntax, always anchored on both ends, `.` matches line ends too
 * (as PromQL and its label functions have it), linear in the length of the text. Simple patterns
 * are matched without an engine (glob_parser.ts). The only importer of re2js.
 */
import { RE2JS, RE2JSSyntaxException } from 're2js';
import { badRequest, messageOf } from '../errors.ts';
import { engineUnits } from './engine_units.ts';
import {
  type ByteGlob,
  byteGlobMatches,
  byteGlobOf,
  type Glob,
  globMatches,
  GlobTable,
  globsTriedMax,
} from './glob.ts';
import { GlobParser, type ParsedGlobs } from './glob_parser.ts';
import { heldStates, type StatesOwner } from './states.ts';

/** Longer patterns are refused. Alternations of thousands of literals stay below. */
export const regexpLengthMax: number = 1_048_576;

/**
 * Patterns that compile to more instructions are refused, for a text costs up to that many steps a
 * character.
 */
export const regexpProgramSizeMax: number = 30_000;

/** A pattern whose compilation takes more units of work (lib/turns/turns.ts) is compiled aside. */
const compileUnitsMax = 2_000_000;
/** More are refused: they take seconds, and a gigabyte, to find out that they are too large. */
const compileUnitsLimit = 150_000_000;

/** A test of one text, or a replacement, that may take more units of work holds up others. */
const testUnitsMax = 4_000_000;

/** Of the engine, which keeps the states of most patterns as it meets them. */
const stepsPerUnit = 4;
/** Of a step when every character makes a state that is new. */
const newStepUnits = 18;

/** Whether a test of a text of so many characters holds up others. */
export function isDear(regexp: AnchoredRegexp, length: number): boolean {
  return regexp.isCompiledAside || regexp.unitsMax(length) > testUnitsMax;
}

/** Whether a replacement in a text of so many characters holds up others. */
export function isDearToReplace(regexp: AnchoredRegexp, length: number, template: string): boolean {
  return regexp.isCompiledAside || regexp.replaceUnits(length, template) > testUnitsMax;
}

/** What is known of a pattern that is dear to compile, from where it was compiled. */
export interface RegexpFacts {
  /** Why it cannot be compiled; null when it can. */
  readonly problem: string | null;
  readonly programSize: number;
  readonly matchesEmpty: boolean;
}

export interface AnchoredRegexp {
  readonly pattern: string;
  /** Whether to compile it would hold up others: then tests and replacements are made aside (`isDear`). */
  readonly isCompiledAside: boolean;
  /** What a test of a text of so many characters usually takes, in units of work (lib/turns/turns.ts). */
  units(length: number): number;
  /** What it takes at most. */
  unitsMax(length: number): number;
  /** The same of a replacement. */
  replaceUnits(length: number, template: string): number;
  /** True when the whole text matches. */
  test(text: string): boolean;
  /** The same for bytes[start, end), which are UTF-8. */
  testBytes(bytes: Uint8Array, start: number, end: number): boolean;
  readonly matchesEmpty: boolean;
  /** Instructions of the engine; 0 without one. */
  readonly programSize: number;
  /** About what it takes in memory. */
  readonly memoryBytes: number;
  /** The only texts that match when the pattern is a list of literals; else null. */
  readonly set: ReadonlySet<string> | null;
  /** 'everything' for patterns such as `.*`, 'notEmpty' for `.+`. */
  readonly matches: 'everything' | 'notEmpty' | 'some';
  /**
   * The template with the groups of the match put in, or null when the text does not match.
   * Templates are Go's: `$1`, `$name`, `${name}`, `$$`; a name is the longest run of letters,
   * digits and `_`; a group that does not exist or took no part is empty.
   * @throws {TsdbError} BAD_REQUEST when the pattern is too large for the engine, or the text too long
   */
  replace(text: string, template: string): string | null;
}

/** Of a character of a pattern while it is not known whether it needs the engine. */
const characterUnits = 40;
/** Characters of a pattern that are read in one go. */
const charactersAtOnce = 10_000;

/** Compiles a pattern for use on whole texts, a part at a time. */
export class RegexpCompiler {
  readonly pattern: string;
  readonly #parser: GlobParser;
  /** Null when the pattern needs the engine; undefined as long as it is not read. */
  #withoutEngine: AnchoredRegexp | null | undefined;
  #engineUnits = 0;

  /** @throws {TsdbError} BAD_REQUEST when it is too long */
  constructor(pattern: string) {
    if (pattern.length > regexpLengthMax) {
      throw badRequest(
        `cannot compile regexp: longer than ${regexpLengthMax} characters: ${pattern.slice(0, 100)}…`,
      );
    }
    this.pattern = pattern;
    this.#parser = new GlobParser(pattern);
  }

  /** About what it takes to read it, in units of work. */
  get readingUnits(): number {
    return characterUnits * this.pattern.length;
  }

  /** Reads a part of it. @returns the units of work that it took; null when all is read */
  read(): number | null {
    if (!this.#parser.step(charactersAtOnce)) return characterUnits * charactersAtOnce;
    if (this.#withoutEngine !== undefined) return null;
    this.#withoutEngine = withoutEngine(this.pattern, this.#parser.result);
    if (this.#withoutEngine === null) {
      this.#engineUnits = engineUnits(this.pattern, compileUnitsLimit + 1);
    }
    return null;
  }

  /** About what is left to do when all is read, in units of work. */
  get engineUnits(): number {
    return this.#engineUnits;
  }

  /** Whether that would hold up others. */
  get isDear(): boolean {
    return this.engineUnits > compileUnitsMax && this.engineUnits <= compileUnitsLimit;
  }

  /**
   * @param facts with them nothing is compiled before a text is tested
   * @throws {TsdbError} BAD_REQUEST with reason and position
   */
  finish(facts: RegexpFacts | null = null): AnchoredRegexp {
    while (this.read() !== null) continue;
    if (this.#engineUnits > compileUnitsLimit) {
      throw badRequest(`cannot compile regexp: takes too long: ${quoted(this.pattern)}`);
    }
    return this.#withoutEngine ?? new EngineRegexp(this.pattern, facts);
  }
}

/**
 * Compiles a pattern in one go, however long it takes.
 * @throws {TsdbError} BAD_REQUEST with reason and position
 */
export function compileAnchored(pattern: string): AnchoredRegexp {
  return new RegexpCompiler(pattern).finish();
}

function withoutEngine(pattern: string, parsed: ParsedGlobs | null): AnchoredRegexp | null {
  if (parsed === null) return null;
  if (parsed.globs.length === 0) return new LiteralRegexp(pattern, parsed.texts);
  if (parsed.globs.length <= globsTriedMax) return new GlobRegexp(pattern, parsed, null);
  const table = GlobTable.of(parsed.globs);
  return table === null ? null : new GlobRegexp(pattern, parsed, table);
}

/** Puts groups into templates for patterns that are matched without the engine. */
class Replacer {
  readonly #pattern: string;
  /** Without groups the whole text is all that a template can ask for. */
  readonly #hasGroups: boolean;
  #engine: RE2JS | null = null;
  #engineUnits: number | null = null;

  constructor(pattern: string) {
    this.#pattern = pattern;
    this.#hasGroups = pattern.includes('(');
  }

  units(length: number, template: string): number {
    const units = templateCharacterUnits * template.length;
    if (!this.#hasGroups) return units;
    this.#engineUnits ??= engineUnits(this.#pattern, testUnitsMax + 1);
    const compiling = this.#engine === null ? this.#engineUnits : 0;
    return units + compiling + newStepUnits * length * this.#pattern.length;
  }

  /** @param text that matches */
  replace(text: string, template: string): string | null {
    if (!this.#hasGroups) {
      return expandTemplate(template, (reference) => (reference === '0' ? text : ''));
    }
    this.#engine ??= compileEngine(this.#pattern);
    return replaceByEngine(this.#engine, text, template);
  }
}

/** Of a text in a set, and of a glob: as objects. */
const textBytes = 64;
const globBytes = 400;
const characterBytes = 2;

class LiteralRegexp implements AnchoredRegexp {
  readonly pattern: string;
  readonly isCompiledAside = false;
  readonly programSize = 0;
  readonly set: ReadonlySet<string>;
  readonly matches = 'some';
  readonly #replacer: Replacer;

  constructor(pattern: string, texts: ReadonlySet<string>) {
    this.pattern = pattern;
    this.set = texts;
    this.#replacer = new Replacer(pattern);
  }

  get matchesEmpty(): boolean {
    return this.set.has('');
  }

  get memoryBytes(): number {
    return 2 * characterBytes * this.pattern.length + textBytes * this.set.size;
  }

  units(length: number): number {
    return length;
  }

  unitsMax(length: number): number {
    return this.units(length);
  }

  replaceUnits(length: number, template: string): number {
    return length + this.#replacer.units(length, template);
  }

  test(text: string): boolean {
    return this.set.has(text);
  }

  testBytes(bytes: Uint8Array, start: number, end: number): boolean {
    return this.set.has(textOf(bytes, start, end));
  }

  replace(text: string, template: string): string | null {
    return this.test(text) ? this.#replacer.replace(text, template) : null;
  }
}

class GlobRegexp implements AnchoredRegexp {
  readonly pattern: string;
  readonly isCompiledAside = false;
  readonly programSize = 0;
  readonly set = null;
  readonly matches: 'everything' | 'notEmpty' | 'some';
  readonly matchesEmpty: boolean;
  readonly #texts: ReadonlySet<string>;
  readonly #globs: readonly Glob[];
  readonly #byteGlobs: readonly ByteGlob[];
  /** Of many globs. */
  readonly #table: GlobTable | null;
  readonly #replacer: Replacer;

  constructor(pattern: string, { texts, globs }: ParsedGlobs, table: GlobTable | null) {
    this.pattern = pattern;
    this.#texts = texts;
    this.#globs = globs;
    this.#byteGlobs = table === null ? globs.map(byteGlobOf) : [];
    this.#table = table;
    this.#replacer = new Replacer(pattern);
    this.matchesEmpty = this.test('');
    const isGap = (glob: Glob, least: 0 | 1) =>
      glob.gaps.length === 1 && glob.gaps[0] === least && glob.parts.every((part) => part === '');
    if (globs.some((glob) => isGap(glob, 0))) this.matches = 'everything';
    else if (!globs.some((glob) => isGap(glob, 1))) this.matches = 'some';
    else this.matches = this.matchesEmpty ? 'everything' : 'notEmpty';
  }

  get memoryBytes(): number {
    const { pattern } = this;
    const globs = this.#globs.length;
    return 2 * characterBytes * pattern.length + textBytes * this.#texts.size + globBytes * globs;
  }

  units(length: number): number {
    return length * (1 + (this.#table?.comparedMax ?? this.#globs.length));
  }

  unitsMax(length: number): number {
    return this.units(length);
  }

  replaceUnits(length: number, template: string): number {
    return this.units(length) + this.#replacer.units(length, template);
  }

  test(text: string): boolean {
    if (this.#texts.has(text)) return true;
    if (this.#table !== null) return this.#table.matches(text);
    for (const glob of this.#globs) if (globMatches(glob, text)) return true;
    return false;
  }

  testBytes(bytes: Uint8Array, start: number, end: number): boolean {
    const globs = this.#byteGlobs;
    for (let i = 0; i < globs.length; i++) {
      if (byteGlobMatches(globs[i]!, bytes, start, end)) return true;
    }
    if (this.#table === null && this.#texts.size === 0) return false;
    return this.test(textOf(bytes, start, end));
  }

  replace(text: string, template: string): string | null {
    return this.test(text) ? this.#replacer.replace(text, template) : null;
  }
}

/** Of an instruction, with the characters that it takes. */
const instructionBytes = 200;

class EngineRegexp implements AnchoredRegexp, StatesOwner {
  readonly pattern: string;
  readonly isCompiledAside: boolean;
  readonly set = null;
  readonly matches = 'some';
  readonly matchesEmpty: boolean;
  readonly programSize: number;
  /** As the engine counts them. */
  statesBytes = 0;
  #compiled: RE2JS | null;

  /** @throws {TsdbError} BAD_REQUEST with reason and position */
  constructor(pattern: string, facts: RegexpFacts | null) {
    this.pattern = pattern;
    this.isCompiledAside = facts !== null;
    if (facts === null) {
      this.#compiled = compileEngine(pattern);
      this.programSize = this.#compiled.programSize();
      this.matchesEmpty = this.#compiled.testExact('');
    } else {
      if (facts.problem !== null) throw badRequest(facts.problem);
      this.#compiled = null;
      this.programSize = facts.programSize;
      this.matchesEmpty = facts.matchesEmpty;
    }
  }

  get #engine(): RE2JS {
    this.#compiled ??= compileEngine(this.pattern);
    return this.#compiled;
  }

  get memoryBytes(): number {
    return characterBytes * this.pattern.length + instructionBytes * this.programSize;
  }

  units(length: number): number {
    return (length * this.programSize) / stepsPerUnit;
  }

  unitsMax(length: number): number {
    return length * this.programSize * newStepUnits;
  }

  replaceUnits(length: number, template: string): number {
    return this.unitsMax(length) + templateCharacterUnits * template.length;
  }

  test(text: string): boolean {
    const engine = this.#engine;
    const matches = engine.testExact(text);
    noteStates(engine, this);
    return matches;
  }

  testBytes(bytes: Uint8Array, start: number, end: number): boolean {
    // The engine walks strings faster than bytes, and most values are short.
    return this.test(textOf(bytes, start, end));
  }

  dropStates(): void {
    this.#engine.re2().dfa.clearCache();
    this.statesBytes = 0;
  }

  replace(text: string, template: string): string | null {
    return replaceByEngine(this.#engine, text, template);
  }
}

/** After a test, which may have made some. */
function noteStates(engine: RE2JS, owner: StatesOwner & { statesBytes: number }): void {
  const { stateBudget, memBudget } = engine.re2().dfa;
  if (stateBudget - memBudget === owner.statesBytes) return;
  owner.statesBytes = stateBudget - memBudget;
  heldStates.note(owner);
}

function compileEngine(pattern: string): RE2JS {
  let engine: RE2JS;
  try {
    engine = RE2JS.compile(pattern, RE2JS.DOTALL);
  } catch (error) {
    throw badRequest(`error parsing regexp: ${compileProblem(pattern, error)}`, { cause: error });
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

/** A pattern that is looked for anywhere in a text, for languages whose regexps are not anchored. */
export class SearchRegexp implements StatesOwner {
  readonly #pattern: string;
  readonly #engine: RE2JS;
  statesBytes = 0;

  /** @throws {TsdbError} BAD_REQUEST with reason and position, or when it takes long to compile */
  constructor(pattern: string) {
    if (engineUnits(pattern, compileUnitsMax + 1) > compileUnitsMax) {
      throw badRequest(`cannot compile regexp: takes too long: ${quoted(pattern)}`);
    }
    this.#pattern = pattern;
    this.#engine = compileEngine(pattern);
  }

  /**
   * What a test of a text of so many characters takes at most, in units of work.
   * @throws {TsdbError} BAD_REQUEST when that would hold up others
   */
  unitsMax(length: number): number {
    const units = length * this.#engine.programSize() * newStepUnits;
    if (units <= testUnitsMax) return units;
    throw badRequest(
      `cannot match regexp: takes too long for a text of ${length} characters: ${quoted(this.#pattern)}`,
    );
  }

  get memoryBytes(): number {
    return characterBytes * this.#pattern.length + instructionBytes * this.#engine.programSize();
  }

  /** True when some part of the text matches. */
  test(text: string): boolean {
    const matches = this.#engine.test(text);
    noteStates(this.#engine, this);
    return matches;
  }

  dropStates(): void {
    this.#engine.re2().dfa.clearCache();
    this.statesBytes = 0;
  }

  /** Groups of the first match, by number or name: null for one that took no part or is none. Null without a match. */
  firstGroups(text: string): ((reference: string) => string | null) | null {
    const matcher = this.#engine.matcher(text);
    if (!matcher.find()) return null;
    const names = this.#engine.namedGroups();
    return (reference) => {
      const isNumber = /^\d+$/.test(reference);
      if (!isNumber && !Object.hasOwn(names, reference)) return null;
      const index = isNumber ? Number(reference) : names[reference]!;
      return index > matcher.groupCount() ? null : matcher.group(index);
    };
  }

  /**
   * The text with each match replaced.
   * @param expand what is put in; `group` gives a group by number or name, '' when it took no part, and
   *   null when there is none
   * @throws {TsdbError} BAD_REQUEST when the text becomes too long
   */
  replaceAll(
    text: string,
    expand: (group: (reference: number | string) => string | null) => string,
  ): string {
    const matcher = this.#engine.matcher(text);
    const names = this.#engine.namedGroups();
    const group = (reference: number | string): string | null => {
      const isName = typeof reference === 'string';
      if (isName && !Object.hasOwn(names, reference)) return null;
      const index = isName ? names[reference]! : reference;
      return index > matcher.groupCount() ? null : (matcher.group(index) ?? '');
    };
    let replaced = '';
    let end = 0;
    while (matcher.find()) {
      replaced += text.slice(end, matcher.start()) + expand(group);
      end = matcher.end();
      checkExpanded(replaced.length);
    }
    return replaced + text.slice(end);
  }
}

/** Longest text that a template becomes: no label has a longer one. */
const expandedLengthMax = 65_535;
/** Of a character of a template that is put in, in units of work. */
const templateCharacterUnits = 20;

const templateReference = /\$(?:\$|\{([\p{L}\p{Nd}_]+)\}|([\p{L}\p{Nd}_]+))/gu;

function checkExpanded(length: number): void {
  if (length <= expandedLengthMax) return;
  throw badRequest(`cannot replace: the text becomes longer than ${expandedLengthMax} characters`);
}

/** Puts groups into a template of Go's form; a `$` that begins no reference stays as it is. */
function expandTemplate(template: string, groupOf: (reference: string) => string): string {
  let putIn = 0;
  const expanded = template.replace(templateReference, (whole, braced?: string, bare?: string) => {
    const text = whole === '$$' ? '$' : groupOf((braced ?? bare)!);
    putIn += text.length;
    checkExpanded(putIn);
    return text;
  });
  checkExpanded(expanded.length);
  return expanded;
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
