/**
 * The coordinator's API over HTTP. Every endpoint stands in the table of routes.ts; express finds
 * the handler of most of them. The hot ones (writes that come thousands of times a second) are
 * found in a map before express sees the request. This is the one place that knows express.
 */
import express from 'express';
import { BrokenInvariant } from '#lib/assert.ts';
import { type ListenAddress } from '#lib/config/config.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import {
  crash,
  type HttpRequest,
  type HttpResponse,
  type HttpServer,
  httpLimitsDefault,
  listenHttp,
  sendStream,
} from '#lib/env/http.ts';
import { readBody } from '#lib/env/http_body.ts';
import { BytesInFlight } from '#lib/env/in_flight/bytes_in_flight.ts';
import { Leaving } from '#lib/read_memory/leaving.ts';
import type { RequestBytes, ReadMemory, ReadReservation } from '#lib/read_memory/read_memory.ts';
import type { Refusal } from '#lib/env/browser_guard.ts';
import type { Log } from '#lib/log.ts';
import { type Tracing, traceparentHeader } from '#lib/tracing/tracing.ts';
import {
  type ApiAnswer,
  type ApiCall,
  type CallHandler,
  errorAnswer,
  jsonAnswer,
  parametersOfText,
} from './http_api.ts';
import {
  type AnswerEncoding,
  encoderBytes,
  encoderOf,
  encodersMax,
  encodingFor,
  isCompressible,
} from './encoding.ts';
import { otherBytesInFlightMax } from './limits.ts';
import type { ApiMetrics } from './metrics.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

export interface Route {
  readonly methods: readonly Method[];
  /** `{name}` stands for one part of the path. */
  readonly path: string;
  readonly handler: CallHandler;
  /**
   * Found before express; must have no parts with names. Its bodies are counted as bytes of writes.
   */
  readonly isWrite: boolean;
  /** Its GET costs what its asker likes: no web page of another site may ask. */
  readonly isCostly: boolean;
}

export interface ApiServerOptions {
  readonly address: ListenAddress;
  /** As of `HttpServerOptions`. */
  readonly allowedHosts: readonly string[] | null;
  readonly connectionsMax: number;
  /** Of all bodies of writes together. */
  readonly writeBytesInFlightMax: number;
  /** Of all reads together, until their answers have left. */
  readonly readMemory: ReadMemory;
  readonly routes: readonly Route[];
  readonly log: Log;
  readonly metrics: ApiMetrics;
  readonly monotonicMillis: () => number;
  /** Of requests; null for none. */
  readonly tracing: Tracing | null;
}

/**
 * Of each, the system gives one connection in a turn of the loop. With one, twenty clients that connect and leave as fast as they can
 * fill the line at the port, of which others are thrown out: they come again after one, three and seven seconds. With
 * eight, a new client waits for two seconds behind a thousand writers where a turn takes 20 ms, with these for half of one.
 */
const listeners = 32;

/** Opens the API. */
export function openApiServer(options: ApiServerOptions): Promise<HttpServer> {
  const server = new ApiServer(options);
  return listenHttp({
    host: options.address.host,
    port: options.address.port,
    limits: { ...httpLimitsDefault, connectionsMax: options.connectionsMax },
    listeners,
    handler: (request, response, signal) => server.serve(request, response, signal),
    onError: (error) => options.log.error({ err: error }, 'a request failed in the HTTP server'),
    allowedHosts: options.allowedHosts,
    isCostly: (path) => server.isCostly(path),
    refuse: (response, refusal) => server.refuse(response, refusal),
  });
}

/** What is known of a call before its handler runs. */
interface AnsweredCall {
  readonly signal?: AbortSignal;
  readonly path?: string;
  readonly pathParameters?: Readonly<Record<string, string>>;
  readonly inFlight?: BytesInFlight;
}

/** What express hands its handlers, with what we hung on it. */
interface Served {
  readonly signal: AbortSignal;
  readonly done: () => void;
}

