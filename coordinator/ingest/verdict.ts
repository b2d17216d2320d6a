/** What the coordinator says of a new series. */
import type { SeriesVerdict } from '#engine/write_decoder/write_decoder.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { type IdScheme, idSchemeCode } from '#lib/series_id/scheme.ts';
import { decodeTags, legacyTagRules, type TagRules, tagsProblem } from '#lib/tags.ts';

/** The coordinator's rules for a new series: tag rules, ID by the configured scheme, hash of the ID. */
export function verdictBy(
  scheme: IdScheme,
  tagRules: TagRules = legacyTagRules,
): (tags: Uint8Array) => SeriesVerdict {
  const idScheme = idSchemeCode[scheme];
  const explicitId = new Uint8Array(0);
  return (canonical) => {
    const tags = decodeTags(canonical);
    const problem = tagsProblem(tags, tagRules);
    if (problem !== null) return { idScheme, explicitId, idHash: 0, problem };
    const idHash = murmur3(Buffer.from(idOfTags(tags, scheme)));
    return { idScheme, explicitId, idHash, problem: null };
  };
}
