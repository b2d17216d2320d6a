/**
 * Patterns of paths: `*` stands for any characters of a node, `?` for one, `[a-c]` and `[!a]` for one of a set, `{a,b}` for
 * alternatives, and `**`, as at M3, for any characters with dots among them.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { compileAnchored } from '#lib/regexp/regexp.ts';
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
   * Where `**` is in the pattern: the begin of the node in which it stands, and whole paths, both as RE2; else null. Then paths
   * have exactly these nodes.
   */
  readonly across: { readonly node: string; readonly path: string } | null;
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
      const path = regexpOf(text, text, true);
      return { text, nodes, across: { node: `${regexpOf(before, text, false)}.*`, path } };
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

/** Which of these paths the pattern takes; null for all. */
export function pathTest({ across }: PathPattern): ((path: string) => boolean) | null {
  if (across === null) return null;
  const regexp = compileAnchored(across.path);
  return (path) => regexp.test(path);
}
