/** Series that are kept for their names. */
import { SearchRegexp } from '#lib/regexp/regexp.ts';
import type { Call } from '../../calls/call.ts';
import { required, seriesList, seriesLists } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { replaceInNames } from '../../words/substitution.ts';
import { presentCount, reduceAll } from '../../series/reduce.ts';
import { reducerNamed } from '../../math/reducers.ts';
import type { Series } from '../../series/series.ts';

async function matching(call: Call, isKept: boolean): Promise<readonly Series[]> {
  const regexp = new SearchRegexp(call.arguments.text('pattern'));
  const kept: Series[] = [];
  for (const series of await call.list()) {
    if (call.work.spend(regexp.unitsMax(series.name.length))) await call.work.pause();
    if (regexp.test(series.name) === isKept) kept.push(series);
  }
  return kept;
}

async function unique(call: Call): Promise<readonly Series[]> {
  const byName = new Map<string, Series>();
  for (const series of await call.list('seriesLists')) {
    if (!byName.has(series.name)) byName.set(series.name, series);
  }
  return [...byName.values()];
}

/** Other series, by the names of those that have a value above a number. */
async function useSeriesAbove(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const value = args.number('value');
  const max = reducerNamed('max')!;
  // A series with gaps counts as one without values above anything, as it does in Graphite.
  const above = await call.filter(await call.list(), async (series) => {
    const greatest = await reduceAll(series, max, call);
    const isWhole = (await presentCount(series, call.work)) === series.values.length;
    return isWhole && greatest !== null && greatest > value;
  });
  const names = above.map((series) => series.name);
  const texts = await replaceInNames(names, args.text('search'), args.text('replace'), call.work);
  const lists = await call.host.evaluateTexts(texts, call.window);
  return lists.flat().filter(({ values }) => values.length > 0);
}

export const byNameRows: readonly FunctionRow[] = [
  functionRow(
    'Filter Series',
    'exclude',
    'Series whose names a regexp does not match',
    [seriesList, required('pattern', 'string')],
    (call) => matching(call, false),
  ),
  functionRow(
    'Filter Series',
    'grep',
    'Series whose names a regexp matches',
    [seriesList, required('pattern', 'string')],
    (call) => matching(call, true),
  ),
  functionRow('Filter Series', 'unique', 'The first series of each name', [seriesLists], unique),
  functionRow(
    'Filter Series',
    'useSeriesAbove',
    'Series by the names of others that have a value above a number, changed by a regexp',
    [
      seriesList,
      required('value', 'float'),
      required('search', 'string'),
      required('replace', 'string'),
    ],
    useSeriesAbove,
  ),
];
