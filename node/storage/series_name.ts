/** Names of series as they come from dictionaries, filesets and peers: checked once, and turned into IDs. */
import { idSchemeCode } from '#lib/id_scheme.ts';
import { TsdbError } from '#lib/errors.ts';
import { decodeTags, type Tags, tagsBytesMax } from '#lib/tags.ts';
import { seriesIdBytesMax } from '../limits.ts';
import { seriesIdOf } from '../persist/fileset_format.ts';

export interface SeriesName {
  readonly idScheme: number;
  /** Canonical tags. */
  readonly tags: Uint8Array;
  /** For ID scheme 0, else empty. */
  readonly explicitId: Uint8Array;
}

/** Reused: an ID is at most this long before it is copied out. */
const scratch = new Uint8Array(2 * tagsBytesMax + 16);

/**
 * ID of a series of any origin, or null when it is none: tags must be canonical and the ID not empty.
 */
export function checkedId(series: SeriesName): Uint8Array | null {
  if (series.tags.length > tagsBytesMax) return null;
  if (series.idScheme !== idSchemeCode.explicit && series.explicitId.length > 0) return null;
  const id =
    series.idScheme === idSchemeCode.quoted
      ? (plainQuotedId(series.tags) ?? anyId(series))
      : anyId(series);
  return id === null || id.length === 0 || id.length > seriesIdBytesMax ? null : id;
}

function anyId(series: SeriesName): Uint8Array | null {
  let tags: Tags;
  try {
    tags = decodeTags(series.tags);
  } catch (error) {
    if (error instanceof TsdbError) return null;
    throw error;
  }
  for (let i = 0; i < tags.length; i += 1) {
    if (tags[i]!.name === '') return null;
    if (i > 0 && Buffer.compare(Buffer.from(tags[i - 1]!.name), Buffer.from(tags[i]!.name)) >= 0) {
      return null;
    }
  }
  return seriesIdOf(series.idScheme, series.tags, series.explicitId);
}

const quote = 0x22;
const backslash = 0x5c;

/**
 * The quoted ID of tags that need no escapes, by far the usual ones: bytes to bytes. Null for all others and
 * for what is not canonical, for `anyId` to decide.
 */
export function plainQuotedId(tags: Uint8Array): Uint8Array | null {
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
