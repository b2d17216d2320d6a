/** Parts of a series' name: its nodes between dots, or the values of its tags. */
import type { Work } from '#lib/turns/turns.ts';
import { carbonTagName } from '../words/tag_name.ts';
import type { Series } from './series.ts';

/** A node by its place, from the end when negative, or a tag by its name. */
export type NodeOrTag = number | string;

const opening = /\s*[A-Za-z_]\w*\s*\(\s*/y;

/** The first path in a name such as `scale(a.b.*,2)`; null when there is none. */
export function firstPathExpression(name: string): string | null {
  let start = 0;
  for (;;) {
    opening.lastIndex = start;
    if (!opening.test(name)) break;
    start = opening.lastIndex;
  }
  let braces = 0;
  let end = start;
  for (; end < name.length; end++) {
    const character = name[end]!;
    if (character === '{') braces += 1;
    else if (character === '}') braces -= 1;
    else if (character === ',' && braces > 0) continue;
    else if ('(),\'"| '.includes(character)) break;
  }
  return end === start || name[end] === '(' ? null : name.slice(start, end);
}

/** The nodes and tags of a series, joined by dots; a name that is a function's counts as its first path. */
export function keyOf(series: Series, nodes: readonly NodeOrTag[]): string {
  const path = series.name.endsWith(')') ? firstPathExpression(series.name) : null;
  return nodes.map((node) => nodeOrTag(series, path ?? series.name, node)).join('.');
}

function nodeOrTag(series: Series, path: string, node: NodeOrTag): string {
  if (typeof node === 'number') {
    const found = path.split(';', 1)[0]!.split('.').at(node);
    if (found !== undefined) return found;
  }
  return tagOf(series, `${node}`);
}

/** Of a tag, which may be asked for by the name that Carbon was sent; '' when there is none. */
export function tagOf({ tags }: Series, tag: string): string {
  return tags.get(tag) ?? tags.get(carbonTagName(tag)) ?? '';
}

/** Of a series' name and tags, in units of work. */
const nameUnits = 300;

/** Groups in the order of their first series. */
export async function groupByKey(
  list: readonly Series[],
  keyOfSeries: (series: Series) => string,
  work: Work,
): Promise<Map<string, Series[]>> {
  const groups = new Map<string, Series[]>();
  for (const series of list) {
    const key = keyOfSeries(series);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [series]);
    else group.push(series);
    if (work.spend(nameUnits)) await work.pause();
  }
  return groups;
}

/** Each once, in the order in which they come. */
export function joinedPathExpressions(list: readonly Series[]): string {
  return [...new Set(list.map(({ pathExpression }) => pathExpression))].join(',');
}
