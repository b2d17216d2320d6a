/**
 * Patterns of tag values in the filters of aggregation rules, as M3 has them
 * (docs/AGGREGATION.md, Filters):
 *
 *     !pattern     what the pattern does not match
 *     *            any text, once inside, at one end, or at both ends of plain text
 *     ?            one character
 *     [abc] [a-z]  one of these; [!…] one of all others
 *     {ab,cde}     one of these texts
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { literalRegexp } from '#lib/regexp/literal.ts';

/** Longest pattern; more is refused. */
export const patternCharactersMax = 4096;

/**
 * Steps that a match may take: some have a choice of texts at each of many places. More are refused when a rule is made; those of
 * rules that stand from before are matched all the same.
 */
export const patternStepsMax = 16_384;

export interface Pattern {
  matches(value: string): boolean;
  /** That a match takes at most, of some nanoseconds each, whatever the value is, and besides a comparison with plain text. */
  readonly steps: number;
  /** All that it matches, where that can be listed; null where it cannot. */
  readonly values: readonly string[] | null;
  /** How all that it matches begins; '' when nothing is known of that. */
  readonly prefix: string;
  /** A regular expression that takes all that it matches, and more, and is light; null when nothing is known of that. */
  readonly widerRegexp: string | null;
}

type Atom =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'any' }
  | { readonly type: 'class'; readonly isNegated: boolean; readonly ranges: readonly CodeRange[] }
  | { readonly type: 'oneOf'; readonly texts: readonly string[] };

/** First and last code point. */
type CodeRange = readonly [number, number];

/** So many values of a pattern are listed at most. */
const valuesMax = 64;

/**
 * @param path of the field, for the error
 * @throws {TsdbError} BAD_REQUEST naming field, reason and pattern
 */
export function parsePattern(text: string, path: string): Pattern {
  const bad = (reason: string): Error => badRequest(`${path}: ${reason}: ${shownText(text)}`);
  if (text.length > patternCharactersMax) {
    throw bad(`pattern is longer than ${patternCharactersMax} characters`);
  }
  if (!text.startsWith('!')) return positivePattern(text, bad);
  if (text === '!') throw bad('"!" without a pattern: "*" matches everything');
  const positive = positivePattern(text.slice(1), bad);
  return {
    matches: (value) => !positive.matches(value),
    steps: positive.steps,
    values: null,
    prefix: '',
    widerRegexp: null,
  };
}

