/** A value for each row of what is in a window behind it; rows before the first one are read, too. */
import type { Arguments } from '../../calls/arguments.ts';
import type { Call } from '../../calls/call.ts';
import { optional, type Parameter, required, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import type { Window } from '../../calls/window.ts';
import { wholeNumber } from '../../words/number_text.ts';
import { roundTo } from '../../math/rounding.ts';
import { inParts, madeColumns } from '../../series/making.ts';
import { type Columns, renamed, type Series, tagged } from '../../series/series.ts';
import { reduceSliding } from '../../series/sliding.ts';
import { parseInterval } from '../../time/interval.ts';

/** A window in rows, or in time. */
interface Size {
  readonly rows: number | null;
  readonly seconds: number | null;
  /** As names have it. */
  readonly text: string;
  /** As tags have it. */
  readonly tag: string;
}

function sizeOf(args: Arguments): Size {
  const size = args.literal('windowSize');
  const isRows = typeof size === 'number';
  const seconds = isRows ? null : Math.abs(parseInterval(`${size}`));
  if ((isRows && !(size > 0)) || seconds === 0) {
    throw args.error('windowSize', 'has to be above 0', size);
  }
  if (isRows) return { rows: size, seconds, text: wholeNumber(size), tag: wholeNumber(size) };
  return { rows: null, seconds, text: `"${size}"`, tag: `${size}` };
}

function earlier({ fromSeconds, untilSeconds }: Window, seconds: number): Window {
  return { fromSeconds: fromSeconds - seconds, untilSeconds };
}

/** A window of rows is known when the step of the series is: with the call's own window they are read first. */
function windowsOf(args: Arguments, window: Window): readonly Window[] {
  const { seconds } = sizeOf(args);
  return [seconds === null ? window : earlier(window, seconds)];
}

interface Preview {
  readonly list: readonly Series[];
  /** How much earlier than the call's window they begin. */
  readonly seconds: number;
  readonly size: Size;
}

async function previewOf(call: Call): Promise<Preview> {
  const size = sizeOf(call.arguments);
  let { seconds } = size;
  if (seconds === null) {
    const steps = (await call.list()).map((series) => series.stepSeconds);
    seconds = steps.reduce((most, step) => Math.max(most, step), 0) * size.rows!;
  }
  if (seconds === 0) return { list: [], seconds, size };
  return { list: await call.list('seriesList', earlier(call.window, seconds)), seconds, size };
}

function rowsOf({ size, seconds }: Preview, series: Series): number {
  return size.rows ?? Math.floor(seconds / series.stepSeconds);
}

async function moving(call: Call, reducerName: string): Promise<readonly Series[]> {
  const preview = await previewOf(call);
  const { list, seconds, size } = preview;
  const factor = call.arguments.optionalNumber('xFilesFactor');
  const functionName = `moving${reducerName[0]!.toUpperCase()}${reducerName.slice(1).toLowerCase()}`;
  const results: Series[] = [];
  for (const series of list) {
    const rows = rowsOf(preview, series);
    const xFilesFactor = factor ?? series.xFilesFactor;
    const columns =
      rows === 0
        ? await madeColumns(series.values.length, call)
        : await reduceSliding(series, reducerName, rows, rows, xFilesFactor, call);
    results.push(
      renamed(series, `${functionName}(${series.name},${size.text})`, {
        ...columns,
        startSeconds: series.startSeconds + seconds,
        tags: tagged(series, [functionName, size.tag]),
      }),
    );
    if (call.work.spend(500)) await call.work.pause();
  }
  return results;
}

/** The mean of the rows before the first one is where it begins. */
async function exponential(call: Call): Promise<readonly Series[]> {
  const preview = await previewOf(call);
  const { list, seconds, size } = preview;
  const weight = 2 / ((size.seconds ?? size.rows!) + 1);
  return await call.map(
    list,
    async (series) => {
      const rows = Math.min(rowsOf(preview, series), series.values.length);
      const name = `exponentialMovingAverage(${series.name},${size.text})`;
      return renamed(series, name, {
        ...(await exponentialColumns(call, series, rows, weight)),
        startSeconds: series.startSeconds + seconds,
        tags: tagged(series, ['exponentialMovingAverage', size.tag]),
      });
    },
    20,
  );
}

async function exponentialColumns(
  call: Call,
  { values, present }: Series,
  rows: number,
  weight: number,
): Promise<Columns> {
  const columns = await madeColumns(values.length - rows + 1, call);
  let sum = 0;
  let count = 0;
  await inParts(rows, call.work, (first, past) => {
    for (let i = first; i < past; i++) {
      if (present[i] === 0) continue;
      sum += values[i]!;
      count += 1;
    }
  });
  let before = count === 0 ? 0 : sum / count;
  columns.values[0] = roundTo(before, 6);
  columns.present[0] = 1;
  await inParts(values.length - rows, call.work, (first, past) => {
    let average = before;
    for (let i = first; i < past; i++) {
      if (present[rows + i] === 0) continue;
      average = weight * values[rows + i]! + (1 - weight) * average;
      columns.values[i + 1] = roundTo(average, 6);
      columns.present[i + 1] = 1;
    }
    before = average;
  });
  return columns;
}

const windowSize: Parameter = required('windowSize', 'intOrInterval');

const movingBy = (name: string, reducerName: string, description: string): FunctionRow =>
  functionRow(
    'Calculate',
    name,
    description,
    [seriesList, windowSize, optional('xFilesFactor', 'float')],
    (call) => moving(call, reducerName),
    { windows: windowsOf },
  );

export const movingRows: readonly FunctionRow[] = [
  functionRow(
    'Calculate',
    'exponentialMovingAverage',
    'The mean of what came before, with newer rows counting more',
    [seriesList, windowSize],
    exponential,
    { windows: windowsOf },
  ),
  movingBy('movingAverage', 'average', 'The mean of the last rows'),
  movingBy('movingMax', 'max', 'The greatest of the last rows'),
  movingBy('movingMedian', 'median', 'The median of the last rows'),
  movingBy('movingMin', 'min', 'The least of the last rows'),
  movingBy('movingSum', 'sum', 'The sum of the last rows'),
  functionRow(
    'Calculate',
    'movingWindow',
    'The last rows by an aggregation',
    [
      seriesList,
      windowSize,
      optional('func', 'aggFunc', 'average'),
      optional('xFilesFactor', 'float'),
    ],
    (call) => moving(call, call.arguments.text('func')),
    { windows: windowsOf },
  ),
];
