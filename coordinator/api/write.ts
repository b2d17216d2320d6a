/** The write endpoints: Prometheus remote write and JSON. */
import { badRequest, shownText, TsdbError } from '#lib/errors.ts';
import { shownJson } from '#lib/json_fields.ts';
import { readJsonList } from '#lib/json/list.ts';
import { keyTwiceText } from '#lib/json/text.ts';
import { type Tag } from '#lib/tags.ts';
import { nanosPerSecond, parseTimestampNanos } from '#lib/time.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { JsonValue } from '#engine/messages/json.ts';
import type { RemoteWriteVersion } from '#engine/write_decoder/write_decoder.ts';
import type { Ingest, IngestRow, IngestRows } from '../ingest/ingest.ts';
import type { IngestMessage } from '../ingest/messages.ts';
import { RowsRefused, type Written } from '../ingest/refusals.ts';
import { jsonRowsMax } from '../http/limits.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  checkNotEmpty,
  emptyAnswer,
  errorAnswer,
  jsonAnswer,
  refuseEncoded,
} from '../http/http_api.ts';
import { asUnavailable } from '../http/unavailable.ts';

export async function remoteWrite(
  ingest: Ingest,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
): Promise<ApiAnswer> {
  const version = versionOf(request.header('content-type'));
  const encoding = request.header('content-encoding');
  if (version === null) {
    return unsupported(
      `Content-Type: no message of remote write: ${request.header('content-type')}`,
    );
  }
  if (encoding !== '' && encoding.toLowerCase() !== 'snappy') {
    return unsupported(`Content-Encoding: only snappy is served: ${encoding}`);
  }
  try {
    if (version === 2) return await remoteWriteV2(ingest, await body(), request.signal);
    await ingest.remoteWrite(await body(), 1, request.signal);
    return emptyAnswer;
  } catch (error) {
    throw asUnavailable(error);
  }
}

export async function jsonWrite(
  ingest: Ingest,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
): Promise<ApiAnswer> {
  refuseEncoded(request);
  const bytes = checkNotEmpty(await body());
  const work = ingest.begin(request.signal);
  const { rows, problems } = await rowsOfJson(bytes, work);
  await ingest.rows(rows, problems, request.urlParameters.get('namespace') || null, work);
  return emptyAnswer;
}

/**
 * By the content type's parameter `proto`; without one it is version 1, as without a content type. Null: neither of the
 * two.
 */
function versionOf(contentType: string): RemoteWriteVersion | null {
  const mediaType = contentType.split(';')[0]!.trim().toLowerCase();
  if (mediaType !== '' && mediaType !== 'application/x-protobuf') return null;
  const message = /;\s*proto="?([^;"\s]*)/i.exec(contentType)?.[1]?.toLowerCase();
  if (message === undefined || message === 'prometheus.writerequest') return 1;
  return message === 'io.prometheus.write.v2.request' ? 2 : null;
}

function unsupported(reason: string): ApiAnswer {
  return jsonAnswer({ status: 'error', errorType: 'bad_data', error: reason }, {}, 415);
}

/**
 * Version 2 says in headers what was written, so that its senders see what a receiver does not
 * keep. Its specification asks for 204.
 */
async function remoteWriteV2(
  ingest: Ingest,
  body: Uint8Array,
  signal: AbortSignal,
): Promise<ApiAnswer> {
  try {
    const written = await ingest.remoteWrite(body, 2, signal);
    return { ...emptyAnswer, status: 204, headers: writtenHeaders(written) };
  } catch (error) {
    if (!(error instanceof RowsRefused)) throw error;
    const answer = errorAnswer(error);
    return { ...answer, headers: { ...answer.headers, ...writtenHeaders(error.written) } };
  }
}

function writtenHeaders({ samples, histograms, exemplars }: Written): Record<string, string> {
  return {
    'X-Prometheus-Remote-Write-Samples-Written': String(samples),
    'X-Prometheus-Remote-Write-Histograms-Written': String(histograms),
    'X-Prometheus-Remote-Write-Exemplars-Written': String(exemplars),
  };
}

/**
 * Rows of a JSON write: one object, or a list of them.
 * @returns good rows, and for each bad row of a list its reason; a single bad object throws
 * @throws {TsdbError} BAD_REQUEST
 */
