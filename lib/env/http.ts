/**
 * HTTP servers and requests over node:http, with limits. Whatever is served over HTTP goes through
 * here: the coordinator's API, the node's JSON listeners, metrics and debug pages.
 */
import * as http from 'node:http';
import * as https from 'node:https';
import {
  type AddressInfo,
  createServer,
  type ListenOptions,
  type Server,
  type Socket,
} from 'node:net';
import type { Transform, Writable } from 'node:stream';
import { BrokenInvariant } from '../assert.ts';
import { TsdbError } from '../errors.ts';
import { type GuardOptions, BrowserGuard, type Refusal } from './browser_guard.ts';
import { isInPieces } from './http_body.ts';
import { freeSent } from './in_flight/freed_bytes.ts';
import { ListenError } from './listen_error.ts';
import { realEnv } from './real.ts';
import { openAccount } from '../turns/accounts.ts';
import { Turns, type Work } from '../turns/turns.ts';

export type HttpRequest = http.IncomingMessage;
export type HttpResponse = http.ServerResponse;

export interface HttpLimits {
  /** All headers of a request together. */
  readonly headerBytesMax: number;
  /**
   * Open connections. A further one takes the place of the one that has gone without a request for
   * longest, and is closed at once when all have one.
   */
  readonly connectionsMax: number;
  /** From the first byte of a request to the end of its headers. */
  readonly headersMillisMax: number;
  /** From the first byte of a request to the last one of its body. */
  readonly receiveMillisMax: number;
  /** How long an idle connection is kept. */
  readonly keepAliveMillis: number;
  /** How long a client may leave bytes of its answer untaken before it is cut off. */
  readonly stalledMillisMax: number;
}

export const httpLimitsDefault: HttpLimits = {
  headerBytesMax: 64 * 1024,
  connectionsMax: 20_000,
  headersMillisMax: 30_000,
  receiveMillisMax: 120_000,
  keepAliveMillis: 75_000,
  stalledMillisMax: 60_000,
};

export interface HttpServerOptions {
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
  readonly limits: HttpLimits;
  /**
   * Answers one request. A rejection with BrokenInvariant ends the process; any other is answered
   * with 500 when nothing was sent yet, and told to `onError`.
   *
   * @param signal aborts with CANCELLED when the client leaves, and with UNAVAILABLE when the
   * server stops
   */
  readonly handler: (
    request: HttpRequest,
    response: HttpResponse,
    signal: AbortSignal,
  ) => void | Promise<void>;
  readonly onError: (error: unknown) => void;
  /** Default: null, as of `GuardOptions`. */
  readonly allowedHosts?: GuardOptions['allowedHosts'];
  /** Default: no GET changes anything or costs much. */
  readonly isCostly?: GuardOptions['isCostly'];
  /**
   * Sockets that listen at the port, where the system can do that and the port is given. It gives a process one connection of
   * each of them in a turn of the loop. Default: one.
   */
  readonly listeners?: number;
  /** Answers what the guard refuses; as plain text without it. */
  readonly refuse?: (response: HttpResponse, refusal: Refusal) => void;
}

export interface HttpServer extends AsyncDisposable {
  readonly host: string;
  /** The port that is really open. */
  readonly port: number;
  /** Stops listening, lets running requests end for that long, then cuts them off. */
  close(graceMillis?: number): Promise<void>;
}

const graceMillisDefault = 5_000;
/** Connections that wait to be accepted: of more the system drops some, which come again after a second or more. */
const backlog = 4_096;
const lingerMillisMax = 5_000;

/**
 * Opens a server.
 * @throws {ListenError} when the address cannot be used
 */
