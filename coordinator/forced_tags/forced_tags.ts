/**
 * Tags that are forced on whoever reads, whatever they ask for: matchers that stand beside their own, so that nothing else is
 * found, and names that answers leave out. M3's `Restrict-By-Tags-JSON` and `query.restrictTags` say them.
 */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { decodeTags, encodeTags } from '#lib/tags.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Matcher } from '../select/storage.ts';

export interface ForcedTags {
  readonly matchers: readonly Matcher[];
  /** Names that answers leave out. */
  readonly hidden: ReadonlySet<string>;
}

export const nothingForced: ForcedTags = { matchers: [], hidden: new Set() };

/** What both say. */
export function forcedByBoth(a: ForcedTags, b: ForcedTags): ForcedTags {
  return {
    matchers: [...a.matchers, ...b.matchers],
    hidden: new Set([...a.hidden, ...b.hidden]),
  };
}

export function isForcing({ matchers, hidden }: ForcedTags): boolean {
  return matchers.length > 0 || hidden.size > 0;
}

/** Lists that are joined by OR, of which none means all series. */
export function forcedLists(
  lists: readonly (readonly Matcher[])[],
  { matchers }: ForcedTags,
): readonly (readonly Matcher[])[] {
  if (matchers.length === 0) return lists;
  return lists.length === 0 ? [matchers] : lists.map((list) => [...list, ...matchers]);
}

/** Texts of selectors for people. */
export function withForced(
  selectors: readonly string[],
  { matchers }: ForcedTags,
): readonly string[] {
  if (matchers.length === 0) return selectors;
  const texts = matchers.map(({ name, kind, value }) => `${name}${kind}${JSON.stringify(value)}`);
  return selectors.map((selector) => `${selector} and {${texts.join(',')}}`);
}

/** About what it takes to leave tags of a series out, in units of work (lib/turns/turns.ts). */
const seriesUnits = 500;

/**
 * Series without some of their tags: two may then have the same ones.
 * @param hidden names
 */
export async function withoutTags(
  bundle: SeriesBundle,
  hidden: ReadonlySet<string>,
  work: Work,
): Promise<SeriesBundle> {
  if (hidden.size === 0) return bundle;
  const { seriesCount, tagsData, tagsOffset } = bundle;
  const left = new Uint8Array(tagsData.length);
  const leftOffset = new Uint32Array(seriesCount + 1);
  let at = 0;
  for (let i = 0; i < seriesCount; i++) {
    const tags = decodeTags(tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!));
    const shown = encodeTags(tags.filter(({ name }) => !hidden.has(name)));
    left.set(shown, at);
    at += shown.length;
    leftOffset[i + 1] = at;
    if (work.spend(seriesUnits)) await work.pause();
  }
  return { ...bundle, tagsData: left.subarray(0, at), tagsOffset: leftOffset };
}
