/**
 * Times as at(1) and Graphite write them: Unix seconds, or a reference with an offset such as
 * "now-1h", "noon_yesterday", "12:30_20240229", "midnight+1d", "8am", "jan5", "monday".
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { intervalSeconds, timeLengthMax } from './interval.ts';
import type { WallTime, Zone } from './zone.ts';

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const weekdays = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

const hoursOfName: readonly (readonly [string, number])[] = [
  ['noon', 12],
  ['midnight', 0],
  ['teatime', 16],
];

/** Where a time is read: what "now" is, and whose calendar counts. */
export interface TimeContext {
  /** Unix seconds. */
  readonly nowSeconds: number;
  readonly zone: Zone;
}

/**
 * Unix seconds of a time.
 * @throws {TsdbError} BAD_REQUEST when it is none
 */
export function parseTime(text: string, context: TimeContext): number {
  if (text.length > timeLengthMax) {
    throw badRequest(
      `cannot read time: longer than ${timeLengthMax} characters: ${shownText(text)}`,
    );
  }
  const plain = text.trim().toLowerCase().replace(/[_, ]/g, '');
  const isDate = /^(?:19[1-9]\d|190[1-9]|[2-9]\d{3})(?:0\d|1[0-2])(?:[0-2]\d|3[01])$/.test(plain);
  if (/^\d+$/.test(plain) && !isDate) {
    const seconds = Number(plain);
    if (seconds > 8.64e12) throw timeError(text);
    return seconds;
  }
  const at = plain.includes('+') ? plain.indexOf('+') : plain.indexOf('-');
  const reference = at < 0 ? plain : plain.slice(0, at);
  const offset = at < 0 ? 0 : intervalSeconds(plain.slice(at));
  const seconds = referenceSeconds(reference, context);
  if (offset === null || seconds === null || Number.isNaN(seconds)) throw timeError(text);
  return seconds + offset;
}

function timeError(text: string): Error {
  return badRequest(
    `cannot read time: neither Unix seconds nor of the form now-1h or 12:30_20240229: ${shownText(text)}`,
  );
}

interface TimeOfDay {
  readonly hour: number;
  readonly minute: number;
  /** What follows it. */
  readonly day: string;
}

function referenceSeconds(reference: string, { nowSeconds, zone }: TimeContext): number | null {
  if (reference === '' || reference === 'now') return nowSeconds;
  const { hour, minute, day } = timeOfDay(reference);
  if (!(hour < 24 && minute < 60)) return null;
  const now = zone.wallTime(nowSeconds);
  const date = dayOf(day, now);
  return date === null ? null : zone.unixSeconds({ ...date, hour, minute, second: 0 });
}

function timeOfDay(reference: string): TimeOfDay {
  let hour = 0;
  let minute = 0;
  let day = reference;
  const clock = /^(\d{1,2}):(\d{1,2})(am|pm)?/.exec(day);
  if (clock !== null) {
    hour = Number(clock[1]);
    minute = Number(clock[2]);
    if (clock[3] === 'pm') hour = (hour + 12) % 24;
    day = day.slice(clock[0].length);
  }
  const half = /^(\d{1,2})(am|pm)/.exec(day);
  if (half !== null) {
    hour = half[2] === 'pm' ? (Number(half[1]) + 12) % 24 : Number(half[1]);
    day = day.slice(half[0].length);
  }
  for (const [name, hourOfName] of hoursOfName) {
    if (!day.startsWith(name)) continue;
    return { hour: hourOfName, minute: 0, day: day.slice(name.length) };
  }
  return { hour, minute, day };
}

type Day = Pick<WallTime, 'year' | 'month' | 'day'>;

/** Null when there is no such day. */
function dayOf(text: string, now: WallTime): Day | null {
  const { year, month, day } = now;
  if (text === '' || text === 'today') return { year, month, day };
  if (text === 'yesterday') return { year, month, day: day - 1 };
  if (text === 'tomorrow') return { year, month, day: day + 1 };
  const american = /^(\d+)\/(\d+)\/(\d+)$/.exec(text);
  if (american !== null) {
    const written = Number(american[3]);
    const full = written < 1900 ? written + 1900 : written;
    return checked(full < 1970 ? full + 100 : full, Number(american[1]), Number(american[2]));
  }
  const digits = /^(\d{4})(\d\d)(\d\d)$/.exec(text);
  if (digits !== null) return checked(Number(digits[1]), Number(digits[2]), Number(digits[3]));
  const monthOrdinal = months.indexOf(text.slice(0, 3));
  if (monthOrdinal >= 0) {
    const dayOfMonth = /\d{1,2}$/.exec(text.slice(3));
    return dayOfMonth === null ? null : checked(year, monthOrdinal + 1, Number(dayOfMonth[0]));
  }
  const weekday = weekdays.indexOf(text.slice(0, 3));
  if (weekday < 0) return null;
  const today = new Date(Date.UTC(year, month - 1, day)).getUTCDay();
  // The last one that has begun, which may be today.
  return { year, month, day: day - ((today - weekday + 7) % 7) };
}

function checked(year: number, month: number, day: number): Day | null {
  const date = new Date(Date.UTC(year, month - 1, day));
  const isThere = date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  return isThere && month > 0 ? { year, month, day } : null;
}
