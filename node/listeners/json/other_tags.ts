/** What a writer is told whose ID is that of a series with other tags. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { ownerOfId } from '#lib/series_id/claimed_id.ts';
import { decodeTags } from '#lib/tags.ts';
import type { JsonRow } from './backend.ts';

/** Longest text of an ID or of tags in a message. */
const shownLengthMax = 300;

/** @param fetch reads the series with the row's ID, to name its tags */
export async function otherTagsError(
  { id, tags }: JsonRow,
  fetch: () => Promise<{ readonly bundle: SeriesBundle }>,
): Promise<TsdbError> {
  const owner = ownerOfId(id);
  const made = owner === null || owner.tags === null ? null : owner.tags;
  const whose =
    owner === null
      ? await ofFound(fetch)
      : made === null
        ? 'the ID is of the form that the scheme legacy makes from tags, and not from these'
        : `the ID is the one that is made from ${tagsText(made)}`;
  const shown = cut(new TextDecoder().decode(id));
  return badRequest(
    `cannot write: the ID is that of a series with other tags: id=${shown}, tags=${tagsText(tags)}: ${whose}`,
  );
}

async function ofFound(fetch: () => Promise<{ readonly bundle: SeriesBundle }>): Promise<string> {
  try {
    const { bundle } = await fetch();
    if (bundle.seriesCount > 0) {
      const tags = bundle.tagsData.subarray(bundle.tagsOffset[0], bundle.tagsOffset[1]);
      return `the series has ${tagsText(tags)}`;
    }
  } catch (error) {
    // The row is refused all the same, with a word less of why.
    if (!(error instanceof TsdbError)) throw error;
  }
  return 'the series has others';
}

function tagsText(tags: Uint8Array): string {
  const pairs = decodeTags(tags).map(({ name, value }) => `${name}=${JSON.stringify(value)}`);
  return cut(`{${pairs.join(', ')}}`);
}

function cut(text: string): string {
  return text.length > shownLengthMax ? `${text.slice(0, shownLengthMax)}…` : text;
}
