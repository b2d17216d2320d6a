/** Series beside a total or a weight. */
import { badRequest } from '#lib/errors.ts';
import { compareTexts } from '#lib/text_order.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import type { Call } from '../../calls/call.ts';
import { optional, required, seriesList, seriesLists, zeroOrMore } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { reduceAcross } from '../../series/across.ts';
import { joinRows } from '../../series/join_rows.ts';
import { groupByKey, joinedPathExpressions, keyOf, type NodeOrTag } from '../../series/nodes.ts';
import { normalize } from '../../series/normalize.ts';
import { power } from '../../math/power.ts';
import { plainNumber } from '../../words/number_text.ts';
import { constantColumns, madeColumns } from '../../series/making.ts';
import { type Columns, newSeries, type Series } from '../../series/series.ts';
import { aggregateSeries } from './aggregate.ts';

/** Null where there is no share. */
export const percentOf = (value: number, total: number): number | null =>
  total === 0 ? null : (value / total) * 100;

/** @param total null where there is none: then no row has a value */
async function percentSeries(
  call: Call,
  series: Series | null,
  total: Series | null,
): Promise<Series> {
  const both = [series, total].filter((each) => each !== null);
  const grid = await normalize(both, call);
  const [a, b] = grid.series;
  const columns =
    b === undefined
      ? await madeColumns(grid.length, call)
      : await joinRows(a!, b, grid.length, percentOf, call);
  if (call.work.spend(1_000 + 4 * grid.length)) await call.work.pause();
  const name = `asPercent(${series?.name ?? 'MISSING'},${total?.name ?? 'MISSING'})`;
  const { startSeconds, endSeconds, stepSeconds } = grid;
  return newSeries(name, startSeconds, endSeconds, stepSeconds, columns, call.xFilesFactor);
}

/** The sum, whatever the xFilesFactor; a single series stays itself. */
async function totalOf(call: Call, list: readonly Series[], isAlways: boolean): Promise<Series> {
  if (list.length === 1 && !isAlways) return list[0]!;
  const grid = await normalize(list, call);
  const columns = await reduceAcross('sum', grid.series, grid.length, 0, call);
  const name = `sumSeries(${joinedPathExpressions(list)})`;
  const { startSeconds, endSeconds, stepSeconds } = grid;
  return newSeries(name, startSeconds, endSeconds, stepSeconds, columns, call.xFilesFactor);
}

async function asPercent(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const list = await call.list();
  const isList = args.sources('total').length > 0;
  const totals = isList ? await call.list('total') : null;
  const value = args.literal('total');
  if (list.length === 0) return [];
  const nodes = args.nodes('nodes');
  if (nodes.length > 0) {
    if (value !== null) throw args.error('total', 'has to be series or None with nodes', value);
    return await percentByNodes(call, list, totals, nodes);
  }
  const results: Series[] = [];
  if (totals !== null && totals.length > 1) {
    checkTotals(list, totals);
    const byName = (a: Series, b: Series) => compareTexts(a.name, b.name);
    const sortedTotals = await sortPaced(totals, byName, call.work);
    for (const [index, series] of (await sortPaced(list, byName, call.work)).entries()) {
      results.push(await percentSeries(call, series, sortedTotals[index]!));
    }
    return results;
  }
  if (totals !== null && totals.length === 0) checkTotals(list, totals);
  const grid = await normalize(totals === null ? list : [...list, ...totals], call);
  const onGrid = grid.series.slice(0, list.length);
  const total =
    totals !== null
      ? grid.series.at(-1)!
      : value === null
        ? await totalOf(call, onGrid, true)
        : await constantTotal(call, Number(value), grid.length, onGrid[0]!);
  for (const series of onGrid) results.push(await percentSeries(call, series, total));
  return results;
}

async function constantTotal(
  call: Call,
  value: number,
  length: number,
  like: Series,
): Promise<Series> {
  if (Number.isNaN(value)) {
    throw call.arguments.error(
      'total',
      'has to be series or a number',
      call.arguments.literal('total'),
    );
  }
  const { startSeconds, endSeconds, stepSeconds } = like;
  const columns = await constantColumns(length, value, call);
  const name = plainNumber(value);
  return newSeries(name, startSeconds, endSeconds, stepSeconds, columns, call.xFilesFactor);
}

function checkTotals(list: readonly Series[], totals: readonly Series[]): void {
  if (totals.length === list.length) return;
  throw badRequest(
    `cannot evaluate asPercent: total has to be one series, as many as seriesList has (${list.length}), a number or nothing: ${totals.length} series`,
  );
}

