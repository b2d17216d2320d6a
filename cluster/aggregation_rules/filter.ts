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

/** M3's tags for rules alone that say of which kind a metric is. */
const kindTag = '__m3_type__';
const prometheusKindTag = '__m3_prom_type__';
/** What samples of all series are to M3, whose coordinators take what they are sent for these unless it is said. */
const kindOfAll = 'gauge';

/**
 * A filter without what it asks of the kind of a metric, which is the same of all series.
 * @param path of the field, for the error
 * @throws {TsdbError} BAD_REQUEST for one that would never match, and as `parseFilter`
 */
export function withoutKinds(text: string, path: string): string {
  if (!text.includes(kindTag) && !text.includes(prometheusKindTag)) return text;
  const pairs: string[] = [];
  for (const pair of text.split(/\s+/)) {
    const bad = (reason: string): Error => badRequest(`${path}: ${reason}: ${shownText(pair)}`);
    if (pair.startsWith(`${prometheusKindTag}:`)) {
      throw bad(`no series is told by ${prometheusKindTag} here, and it would match none`);
    }
    if (!pair.startsWith(`${kindTag}:`)) {
      pairs.push(pair);
      continue;
    }
    const [asked] = parseFilter(pair, path);
    if (!asked!.pattern.matches(kindOfAll)) {
      throw bad(`${kindTag} of all series is ${kindOfAll} here, and it would match none`);
    }
  }
  return pairs.join(' ');
}

export function filterMatches(filter: Filter, tags: TagValues): boolean {
  for (const { name, pattern } of filter) {
    const value = tags.get(name) ?? (name === metricNameTag ? '' : null);
    if (value === null || !pattern.matches(value)) return false;
  }
  return true;
}
