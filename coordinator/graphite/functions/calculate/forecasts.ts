/** What is expected of series by what came before. */
import type { Arguments } from '../../calls/arguments.ts';
import type { Call } from '../../calls/call.ts';
import { optional, type Parameter, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import type { Window } from '../../calls/window.ts';
import { holtWinters } from '../../series/holt_winters.ts';
import { wholeNumber } from '../../words/number_text.ts';
import { constantColumns, copiedColumns, inParts, madeColumns } from '../../series/making.ts';
import { type Columns, renamed, type Series, tagged } from '../../series/series.ts';
import { parseTime, type TimeContext } from '../../time/attime.ts';

function bootstrapWindow(args: Arguments, window: Window): Window {
  return { ...window, fromSeconds: window.fromSeconds - args.interval('bootstrapInterval') };
}

interface Forecasted {
  readonly series: Series;
  readonly predictions: Columns;
  readonly deviations: Columns;
  /** Of the rows that are asked for. */
  readonly startSeconds: number;
}

/** What is made of the forecasts of all series, without the rows that they were learned from. */
async function forecasts<Made>(
  call: Call,
  make: (forecasted: Forecasted) => Made | Promise<Made>,
): Promise<Awaited<Made>[]> {
  const args = call.arguments;
  const bootstrap = args.interval('bootstrapInterval');
  const list = await call.list('seriesList', bootstrapWindow(args, call.window));
  const results: Awaited<Made>[] = [];
  for (const series of list) {
    const seasonRows = Math.floor(args.interval('seasonality') / series.stepSeconds);
    const rows = Math.max(2, seasonRows);
    const { predictions, deviations } = await holtWinters(series, rows, call);
    const first = Math.floor(bootstrap / series.stepSeconds);
    const forecasted = {
      series,
      predictions: await copiedColumns(predictions, call, first),
      deviations: await copiedColumns(deviations, call, first),
      startSeconds: series.startSeconds + bootstrap,
    };
    results.push(await make(forecasted));
    // Without those of the time that they were learned from.
    call.release(2 * series.values.length);
    if (call.work.spend(500 + 40 * series.values.length)) await call.work.pause();
  }
  return results;
}

async function holtWintersForecast(call: Call): Promise<readonly Series[]> {
  return await forecasts(call, ({ series, predictions, startSeconds }) =>
    renamed(series, `holtWintersForecast(${series.name})`, {
      ...predictions,
      startSeconds,
      consolidation: 'average',
      tags: forecastTags(series),
    }),
  );
}

function forecastTags(series: Series): ReadonlyMap<string, string> {
  return tagged(series, ['holtWintersForecast', '1'], ['holtWintersDeviation', '1']);
}

/** The lower and the upper band of each series. */
async function bandsOf(call: Call): Promise<(readonly [Series, Series])[]> {
  const delta = call.arguments.number('delta');
  return await forecasts(call, async ({ series, predictions, deviations, startSeconds }) => {
    const { length } = predictions.values;
    const lower = await madeColumns(length, call);
    const upper = await madeColumns(length, call);
    await inParts(length, call.work, (first, past) => {
      for (let i = first; i < past; i++) {
        if (predictions.present[i] === 0) continue;
        const distance = delta * deviations.values[i]!;
        lower.values[i] = predictions.values[i]! - distance;
        upper.values[i] = predictions.values[i]! + distance;
        lower.present[i] = upper.present[i] = 1;
      }
    });
    const rest = { startSeconds, consolidation: 'average' as const };
    const tags = new Map([
      ...forecastTags(series),
      ['holtWintersConfidenceUpper', '1'],
      ['holtWintersConfidenceLower', '1'],
    ]);
    const band = (end: string, columns: Columns): Series => ({
      ...series,
      ...columns,
      ...rest,
      name: `holtWintersConfidence${end}(${series.name})`,
      tags,
    });
    return [band('Lower', lower), band('Upper', upper)] as const;
  });
}

async function holtWintersConfidenceBands(call: Call): Promise<readonly Series[]> {
  return (await bandsOf(call)).flat();
}

async function holtWintersConfidenceArea(call: Call): Promise<readonly Series[]> {
  return (await bandsOf(call)).flatMap((bands) =>
    bands.map((band, index) => {
      const name = `holtWintersConfidenceArea(${bands[1].pathExpression})`;
      return renamed(band, name, {
        tags: tagged(band, ['holtWintersConfidenceArea', '1']),
        options: index === 0 ? { stacked: true, invisible: true } : { stacked: true },
      });
    }),
  );
}

/** How far values are outside of the bands, 0 within. */
async function holtWintersAberration(call: Call): Promise<readonly Series[]> {
  const list = await call.list();
  const bands = new Map<string, readonly [Series, Series]>();
  for (const pair of await bandsOf(call)) {
    bands.set(pair[0].name.slice('holtWintersConfidenceLower('.length, -1), pair);
  }
  return await call.map(list, async (series) => {
    const columns = await constantColumns(series.values.length, 0, call);
    const { values } = columns;
    const pair = bands.get(series.name);
    await inParts(values.length, call.work, (first, past) => {
      for (let i = first; pair !== undefined && i < past; i++) {
        const [lower, upper] = pair;
        if (series.present[i] === 0) continue;
        const value = series.values[i]!;
        if (upper.present[i] === 1 && value > upper.values[i]!) {
          values[i] = value - upper.values[i]!;
        } else if (lower.present[i] === 1 && value < lower.values[i]!) {
          values[i] = value - lower.values[i]!;
        }
      }
    });
    return renamed(series, `holtWintersAberration(${series.name})`, {
      ...columns,
      consolidation: 'average',
      tags: tagged(series, ['holtWintersAberration', '1']),
    });
  });
}

/** The window of which the line is found; else the call's own. */
function sourceWindow(args: Arguments, window: Window, time: TimeContext): Window {
  const start = args.optionalText('startSourceAt');
  const end = args.optionalText('endSourceAt');
  return {
    fromSeconds: start === null ? window.fromSeconds : parseTime(start, time),
    untilSeconds: end === null ? window.untilSeconds : parseTime(end, time),
  };
}

async function linearRegression(call: Call): Promise<readonly Series[]> {
  const window = sourceWindow(call.arguments, call.window, call.host.time);
  const sources = await call.list('seriesList', window);
  const list = await call.list();
  const results: Series[] = [];
  const times = `${wholeNumber(window.fromSeconds)}, ${wholeNumber(window.untilSeconds)}`;
  for (const [index, series] of list.entries()) {
    const source = sources[index];
    const line = source === undefined ? null : await lineThrough(call, source);
    if (line === null) continue;
    const columns = await constantColumns(series.values.length, 0, call);
    const { values } = columns;
    await inParts(values.length, call.work, (first, past) => {
      for (let i = first; i < past; i++) {
        values[i] = line.offset + (series.startSeconds + i * series.stepSeconds) * line.slope;
      }
    });
    results.push(
      renamed(series, `linearRegression(${series.name}, ${times})`, {
        ...columns,
        consolidation: 'average',
        tags: tagged(series, ['linearRegressions', times]),
      }),
    );
    if (call.work.spend(500 + 20 * values.length)) await call.work.pause();
  }
  return results;
}

interface Line {
  /** Of a second. */
  readonly slope: number;
  /** At Unix second 0. */
  readonly offset: number;
}

/** By least squares; null when the values do not tell one. */
async function lineThrough(
  call: Call,
  { values, present, startSeconds, stepSeconds }: Series,
): Promise<Line | null> {
  let count = 0;
  let sum = 0;
  let rows = 0;
  let rowSquares = 0;
  let products = 0;
  await inParts(values.length, call.work, (first, past) => {
    for (let i = first; i < past; i++) {
      if (present[i] === 0) continue;
      count += 1;
      sum += values[i]!;
      rows += i;
      rowSquares += i * i;
      products += i * values[i]!;
    }
  });
  const denominator = count * rowSquares - rows * rows;
  if (denominator === 0) return null;
  const slope = (count * products - rows * sum) / denominator / stepSeconds;
  const offset = (rowSquares * sum - products * rows) / denominator - slope * startSeconds;
  return { slope, offset };
}

const bootstrapInterval: Parameter = optional('bootstrapInterval', 'interval', '7d');
const seasonality: Parameter = optional('seasonality', 'interval', '1d');
const bandParameters: readonly Parameter[] = [
  seriesList,
  optional('delta', 'integer', 3),
  bootstrapInterval,
  seasonality,
];
const early = {
  windows: (args: Arguments, window: Window) => [bootstrapWindow(args, window)],
};

export const forecastRows: readonly FunctionRow[] = [
  functionRow(
    'Calculate',
    'holtWintersAberration',
    'How far values are outside of what was expected',
    bandParameters,
    holtWintersAberration,
    { windows: (args, window) => [window, bootstrapWindow(args, window)] },
  ),
  functionRow(
    'Calculate',
    'holtWintersConfidenceArea',
    'The area in which values are expected',
    bandParameters,
    holtWintersConfidenceArea,
    early,
  ),
  functionRow(
    'Calculate',
    'holtWintersConfidenceBands',
    'The lower and the upper end of what is expected',
    bandParameters,
    holtWintersConfidenceBands,
    early,
  ),
  functionRow(
    'Calculate',
    'holtWintersForecast',
    'What is expected by level, slope and season',
    [seriesList, bootstrapInterval, seasonality],
    holtWintersForecast,
    early,
  ),
  functionRow(
    'Calculate',
    'linearRegression',
    'The line that is nearest to the values of a time',
    [seriesList, optional('startSourceAt', 'date'), optional('endSourceAt', 'date')],
    linearRegression,
    { windows: (args, window, time) => [sourceWindow(args, window, time), window] },
  ),
];
