/**
 * Patterns of paths: `*` stands for any characters of a node, `?` for one, `[a-c]` and `[!a]` for one of a set, `{a,b}` for
 * alternatives, and `**`, as at M3, for any characters with dots among them.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { LightRegexp } from '#lib/regexp/light_regexp.ts';
import { nodeTag } from '#lib/series_id/from_tags.ts';
import type { Matcher } from '../../select/storage.ts';

/** What a node may be. */
export type NodePattern =
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'any' }
  /** RE2 syntax, of the whole node. */
  | { readonly kind: 'regexp'; readonly regexp: string };

export interface PathPattern {
  readonly text: string;
  /** Those before the first one with `**`. */
  readonly nodes: readonly NodePattern[];
  /**
   * Where `**` is in the pattern: the begin of the node in which it stands, and what is left of paths from that node on, both as
   * RE2; else null. Then paths have exactly these nodes.
   */
  readonly across: { readonly node: string; readonly rest: string } | null;
}

/** Longest pattern. */
const patternLengthMax = 8192;

/** @throws {TsdbError} BAD_REQUEST when brackets are not closed, or a comma stands outside of them */
export function parsePathPattern(text: string): PathPattern {
  if (text.length > patternLengthMax) {
    throw badRequest(`cannot read path: longer than ${patternLengthMax} characters`);
  }
  const nodes: NodePattern[] = [];
  let first = 0;
  for (const end of nodeEnds(text)) {
    const node = text.slice(first, end);
    if (node.includes('**')) {
      const before = node.slice(0, node.indexOf('**'));
      const rest = regexpOf(text.slice(first), text, true);
      return { text, nodes, across: { node: `${regexpOf(before, text, false)}.*`, rest } };
    }
    nodes.push(nodeOf(node, text));
    first = end + 1;
  }
  return { text, nodes, across: null };
}

/** Where nodes end: a dot in braces divides none. */
function nodeEnds(text: string): number[] {
  const ends: number[] = [];
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '{') depth += 1;
    else if (text[at] === '}') depth -= 1;
    else if (text[at] === '.' && depth === 0) ends.push(at);
  }
  return [...ends, text.length];
}

function nodeOf(node: string, whole: string): NodePattern {
  if (node === '*') return { kind: 'any' };
  if (!/[*?[\]{},]/.test(node)) return { kind: 'literal', text: node };
  return { kind: 'regexp', regexp: regexpOf(node, whole, false) };
}

/** @param crossesDots `**` is any characters; else there is none */
function regexpOf(pattern: string, whole: string, crossesDots: boolean): string {
  let regexp = '';
  let depth = 0;
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern[at]!;
    switch (character) {
      case '*':
        if (pattern[at + 1] === '*' && crossesDots) {
          regexp += '.*';
          at += 1;
        } else regexp += '[^.]*';
        break;
      case '?':
        regexp += '[^.]';
        break;
      case '[': {
        const end = pattern.indexOf(']', at + 2);
        if (end < 0) throw unbalanced('[', whole);
        const set = pattern.slice(at + 1, end);
        const inside = set.replace(/^[!^]/, '').replace(/[\\[\]^]/g, '\\$&');
        regexp += /^[!^]/.test(set) ? `[^.${inside}]` : `[${inside}]`;
        at = end;
        break;
      }
      case '{':
        depth += 1;
        regexp += '(?:';
        break;
      case '}':
        if (depth === 0) throw unbalanced('}', whole);
        depth -= 1;
        regexp += ')';
        break;
      case ',':
        if (depth === 0) {
          throw badRequest(`cannot read path: "," outside of braces: ${shownText(whole)}`);
        }
        regexp += '|';
        break;
      default:
        regexp += character.replace(/[\\^$+().|]/, '\\$&');
    }
  }
  if (depth > 0) throw unbalanced('{', whole);
  return regexp;
}

function unbalanced(bracket: string, whole: string): Error {
  return badRequest(`cannot read path: unbalanced "${bracket}": ${shownText(whole)}`);
}

/** Of a node of series: that it is as the pattern says. */
export function nodeMatchers(nodes: readonly NodePattern[]): Matcher[] {
  return nodes.flatMap((node, place) => matchersOf(nodeTag(place), node));
}

function matchersOf(name: string, node: NodePattern): Matcher[] {
  if (node.kind === 'literal') return [{ name, kind: '=', value: node.text }];
  const isThere: Matcher = { name, kind: '!=', value: '' };
  if (node.kind === 'any') return [isThere];
  // `{a,}` would take a path that ends before the node, too.
  return [{ name, kind: '=~', value: node.regexp }, isThere];
}

/** Of series whose paths the pattern may take: all of them, without `**`. */
export function pathMatchers({ nodes, across }: PathPattern): Matcher[] {
  const matchers = nodeMatchers(nodes);
  const next = nodeTag(nodes.length);
  if (across === null) return [...matchers, { name: next, kind: '=', value: '' }];
  return [
    ...matchers,
    { name: next, kind: '=~', value: across.node },
    { name: next, kind: '!=', value: '' },
  ];
}

export interface PathTest {
  /**
   * About what a test of a path of so many characters takes, in units of work (lib/turns/turns.ts).
   * @throws {TsdbError} BAD_REQUEST when it may hold up others
   */
  units(length: number): number;
  /** Of a path whose first nodes are as those of the pattern. */
  takes(path: string): boolean;
}

/**
 * Which of the paths that `pathMatchers` finds the pattern takes; null for all.
 * @throws {TsdbError} BAD_REQUEST when it takes too long to compile
 */
export function pathTest({ nodes, across }: PathPattern): PathTest | null {
  if (across === null) return null;
  const regexp = new LightRegexp(across.rest);
  return {
    units: (length) => regexp.units(length),
    takes(path) {
      const begin = nodeBegin(path, nodes.length);
      return begin >= 0 && regexp.test(path.slice(begin));
    },
  };
}

/** Where a node of a path begins; -1 when there is none. */
function nodeBegin(path: string, node: number): number {
  let begin = 0;
  for (let k = 0; k < node; k++) {
    const dot = path.indexOf('.', begin);
    if (dot < 0) return -1;
    begin = dot + 1;
  }
  return begin;
}
