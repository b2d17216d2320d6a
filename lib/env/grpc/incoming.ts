/**
 * The messages that a client sends in one call. What has come and waits is held as compactly as it
 * is counted: a message that waits for the handler, and behind it what the client may send before it
 * learns that nobody reads on (its window of 64 KiB).
 */
import type { ServerHttp2Stream } from 'node:http2';
import { TsdbError } from '../../errors.ts';
import type { ComingBody } from '../in_flight/bytes_in_flight.ts';
import { MessageReader } from './message_reader.ts';

const nothing = Buffer.alloc(0);
const restBytesMin = 1024;

export interface IncomingOptions {
  readonly stream: ServerHttp2Stream;
  /** Room for what the call holds; what was taken before the first message is the call's head. */
  readonly room: ComingBody;
  readonly messageBytesMax: number;
  /** What `grpc-encoding` says. */
  readonly encoding: string | undefined;
  /** As of `GrpcUnary`. */
  readonly encodings: readonly string[];
  readonly receiveMillisMax: number;
  /** The request is one message, and the time is that of all of it. */
  readonly isUnary: boolean;
  readonly onPart: (bytes: number) => void;
  /** A message is whole. */
  readonly onMessage: () => void;
  /** The call cannot go on. */
  readonly onFailure: (error: unknown) => void;
}

