/**
 * From IDs back to tags. IDs of the schemes 'quoted' and 'prepend_meta' tell their tags, so the
 * index finds such a series by its tags and keeps no table of their IDs. Others ('legacy',
 * explicit) need one.
 */
import { encodeTags, pairEnd, type Tag, tagBytesMax, tagsBytesMax } from '../tags.ts';
import { escapedBytesMax, unescaped } from './escape.ts';
import { idSchemeCode } from './scheme.ts';
import type { SeriesName } from './series_name.ts';

/** No derived ID is longer. */
const derivedIdBytesMax = escapedBytesMax * tagsBytesMax;

/**
 * True when `tagsOfId` gives the tags of this series back from its ID: of such series no two have
 * one ID.
 */
export function tellsItsTags({ tags, idScheme, explicitId }: SeriesName): boolean {
  if (explicitId.length > 0) return false;
  if (idScheme === idSchemeCode.prepend_meta) return true;
  return idScheme === idSchemeCode.quoted && !hasOddName(tags);
}

/**
 * True when a name holds '=' or is empty: then the quoted form may not be read back. Ends with any
 * bytes, and is right of a layout.
 */
export function hasOddName(tags: Uint8Array): boolean {
  for (let at = 0; at < tags.length; at = pairEnd(tags, at)) if (isOddName(tags, at)) return true;
  return false;
}

/** True when the name of the pair that begins at `at` is odd. */
export function isOddName(tags: Uint8Array, at: number): boolean {
  const end = at + 2 + (tags[at]! | (tags[at + 1]! << 8));
  if (end === at + 2) return true;
  for (let i = at + 2; i < end; i++) if (tags[i] === 0x3d) return true;
  return false;
}

/**
 * Tags (canonical layout) and scheme of which this may be the ID; the caller compares the derived
 * ID.
 */
export function tagsOfId(id: Uint8Array): { tags: Uint8Array; idScheme: number }[] {
  if (id.length > derivedIdBytesMax) return [];
  const text = Buffer.from(id.buffer, id.byteOffset, id.byteLength);
  if (text[0] === 0x7b) {
    const tags = readQuoted(text.toString());
    return tags === null ? [] : [{ tags, idScheme: idSchemeCode.quoted }];
  }
  const tags = readPrependMeta(text);
  return tags === null ? [] : [{ tags, idScheme: idSchemeCode.prepend_meta }];
}

/** One `name="value"` of the quoted scheme with what follows it. */
const quotedPair = /([^=]+)="((?:[^"\\]|\\.)*)"([,}])/suy;

function readQuoted(text: string): Uint8Array | null {
  if (text === '{}') return new Uint8Array(0);
  const tags: Tag[] = [];
  quotedPair.lastIndex = 1;
  for (;;) {
    const match = quotedPair.exec(text);
    if (match === null) return null;
    tags.push({ name: unescaped(match[1]!), value: unescaped(match[2]!) });
    if (match[3] === '}') break;
  }
  return encodeOrNull(tags);
}

function readPrependMeta(id: Buffer): Uint8Array | null {
  const mark = id.indexOf(0x21);
  if (mark < 0) return null;
  const meta = id.toString('latin1', 0, mark);
  if (!/^(\d{1,5}(,\d{1,5})*)?$/.test(meta)) return null;
  const lengths = meta === '' ? [] : meta.split(',').map(Number);
  if (lengths.length % 2 !== 0) return null;
  const texts: string[] = [];
  let at = mark + 1;
  for (const length of lengths) {
    if (length > id.length - at) return null;
    texts.push(id.toString('utf8', at, at + length));
    at += length;
  }
  if (at !== id.length) return null;
  const tags: Tag[] = [];
  for (let i = 0; i < texts.length; i += 2) tags.push({ name: texts[i]!, value: texts[i + 1]! });
  return encodeOrNull(tags);
}

function encodeOrNull(tags: readonly Tag[]): Uint8Array | null {
  const isLong = tags.some(
    ({ name, value }) =>
      Buffer.byteLength(name) > tagBytesMax || Buffer.byteLength(value) > tagBytesMax,
  );
  return isLong ? null : encodeTags(tags);
}