async function percentByNodes(
  call: Call,
  list: readonly Series[],
  totals: readonly Series[] | null,
  nodes: readonly NodeOrTag[],
): Promise<readonly Series[]> {
  const key = (series: Series) => keyOf(series, nodes);
  const groups = await groupByKey(list, key, call.work);
  const totalGroups = await groupByKey(totals ?? list, key, call.work);
  const results: Series[] = [];
  for (const key of new Set([...groups.keys(), ...totalGroups.keys()])) {
    const parts = totalGroups.get(key);
    const total = parts === undefined ? null : await totalOf(call, parts, false);
    const group = groups.get(key);
    if (group === undefined) results.push(await percentSeries(call, null, total));
    for (const series of group ?? []) results.push(await percentSeries(call, series, total));
  }
  return results;
}

async function weightedAverage(call: Call): Promise<readonly Series[]> {
  const nodes = call.arguments.nodes('nodes');
  const averages = await call.list('seriesListAvg');
  const weights = await call.list('seriesListWeight');
  if (averages.length !== weights.length) {
    throw badRequest(
      `cannot evaluate weightedAverage: seriesListWeight has to have as many series as seriesListAvg: ${weights.length} and ${averages.length}`,
    );
  }
  const key = (series: Series) => keyOf(series, nodes);
  const weightsOf = await groupByKey(weights, key, call.work);
  const products: Series[] = [];
  // Of several with one key the last one counts.
  for (const [name, list] of await groupByKey(averages, key, call.work)) {
    const weight = weightsOf.get(name)?.at(-1);
    if (weight === undefined) continue;
    const average = list.at(-1)!;
    const grid = await normalize([average, weight], call);
    const [a, b] = grid.series as [Series, Series];
    const weigh = (value: number, factor: number): number => value * factor;
    const columns = await joinRows(a, b, grid.length, weigh, call);
    products.push({ ...a, ...columns, name: `product(${weight.name},${average.name})` });
    if (call.work.spend(500 + 4 * grid.length)) await call.work.pause();
  }
  const sum = await aggregateSeries(call, products, 'sum');
  const weightSum = await aggregateSeries(call, weights, 'sum');
  if (sum === null || weightSum === null) return [];
  const grid = await normalize([sum, weightSum], call);
  const [a, b] = grid.series as [Series, Series];
  const divide = (value: number, total: number): number | null =>
    total === 0 ? null : value / total;
  const columns = await joinRows(a, b, grid.length, divide, call);
  const name = `weightedAverage(${sortedPaths(averages)}, ${sortedPaths(weights)}, ${nodes.join(', ')})`;
  const { startSeconds, endSeconds, stepSeconds } = grid;
  return [newSeries(name, startSeconds, endSeconds, stepSeconds, columns, call.xFilesFactor)];
}

function sortedPaths(list: readonly Series[]): string {
  return [...new Set(list.map(({ pathExpression }) => pathExpression))]
    .sort(compareTexts)
    .join(',');
}

async function powSeries(call: Call): Promise<readonly Series[]> {
  const list = await call.list('seriesLists');
  if (list.length === 0) return [];
  const grid = await normalize(list, call);
  let columns: Columns = grid.series[0]!;
  for (const next of grid.series.slice(1)) {
    const before = columns === grid.series[0] ? 0 : grid.length;
    columns = await joinRows(columns, next, grid.length, power, call);
    call.release(before);
    if (call.work.spend(20 * grid.length)) await call.work.pause();
  }
  const name = `powSeries(${list.map((series) => series.name).join(',')})`;
  const { startSeconds, endSeconds, stepSeconds } = grid;
  return [newSeries(name, startSeconds, endSeconds, stepSeconds, columns, call.xFilesFactor)];
}

export const shareRows: readonly FunctionRow[] = [
  functionRow(
    'Combine',
    'asPercent',
    'Series as a percentage of their sum, of other series or of a number',
    [seriesList, optional('total', 'any'), zeroOrMore('nodes', 'nodeOrTag')],
    asPercent,
    { aliases: ['pct'], isAggregator: true },
  ),
  functionRow(
    'Combine',
    'powSeries',
    'The first series to the power of the second, that to the power of the third and so on',
    [{ ...seriesLists }],
    powSeries,
    { isAggregator: true },
  ),
  functionRow(
    'Combine',
    'weightedAverage',
    'The mean of series, each weighted by another series',
    [
      required('seriesListAvg', 'seriesList'),
      required('seriesListWeight', 'seriesList'),
      zeroOrMore('nodes', 'nodeOrTag'),
    ],
    weightedAverage,
  ),
];
