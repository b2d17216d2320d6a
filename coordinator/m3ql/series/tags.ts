/** Tags of the series of M3QL: those of the data alone, of which some stay when series become one. */
import { pathOfTags } from '#lib/series_id/from_tags.ts';
import { metricNameTag, type Tags } from '#lib/tags.ts';
import { compareTexts } from '#lib/text_order.ts';
import type { Series } from '../../graphite/series/series.ts';
import { type NamedSeries, namedSeries } from '../../graphite/storage/series_names.ts';

/** How scripts call the metric's name. */
export const nameTag = 'name';

/** The tag that a script means. */
export function tagKey(name: string): string {
  return name === nameTag ? metricNameTag : name;
}

/** A path of Carbon has its nodes as tags, and the whole of it as its name. @param tags sorted by name */
export function namedByTags(tags: Tags): NamedSeries {
  const { name, isPath } = namedSeries(tags);
  const all = new Map(tags.map((tag) => [tag.name, tag.value]));
  if (isPath) all.set(metricNameTag, pathOfTags(tags)!);
  return { name, tags: all, isPath };
}

/** The series with these tags in place of its own. */
export function withTags(series: Series, tags: ReadonlyMap<string, string>): Series {
  return { ...series, tags, areTagsFixed: true };
}

export function withName(series: Series, name: string): Series {
  return withTags(series, new Map([...series.tags, [metricNameTag, name]]));
}

/** Of these alone; those that a series does not have are left out. */
export function pickedTags(series: Series, names: readonly string[]): ReadonlyMap<string, string> {
  const picked = new Map<string, string>();
  for (const name of names) {
    const value = series.tags.get(name);
    if (value !== undefined) picked.set(name, value);
  }
  return picked;
}

/** Equal where the values of these tags are; a tag that is missing is empty. */
export function keyOfTags(series: Series, names: readonly string[]): string {
  let key = '';
  for (const name of names) {
    const value = series.tags.get(name) ?? '';
    key += `${value.length}:${value}`;
  }
  return key;
}

/** Equal where all tags but these are. */
export function keyWithoutTags(series: Series, left: readonly string[]): string {
  const others = [...series.tags].filter(([name]) => !left.includes(name));
  others.sort(([a], [b]) => compareTexts(a, b));
  let key = '';
  for (const [name, value] of others) key += `${name.length}:${name}${value.length}:${value}`;
  return key;
}
