/** Several series become one: row by row by a reducer. */
import type { Call } from '../../calls/call.ts';
import { optional, required, seriesList, seriesLists } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { reduceAcross, reduceEachRow } from '../../series/across.ts';
import { joinedPathExpressions } from '../../series/nodes.ts';
import { normalize } from '../../series/normalize.ts';
import { shortNumber } from '../../words/number_text.ts';
import { percentileOf } from '../../series/percentile.ts';
import { plainReducerName } from '../../math/reducers.ts';
import { constantColumns } from '../../series/making.ts';
import { newSeries, type Series } from '../../series/series.ts';

/**
 * @param reducerName with or without "Series" behind it
 * @param xFilesFactor null for that of the target
 * @returns null when there are no series
 */
export async function aggregateSeries(
  call: Call,
  list: readonly Series[],
  reducerName: string,
  xFilesFactor: number | null = null,
): Promise<Series | null> {
  if (list.length === 0) return null;
  const name = plainReducerName(reducerName);
  const factor = xFilesFactor ?? call.xFilesFactor;
  const grid = await normalize(list, call);
  const columns = await reduceAcross(name, grid.series, grid.length, factor, call);
  const { startSeconds, endSeconds, stepSeconds } = grid;
  const target = `${name}Series(${joinedPathExpressions(list)})`;
  const series = newSeries(target, startSeconds, endSeconds, stepSeconds, columns, factor);
  const tags = await commonTags(call, list);
  if (!tags.has('name')) tags.set('name', target);
  return { ...series, tags: tags.set('aggregatedBy', name) };
}

/** Tags that all of them have with one value. */
async function commonTags(call: Call, list: readonly Series[]): Promise<Map<string, string>> {
  const common = new Map(list[0]!.tags);
  for (const { tags } of list) {
    for (const [tag, value] of common) if (tags.get(tag) !== value) common.delete(tag);
    if (call.work.spend(100)) await call.work.pause();
  }
  return common;
}

const by =
  (reducerName: string): FunctionRow['evaluate'] =>
  async (call) => {
    const series = await aggregateSeries(call, await call.list('seriesLists'), reducerName);
    return series === null ? [] : [series];
  };

const reducing = (
  name: string,
  reducerName: string,
  description: string,
  aliases: readonly string[] = [],
): FunctionRow =>
  functionRow('Combine', name, description, [seriesLists], by(reducerName), {
    aliases,
    isAggregator: true,
  });

async function aggregate(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const factor = args.optionalNumber('xFilesFactor');
  const series = await aggregateSeries(call, await call.list(), args.text('func'), factor);
  return series === null ? [] : [series];
}

async function multiplySeries(call: Call): Promise<readonly Series[]> {
  const list = await call.list('seriesLists');
  if (list.length === 1) return list;
  const series = await aggregateSeries(call, list, 'multiply');
  return series === null ? [] : [series];
}

/** Counts series with and without values. */
async function countSeries(call: Call): Promise<readonly Series[]> {
  const list = await call.list('seriesLists');
  if (list.length === 0) return [];
  const grid = await normalize(list, call);
  const columns = await constantColumns(grid.length, list.length, call);
  const name = `countSeries(${joinedPathExpressions(list)})`;
  const { startSeconds, endSeconds, stepSeconds } = grid;
  return [newSeries(name, startSeconds, endSeconds, stepSeconds, columns, call.xFilesFactor)];
}

async function percentileOfSeries(call: Call): Promise<readonly Series[]> {
  const percent = call.arguments.number('n');
  if (!(percent > 0)) throw call.arguments.error('n', 'has to be above 0', percent);
  const isInterpolated = call.arguments.flag('interpolate');
  const list = await call.list();
  if (list.length === 0) return [];
  const grid = await normalize(list, call);
  const columns = await reduceEachRow(
    (values, count) => percentileOf(values, count, percent, isInterpolated),
    grid.series,
    grid.length,
    call,
  );
  const name = `percentileOfSeries(${list[0]!.pathExpression},${shortNumber(percent)})`;
  const { startSeconds, endSeconds, stepSeconds } = grid;
  return [newSeries(name, startSeconds, endSeconds, stepSeconds, columns, call.xFilesFactor)];
}

async function group(call: Call): Promise<readonly Series[]> {
  return await call.list('seriesLists');
}

export const aggregateRows: readonly FunctionRow[] = [
  functionRow(
    'Combine',
    'aggregate',
    'One series of all, each row by an aggregation',
    [seriesList, required('func', 'aggFunc'), optional('xFilesFactor', 'float')],
    aggregate,
  ),
  reducing('averageSeries', 'average', 'The mean of all series, row by row', ['avg']),
  functionRow(
    'Combine',
    'countSeries',
    'How many series there are',
    [{ ...seriesLists, isRequired: false }],
    countSeries,
    {
      isAggregator: true,
    },
  ),
  reducing('diffSeries', 'diff', 'The first series less all others'),
  functionRow(
    'Combine',
    'group',
    'All series of several lists as one list',
    [{ ...seriesLists, isRequired: false }],
    group,
  ),
  reducing('maxSeries', 'max', 'The greatest value of each row', ['max']),
  reducing('minSeries', 'min', 'The least value of each row', ['min']),
  functionRow(
    'Combine',
    'multiplySeries',
    'The product of all series',
    [seriesLists],
    multiplySeries,
    {
      isAggregator: true,
    },
  ),
  functionRow(
    'Combine',
    'percentileOfSeries',
    'A percentile of the values of each row',
    [seriesList, required('n', 'float'), optional('interpolate', 'boolean', false)],
    percentileOfSeries,
  ),
  reducing('rangeOfSeries', 'rangeOf', 'The greatest value of each row less the least'),
  reducing('stddevSeries', 'stddev', 'The standard deviation of the values of each row'),
  reducing('sumSeries', 'sum', 'The sum of all series', ['sum']),
];
