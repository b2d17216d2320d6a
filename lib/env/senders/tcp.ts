/** Servers of TCP for protocols in which clients send, and are answered little or nothing, over node:net, with limits. */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { BrokenInvariant } from '../../assert.ts';
import { TsdbError } from '../../errors.ts';
import { crash } from '../http.ts';
import { ListenError } from '../listen_error.ts';

export interface TcpLimits {
  /**
   * Connections. A further one takes the place of the one that has sent nothing for longest; it is refused when all others are
   * made to wait.
   */
  readonly connectionsMax: number;
  /** How long a connection is kept on which nothing comes while it is read. */
  readonly idleMillisMax: number;
  /** How long what has come is still taken when the server stops. */
  readonly stopMillisMax: number;
}

export const tcpLimitsDefault: TcpLimits = {
  connectionsMax: 5_000,
  idleMillisMax: 600_000,
  stopMillisMax: 5_000,
};

/** Connections that were let go and whose handlers have not ended yet, beside the others. */
const endingMax = 64;
/** Answers that a client has not taken yet: what comes on top is not sent. */
const answerBytesMax = 64 << 10;
/** How long an ended connection is kept for its client to take them. */
const answerMillisMax = 1_000;
/** Of what came, kept until it is asked for: one read of the system, which has 64 KiB at most. */
const readAheadBytes = 1;

export interface TcpServerOptions {
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
  readonly limits: TcpLimits;
  /**
   * Takes what a client sends; while it takes nothing the client is made to wait. The connection ends with it. A rejection with
   * BrokenInvariant ends the process; any other is told to `onError`.
   *
   * @param chunks end when the client has ended its side, and throw CANCELLED behind what came where the connection breaks off,
   * or is let go since nothing comes or the server stops
   * @param signal aborts with UNAVAILABLE when the server stops and does not wait any longer
   * @param answer sends a text; it is lost when the client does not read
   */
  readonly handler: (
    chunks: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
    answer: (text: string) => void,
  ) => Promise<void>;
  readonly onError: (error: unknown) => void;
  readonly monotonicMillis: () => number;
}

export interface TcpServer extends AsyncDisposable {
  readonly host: string;
  /** The port that is really open. */
  readonly port: number;
  readonly connectionCount: number;
}

/** @throws {ListenError} when the address cannot be had */
export async function listenTcp(options: TcpServerOptions): Promise<TcpServer> {
  const server = new SendersServer(options);
  await server.listen();
  return server;
}

/** What is kept of a connection. */
interface Connection {
  readonly socket: Socket;
  readonly stop: AbortController;
  readonly done: Promise<void>;
  /** Nothing of it was left unread. */
  isReading: boolean;
  /** When something came, or reading began. */
  lastMillis: number;
  /** The server stops: it is read as far as something is there. */
  isStopping: boolean;
}

class SendersServer implements TcpServer {
  readonly #options: TcpServerOptions;
  readonly #server: Server;
  readonly #connections = new Map<Socket, Connection>();

  constructor(options: TcpServerOptions) {
    this.#options = options;
    const of = { allowHalfOpen: true, highWaterMark: readAheadBytes };
    this.#server = createServer(of, (socket) => this.#serve(socket));
  }

  get host(): string {
    return this.#options.host;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get connectionCount(): number {
    return this.#connections.size;
  }

  async listen(): Promise<void> {
    const { host, port } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#server.once('error', reject);
    this.#server.listen({ host, port }, resolve);
    try {
      await promise;
    } catch (error) {
      throw new ListenError(host, port, error);
    }
    this.#server.off('error', reject);
    this.#server.on('error', this.#options.onError);
  }

  #serve(socket: Socket): void {
    const { limits, monotonicMillis } = this.#options;
    socket.on('error', () => {});
    const { size } = this.#connections;
    const isFull = size >= limits.connectionsMax;
    if (isFull && (size >= limits.connectionsMax + endingMax || !this.#letIdlestGo())) {
      socket.destroy();
      return;
    }
    const stop = new AbortController();
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const connection: Connection = {
      socket,
      stop,
      done,
      isReading: false,
      lastMillis: monotonicMillis(),
      isStopping: false,
    };
    this.#connections.set(socket, connection);
    socket.on('timeout', () => this.#lookAt(connection));
    socket.setTimeout(limits.idleMillisMax);
    void this.#run(connection).finally(() => {
      this.#connections.delete(socket);
      resolve();
    });
  }

  /** The system's timer is of the socket, which may have been left unread by us. */
  #lookAt(connection: Connection): void {
    const { limits, monotonicMillis } = this.#options;
    const leftMillis = connection.isReading
      ? connection.lastMillis + limits.idleMillisMax - monotonicMillis()
      : limits.idleMillisMax;
    if (leftMillis <= 0) connection.socket.destroy();
    else connection.socket.setTimeout(Math.ceil(leftMillis));
  }

  async #run(connection: Connection): Promise<void> {
    const { socket, stop } = connection;
    try {
      await this.#options.handler(this.#chunks(connection), stop.signal, (text) => {
        if (socket.writable && socket.writableLength < answerBytesMax) socket.write(text);
      });
    } catch (error) {
      if (error instanceof BrokenInvariant) crash(error);
      if (!stop.signal.aborted && !isBrokenOff(error)) this.#options.onError(error);
    } finally {
      end(socket);
    }
  }

  async *#chunks(connection: Connection): AsyncGenerator<Uint8Array> {
    const { socket } = connection;
    try {
      // The iterator of a socket would close it at its end, while what came is still being taken.
      const chunks = socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>;
      this.#noteReading(connection);
      for await (const chunk of chunks) {
        connection.isReading = false;
        yield chunk;
        if (connection.isStopping && socket.readableLength === 0) socket.destroy();
        this.#noteReading(connection);
      }
    } catch (error) {
      throw new TsdbError('CANCELLED', 'the connection broke off', { cause: error });
    } finally {
      connection.isReading = false;
    }
  }

  #noteReading(connection: Connection): void {
    connection.isReading = true;
    connection.lastMillis = this.#options.monotonicMillis();
  }

  /** @returns false when no client is waited for */
  #letIdlestGo(): boolean {
    let idlest: Connection | null = null;
    for (const connection of this.#connections.values()) {
      if (!connection.isReading || connection.socket.destroyed) continue;
      if (idlest === null || connection.lastMillis < idlest.lastMillis) idlest = connection;
    }
    idlest?.socket.destroy();
    return idlest !== null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    const all = [...this.#connections.values()];
    for (const connection of all) {
      connection.isStopping = true;
      if (connection.isReading) connection.socket.destroy();
    }
    const late = setTimeout(() => {
      for (const { socket, stop } of all) {
        stop.abort(new TsdbError('UNAVAILABLE', 'the server stops'));
        socket.destroy();
      }
    }, this.#options.limits.stopMillisMax);
    await Promise.all(all.map(({ done }) => done));
    clearTimeout(late);
    await promise;
  }
}

function end(socket: Socket): void {
  socket.destroySoon();
  if (socket.destroyed) return;
  const late = setTimeout(() => socket.destroy(), answerMillisMax);
  socket.once('close', () => clearTimeout(late));
}

/** A client that leaves in the middle is nobody's mistake. */
function isBrokenOff(error: unknown): boolean {
  return error instanceof TsdbError && error.code === 'CANCELLED';
}
