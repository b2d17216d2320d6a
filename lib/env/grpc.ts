/**
 * gRPC, serving and connecting. Clients are those of @grpc/grpc-js, which only this file knows;
 * servers are ours (grpc/server.ts). Messages are bytes here; a `ProtoSchema` (proto.ts) turns them
 * into plain objects where that is wanted. Streaming methods have one form, requests in and answers
 * out, whichever side streams.
 */
import { lookup } from 'node:dns/promises';
import { connect, isIP } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import * as grpc from '@grpc/grpc-js';
import { messageOf, shownText, TsdbError } from '../errors.ts';
import { abortable } from '#lib/turns/abortable.ts';
import { type GrpcServer, type GrpcServerOptions, listenGrpc } from './grpc/server.ts';
import { errorCodeOf } from './grpc/status.ts';
import { ChangingCertificates } from './grpc_certificates.ts';
import { hostAndPortOf, isHostAndPort } from './host_and_port.ts';
import { ListenError } from './listen_error.ts';
import { realEnv } from './real.ts';
import { Turns } from '../turns/turns.ts';

export type { GrpcCall, GrpcMethod, GrpcStream, GrpcUnary } from './grpc/method.ts';
export type { GrpcLoad, GrpcServer, GrpcServerOptions } from './grpc/server.ts';
export { GrpcStatusError, grpcStatus } from './grpc/status.ts';

// What fails is told to the caller; grpc-js would also print it.
grpc.setLogVerbosity(grpc.logVerbosity.NONE);

/** PEM texts: what the client shows, if anything, and the roots that it trusts. */
export interface GrpcTls {
  readonly rootCertificates?: Uint8Array;
  readonly certificate?: Uint8Array;
  readonly privateKey?: Uint8Array;
}

/** @throws {TsdbError} UNAVAILABLE when the address cannot be listened on */
export async function serveGrpc(options: GrpcServerOptions): Promise<GrpcServer> {
  try {
    const turns = Turns.of(realEnv.clock);
    return await listenGrpc({ ...options, onConnection: () => turns.noteConnection() });
  } catch (error) {
    throw new ListenError(options.host, options.port, error);
  }
}

