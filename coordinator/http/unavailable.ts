/** What senders of rows are told of a failure that passes. */
import { TsdbError } from '#lib/errors.ts';

/**
 * Prometheus sends a body again after 5xx, but drops it after 429 unless `retry_on_http_429` is
 * set, and Telegraf drops it always: what passes is 503 here.
 */
export function asUnavailable(error: unknown): unknown {
  if (!(error instanceof TsdbError) || error.code !== 'RESOURCE_EXHAUSTED') return error;
  return new TsdbError('UNAVAILABLE', error.message, { cause: error });
}
