/** The JSON listeners: 9002 for this node, 9003 for the cluster. */
import {
  type HttpRequest,
  type HttpResponse,
  type HttpServer,
  httpLimitsDefault,
  listenHttp,
  sendStream,
} from '#lib/env/http.ts';
import { readBody } from '#lib/env/http_body.ts';
import type { BytesInFlight } from '#lib/env/in_flight/bytes_in_flight.ts';
import { answerTextOf, badRequest, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Delivery } from '#lib/read_memory/delivery.ts';
import { Leaving, type MonotonicClock } from '#lib/read_memory/leaving.ts';
import { ownTurn } from '#lib/turns/turns.ts';
import type { JsonBackend } from './backend.ts';
import { type Json, JsonFields, parseFields } from './fields.ts';
import type { JsonAnswer, JsonMethod } from './method.ts';
import { errorFlagsOf, errorTypeOf, RowErrors } from './row_errors.ts';

/** A body that is longer takes a while to parse. */
const ownTurnBytes = 16 * 1024;

/** Largest body of a JSON request. */
const jsonBodyBytesMax = 4 * 1024 * 1024;

/**
 * Bodies of all JSON requests of one node that are read or worked on; more are refused with
 * RESOURCE_EXHAUSTED.
 */
export const jsonBytesInFlightMax: number = 128 * 1024 * 1024;

export interface JsonServerOptions {
  readonly host: string;
  readonly port: number;
  /** As of `HttpServerOptions`. */
  readonly allowedHosts: readonly string[] | null;
  readonly backend: JsonBackend;
  readonly methods: ReadonlyMap<string, JsonMethod>;
  /** Room for the bodies of all requests. */
  readonly inFlight: BytesInFlight;
  readonly clock: MonotonicClock;
  readonly log: Log;
}

export function serveJson(options: JsonServerOptions): Promise<HttpServer> {
  return listenHttp({
    host: options.host,
    port: options.port,
    limits: httpLimitsDefault,
    handler: (request, response, signal) => handle(options, request, response, signal),
    onError: (error) => options.log.error({ err: error }, 'a JSON request failed'),
    allowedHosts: options.allowedHosts,
    isCostly: (path) => {
      const method = options.methods.get(path);
      return method?.verb === 'GET' && method.isCostly === true;
    },
    refuse: (response, { status, reason }) =>
      send(response, status, errorText('BAD_REQUEST', reason, 0)),
  });
}

async function handle(
  options: JsonServerOptions,
  request: HttpRequest,
  response: HttpResponse,
  signal: AbortSignal,
): Promise<void> {
  const sent = Promise.withResolvers<void>();
  const leaving = new Leaving(options.clock, () => response.destroy());
  try {
    const answer = await answerOf(options, request, signal, { sent: sent.promise, leaving });
    const parts = typeof answer === 'string' ? [Buffer.from(answer)] : answer;
    response.writeHead(200, { 'Content-Type': 'application/json', ...lengthOf(parts) });
    await sendStream(response, parts, signal, leaving);
  } catch (error) {
    if (!(error instanceof TsdbError) || response.headersSent) throw error;
    sendError(response, error);
  } finally {
    sent.resolve();
  }
}

/** @throws {TsdbError} */
async function answerOf(
  { backend, inFlight, methods }: JsonServerOptions,
  request: HttpRequest,
  signal: AbortSignal,
  delivery: Delivery,
): Promise<JsonAnswer> {
  refuseForced(request);
  const method = methodOf(methods, request);
  if (method.verb === 'GET') return method.call(backend, signal);
  const limits = { bytesMax: jsonBodyBytesMax, inFlight };
  const { body, taken } = await readBody(request, limits, signal);
  try {
    if (body.length > ownTurnBytes) await ownTurn();
    return await method.call(backend, fieldsOf(method, request, body), signal, delivery);
  } finally {
    inFlight.give(taken);
  }
}

/** Of an answer that is there. */
function lengthOf(parts: Iterable<Uint8Array>): { 'Content-Length'?: number } {
  return Array.isArray(parts) ? { 'Content-Length': parts[0].length } : {};
}

const prefixes = ['tsdb', 'm3'];

/** Who is forced to some series by a header of the coordinator's API would read all of them here. */
function refuseForced(request: HttpRequest): void {
  for (const prefix of prefixes) {
    const name = `${prefix}-restrict-by-tags-json`;
    if (request.headers[name] === undefined) continue;
    throw badRequest(`header ${name}: not supported here: ask a coordinator`);
  }
}

/** @throws {TsdbError} NOT_FOUND, BAD_REQUEST */
function methodOf(methods: JsonServerOptions['methods'], request: HttpRequest): JsonMethod {
  const path = (request.url ?? '/').replace(/\?.*$/, '').replace(/(.)\/$/, '$1');
  const method = methods.get(path);
  if (method === undefined) throw new TsdbError('NOT_FOUND', `there is no method at ${path}`);
  if (request.method !== method.verb) {
    throw badRequest(`${path} takes ${method.verb} requests: ${request.method}`);
  }
  return method;
}

function fieldsOf(
  method: Extract<JsonMethod, { verb: 'POST' }>,
  request: HttpRequest,
  body: Uint8Array,
): JsonFields {
  const allowUnknown = prefixes.some(
    (prefix) => request.headers[`${prefix}-json-disable-disallow-unknown-fields`] === 'true',
  );
  const json = method.takesQuery === true ? withQuery(body, request) : parseFields(body);
  return new JsonFields(json, '', allowUnknown);
}

/** The fields of the body, which may be empty, and those of the query. */
function withQuery(bytes: Uint8Array, request: HttpRequest): Json {
  const body = isBlank(bytes) ? {} : parseFields(bytes);
  const query = Object.fromEntries(new URL(request.url ?? '/', 'http://node').searchParams);
  if (body === null || typeof body !== 'object' || Array.isArray(body)) return body;
  return { ...body, ...query };
}

const isBlank = (bytes: Uint8Array): boolean => bytes.every((byte) => byte <= 0x20);

function send(
  response: HttpResponse,
  status: number,
  body: string,
  headers: Record<string, string> = {},
): void {
  const bytes = Buffer.from(body);
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': bytes.length,
    ...headers,
  });
  response.end(bytes);
}

const retryAfterSeconds = 5;

function sendError(response: HttpResponse, error: TsdbError): void {
  const { httpStatus } = error;
  const isPassing = httpStatus === 429 || httpStatus === 503;
  const headers = isPassing ? { 'Retry-After': String(retryAfterSeconds) } : {};
  send(response, httpStatus, textOf(error), headers);
}

function textOf(error: TsdbError): string {
  if (!(error instanceof RowErrors)) {
    return errorText(errorTypeOf(error), answerTextOf(error), errorFlagsOf(error));
  }
  const errors = error.rows.map((row) => ({ index: row.index, err: dataOf(row.error) }));
  return `${JSON.stringify({ error: { message: error.message, data: { errors } } })}\n`;
}

function dataOf(error: TsdbError): object {
  return errorData(errorTypeOf(error), answerTextOf(error), errorFlagsOf(error));
}

function errorData(type: string, message: string, flags: number): object {
  return { type, message, ...(flags === 0 ? {} : { flags }) };
}

function errorText(type: string, message: string, flags: number): string {
  const error = {
    message: `Error({Type:${type} Message:${message} Flags:${flags}})`,
    data: errorData(type, message, flags),
  };
  return `${JSON.stringify({ error })}\n`;
}
