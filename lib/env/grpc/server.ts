/**
 * A server of gRPC over node:http2, in which everything that clients can make it hold or do has a
 * limit: what their requests hold, the calls and connections, the time that they take.
 */
import type { IncomingHttpHeaders, ServerHttp2Stream, ServerOptions } from 'node:http2';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { shownText, TsdbError } from '../../errors.ts';
import { BytesInFlight } from '../in_flight/bytes_in_flight.ts';
import { Beginnings } from '../in_flight/beginnings.ts';
import { Call } from './call.ts';
import { Connection, Connections } from './connections.ts';
import type { GrpcMethod } from './method.ts';
import { OutgoingMessages } from './outgoing.ts';
import { millisOfTimeout, outcomeOf } from './status.ts';
import { WaitingAnswers } from './waiting_answers.ts';

export interface GrpcLimits {
  /**
   * What all requests hold in memory together, from when they come until they are answered. Who has
   * no room is refused with RESOURCE_EXHAUSTED; who comes slowly gives way. The largest request
   * always fits.
   */
  readonly bytesInFlightMax: number;
  /** What all answers hold that wait for their clients. Of more, those go that held most longest. */
  readonly answerBytesMax: number;
  /** All headers of a call together. */
  readonly headerBytesMax: number;
  /** Open connections. A further one takes the place of the one without a call for longest. */
  readonly connectionsMax: number;
  /** Calls under way on one connection; more are refused with RESOURCE_EXHAUSTED. */
  readonly callsOfConnectionMax: number;
  /**
   * From the beginning of a call to the end of its request; of a stream to its first message, and
   * then from the first byte to the last one of each.
   */
  readonly receiveMillisMax: number;
  /**
   * How long a client may leave a message untaken, beside a second for each MiB. A peer that joins
   * the streams of several nodes lets those wait that are ahead.
   */
  readonly stalledMillisMax: number;
}

export const grpcLimitsDefault: GrpcLimits = {
  bytesInFlightMax: 256 << 20,
  answerBytesMax: 256 << 20,
  headerBytesMax: 16 << 10,
  connectionsMax: 4_000,
  callsOfConnectionMax: 2_000,
  receiveMillisMax: 120_000,
  stalledMillisMax: 600_000,
};

/** What a call takes beside its headers and messages: some 14 KiB were measured. */
const callBytes: number = 16 << 10;
/** What a connection may hold by Node's count, in which the largest answer that waits has to fit. */
const sessionMegabytes = 1_024;
/**
 * So many times as many streams as calls a connection may have. Node counts streams for a while that
 * both sides have ended, and closes a connection that has too many.
 */
const streamsOfCall = 2;
const stalledEveryMillis = 1_000;
/** As of lib/env/http.ts. */
const backlog = 4_096;
/** Connections whose other side is gone without a word are noticed. */
const tcpKeepAliveMillis = 60_000;

export interface GrpcServerOptions {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly methods: readonly GrpcMethod[];
  /** Larger messages are answered with RESOURCE_EXHAUSTED. */
  readonly requestBytesMax: number;
  /** How long open calls may go on once the server is disposed of. */
  readonly stopGraceMillis: number;
  /** Default: as of `grpcLimitsDefault`. */
  readonly limits?: Partial<GrpcLimits>;
  /** A connection has come, and others may wait behind it. */
  readonly onConnection?: () => void;
}

/** What clients make the server hold just now. */
export interface GrpcLoad {
  readonly requestBytes: number;
  readonly answerBytes: number;
  readonly connections: number;
  readonly calls: number;
}

export interface GrpcServer extends AsyncDisposable {
  readonly port: number;
  readonly load: GrpcLoad;
}

/** @throws {Error} of the system when the address cannot be listened on */
export async function listenGrpc(options: GrpcServerOptions): Promise<GrpcServer> {
  const server = new OpenServer(options);
  await server.listen(options.host, options.port);
  return server;
}

