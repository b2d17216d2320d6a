/** Series of the request's own rows, and the times of rows. */
import { metricNameTag } from '#lib/tags.ts';
import type { Arguments } from '../../graphite/calls/arguments.ts';
import type { Call } from '../../graphite/calls/call.ts';
import type { Window } from '../../graphite/calls/window.ts';
import { inParts, madeColumns } from '../../graphite/series/making.ts';
import { newSeries, type Series } from '../../graphite/series/series.ts';
import { plainNumber } from '../../graphite/words/number_text.ts';
import { beginning, made } from '../calls/functions.ts';
import { needs, type ScriptFunction } from '../calls/parameters.ts';
import { withTags } from '../series/tags.ts';

/** Rows behind the window's begin, as those of storage. */
async function rowsOfWindow(
  call: Call,
  name: string,
  valueAt: (seconds: number) => number,
): Promise<Series> {
  const { fromSeconds, untilSeconds } = call.window;
  const stepSeconds = call.arguments.number('step');
  const length = Math.max(1, Math.floor((untilSeconds - fromSeconds) / stepSeconds));
  const startSeconds = fromSeconds + stepSeconds;
  const columns = await madeColumns(length, call);
  await inParts(length, call.work, (first, past) => {
    columns.present.fill(1, first, past);
    for (let i = first; i < past; i++) columns.values[i] = valueAt(startSeconds + i * stepSeconds);
  });
  const endSeconds = startSeconds + length * stepSeconds;
  const series = newSeries(name, startSeconds, endSeconds, stepSeconds, columns, 0);
  return withTags(series, new Map([[metricNameTag, name]]));
}

async function constantLine(call: Call): Promise<readonly Series[]> {
  const value = call.arguments.number('value');
  return [await rowsOfWindow(call, plainNumber(value), () => value)];
}

async function identity(call: Call): Promise<readonly Series[]> {
  return [await rowsOfWindow(call, call.arguments.text('name'), (seconds) => seconds)];
}

/** Unix seconds of each row with a value. */
async function timestamp(call: Call): Promise<readonly Series[]> {
  return await call.map(await call.list(), async (series) => {
    const { startSeconds, stepSeconds, present } = series;
    await call.reserve(present.length);
    const values = new Float64Array(present.length);
    await inParts(values.length, call.work, (first, past) => {
      for (let i = first; i < past; i++) {
        if (present[i] === 1) values[i] = startSeconds + i * stepSeconds;
      }
    });
    return { ...series, values };
  });
}

function shifted(args: Arguments, { fromSeconds, untilSeconds }: Window): Window {
  const seconds = args.interval('duration');
  return { fromSeconds: fromSeconds + seconds, untilSeconds: untilSeconds + seconds };
}

/** Series that are there now alone, or were there then alone, are as any other. */
async function timeshift(call: Call): Promise<readonly Series[]> {
  const seconds = call.arguments.interval('duration');
  const list = await call.list('seriesList', shifted(call.arguments, call.window));
  return await call.map(list, (series) => ({
    ...series,
    startSeconds: series.startSeconds - seconds,
    endSeconds: series.endSeconds - seconds,
  }));
}

export const lineFunctions: readonly ScriptFunction[] = [
  beginning('constantLine', [needs('value', 'number')], constantLine),
  beginning('identity', [needs('name', 'text')], identity),
  made('timeshift', [needs('duration', 'shift')], timeshift, (args, window) => [
    shifted(args, window),
  ]),
  made('timestamp', [], timestamp),
];
