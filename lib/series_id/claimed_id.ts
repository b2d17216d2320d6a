/**
 * Whom an ID belongs to. A writer may give an ID of its own, but not one that a scheme makes from
 * other tags than the writer's: that is the name of another series, whose rows would be found under
 * the wrong tags. An ID that the scheme makes from these very tags is that series.
 */
import { legacyIdBytes } from './from_tags.ts';
import { idSchemeCode } from './scheme.ts';
import { checkedId, type SeriesName } from './series_name.ts';
import { tagsOfId, tellsItsTags } from './to_tags.ts';

/**
 * The series that an ID is made for, or null when it is nobody's: then it names a series of its own.
 * The legacy scheme does not tell its tags: `tags` is null then, as any of several may be meant.
 */
export interface IdOwner {
  readonly idScheme: number;
  /** Canonical. */
  readonly tags: Uint8Array | null;
}

/**
 * How every ID of the legacy scheme looks. Each such text is one: of the first name with all the rest
 * as its value, if of nothing else.
 */
const legacyForm = /^[a-zA-Z_][a-zA-Z0-9_]*=[^]+,$/;

/** Longer texts are not looked at for their form: no scheme makes them. */
const idBytesMax = 65_535;

/** @param id at most 65,535 bytes */
export function ownerOfId(id: Uint8Array): IdOwner | null {
  if (id.length > idBytesMax) return null;
  for (const { tags, idScheme } of tagsOfId(id)) {
    // No tags at all is what no coordinator writes: '{}' is a text like any other.
    if (tags.length === 0) continue;
    const made = checkedId({ tags, idScheme, explicitId: noBytes });
    if (made !== null && equalBytes(made, id)) return { tags, idScheme };
  }
  const isLegacy = legacyForm.test(Buffer.from(id.buffer, id.byteOffset, id.length).toString());
  return isLegacy ? { tags: null, idScheme: idSchemeCode.legacy } : null;
}

/**
 * The name by which the series stands whose writer gives this one; null when its ID belongs to other
 * tags.
 * @param id what `checkedId` gives of it
 */
export function rightfulName(series: SeriesName, id: Uint8Array): SeriesName | null {
  if (tellsItsTags(series)) return series;
  const owner = ownerOfId(id);
  if (owner === null) return series;
  const { idScheme, tags } = owner;
  if (tags === null) {
    if (series.idScheme !== idSchemeCode.explicit) return series;
    if (!equalBytes(legacyIdBytes(series.tags), id)) return null;
  } else if (!equalBytes(tags, series.tags)) return null;
  return { idScheme, tags: series.tags, explicitId: noBytes };
}

const noBytes = new Uint8Array(0);

function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}
