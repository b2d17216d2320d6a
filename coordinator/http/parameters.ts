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
import { queryCharactersMax, selectorsMax, timeoutMillisMax } from './limits.ts';
import { NamespacesRead } from '../select/namespaces_read.ts';
import type { SelectLimits } from '../select/storage.ts';
import { type ApiRequest, booleanOf, bothNames, eitherHeader } from './http_api.ts';
import { wholeNumber } from './whole_number.ts';

/** Defaults and bounds from the configuration. */
export interface QuerySettings {
  readonly timeoutMillis: number;
  readonly lookbackMillis: number;
  /** 0 = no limit. */
  readonly seriesMax: number;
  /** 0 = no limit. */
  readonly rangeMillisMax: number;
  readonly requireExhaustive: boolean;
}

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

/** How far an instant selector looks back: a duration, or "step" for the step of the query. */
export function lookbackMillisOf(
  parameters: URLSearchParams,
  stepMillis: number | null,
  settings: QuerySettings,
): number {
  const text = parameters.get('lookback') || parameters.get('lookback_delta') || '';
  if (text === '') return settings.lookbackMillis;
  if (text === 'step') {
    if (stepMillis === null) throw badRequest('lookback: "step" needs a query with a step');
    return stepMillis;
  }
  const millis = Math.trunc(durationMillis(text, 'lookback'));
  if (millis < 1) throw badRequest(`lookback: must be at least 1ms: ${shownText(text)}`);
  return millis;
}

/** What every request that reads data may say about how it is answered. */
export interface ReadOptions {
  /** Until the request is given up. */
  readonly timeoutMillis: number;
  readonly limits: SelectLimits;
}

/**
 * Parameters over headers over the configuration. A request may tighten the configured limits,
 * never pass them.
 * @param limitNames parameters that limit the series, the first one given counts
 */
export function readOptionsOf(
  request: ApiRequest,
  parameters: URLSearchParams,
  settings: QuerySettings,
  limitNames: readonly string[] = ['seriesLimit', 'limit'],
): ReadOptions {
  const series = firstOf(parameters, limitNames) || eitherHeader(request, 'Limit-Max-Series');
  const exhaustive =
    parameters.get('requireExhaustive') || eitherHeader(request, 'Limit-Require-Exhaustive');
  return {
    timeoutMillis: timeoutMillisOf(
      parameters.get('timeout') || eitherHeader(request, 'Timeout'),
      settings,
    ),
    limits: {
      seriesMax: tighter(series === '' ? 0 : wholeNumber(series, 'limit'), settings.seriesMax),
      requireExhaustive:
        exhaustive === '' ? settings.requireExhaustive : booleanOf(exhaustive, 'requireExhaustive'),
      memory: request.readMemory,
      read: new NamespacesRead(),
    },
  };
}

/** Longest range that the request may ask for; 0 = no limit. */
export function rangeMillisMaxOf(
  request: ApiRequest,
  parameters: URLSearchParams,
  settings: QuerySettings,
): number {
  const text = parameters.get('rangeLimit') || eitherHeader(request, 'Limit-Max-Range');
  return tighter(text === '' ? 0 : durationMillis(text, 'rangeLimit'), settings.rangeMillisMax);
}

/** The smaller one of those that are limits: 0 and less is none. */
function tighter(asked: number, configured: number): number {
  if (asked <= 0) return configured;
  return configured === 0 ? asked : Math.min(asked, configured);
}

function timeoutMillisOf(text: string, settings: QuerySettings): number {
  if (text === '') return settings.timeoutMillis;
  const millis = Math.trunc(durationMillis(text, 'timeout'));
  if (millis < 1) throw badRequest(`timeout: must be at least 1ms: ${shownText(text)}`);
  if (millis > timeoutMillisMax) {
    throw badRequest(`timeout: more than ${timeoutMillisMax / 1000}s: ${shownText(text)}`);
  }
  return millis;
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
  const rangeMillis = Number(endNanos - startNanos) / 1e6;
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

function firstOf(parameters: URLSearchParams, names: readonly string[]): string {
  for (const name of names) {
    const value = parameters.get(name);
    if (value !== null && value !== '') return value;
  }
  return '';
}

/** Headers that tell how the request was understood and what became of it. */
export function answerHeaders(outcome: {
  readonly timeoutMillis: number;
  readonly seriesLimited: boolean;
  readonly warnings: readonly string[];
  readonly seriesCount?: number;
  /** What the request read; undefined, or nothing, says nothing. */
  readonly read?: NamespacesRead | undefined;
}): Record<string, string> {
  const { read } = outcome;
  const limited = [
    ...(outcome.seriesLimited ? ['max_fetch_series_limit_applied'] : []),
    ...outcome.warnings.map((warning) => warning.replace(/[\r\n,]+/g, ' ')),
  ];
  return {
    ...bothNames('Timeout', formatDurationNanos(BigInt(Math.round(outcome.timeoutMillis * 1e6)))),
    ...(limited.length === 0
      ? {}
      : bothNames('Results-Limited', headerText(limited.join(',')).slice(0, 2000))),
    ...(outcome.seriesCount === undefined
      ? {}
      : bothNames('Series-Count', String(outcome.seriesCount))),
    ...(read === undefined || read.names.length === 0
      ? {}
      : {
          ...bothNames('Namespaces', headerText(read.names.join(','))),
          ...bothNames('Unaggregated-Series-Count', String(read.seriesOf('samples'))),
          ...bothNames('Aggregated-Series-Count', String(read.seriesOf('windows'))),
        }),
  };
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