export async function rowsOfJson(
  body: Uint8Array,
  work: Work,
): Promise<{ readonly rows: IngestRows; readonly problems: readonly string[] }> {
  const floats: IngestRow[] = [];
  const messages: IngestMessage[] = [];
  const problems: string[] = [];
  const { isList, parts } = readJsonList(body, jsonRowsMax, work);
  for await (const { firstIndex, values, twice } of parts) {
    for (const [at, item] of values.entries()) {
      try {
        const row = rowOfJson(item, twice.get(at));
        if ('json' in row) messages.push(row);
        else floats.push(row);
      } catch (error) {
        if (!isList || !(error instanceof TsdbError)) throw error;
        problems.push(`row ${firstIndex + at}: ${error.message}`);
      }
      if (work.spend(rowUnits)) await work.pause();
    }
  }
  return { rows: { floats, messages }, problems };
}

/** About what it takes to check a row, in units of work (lib/turns/turns.ts). */
const rowUnits = 200;

const fieldNames: ReadonlySet<string> = new Set(['tags', 'timestamp', 'value']);

/** @param keyTwice a key that stands twice in it, of which only one value is left */
function rowOfJson(item: unknown, keyTwice: string | undefined): IngestRow | IngestMessage {
  if (typeof item !== 'object' || item === null || Array.isArray(item)) {
    throw badRequest(`not an object with tags, timestamp and value: ${shownJson(item)}`);
  }
  if (keyTwice !== undefined) throw badRequest(keyTwiceText(keyTwice));
  const fields = item as Record<string, unknown>;
  for (const name of fieldNames) {
    if (fields[name] === undefined || fields[name] === null) {
      throw badRequest(`missing required field: ${name}`);
    }
  }
  const unknown = Object.keys(fields).find((name) => !fieldNames.has(name));
  if (unknown !== undefined) throw badRequest(`unknown field: ${shownText(unknown)}`);
  const row = {
    tags: tagsOfJson(fields['tags']),
    timestampNanos: timestampOfJson(fields['timestamp']),
  };
  const { value } = fields;
  if (typeof value === 'object' && !Array.isArray(value))
    return { ...row, json: value as JsonValue };
  return { ...row, value: valueOfJson(value) };
}

function tagsOfJson(value: unknown): Tag[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw badRequest(`tags: not an object of names to values: ${shownJson(value)}`);
  }
  return Object.entries(value).map(([name, tag]) => {
    const path = `tags.${shownText(name)}`;
    if (typeof tag !== 'string') throw badRequest(`${path}: not a string: ${shownJson(tag)}`);
    // As bytes several of them would be the same tag.
    if (!name.isWellFormed() || !tag.isWellFormed()) {
      throw badRequest(`${path}: not Unicode, a half of a surrogate pair alone: ${shownJson(tag)}`);
    }
    return { name, value: tag };
  });
}

/** Unix seconds, as a number or as text; text may also be RFC 3339. */
function timestampOfJson(value: unknown): bigint {
  if (typeof value === 'string') return parseTimestampNanos(value, 'timestamp');
  if (typeof value !== 'number') {
    throw badRequest(`timestamp: not a number or text: ${shownJson(value)}`);
  }
  // The shortest decimal text of the number is what the sender wrote.
  if (Number.isInteger(value) && Number.isSafeInteger(value)) {
    return parseTimestampNanos(String(value), 'timestamp');
  }
  if (Math.abs(value) >= 1e21 || !Number.isFinite(value)) {
    throw badRequest(`timestamp: out of range (unix seconds expected): ${value}`);
  }
  if (Math.abs(value) < 1e-6) return BigInt(Math.round(value * Number(nanosPerSecond)));
  return parseTimestampNanos(String(value), 'timestamp');
}

function valueOfJson(value: unknown): number {
  if (typeof value !== 'number') {
    throw badRequest(`value: not a number, or an object: ${shownJson(value)}`);
  }
  // JSON has no infinities: it was a number such as 1e400.
  if (!Number.isFinite(value)) throw badRequest('value: out of range, beyond 1.8e308 either way');
  return value;
}
