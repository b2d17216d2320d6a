/**
 * Conditions of mapping rules on the path of a series of Carbon (docs/LINES.md, Carbon), as M3's rules of Carbon and Graphite's
 * storage-schemas.conf have them: a regular expression that is looked for anywhere in the path, or a text in it.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { programSizeOf } from '#lib/regexp/engine_units.ts';
import { literalRegexp } from '#lib/regexp/literal.ts';
import { nodeTag, pathOfTags } from '#lib/series_id/from_tags.ts';
import type { TagFilter, TagValues } from './filter.ts';
import { type KeptPattern, pathPatterns } from './path_patterns.ts';
import type { Pattern } from './pattern.ts';

/** Longest pattern, or text; more is refused. */
export const conditionCharactersMax = 4096;

/** Longer paths fulfil no condition: that of each rule is tried on a path, one after the other. */
export const pathCharactersMax = 1024;

/** Larger ones cannot be compiled: how large they are need not be known. */
const programSizeMax = 1_000_000;

export interface PathCondition {
  readonly kind: 'pattern' | 'contains';
  /** RE2; or a text. */
  readonly text: string;
  /**
   * Of the rules of a set that have paths the first one that a series matches counts: the one of the least order, and of one
   * order by their names. Those that say where rows are kept and those that only say how they are read are two such lists.
   */
  readonly order: number;
  /** Those behind it count as well. */
  readonly continues: boolean;
  /** Of the tags of all paths that fulfil it; at least one. */
  readonly implied: readonly TagFilter[];
  /** About how many instructions the pattern is compiled to, told by its text; 0 of a text. */
  readonly programSize: number;
  /** The first test of a pattern has it compiled, unless it is `prepare`d. */
  matches(path: string): boolean;
  /**
   * Looks whether the pattern can be compiled, and keeps nothing of that.
   * @returns whether it took the time of a compilation
   * @throws {TsdbError} BAD_REQUEST naming field, reason and text
   */
  check(): boolean;
  /** Has the pattern compiled before it is needed. Returns, and throws, as `check`. */
  prepare(): boolean;
}

/** What a condition says. */
export type WrittenCondition = Pick<PathCondition, 'kind' | 'text' | 'order' | 'continues'>;

/**
 * Nothing is compiled here, and of a pattern no more is looked at than its length: `check` does the rest, once it is known that there
 * are not too many.
 * @param place of the field that has the text, for the error
 * @throws {TsdbError} BAD_REQUEST naming field, reason and text
 */
export function pathCondition(
  { kind, text, order, continues }: WrittenCondition,
  place: string,
): PathCondition {
  const bad = (reason: string): Error => badRequest(`${place}: ${reason}: ${shownText(text)}`);
  if (text === '') throw bad('it is empty');
  if (text.length > conditionCharactersMax) {
    throw bad(`longer than ${conditionCharactersMax} characters`);
  }
  const shared = { kind, text, order, continues };
  if (kind === 'contains') {
    return {
      ...shared,
      implied: impliedBy(''),
      programSize: 0,
      matches: (path) => path.length <= pathCharactersMax && path.includes(text),
      check: () => false,
      prepare: () => false,
    };
  }
  const told = <T>(of: () => T): T => {
    try {
      return of();
    } catch (error) {
      throw badRequest(`${place}: ${(error as Error).message}`, { cause: error });
    }
  };
  let kept: KeptPattern | null = null;
  return {
    ...shared,
    implied: impliedBy(literalPrefix(text)),
    programSize: programSizeOf(text, programSizeMax),
    matches: (path) => {
      if (path.length > pathCharactersMax) return false;
      if (kept === null || kept.regexp === null) kept = told(() => pathPatterns.of(text));
      kept.isUsed = true;
      return kept.regexp!.test(path);
    },
    check: () => told(() => pathPatterns.check(text)),
    prepare: () => {
      const isNew = !pathPatterns.has(text);
      kept = told(() => pathPatterns.of(text));
      return isNew;
    },
  };
}

/** The same as it is written, which no path fulfils: there is no room for its pattern. */
export function unfulfilled(condition: PathCondition): PathCondition {
  return { ...condition, matches: () => false, check: () => false, prepare: () => false };
}

/** The path of a series; null when it has none. Tags for rules alone are none of a path. */
export function pathOfValues(values: TagValues): string | null {
  const tags = [...values].map(([name, value]) => ({ name, value }));
  return pathOfTags(tags.filter(({ name }) => !name.startsWith('__m3')));
}

/** What paths that begin so have as tags. */
function impliedBy(prefix: string): TagFilter[] {
  const nodes = prefix.split('.');
  return nodes.map((text, node) => {
    const isWhole = node < nodes.length - 1;
    return { name: nodeTag(node), pattern: isWhole ? only(text) : beginning(text) };
  });
}

function only(text: string): Pattern {
  const matches = (value: string): boolean => value === text;
  return { matches, steps: 1, values: [text], prefix: text, widerRegexp: literalRegexp(text) };
}

function beginning(prefix: string): Pattern {
  const matches = (value: string): boolean => value.startsWith(prefix);
  const widerRegexp = prefix === '' ? null : `${literalRegexp(prefix)}.*`;
  return { matches, steps: 1, values: null, prefix, widerRegexp };
}

/** How all texts begin that a pattern of RE2 matches, as far as it is plain to see; '' when it is not. */
function literalPrefix(pattern: string): string {
  if (!pattern.startsWith('^') || pattern.includes('\\Q') || hasAlternatives(pattern)) return '';
  let prefix = '';
  for (let at = 1; at < pattern.length; at += 1) {
    let character = pattern[at]!;
    if (character === '\\') {
      at += 1;
      character = pattern[at]!;
      if (/[A-Za-z0-9]/.test(character)) break;
    } else if (/[.^$*+?()[\]{}]/.test(character)) break;
    // What follows may say that it is not there. Characters of two units are not looked at.
    if (/[*?{]/.test(pattern[at + 1] ?? '') || character > '\x7f') break;
    prefix += character;
  }
  return prefix;
}

/** Whether a `|` stands outside of all groups. */
function hasAlternatives(pattern: string): boolean {
  let depth = 0;
  for (let at = 0; at < pattern.length; at += 1) {
    const character = pattern[at]!;
    if (character === '\\') at += 1;
    else if (character === '[') at = classEnd(pattern, at);
    else if (character === '(') depth += 1;
    else if (character === ')') depth -= 1;
    else if (character === '|' && depth === 0) return true;
  }
  return false;
}

/** Place of the bracket that closes a class. */
function classEnd(pattern: string, start: number): number {
  let at = start + 1;
  if (pattern[at] === '^') at += 1;
  // As the first one it is a character of the class.
  if (pattern[at] === ']') at += 1;
  while (at < pattern.length && pattern[at] !== ']') {
    const named = pattern.startsWith('[:', at) ? pattern.indexOf(':]', at + 2) : -1;
    if (named >= 0) at = named + 2;
    else at += pattern[at] === '\\' ? 2 : 1;
  }
  return at;
}
