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

/** Longest pattern; more is refused. */
export const patternCharactersMax = 4096;

export interface Pattern {
  matches(value: string): boolean;
  /** All that it matches, where that can be listed; null where it cannot. */
  readonly values: readonly string[] | null;
  /** How all that it matches begins; '' when nothing is known of that. */
  readonly prefix: string;
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
  return { matches: (value) => !positive.matches(value), values: null, prefix: '' };
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
  return { matches: (value) => value.includes(inside), values: null, prefix: '' };
}

function wholePattern(atoms: readonly Atom[]): Pattern {
  const values = valuesOf(atoms);
  const prefix = prefixOf(atoms);
  const only = values?.length === 1 ? values[0]! : null;
  if (only !== null) return { matches: (value) => value === only, values, prefix };
  return {
    matches: (value) =>
      value.startsWith(prefix) && endsOf(atoms, value, [0]).includes(value.length),
    values,
    prefix,
  };
}

/** Begins and ends as these say, with anything between them. */
function splitPattern(first: readonly Atom[], last: readonly Atom[]): Pattern {
  const prefix = prefixOf(first);
  const endText = plainText(last);
  const beginText = plainText(first);
  if (beginText !== null && endText !== null) {
    const lengthMin = beginText.length + endText.length;
    return {
      matches: (value) =>
        value.length >= lengthMin && value.startsWith(beginText) && value.endsWith(endText),
      values: null,
      prefix,
    };
  }
  return {
    matches: (value) => {
      if (!value.startsWith(prefix)) return false;
      const from = Math.min(...endsOf(first, value, [0]));
      if (from > value.length) return false;
      if (last.length === 0) return true;
      const starts = Array.from({ length: value.length - from + 1 }, (_, i) => from + i);
      return endsOf(last, value, starts).includes(value.length);
    },
    values: null,
    prefix,
  };
}

/** Where the atoms may end when they begin at one of these, each once. */
function endsOf(atoms: readonly Atom[], value: string, starts: readonly number[]): number[] {
  let ends = [...starts];
  for (const atom of atoms) {
    const next = new Set<number>();
    for (const at of ends) {
      switch (atom.type) {
        case 'text':
          if (value.startsWith(atom.text, at)) next.add(at + atom.text.length);
          break;
        case 'oneOf':
          for (const text of atom.texts) if (value.startsWith(text, at)) next.add(at + text.length);
          break;
        default: {
          const code = value.codePointAt(at);
          if (code !== undefined && matchesCode(atom, code)) next.add(at + widthOf(code));
        }
      }
    }
    ends = [...next];
  }
  return ends;
}

function matchesCode(atom: Exclude<Atom, { type: 'text' | 'oneOf' }>, code: number): boolean {
  if (atom.type === 'any') return true;
  return atom.ranges.some(([from, to]) => code >= from && code <= to) !== atom.isNegated;
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
