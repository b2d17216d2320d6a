/** Series by the names that Graphite gives them: a path of nodes, or a metric with its tags, as `disk.used;host=web1`. */
import { badRequest, shownText } from '#lib/errors.ts';
import { nodeTag } from '#lib/series_id/from_tags.ts';
import { metricNameTag } from '#lib/tags.ts';
import { compareTexts } from '#lib/text_order.ts';
import type { Matcher } from '../../select/storage.ts';
import { carbonTagName } from '../words/tag_name.ts';

/** Of a path, as series have it: no other one is written. */
const pathLengthMax = 65_535;
const pathTagsMax = 1_024;

export interface TaggedPath {
  readonly metric: string;
  /** A path of nodes; one with tags, be it `name` alone, is a metric's name. */
  readonly isPath: boolean;
  /** By name, without that of the metric. */
  readonly tags: ReadonlyMap<string, string>;
}

/**
 * @param storedName what tags are called in storage
 * @throws {TsdbError} BAD_REQUEST when it is no path
 */
export function taggedPath(
  text: string,
  storedName: (tag: string) => string = carbonTagName,
): TaggedPath {
  const refused = (reason: string): Error => badRequest(`path: ${reason}: ${shownText(text)}`);
  if (text.length > pathLengthMax) {
    throw refused(`has ${text.length} characters, more than ${pathLengthMax}`);
  }
  // oxlint-disable-next-line no-control-regex -- they end paths
  if (/[\u0000-\u0020\u007f]/.test(text)) throw refused('a space or control character is in it');
  if (text.includes('{') && text.endsWith('"}')) throw refused('not in the form name;tag=value');
  const [metric = '', ...pairs] = text.split(';');
  if (metric === '') throw refused('there is no name');
  if (pairs.length > pathTagsMax) {
    throw refused(`has ${pairs.length} tags, more than ${pathTagsMax}`);
  }
  const tags = new Map<string, string>();
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    const [key, value] = [pair.slice(0, at), pair.slice(at + 1)];
    if (at <= 0 || value === '') throw refused('a tag is not in the form tag=value');
    if (key === 'name') continue;
    const name = storedName(key);
    if (tags.has(name) || name === metricNameTag) throw refused(`two tags are ${name}`);
    tags.set(name, value);
  }
  const isPath = pairs.length === 0;
  if (!isPath) return { metric, isPath, tags };
  const path = metric.replace(/\.$/, '');
  // What stands for no node would match whatever has none there.
  if (path.split('.').includes('')) throw refused('a node is empty');
  return { metric: path, isPath, tags };
}

/** What a series of it is called. */
export function canonicalPath({ metric, tags }: TaggedPath): string {
  const pairs = [...tags].map(([name, value]) => `${name}=${value}`).sort(compareTexts);
  return [metric, ...pairs].join(';');
}

/** Series that have other tags besides match, too. */
export function matchersOfPath({ metric, isPath, tags }: TaggedPath): Matcher[] {
  if (isPath) {
    return metric.split('.').map((value, node) => ({ name: nodeTag(node), kind: '=', value }));
  }
  const all = [[metricNameTag, metric] as const, ...tags];
  return all.map(([name, value]) => ({ name, kind: '=', value }));
}
