/** Series become one, or one for each combination of some tags; these tags are all that is left of theirs. */
import { Arguments, type Argument } from '../../graphite/calls/arguments.ts';
import { Call, plainList } from '../../graphite/calls/call.ts';
import { groupByKey } from '../../graphite/series/nodes.ts';
import type { Series } from '../../graphite/series/series.ts';
import { graphiteRow, made } from '../calls/functions.ts';
import { may, needs, type ScriptFunction, several } from '../calls/parameters.ts';
import { keyOfTags, pickedTags, withTags } from '../series/tags.ts';

/** @param literals of Graphite's function, by its parameters @param list parameter that takes the series of a group */
async function aggregate(
  call: Call,
  graphiteName: string,
  list: string,
  literals: readonly (readonly [string, Argument])[] = [],
): Promise<readonly Series[]> {
  const row = graphiteRow(graphiteName);
  const tags = call.arguments.texts('tags');
  const all = [...(await call.list()), ...(await call.list('tags'))];
  const groups = await groupByKey(all, (series) => keyOfTags(series, tags), call.work);
  const results: Series[] = [];
  for (const group of groups.values()) {
    const values = new Map<string, readonly Argument[]>([
      [list, [{ kind: 'series', list: group }]],
    ]);
    for (const [name, literal] of literals) values.set(name, [literal]);
    const args = new Arguments(call.arguments.functionName, row.parameters, values);
    const result = await row.evaluate(new Call(args, call.window, call.host));
    const [series] = plainList(result, graphiteName);
    if (series !== undefined) results.push(withTags(series, pickedTags(group[0]!, tags)));
    if (call.work.spend(500)) await call.work.pause();
  }
  return results;
}

const tagsAndSeries = several('tags', 'tagOrSeries');

function aggregating(names: string, graphiteName: string): ScriptFunction {
  return made(names, [tagsAndSeries], (call) => aggregate(call, graphiteName, 'seriesLists'));
}

async function percentileOfSeries(call: Call): Promise<readonly Series[]> {
  const n: Argument = { kind: 'literal', value: call.arguments.number('n') };
  const interpolate: Argument = { kind: 'literal', value: call.arguments.flag('interpolate') };
  return await aggregate(call, 'percentileOfSeries', 'seriesList', [
    ['n', n],
    ['interpolate', interpolate],
  ]);
}

export const aggregateFunctions: readonly ScriptFunction[] = [
  aggregating('avg averageSeries', 'averageSeries'),
  aggregating('count', 'countSeries'),
  aggregating('diff', 'diffSeries'),
  aggregating('max maxSeries', 'maxSeries'),
  aggregating('min minSeries', 'minSeries'),
  aggregating('multiply multiplySeries', 'multiplySeries'),
  made(
    'percentileOfSeries',
    [needs('n', 'percentile'), may('interpolate', 'boolean'), tagsAndSeries],
    percentileOfSeries,
  ),
  aggregating('range', 'rangeOfSeries'),
  aggregating('sum sumSeries', 'sumSeries'),
];
