/**
 * Names of metrics and labels for readers that know letters, digits and underscores alone: the four ways of Prometheus to
 * bring any UTF-8 text to such a name, of which "values" can be turned back.
 */

export const escapingSchemes = ['allow-utf-8', 'underscores', 'dots', 'values'] as const;
export type EscapingScheme = (typeof escapingSchemes)[number];

const legacyName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const legacyFirst = /[a-zA-Z_:]/;
const legacyRest = /[a-zA-Z0-9_:]/;

/** Whether a name needs neither quotes nor escaping. */
export function isLegacyName(name: string): boolean {
  return legacyName.test(name);
}

/** What stands for a name that is no legacy one; legacy names stay as they are. */
export function escapedName(name: string, scheme: EscapingScheme): string {
  if (scheme === 'allow-utf-8' || isLegacyName(name) || name === '') return name;
  let escaped = scheme === 'values' ? 'U__' : '';
  let isFirst = true;
  for (const character of name) {
    escaped += escapedCharacter(character, isFirst, scheme);
    isFirst = false;
  }
  return escaped;
}

function escapedCharacter(character: string, isFirst: boolean, scheme: EscapingScheme): string {
  if (character === '_' && scheme !== 'underscores') return '__';
  if (character === '.' && scheme === 'dots') return '_dot_';
  if ((isFirst ? legacyFirst : legacyRest).test(character)) return character;
  if (scheme === 'underscores') return '_';
  return scheme === 'dots' ? '__' : `_${character.codePointAt(0)!.toString(16)}_`;
}

/** The name that "values" has escaped; any other text as it is. */
export function unescapedName(text: string): string {
  if (!text.startsWith('U__')) return text;
  let isWhole = true;
  // Each underscore begins a pair of them, or the code of a character between two: of five digits at most, as Prometheus reads it.
  const name = text.slice(3).replace(/_(?:(_)|([0-9a-fA-F]{1,5})_|)/g, (_, pair, code) => {
    if (pair !== undefined) return '_';
    const point = code === undefined ? firstSurrogate : Number.parseInt(code, 16);
    if (point < firstSurrogate || point > lastSurrogate) return String.fromCodePoint(point);
    isWhole = false;
    return '';
  });
  return isWhole ? name : text;
}

const firstSurrogate = 0xd800;
const lastSurrogate = 0xdfff;
