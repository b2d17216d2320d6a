/**
 * Parameters of query requests: from the URL and, with POST, from a form body, checked and with
 * units.
 */
import { badRequest, TsdbError } from '#lib/errors.ts';
import {
  formatDurationNanos,
  nanosPerMilli,
  parseBoundNanos,
  parseDurationNanos,
  parseTimestampNanos,
  type UnixNanos,
} from '#lib/time.ts';
import { adminBodyBytesMax, queryCharactersMax, timeoutMillisMax } from './limits.ts';
import type { SelectLimits } from '../select/storage.ts';
import { type ApiRequest, bothNames, eitherHeader, isTrue } from './http_api.ts';

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

/** URL and form parameters together; those of the form come first, as in Go's net/http. */
export async function parametersOf(request: ApiRequest): Promise<URLSearchParams> {
  if (request.method !== 'POST' && request.method !== 'PUT') return request.urlParameters;
  const type = request.header('content-type').split(';')[0]!.trim().toLowerCase();
  if (type !== 'application/x-www-form-urlencoded') return request.urlParameters;
  const body = await request.body(adminBodyBytesMax);
  const all = new URLSearchParams(
    Buffer.from(body.buffer, body.byteOffset, body.length).toString(),
  );
  for (const [name, value] of request.urlParameters) all.append(name, value);
  return all;
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

/** A Go duration, or seconds with a fraction, in milliseconds. */
export function durationMillis(text: string, name: string): number {
  if (/^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(text)) {
    const millis = Number(text) * 1000;
    if (!Number.isFinite(millis)) throw badRequest(`${name}: duration is too long: ${text}`);
    return millis;
  }
  return Number(parseDurationNanos(text, name)) / 1e6;
}

/** @throws {TsdbError} BAD_REQUEST when it is missing, not positive or finer than a millisecond */
export function stepParameter(parameters: URLSearchParams): number {
  const text = requiredText(parameters, 'step');
  const millis = Math.trunc(durationMillis(text, 'step'));
  if (millis <= 0) {
    throw badRequest(`step: zero or negative steps are not accepted, try a positive one: ${text}`);
  }
  return millis;
}

/** Unix milliseconds, rounded down. */
export function millisOfNanos(nanos: UnixNanos): number {
  const millis = nanos / nanosPerMilli;
  return Number(nanos < 0n && millis * nanosPerMilli !== nanos ? millis - 1n : millis);
}

/** Milliseconds until the request is given up: parameter, header or default. */
export function timeoutMillisOf(
  request: ApiRequest,
  parameters: URLSearchParams,
  settings: QuerySettings,
): number {
  const text = parameters.get('timeout') || eitherHeader(request, 'Timeout');
  if (text === '') return settings.timeoutMillis;
  const millis = Math.trunc(durationMillis(text, 'timeout'));
  if (millis < 1) throw badRequest(`timeout: must be at least 1ms: ${text}`);
  if (millis > timeoutMillisMax) {
    throw badRequest(`timeout: more than ${timeoutMillisMax / 1000}s: ${text}`);
  }
  return millis;
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
  if (millis < 1) throw badRequest(`lookback: must be at least 1ms: ${text}`);
  return millis;
}

/**
 * Limits of one request: parameters over headers over the configuration. A request may tighten the
 * configured limit on series, never pass it.
 */
export function limitsOf(
  request: ApiRequest,
  parameters: URLSearchParams,
  settings: QuerySettings,
): SelectLimits {
  const given = firstOf(parameters, ['seriesLimit', 'limit']);
  const text = given || eitherHeader(request, 'Limit-Max-Series');
  let seriesMax = settings.seriesMax;
  if (text !== '') {
    const asked = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isNaN(asked)) throw badRequest(`limit: not a whole number: ${text}`);
    if (asked > 0) seriesMax = seriesMax === 0 ? asked : Math.min(asked, seriesMax);
  }
  const exhaustive =
    parameters.get('requireExhaustive') || eitherHeader(request, 'Limit-Require-Exhaustive');
  return {
    seriesMax,
    requireExhaustive: exhaustive === '' ? settings.requireExhaustive : isTrue(exhaustive),
  };
}

/**
 * @throws {TsdbError} BAD_REQUEST when the range is longer than the configuration or the request
 * allows
 */
export function checkRange(
  request: ApiRequest,
  parameters: URLSearchParams,
  startNanos: UnixNanos,
  endNanos: UnixNanos,
  settings: QuerySettings,
): void {
  if (endNanos < startNanos) {
    throw badRequest('end: end timestamp must not be before start time');
  }
  const text = parameters.get('rangeLimit') || eitherHeader(request, 'Limit-Max-Range');
  const asked = text === '' ? 0 : durationMillis(text, 'rangeLimit');
  const bounds = [asked, settings.rangeMillisMax].filter((millis) => millis > 0);
  if (bounds.length === 0) return;
  const rangeMillisMax = Math.min(...bounds);
  const rangeMillis = Number(endNanos - startNanos) / 1e6;
  if (rangeMillis > rangeMillisMax) {
    const shown = (millis: number) => formatDurationNanos(BigInt(Math.round(millis * 1e6)));
    throw new TsdbError(
      'BAD_REQUEST',
      `query exceeded limit: range of ${shown(rangeMillis)} is longer than ${shown(rangeMillisMax)}`,
    );
  }
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
}): Record<string, string> {
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
  };
}

/** Characters that cannot stand in a header become '?'. */
export function headerText(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?');
}
