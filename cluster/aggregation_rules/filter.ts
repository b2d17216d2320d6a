/**
 * Filters of aggregation rules: `tag:pattern` pairs, separated by spaces, all of which a series has
 * to match. A series without a tag matches no pattern of it, not even a negated one; only the
 * metric's name is '' then.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { metricNameTag } from '#lib/tags.ts';
import { parsePattern, type Pattern } from './pattern.ts';

export interface TagFilter {
  readonly name: string;
  readonly pattern: Pattern;
}

/** All of which hold; several may be about one tag. */
export type Filter = readonly TagFilter[];

/** Value by name, of a series. */
export type TagValues = ReadonlyMap<string, string>;

/**
 * @param path of the field, for the error
 * @throws {TsdbError} BAD_REQUEST naming field, reason and filter
 */
export function parseFilter(text: string, path: string): Filter {
  const filters = new Map<string, TagFilter>();
  for (const pair of text.split(/\s+/)) {
    if (pair === '') continue;
    const bad = (reason: string): Error => badRequest(`${path}: ${reason}: ${shownText(pair)}`);
    const colon = pair.indexOf(':');
    if (colon < 0) throw bad('filter has no ":" between tag and pattern');
    const name = pair.slice(0, colon);
    const pattern = pair.slice(colon + 1);
    if (name === '') throw bad('filter has no tag before its ":"');
    if (pattern === '') throw bad('filter has no pattern after its ":"');
    if (filters.has(name)) throw bad('filter has a tag twice');
    filters.set(name, { name, pattern: parsePattern(pattern, `${path}: ${name}`) });
  }
  return [...filters.values()];
}

export function filterMatches(filter: Filter, tags: TagValues): boolean {
  for (const { name, pattern } of filter) {
    const value = tags.get(name) ?? (name === metricNameTag ? '' : null);
    if (value === null || !pattern.matches(value)) return false;
  }
  return true;
}
