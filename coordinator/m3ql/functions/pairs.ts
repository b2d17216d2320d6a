/** Series beside those of another pipeline that have the same tags. */
import { badRequest, shownText } from '#lib/errors.ts';
import { metricNameTag } from '#lib/tags.ts';
import type { Call } from '../../graphite/calls/call.ts';
import { percentOf } from '../../graphite/functions/combine/shares.ts';
import { aggregateSeries } from '../../graphite/functions/combine/aggregate.ts';
import { joinRows } from '../../graphite/series/join_rows.ts';
import { groupByKey } from '../../graphite/series/nodes.ts';
import { normalize } from '../../graphite/series/normalize.ts';
import { inParts, madeColumns } from '../../graphite/series/making.ts';
import type { Columns, Series } from '../../graphite/series/series.ts';
import { made } from '../calls/functions.ts';
import { may, needs, type ScriptFunction, several } from '../calls/parameters.ts';
import { keyOfTags, keyWithoutTags } from '../series/tags.ts';

type KeyOf = (series: Series) => string;

/** Of the tags that the call names, else of all but the metric's name. */
function matchingKey(call: Call): KeyOf {
  const tags = call.arguments.texts('tags');
  if (tags.length > 0) return (series) => keyOfTags(series, tags);
  return (series) => keyWithoutTags(series, [metricNameTag]);
}

/** What each series of a list stands beside; undefined where there is nothing. */
async function counterparts(
  call: Call,
  list: readonly Series[],
  others: readonly Series[],
): Promise<readonly (readonly Series[] | undefined)[]> {
  const tags = call.arguments.texts('tags');
  const [only] = others;
  const isForAll = others.length === 1 && !tags.some((tag) => only!.tags.has(tag));
  if (isForAll) return list.map(() => others);
  const keyOf = matchingKey(call);
  const groups = await groupByKey(others, keyOf, call.work);
  return await call.keys(list, (series) => groups.get(keyOf(series)));
}

async function joined(
  call: Call,
  series: Series,
  other: Series,
  join: (a: number, b: number) => number | null,
): Promise<Series> {
  const grid = await normalize([series, other], call);
  const [a, b] = grid.series as [Series, Series];
  const { startSeconds, endSeconds, stepSeconds } = grid;
  if (call.work.spend(1_000 + 4 * grid.length)) await call.work.pause();
  const columns = await joinRows(a, b, grid.length, join, call);
  return { ...series, ...columns, startSeconds, endSeconds, stepSeconds };
}

/** Of the sum of all, of those with the same tags, or of other series, which are added up where several have the tags. */
async function asPercent(call: Call): Promise<readonly Series[]> {
  const list = await call.list();
  const totals = await totalsOf(call, list);
  const sums = new Map<readonly Series[], Series>();
  const results: Series[] = [];
  for (const [index, series] of list.entries()) {
    const parts = totals[index];
    if (parts === undefined) continue;
    const total =
      sums.get(parts) ??
      (parts.length === 1 ? parts[0]! : (await aggregateSeries(call, parts, 'sum', 0))!);
    sums.set(parts, total);
    results.push(await joined(call, series, total, percentOf));
  }
  return results;
}

async function totalsOf(
  call: Call,
  list: readonly Series[],
): Promise<readonly (readonly Series[] | undefined)[]> {
  if (call.arguments.sources('total').length > 0) {
    return await counterparts(call, list, await call.list('total'));
  }
  const tags = call.arguments.texts('tags');
  const groups = await groupByKey(list, (series) => keyOfTags(series, tags), call.work);
  return await call.keys(list, (series) => groups.get(keyOfTags(series, tags)));
}

async function divideSeries(call: Call): Promise<readonly Series[]> {
  const list = await call.list();
  const divisors = await counterparts(call, list, await call.list('divisor'));
  const results: Series[] = [];
  for (const [index, series] of list.entries()) {
    const found = divisors[index];
    if (found === undefined) continue;
    if (found.length > 1) {
      throw badRequest(
        `cannot evaluate divideSeries: divisor has ${found.length} series for one: ${shownText(series.name)}; add them up, or name tags that tell them apart`,
      );
    }
    results.push(await joined(call, series, found[0]!, (a, b) => (b === 0 ? null : a / b)));
  }
  return results;
}

/** Rows in which one of the series with the same tags has a value, or in which none has. */
async function masked(call: Call, isKeptWhere: 0 | 1): Promise<readonly Series[]> {
  const list = await call.list();
  const others = await call.list('others');
  if (list.length === 0) return [];
  const { series, length } = await normalize([...list, ...others], call);
  const keyOf = matchingKey(call);
  const groups = await groupByKey(series.slice(list.length), keyOf, call.work);
  const masks = new Map<string, Uint8Array>();
  for (const [key, group] of groups) {
    await call.reserve(length);
    const mask = new Uint8Array(length);
    for (const { present } of group) {
      await inParts(present.length, call.work, (first, past) => {
        for (let i = first; i < past; i++) mask[i] = mask[i]! | present[i]!;
      });
      if (call.work.spend(present.length)) await call.work.pause();
    }
    masks.set(key, mask);
  }
  const none = new Uint8Array(length);
  return await call.map(series.slice(0, list.length), async (each) => ({
    ...each,
    ...(await rowsWhere(call, each, masks.get(keyOf(each)) ?? none, isKeptWhere)),
  }));
}

async function rowsWhere(
  call: Call,
  { values, present }: Columns,
  mask: Uint8Array,
  wanted: 0 | 1,
): Promise<Columns> {
  const columns = await madeColumns(values.length, call);
  await inParts(values.length, call.work, (first, past) => {
    for (let i = first; i < past; i++) {
      if (present[i] === 0 || mask[i] !== wanted) continue;
      columns.values[i] = values[i]!;
      columns.present[i] = 1;
    }
  });
  return columns;
}

const tags = several('tags', 'tag');

export const pairFunctions: readonly ScriptFunction[] = [
  made('asPercent', [may('total', 'series'), tags], asPercent),
  made('divideSeries', [needs('divisor', 'series'), tags], divideSeries),
  made('intersect', [needs('others', 'series'), tags], (call) => masked(call, 1)),
  made('setDiff', [needs('others', 'series'), tags], (call) => masked(call, 0)),
];
