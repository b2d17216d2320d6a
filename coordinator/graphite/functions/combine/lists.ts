/** Two lists, the first series of one with the first of the other and so on. */
import type { Call } from '../../calls/call.ts';
import { optional, required } from '../../calls/parameters.ts';
import { badRequest } from '#lib/errors.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { normalize } from '../../series/normalize.ts';
import { joinRows } from '../../series/join_rows.ts';
import { madeColumns } from '../../series/making.ts';
import { newSeries, renamed, type Series } from '../../series/series.ts';
import { aggregateSeries } from './aggregate.ts';

const pairParameters = [
  required('seriesListFirstPos', 'seriesList'),
  required('seriesListSecondPos', 'seriesList'),
] as const;

async function aggregatePairs(
  call: Call,
  reducerName: string,
  xFilesFactor: number | null,
): Promise<readonly Series[]> {
  const first = await call.list('seriesListFirstPos');
  const second = await call.list('seriesListSecondPos');
  checkLengths(call, first, second);
  const results: Series[] = [];
  for (const [index, one] of first.entries()) {
    const other = second[index]!;
    const series = (await aggregateSeries(call, [one, other], reducerName, xFilesFactor))!;
    const reducer = series.name.slice(0, series.name.indexOf('Series('));
    results.push({ ...series, name: `${reducer}Series(${one.name},${other.name})` });
    if (call.work.spend(500)) await call.work.pause();
  }
  return results;
}

function checkLengths(call: Call, first: readonly Series[], second: readonly Series[]): void {
  if (first.length === second.length) return;
  throw badRequest(
    `cannot evaluate ${call.arguments.functionName}: both lists need as many series: ${first.length} and ${second.length}`,
  );
}

const pairwise = (name: string, reducerName: string, description: string): FunctionRow =>
  functionRow(
    'Combine',
    name,
    description,
    pairParameters,
    (call) => aggregatePairs(call, reducerName, null),
    { isAggregator: true },
  );

/** One series divided by another; null in place of the divisor leaves no values. */
async function quotient(call: Call, dividend: Series, divisor: Series): Promise<Series> {
  const grid = await normalize([dividend, divisor], call);
  const [above, below] = grid.series as [Series, Series];
  const divide = (a: number, b: number): number | null => (b === 0 ? null : a / b);
  const columns = await joinRows(above, below, grid.length, divide, call);
  if (call.work.spend(4 * grid.length)) await call.work.pause();
  const name = `divideSeries(${dividend.name},${divisor.name})`;
  const { startSeconds, endSeconds, stepSeconds } = grid;
  return newSeries(name, startSeconds, endSeconds, stepSeconds, columns, call.xFilesFactor);
}

async function divideSeries(call: Call): Promise<readonly Series[]> {
  const dividends = await call.list('dividendSeriesList');
  const divisors = await call.list('divisorSeries');
  if (divisors.length > 1) {
    throw badRequest(
      `cannot evaluate divideSeries: divisorSeries has to be one series: ${divisors.length}`,
    );
  }
  const results: Series[] = [];
  for (const dividend of dividends) {
    const [divisor] = divisors;
    if (divisor !== undefined) results.push(await quotient(call, dividend, divisor));
    else {
      const columns = await madeColumns(dividend.values.length, call);
      results.push(renamed(dividend, `divideSeries(${dividend.name},MISSING)`, columns));
    }
  }
  return results;
}

async function divideSeriesLists(call: Call): Promise<readonly Series[]> {
  const dividends = await call.list('dividendSeriesList');
  const divisors = await call.list('divisorSeriesList');
  checkLengths(call, dividends, divisors);
  const results: Series[] = [];
  for (const [index, dividend] of dividends.entries()) {
    results.push(await quotient(call, dividend, divisors[index]!));
    if (call.work.spend(1_000)) await call.work.pause();
  }
  return results;
}

export const listRows: readonly FunctionRow[] = [
  functionRow(
    'Combine',
    'aggregateSeriesLists',
    'Pairs of two lists, each pair by an aggregation',
    [...pairParameters, required('func', 'aggFunc'), optional('xFilesFactor', 'float')],
    (call) =>
      aggregatePairs(
        call,
        call.arguments.text('func'),
        call.arguments.optionalNumber('xFilesFactor'),
      ),
  ),
  pairwise('diffSeriesLists', 'diff', 'Series of one list less those of another'),
  functionRow(
    'Combine',
    'divideSeries',
    'Series divided by one other series',
    [required('dividendSeriesList', 'seriesList'), required('divisorSeries', 'seriesList')],
    divideSeries,
  ),
  functionRow(
    'Combine',
    'divideSeriesLists',
    'Series of one list divided by those of another',
    [required('dividendSeriesList', 'seriesList'), required('divisorSeriesList', 'seriesList')],
    divideSeriesLists,
  ),
  pairwise('multiplySeriesLists', 'multiply', 'Series of one list times those of another'),
  pairwise('sumSeriesLists', 'sum', 'Series of one list and those of another added up'),
];