function passBytes(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Messages that wait for their reader before the stream is paused. */
const waitingMessagesMax = 16;

interface MessageStream {
  on(event: 'data', listener: (message: Uint8Array) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  pause(): unknown;
  resume(): unknown;
}

/**
 * Messages of the stream until it ends, fails (throws its error) or the signal aborts (throws its
 * reason).
 */
function messagesOf(stream: MessageStream, signal: AbortSignal): AsyncIterable<Uint8Array> {
  const waiting: Uint8Array[] = [];
  let ended = false;
  let failure: Error | null = null;
  let wake = () => {};
  stream.on('data', (message) => {
    waiting.push(message);
    if (waiting.length >= waitingMessagesMax) stream.pause();
    wake();
  });
  stream.on('end', () => {
    ended = true;
    wake();
  });
  stream.on('error', (error) => {
    failure ??= error;
    wake();
  });
  signal.addEventListener('abort', () => wake(), { once: true });
  return {
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const message = waiting.shift();
        if (message !== undefined) {
          stream.resume();
          yield message;
          continue;
        }
        if (signal.aborted) throw signal.reason;
        if (failure !== null) throw failure;
        if (ended) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

export interface GrpcClientOptions {
  /** 'host:port' */
  readonly target: string;
  readonly answerBytesMax: number;
  readonly tls?: GrpcTls;
  /** A connection without an answer to a ping for `keepaliveTimeoutMillis` is given up. */
  readonly keepaliveMillis?: number;
  readonly keepaliveTimeoutMillis?: number;
  /** For tests: another way to know whether somebody takes connections. */
  readonly probe?: Probe;
}

export interface GrpcCallOptions {
  /** From now; without one the call waits for its signal. */
  readonly timeoutMillis?: number;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** An open streaming call. */
export interface GrpcClientStream {
  /** Resolves when the message is handed to the connection. */
  send(message: Uint8Array): Promise<void>;
  /** Says that no more messages will be sent. */
  end(): void;
  /** Ends without error when the server does; may be iterated once. */
  readonly messages: AsyncIterable<Uint8Array>;
}

/**
 * Calls reject with TsdbError (the server's status as its code, the target and method in the
 * message) or the signal's reason.
 */
export interface GrpcClient extends Disposable {
  unary(
    path: string,
    request: Uint8Array,
    signal: AbortSignal,
    options?: GrpcCallOptions,
  ): Promise<Uint8Array>;
  stream(path: string, signal: AbortSignal, options?: GrpcCallOptions): GrpcClientStream;
}

/**
 * How long a connection may take to stand. grpc-js itself waits as long as the kernel: two minutes for
 * an address that nobody has any more, as that of a pod that was made again, and it does not look for
 * another one meanwhile.
 */
const connectMillisMin = 2_000;
/** An attempt that was given up makes the next one longer: a slow network is no dead address. */
const connectMillisMax = 10_000;

/**
 * A server that takes the connection and says nothing has stopped, or has much to do: what was begun
 * goes on with it when it does. So long is it waited for, while it takes connections, and twice as long
 * the next time: attempts that were given up keep their sockets until it ends.
 */
const silentMillisMin = 20_000;
const silentMillisMax = 5 * 60_000;
const probeMillis = 2_000;
const probeEveryMillis = 5_000;

/** What a call ends with that was waiting for a connection when its channel was given up. */
const notStarted = 'Channel closed before call started';

/** Whether somebody takes connections there. */
export type Probe = (target: string) => Promise<boolean>;

const tcpProbe: Probe = (target) => {
  const address = hostAndPortOf(target);
  if (address === null) return Promise.resolve(false);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ ...address, timeout: probeMillis });
  const end = (isTaken: boolean) => {
    socket.destroy();
    resolve(isTaken);
  };
  socket.on('connect', () => end(true));
  socket.on('timeout', () => end(false));
  socket.on('error', () => end(false));
  return promise;
};

/** Addresses that a target has now; empty when nobody knows. */
async function addressesOf(target: string): Promise<string> {
  const address = hostAndPortOf(target);
  const found = address === null ? [] : await lookup(address.host, { all: true }).catch(() => []);
  return found
    .map(({ address }) => address)
    .sort()
    .join(' ');
}

/** The channel to one target, made anew when it does not connect. */
class Channel {
  readonly #target: string;
  readonly #make: () => grpc.Client;
  readonly #probe: Probe;
  #client: grpc.Client;
  #connectMillis = connectMillisMin;
  #silentMillis = silentMillisMin;
  #isWatched = false;
  #isClosed = false;

  constructor(target: string, make: () => grpc.Client, probe: Probe) {
    this.#target = target;
    this.#make = make;
    this.#probe = probe;
    this.#client = make();
  }

  /** For one call, which makes it connect. */
  use(): grpc.Client {
    if (!this.#isWatched && !this.#isReady(this.#client)) void this.#watch(this.#client);
    return this.#client;
  }

  /** Whether a call that failed was never begun, and there is another channel for it. */
  isReplaced(client: grpc.Client, error: grpc.ServiceError): boolean {
    return !this.#isClosed && client !== this.#client && error.details === notStarted;
  }

  close(): void {
    this.#isClosed = true;
    this.#client.close();
  }

  #stateOf(client: grpc.Client): grpc.connectivityState {
    return client.getChannel().getConnectivityState(false);
  }

  #isReady(client: grpc.Client): boolean {
    return this.#stateOf(client) === grpc.connectivityState.READY;
  }

  /** Until the channel stands, nobody uses it any more, or another one has taken its place. */
  async #watch(client: grpc.Client): Promise<void> {
    this.#isWatched = true;
    const startedMillis = performance.now();
    const addresses = addressesOf(this.#target);
    for (let millis = this.#connectMillis; ; millis = probeEveryMillis) {
      await this.#settled(client, performance.now() + millis);
      if (this.#isClosed) return;
      if (this.#isReady(client)) {
        this.#connectMillis = connectMillisMin;
        this.#silentMillis = silentMillisMin;
        break;
      }
      if (this.#stateOf(client) === grpc.connectivityState.IDLE) break;
      const silentMillis = performance.now() - startedMillis;
      if (!(await this.#isSilent(addresses)) || silentMillis >= this.#silentMillis) {
        if (this.#isClosed) return;
        this.#replace(client, silentMillis);
        break;
      }
    }
    this.#isWatched = false;
  }

  /** Somebody takes connections, at the addresses that there were when this one was begun. */
  async #isSilent(before: Promise<string>): Promise<boolean> {
    const [isTaken, addresses] = await Promise.all([
      this.#probe(this.#target),
      addressesOf(this.#target),
    ]);
    return isTaken && addresses === (await before);
  }

  #replace(client: grpc.Client, silentMillis: number): void {
    if (silentMillis >= this.#silentMillis) {
      this.#silentMillis = Math.min(2 * this.#silentMillis, silentMillisMax);
    } else this.#connectMillis = Math.min(2 * this.#connectMillis, connectMillisMax);
    this.#client = this.#make();
    client.close();
  }

  /** Resolves when it stands or is not used, and at the deadline. */
  async #settled(client: grpc.Client, deadlineMillis: number): Promise<void> {
    for (;;) {
      const state = this.#stateOf(client);
      const leftMillis = deadlineMillis - performance.now();
      if (this.#isClosed || leftMillis <= 0 || state === grpc.connectivityState.READY) return;
      await new Promise<void>((resolve) => {
        const deadline = Date.now() + leftMillis;
        client.getChannel().watchConnectivityState(state, deadline, () => resolve());
      });
    }
  }
}

/**
 * Unary calls that wait for a connection go on with the next attempt; a stream ends as UNAVAILABLE.
 * Connects when first used, and again, with a pause of at most a second, whenever it was lost; to the
 * address that the name has then.
 */
export function connectGrpc(options: GrpcClientOptions): GrpcClient {
  const { target } = options;
  if (!isHostAndPort(target)) return unreachable(target);
  const security: GrpcSecurity =
    options.tls === undefined
      ? { credentials: grpc.credentials.createInsecure(), options: {} }
      : grpcSecurityOf(target, options.tls);
  const make = () =>
    new grpc.Client(target, security.credentials as grpc.ChannelCredentials, {
      ...security.options,
      'grpc.max_receive_message_length': options.answerBytesMax,
      'grpc.max_send_message_length': -1,
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 1_000,
      // A pod that is made again has another address: half a minute without looking would be one without it.
      'grpc.dns_min_time_between_resolutions_ms': 1_000,
      'grpc.keepalive_time_ms': options.keepaliveMillis ?? 10_000,
      'grpc.keepalive_timeout_ms': options.keepaliveTimeoutMillis ?? 5_000,
      // Clients of one process to one server must not share a connection that one of them closes.
      'grpc.use_local_subchannel_pool': 1,
    });
  const channel = new Channel(target, make, options.probe ?? tcpProbe);
  const wrap = (path: string, error: unknown, signal: AbortSignal): Error => {
    if (signal.aborted) return signal.reason as Error;
    return errorOfStatus(`${target} ${path}`, error);
  };
  return {
    unary(path, request, signal, callOptions = {}) {
      const metadata = metadataOf(callOptions);
      const deadline = deadlineOf(callOptions);
      const attempt = () =>
        new Promise<Uint8Array>((resolve, reject) => {
          if (signal.aborted) {
            reject(signal.reason as Error);
            return;
          }
          const onAbort = () => call.cancel();
          const client = channel.use();
          const call = client.makeUnaryRequest(
            path,
            passBytes,
            passBytes,
            request,
            metadata,
            deadline,
            (error, answer) => {
              signal.removeEventListener('abort', onAbort);
              if (error === null) resolve(answer!);
              else if (channel.isReplaced(client, error)) resolve(attempt());
              else reject(wrap(path, error, signal));
            },
          );
          signal.addEventListener('abort', onAbort, { once: true });
        });
      return attempt();
    },
    stream(path, signal, callOptions = {}) {
      signal.throwIfAborted();
      const call = channel
        .use()
        .makeBidiStreamRequest(
          path,
          passBytes,
          passBytes,
          metadataOf(callOptions),
          deadlineOf(callOptions),
        );
      const onAbort = () => call.cancel();
      signal.addEventListener('abort', onAbort, { once: true });
      const over = new AbortController();
      const finish = () => {
        signal.removeEventListener('abort', onAbort);
        over.abort(new TsdbError('UNAVAILABLE', `${target} ${path}: the call is over`));
      };
      call.on('status', finish);
      const messages = messagesOf(call, signal);
      return {
        send: (message) =>
          abortable(AbortSignal.any([signal, over.signal]), (resolve, reject) => {
            call.write(message, (error: Error | null | undefined) => {
              if (error) reject(wrap(path, error, signal));
              else resolve();
            });
          }),
        end: () => call.end(),
        messages: {
          async *[Symbol.asyncIterator]() {
            try {
              yield* messages;
            } catch (error) {
              throw wrap(path, error, signal);
            } finally {
              call.cancel();
            }
          },
        },
      };
    },
    [Symbol.dispose]: () => channel.close(),
  };
}

/** Of a text that names no address, as a placement may have one: all calls fail as when nobody is there. */
function unreachable(target: string): GrpcClient {
  const error = (): TsdbError =>
    new TsdbError('UNAVAILABLE', `not host:port: ${JSON.stringify(shownText(target))}`);
  return {
    unary: () => Promise.reject(error()),
    stream: () => ({
      send: () => Promise.reject(error()),
      end: () => {},
      // oxlint-disable-next-line require-yield -- it fails at once
      messages: (async function* () {
        throw error();
      })(),
    }),
    [Symbol.dispose]: () => {},
  };
}

/** How a channel is secured: credentials of grpc-js, and channel options that go with them. */
export interface GrpcSecurity {
  readonly credentials: unknown;
  readonly options: Readonly<Record<string, string>>;
}

/**
 * Security of a connection to 'host:port', for `connectGrpc` and for packages that build on
 * grpc-js. grpc-js names the host to TLS as it stands, which Node refuses for an address. So an
 * address is replaced there by a name that is never looked up, and the certificate is held against
 * the address.
 */
export function grpcSecurityOf(target: string, tls: GrpcTls | ChangingCertificates): GrpcSecurity {
  const bufferOf = (pem: Uint8Array | undefined) => (pem === undefined ? null : Buffer.from(pem));
  const host = /^\[?([^\]]*?)\]?:\d+$/.exec(target)?.[1] ?? target;
  const isAddress = isIP(host) !== 0;
  const verify: grpc.VerifyOptions = isAddress
    ? { checkServerIdentity: (_name, cert) => checkServerIdentity(host, cert) }
    : {};
  return {
    credentials:
      tls instanceof ChangingCertificates
        ? grpc.experimental.createCertificateProviderChannelCredentials(
            tls.provider,
            tls.hasIdentity ? tls.provider : null,
            verify,
          )
        : grpc.credentials.createSsl(
            bufferOf(tls.rootCertificates),
            bufferOf(tls.privateKey),
            bufferOf(tls.certificate),
            verify,
          ),
    options: isAddress ? { 'grpc.ssl_target_name_override': 'address.invalid' } : {},
  };
}

function metadataOf(options: GrpcCallOptions): grpc.Metadata {
  const metadata = new grpc.Metadata();
  for (const [name, value] of Object.entries(options.metadata ?? {})) metadata.set(name, value);
  return metadata;
}

function deadlineOf(options: GrpcCallOptions): grpc.CallOptions {
  return options.timeoutMillis === undefined
    ? {}
    : { deadline: Date.now() + options.timeoutMillis };
}

function errorOfStatus(subject: string, error: unknown): Error {
  if (error instanceof TsdbError) return error;
  const { code, details = messageOf(error) } = error as Partial<grpc.ServiceError>;
  return new TsdbError(errorCodeOf(code), `${subject}: ${details}`, { cause: error });
}
