/** IDs of series from their canonical tags, as bytes: the usual ones without a text in between. */
import { type IdScheme, idOfTags, idSchemeCode } from '#lib/series_id.ts';
import { decodeTags, tagsBytesMax } from '#lib/tags.ts';

const schemeOfCode = new Map<number, IdScheme>(
  (Object.entries(idSchemeCode) as [IdScheme | 'explicit', number][]).flatMap(([name, code]) =>
    name === 'explicit' ? [] : [[code, name] as const],
  ),
);

/**
 * ID of a series.
 * @param tags canonical
 * @param explicitId for scheme 0
 * @returns null when the scheme is unknown
 * @throws {TsdbError} BAD_REQUEST when the tags are not canonical
 */
export function seriesIdOf(
  idScheme: number,
  tags: Uint8Array,
  explicitId: Uint8Array,
): Uint8Array | null {
  if (idScheme === idSchemeCode.explicit) return explicitId;
  if (idScheme === idSchemeCode.quoted) {
    const plain = plainQuotedId(tags);
    if (plain !== null) return plain;
  }
  const scheme = schemeOfCode.get(idScheme);
  if (scheme === undefined) return null;
  return new TextEncoder().encode(idOfTags(decodeTags(tags), scheme));
}

/** Reused: an ID is at most this long before it is copied out. */
const scratch = new Uint8Array(2 * tagsBytesMax + 16);

const quote = 0x22;
const backslash = 0x5c;

/**
 * The quoted ID of tags that need no escapes, by far the usual ones: bytes to bytes. Null for all
 * others and for what is not canonical.
 */
export function plainQuotedId(tags: Uint8Array): Uint8Array | null {
  if (tags.length > tagsBytesMax) return null;
  let at = 0;
  let out = 0;
  let nameBefore = -1;
  scratch[out++] = 0x7b;
  while (at < tags.length) {
    const name = at;
    const nameEnd = textEnd(tags, at);
    if (nameEnd < 0 || nameEnd === at + 2) return null;
    if (nameBefore >= 0 && !isBefore(tags, nameBefore, name)) return null;
    if (nameBefore >= 0) scratch[out++] = 0x2c;
    for (let i = at + 2; i < nameEnd; i += 1) {
      const byte = tags[i]!;
      if (byte >= 0x80) return null;
      scratch[out++] = byte;
    }
    const valueEnd = textEnd(tags, nameEnd);
    if (valueEnd < 0) return null;
    scratch[out++] = 0x3d;
    scratch[out++] = quote;
    for (let i = nameEnd + 2; i < valueEnd; i += 1) {
      const byte = tags[i]!;
      if (byte < 0x20 || byte >= 0x7f || byte === quote || byte === backslash) return null;
      scratch[out++] = byte;
    }
    scratch[out++] = quote;
    nameBefore = name;
    at = valueEnd;
  }
  scratch[out++] = 0x7d;
  return scratch.slice(0, out);
}

/** End of the text whose length stands at `at`, or -1 when it is cut off. */
function textEnd(tags: Uint8Array, at: number): number {
  if (tags.length - at < 2) return -1;
  const length = tags[at]! | (tags[at + 1]! << 8);
  return length > tags.length - at - 2 ? -1 : at + 2 + length;
}

/** Whether the text at `a` is less than the one at `b`, by bytes. */
function isBefore(tags: Uint8Array, a: number, b: number): boolean {
  const aLength = tags[a]! | (tags[a + 1]! << 8);
  const bLength = tags[b]! | (tags[b + 1]! << 8);
  const both = Math.min(aLength, bLength);
  for (let i = 2; i < both + 2; i += 1) {
    const difference = tags[a + i]! - tags[b + i]!;
    if (difference !== 0) return difference < 0;
  }
  return aLength < bLength;
}
