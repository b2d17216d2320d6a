/** Times and values of OpenTSDB: seconds, or milliseconds where they are too large for seconds; numbers, or texts of them. */
import { nanosPerMilli } from '#lib/time.ts';

/** A larger time is milliseconds: seconds have 32 bits at OpenTSDB. */
const secondsMax = 0xffff_ffff;
/** What nanoseconds of 64 bits hold. */
const millisMax = Number((2n ** 63n - 1n) / nanosPerMilli);

/** Unix milliseconds; null when it is no such time. @param text digits, in lines also with a fraction of a second */
export function millisOfText(text: string): number | null {
  const [, whole, fraction] = /^(\d{1,16})(?:\.(\d{1,3}))?$/.exec(text) ?? [];
  if (whole === undefined) return null;
  if (fraction === undefined) return millisOf(Number(whole));
  const seconds = Number(whole);
  return seconds > secondsMax ? null : seconds * 1000 + Number(fraction.padEnd(3, '0'));
}

/** The same of a number. */
export function millisOf(time: number): number | null {
  if (!Number.isSafeInteger(time) || time < 0) return null;
  const millis = time > secondsMax ? time : time * 1000;
  return millis > millisMax ? null : millis;
}

/** A finite decimal; null for any other text. */
export function valueOfText(text: string): number | null {
  if (!/^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/.test(text)) return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
}
