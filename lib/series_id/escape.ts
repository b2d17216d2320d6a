/**
 * Texts in IDs of the quoted scheme, as M3 writes them: a backslash before `"` and `\`, `\a`, `\b`, `\t`, `\n`, `\v`, `\f` and `\r`,
 * other bytes below 0x20 as `\x` and two lower-case hexadecimal digits, other characters that are not printable, DEL among them, as `\u`
 * and four or `\U` and eight. M3 leaves a text alone when backslashes are all that there is to escape in it, so that a newline and the two
 * characters `\n` make one ID; here they are escaped, and no two series have one ID.
 */
import { isPrintable } from './printable.ts';

const mayEscape = /[^ !#-[\]-~]/;

const shortEscapes: readonly (readonly [character: string, letter: string])[] = [
  ['"', '"'],
  ['\\', '\\'],
  ['\u0007', 'a'],
  ['\b', 'b'],
  ['\t', 't'],
  ['\n', 'n'],
  ['\v', 'v'],
  ['\f', 'f'],
  ['\r', 'r'],
];
const letterOf: ReadonlyMap<string, string> = new Map(shortEscapes);
const characterOf: ReadonlyMap<string, string> = new Map(
  shortEscapes.map(([character, letter]) => [letter, character]),
);

/** An escaped text has at most so many bytes for one: DEL has six. */
export const escapedBytesMax = 6;

/** @param text of whole characters */
export function escaped(text: string): string {
  if (!mayEscape.test(text)) return text;
  let result = '';
  for (const character of text) {
    const letter = letterOf.get(character);
    if (letter !== undefined) {
      result += `\\${letter}`;
      continue;
    }
    const codePoint = character.codePointAt(0)!;
    if (codePoint < 0x20) result += `\\x${hex(codePoint, 2)}`;
    else if (codePoint < 0x7f || (codePoint > 0x7f && isPrintable(codePoint))) result += character;
    else result += codePoint < 0x10000 ? `\\u${hex(codePoint, 4)}` : `\\U${hex(codePoint, 8)}`;
  }
  return result;
}

const hex = (codePoint: number, digits: number): string =>
  codePoint.toString(16).padStart(digits, '0');

const escape = /\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00[01][0-9a-f]{5})|(.))/gsu;

/** The text that `escaped` made it of; any text for what it does not make. */
export function unescaped(text: string): string {
  return text.replace(escape, (all, x?: string, u?: string, U?: string, letter?: string) => {
    if (letter !== undefined) return characterOf.get(letter) ?? letter;
    const codePoint = Number.parseInt(x ?? u ?? U ?? '', 16);
    return codePoint > 0x10ffff ? all : String.fromCodePoint(codePoint);
  });
}
