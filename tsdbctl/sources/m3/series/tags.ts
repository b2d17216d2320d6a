/**
 * Tags of a series of M3. They are written beside its ID: 10101 and how many there are, and the length
 * and the bytes of each name and value, all numbers of 16 bits, little endian. Series that were written
 * without tags may have them in the ID.
 */
import type { Tag } from '#lib/tags.ts';

const magic = 10_101;

const textDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Tags, those of the ID where there are none: of `{a="b",c="d"}`, or the parts of a path of Graphite
 * as `__g0__`, `__g1__`, ….
 * @returns null when there are none to be had, or they are no UTF-8 or twice of a name
 */
export function tagsOfSeries(id: Uint8Array, encodedTags: Uint8Array): readonly Tag[] | null {
  const tags = encodedTags.length > 0 ? decodeTags(encodedTags) : tagsOfId(id);
  if (tags === null || tags.length === 0) return null;
  return new Set(tags.map(({ name }) => name)).size === tags.length ? tags : null;
}

function textOf(bytes: Uint8Array): string | null {
  try {
    return textDecoder.decode(bytes);
  } catch {
    return null;
  }
}

function decodeTags(bytes: Uint8Array): readonly Tag[] | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (bytes.length < 4 || view.getUint16(0, true) !== magic) return null;
  const count = view.getUint16(2, true);
  const tags: Tag[] = [];
  let at = 4;
  const text = (): string | null => {
    if (bytes.length - at < 2) return null;
    const length = view.getUint16(at, true);
    at += 2;
    if (length > bytes.length - at) return null;
    at += length;
    return textOf(bytes.subarray(at - length, at));
  };
  while (tags.length < count) {
    const name = text();
    const value = text();
    if (name === null || name === '' || value === null) return null;
    tags.push({ name, value });
  }
  return at === bytes.length ? tags : null;
}

/** Parts of which a path of Graphite is made, two at least. */
const graphitePath = /^[^\s.{}="',;]+(?:\.[^\s.{}="',;]+)+$/u;

function tagsOfId(bytes: Uint8Array): readonly Tag[] | null {
  const id = textOf(bytes);
  if (id === null) return null;
  if (id.startsWith('{')) return tagsOfQuoted(id);
  if (!graphitePath.test(id)) return null;
  return id.split('.').map((value, part) => ({ name: `__g${part}__`, value }));
}

/** Text in which what begins with a backslash stands for something else. */
const escaped = /\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)/gsu;
const quotedTag = /((?:[^="\\,{}]|\\.)+)="((?:[^"\\]|\\.)*)"([,}])/suy;

const escapedCharacters: ReadonlyMap<string, string> = new Map([
  ['a', '\x07'],
  ['b', '\b'],
  ['f', '\f'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
  ['v', '\v'],
  ['"', '"'],
  ['\\', '\\'],
]);

function tagsOfQuoted(id: string): readonly Tag[] | null {
  const tags: Tag[] = [];
  quotedTag.lastIndex = 1;
  for (;;) {
    const match = quotedTag.exec(id);
    if (match === null) return null;
    const name = unescapedText(match[1]!);
    const value = unescapedText(match[2]!);
    if (name === null || value === null) return null;
    tags.push({ name, value });
    if (match[3] === '}') return quotedTag.lastIndex === id.length ? tags : null;
  }
}

/** @returns null when it stands for what is no text */
function unescapedText(text: string): string | null {
  if (!text.includes('\\')) return text;
  let isText = true;
  const plain = text.replace(escaped, (sequence) => {
    const character =
      sequence.length === 2 ? escapedCharacters.get(sequence[1]!) : characterOf(sequence);
    if (character === undefined) isText = false;
    return character ?? '';
  });
  return isText ? plain : null;
}

/** Undefined for a byte that is no text of its own, and for a code that is no character. */
function characterOf(sequence: string): string | undefined {
  const code = Number.parseInt(sequence.slice(2), 16);
  if (code > (sequence[1] === 'x' ? 0x7f : 0x10ffff)) return undefined;
  const character = String.fromCodePoint(code);
  return character.isWellFormed() ? character : undefined;
}