class OpenServer implements GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #limits: GrpcLimits;
  readonly #methods: ReadonlyMap<string, GrpcMethod>;
  readonly #requests: BytesInFlight;
  readonly #answers: WaitingAnswers;
  readonly #connections: Connections;
  readonly #beginnings = new Beginnings();
  readonly #calls = new Set<Call>();
  readonly #sessionOptions: ServerOptions;
  readonly #server: Server;
  #sweep: NodeJS.Timeout | null = null;
  #closing: Promise<void> | null = null;
  port = 0;

  constructor(options: GrpcServerOptions) {
    this.#options = options;
    const limits = { ...grpcLimitsDefault, ...options.limits };
    this.#limits = limits;
    this.#methods = new Map(options.methods.map((method) => [method.path, method]));
    this.#requests = new BytesInFlight(Math.max(limits.bytesInFlightMax, options.requestBytesMax));
    this.#answers = new WaitingAnswers(limits.answerBytesMax, limits.stalledMillisMax);
    this.#connections = new Connections(limits.connectionsMax);
    this.#sessionOptions = {
      settings: {
        maxConcurrentStreams: limits.callsOfConnectionMax * streamsOfCall,
        maxHeaderListSize: limits.headerBytesMax,
      },
      maxSessionMemory: sessionMegabytes,
    };
    this.#server = createServer(
      { noDelay: true, keepAlive: true, keepAliveInitialDelay: tcpKeepAliveMillis },
      (socket) => this.#onConnection(socket),
    );
  }

  get load(): GrpcLoad {
    return {
      requestBytes: this.#requests.bytes,
      answerBytes: this.#answers.bytes,
      connections: this.#connections.size,
      calls: this.#calls.size,
    };
  }

  async listen(host: string, port: number): Promise<void> {
    const server = this.#server;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject);
    server.listen({ host, port, backlog }, resolve);
    await promise;
    server.off('error', reject);
    // A connection that the system could not give us is its client's to try again.
    server.on('error', () => {});
    this.port = (server.address() as AddressInfo).port;
    this.#sweep = setInterval(() => this.#answers.cutStalled(), stalledEveryMillis).unref();
  }

  #onConnection(socket: Socket): void {
    this.#options.onConnection?.();
    const connection = new Connection(socket, this.#sessionOptions);
    connection.session.on('stream', (stream, headers) =>
      this.#onStream(connection, stream, headers),
    );
    this.#connections.add(connection);
  }

  #onStream(connection: Connection, stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    // A client that leaves is no error of the process.
    stream.on('error', () => {});
    if (stream.destroyed || stream.closed) return;
    const refusal = refusalOf(headers);
    if (refusal !== null) {
      stream.respond({ ':status': refusal }, { endStream: true });
      return;
    }
    connection.wasCalled();
    try {
      this.#begin(connection, stream, headers);
    } catch (error) {
      const onCut = (): void => connection.destroy();
      new OutgoingMessages({ stream, answers: this.#answers, onCut }).end(outcomeOf(error));
    }
  }

  /** @throws {TsdbError} when the call is refused */
  #begin(connection: Connection, stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const { callsOfConnectionMax, receiveMillisMax } = this.#limits;
    const path = headers[':path'] ?? '';
    const method = this.#methods.get(path);
    if (method === undefined) {
      throw new TsdbError(
        'UNIMPLEMENTED',
        `the server does not implement the method ${shownText(path)}`,
      );
    }
    if (this.#closing !== null) throw new TsdbError('UNAVAILABLE', 'the server stops');
    if (connection.refusesCall(callsOfConnectionMax)) {
      throw new TsdbError(
        'RESOURCE_EXHAUSTED',
        `too many calls under way on this connection: ${callsOfConnectionMax}`,
      );
    }
    const timeoutMillis = timeoutOf(headers);
    const requestBytesMax = method.requestBytesMax ?? this.#options.requestBytesMax;
    const room = this.#requests.begin(requestBytesMax, (error) => call.cut(error));
    const call: Call = new Call({
      stream,
      headers,
      method,
      room,
      answers: this.#answers,
      beginnings: this.#beginnings,
      messageBytesMax: requestBytesMax,
      receiveMillisMax,
      timeoutMillis,
      connection,
      onOver: () => {
        connection.endCall();
        this.#calls.delete(call);
      },
    });
    try {
      const bytes = callBytes + bytesOf(headers);
      room.take(bytes, bytes);
    } catch (error) {
      room.ended();
      throw error;
    }
    connection.beginCall();
    this.#calls.add(call);
    call.begin();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    for (const connection of this.#connections) connection.session.close();
    for (const call of this.#calls) call.stop();
    const cut = setTimeout(() => {
      for (const connection of this.#connections) connection.destroy();
    }, this.#options.stopGraceMillis);
    await promise;
    clearTimeout(cut);
    if (this.#sweep !== null) clearInterval(this.#sweep);
  }
}

/** A status of HTTP for what is no call at all. */
function refusalOf(headers: IncomingHttpHeaders): number | null {
  if (headers[':method'] !== 'POST') return 405;
  return headers['content-type']?.startsWith('application/grpc') === true ? null : 415;
}

/** @throws {TsdbError} BAD_REQUEST */
function timeoutOf(headers: IncomingHttpHeaders): number | null {
  const timeout = headers['grpc-timeout'];
  if (timeout === undefined) return null;
  const millis = millisOfTimeout(String(timeout));
  if (millis === null) {
    throw new TsdbError('BAD_REQUEST', `grpc-timeout: must be a number and a unit: ${timeout}`);
  }
  return millis;
}

function bytesOf(headers: IncomingHttpHeaders): number {
  let bytes = 0;
  for (const name in headers) bytes += name.length + String(headers[name]).length;
  return bytes;
}
