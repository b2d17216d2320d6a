/** Names of series: their tag of the metric's name becomes another one, all others stay. */
import { metricNameTag } from '#lib/tags.ts';
import type { Call } from '../../graphite/calls/call.ts';
import type { Series } from '../../graphite/series/series.ts';
import { made } from '../calls/functions.ts';
import { may, needs, type ScriptFunction, several } from '../calls/parameters.ts';
import { nameTag, tagKey, withName } from '../series/tags.ts';
import { upperEnd } from './buckets.ts';

async function named(call: Call, nameOf: (series: Series) => string): Promise<readonly Series[]> {
  return await call.map(await call.list(), (series) => withName(series, nameOf(series)), 0);
}

async function aliasByTags(call: Call): Promise<readonly Series[]> {
  const tags = call.arguments.texts('tags');
  return await named(call, ({ tags: of }) => tags.map((tag) => of.get(tag) ?? '').join('.'));
}

async function aliasByBucket(call: Call): Promise<readonly Series[]> {
  const tag = tagKey(call.arguments.text('tag'));
  return await named(call, ({ tags }) => upperEnd(tags.get(tag) ?? ''));
}

/** Tags that a series has not are left out of its name. */
async function showTags(call: Call): Promise<readonly Series[]> {
  const showsNames = !call.arguments.has('names') || call.arguments.flag('names');
  const wanted = call.arguments.texts('tags');
  return await named(call, ({ tags }) => {
    const shown = wanted.length > 0 ? wanted : [...tags.keys()];
    const texts = shown.flatMap((tag) => {
      const value = tags.get(tag);
      if (value === undefined) return [];
      return [showsNames ? `${tag === metricNameTag ? nameTag : tag}:${value}` : value];
    });
    return texts.join(' ');
  });
}

export const nameFunctions: readonly ScriptFunction[] = [
  made('alias', [needs('alias', 'text')], (call) => {
    const name = call.arguments.text('alias');
    return named(call, () => name);
  }),
  made('aliasByTags', [{ ...several('tags', 'tag'), isRequired: true }], aliasByTags),
  made('aliasByBucket aliasByHistogramBucket', [needs('tag', 'tag')], aliasByBucket),
  made('showTags', [may('names', 'boolean'), several('tags', 'tag')], showTags),
];
