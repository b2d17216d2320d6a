/** Calendar fields of Unix seconds, in UTC. */

/** A day of the Gregorian calendar. */
interface CivilDate {
  readonly year: number;
  /** From 1. */
  readonly month: number;
  readonly day: number;
}

type OfSeconds = (seconds: number) => number;

const secondsPerDay = 86_400;
/** Of a time in 64 bits. */
const secondsLimit = 2 ** 63;

/** Gregorian date of a day counted from 1970-01-01; eras of 400 years begin on a first of March. */
function civilDate(unixDay: number): CivilDate {
  const day = unixDay + 719_468;
  const era = Math.floor(day / 146_097);
  const dayOfEra = day - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra -
      Math.floor(dayOfEra / 1460) +
      Math.floor(dayOfEra / 36_524) -
      Math.floor(dayOfEra / 146_096)) /
      365,
  );
  const dayOfYear =
    dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const monthFromMarch = Math.floor((5 * dayOfYear + 2) / 153);
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9;
  return {
    year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0),
    month,
    day: dayOfYear - Math.floor((153 * monthFromMarch + 2) / 5) + 1,
  };
}

function isLeap(year: number): boolean {
  return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
}

const daysBeforeMonth = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

function daysOfMonth({ year, month }: CivilDate): number {
  if (month === 2) return isLeap(year) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

function dayInYear({ year, month, day }: CivilDate): number {
  return daysBeforeMonth[month - 1]! + day + (month > 2 && isLeap(year) ? 1 : 0);
}

function fieldOf(field: (date: CivilDate, day: number, second: number) => number): OfSeconds {
  return (value: number): number => {
    if (!(Math.abs(value) < secondsLimit)) return NaN;
    const seconds = Math.trunc(value);
    const day = Math.floor(seconds / secondsPerDay);
    return field(civilDate(day), day, seconds - day * secondsPerDay);
  };
}

export const dayOfMonth: OfSeconds = fieldOf((date) => date.day);
export const dayOfWeek: OfSeconds = fieldOf((_, day) => (((day + 4) % 7) + 7) % 7);
export const dayOfYear: OfSeconds = fieldOf(dayInYear);
export const daysInMonth: OfSeconds = fieldOf(daysOfMonth);
export const hour: OfSeconds = fieldOf((_, __, second) => Math.floor(second / 3600));
export const minute: OfSeconds = fieldOf((_, __, second) => Math.floor(second / 60) % 60);
export const month: OfSeconds = fieldOf((date) => date.month);
export const year: OfSeconds = fieldOf((date) => date.year);
