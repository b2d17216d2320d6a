/** Requests of attackers over HTTP/1.1: whole ones, and sockets that are written to by hand. */
import { Agent, request as requestHttp } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { NodePorts } from '../integration/process.ts';

export interface Reply {
  /** 0 when the connection ended without an answer. */
  readonly status: number;
  /** The beginning of the body; of a connection that ended what ended it. */
  readonly text: string;
  readonly millis: number;
}

export interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Without it each request has a connection of its own. */
  readonly agent?: Agent;
  readonly timeoutMillis?: number;
}

const textBytesMax = 500;

/** One request; whatever becomes of it is a reply. */
export function ask(port: number, path: string, sent: Sent = {}): Promise<Reply> {
  const { body, headers = {}, agent, timeoutMillis = 20_000 } = sent;
  const method = sent.method ?? (body === undefined ? 'GET' : 'POST');
  const startMillis = performance.now();
  return new Promise((resolve) => {
    const end = (status: number, text: string): void => {
      resolve({ status, text, millis: performance.now() - startMillis });
    };
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
    const request = requestHttp(
      {
        host: '127.0.0.1',
        port,
        path,
        method,
        headers: { ...length, ...headers },
        agent: agent ?? false,
      },
      (response) => {
        let text = '';
        response.on('data', (part: Buffer) => {
          if (text.length < textBytesMax) text += part.toString('latin1', 0, textBytesMax);
        });
        response.on('end', () => end(response.statusCode!, text));
        response.on('error', (error) => end(0, error.message));
      },
    );
    request.setTimeout(timeoutMillis, () => request.destroy(new Error('no answer in time')));
    request.on('error', (error) => end(0, error.message));
    request.end(body);
  });
}

const formHeaders = { 'content-type': 'application/x-www-form-urlencoded' };

/** Parameters as the body of a form; a text is sent as it is. */
export function askForm(
  port: number,
  path: string,
  form: string | Readonly<Record<string, string>>,
  sent: Sent = {},
): Promise<Reply> {
  const body = typeof form === 'string' ? form : new URLSearchParams(form).toString();
  return ask(port, path, { ...sent, body, headers: { ...formHeaders, ...sent.headers } });
}

export const queryPath = '/api/v1/query';
export const rangePath = '/api/v1/query_range';
export const jsonWritePath = '/api/v1/json/write';
export const remoteWritePath = '/api/v1/compat/remote/write';

/** How long attackers' queries may take, as they say it. */
export const attackTimeoutMillis = 1000;

export function askQuery(ports: NodePorts, query: string): Promise<Reply> {
  const timeout = `${attackTimeoutMillis}ms`;
  return askForm(ports.coordinator, queryPath, { query, timeout });
}

/** Over so many steps of a second until now. */
export function askRange(
  ports: NodePorts,
  query: string,
  steps: number,
  engine = 'prometheus',
): Promise<Reply> {
  const end = Math.floor(Date.now() / 1000);
  return askForm(ports.coordinator, rangePath, {
    query,
    start: String(end - steps + 1),
    end: String(end),
    step: '1',
    engine,
    timeout: `${attackTimeoutMillis}ms`,
  });
}

/** A socket that an attacker writes to as it likes. */
export class RawConnection {
  readonly socket: Socket;
  /** What came back, of a long answer the beginning and nothing of the rest. */
  text = '';
  receivedBytes = 0;
  isClosed = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('error', () => {});
    socket.on('close', () => {
      this.isClosed = true;
    });
  }

  /** @param reads false: nothing that comes is ever taken */
  static async open(port: number, reads = true): Promise<RawConnection> {
    const socket = connect(port, '127.0.0.1');
    const connection = new RawConnection(socket);
    if (reads) {
      socket.on('data', (part: Buffer) => {
        connection.receivedBytes += part.length;
        if (connection.text.length < textBytesMax) connection.text += part.toString('latin1');
      });
    } else {
      socket.pause();
    }
    await new Promise<void>((resolve) => {
      socket.once('connect', resolve);
      socket.once('close', () => resolve());
    });
    return connection;
  }

  static openMany(port: number, count: number, reads = true): Promise<RawConnection[]> {
    return Promise.all(Array.from({ length: count }, () => RawConnection.open(port, reads)));
  }

  write(bytes: string | Uint8Array): void {
    if (!this.isClosed && this.socket.writable) this.socket.write(bytes);
  }

  /** Writes unless so much waits already; a client on another machine could not send faster either. */
  writeWhenTaken(bytes: string | Uint8Array, waitingBytesMax: number = 1 << 20): boolean {
    if (this.isClosed || this.socket.writableLength >= waitingBytesMax) return false;
    this.write(bytes);
    return true;
  }

  /** The status of the first answer: 0 when there is none. */
  get status(): number {
    return Number(/^HTTP\/1\.1 (\d{3})/.exec(this.text)?.[1] ?? 0);
  }

  /** What an attack notes of it. */
  get outcome(): string {
    if (this.status !== 0) return String(this.status);
    return this.isClosed ? 'closed' : 'open';
  }

  leave(): void {
    this.socket.destroy();
  }
}

/** The head of a request by hand. */
export function headOf(line: string, headers: Readonly<Record<string, string>> = {}): string {
  const fields = Object.entries({ Host: 'localhost', ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  return `${line} HTTP/1.1\r\n${fields.join('')}\r\n`;
}

/** A query as a form, by hand. */
export function queryByHand(query: string): string {
  const body = `query=${encodeURIComponent(query)}`;
  const headers = { ...formHeaders, 'Content-Length': String(body.length) };
  return headOf(`POST ${queryPath}`, headers) + body;
}
