/**
 * What an endpoint sees of HTTP, and what it gives back: handlers are functions from one to the
 * other, so that they know neither express nor node:http. A handler has what it works on as its
 * first argument and gets the body in the form in which the table of routes says that it comes.
 */
import {
  answerTextOf,
  badRequest,
  TsdbError,
  httpStatusOfCode,
  shownText,
  type ErrorCode,
} from '#lib/errors.ts';
import { parseJson } from '#lib/json/text.ts';
import type { RequestBytes } from '#lib/read_memory/read_memory.ts';
import { ownTurn } from '#lib/turns/turns.ts';
import { PromqlError } from '../promql/words/errors.ts';
import { parametersOfMultipart } from './multipart.ts';
import {
  adminBodyBytesMax,
  adminValuesMax,
  formBodyBytesMax,
  parametersMax,
  retryAfterSeconds,
} from './limits.ts';

export interface ApiRequest {
  readonly method: string;
  /** Parts of the path that the route names, decoded. */
  readonly pathParameters: Readonly<Record<string, string>>;
  /** Parameters of the URL alone. */
  readonly urlParameters: URLSearchParams;
  /** Value of a header, or ''; the name in lower case. */
  header(name: string): string;
  /** Aborts when the client leaves or the server stops. */
  readonly signal: AbortSignal;
  /** What a read takes, until its answer has left. */
  readonly readMemory: RequestBytes;
}

/** A request as the server hands it to a route: its body can still be read. */
export interface ApiCall extends ApiRequest {
  /** Whether a header is there, be it empty; the name in lower case. */
  hasHeader(name: string): boolean;
  /** The whole body. Bytes are the request's own. @throws {TsdbError} BAD_REQUEST when too large */
  body(bytesMax: number): Promise<Uint8Array>;
}

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** An iterable is sent as it is made; the status is decided with its first part. */
  readonly body: string | Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

type Answer = Promise<ApiAnswer> | ApiAnswer;

/** What an endpoint takes beside its path. */
export type BodyKind = 'none' | 'form' | 'json' | 'bytes';

/** Of a request as it comes. */
export type CallHandler = (call: ApiCall) => Answer;

export interface ApiHandler extends CallHandler {
  readonly takes: BodyKind;
}

export function taking(takes: BodyKind, handler: CallHandler): ApiHandler {
  return Object.assign((call: ApiCall) => handler(call), { takes });
}
export type PlainHandler<Setup> = (setup: Setup, request: ApiRequest) => Answer;
export type FormHandler<Setup> = (
  setup: Setup,
  request: ApiRequest,
  parameters: URLSearchParams,
) => Answer;
export type JsonHandler<Setup> = (setup: Setup, request: ApiRequest, body: unknown) => Answer;
export type BytesHandler<Setup> = (
  setup: Setup,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
) => Answer;

/** Without a body. */
export function plain<Setup>(handler: PlainHandler<Setup>, setup: Setup): ApiHandler {
  return taking('none', (call) => handler(setup, call));
}

/** Parameters of the URL and, with POST or PUT, of a form. */
export function form<Setup>(handler: FormHandler<Setup>, setup: Setup): ApiHandler {
  return taking('form', async (call) => handler(setup, call, await parametersOf(call)));
}

/** A body that is longer takes a while to parse. */
const ownTurnBytes: number = 16 << 10;

export function json<Setup>(
  handler: JsonHandler<Setup>,
  setup: Setup,
  limits: JsonLimits = adminJson,
): ApiHandler {
  return taking('json', async (call) => {
    refuseEncoded(call);
    const body = checkNotEmpty(await call.body(limits.bytesMax));
    if (body.length > ownTurnBytes) await ownTurn();
    return handler(setup, call, parseJson(body, limits));
  });
}

export interface JsonLimits {
  readonly bytesMax: number;
  readonly valuesMax: number;
}

const adminJson: JsonLimits = { bytesMax: adminBodyBytesMax, valuesMax: adminValuesMax };

