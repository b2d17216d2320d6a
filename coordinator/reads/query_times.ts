/** Times of queries, and how many of them there may be. */
import type { Clock } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { type ApiRequest, booleanOf } from '../http/http_api.ts';
import { stepsMax } from '../http/limits.ts';
import {
  checkOrder,
  checkRange,
  millisOfParameter,
  stepParameter,
  timestampParameter,
} from '../http/parameters.ts';
import { type QuerySettings, rangeMillisMaxOf } from './options.ts';

/** Unix milliseconds. */
export interface RangeTimes {
  readonly startMillis: number;
  /** Inclusive. */
  readonly endMillis: number;
  readonly stepMillis: number;
}

/** @throws {TsdbError} BAD_REQUEST when one is missing or none, or there are too many steps */
export function rangeTimesOf(
  { clock, settings }: { readonly clock: Clock; readonly settings: QuerySettings },
  request: ApiRequest,
  parameters: URLSearchParams,
): RangeTimes {
  const now = clock.nowNanos();
  const startNanos = timestampParameter(parameters, 'start', now, null);
  const endNanos = timestampParameter(parameters, 'end', now, null);
  const stepMillis = stepParameter(parameters);
  checkOrder(startNanos, endNanos);
  checkRange(startNanos, endNanos, rangeMillisMaxOf(request, parameters, settings));
  const startMillis = millisOfParameter(parameters, 'start', startNanos);
  const endMillis = millisOfParameter(parameters, 'end', endNanos) - leftOutMillis(parameters);
  if (endMillis < startMillis) {
    throw badRequest('end: must be after start, with end-exclusive');
  }
  checkSteps(startMillis, endMillis, stepMillis);
  return { startMillis, endMillis, stepMillis };
}

/** Of the end: it is a time of the answer but when the request leaves it out. */
function leftOutMillis(parameters: URLSearchParams): number {
  const name = 'end-exclusive';
  const text = parameters.get(name) ?? '';
  return text !== '' && booleanOf(text, name) ? 1 : 0;
}

/** The time of an instant query, now when it has none. */
export function timeMillisOf(clock: Clock, parameters: URLSearchParams): number {
  const now = clock.nowNanos();
  return millisOfParameter(parameters, 'time', timestampParameter(parameters, 'time', now, now));
}

export function checkSteps(startMillis: number, endMillis: number, stepMillis: number): void {
  // Both ends are points: there may be one more than steps between them.
  const steps = Math.floor((endMillis - startMillis) / stepMillis);
  if (steps > stepsMax) {
    throw badRequest(
      `step: exceeded maximum resolution of ${stepsMax} points per timeseries, try a longer step: ${steps + 1} points`,
    );
  }
}
