/** Series of another time beside those of now, and parts of series. */
import type { Arguments } from '../../calls/arguments.ts';
import type { Call } from '../../calls/call.ts';
import { optional, required, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import type { Window } from '../../calls/window.ts';
import { wholeNumber } from '../../words/number_text.ts';
import { inParts, madeColumns } from '../../series/making.ts';
import { renamed, type Series, tagged } from '../../series/series.ts';
import { parseTime, type TimeContext } from '../../time/attime.ts';
import { parseInterval } from '../../time/interval.ts';

/** Shifts of one `timeStack`. */
const shiftsMax = 1_000;

/** An interval without a sign goes into the past. */
function pastInterval(text: string): string {
  return /^\d/.test(text) ? `-${text}` : text;
}

function shifted({ fromSeconds, untilSeconds }: Window, seconds: number): Window {
  return { fromSeconds: fromSeconds + seconds, untilSeconds: untilSeconds + seconds };
}

function shiftWindow(args: Arguments, window: Window, { zone }: TimeContext): Window {
  const moved = shifted(window, parseInterval(pastInterval(args.text('timeShift'))));
  if (!args.flag('alignDst')) return moved;
  const isSaving = (seconds: number) => zone.isDaylightSaving(seconds);
  const now = [isSaving(window.fromSeconds), isSaving(window.untilSeconds)];
  const then = [isSaving(moved.fromSeconds), isSaving(moved.untilSeconds)];
  // Where clocks change within one of both, no shift would be right.
  if (now[0] !== now[1] || then[0] !== then[1] || now[0] === then[0]) return moved;
  return shifted(moved, now[0] === true ? 3600 : -3600);
}

async function timeShift(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const text = pastInterval(args.text('timeShift'));
  const resetsEnd = args.flag('resetEnd');
  const [first] = await call.list();
  if (first === undefined) return [];
  const window = shiftWindow(args, call.window, call.host.time);
  const { startSeconds } = first;
  return await call.map(await call.list('seriesList', window), (series) => ({
    ...series,
    name: `timeShift(${series.name}, "${text}")`,
    startSeconds,
    endSeconds: resetsEnd
      ? first.endSeconds
      : series.endSeconds - series.startSeconds + startSeconds,
    tags: tagged(series, ['timeShift', text]),
  }));
}

/** Shifts with their windows. */
function stackOf(args: Arguments, window: Window): ReadonlyMap<number, Window> {
  const seconds = parseInterval(pastInterval(args.text('timeShiftUnit')));
  const start = args.number('timeShiftStart');
  const end = args.number('timeShiftEnd');
  if (end - start > shiftsMax) {
    throw args.error('timeShiftEnd', `is more than ${shiftsMax} behind timeShiftStart`, end);
  }
  const windows = new Map<number, Window>();
  for (let shift = start; shift < end; shift++)
    windows.set(shift, shifted(window, shift * seconds));
  return windows;
}

async function timeStack(call: Call): Promise<readonly Series[]> {
  const unit = pastInterval(call.arguments.text('timeShiftUnit'));
  const [first] = await call.list();
  if (first === undefined) return [];
  const { startSeconds, endSeconds } = first;
  const lists: (readonly Series[])[] = [];
  for (const [shift, window] of stackOf(call.arguments, call.window)) {
    const list = await call.list('seriesList', window);
    const named = await call.map(list, (series) =>
      renamed(series, `timeShift(${series.name}, ${unit}, ${shift})`, {
        startSeconds,
        endSeconds,
        tags: tagged(series, ['timeShiftUnit', unit], ['timeShift', wholeNumber(shift)]),
      }),
    );
    lists.push(named);
  }
  return lists.flat();
}

/** Rows are counted from the beginning of the window, as if series began there. */
async function timeSlice(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const start = parseTime(args.text('startSliceAt'), call.host.time);
  const end = parseTime(args.text('endSliceAt'), call.host.time);
  const { fromSeconds } = call.window;
  return await call.map(await call.list(), async (series) => {
    const { values, present, stepSeconds } = series;
    const columns = await madeColumns(values.length, call);
    await inParts(values.length, call.work, (first, past) => {
      for (let i = first; i < past; i++) {
        const time = fromSeconds + i * stepSeconds;
        if (present[i] === 0 || time < start || time > end) continue;
        columns.values[i] = values[i]!;
        columns.present[i] = 1;
      }
    });
    const name = `timeSlice(${series.name}, ${wholeNumber(start)}, ${wholeNumber(end)})`;
    const tags = tagged(
      series,
      ['timeSliceStart', wholeNumber(start)],
      ['timeSliceEnd', wholeNumber(end)],
    );
    return { ...series, name, ...columns, tags };
  });
}

export const shiftRows: readonly FunctionRow[] = [
  functionRow(
    'Transform',
    'timeShift',
    'Series as they were some time ago',
    [
      seriesList,
      required('timeShift', 'interval'),
      optional('resetEnd', 'boolean', true),
      optional('alignDst', 'boolean', false),
    ],
    timeShift,
    { windows: (args, window, time) => [window, shiftWindow(args, window, time)] },
  ),
  functionRow(
    'Transform',
    'timeSlice',
    'Series without what is before or after some time',
    [seriesList, required('startSliceAt', 'date'), optional('endSliceAt', 'date', 'now')],
    timeSlice,
  ),
  functionRow(
    'Transform',
    'timeStack',
    'Series as they were at several times before, one above the other',
    [
      seriesList,
      optional('timeShiftUnit', 'interval', '1d'),
      optional('timeShiftStart', 'integer', 0),
      optional('timeShiftEnd', 'integer', 7),
    ],
    timeStack,
    { windows: (args, window) => [window, ...stackOf(args, window).values()] },
  ),
];