/** The handler reads the body, when it has seen the headers. */
export function bytes<Setup>(
  handler: BytesHandler<Setup>,
  setup: Setup,
  bytesMax: number,
): ApiHandler {
  return taking('bytes', (call) => handler(setup, call, () => call.body(bytesMax)));
}

/**
 * Parameters of a URL or a form. They are counted first, for reading names without values takes time
 * that grows with the square of their number.
 * @throws {TsdbError} BAD_REQUEST when there are too many
 */
export function parametersOfText(text: string): URLSearchParams {
  let count = 1;
  for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', at + 1)) count += 1;
  if (count > parametersMax) {
    throw badRequest(`more than ${parametersMax} parameters: ${count}`);
  }
  return new URLSearchParams(text);
}

/** URL and form parameters together; those of the form come first, as in Go's net/http. */
export async function parametersOf(call: ApiCall): Promise<URLSearchParams> {
  if (call.method !== 'POST' && call.method !== 'PUT') return call.urlParameters;
  const type = mediaTypeOf(call);
  const isMultipart = type === 'multipart/form-data';
  if (!isMultipart && type !== 'application/x-www-form-urlencoded') return call.urlParameters;
  refuseEncoded(call);
  const body = await call.body(formBodyBytesMax);
  const all = isMultipart
    ? parametersOfMultipart(body, call.header('content-type'))
    : parametersOfText(Buffer.from(body.buffer, body.byteOffset, body.length).toString());
  for (const [name, value] of call.urlParameters) all.append(name, value);
  return all;
}

/** Of the body, in lower case and without parameters; '' for none. */
export function mediaTypeOf(request: ApiRequest): string {
  return request.header('content-type').split(';')[0]!.trim().toLowerCase();
}

/** @throws {TsdbError} BAD_REQUEST when the body is empty */
export function checkNotEmpty(body: Uint8Array): Uint8Array {
  if (body.length === 0) throw badRequest('the request body is empty: JSON is expected');
  return body;
}

export const jsonContentType = 'application/json';

export function jsonAnswer(
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
  status = 200,
): ApiAnswer {
  return {
    status,
    headers: { 'Content-Type': jsonContentType, ...headers },
    body: JSON.stringify(value),
  };
}

/** 200 with no body, as writes are answered. */
export const emptyAnswer: ApiAnswer = { status: 200, headers: {}, body: '' };

/** What Prometheus calls the kinds of failure; Grafana shows them. */
const errorTypes: Readonly<Record<ErrorCode, string>> = {
  BAD_REQUEST: 'bad_data',
  NOT_FOUND: 'not_found',
  CONFLICT: 'bad_data',
  RESOURCE_EXHAUSTED: 'unavailable',
  CANCELLED: 'canceled',
  INTERNAL: 'internal',
  UNIMPLEMENTED: 'internal',
  FAILED_PRECONDITION: 'unavailable',
  UNAVAILABLE: 'unavailable',
  DEADLINE_EXCEEDED: 'timeout',
};

/**
 * The answer to a failure: `{"status":"error","errorType":…,"error":…}`.
 * @param error anything but a broken invariant; what is no TsdbError is a defect, and its text
 * stays here
 */
export function errorAnswer(error: unknown): ApiAnswer {
  const known = error instanceof TsdbError ? error : null;
  const code = known?.code ?? 'INTERNAL';
  const errorType = error instanceof PromqlError ? error.kind : errorTypes[code];
  // As Prometheus has it: the text is right, but the data or a limit forbid the operation.
  const isExecution = error instanceof PromqlError && error.kind === 'execution';
  const status = isExecution ? 422 : httpStatusOfCode[code];
  const retry = status === 429 || status === 503;
  return jsonAnswer(
    { status: 'error', errorType, error: known === null ? 'internal error' : answerTextOf(known) },
    retry ? { 'Retry-After': String(retryAfterSeconds) } : {},
    status,
  );
}

/** A response header under the product's name and under the one that M3's clients know. */
export function bothNames(name: string, value: string): Record<string, string> {
  return { [`TSDB-${name}`]: value, [`M3-${name}`]: value };
}

