/** `fetch tag:glob …`: series of storage by their tags. */
import { shownText } from '#lib/errors.ts';
import type { SelectNode } from '../../graphite/parse/tree.ts';
import type { Call } from '../parse/tree.ts';
import { tagKey } from '../series/tags.ts';
import { parseGlob } from '../storage/globs.ts';
import { isAbsence, selectionsOf, type TagGlob } from '../storage/selections.ts';
import type { ErrorAt } from './arguments.ts';

export const fetchName = 'fetch';

const usage = 'write "fetch name:foo", with a keyword for each tag';

/** @throws {TsdbError} BAD_REQUEST when a tag stands twice, has no glob, or nothing says which series have to be there */
export function fetchNode(call: Call, error: ErrorAt): SelectNode {
  const globs: TagGlob[] = [];
  for (const { keyword, value, start } of call.arguments) {
    if (keyword === null) throw error(start, 'an argument of fetch has no tag', usage);
    const tag = tagKey(keyword);
    if (globs.some((glob) => glob.tag === tag)) {
      const suggestion = 'several globs of a tag are one, as in {a,b}';
      throw error(start, `tag ${JSON.stringify(shownText(keyword))} stands twice`, suggestion);
    }
    if (value.kind === 'pipeline') throw error(value.start, 'fetch takes no pipeline', usage);
    const glob = parseGlob(value.text);
    if (glob.kind === 'wrong') {
      const reason = `the glob of ${shownText(keyword)} ${glob.reason}: ${JSON.stringify(shownText(value.text))}`;
      throw error(value.start, reason);
    }
    globs.push({ tag, text: value.text });
  }
  if (globs.length === 0) throw error(call.start, 'fetch needs a tag', usage);
  if (globs.every(isAbsence)) {
    throw error(call.start, 'fetch needs a tag that is not empty', usage);
  }
  const text = `fetch ${globs.map(({ tag, text }) => `${tag}:${JSON.stringify(text)}`).join(' ')}`;
  return { kind: 'select', text, selections: selectionsOf(globs) };
}
