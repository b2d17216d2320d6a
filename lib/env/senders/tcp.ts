/** Servers of TCP for protocols in which clients only send, over node:net, with limits. */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { BrokenInvariant } from '../../assert.ts';
import { TsdbError } from '../../errors.ts';
import { crash } from '../http.ts';
import { ListenError } from '../listen_error.ts';

export interface TcpLimits {
  /** Open connections. A further one takes the place of the one that has sent nothing for longest. */
  readonly connectionsMax: number;
  /** How long a connection is kept on which nothing comes. */
  readonly idleMillisMax: number;
}

export const tcpLimitsDefault: TcpLimits = { connectionsMax: 5_000, idleMillisMax: 600_000 };

export interface TcpServerOptions {
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
  readonly limits: TcpLimits;
  /**
   * Takes what a client sends; while it takes nothing the client is made to wait. The connection ends with it. A rejection with
   * BrokenInvariant ends the process; any other is told to `onError`.
   *
   * @param signal aborts with CANCELLED when the client leaves without having ended, and with UNAVAILABLE when the server
   * stops
   */
  readonly handler: (chunks: AsyncIterable<Uint8Array>, signal: AbortSignal) => Promise<void>;
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
  lastMillis: number;
}

class SendersServer implements TcpServer {
  readonly #options: TcpServerOptions;
  readonly #server: Server;
  readonly #connections = new Map<Socket, Connection>();

  constructor(options: TcpServerOptions) {
    this.#options = options;
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#serve(socket));
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
    if (this.#connections.size >= limits.connectionsMax) this.#closeIdlest();
    const stop = new AbortController();
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const connection: Connection = { socket, stop, done, lastMillis: monotonicMillis() };
    this.#connections.set(socket, connection);
    socket.setTimeout(limits.idleMillisMax, () => socket.destroy());
    socket.on('error', () => {});
    socket.once('close', () => {
      this.#connections.delete(socket);
      // Who has ended the connection has left nothing undone.
      if (!socket.readableEnded) stop.abort(new TsdbError('CANCELLED', 'the client left'));
    });
    void this.#run(connection).finally(resolve);
  }

  async #run(connection: Connection): Promise<void> {
    const { socket, stop } = connection;
    try {
      await this.#options.handler(this.#chunks(connection), stop.signal);
    } catch (error) {
      if (error instanceof BrokenInvariant) crash(error);
      if (!stop.signal.aborted && !isBrokenOff(error)) this.#options.onError(error);
    } finally {
      socket.destroySoon();
    }
  }

  async *#chunks(connection: Connection): AsyncGenerator<Uint8Array> {
    const { socket, stop } = connection;
    try {
      // The iterator of a socket would close it at its end, while what came is still being taken.
      const chunks = socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>;
      for await (const chunk of chunks) {
        connection.lastMillis = this.#options.monotonicMillis();
        yield chunk;
      }
    } catch (error) {
      // A connection that broke off: what came before it was taken.
      stop.signal.throwIfAborted();
      throw new TsdbError('CANCELLED', 'the connection broke off', { cause: error });
    }
  }

  #closeIdlest(): void {
    let idlest: Connection | null = null;
    for (const connection of this.#connections.values()) {
      if (idlest === null || connection.lastMillis < idlest.lastMillis) idlest = connection;
    }
    if (idlest === null) return;
    this.#connections.delete(idlest.socket);
    idlest.socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    const all = [...this.#connections.values()];
    for (const { socket, stop } of all) {
      stop.abort(new TsdbError('UNAVAILABLE', 'the server stops'));
      socket.destroy();
    }
    await Promise.all(all.map(({ done }) => done));
    await promise;
  }
}

/** A client that leaves in the middle is nobody's mistake. */
function isBrokenOff(error: unknown): boolean {
  return error instanceof TsdbError && error.code === 'CANCELLED';
}
