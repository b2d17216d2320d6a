/** Names of series, as legends show them. */
import { badRequest, shownText } from '#lib/errors.ts';
import type { Call } from '../../calls/call.ts';
import { oneOrMore, optional, required, seriesList, zeroOrMore } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { keyOf } from '../../series/nodes.ts';
import { formatted } from '../../words/formatted.ts';
import { lastValue, type Series } from '../../series/series.ts';
import { replaceInNames } from '../../words/substitution.ts';

async function named(
  call: Call,
  nameOf: (series: Series) => string,
  list?: readonly Series[],
): Promise<readonly Series[]> {
  const rename = (series: Series): Series => ({ ...series, name: nameOf(series) });
  return await call.map(list ?? (await call.list()), rename, 0);
}

async function alias(call: Call): Promise<readonly Series[]> {
  const name = call.arguments.text('newName');
  return await named(call, () => name);
}

async function aliasByNodes(call: Call, parameter: string): Promise<readonly Series[]> {
  const nodes = call.arguments.nodes(parameter);
  return await named(call, (series) => keyOf(series, nodes));
}

async function aliasSub(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const list = await call.list();
  const names = await replaceInNames(
    list.map((series) => series.name),
    args.text('search'),
    args.text('replace'),
    call.work,
  );
  return list.map((series, index) => ({ ...series, name: names[index]! }));
}

/** The last value of another series, by a name that a regexp makes of each series' own. */
async function aliasQuery(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const list = await call.list();
  const texts = await replaceInNames(
    list.map((series) => series.name),
    args.text('search'),
    args.text('replace'),
    call.work,
  );
  const answers = await call.host.evaluateTexts(texts, call.window);
  return list.map((series, index) => {
    const [answer] = answers[index]!;
    const value = answer === undefined ? null : lastValue(answer);
    if (value === null) {
      const reason = answer === undefined ? 'finds no series' : 'finds a series without values';
      throw badRequest(
        `cannot evaluate aliasQuery: replace ${reason}: ${shownText(texts[index]!)}`,
      );
    }
    return { ...series, name: formatted(args.text('newName'), value) };
  });
}

/** Nodes of what is innermost in a name. */
function nodesOf(name: string, start: number, stop: number): string {
  const open = name.lastIndexOf('(') + 1;
  const close = name.indexOf(')');
  const inner = name.slice(open, close < 0 ? undefined : close);
  const nodes = inner.split('.').slice(start, stop === 0 ? undefined : stop);
  return nodes.join('.').replace(/,[^]*$/, '');
}

async function substr(call: Call): Promise<readonly Series[]> {
  const start = call.arguments.number('start');
  const stop = call.arguments.number('stop');
  return await named(call, (series) => nodesOf(series.name, start, stop));
}

async function inCase(call: Call, change: (text: string) => string): Promise<readonly Series[]> {
  const positions = call.arguments.numbers('pos');
  if (positions.length === 0) return await named(call, (series) => change(series.name));
  return await named(call, (series) => {
    const characters = Array.from(series.name);
    for (const position of positions) {
      const index = position < 0 ? characters.length + position : position;
      const character = characters[index];
      if (character !== undefined) characters[index] = change(character);
    }
    return characters.join('');
  });
}

const positions = zeroOrMore('pos', 'integer');

export const nameRows: readonly FunctionRow[] = [
  functionRow(
    'Alias',
    'alias',
    'Another name for all series',
    [seriesList, required('newName', 'string')],
    alias,
  ),
  functionRow(
    'Alias',
    'aliasByMetric',
    'The last node of the name',
    [seriesList],
    async (call) => await named(call, (series) => nodesOf(series.name, -1, 0)),
  ),
  functionRow(
    'Alias',
    'aliasByNode',
    'Some nodes or tags as the name',
    [seriesList, oneOrMore('nodes', 'nodeOrTag')],
    (call) => aliasByNodes(call, 'nodes'),
  ),
  functionRow(
    'Alias',
    'aliasByTags',
    'Some tags or nodes as the name',
    [seriesList, oneOrMore('tags', 'nodeOrTag')],
    (call) => aliasByNodes(call, 'tags'),
  ),
  functionRow(
    'Alias',
    'aliasQuery',
    'A name with the last value of another series in it',
    [
      seriesList,
      required('search', 'string'),
      required('replace', 'string'),
      required('newName', 'string'),
    ],
    aliasQuery,
  ),
  functionRow(
    'Alias',
    'aliasSub',
    'Names changed by a regexp',
    [seriesList, required('search', 'string'), required('replace', 'string')],
    aliasSub,
  ),
  functionRow(
    'Alias',
    'lower',
    'Names, or some of their characters, in lower case',
    [seriesList, positions],
    (call) => inCase(call, (text) => text.toLowerCase()),
  ),
  functionRow(
    'Special',
    'substr',
    'Nodes of the name from one to another',
    [seriesList, optional('start', 'node', 0), optional('stop', 'node', 0)],
    substr,
  ),
  functionRow(
    'Alias',
    'upper',
    'Names, or some of their characters, in upper case',
    [seriesList, positions],
    (call) => inCase(call, (text) => text.toUpperCase()),
  ),
];