/** A request header under either name, or ''. */
export function eitherHeader(request: ApiRequest, name: string): string {
  const lower = name.toLowerCase();
  return request.header(`tsdb-${lower}`) || request.header(`m3-${lower}`);
}

export interface NamedHeader {
  /** As it is spelled in texts. */
  readonly name: string;
  readonly value: string;
}

/** Of headers that were asked for: endpoints name each, and every request is looked through for a dozen. */
const fullNames = new Map<string, readonly { readonly full: string; readonly lower: string }[]>();

function fullNamesOf(name: string): readonly { readonly full: string; readonly lower: string }[] {
  let names = fullNames.get(name);
  if (names === undefined) {
    const both = Object.keys(bothNames(name, ''));
    names = both.map((full) => ({ full, lower: full.toLowerCase() }));
    fullNames.set(name, names);
  }
  return names;
}

/**
 * A header under each of its names under which the request has it.
 * @param name a constant
 */
export function namedHeaders(request: ApiRequest, name: string): NamedHeader[] {
  const found: NamedHeader[] = [];
  for (const { full, lower } of fullNamesOf(name)) {
    const value = request.header(lower);
    if (value !== '') found.push({ name: full, value });
  }
  return found;
}

/**
 * Of headers that say which data are read or written: an endpoint that passed one over would answer something else than it was
 * asked for.
 * @param names of those that the endpoint does not know
 * @param isOfSamples samples are what it reads or writes in any case, so that asking for them alone changes nothing
 * @throws {TsdbError} BAD_REQUEST when the request has one of them
 */
export function refuseHeaders(
  request: ApiRequest,
  names: readonly string[],
  isOfSamples: boolean,
): void {
  for (const { name, value } of names.flatMap((each) => namedHeaders(request, each))) {
    if (isOfSamples && value === 'unaggregated' && name.endsWith('-Metrics-Type')) continue;
    throw badRequest(`header ${name}: not supported here: ${shownText(value.slice(0, 100))}`);
  }
}

/**
 * As a page about M3 may have them: without the prefix they would be passed over.
 * @param names of headers about data
 * @throws {TsdbError} BAD_REQUEST when the request has one of them without a prefix
 */
export function refuseBareHeaders(call: ApiCall, names: readonly string[]): void {
  for (const name of names) {
    if (!call.hasHeader(name.toLowerCase())) continue;
    const full = Object.keys(bothNames(name, '')).join(' or ');
    throw badRequest(`header ${name}: its name is ${full}`);
  }
}

/**
 * Of a header that keeps who asks from data: a proxy that fills it in from nothing would open all of them.
 * @param name a constant
 * @throws {TsdbError} BAD_REQUEST when the request has it with nothing in it
 */
export function refuseEmptyHeader(call: ApiCall, name: string): void {
  for (const { full, lower } of fullNamesOf(name)) {
    if (call.hasHeader(lower) && call.header(lower) === '') {
      throw badRequest(`header ${full}: it is empty, and forces nothing`);
    }
  }
}

/** "true", "1" and the like; '' and anything else is false. */
export function isTrue(text: string): boolean {
  return /^(?:1|t|true)$/i.test(text);
}

/** @throws {TsdbError} BAD_REQUEST for what is neither true nor false */
export function booleanOf(text: string, name: string): boolean {
  if (isTrue(text)) return true;
  if (/^(?:0|f|false)$/i.test(text)) return false;
  throw badRequest(`${name}: neither true nor false: ${shownText(text)}`);
}

/** @throws {TsdbError} BAD_REQUEST when a body is encoded that has to come as it is */
export function refuseEncoded(request: ApiRequest): void {
  const encoding = request.header('content-encoding').trim().toLowerCase();
  if (encoding === '' || encoding === 'identity') return;
  throw badRequest(
    `header Content-Encoding: bodies are taken as they are here, without ${shownText(encoding)}`,
  );
}
