/** Series in an order, and the first of them. */
import { compareTexts } from '#lib/text_order.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import type { Call } from '../../calls/call.ts';
import { optional, required, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { presentCount, reduceAll } from '../../series/reduce.ts';
import { reducerNamed } from '../../math/reducers.ts';
import type { Series } from '../../series/series.ts';

/** In the order of their keys, series of one key as they were; what has none is below all numbers. */
async function sortedBy(
  call: Call,
  list: readonly Series[],
  keyOf: (series: Series) => Promise<number | null>,
  isDescending: boolean,
): Promise<Series[]> {
  const keys = (await call.keys(list, keyOf)).map((key) => key ?? -Infinity);
  const order = list.map((_series, index) => index);
  const sign = isDescending ? -1 : 1;
  const compare = (a: number, b: number) => sign * compareNumbers(keys[a]!, keys[b]!);
  return (await sortPaced(order, compare, call.work)).map((index) => list[index]!);
}

function compareNumbers(a: number, b: number): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

async function sortedByReducer(
  call: Call,
  reducerName: string,
  isDescending: boolean,
): Promise<Series[]> {
  const reducer = reducerNamed(reducerName)!;
  const keyOf = (series: Series) => reduceAll(series, reducer, call);
  return await sortedBy(call, await call.list(), keyOf, isDescending);
}

/** A negative count leaves out so many at the end. */
async function firstOf(
  call: Call,
  reducerName: string,
  isDescending: boolean,
): Promise<readonly Series[]> {
  const sorted = await sortedByReducer(call, reducerName, isDescending);
  return sorted.slice(0, call.arguments.number('n'));
}

const ranked = (
  name: string,
  reducerName: string | null,
  isDescending: boolean,
  description: string,
): FunctionRow => {
  const n = reducerName === null ? optional('n', 'integer', 1) : required('n', 'integer');
  const func = optional('func', 'aggFunc', 'average');
  return functionRow(
    'Filter Series',
    name,
    description,
    reducerName === null ? [seriesList, n, func] : [seriesList, n],
    (call) => firstOf(call, reducerName ?? call.arguments.text('func'), isDescending),
  );
};

const sorting = (name: string, reducerName: string, description: string): FunctionRow =>
  functionRow('Sorting', name, description, [seriesList], (call) =>
    sortedByReducer(call, reducerName, true),
  );

/** Series without a value above 0 are left out. */
async function sortByMinima(call: Call): Promise<readonly Series[]> {
  const max = reducerNamed('max')!;
  const min = reducerNamed('min')!;
  const list = await call.filter(
    await call.list(),
    async (series) => ((await reduceAll(series, max, call)) ?? 0) > 0,
  );
  return await sortedBy(call, list, (series) => reduceAll(series, min, call), false);
}

async function sortByName(call: Call): Promise<readonly Series[]> {
  const isNatural = call.arguments.flag('natural');
  const sign = call.arguments.flag('reverse') ? -1 : 1;
  const list = await call.list();
  const keys = await call.keys(list, ({ name }) => (isNatural ? naturalKey(name) : name));
  const order = list.map((_series, index) => index);
  const compare = (a: number, b: number) => sign * compareTexts(keys[a]!, keys[b]!);
  return (await sortPaced(order, compare, call.work)).map((index) => list[index]!);
}

/** Numbers in it with ten digits, so that they are sorted by size. */
function naturalKey(name: string): string {
  return name.replace(/\d+/g, (digits) => digits.replace(/^0+(?=\d)/, '').padStart(10, '0'));
}

async function mostDeviant(call: Call): Promise<readonly Series[]> {
  const stddev = reducerNamed('stddev')!;
  const list = await call.filter(
    await call.list(),
    async (series) => (await presentCount(series, call.work)) > 0,
  );
  const sorted = await sortedBy(call, list, (series) => reduceAll(series, stddev, call), true);
  return sorted.slice(0, call.arguments.number('n'));
}

async function limit(call: Call): Promise<readonly Series[]> {
  return (await call.list()).slice(0, call.arguments.number('n'));
}

export const byRankRows: readonly FunctionRow[] = [
  ranked('highest', null, true, 'The first series by an aggregation, from the greatest down'),
  ranked('highestAverage', 'average', true, 'The series with the greatest means'),
  ranked('highestCurrent', 'current', true, 'The series with the greatest last values'),
  ranked('highestMax', 'max', true, 'The series with the greatest values'),
  functionRow(
    'Filter Series',
    'limit',
    'The first series',
    [seriesList, required('n', 'integer')],
    limit,
  ),
  ranked('lowest', null, false, 'The first series by an aggregation, from the least up'),
  ranked('lowestAverage', 'average', false, 'The series with the least means'),
  ranked('lowestCurrent', 'current', false, 'The series with the least last values'),
  functionRow(
    'Filter Series',
    'mostDeviant',
    'The series with the greatest standard deviations',
    [seriesList, required('n', 'integer')],
    mostDeviant,
  ),
  functionRow(
    'Sorting',
    'sortBy',
    'Series in the order of what they come to by an aggregation',
    [seriesList, optional('func', 'aggFunc', 'average'), optional('reverse', 'boolean', false)],
    (call) => sortedByReducer(call, call.arguments.text('func'), call.arguments.flag('reverse')),
  ),
  sorting('sortByMaxima', 'max', 'Series in the order of their greatest values, from the top down'),
  functionRow(
    'Sorting',
    'sortByMinima',
    'Series with values above 0 in the order of their least values',
    [seriesList],
    sortByMinima,
  ),
  functionRow(
    'Sorting',
    'sortByName',
    'Series in the order of their names, if wanted with numbers in them by size',
    [seriesList, optional('natural', 'boolean', false), optional('reverse', 'boolean', false)],
    sortByName,
  ),
  sorting('sortByTotal', 'sum', 'Series in the order of their sums, from the top down'),
];
