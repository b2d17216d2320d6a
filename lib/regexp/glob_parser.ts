/**
 * Patterns that need no engine: lists of literals such as `prod|staging` and `host-1\.example|host-2\.example`,
 * globs such as `api-.*`, and groups of them, as in `(eu|us)-.+-db`. A list of literals may be as long as a
 * pattern; of the rest there is as much as takes some milliseconds, and what is more is left to the engine.
 */
import type { Glob } from './glob.ts';

/** What a pattern matches, as a whole: one of the texts, or one of the globs. */
export interface ParsedGlobs {
  readonly texts: ReadonlySet<string>;
  /** Each with a gap. */
  readonly globs: readonly Glob[];
}

/** Alternatives of a sequence of groups, as `(a|b)(c|d)` has four. */
const productAlternativesMax = 10_000;
/** The same of the whole pattern, as often as something is put behind them, and their characters. */
const groupedAlternativesMax = 100_000;
const groupedCharactersMax: number = 1 << 20;
/** Sequences that are no plain literal. */
const sequencesMax = 20_000;
/** Literals of all globs, and of those that were made on the way to them. */
const partsMax = 50_000;
/** Longer literals between two gaps are left to the engine: seeking them naively would not be linear. */
const middlePartLengthMax = 64;
const groupDepthMax = 20;

const quantifiers = '*+?{';

/** Characters that are more than themselves. */
const isSpecial = new Uint8Array(128);
for (const character of '\\.()[]{}*+?^$|') isSpecial[character.charCodeAt(0)] = 1;
const bar = '|'.charCodeAt(0);
const backslash = '\\'.charCodeAt(0);
const caret = '^'.charCodeAt(0);
const dollar = '$'.charCodeAt(0);

/** A glob that grows. */
interface Growing {
  parts: string[];
  gaps: (0 | 1)[];
}

/** Thrown inside of this file only. */
class NeedsEngine extends Error {}

/** Reads a pattern, some alternatives at a time. */
export class GlobParser {
  readonly #pattern: string;
  readonly #texts = new Set<string>();
  readonly #globs: Glob[] = [];
  /** Begin of the next alternative; null when all are read. */
  #at: number | null;
  /** Where the alternatives end: the group around all of them is left out. */
  #end: number;
  #isGroup: boolean;
  #needsEngine = false;
  #sequences = 0;
  #alternatives = 0;
  #characters = 0;
  #parts = 0;

  constructor(pattern: string) {
    this.#pattern = pattern;
    const { from, end, isGroup } = bodyOf(pattern);
    this.#at = from;
    this.#end = end;
    this.#isGroup = isGroup;
  }

