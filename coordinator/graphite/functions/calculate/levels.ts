/** One value of a whole series, and how far values are spread. */
import type { Call } from '../../calls/call.ts';
import { optional, required, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { floatText, shortNumber, wholeNumber } from '../../words/number_text.ts';
import { percentileOfRows } from '../../series/percentile.ts';
import { reduceAll } from '../../series/reduce.ts';
import { reducerNamed } from '../../math/reducers.ts';
import { constantColumns, inParts, madeColumns } from '../../series/making.ts';
import { type Columns, newSeries, renamed, type Series, tagged } from '../../series/series.ts';

/** A percentile of each series, as a line; series without values are left out. */
async function nPercentile(call: Call): Promise<readonly Series[]> {
  const percent = call.arguments.number('n');
  if (percent === 0) throw call.arguments.error('n', 'has to be above 0', percent);
  const results: Series[] = [];
  for (const series of await call.list()) {
    const value = await percentileOfRows(series, percent, call);
    if (call.work.spend(50 * series.values.length)) await call.work.pause();
    if (value === null) continue;
    const length = Math.trunc((series.endSeconds - series.startSeconds) / series.stepSeconds);
    results.push(
      renamed(series, `nPercentile(${series.name}, ${shortNumber(percent)})`, {
        ...(await constantColumns(length, value, call)),
        tags: tagged(series, ['nPercentile', floatText(percent)]),
      }),
    );
  }
  return results;
}

/** A line through the whole window, of three rows unless the step is kept. */
async function aggregateLine(call: Call): Promise<readonly Series[]> {
  const reducer = reducerNamed(call.arguments.text('func'))!;
  const keepsStep = call.arguments.flag('keepStep');
  const { fromSeconds, untilSeconds } = call.window;
  return await call.map(await call.list(), async (series) => {
    const value = await reduceAll(series, reducer, call);
    const name = `aggregateLine(${series.name}, ${value === null ? 'None' : shortNumber(value)})`;
    const rows = keepsStep ? series.values.length : 3;
    const columns =
      value === null ? await madeColumns(rows, call) : await constantColumns(rows, value, call);
    if (keepsStep) return renamed(series, name, columns);
    const step = Math.max(1, Math.trunc((untilSeconds - fromSeconds) / 2));
    const line = newSeries(name, fromSeconds, untilSeconds, step, columns, call.xFilesFactor);
    return { ...line, tags: new Map([['name', value === null ? 'None' : floatText(value)]]) };
  });
}

/** Of the last rows; a window that is not full yet counts by what is in it. */
async function stdev(call: Call): Promise<readonly Series[]> {
  const points = call.arguments.number('points');
  if (points <= 0) throw call.arguments.error('points', 'has to be above 0', points);
  const tolerance = call.arguments.number('windowTolerance');
  return await call.map(await call.list(), async (series) =>
    renamed(series, `stdev(${series.name},${wholeNumber(points)})`, {
      ...(await deviations(call, series, points, tolerance)),
      tags: tagged(series, ['stdev', wholeNumber(points)]),
    }),
  );
}

async function deviations(
  call: Call,
  { values, present }: Series,
  points: number,
  tolerance: number,
): Promise<Columns> {
  const columns = await madeColumns(values.length, call);
  const window = { count: 0, sum: 0, squares: 0 };
  await inParts(values.length, call.work, (first, past) => {
    let { count, sum, squares } = window;
    for (let i = first; i < past; i++) {
      const dropped = i - points;
      if (dropped >= 0 && present[dropped] === 1) {
        count -= 1;
        sum -= values[dropped]!;
        squares -= values[dropped]! ** 2;
      }
      if (present[i] === 1) {
        count += 1;
        sum += values[i]!;
        squares += values[i]! ** 2;
      }
      if (count === 0 || count / points < tolerance) continue;
      const variance = count * squares - sum ** 2;
      // Below 0 by lost digits alone.
      if (variance < 0) continue;
      columns.values[i] = Math.sqrt(variance) / count;
      columns.present[i] = 1;
    }
    Object.assign(window, { count, sum, squares });
  });
  return columns;
}

export const levelRows: readonly FunctionRow[] = [
  functionRow(
    'Calculate',
    'aggregateLine',
    'A line at what a series comes to by an aggregation',
    [seriesList, optional('func', 'aggFunc', 'average'), optional('keepStep', 'boolean', false)],
    aggregateLine,
  ),
  functionRow(
    'Calculate',
    'nPercentile',
    'A line at a percentile of each series',
    [seriesList, required('n', 'float')],
    nPercentile,
  ),
  functionRow(
    'Calculate',
    'stdev',
    'The standard deviation of the last rows',
    [seriesList, required('points', 'integer'), optional('windowTolerance', 'float', 0.1)],
    stdev,
  ),
];
