/** Series in groups, by nodes of their names or by tags; each group becomes one. */
import { badRequest } from '#lib/errors.ts';
import { compareTexts } from '#lib/text_order.ts';
import { type Call, plainList } from '../../calls/call.ts';
import { oneOrMore, optional, required, seriesList, zeroOrMore } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { groupByKey, keyOf, type NodeOrTag, tagOf } from '../../series/nodes.ts';
import { type Series, SeriesGroups, tagsOfName } from '../../series/series.ts';
import { fillIn } from '../../words/fill_in.ts';
import { aggregateSeries } from './aggregate.ts';

/** Characters of all targets that `applyByNode` makes. */
const madeTextsMax = 16_777_216;

/** The series of a group, by a function that combines or by a reducer. */
async function combined(
  call: Call,
  list: readonly Series[],
  callback: string,
): Promise<Series | null> {
  if (!call.host.isAggregator(callback)) return await aggregateSeries(call, list, callback);
  const result = await call.host.apply(callback, [list], call.window);
  return plainList(result, callback)[0] ?? null;
}

/** Each group as one series that has the group's key as its name. */
async function combineGroups(
  call: Call,
  groups: ReadonlyMap<string, readonly Series[]>,
  callback: string,
): Promise<Series[]> {
  const results: Series[] = [];
  for (const [name, list] of groups) {
    const series = await combined(call, list, callback);
    if (series !== null) results.push({ ...series, name });
    if (call.work.spend(500)) await call.work.pause();
  }
  return results;
}

async function groupByNodes(
  call: Call,
  nodes: readonly NodeOrTag[],
  callback: string,
): Promise<readonly Series[]> {
  const list = await call.list();
  return await combineGroups(
    call,
    await groupByKey(list, (each) => keyOf(each, nodes), call.work),
    callback,
  );
}

async function groupByTags(call: Call): Promise<readonly Series[]> {
  const tags = call.arguments.texts('tags');
  const callback = call.arguments.text('callback');
  const list = await call.list();
  const names = new Set(list.map((series) => series.tags.get('name') ?? ''));
  const common = names.size === 1 ? [...names][0]! : callback;
  const others = tags.filter((tag) => tag !== 'name');
  const key = (series: Series) => {
    const name = tags.includes('name') ? (series.tags.get('name') ?? '') : common;
    const pairs = others.map((tag) => `${tag}=${tagOf(series, tag)}`);
    return [name, ...pairs.sort(compareTexts)].join(';');
  };
  const results = await combineGroups(call, await groupByKey(list, key, call.work), callback);
  return results.map((series) => ({
    ...series,
    pathExpression: series.name,
    tags: tagsOfName(series.name),
  }));
}

async function withWildcards(
  call: Call,
  reducerName: string,
  positions: readonly number[],
): Promise<readonly Series[]> {
  const list = await call.list();
  const left = (name: string) =>
    name
      .split('.')
      .filter((_node, index) => !positions.includes(index))
      .join('.');
  return await combineGroups(
    call,
    await groupByKey(list, (each) => left(each.name), call.work),
    reducerName,
  );
}

const wildcards = (name: string, reducerName: string, description: string): FunctionRow =>
  functionRow(
    'Combine',
    name,
    description,
    [seriesList, zeroOrMore('position', 'node')],
    (call) => withWildcards(call, reducerName, call.arguments.numbers('position')),
    { isAggregator: true },
  );

async function mapSeries(call: Call): Promise<SeriesGroups> {
  const nodes = call.arguments.nodes('mapNodes');
  const list = await call.list();
  return new SeriesGroups([
    ...(await groupByKey(list, (each) => keyOf(each, nodes), call.work)).values(),
  ]);
}

async function reduceSeries(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const functionName = args.text('reduceFunction');
  const node = args.number('reduceNode');
  const matchers = args.texts('reduceMatchers');
  const found = new Map<string, (Series | undefined)[]>();
  for (const list of await call.groups('seriesLists')) {
    for (const series of list) {
      const nodes = series.name.split('.');
      if (call.work.spend(500)) await call.work.pause();
      const place = matchers.indexOf(nodes.at(node) ?? '');
      if (place < 0) continue;
      const name = `${nodes.slice(0, node).join('.')}.reduce.${functionName}`;
      const parts =
        found.get(name) ?? new Array<Series | undefined>(matchers.length).fill(undefined);
      found.set(name, parts);
      parts[place] = series;
    }
  }
  const results: Series[] = [];
  for (const [name, parts] of found) {
    const lists = parts.map((series) => (series === undefined ? [] : [series]));
    const result = await call.host.apply(functionName, lists, call.window);
    const [series] = plainList(result, functionName);
    if (series !== undefined) results.push({ ...series, name });
    if (call.work.spend(500)) await call.work.pause();
  }
  return results;
}