export async function listenHttp(options: HttpServerOptions): Promise<HttpServer> {
  const { limits, handler, onError, refuse = refuseAsText } = options;
  const { allowedHosts = null, isCostly = () => false } = options;
  const guard = new BrowserGuard({ allowedHosts, isCostly });
  const running = new RunningRequests();
  const connections = new Connections(limits.connectionsMax);
  const server = http.createServer(
    {
      maxHeaderSize: limits.headerBytesMax,
      headersTimeout: limits.headersMillisMax,
      requestTimeout: limits.receiveMillisMax,
      keepAliveTimeout: limits.keepAliveMillis,
      connectionsCheckingInterval: 5_000,
      noDelay: true,
    },
    (request, response) => {
      connections.of(request.socket)?.next(response, () => begin(request, response));
    },
  );
  const begin = (request: HttpRequest, response: HttpResponse): void => {
    const ends = running.begin();
    openAccount(ends.signal);
    response.once('close', () => {
      running.end(ends);
      // Kept-alive connections become idle one by one while the server closes.
      if (!server.listening) setImmediate(() => server.closeIdleConnections());
      if (!response.writableFinished) {
        ends.abort(new TsdbError('CANCELLED', 'the client closed the connection'));
      }
    });
    // A connection that is lost while we answer is no error of the process.
    request.on('error', ignore);
    response.on('error', ignore);
    response.on('timeout', cutOffStalled);
    response.once('finish', () => lingerFor(request));
    void answer(request, response, ends.signal);
  };
  const answer = async (
    request: HttpRequest,
    response: HttpResponse,
    signal: AbortSignal,
  ): Promise<void> => {
    try {
      const refusal = guard.refusalOf(request);
      if (refusal === null) await handler(request, response, signal);
      else refuse(response, refusal);
    } catch (error) {
      if (error instanceof BrokenInvariant) crash(error);
      onError(error);
      if (response.headersSent) response.destroy();
      else if (!response.destroyed) {
        response.writeHead(500, { 'Content-Type': 'text/plain; charset=utf-8' });
        response.end('internal error\n');
      }
    }
  };
  // Of a connection on which nothing moves; with a request under way, `cutOffStalled` decides.
  server.timeout = limits.stalledMillisMax;
  const turns = Turns.of(realEnv.clock);
  server.on('connection', (socket) => {
    turns.noteConnection();
    connections.add(socket);
  });
  // Without this a body that nobody asked for is lost; with it the client is told to go on.
  server.on('checkContinue', (request, response) => {
    response.writeContinue();
    server.emit('request', request, response);
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // It has left in the middle of a request: to write to where nobody reads costs more than all else of such
    // a connection.
    if (error.code === 'HPE_INVALID_EOF_STATE') {
      socket.destroy();
      return;
    }
    const status =
      error.code === 'HPE_HEADER_OVERFLOW'
        ? '431 Request Header Fields Too Large'
        : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
          ? '408 Request Timeout'
          : '400 Bad Request';
    if (socket.writable) socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
    else socket.destroy();
  });
  const others = await listen(server, options);
  server.on('error', onError);
  for (const other of others) other.on('error', onError);
  return new OpenServer(server, others, options.host, running);
}

/**
 * Opens the port.
 * @returns servers beside this one, which hand their connections to it
 * @throws {ListenError}
 */
async function listen(
  server: http.Server,
  { host, port, listeners = 1 }: HttpServerOptions,
): Promise<Server[]> {
  const address = { host, port, backlog };
  const all: Server[] = [server];
  const open = (one: Server, reusePort: boolean): Promise<void> =>
    opened(one, { ...address, reusePort });
  try {
    if (listeners === 1 || port === 0) {
      await open(server, false);
      return [];
    }
    // Sockets that share a port would share it with those of another process, too.
    const probe = createServer();
    await open(probe, false);
    // The port is free at once, and nobody is waited for: another process may want it, too.
    probe.close();
    try {
      await open(server, true);
    } catch (error) {
      if (saysWhoMayListen.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
      // The system does not share ports.
      await open(server, false);
      return [];
    }
    while (all.length < listeners) {
      // As node:http has its own.
      const other = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
        server.emit('connection', socket);
      });
      await open(other, true);
      all.push(other);
    }
    return all.slice(1);
  } catch (error) {
    for (const one of all) one.close();
    throw new ListenError(host, port, error);
  }
}

const saysWhoMayListen: ReadonlySet<string> = new Set(['EADDRINUSE', 'EACCES', 'EADDRNOTAVAIL']);

