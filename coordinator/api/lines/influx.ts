/**
 * What clients of InfluxDB 1 and 2 and Telegraf call: writes by line protocol, and what they ask before they write. Queries are
 * PromQL here.
 */
import { badRequest, shownText, TsdbError } from '#lib/errors.ts';
import type { Ingest } from '../../ingest/ingest.ts';
import { RowsRefused } from '../../ingest/writing/refusals.ts';
import { decodedChunks } from '../../http/decoding.ts';
import { asUnavailable } from '../../http/unavailable.ts';
import { tagMappingOf } from '../../ingest/write_headers.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  type FormHandler,
  emptyAnswer,
  errorAnswer,
  jsonAnswer,
  type PlainHandler,
} from '../../http/http_api.ts';

const nanosOfPrecision: ReadonlyMap<string, bigint> = new Map([
  ['n', 1n],
  ['ns', 1n],
  ['u', 1_000n],
  ['us', 1_000n],
  ['µ', 1_000n],
  ['ms', 1_000_000n],
  ['s', 1_000_000_000n],
  ['m', 60_000_000_000n],
  ['h', 3_600_000_000_000n],
]);

/** Lines of all databases, buckets and organisations go to the same namespaces. */
export async function influxWrite(
  ingest: Ingest,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
): Promise<ApiAnswer> {
  try {
    const precision = request.urlParameters.get('precision') || 'ns';
    const unitNanos = nanosOfPrecision.get(precision);
    if (unitNanos === undefined) {
      throw badRequest(`precision: none of ns, u, us, ms, s, m and h: ${shownText(precision)}`);
    }
    const mapping = tagMappingOf(ingest, request);
    const bytes = await body();
    if (bytes.length === 0) throw badRequest('the request body is empty: lines are expected');
    const chunks = decodedChunks(bytes, request.header('content-encoding'), request.signal);
    const times = { unitNanos, defaultNanos: null };
    await ingest.lines('influx', chunks, times, ingest.begin(request.signal), mapping);
    return { ...emptyAnswer, status: 204 };
  } catch (error) {
    const passing = asUnavailable(error);
    if (!(passing instanceof TsdbError)) throw passing;
    return influxError(passing);
  }
}

/** Clients of version 1 read `error`, those of version 2 `code` and `message`. */
function influxError(error: TsdbError): ApiAnswer {
  const { status, headers, body } = errorAnswer(error);
  const { error: reason } = JSON.parse(body as string) as { readonly error: string };
  // Telegraf and other clients look for these words.
  const message = error instanceof RowsRefused ? `partial write: ${reason}` : reason;
  const code = codes.get(status) ?? 'internal error';
  return jsonAnswer(
    { code, message, error: message },
    { ...headers, 'X-Influxdb-Error': headerText(message) },
    status,
  );
}

const codes: ReadonlyMap<number, string> = new Map([
  [400, 'invalid'],
  [429, 'too many requests'],
  [503, 'unavailable'],
]);

/** Longest text of a header that we send. */
const headerTextMax = 1000;

function headerText(text: string): string {
  return text.slice(0, headerTextMax).replace(/[^\x20-\x7e]/g, '?');
}

/** Of the line protocol that is served; clients only look whether there is one. */
const versionHeaders = { 'X-Influxdb-Version': '1.8.10', 'X-Influxdb-Build': 'tsdb' };

export const influxPing: PlainHandler<null> = () => ({
  status: 204,
  headers: versionHeaders,
  body: '',
});

/**
 * Telegraf and others create their database before they write. There is nothing to create; what would read or change anything
 * is refused.
 */
export const influxQuery: FormHandler<null> = (_setup, _request, parameters) => {
  const text = parameters.get('q') ?? '';
  if (/^\s*create\s+(?:database|retention\s+policy)\b/i.test(text)) {
    return jsonAnswer({ results: [{ statement_id: 0 }] }, versionHeaders);
  }
  if (/^\s*show\s+databases\s*;?\s*$/i.test(text)) {
    const series = [{ name: 'databases', columns: ['name'], values: [['tsdb']] }];
    return jsonAnswer({ results: [{ statement_id: 0, series }] }, versionHeaders);
  }
  const error = `only CREATE DATABASE, CREATE RETENTION POLICY and SHOW DATABASES are answered; data are read by PromQL at /api/v1/query: ${shownText(text)}`;
  return jsonAnswer({ error }, versionHeaders, 400);
};
