/**
 * Globs of whole values: `*` is any characters, `?` one, `[a-c]` one of a set, `[^a]` and `[!a]` one that is not in it,
 * `{a,b}` one of several globs. A backslash before one of these makes it an ordinary character.
 */
import { literalRegexp } from '#lib/regexp/literal.ts';

/** Braces inside of each other, at most. */
const braceDepthMax = 20;
/** Longest glob. */
const globLengthMax = 8_192;

export type Glob =
  /** No more than a text. */
  | { readonly kind: 'text'; readonly text: string }
  /** Any value that is there. */
  | { readonly kind: 'any' }
  /** RE2 syntax, of the whole value. */
  | { readonly kind: 'regexp'; readonly regexp: string }
  | { readonly kind: 'wrong'; readonly reason: string };

export function parseGlob(text: string): Glob {
  if (/^\*+$/.test(text)) return { kind: 'any' };
  if (text.length > globLengthMax) return wrong(`is longer than ${globLengthMax} characters`);
  if (!/[*?[{},\\]/.test(text)) return { kind: 'text', text };
  let regexp = '';
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!;
    switch (character) {
      case '\\': {
        const next = text[at + 1] ?? '';
        const isEscape = next !== '' && '*?[]{},\\'.includes(next);
        regexp += literalRegexp(isEscape ? next : character);
        if (isEscape) at += 1;
        break;
      }
      case '*':
        regexp += '.*';
        break;
      case '?':
        regexp += '.';
        break;
      case '[': {
        // A bracket that comes first stands for itself.
        const isNot = /[!^]/.test(text[at + 1] ?? '');
        const first = at + (isNot ? 2 : 1);
        const end = text.indexOf(']', first + 1);
        if (end < 0) return wrong('has a "[" without a "]"');
        const set = text.slice(first, end);
        for (const [range] of set.matchAll(/[^]-[^]/g)) {
          if (range[0]! > range[2]!) return wrong(`has a range that goes backwards, "${range}"`);
        }
        const inside = set.replace(/[\\[\]^]/g, '\\$&');
        regexp += `[${isNot ? '^' : ''}${inside}]`;
        at = end;
        break;
      }
      case '{':
        depth += 1;
        if (depth > braceDepthMax)
          return wrong(`has more than ${braceDepthMax} "{" inside of each other`);
        regexp += '(?:';
        break;
      case '}':
        if (depth === 0) return wrong('has a "}" without a "{"');
        depth -= 1;
        regexp += ')';
        break;
      case ',':
        if (depth === 0) return wrong('has a "," outside of braces');
        regexp += '|';
        break;
      default:
        regexp += literalRegexp(character);
    }
  }
  return depth > 0 ? wrong('has a "{" without a "}"') : { kind: 'regexp', regexp };
}

function wrong(reason: string): Glob {
  return { kind: 'wrong', reason };
}
