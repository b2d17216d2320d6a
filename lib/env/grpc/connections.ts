/** The open connections of a server, and which of them makes room for a further one. */
import {
  constants,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerOptions,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { CallConnection } from './call.ts';

/**
 * Small parts of messages cost as much work as large ones. So many come beside one for each so many
 * bytes, and some for each message; a client that sends more is sent away.
 */
const smallPartsMax = 16_384;
const partBytesMean = 64;
const partsOfMessage = 4;

/** Calls that are refused one after the other: each costs as much as one that is answered. */
const refusedMax = 200;

export class Connection implements CallConnection {
  readonly session: ServerHttp2Session;
  readonly peer: string;
  #calls = 0;
  /** Since one of its calls ended. */
  #refused = 0;
  readonly #socket: Socket;
  #smallParts = 0;
  /** When something was called for, sent or answered. */
  #lastMillis: number = performance.now();

  constructor(socket: Socket, options: ServerOptions) {
    this.#socket = socket;
    this.peer = `${socket.remoteAddress}:${socket.remotePort}`;
    this.session = performServerHandshake(socket, options);
    // A connection that is lost or speaks something else is no error of the process.
    this.session.on('error', () => {});
  }

  get lastMillis(): number {
    return this.#lastMillis;
  }

  /** Under way, those that the client has left and the handler has not among them. */
  get calls(): number {
    return this.#calls;
  }

  wasCalled(): void {
    this.#lastMillis = performance.now();
  }

  /**
   * Whether a further call is refused. A client that goes on calling all the same, while none of
   * its calls ends, is sent away.
   */
  refusesCall(callsMax: number): boolean {
    if (this.#calls < callsMax) return false;
    if (++this.#refused === Math.min(callsMax, refusedMax)) {
      this.#sendAway('too many calls are under way');
    }
    return true;
  }

  beginCall(): void {
    this.#calls++;
  }

  endCall(): void {
    this.#calls--;
    this.#refused = 0;
  }

  partCame(bytes: number): void {
    this.#smallParts = Math.max(0, this.#smallParts + 1 - bytes / partBytesMean);
    if (this.#smallParts > smallPartsMax) this.#sendAway('messages come in too many small frames');
  }

  #sendAway(reason: string): void {
    if (this.session.destroyed) return;
    this.session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, Buffer.from(reason));
    this.destroy();
  }

  messageCame(): void {
    this.#smallParts = Math.max(0, this.#smallParts - partsOfMessage);
    this.#lastMillis = performance.now();
  }

  messageLeft(): void {
    this.#lastMillis = performance.now();
  }

  /** The client is told which of its calls were not begun, as far as it listens. */
  destroy(): void {
    this.session.destroy();
    setImmediate(() => this.#socket.destroy());
  }
}

export class Connections {
  readonly #max: number;
  readonly #all = new Set<Connection>();

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#all.size;
  }

  [Symbol.iterator](): Iterator<Connection> {
    return this.#all.values();
  }

  /** When there are too many, the one goes that has gone without a call for longest. */
  add(connection: Connection): void {
    if (this.#all.size >= this.#max) {
      const longest = this.#longestWithoutCall();
      this.#all.delete(longest);
      longest.destroy();
    }
    this.#all.add(connection);
    connection.session.once('close', () => this.#all.delete(connection));
  }

  /** When all have calls, the one on which nothing has moved for longest: nobody is locked out. */
  #longestWithoutCall(): Connection {
    let [longest] = this.#all;
    for (const each of this.#all) if (isBefore(each, longest!)) longest = each;
    return longest!;
  }
}

function isBefore(one: Connection, other: Connection): boolean {
  const isIdle = one.calls === 0;
  if (isIdle !== (other.calls === 0)) return isIdle;
  return one.lastMillis < other.lastMillis;
}
