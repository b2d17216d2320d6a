/** What Graphite calls a series: its path, or the metric's name with tags, as `disk.used;host=web1`. */
import { pathOfTags } from '#lib/series_id/from_tags.ts';
import { metricNameTag, type Tags } from '#lib/tags.ts';

export interface NamedSeries {
  readonly name: string;
  /** As Graphite has them: the name among them. */
  readonly tags: ReadonlyMap<string, string>;
  /** It is a path of Carbon. */
  readonly isPath: boolean;
}

/** @param tags sorted by name */
export function namedSeries(tags: Tags): NamedSeries {
  const path = pathOfTags(tags);
  if (path !== null) return { name: path, tags: new Map([['name', path]]), isPath: true };
  const metric = tags.find(({ name }) => name === metricNameTag)?.value ?? '';
  const others = tags.filter(({ name }) => name !== metricNameTag);
  const name = [metric, ...others.map((tag) => `${tag.name}=${tag.value}`)].join(';');
  const all = new Map(others.map((tag) => [tag.name, tag.value]));
  return { name, tags: all.set('name', metric), isPath: false };
}
