/** Carbon's pickle protocol: messages with their length in front of them, four bytes, the highest first. */
import type { Clock } from '#lib/env/env.ts';
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';
import { withRests } from '#lib/turns/steps.ts';
import { Turns } from '#lib/turns/turns.ts';
import { Places } from '../http/places.ts';
import { linesOfPickle } from './unpickle.ts';

/** As Carbon has it. */
const messageBytesMax: number = 1 << 20;
const lengthBytes = 4;
/** Parts of a message that comes in small pieces; each would cost more than what is in it. */
const partsMax = 256;
/** A message of no more bytes may be on its way on every connection for as long as that is open. */
const smallBytesMax: number = 8 << 10;
/** A message of more bytes is a large one. */
const mediumBytesMax: number = 64 << 10;
/** Those between that come at the same time, of all connections, and large ones; others wait. */
const mediumMax = 1_024;
const largeMax = 32;
/** How long one that is not small may be on its way. */
const arrivalMillisMax = 30_000;
/** Messages that are values, or lines that nobody has taken yet: they may be many times as long as the message was. */
const readMax = 8;

/** About what a step of reading a message takes, in units of work (lib/turns/turns.ts). */
const stepUnits = 100_000;

/** What the pickles of all connections have in common. */
export class Pickles {
  readonly #medium = new Places(mediumMax);
  readonly #large = new Places(largeMax);
  readonly #read = new Places(readMax);
  readonly #clock: Pick<Clock, 'monotonicMillis' | 'sleep'>;
  readonly #onRefused: (count: number, problem: string) => void;

  /** @param onRefused samples that are none, or a message that is no pickle, in words */
  constructor(
    clock: Pick<Clock, 'monotonicMillis' | 'sleep'>,
    onRefused: (count: number, problem: string) => void,
  ) {
    this.#clock = clock;
    this.#onRefused = onRefused;
  }

  /**
   * Messages as lines of plaintext, each as a chunk.
   * @throws {TsdbError} BAD_REQUEST for a message that is too long or empty: where the next one begins is not known; and for one
   * that is not small and too long on its way
   */
  async *lines(chunks: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const bytes = new Bytes(chunks);
    try {
      while (true) {
        const message = await this.#next(bytes, signal);
        if (message === null) return;
        await this.#read.take(signal);
        try {
          const text = await this.#linesOf(message, signal);
          if (text !== null) yield text;
        } finally {
          this.#read.give();
        }
      }
    } finally {
      if (bytes.length > 0) this.#onRefused(1, 'the last message of a connection is not whole');
    }
  }

  /** The next message; null at the end. */
  async #next(bytes: Bytes, signal: AbortSignal): Promise<Buffer | null> {
    const head = await bytes.peek(lengthBytes);
    if (head === null) return null;
    const length = head.readUInt32BE();
    if (length === 0 || length > messageBytesMax) {
      throw badRequest(
        `cannot read pickles: a message has 1 to ${messageBytesMax} bytes: ${length}`,
      );
    }
    if (length <= smallBytesMax) return bytes.takeBehind(lengthBytes, length);
    const places = length <= mediumBytesMax ? this.#medium : this.#large;
    await places.take(signal);
    try {
      return await this.#soon(bytes.takeBehind(lengthBytes, length), length, signal);
    } finally {
      places.give();
    }
  }

  /** Nobody holds a place for long by sending nothing. */
  async #soon<T>(message: Promise<T>, length: number, signal: AbortSignal): Promise<T> {
    const wait = new AbortController();
    const ended = AbortSignal.any([wait.signal, signal]);
    const late = this.#clock.sleep(arrivalMillisMax, ended).then(() => {
      throw badRequest(
        `cannot read pickles: a message of ${length} bytes is on its way for more than ${arrivalMillisMax / 1000} s`,
      );
    });
    // Both go on when the other one has come first.
    for (const each of [late, message]) each.catch(() => {});
    try {
      return await Promise.race([message, late]);
    } finally {
      wait.abort();
    }
  }

  async #linesOf(message: Uint8Array, signal: AbortSignal): Promise<Uint8Array | null> {
    // For each message: what its client takes to send the next one is no work.
    const work = Turns.of(this.#clock).begin(signal, 'write');
    try {
      const { text, refused } = await withRests(linesOfPickle(message), async () => {
        if (work.spend(stepUnits)) await work.pause();
      });
      if (refused > 0) {
        this.#onRefused(refused, `${refused} samples of a pickle are no (path, (time, value))`);
      }
      return text.length > 0 ? text : null;
    } catch (error) {
      if (!(error instanceof TsdbError) || signal.aborted) throw error;
      this.#onRefused(1, messageOf(error));
      return null;
    }
  }
}

/** Chunks, asked for by number of bytes. */
class Bytes {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #parts: Uint8Array[] = [];
  #length = 0;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Those that came and were not taken. */
  get length(): number {
    return this.#length;
  }

  /** The next ones, which stay; null when there are fewer before the end. */
  async peek(count: number): Promise<Buffer | null> {
    while (this.#length < count) {
      const { done, value } = await this.#chunks.next();
      if (done === true) return null;
      this.#parts.push(value);
      this.#length += value.length;
      if (this.#parts.length === partsMax) this.#parts = [Buffer.concat(this.#parts)];
    }
    if (this.#parts.length > 1) this.#parts = [Buffer.concat(this.#parts)];
    const [held] = this.#parts;
    return Buffer.from(held!.buffer, held!.byteOffset, count);
  }

  /** Those behind the next `before`, all of which are gone then; null when there are fewer before the end, and then they stay. */
  async takeBehind(before: number, count: number): Promise<Buffer | null> {
    const all = await this.peek(before + count);
    if (all === null) return null;
    this.#parts = [this.#parts[0]!.subarray(all.length)];
    this.#length -= all.length;
    return all.subarray(before);
  }
}
