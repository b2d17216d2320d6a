/** Series that are made of nothing but the window. */
import type { Call } from '../../calls/call.ts';
import { oneOrMore, optional, required } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { floatText } from '../../words/number_text.ts';
import { inParts, madeColumns } from '../../series/making.ts';
import { newColumns, newSeries, type Series } from '../../series/series.ts';
import { parseTime } from '../../time/attime.ts';

/** Rows from the beginning of the window up to its end, by the Unix seconds of each. */
async function rowsOfWindow(
  call: Call,
  step: number,
  valueAt: (seconds: number) => number,
): Promise<Series> {
  const { fromSeconds, untilSeconds } = call.window;
  const length = Math.max(0, Math.ceil((untilSeconds - fromSeconds) / step));
  const columns = await madeColumns(length, call);
  await inParts(length, call.work, (first, past) => {
    columns.present.fill(1, first, past);
    for (let i = first; i < past; i++) columns.values[i] = valueAt(fromSeconds + i * step);
  });
  const name = call.arguments.text('name');
  return newSeries(name, fromSeconds, untilSeconds, step, columns, call.xFilesFactor);
}

function stepOf(call: Call): number {
  const step = call.arguments.number('step');
  if (step <= 0) throw call.arguments.error('step', 'has to be above 0', step);
  return step;
}

async function identity(call: Call): Promise<readonly Series[]> {
  const series = await rowsOfWindow(call, 60, (seconds) => seconds);
  return [{ ...series, pathExpression: `identity("${series.name}")` }];
}

async function time(call: Call): Promise<readonly Series[]> {
  return [await rowsOfWindow(call, stepOf(call), (seconds) => Math.floor(seconds))];
}

async function sin(call: Call): Promise<readonly Series[]> {
  const amplitude = call.arguments.number('amplitude');
  const valueAt = (seconds: number): number => Math.sin(Math.floor(seconds)) * amplitude;
  return [await rowsOfWindow(call, stepOf(call), valueAt)];
}

async function randomWalk(call: Call): Promise<readonly Series[]> {
  let value = 0;
  return [
    await rowsOfWindow(call, stepOf(call), () => {
      const current = value;
      value += call.host.random() - 0.5;
      return current;
    }),
  ];
}

/** Three rows: the ends of the window and its middle. */
function line(call: Call, value: number): Series {
  const { fromSeconds, untilSeconds } = call.window;
  const step = Math.max(1, Math.trunc((untilSeconds - fromSeconds) / 2));
  const columns = newColumns(3);
  columns.values.fill(value);
  columns.present.fill(1);
  const name = floatText(value);
  const series = newSeries(name, fromSeconds, untilSeconds, step, columns, call.xFilesFactor);
  return { ...series, pathExpression: `constantLine(${name})` };
}

async function constantLine(call: Call): Promise<readonly Series[]> {
  return [line(call, call.arguments.number('value'))];
}

async function threshold(call: Call): Promise<readonly Series[]> {
  const series = line(call, call.arguments.number('value'));
  const label = call.arguments.optionalText('label');
  return [{ ...series, name: label ?? series.name, options: colorOf(call) }];
}

function colorOf(call: Call): { color?: string } {
  const color = call.arguments.optionalText('color');
  return color === null ? {} : { color };
}

async function verticalLine(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const seconds = parseTime(args.text('ts'), call.host.time);
  const { fromSeconds, untilSeconds } = call.window;
  if (seconds < fromSeconds) throw args.error('ts', 'is before the window', seconds);
  if (seconds > untilSeconds) throw args.error('ts', 'is behind the window', seconds);
  const columns = newColumns(2);
  columns.values.fill(1);
  columns.present.fill(1);
  const name = args.text('label');
  const series = newSeries(name, seconds, seconds, 1, columns, call.xFilesFactor);
  return [{ ...series, options: { ...colorOf(call), drawAsInfinite: true } }];
}

/** How many events there were in each second. */
async function events(call: Call): Promise<readonly Series[]> {
  const tags = call.arguments.texts('tags');
  const fromSeconds = Math.floor(call.window.fromSeconds);
  const untilSeconds = Math.floor(call.window.untilSeconds);
  const window = { fromSeconds, untilSeconds };
  const length = Math.max(0, untilSeconds - fromSeconds);
  const columns = await madeColumns(length, call);
  const isAll = tags.length === 1 && tags[0] === '*';
  for (const seconds of await call.host.events(isAll ? null : tags, window)) {
    const row = Math.floor(seconds) - fromSeconds;
    if (row < 0 || row >= length) continue;
    columns.values[row] = columns.values[row]! + 1;
    columns.present[row] = 1;
  }
  const name = `events(${tags.map((tag) => `"${tag}"`).join(', ')})`;
  const series = newSeries(name, fromSeconds, untilSeconds, 1, columns, call.xFilesFactor);
  return [{ ...series, consolidation: 'sum' }];
}

const name = required('name', 'string');
const step = optional('step', 'integer', 60);

export const madeRows: readonly FunctionRow[] = [
  functionRow(
    'Special',
    'constantLine',
    'A line at a number',
    [required('value', 'float')],
    constantLine,
  ),
  functionRow(
    'Special',
    'events',
    'How many events with some tags there were in each second',
    [oneOrMore('tags', 'string')],
    events,
  ),
  functionRow('Calculate', 'identity', 'The Unix seconds of each minute', [name], identity),
  functionRow('Special', 'randomWalk', 'A line that goes at random', [name, step], randomWalk, {
    aliases: ['randomWalkFunction'],
  }),
  functionRow(
    'Transform',
    'sin',
    'The sine of the Unix seconds of each row',
    [name, optional('amplitude', 'integer', 1), step],
    sin,
    { aliases: ['sinFunction'] },
  ),
  functionRow(
    'Graph',
    'threshold',
    'A line at a number, with a name and a color',
    [required('value', 'float'), optional('label', 'string'), optional('color', 'string')],
    threshold,
  ),
  functionRow('Transform', 'time', 'The Unix seconds of each row', [name, step], time, {
    aliases: ['timeFunction'],
  }),
  functionRow(
    'Graph',
    'verticalLine',
    'A vertical line at a time',
    [required('ts', 'date'), optional('label', 'string'), optional('color', 'string')],
    verticalLine,
  ),
];
