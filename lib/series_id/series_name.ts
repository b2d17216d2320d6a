/**
 * Names of series as they come from dictionaries, filesets and peers: checked once, and turned into
 * IDs.
 */
import { TsdbError } from '../errors.ts';
import { decodeTags, type Tags, tagsBytesMax } from '../tags.ts';
import { escapedBytesMax } from './escape.ts';
import { plainId, seriesIdOf } from './from_tags.ts';
import { idSchemeCode } from './scheme.ts';

/** Longest ID of a series, in bytes. */
const seriesIdBytesMax = 65_535;

export interface SeriesName {
  readonly idScheme: number;
  /** Canonical tags. */
  readonly tags: Uint8Array;
  /** For ID scheme 0, else empty. */
  readonly explicitId: Uint8Array;
  /**
   * murmur3_32 of the ID, when a write decoder of this process has checked the tags: sorted, names
   * well-formed and each once. The ID need not be made then.
   */
  readonly idHash?: number | undefined;
}

/** A copy, for names that stand in bytes of somebody else. */
export function copyOfName({ idScheme, tags, explicitId }: SeriesName): SeriesName {
  return { idScheme, tags: tags.slice(), explicitId: explicitId.slice() };
}

/** Tags up to here have no ID that is too long: a pair gains less than its lengths took, without escapes. */
const shortTagsBytesMax: number = Math.floor(seriesIdBytesMax / escapedBytesMax);

/**
 * Hash of the ID of a series whose ID derives from its tags alone and need not be looked at; -1
 * when it must be.
 */
export function knownIdHash({ idScheme, tags, idHash }: SeriesName): number {
  if (idHash === undefined || tags.length > shortTagsBytesMax) return -1;
  const tellsTags = idScheme === idSchemeCode.quoted || idScheme === idSchemeCode.prepend_meta;
  return tellsTags ? idHash : -1;
}

/**
 * ID of a series of any origin, or null when it is none: tags must be canonical and the ID not
 * empty.
 */
export function checkedId(series: SeriesName): Uint8Array | null {
  if (series.tags.length > tagsBytesMax) return null;
  if (series.idScheme !== idSchemeCode.explicit && series.explicitId.length > 0) return null;
  const id = plainId(series.tags, series.idScheme) ?? anyId(series);
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