  /**
   * Reads about so many characters of alternatives.
   * @returns whether all is read
   */
  step(characters: number): boolean {
    const past = (this.#at ?? 0) + characters;
    try {
      while (this.#at !== null && this.#at < past) this.#alternative();
    } catch (error) {
      if (!(error instanceof NeedsEngine)) throw error;
      this.#needsEngine = true;
      this.#at = null;
    }
    return this.#at === null;
  }

  /** Null when the pattern needs the engine. */
  get result(): ParsedGlobs | null {
    return this.#needsEngine ? null : { texts: this.#texts, globs: this.#globs };
  }

  #alternative(): void {
    const from = this.#at!;
    const literalEnd = this.#plainLiteral(from);
    if (literalEnd >= 0) {
      this.#at = literalEnd < this.#end ? literalEnd + 1 : null;
      return;
    }
    if (this.#isGroup) {
      // It is no list of literals, so what was taken for a group around all may be two.
      this.#isGroup = false;
      this.#texts.clear();
      this.#at = 0;
      this.#end = this.#pattern.length;
      return;
    }
    const sequence = new SequenceParser(this.#pattern, from, this);
    for (const { parts, gaps } of sequence.sequence(0)) {
      if (gaps.length === 0) this.#texts.add(parts[0]!);
      else {
        if (parts.slice(1, -1).some((part) => part.length > middlePartLengthMax)) {
          throw new NeedsEngine();
        }
        this.#globs.push({ parts, gaps });
      }
    }
    const { at } = sequence;
    if (at < this.#end && this.#pattern.charCodeAt(at) !== bar) throw new NeedsEngine();
    this.#at = at < this.#end ? at + 1 : null;
  }

  /**
   * Adds the alternative that begins here when it is one literal, with nothing that is special but escaped
   * punctuation.
   * @returns where it ends; -1 when it is more
   */
  #plainLiteral(begin: number): number {
    const pattern = this.#pattern;
    const end = this.#end;
    let from = begin;
    if (!this.#isGroup && pattern.charCodeAt(from) === caret) from++;
    let text = '';
    for (let at = from; at < end; at++) {
      const code = pattern.charCodeAt(at);
      if (code > 127 || isSpecial[code] === 0) continue;
      if (code === backslash && at + 1 < end && isPunctuation(pattern[at + 1]!)) {
        text += pattern.slice(from, at) + pattern[at + 1]!;
        at++;
        from = at + 1;
        continue;
      }
      const isLast = at + 1 === end || pattern.charCodeAt(at + 1) === bar;
      if (code !== bar && (code !== dollar || this.#isGroup || !isLast)) return -1;
      this.#texts.add(text + pattern.slice(from, at));
      return code === bar ? at : at + 1;
    }
    this.#texts.add(text + pattern.slice(from, end));
    return end;
  }

  /** Counts what is not a list of literals. @throws {NeedsEngine} when it is too much */
  spend(sequences: number, alternatives: number, characters: number, parts: number): void {
    this.#sequences += sequences;
    this.#alternatives += alternatives;
    this.#characters += characters;
    this.#parts += parts;
    if (
      this.#sequences > sequencesMax ||
      this.#alternatives > groupedAlternativesMax ||
      this.#characters > groupedCharactersMax ||
      this.#parts > partsMax
    ) {
      throw new NeedsEngine();
    }
  }
}

/** Inside of the group around the whole pattern, if there is one: `^(a|b)$` says what `a|b` does. */
function bodyOf(pattern: string): { from: number; end: number; isGroup: boolean } {
  const from = pattern.startsWith('^') ? 1 : 0;
  const end = pattern.endsWith('$') ? pattern.length - 1 : pattern.length;
  if (end - from < 4 || pattern[from] !== '(' || pattern[end - 1] !== ')') {
    return { from: 0, end: pattern.length, isGroup: false };
  }
  const opening = pattern.startsWith('?:', from + 1) ? 3 : 1;
  return { from: from + opening, end: end - 1, isGroup: true };
}

/** Reads one alternative of the pattern with all that is in it. */
class SequenceParser {
  readonly #pattern: string;
  readonly #of: GlobParser;
  at: number;

  constructor(pattern: string, at: number, of: GlobParser) {
    this.#pattern = pattern;
    this.#of = of;
    this.at = at;
  }

  /** @throws {NeedsEngine} */
  sequence(depth: number): Growing[] {
    const pattern = this.#pattern;
    const start = this.at;
    this.#of.spend(1, 0, 0, 1);
    let globs: Growing[] = [{ parts: [''], gaps: [] }];
    while (this.at < pattern.length) {
      const character = pattern[this.at]!;
      if (character === '|' || character === ')') break;
      if (character === '^' || character === '$') {
        if (!this.#isRedundantAnchor(start, depth)) throw new NeedsEngine();
        this.at++;
        continue;
      }
      globs = this.#joined(globs, this.#item(depth));
      if (quantifiers.includes(pattern[this.at] ?? ' ')) throw new NeedsEngine();
    }
    return globs;
  }

  /** The whole pattern is anchored anyway, so `^` at its start and `$` at its end say nothing new. */
  #isRedundantAnchor(start: number, depth: number): boolean {
    const pattern = this.#pattern;
    const { at } = this;
    if (depth > 0) return false;
    if (pattern[at] === '^') return at === start && !quantifiers.includes(pattern[at + 1] ?? ' ');
    return at + 1 === pattern.length || pattern[at + 1] === '|';
  }

  #item(depth: number): readonly Growing[] {
    const pattern = this.#pattern;
    const character = pattern[this.at]!;
    if (character === '.') {
      const quantifier = pattern[this.at + 1];
      if (quantifier !== '*' && quantifier !== '+') throw new NeedsEngine();
      this.at += 2;
      return [{ parts: ['', ''], gaps: [quantifier === '*' ? 0 : 1] }];
    }
    if (character === '(') return this.#group(depth);
    return [{ parts: [this.#literal()], gaps: [] }];
  }

  #group(depth: number): Growing[] {
    const pattern = this.#pattern;
    if (depth === groupDepthMax) throw new NeedsEngine();
    this.at++;
    if (pattern.startsWith('?:', this.at)) this.at += 2;
    else if (pattern[this.at] === '?') throw new NeedsEngine();
    const globs: Growing[] = [];
    for (;;) {
      for (const glob of this.sequence(depth + 1)) globs.push(glob);
      if (globs.length > productAlternativesMax) throw new NeedsEngine();
      if (pattern[this.at] !== '|') break;
      this.at++;
    }
    if (pattern[this.at] !== ')') throw new NeedsEngine();
    this.at++;
    return globs;
  }

  /** A run of plain characters and escaped punctuation. */
  #literal(): string {
    const pattern = this.#pattern;
    let literal = '';
    let from = this.at;
    for (; this.at < pattern.length; this.at++) {
      const code = pattern.charCodeAt(this.at);
      if (code > 127 || isSpecial[code] === 0) continue;
      if (code === backslash) {
        const character = pattern[this.at + 1] ?? '';
        if (!isPunctuation(character)) throw new NeedsEngine();
        literal += pattern.slice(from, this.at) + character;
        this.at++;
        from = this.at + 1;
        continue;
      }
      if ('.()|^$'.includes(pattern[this.at]!)) break;
      throw new NeedsEngine();
    }
    return literal + pattern.slice(from, this.at);
  }

  /** Each of the first with each of the others behind it. The first ones are used up. */
  #joined(first: Growing[], others: readonly Growing[]): Growing[] {
    const count = first.length * others.length;
    if (count > productAlternativesMax) throw new NeedsEngine();
    const [only] = others;
    if (others.length === 1 && only !== undefined) {
      // One alternative is as long as it is written.
      const copies = first.length === 1 ? 0 : first.length;
      const characters = only.parts.reduce((sum, part) => sum + part.length, 0);
      this.#of.spend(0, copies, copies * characters, first.length * only.gaps.length);
      for (const glob of first) append(glob, only);
      return first;
    }
    const joined: Growing[] = [];
    for (const { parts, gaps } of first) {
      for (const other of others) {
        const glob = { parts: [...parts], gaps: [...gaps] };
        append(glob, other);
        const characters = glob.parts.reduce((sum, part) => sum + part.length, 0);
        this.#of.spend(0, 1, characters, glob.gaps.length);
        joined.push(glob);
      }
    }
    return joined;
  }
}

function append(glob: Growing, { parts, gaps }: Growing): void {
  glob.parts[glob.parts.length - 1] += parts[0]!;
  for (let i = 0; i < gaps.length; i++) {
    glob.gaps.push(gaps[i]!);
    glob.parts.push(parts[i + 1]!);
  }
}

function isPunctuation(character: string): boolean {
  return character !== '' && '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~'.includes(character);
}