export class IncomingMessages {
  readonly #options: IncomingOptions;
  readonly #reader: MessageReader;
  readonly #rest: Rest;
  #waiting: Buffer | null = null;
  /** Memory of the message that the handler has. */
  #givenBytes = 0;
  #isEnded = false;
  #failure: { readonly error: unknown } | null = null;
  /** Set while the handler waits for a message. */
  #wake: (() => void) | null = null;
  /** As of `room`. */
  #isComing = true;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: IncomingOptions) {
    this.#options = options;
    const { room, messageBytesMax, encoding, encodings } = options;
    this.#reader = new MessageReader(messageBytesMax, encoding, room, encodings);
    this.#rest = new Rest(room);
  }

  /** Of the only message of a call that takes one. */
  get isCompressed(): boolean {
    return this.#reader.isCompressed;
  }

  begin(): void {
    const { stream } = this.#options;
    this.#arm();
    stream.on('end', () => this.#ended());
    for (;;) {
      const part = stream.read() as Buffer | null;
      if (part === null) break;
      this.#came(part);
    }
    // Node hands over each part by `push`, and reads on unless that says false. Its own would keep
    // the parts of a stream that waits in a list, however small they are, each with the 64 KiB that
    // were read from the socket with it.
    const push = stream.push.bind(stream);
    stream.push = (part: Buffer | null) => {
      if (part !== null) return this.#came(part);
      push(null);
      // Only a look makes it see that this was the end.
      stream.read(0);
      return false;
    };
  }

  /** @returns whether to read on */
  #came(part: Buffer): boolean {
    this.#options.onPart(part.length);
    if (this.#failure !== null) return false;
    try {
      const read = this.#waiting === null ? this.#read(part) : 0;
      if (read < part.length) this.#rest.add(part.subarray(read));
    } catch (error) {
      this.#fail(error);
    }
    this.#noteComing();
    return this.#failure === null && this.#waiting === null;
  }

  /** @returns how much is read, which is all unless a message is whole */
  #read(part: Buffer): number {
    const { message, length } = this.#reader.read(part);
    if (message === null) {
      this.#arm();
      return length;
    }
    this.#waiting = message;
    this.#options.onMessage();
    if (!this.#options.isUnary) this.#disarm();
    this.#wakeHandler();
    return length;
  }

  /** The next message, or null at the end. It stays counted until `give`. */
  async next(): Promise<Buffer | null> {
    while (this.#waiting === null) {
      if (this.#failure !== null) throw this.#failure.error;
      if (this.#isEnded) return null;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        this.#noteComing();
      });
    }
    const message = this.#waiting;
    this.#waiting = null;
    this.#givenBytes += message.length;
    this.#readRest();
    this.#noteComing();
    return message;
  }

  #readRest(): void {
    try {
      const { bytes } = this.#rest;
      if (bytes.length > 0) this.#rest.drop(this.#read(bytes));
      if (this.#isEnded) this.#checkEnd();
    } catch (error) {
      this.#fail(error);
    }
    const { stream } = this.#options;
    if (this.#waiting === null && !this.#isEnded && !stream.destroyed) stream._read(0);
  }

  /** The handler is done with the message that it has. */
  give(): void {
    this.#options.room.give(this.#givenBytes);
    this.#givenBytes = 0;
  }

  #ended(): void {
    this.#isEnded = true;
    this.#disarm();
    if (this.#failure === null) this.#checkEnd();
    this.#noteComing();
    this.#wakeHandler();
  }

  #checkEnd(): void {
    if (this.#waiting !== null || !this.#reader.hasBegun) return;
    this.#fail(new TsdbError('BAD_REQUEST', 'the last message of the request is cut off'));
  }

  #arm(): void {
    const { receiveMillisMax } = this.#options;
    this.#timer ??= setTimeout(() => {
      this.#fail(
        new TsdbError(
          'DEADLINE_EXCEEDED',
          `the request did not come within ${receiveMillisMax / 1000} s`,
        ),
      );
    }, receiveMillisMax).unref();
  }

  #disarm(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #wakeHandler(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }

  /** Only who waits for its client gives way to others. */
  #noteComing(): void {
    const isAwaited = this.#options.isUnary || this.#wake !== null || this.#reader.hasBegun;
    const isComing =
      isAwaited && !this.#isEnded && this.#waiting === null && this.#failure === null;
    if (isComing === this.#isComing) return;
    this.#isComing = isComing;
    if (isComing) this.#options.room.goesOn();
    else this.#options.room.ended();
  }

  /** There is no room for what comes so slowly. */
  cut(error: TsdbError): void {
    const isIdle = !this.#options.isUnary && !this.#reader.hasBegun;
    this.#fail(
      isIdle
        ? new TsdbError('UNAVAILABLE', 'the stream was idle, and others waited for its room')
        : error,
    );
  }

  #fail(error: unknown): void {
    if (this.#failure !== null) return;
    this.close(error);
    this.#options.onFailure(error);
  }

  /** Nothing more is read; what is held is given back, but for the message that the handler has. */
  close(error: unknown): void {
    const { room } = this.#options;
    this.#failure ??= { error };
    this.#disarm();
    this.#noteComing();
    room.give(room.bytes - this.#givenBytes);
    this.#waiting = null;
    this.#reader.forget();
    this.#rest.forget();
    this.#wakeHandler();
  }
}

/** Bytes that have come and wait for the handler, after the message that does. */
class Rest {
  readonly #room: ComingBody;
  #bytes: Buffer = nothing;
  #start = 0;
  #end = 0;

  constructor(room: ComingBody) {
    this.#room = room;
  }

  /** @throws {TsdbError} RESOURCE_EXHAUSTED */
  add(part: Uint8Array): void {
    const length = this.#end - this.#start + part.length;
    if (this.#end + part.length > this.#bytes.length) {
      const larger = Math.max(restBytesMin, 2 * length);
      this.#room.take(larger - this.#bytes.length, part.length);
      const grown = Buffer.allocUnsafe(larger);
      this.#bytes.copy(grown, 0, this.#start, this.#end);
      this.#bytes = grown;
      this.#end -= this.#start;
      this.#start = 0;
    } else this.#room.take(0, part.length);
    this.#bytes.set(part, this.#end);
    this.#end += part.length;
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(this.#start, this.#end);
  }

  /** So many are read. */
  drop(count: number): void {
    this.#start += count;
    if (this.#start < this.#end) return;
    this.#room.give(this.#bytes.length);
    this.forget();
  }

  forget(): void {
    this.#bytes = nothing;
    this.#start = 0;
    this.#end = 0;
  }
}
