/** How series are read and put together, and what is there when there are none. */
import { badRequest } from '#lib/errors.ts';
import type { Call } from '../../calls/call.ts';
import { oneOrMore, required, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { type ConsolidationName, consolidationNames } from '../../series/consolidation_name.ts';
import { floatText } from '../../words/number_text.ts';
import { renamed, type Series, tagged } from '../../series/series.ts';

async function consolidateBy(
  call: Call,
  consolidation: ConsolidationName,
): Promise<readonly Series[]> {
  return await call.map(await call.list(), (series) =>
    renamed(series, `consolidateBy(${series.name},"${consolidation}")`, {
      consolidation,
      tags: tagged(series, ['consolidateBy', consolidation]),
    }),
  );
}

/** It holds for what is evaluated after it in the target, too. */
async function setXFilesFactor(call: Call): Promise<readonly Series[]> {
  const xFilesFactor = call.arguments.number('xFilesFactor');
  const list = await call.list();
  call.host.state.xFilesFactor = xFilesFactor;
  return await call.map(list, (series) => ({
    ...series,
    xFilesFactor,
    tags: tagged(series, ['xFilesFactor', floatText(xFilesFactor)]),
  }));
}

async function fallbackSeries(call: Call): Promise<readonly Series[]> {
  const list = await call.list();
  return list.length > 0 ? list : await call.list('fallback');
}

export const settingRows: readonly FunctionRow[] = [
  functionRow(
    'Special',
    'consolidateBy',
    'How rows are put together where there have to be fewer',
    [seriesList, required('consolidationFunc', 'string', consolidationNames)],
    (call) => {
      const wanted = call.arguments.text('consolidationFunc');
      return consolidateBy(call, consolidationNames.find((each) => each === wanted)!);
    },
  ),
  functionRow(
    'Special',
    'cumulative',
    'Rows added up where there have to be fewer',
    [seriesList],
    (call) => consolidateBy(call, 'sum'),
  ),
  functionRow(
    'Special',
    'fallbackSeries',
    'Other series where there are none',
    [seriesList, required('fallback', 'seriesList')],
    fallbackSeries,
  ),
  functionRow(
    'Special',
    'seriesByTag',
    'Series by their tags',
    [oneOrMore('tagExpressions', 'string')],
    // It reads: what evaluates targets does that itself.
    async () => {
      throw badRequest('cannot evaluate seriesByTag: takes no series');
    },
  ),
  functionRow(
    'Special',
    'setXFilesFactor',
    'The least share of values for a row that is made of several',
    [seriesList, required('xFilesFactor', 'float')],
    setXFilesFactor,
    { aliases: ['xFilesFactor'] },
  ),
];
