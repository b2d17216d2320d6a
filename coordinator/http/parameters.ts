/**
 * Parameters of requests, checked and with units. Each family of endpoints puts them into a struct
 * of its own, once, with these.
 */
import { PromqlError } from '../promql/words/errors.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import {
  formatDurationNanos,
  nanosPerMilli,
  parseBoundNanos,
  parseDurationNanos,
  parseTimestampNanos,
  type UnixNanos,
} from '#lib/time.ts';
import { queryCharactersMax, selectorsMax } from './limits.ts';

/** @throws {TsdbError} BAD_REQUEST when it is missing or too long */
export function requiredText(parameters: URLSearchParams, name: string): string {
  const value = parameters.get(name);
  if (value === null || value === '') throw badRequest(`missing required parameter: ${name}`);
  if (value.length > queryCharactersMax) {
    throw badRequest(`${name}: longer than ${queryCharactersMax} characters`);
  }
  return value;
}

/**
 * Unix seconds, RFC 3339 or "now".
 * @param absent the value when it is not given; null when it is required
 */
export function timestampParameter(
  parameters: URLSearchParams,
  name: string,
  nowNanos: UnixNanos,
  absent: UnixNanos | null,
): UnixNanos {
  const text = parameters.get(name) ?? '';
  if (text === 'now') return nowNanos;
  if (text !== '') return parseTimestampNanos(text, name);
  if (absent === null) throw badRequest(`missing required parameter: ${name}`);
  return absent;
}

/** As `timestampParameter`, but a bound of a range that may lie beyond all times that there are. */
export function boundParameter(
  parameters: URLSearchParams,
  name: string,
  nowNanos: UnixNanos,
  absent: UnixNanos,
): UnixNanos {
  const text = parameters.get(name) ?? '';
  if (text === 'now') return nowNanos;
  return text === '' ? absent : parseBoundNanos(text, name);
}

const secondsForm = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;

/** A Go duration, or seconds with a fraction, in milliseconds. */
export function durationMillis(text: string, name: string): number {
  if (secondsForm.test(text)) {
    const millis = Number(text) * 1000;
    if (!Number.isFinite(millis))
      throw badRequest(`${name}: duration is too long: ${shownText(text)}`);
    return millis;
  }
  return Number(parseDurationNanos(text, name)) / 1e6;
}

/** @throws {TsdbError} BAD_REQUEST when it is missing, not positive or finer than a millisecond */
export function stepParameter(parameters: URLSearchParams): number {
  const text = requiredText(parameters, 'step');
  const exact = durationMillis(text, 'step');
  const millis = Math.trunc(exact);
  if (millis === 0 && exact > 0) {
    throw badRequest(`step: finer than a millisecond: ${shownText(text)}`);
  }
  if (millis <= 0) {
    throw badRequest(
      `step: zero or negative steps are not accepted, try a positive one: ${shownText(text)}`,
    );
  }
  return millis;
}

/** Unix milliseconds, rounded down. */
export function millisOfNanos(nanos: UnixNanos): number {
  const millis = nanos / nanosPerMilli;
  return Number(nanos < 0n && millis * nanosPerMilli !== nanos ? millis - 1n : millis);
}

/**
 * Unix milliseconds of a time as queries take it: seconds are rounded, in the numbers that a double has, all others are cut off.
 * @param nanos what `timestampParameter` gives of it
 */
export function millisOfParameter(
  parameters: URLSearchParams,
  name: string,
  nanos: UnixNanos,
): number {
  const text = parameters.get(name) ?? '';
  if (!secondsForm.test(text)) return millisOfNanos(nanos);
  const whole = Math.trunc(Number(text));
  const thousandths = (Number(text) - whole) * 1000;
  // Halves are rounded away from 0.
  return whole * 1000 + Math.sign(thousandths) * Math.floor(Math.abs(thousandths) + 0.5);
}

/** @throws {TsdbError} BAD_REQUEST when the end is before the start */
export function checkOrder(startNanos: UnixNanos, endNanos: UnixNanos): void {
  if (endNanos < startNanos) {
    throw badRequest('end: end timestamp must not be before start time');
  }
}

/** @throws {TsdbError} BAD_REQUEST when the range is longer than allowed; 0 = no limit */
export function checkRange(
  startNanos: UnixNanos,
  endNanos: UnixNanos,
  rangeMillisMax: number,
): void {
  checkRangeMillis(Number(endNanos - startNanos) / 1e6, rangeMillisMax);
}

/** @throws as `checkRange` */
export function checkRangeMillis(rangeMillis: number, rangeMillisMax: number): void {
  if (rangeMillisMax === 0 || rangeMillis <= rangeMillisMax) return;
  const shown = (millis: number) => formatDurationNanos(BigInt(Math.round(millis * 1e6)));
  throw badRequest(
    `query exceeded limit: range of ${shown(rangeMillis)} is longer than ${shown(rangeMillisMax)}`,
  );
}

/**
 * Texts of the parameters `match[]`.
 * @throws {TsdbError} BAD_REQUEST when there are too few or too many
 */
export function selectorsOf(parameters: URLSearchParams, least: 0 | 1): string[] {
  const selectors = parameters.getAll('match[]');
  if (selectors.length < least) throw badRequest('missing required parameter: match[]');
  if (selectors.length > selectorsMax) {
    throw badRequest(`match[]: more than ${selectorsMax} selectors: ${selectors.length}`);
  }
  return selectors;
}

/** Characters that cannot stand in a header become '?'. */
export function headerText(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?');
}

/**
 * What is wrong with the text of a query or selector is said with the parameter that has it, as Prometheus says it.
 * @throws {PromqlError} and what `work` throws
 */
export async function ofParameter<T>(name: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof PromqlError) || error.kind !== 'bad_data') throw error;
    const text = `invalid parameter ${JSON.stringify(name)}: ${error.message}`;
    throw new PromqlError('bad_data', text, { cause: error });
  }
}