class ApiServer {
  readonly #options: ApiServerOptions;
  readonly #writesInFlight: BytesInFlight;
  /** Apart from writes, so that a flood of those locks out no operator. */
  readonly #othersInFlight = new BytesInFlight(otherBytesInFlightMax);
  /**
   * By path and method, those without parameters in their path: express walks over all routes for each request,
   * and gives it and its answer other prototypes.
   */
  readonly #plain = new Map<string, Map<string, Route>>();
  readonly #costly: readonly RegExp[];
  readonly #application: express.Express;
  readonly #served = new WeakMap<HttpRequest, Served>();
  #encoderCount = 0;

  constructor(options: ApiServerOptions) {
    this.#options = options;
    this.#writesInFlight = new BytesInFlight(options.writeBytesInFlightMax);
    for (const route of options.routes) {
      if (route.path.includes('{')) continue;
      const byMethod = this.#plain.get(route.path) ?? new Map<string, Route>();
      this.#plain.set(route.path, byMethod);
      for (const method of route.methods) byMethod.set(method, route);
    }
    this.#costly = options.routes
      .filter(({ isCostly }) => isCostly)
      .map(({ path }) => new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`));
    this.#application = this.#build();
  }

  #build(): express.Express {
    const application = express();
    application.disable('x-powered-by');
    application.disable('etag');
    application.set('query parser', false);
    application.set('case sensitive routing', true);
    const methodsOfPath = new Map<string, Set<string>>();
    for (const route of this.#options.routes) {
      const methods = methodsOfPath.get(route.path) ?? new Set();
      methodsOfPath.set(route.path, methods);
      const path = route.path.replace(/\{(\w+)\}/g, ':$1');
      for (const method of route.methods) {
        methods.add(method);
        application[method.toLowerCase() as 'get' | 'post' | 'put' | 'delete'](
          path,
          (request, response) => this.#run(route, request, response),
        );
      }
    }
    for (const [path, methods] of methodsOfPath) {
      application.all(path.replace(/\{(\w+)\}/g, ':$1'), (request, response) =>
        this.#answer(request, response, () => wrongMethod(request.method, path, [...methods])),
      );
    }
    application.use((request, response) =>
      this.#answer(request, response, () => {
        throw new TsdbError('NOT_FOUND', `path is not served: ${request.path}; GET / says what is`);
      }),
    );
    // Express itself fails on paths that cannot be decoded.
    const onError: express.ErrorRequestHandler = (error, request, response, _next) =>
      this.#answer(request, response, () => {
        const status = (error as { status?: number }).status;
        throw status === 400 ? badRequest(`path cannot be decoded: ${request.url}`) : error;
      });
    application.use(onError);
    return application;
  }

  isCostly(path: string): boolean {
    return this.#costly.some((pattern) => pattern.test(path));
  }

  refuse(response: HttpResponse, { status, reason }: Refusal): void {
    const body = { status: 'error', errorType: 'bad_data', error: reason };
    const answer = jsonAnswer(body, {}, status);
    response.writeHead(status, answer.headers).end(answer.body);
    this.#options.metrics.requests.increase(1, { path: 'other', status: String(status) });
  }

  async serve(request: HttpRequest, response: HttpResponse, signal: AbortSignal): Promise<void> {
    const url = request.url ?? '/';
    const query = url.indexOf('?');
    const path = query < 0 ? url : url.slice(0, query);
    const route = this.#plain.get(path)?.get(request.method ?? '');
    if (route !== undefined) {
      await this.#answer(request, response, (call) => route.handler(call), {
        signal,
        path: route.path,
        inFlight: route.isWrite ? this.#writesInFlight : this.#othersInFlight,
      });
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#served.set(request, { signal, done: resolve });
    this.#application(request as express.Request, response as express.Response);
    await promise;
  }

  async #run(route: Route, request: express.Request, response: express.Response): Promise<void> {
    await this.#answer(request, response, (call) => route.handler(call), {
      path: route.path,
      pathParameters: request.params as Record<string, string>,
    });
  }

  /** Runs a handler and sends its answer, or the answer to its failure, in a span. Never rejects. */
  async #answer(
    request: HttpRequest,
    response: HttpResponse,
    handler: CallHandler,
    call: AnsweredCall = {},
  ): Promise<void> {
    const { tracing } = this.#options;
    if (tracing === null) {
      await this.#answerOf(request, response, handler, call);
      return;
    }
    const { method = 'GET', headers } = request;
    const route = call.path ?? 'other';
    const parent = headers[traceparentHeader];
    const options = {
      kind: 'server',
      parent: typeof parent === 'string' ? parent : undefined,
      attributes: { 'http.request.method': method, 'http.route': route },
    } as const;
    await tracing.run(`${method} ${route}`, options, async (span) => {
      const status = await this.#answerOf(request, response, handler, call);
      span.set('http.response.status_code', status);
      if (status >= 500) span.fail(`status ${status}`);
    });
  }

  /** @returns the status that was sent */
  async #answerOf(
    request: HttpRequest,
    response: HttpResponse,
    handler: CallHandler,
    call: AnsweredCall,
  ): Promise<number> {
    const { monotonicMillis, metrics, log } = this.#options;
    const served = this.#served.get(request);
    const startMillis = monotonicMillis();
    const held: HeldBytes = {
      bytes: 0,
      inFlight: call.inFlight ?? this.#othersInFlight,
      read: this.#options.readMemory.begin(),
    };
    const signal = call.signal ?? served!.signal;
    const path = call.path ?? 'other';
    const accepted = String(request.headers['accept-encoding'] ?? '');
    let status = 500;
    try {
      const { pathParameters = noParameters } = call;
      const served = new ServedRequest(request, signal, pathParameters, held);
      status = await this.#send(response, await handler(served), accepted, signal, held.read);
    } catch (error) {
      if (error instanceof BrokenInvariant) crash(error);
      const failure = signal.aborted ? signal.reason : error;
      const answer = errorAnswer(failure);
      ({ status } = answer);
      if (!(failure instanceof TsdbError)) {
        log.error({ err: failure as Error, path, method: request.method }, 'a request failed');
      }
      // An answer that broke off must not look whole.
      if (response.headersSent) response.destroy();
      else if (!response.destroyed) {
        await this.#send(response, answer, accepted, signal, held.read).catch(() => {});
      }
    } finally {
      held.inFlight.give(held.bytes);
      held.read[Symbol.dispose]();
      metrics.requestSeconds.observe((monotonicMillis() - startMillis) / 1000, { path });
      metrics.requests.increase(1, { path, status: String(status) });
      served?.done();
    }
    return status;
  }

  /**
   * @param accepted header `Accept-Encoding` of the request
   * @returns the status that was sent
   */
  async #send(
    response: HttpResponse,
    { status, headers, body }: ApiAnswer,
    accepted: string,
    signal: AbortSignal,
    memory: ReadReservation,
  ): Promise<number> {
    const head = new AnswerHead(response, status, headers, accepted);
    if (typeof body === 'string' || body instanceof Uint8Array) {
      const bytes = typeof body === 'string' ? Buffer.from(body) : body;
      if (bytes.length <= uncountedBytesMax) {
        head.sendWhole(bytes);
        return status;
      }
      await memory.grow(bytes.length, signal);
      await this.#sendParts(response, [bytes], head, signal, memory, bytes.length);
      return status;
    }
    // The first part is awaited before the status is sent: most failures come until then.
    const parts: AsyncIterator<Uint8Array> | Iterator<Uint8Array> =
      Symbol.asyncIterator in body ? body[Symbol.asyncIterator]() : body[Symbol.iterator]();
    const first = await parts.next();
    let second: IteratorResult<Uint8Array> | null = null;
    if (first.done !== true && first.value.length <= uncountedBytesMax) {
      second = await parts.next();
      if (second.done === true) {
        head.sendWhole(first.value);
        return status;
      }
    }
    const begun = second === null ? [first] : [first, second];
    await this.#sendParts(response, partsFrom(begun, parts), head, signal, memory);
    return status;
  }

  /** @param length of all parts, where it is known */
  async #sendParts(
    response: HttpResponse,
    parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    head: AnswerHead,
    signal: AbortSignal,
    memory: ReadReservation,
    length?: number,
  ): Promise<void> {
    const leaving = new Leaving(this.#options, () => response.destroy());
    const { encoding } = head;
    if (encoding === null || this.#encoderCount >= encodersMax || !memory.tryGrow(encoderBytes)) {
      head.write(length === undefined ? {} : { 'Content-Length': length });
      memory.leaves(leaving);
      await sendStream(response, parts, signal, leaving);
      return;
    }
    head.write({ 'Content-Encoding': encoding });
    memory.leaves(leaving);
    this.#encoderCount += 1;
    try {
      await sendStream(response, parts, signal, leaving, encoderOf(encoding));
    } finally {
      this.#encoderCount -= 1;
    }
  }
}

/** Status and headers of an answer on its way, with what its client may get of it. */
class AnswerHead {
  readonly #response: HttpResponse;
  readonly #status: number;
  readonly #headers: ApiAnswer['headers'];
  readonly #isCompressible: boolean;
  /** Null when it is to be sent as it is. */
  readonly encoding: AnswerEncoding | null;

  constructor(
    response: HttpResponse,
    status: number,
    headers: ApiAnswer['headers'],
    accepted: string,
  ) {
    this.#response = response;
    this.#status = status;
    this.#headers = headers;
    this.#isCompressible =
      headers['Content-Encoding'] === undefined && isCompressible(headers['Content-Type'] ?? '');
    this.encoding = this.#isCompressible ? encodingFor(accepted) : null;
  }

  write(more: Record<string, string | number>): void {
    const vary = this.#isCompressible ? { Vary: 'Accept-Encoding' } : {};
    this.#response.writeHead(this.#status, { ...this.#headers, ...vary, ...more });
  }

  /** Of a short answer. */
  sendWhole(body: Uint8Array): void {
    // An answer without content has no length either.
    this.write(this.#status === 204 ? {} : { 'Content-Length': body.length });
    this.#response.end(body);
  }
}

/** An answer up to so long is not counted, and sent as it is: the sockets take it. */
const uncountedBytesMax = 16_384;

interface HeldBytes {
  /** Of the body. */
  bytes: number;
  readonly inFlight: BytesInFlight;
  readonly read: ReadReservation;
}

const noParameters: Readonly<Record<string, string>> = {};

/**
 * A request as handlers see it. A class, since literals with accessors are made anew, member by
 * member, every time.
 */
class ServedRequest implements ApiCall {
  readonly method: string;
  readonly pathParameters: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  readonly readMemory: RequestBytes;
  readonly #request: HttpRequest;
  readonly #held: HeldBytes;
  #parsed: URLSearchParams | null = null;

  /** @param held counts the bytes of the body, which the caller gives back */
  constructor(
    request: HttpRequest,
    signal: AbortSignal,
    pathParameters: Readonly<Record<string, string>>,
    held: HeldBytes,
  ) {
    this.#request = request;
    this.method = request.method ?? 'GET';
    this.signal = signal;
    this.pathParameters = pathParameters;
    this.readMemory = held.read;
    this.#held = held;
  }

  get urlParameters(): URLSearchParams {
    if (this.#parsed === null) {
      const url = this.#request.url ?? '/';
      const query = url.indexOf('?');
      this.#parsed = parametersOfText(query < 0 ? '' : url.slice(query + 1));
    }
    return this.#parsed;
  }

  header(name: string): string {
    const value = this.#request.headers[name];
    return Array.isArray(value) ? value.join(', ') : (value ?? '');
  }

  hasHeader(name: string): boolean {
    return this.#request.headers[name] !== undefined;
  }

  async body(bytesMax: number): Promise<Uint8Array> {
    const { signal } = this;
    const held = this.#held;
    const request = this.#request;
    const { body, taken } = await readBody(request, { bytesMax, inFlight: held.inFlight }, signal);
    held.bytes += taken;
    return body;
  }
}

async function* partsFrom(
  begun: readonly IteratorResult<Uint8Array>[],
  rest: AsyncIterator<Uint8Array> | Iterator<Uint8Array>,
): AsyncIterable<Uint8Array> {
  try {
    for (const part of begun) {
      if (part.done === true) return;
      yield part.value;
    }
    for (let part = await rest.next(); part.done !== true; part = await rest.next())
      yield part.value;
  } finally {
    await rest.return?.();
  }
}

function wrongMethod(method: string, path: string, methods: readonly string[]): ApiAnswer {
  return jsonAnswer(
    {
      status: 'error',
      errorType: 'bad_data',
      error: `method ${method} is not served at ${path}: use ${methods.join(' or ')}`,
    },
    { Allow: methods.join(', ') },
    405,
  );
}
