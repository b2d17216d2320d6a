/** Rows in buckets of an interval. */
import type { Arguments } from '../../calls/arguments.ts';
import type { Call } from '../../calls/call.ts';
import { optional, required, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import type { Window } from '../../calls/window.ts';
import { bucketCount, reduceBuckets } from '../../series/buckets.ts';
import { reducerNamed } from '../../math/reducers.ts';
import { inSteps, madeColumns, rowsAtOnce } from '../../series/making.ts';
import { type Columns, renamed, type Series, tagged } from '../../series/series.ts';
import { alignedStart, isAlignment } from '../../time/alignment.ts';
import type { TimeContext } from '../../time/attime.ts';

/** @throws {TsdbError} BAD_REQUEST when it is not above 0 */
function bucketSecondsOf(args: Arguments): number {
  const seconds = args.interval('intervalString');
  if (seconds > 0) return seconds;
  throw args.error('intervalString', 'has to be above 0', args.text('intervalString'));
}

async function summarize(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const text = args.text('intervalString');
  const bucketSeconds = bucketSecondsOf(args);
  const functionName = args.text('func');
  const reducer = reducerNamed(functionName)!;
  const isAlignedToFrom = args.flag('alignToFrom');
  const suffix = isAlignedToFrom ? ', true' : '';
  return await call.map(
    await call.list(),
    async (series) => {
      const { startSeconds, endSeconds } = series;
      const start = isAlignedToFrom ? startSeconds : startSeconds - (startSeconds % bucketSeconds);
      const end = isAlignedToFrom
        ? endSeconds
        : endSeconds - (endSeconds % bucketSeconds) + bucketSeconds;
      const count = bucketCount(start, end, bucketSeconds);
      return renamed(series, `summarize(${series.name}, "${text}", "${functionName}"${suffix})`, {
        ...(await reduceBuckets(series, reducer, bucketSeconds, start, count, call)),
        startSeconds: start,
        endSeconds: isAlignedToFrom ? start + count * bucketSeconds : end,
        stepSeconds: bucketSeconds,
        tags: tagged(series, ['summarize', text], ['summarizeFunction', functionName]),
      });
    },
    10,
  );
}

/** Its series begin where the unit begins in which the window does. */
function smartWindows(args: Arguments, window: Window, time: TimeContext): readonly Window[] {
  const unit = args.optionalText('alignTo');
  if (unit === null || /^(?:true|false)$/i.test(unit)) return [window];
  if (!isAlignment(unit)) throw args.error('alignTo', 'has to be a unit of time, as days', unit);
  return [{ ...window, fromSeconds: alignedStart(window.fromSeconds, unit, time.zone) }];
}

async function smartSummarize(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const text = args.text('intervalString');
  const bucketSeconds = bucketSecondsOf(args);
  const functionName = args.text('func');
  const reducer = reducerNamed(functionName)!;
  const [window] = smartWindows(args, call.window, call.host.time);
  return await call.map(
    await call.list('seriesList', window),
    async (series) => {
      const { startSeconds } = series;
      const count = bucketCount(startSeconds, series.endSeconds, bucketSeconds);
      return renamed(series, `smartSummarize(${series.name}, "${text}", "${functionName}")`, {
        ...(await reduceBuckets(series, reducer, bucketSeconds, startSeconds, count, call)),
        endSeconds: startSeconds + count * bucketSeconds,
        stepSeconds: bucketSeconds,
        tags: tagged(series, ['smartSummarize', text], ['smartSummarizeFunction', functionName]),
      });
    },
    10,
  );
}

/** With `alignToInterval` the window begins with the day, hour or minute, whichever the interval is longer than. */
function hitcountWindows(args: Arguments, window: Window, time: TimeContext): readonly Window[] {
  const interval = args.interval('intervalString');
  if (!args.flag('alignToInterval') || interval < 60) return [window];
  const unit = interval >= 86_400 ? 'days' : interval >= 3600 ? 'hours' : 'minutes';
  return [{ ...window, fromSeconds: alignedStart(window.fromSeconds, unit, time.zone) }];
}

async function hitcount(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const text = args.text('intervalString');
  const bucketSeconds = bucketSecondsOf(args);
  const isAligned = args.flag('alignToInterval');
  const [window] = hitcountWindows(args, call.window, call.host.time);
  return await call.map(
    await call.list('seriesList', window),
    async (series) => {
      const length = series.endSeconds - series.startSeconds;
      const aligned = (Math.floor(length / bucketSeconds) + 1) * bucketSeconds;
      const endSeconds = isAligned ? series.startSeconds + aligned : series.endSeconds;
      const count = bucketCount(series.startSeconds, endSeconds, bucketSeconds);
      const columns = await madeColumns(count, call);
      const startSeconds = endSeconds - count * bucketSeconds;
      const hits = spreadHits(series, columns, bucketSeconds, startSeconds);
      await inSteps(hits, call.work);
      return renamed(series, `hitcount(${series.name}, "${text}"${isAligned ? ', true' : ''})`, {
        ...columns,
        startSeconds,
        endSeconds,
        stepSeconds: bucketSeconds,
        tags: tagged(series, ['hitcount', text]),
      });
    },
    10,
  );
}

/** Values as rates: each is spread over the buckets that its step is in. */
function* spreadHits(
  series: Series,
  columns: Columns,
  bucketSeconds: number,
  startSeconds: number,
): Generator<void, void> {
  const { values, present, stepSeconds } = series;
  const endSeconds = startSeconds + columns.values.length * bucketSeconds;
  /** Rows and buckets until others have their turn. */
  let left = rowsAtOnce;
  for (let i = 0; i < values.length; i++) {
    if (--left <= 0) {
      yield;
      left = rowsAtOnce;
    }
    if (present[i] === 0) continue;
    let from = series.startSeconds + i * stepSeconds;
    const until = Math.min(from + stepSeconds, endSeconds);
    from = Math.max(from, startSeconds);
    while (from < until) {
      const bucket = Math.floor((from - startSeconds) / bucketSeconds);
      const next = Math.min(until, startSeconds + (bucket + 1) * bucketSeconds);
      columns.values[bucket] = columns.values[bucket]! + values[i]! * (next - from);
      columns.present[bucket] = 1;
      from = next;
      if (--left > 0) continue;
      yield;
      left = rowsAtOnce;
    }
  }
}

const interval = required('intervalString', 'interval');

export const summaryRows: readonly FunctionRow[] = [
  functionRow(
    'Transform',
    'hitcount',
    'What values that are rates add up to in each interval',
    [seriesList, interval, optional('alignToInterval', 'boolean', false)],
    hitcount,
    { windows: hitcountWindows },
  ),
  functionRow(
    'Transform',
    'smartSummarize',
    'One row for each interval from the beginning of the window, or of its day, week and so on',
    [seriesList, interval, optional('func', 'aggFunc', 'sum'), optional('alignTo', 'string')],
    smartSummarize,
    { windows: smartWindows },
  ),
  functionRow(
    'Transform',
    'summarize',
    'One row for each interval',
    [
      seriesList,
      interval,
      optional('func', 'aggFunc', 'sum'),
      optional('alignToFrom', 'boolean', false),
    ],
    summarize,
  ),
];
