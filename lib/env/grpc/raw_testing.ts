/** Clients of HTTP/2 that do what the libraries of gRPC would not. */
import * as http2 from 'node:http2';
import { connect, type Socket } from 'node:net';

/** A message as gRPC frames it. */
export function framed(message: Uint8Array | string, flag = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = flag;
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, Buffer.from(message)]);
}

/** The beginning of a message that says how long it is. */
export function announced(length: number, bytes = 0): Buffer {
  const beginning = Buffer.alloc(5 + bytes, 120);
  beginning[0] = 0;
  beginning.writeUInt32BE(length, 1);
  return beginning;
}

/** How a call ended: status and message, or the code of its reset. */
export interface Ended {
  readonly headers: http2.IncomingHttpHeaders;
  readonly status: string | undefined;
  readonly message: string;
  readonly resetCode: number | undefined;
  readonly bytes: number;
}

export class RawCall {
  readonly stream: http2.ClientHttp2Stream;
  readonly ended: Promise<Ended>;
  bytes = 0;

  constructor(
    session: http2.ClientHttp2Session,
    path: string,
    headers: http2.OutgoingHttpHeaders = {},
  ) {
    this.stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    let got: http2.IncomingHttpHeaders = {};
    const { promise, resolve } = Promise.withResolvers<Ended>();
    this.ended = promise;
    this.stream.on('error', () => {});
    this.stream.on('data', (data: Buffer) => {
      this.bytes += data.length;
    });
    for (const event of ['response', 'trailers']) {
      this.stream.on(event, (more: http2.IncomingHttpHeaders) => {
        got = { ...got, ...more };
      });
    }
    this.stream.on('close', () =>
      resolve({
        headers: got,
        status: got['grpc-status']?.toString(),
        message: decodeURIComponent(got['grpc-message']?.toString() ?? ''),
        resetCode: this.stream.rstCode,
        bytes: this.bytes,
      }),
    );
  }
}

export class RawClient implements Disposable {
  readonly session: http2.ClientHttp2Session;
  /** What the server said when it sent the client away. */
  goneAway = '';

  constructor(port: number, settings: http2.Settings = {}) {
    // What waits to be sent is counted, too, and with it no answer would be taken.
    const options = { maxSessionMemory: 100_000, settings };
    this.session = http2.connect(`http://127.0.0.1:${port}`, options);
    this.session.on('error', () => {});
    this.session.on('goaway', (_code, _last, reason) => {
      this.goneAway = reason?.toString() ?? '';
    });
  }

  get isClosed(): boolean {
    return this.session.destroyed;
  }

  /** A call that is left open. */
  begin(path: string, bytes?: Uint8Array, headers?: http2.OutgoingHttpHeaders): RawCall {
    const call = new RawCall(this.session, path, headers);
    if (bytes !== undefined) call.stream.write(bytes);
    return call;
  }

  call(path: string, bytes: Uint8Array, headers?: http2.OutgoingHttpHeaders): Promise<Ended> {
    const call = new RawCall(this.session, path, headers);
    call.stream.end(bytes);
    return call.ended;
  }

  [Symbol.dispose](): void {
    this.session.destroy();
  }
}

export const frameTypes = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  ping: 6,
  continuation: 9,
  unknown: 0xee,
} as const;

/** One frame of HTTP/2. */
export function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(stream, 5);
  return Buffer.concat([header, payload]);
}

/** The headers of a call, as HPACK without Huffman's code. */
export function headersOf(path: string): Buffer {
  const type = 'application/grpc';
  return Buffer.concat([
    Buffer.from([0x83, 0x86, 0x04, path.length]),
    Buffer.from(path),
    Buffer.from([0x41, 1, 0x78, 0x5f, 0x10]),
    Buffer.from(type),
  ]);
}

/** A connection that sends frames as they are given. */
export class RawConnection implements Disposable {
  readonly #socket: Socket;
  /** What came, as one character for each byte. */
  received = '';

  constructor(port: number) {
    this.#socket = connect(port, '127.0.0.1');
    this.#socket.on('error', () => {});
    this.#socket.on('data', (data: Buffer) => {
      this.received += data.toString('latin1');
    });
    const nothing = Buffer.alloc(0);
    this.#socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    this.#socket.write(frame(frameTypes.settings, 0, 0, nothing));
    this.#socket.write(frame(frameTypes.settings, 1, 0, nothing));
  }

  get isClosed(): boolean {
    return this.#socket.destroyed;
  }

  /** Resolves when the bytes have left, or never will. */
  async send(bytes: Uint8Array): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#socket.write(bytes, () => setImmediate(resolve));
    });
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }
}