async function applyByNode(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const node = args.number('nodeNum');
  const template = args.text('templateFunction');
  const newName = args.optionalText('newName');
  const list = await call.list();
  const prefixes = new Set<string>();
  for (const { name } of list) {
    const nodes = name.split('.');
    if (node >= nodes.length) {
      throw badRequest(`cannot evaluate applyByNode: nodeNum is behind the last node: ${name}`);
    }
    prefixes.add(nodes.slice(0, node + 1).join('.'));
  }
  const sorted = [...prefixes].sort(compareTexts);
  const texts: string[] = [];
  let characters = 0;
  for (const prefix of sorted) {
    const text = fillIn(template, '%', prefix);
    characters += text.length;
    if (characters > madeTextsMax) {
      throw args.error(
        'templateFunction',
        `comes to more than ${madeTextsMax} characters for ${sorted.length} nodes`,
        template,
      );
    }
    texts.push(text);
    if (call.work.spend(500 + text.length)) await call.work.pause();
  }
  const lists = await call.host.evaluateTexts(texts, call.window);
  const last = list.at(-1);
  return lists.flatMap((series, index) =>
    series.map((each) => ({
      ...each,
      name: newName === null ? each.name : fillIn(newName, '%', sorted[index]!),
      pathExpression: sorted[index]!,
      startSeconds: last!.startSeconds,
      endSeconds: last!.endSeconds,
    })),
  );
}

export const groupRows: readonly FunctionRow[] = [
  functionRow(
    'Combine',
    'aggregateWithWildcards',
    'Series whose names differ in some nodes alone become one, by an aggregation',
    [seriesList, required('func', 'aggFunc'), zeroOrMore('position', 'node')],
    (call) => withWildcards(call, call.arguments.text('func'), call.arguments.numbers('position')),
  ),
  functionRow(
    'Combine',
    'applyByNode',
    'A target for each beginning of the names of series',
    [
      seriesList,
      required('nodeNum', 'node'),
      required('templateFunction', 'string'),
      optional('newName', 'string'),
    ],
    applyByNode,
  ),
  wildcards(
    'averageSeriesWithWildcards',
    'average',
    'The mean of series whose names differ in some nodes alone',
  ),
  functionRow(
    'Combine',
    'groupByNode',
    'One series for each value of a node or tag',
    [
      seriesList,
      required('nodeNum', 'nodeOrTag'),
      optional('callback', 'aggOrSeriesFunc', 'average'),
    ],
    (call) => groupByNodes(call, call.arguments.nodes('nodeNum'), call.arguments.text('callback')),
  ),
  functionRow(
    'Combine',
    'groupByNodes',
    'One series for each combination of values of some nodes or tags',
    [seriesList, required('callback', 'aggOrSeriesFunc'), zeroOrMore('nodes', 'nodeOrTag')],
    (call) => groupByNodes(call, call.arguments.nodes('nodes'), call.arguments.text('callback')),
  ),
  functionRow(
    'Combine',
    'groupByTags',
    'One series for each combination of values of some tags',
    [seriesList, required('callback', 'aggOrSeriesFunc'), oneOrMore('tags', 'tag')],
    groupByTags,
  ),
  functionRow(
    'Combine',
    'mapSeries',
    'Lists of the series that have the same nodes or tags, for reduceSeries',
    [seriesList, oneOrMore('mapNodes', 'nodeOrTag')],
    mapSeries,
    { aliases: ['map'] },
  ),
  wildcards(
    'multiplySeriesWithWildcards',
    'multiply',
    'The product of series whose names differ in some nodes alone',
  ),
  functionRow(
    'Combine',
    'reduceSeries',
    'A function over the series of each list that have certain values of a node',
    [
      required('seriesLists', 'seriesLists'),
      required('reduceFunction', 'string'),
      required('reduceNode', 'node'),
      oneOrMore('reduceMatchers', 'string'),
    ],
    reduceSeries,
    { aliases: ['reduce'] },
  ),
  wildcards(
    'sumSeriesWithWildcards',
    'sum',
    'The sum of series whose names differ in some nodes alone',
  ),
];