function opened(server: Server, options: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(options, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function ignore(): void {}

function refuseAsText(response: HttpResponse, { status, reason }: Refusal): void {
  response.writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8' });
  response.end(`${reason}\n`);
}

/** What is left of a body after its answer is read and dropped, so that the client gets to see it. */
function lingerFor(request: HttpRequest): void {
  if (request.complete) return;
  setTimeout(
    () => {
      if (!request.complete) request.socket.destroy();
    },
    isInPieces(request) ? 0 : lingerMillisMax,
  ).unref();
}

/** A client that waits for its answer may wait; one that does not take it holds our memory. */
function cutOffStalled(socket: Socket): void {
  if (socket.writableLength > 0) socket.destroy();
}

/** Requests that wait for those before them on their connection; no more are read at once. */
const waitingMax = 16;
/**
 * Node reads on when a request has ended, whoever has paused the socket. A connection on which so many
 * wait is closed, with those that were sent ahead: each is an object of ours.
 */
const sentAheadMax = 1_000;

/** The open connections of a server. */
class Connections {
  readonly #max: number;
  readonly #all = new Map<Socket, Connection>();
  /** Without a whole request under way, longest first. */
  readonly #idle = new Set<Socket>();

  constructor(max: number) {
    this.#max = max;
  }

  add(socket: Socket): void {
    if (this.#all.size >= this.#max) {
      const [longest] = this.#idle;
      if (longest === undefined) {
        socket.destroy();
        return;
      }
      this.#remove(longest);
      longest.destroy();
    }
    const connection = new Connection(socket, (isBusy) => {
      if (isBusy) this.#idle.delete(socket);
      else if (this.#all.has(socket)) this.#idle.add(socket);
    });
    this.#all.set(socket, connection);
    this.#idle.add(socket);
    socket.once('close', () => {
      connection.close();
      this.#remove(socket);
    });
  }

  #remove(socket: Socket): void {
    this.#all.delete(socket);
    this.#idle.delete(socket);
  }

  /** Undefined once it has been closed. */
  of(socket: Socket): Connection | undefined {
    return this.#all.get(socket);
  }
}

/** Requests of one connection are answered one after the other, however many are sent ahead. */
class Connection {
  readonly #socket: Socket;
  readonly #onBusy: (isBusy: boolean) => void;
  #isBusy = false;
  #isPaused = false;
  readonly #waiting: { readonly response: HttpResponse; readonly begin: () => void }[] = [];

  constructor(socket: Socket, onBusy: (isBusy: boolean) => void) {
    this.#socket = socket;
    this.#onBusy = onBusy;
  }

  next(response: HttpResponse, begin: () => void): void {
    if (this.#isBusy) {
      this.#waiting.push({ response, begin });
      if (this.#waiting.length > sentAheadMax) this.#socket.destroy();
      if (this.#waiting.length < waitingMax || this.#isPaused) return;
      this.#isPaused = true;
      this.#socket.pause();
      return;
    }
    this.#isBusy = true;
    this.#onBusy(true);
    this.#begin(response, begin);
  }

  #begin(response: HttpResponse, begin: () => void): void {
    response.once('close', () => this.#ended());
    begin();
  }

  #ended(): void {
    const next = this.#waiting.shift();
    if (next !== undefined) {
      // The others of the process have a turn in between.
      setImmediate(() => this.#begin(next.response, next.begin));
      return;
    }
    this.#isBusy = false;
    this.#onBusy(false);
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  close(): void {
    this.#waiting.length = 0;
  }
}

/**
 * The signals of requests under way: one controller each, since composed signals cost many times as
 * much.
 */
class RunningRequests {
  readonly #controllers = new Set<AbortController>();
  #stopReason: TsdbError | null = null;

  begin(): AbortController {
    const controller = new AbortController();
    if (this.#stopReason !== null) controller.abort(this.#stopReason);
    this.#controllers.add(controller);
    return controller;
  }

  end(controller: AbortController): void {
    this.#controllers.delete(controller);
  }

  stop(): void {
    this.#stopReason = new TsdbError('UNAVAILABLE', 'the server is stopping');
    for (const controller of this.#controllers) controller.abort(this.#stopReason);
  }
}

class OpenServer implements HttpServer {
  readonly host: string;
  readonly port: number;
  readonly #server: http.Server;
  /** They hand their connections to it. */
  readonly #others: readonly Server[];
  readonly #running: RunningRequests;
  #closing: Promise<void> | null = null;

  constructor(
    server: http.Server,
    others: readonly Server[],
    host: string,
    running: RunningRequests,
  ) {
    this.#server = server;
    this.#others = others;
    this.host = host;
    this.#running = running;
    this.port = (server.address() as AddressInfo).port;
  }

  close(graceMillis: number = graceMillisDefault): Promise<void> {
    this.#closing ??= this.#close(graceMillis);
    return this.#closing;
  }

  async #close(graceMillis: number): Promise<void> {
    const cut = setTimeout(() => {
      this.#running.stop();
      // One turn of the loop lets handlers answer their aborted requests.
      setImmediate(() => this.#server.closeAllConnections());
    }, graceMillis);
    const closed = [this.#server, ...this.#others].map(
      (server) =>
        new Promise<void>((resolve) => {
          server.close(() => resolve());
        }),
    );
    this.#server.closeIdleConnections();
    await Promise.all(closed);
    clearTimeout(cut);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Ends the process through its handler of uncaught errors: nothing on the way can swallow it. */
export function crash(error: BrokenInvariant): void {
  queueMicrotask(() => {
    throw error;
  });
}

export interface HttpClientRequest {
  readonly method: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
  /** Longer answers are an error. */
  readonly responseBytesMax: number;
  /** The rest of an answer that is longer than this is taken when the promise resolves. */
  readonly largeResponse?: { readonly bytes: number; readonly enter: () => Promise<void> };
  /** PEM texts, for a server of https with an authority of its own. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string };
}

export interface HttpClientResponse {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Uint8Array;
}

/**
 * Sends one request and reads the whole answer, whatever its status.
 * @throws {TsdbError} UNAVAILABLE when the server cannot be reached or the answer breaks off or is
 *   too long; the signal's reason when aborted
 */
export function httpRequest(
  url: string,
  options: HttpClientRequest,
  signal: AbortSignal,
): Promise<HttpClientResponse> {
  return new Promise((resolve, reject) => {
    const fail = (error: unknown): void => {
      if (signal.aborted) reject(signal.reason as Error);
      else if (error instanceof TsdbError) reject(error);
      else {
        const reason = error instanceof Error ? error.message : String(error);
        reject(
          new TsdbError('UNAVAILABLE', `${options.method} ${url}: ${reason}`, { cause: error }),
        );
      }
    };
    try {
      const transport = url.startsWith('https:') ? https : http;
      const request = transport.request(
        url,
        { method: options.method, headers: { ...options.headers }, signal, ...options.tls },
        (response) => {
          const parts: Buffer[] = [];
          let length = 0;
          const { bytes: smallBytesMax, enter } = options.largeResponse ?? {
            bytes: Number.POSITIVE_INFINITY,
            enter: () => Promise.resolve(),
          };
          response.on('data', (part: Buffer) => {
            const wasSmall = length <= smallBytesMax;
            length += part.length;
            if (length > options.responseBytesMax) {
              response.destroy(
                new Error(`answer is longer than ${options.responseBytesMax} bytes`),
              );
            } else {
              parts.push(part);
              if (!wasSmall || length <= smallBytesMax) return;
              response.pause();
              enter().then(() => response.resume(), fail);
            }
          });
          response.on('error', fail);
          response.on('end', () => {
            const { statusCode = 0, headers } = response;
            resolve({ status: statusCode, headers, body: Buffer.concat(parts) });
          });
        },
      );
      request.on('error', fail);
      request.end(options.body);
    } catch (error) {
      fail(error);
    }
  });
}

/** Is told how a client takes its answer. */
export interface AnswerWatch {
  /** No more can be sent before the client has taken so many bytes. */
  waits(bytes: number): void;
  took(bytes: number): void;
}

/** More than are done between two looks at the clock (turns.ts). */
const partUnits = 50_000;

/**
 * Writes bytes as fast as the client takes them, then ends the response. Parts are made in turns with other
 * work of the process, and freed when they were sent where they are said to be (freed_bytes.ts).
 * @param leaving notes how the client takes them
 * @param encoder what they go through on their way; ended here
 * @throws the signal's reason when aborted, or what the source throws
 */
export async function sendStream(
  response: HttpResponse,
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  signal: AbortSignal,
  leaving?: AnswerWatch,
  encoder?: Transform,
): Promise<void> {
  const work = Turns.of(realEnv.clock).begin(signal);
  if (encoder === undefined) {
    for await (const part of source) {
      signal.throwIfAborted();
      // What is sent was also made: the clock tells how long that took.
      if (work.spend(partUnits)) await work.pause();
      const taken = taking(response, part, signal, leaving);
      if (taken !== null) await work.outside(taken);
    }
  } else {
    const encoded = encode(source, encoder, work);
    const send = async (): Promise<void> => {
      for await (const part of encoder as AsyncIterable<Uint8Array>) {
        signal.throwIfAborted();
        await taking(response, part, signal, leaving);
      }
    };
    // Whoever fails destroys the encoder, which ends the other one, too.
    const outcomes = await Promise.allSettled([encoded, send()]);
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }
  response.end();
}

/** As fast as what comes out of it is taken. */
async function encode(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  encoder: Transform,
  work: Work,
): Promise<void> {
  // Who takes what comes out is told of it, too.
  encoder.on('error', ignore);
  try {
    for await (const part of source) {
      work.signal.throwIfAborted();
      if (work.spend(partUnits)) await work.pause();
      if (encoder.destroyed) return;
      if (!encoder.write(part, freeing(part))) await work.outside(drained(encoder, work.signal));
    }
    encoder.end();
  } catch (error) {
    encoder.destroy(error as Error);
    throw error;
  }
}

/** What is called when a part was written: with an error the system may still read it. */
function freeing(part: Uint8Array): (error?: Error | null) => void {
  return (error) => {
    if (!error) freeSent(part);
  };
}

/** Writes a part; null when there is nothing to wait for. */
function taking(
  response: HttpResponse,
  part: Uint8Array,
  signal: AbortSignal,
  leaving: AnswerWatch | undefined,
): Promise<void> | null {
  if (response.write(part, freeing(part))) {
    leaving?.took(part.length);
    return null;
  }
  leaving?.waits(part.length);
  return drained(response, signal).then(() => leaving?.took(part.length));
}

function drained(stream: Writable, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = (): void => {
      stream.off('drain', finish);
      stream.off('close', finish);
      signal.removeEventListener('abort', finish);
      if (signal.aborted) reject(signal.reason as Error);
      else resolve();
    };
    stream.on('drain', finish);
    stream.on('close', finish);
    signal.addEventListener('abort', finish, { once: true });
  });
}