function positivePattern(text: string, bad: (reason: string) => Error): Pattern {
  const parts = text.split('*');
  if (parts.length === 1) return wholePattern(atomsOf(text, bad));
  if (parts.length === 2) {
    return splitPattern(atomsOf(parts[0]!, bad), atomsOf(parts[1]!, bad));
  }
  const inside = parts[1]!;
  if (parts.length > 3 || parts[0] !== '' || parts[2] !== '' || inside === '') {
    throw bad('pattern has more than one "*", not one at each end of a text');
  }
  if (/[?[{]/.test(inside)) throw bad('pattern has "?", "[" or "{" between two "*"');
  return {
    matches: (value) => includesText(value, inside),
    steps: 1,
    values: null,
    prefix: '',
    widerRegexp: `.*${literalRegexp(Array.from(inside).slice(0, insideCharactersMax).join(''))}.*`,
  };
}

/** Longer texts between two gaps need an engine (lib/regexp/glob_parser.ts). */
const insideCharactersMax = 32;

/** What begins and ends with these. */
function widerRegexpOf(prefix: string, suffix: string): string | null {
  if (prefix === '' && suffix === '') return null;
  return `${literalRegexp(prefix)}.*${literalRegexp(suffix)}`;
}

function wholePattern(atoms: readonly Atom[]): Pattern {
  const values = valuesOf(atoms);
  const prefix = prefixOf(atoms);
  const only = values?.length === 1 ? values[0]! : null;
  if (only !== null) {
    const widerRegexp = literalRegexp(only);
    return { matches: (value) => value === only, steps: 1, values, prefix, widerRegexp };
  }
  return {
    matches: (value) => value.startsWith(prefix) && endsOf(atoms, value).has(value.length),
    steps: stepsOf(atoms),
    values,
    prefix,
    widerRegexp: widerRegexpOf(prefix, suffixOf(atoms)),
  };
}

/** Begins and ends as these say, with anything between them. */
function splitPattern(first: readonly Atom[], last: readonly Atom[]): Pattern {
  const prefix = prefixOf(first);
  const widerRegexp = widerRegexpOf(prefix, suffixOf(last));
  const endText = plainText(last);
  const beginText = plainText(first);
  if (beginText !== null && endText !== null) {
    const lengthMin = beginText.length + endText.length;
    return {
      matches: (value) =>
        value.length >= lengthMin && value.startsWith(beginText) && value.endsWith(endText),
      steps: 1,
      values: null,
      prefix,
      widerRegexp,
    };
  }
  const fromEnd = last.toReversed();
  return {
    matches: (value) => {
      if (!value.startsWith(prefix)) return false;
      const from = endsOf(first, value).least;
      return from !== null && canEnd(fromEnd, value, from);
    },
    steps: stepsOf(first) + stepsOf(last),
    values: null,
    prefix,
    widerRegexp,
  };
}

/** Compared characters up to which the engine's search may do what it likes: half a millisecond. */
const engineComparesMax = 1 << 20;
/** For each place of a text the length of the longest beginning of it that ends there, but is not all of it so far. */
const borders = new Uint16Array(patternCharactersMax);

/** The engine may compare all of a long text at each place of the value: then it is looked for with one look at each character. */
function includesText(value: string, text: string): boolean {
  if (text.length * (value.length - text.length) <= engineComparesMax) return value.includes(text);
  for (let at = 1; at < text.length; at += 1) {
    borders[at] = grown(text, borders[at - 1]!, text.charCodeAt(at));
  }
  let length = 0;
  for (let at = 0; at < value.length; at += 1) {
    length = grown(text, length, value.charCodeAt(at));
    if (length === text.length) return true;
  }
  return false;
}

/** How much of the beginning of the text ends with a character, when so much of it ended before. */
function grown(text: string, before: number, unit: number): number {
  let length = before;
  while (length > 0 && text.charCodeAt(length) !== unit) length = borders[length - 1]!;
  return text.charCodeAt(length) === unit ? length + 1 : 0;
}

/** Places of a value, each once. */
class Places {
  readonly #all: number[] = [];
  /** By place: whether it is among them. */
  #marks = new Uint8Array(1024);

  /** Forgets all. @param length of the value that the next ones are of */
  begin(length: number): void {
    for (const at of this.#all) this.#marks[at] = 0;
    this.#all.length = 0;
    if (this.#marks.length <= length) this.#marks = new Uint8Array(2 * length);
  }

  add(at: number): void {
    if (this.#marks[at] === 1) return;
    this.#marks[at] = 1;
    this.#all.push(at);
  }

  get all(): readonly number[] {
    return this.#all;
  }

  has(at: number): boolean {
    return this.#marks[at] === 1;
  }

  /** Null of none. */
  get least(): number | null {
    let least: number | null = null;
    for (const at of this.#all) if (least === null || at < least) least = at;
    return least;
  }
}

/** Of all matches, each of which is done in one go: new ones for each atom were most of what it took. */
let places = new Places();
let nextPlaces = new Places();

/** Where the atoms may end that begin with the value. Stand until the next match. */
function endsOf(atoms: readonly Atom[], value: string): Places {
  places.begin(value.length);
  places.add(0);
  for (const atom of atoms) {
    nextPlaces.begin(value.length);
    for (const at of places.all) addEnds(atom, value, at, nextPlaces);
    [places, nextPlaces] = [nextPlaces, places];
    if (places.all.length === 0) break;
  }
  return places;
}

/**
 * Whether atoms can end with the value when they begin at a place or behind it. Looked at from the end: there are as many places
 * to begin as the value has characters, and one to end.
 * @param atoms the last one first
 */
function canEnd(atoms: readonly Atom[], value: string, from: number): boolean {
  places.begin(value.length);
  places.add(value.length);
  for (const atom of atoms) {
    nextPlaces.begin(value.length);
    for (const at of places.all) addStarts(atom, value, at, from, nextPlaces);
    [places, nextPlaces] = [nextPlaces, places];
    if (places.all.length === 0) return false;
  }
  return true;
}

/** Where an atom may end that begins at a place. */
function addEnds(atom: Atom, value: string, at: number, ends: Places): void {
  switch (atom.type) {
    case 'text':
      if (value.startsWith(atom.text, at)) ends.add(at + atom.text.length);
      break;
    case 'oneOf':
      for (const text of atom.texts) if (value.startsWith(text, at)) ends.add(at + text.length);
      break;
    default: {
      const code = value.codePointAt(at);
      if (code !== undefined && matchesCode(atom, code)) ends.add(at + widthOf(code));
    }
  }
}

/** Where an atom may begin that ends at a place: at `from` or behind it. */
function addStarts(atom: Atom, value: string, end: number, from: number, starts: Places): void {
  switch (atom.type) {
    case 'text':
      addStartOfText(atom.text, value, end, from, starts);
      break;
    case 'oneOf':
      for (const text of atom.texts) addStartOfText(text, value, end, from, starts);
      break;
    default:
      for (let at = end - 1; at >= from && at >= end - 2; at -= 1) {
        const code = value.codePointAt(at)!;
        if (at + widthOf(code) === end && matchesCode(atom, code)) starts.add(at);
      }
  }
}

function addStartOfText(
  text: string,
  value: string,
  end: number,
  from: number,
  starts: Places,
): void {
  const at = end - text.length;
  if (at >= from && value.startsWith(text, at)) starts.add(at);
}

/** Characters of a text that are compared in a step. */
const charactersOfStep = 16;

/** As `Pattern.steps`: each atom is tried at all places where those before it may end. */
function stepsOf(atoms: readonly Atom[]): number {
  let steps = 0;
  let placesMax = 1;
  /** Between the first of them and the last one. */
  let reach = 0;
  for (const atom of atoms) {
    steps += placesMax * stepsAtPlace(atom);
    if (atom.type !== 'oneOf') continue;
    const lengths = new Set(atom.texts.map((text) => text.length));
    let [least, most] = [patternCharactersMax, 0];
    for (const length of lengths) {
      least = Math.min(least, length);
      most = Math.max(most, length);
    }
    reach += most - least;
    placesMax = Math.min(placesMax * lengths.size, reach + 1);
  }
  return steps;
}

function stepsAtPlace(atom: Atom): number {
  const ofText = ({ length }: string): number => 1 + Math.floor(length / charactersOfStep);
  switch (atom.type) {
    case 'any':
      return 1;
    case 'class':
      return atom.ranges.length;
    case 'text':
      return ofText(atom.text);
    case 'oneOf':
      return atom.texts.reduce((sum, text) => sum + ofText(text), 0);
    default:
      return atom satisfies never;
  }
}

function matchesCode(atom: Exclude<Atom, { type: 'text' | 'oneOf' }>, code: number): boolean {
  if (atom.type === 'any') return true;
  for (const [from, to] of atom.ranges) {
    if (code >= from && code <= to) return !atom.isNegated;
  }
  return atom.isNegated;
}

/** UTF-16 code units of a code point. */
function widthOf(code: number): number {
  return code > 0xffff ? 2 : 1;
}

function atomsOf(text: string, bad: (reason: string) => Error): Atom[] {
  const atoms: Atom[] = [];
  let plainFrom = 0;
  const endPlain = (at: number): void => {
    if (at > plainFrom) atoms.push({ type: 'text', text: text.slice(plainFrom, at) });
  };
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at]!;
    if (character !== '?' && character !== '[' && character !== '{') continue;
    endPlain(at);
    if (character === '?') {
      atoms.push({ type: 'any' });
    } else {
      const close = character === '[' ? ']' : '}';
      const end = text.indexOf(close, at + 1);
      if (end < 0) throw bad(`pattern has "${character}" without "${close}"`);
      const inside = text.slice(at + 1, end);
      if (inside === '') throw bad(`pattern has an empty "${character}${close}"`);
      atoms.push(
        character === '['
          ? classOf(inside, bad)
          : { type: 'oneOf', texts: [...new Set(inside.split(','))] },
      );
      at = end;
    }
    plainFrom = at + 1;
  }
  endPlain(text.length);
  return atoms;
}

/** Ranges when the second character is "-", else the characters themselves. */
function classOf(inside: string, bad: (reason: string) => Error): Atom {
  const isNegated = inside.startsWith('!');
  const codes = Array.from(isNegated ? inside.slice(1) : inside);
  const code = (character: string): number => character.codePointAt(0)!;
  if (codes[1] !== '-') {
    const ranges = codes.map((each): CodeRange => [code(each), code(each)]);
    return { type: 'class', isNegated, ranges };
  }
  const ranges: CodeRange[] = [];
  for (let at = 0; at < codes.length; at += 3) {
    const [from, dash, to] = codes.slice(at, at + 3);
    if (from === undefined || dash !== '-' || to === undefined || code(from) > code(to)) {
      throw bad(`pattern has a bad range in "[${inside}]"`);
    }
    ranges.push([code(from), code(to)]);
  }
  return { type: 'class', isNegated, ranges };
}

/** The text that these atoms are, or null when they are more than that. */
function plainText(atoms: readonly Atom[]): string | null {
  if (atoms.length === 0) return '';
  const [only] = atoms;
  return atoms.length === 1 && only!.type === 'text' ? only!.text : null;
}

function valuesOf(atoms: readonly Atom[]): readonly string[] | null {
  let values = [''];
  for (const atom of atoms) {
    if (atom.type !== 'text' && atom.type !== 'oneOf') return null;
    const texts = atom.type === 'text' ? [atom.text] : atom.texts;
    if (values.length * texts.length > valuesMax) return null;
    values = values.flatMap((begun) => texts.map((text) => begun + text));
  }
  return [...new Set(values)];
}

function prefixOf(atoms: readonly Atom[]): string {
  const [first] = atoms;
  return first?.type === 'text' ? first.text : '';
}

function suffixOf(atoms: readonly Atom[]): string {
  const last = atoms.at(-1);
  return last?.type === 'text' ? last.text : '';
}
