/** Functions of one value: the number in, the number out. */

/** Calendar fields of Unix seconds in UTC. */
interface CivilDate {
  readonly year: number;
  /** From 1. */
  readonly month: number;
  readonly day: number;
}

const secondsPerDay = 86_400;

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

function daysInMonth({ year, month }: CivilDate): number {
  if (month === 2) return isLeap(year) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

function dayOfYear({ year, month, day }: CivilDate): number {
  return daysBeforeMonth[month - 1]! + day + (month > 2 && isLeap(year) ? 1 : 0);
}

function calendar(field: (date: CivilDate, day: number, second: number) => number) {
  return (value: number): number => {
    const seconds = Math.trunc(value);
    const day = Math.floor(seconds / secondsPerDay);
    if (!Number.isFinite(day)) return NaN;
    return field(civilDate(day), day, seconds - day * secondsPerDay);
  };
}

/** Functions of Unix seconds; without an argument they take the evaluation time. */
export const timeFunctions: Readonly<Record<string, (value: number) => number>> = {
  day_of_month: calendar((date) => date.day),
  day_of_week: calendar((_, day) => (((day + 4) % 7) + 7) % 7),
  day_of_year: calendar(dayOfYear),
  days_in_month: calendar(daysInMonth),
  hour: calendar((_, __, second) => Math.floor(second / 3600)),
  minute: calendar((_, __, second) => Math.floor(second / 60) % 60),
  month: calendar((date) => date.month),
  year: calendar((date) => date.year),
};

export const mathFunctions: Readonly<Record<string, (value: number) => number>> = {
  abs: Math.abs,
  acos: Math.acos,
  acosh: Math.acosh,
  asin: Math.asin,
  asinh: Math.asinh,
  atan: Math.atan,
  atanh: Math.atanh,
  ceil: Math.ceil,
  cos: Math.cos,
  cosh: Math.cosh,
  deg: (value) => (value * 180) / Math.PI,
  exp: Math.exp,
  floor: Math.floor,
  ln: Math.log,
  log10: Math.log10,
  log2: Math.log2,
  rad: (value) => (value * Math.PI) / 180,
  sgn: (value) => (value < 0 ? -1 : value > 0 ? 1 : value),
  sin: Math.sin,
  sinh: Math.sinh,
  sqrt: Math.sqrt,
  tan: Math.tan,
  tanh: Math.tanh,
};

/** To the nearest multiple; halves go up. */
export function roundTo(value: number, nearest: number): number {
  const inverse = 1 / nearest;
  return Math.floor(value * inverse + 0.5) / inverse;
}
