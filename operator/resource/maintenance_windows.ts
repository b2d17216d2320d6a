/**
 * Maintenance windows: weekly times in which pods that serve may be replaced. A window opens at a
 * time of the clock on the wall, and is open for a time of the clock in the hand. A time that the
 * wall's clock leaves out, as summer time begins, comes as much later; one that it shows twice is the
 * first of both.
 */
import { badRequest, TsdbError } from '#lib/errors.ts';
import { parseDurationNanos } from '#lib/time.ts';
import type { MaintenanceWindow } from './tsdb_cluster.ts';

const daysOfWeek = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'] as const;
const minuteMillis = 60_000;
/** A window that is open longer would always be. */
const daysMax = 7;

export interface WindowState {
  readonly isOpen: boolean;
  /** When that changes, Unix milliseconds; null when it never does. */
  readonly untilMillis: number | null;
  /** Why the windows cannot be told, so that none is open; null when they can. */
  readonly problem: string | null;
}

/**
 * What is so now, with windows that overlap or follow at once taken together.
 * @param nowMillis Unix milliseconds
 */
export function windowsAt(windows: readonly MaintenanceWindow[], nowMillis: number): WindowState {
  if (windows.length === 0) return { isOpen: true, untilMillis: null, problem: null };
  try {
    return stateOf(
      windows.flatMap((window) => openingsOf(window, nowMillis)),
      nowMillis,
    );
  } catch (error) {
    if (!(error instanceof TsdbError && error.code === 'BAD_REQUEST')) throw error;
    return { isOpen: false, untilMillis: null, problem: error.message };
  }
}

function stateOf(openings: [number, number][], nowMillis: number): WindowState {
  const inOrder = openings.toSorted(([a], [b]) => a - b);
  let closesMillis = nowMillis;
  for (const [from, to] of inOrder) {
    if (from <= closesMillis && to > closesMillis) closesMillis = to;
  }
  if (closesMillis === nowMillis) {
    const next = inOrder.find(([from]) => from > nowMillis);
    return { isOpen: false, untilMillis: next?.[0] ?? null, problem: null };
  }
  // What is open for longer than a week is so for ever: all repeats weekly.
  const isEndless = closesMillis - nowMillis > daysMax * 24 * 60 * minuteMillis;
  return { isOpen: true, untilMillis: isEndless ? null : closesMillis, problem: null };
}

/** When the window opens and closes around now: from a week before to more than a week after. */
function openingsOf(window: MaintenanceWindow, nowMillis: number): [number, number][] {
  const durationMillis = Number(parseDurationNanos(window.duration, 'duration') / 1_000_000n);
  if (durationMillis < minuteMillis || durationMillis > daysMax * 24 * 60 * minuteMillis) {
    throw badRequest(`duration of a maintenance window: ${window.duration} is not 1m to 7d`);
  }
  const { days = daysOfWeek, start, timeZone = 'UTC' } = window;
  const today = dateIn(timeZone, nowMillis);
  const time = Temporal.PlainTime.from(start);
  const openings: [number, number][] = [];
  for (let offset = -daysMax - 1; offset <= 2 * daysMax + 1; offset++) {
    const date = today.add({ days: offset });
    if (!days.includes(daysOfWeek[date.dayOfWeek - 1]!)) continue;
    const { epochMilliseconds } = date.toZonedDateTime({ timeZone, plainTime: time });
    openings.push([epochMilliseconds, epochMilliseconds + durationMillis]);
  }
  return openings;
}

function dateIn(timeZone: string, nowMillis: number): Temporal.PlainDate {
  try {
    return Temporal.Instant.fromEpochMilliseconds(nowMillis)
      .toZonedDateTimeISO(timeZone)
      .toPlainDate();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw badRequest(`timeZone of a maintenance window: ${timeZone} is not known`);
  }
}
