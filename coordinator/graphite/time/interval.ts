/** Lengths of time as Graphite writes them: "5min", "1d12h", "-1h". */
import { badRequest, shownText } from '#lib/errors.ts';

/** Beginnings of a unit's name, in the order in which they are tried, and its seconds. */
const units: readonly (readonly [string, number])[] = [
  ['s', 1],
  ['min', 60],
  ['h', 3600],
  ['d', 86_400],
  ['w', 7 * 86_400],
  ['mon', 30 * 86_400],
  ['y', 365 * 86_400],
];

/** Longer ones, about 30 000 years, are refused: no time is so far away. */
const intervalSecondsMax = 1e12;

/** Longest text of an interval, or of a time. */
export const timeLengthMax = 200;

const part = /(\d+)([A-Za-z]+)/y;

/**
 * Seconds of an interval; the sign counts for all of its parts.
 * @throws {TsdbError} BAD_REQUEST when it is none
 */
export function parseInterval(text: string): number {
  if (text.length > timeLengthMax) {
    throw badRequest(
      `cannot read interval: longer than ${timeLengthMax} characters: ${shownText(text)}`,
    );
  }
  const seconds = intervalSeconds(text);
  if (seconds === null) {
    throw badRequest(`cannot read interval: not of the form 5min or -1h: ${shownText(text)}`);
  }
  return seconds;
}

/** As `parseInterval`, null when it is none. */
export function intervalSeconds(text: string): number | null {
  if (text.length > timeLengthMax) return null;
  const isSigned = text.startsWith('-') || text.startsWith('+');
  let seconds = 0;
  let at = isSigned ? 1 : 0;
  while (at < text.length) {
    part.lastIndex = at;
    const found = part.exec(text);
    if (found === null) return null;
    const unit = secondsOfUnit(found[2]!);
    if (unit === null) return null;
    seconds += Number(found[1]) * unit;
    at = part.lastIndex;
  }
  if (seconds > intervalSecondsMax) return null;
  return text.startsWith('-') ? -seconds : seconds;
}

/** Seconds of a unit by the beginning of its name, null when there is none. */
export function secondsOfUnit(name: string): number | null {
  return units.find(([start]) => name.startsWith(start))?.[1] ?? null;
}
