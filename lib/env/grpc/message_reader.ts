/** Messages as they come: five bytes that say how long one is, and its own. */
import { TsdbError } from '../../errors.ts';
import type { ComingBody } from '../in_flight/bytes_in_flight.ts';

const prefixBytes = 5;
/** Room for the beginning of a message; then it grows with what comes. */
const firstRoomBytes: number = 16 << 10;
/** A message of which this part is there has room for all of it. */
const sureParts = 8;

/** @param encoding what `grpc-encoding` says */
function compressed(encoding: string | undefined): TsdbError {
  if (encoding === undefined || encoding === 'identity') {
    return new TsdbError(
      'INTERNAL',
      'the message is compressed, and grpc-encoding does not say how',
    );
  }
  return new TsdbError(
    'UNIMPLEMENTED',
    `compressed messages are not taken here: send them with grpc-encoding identity instead of ${encoding}`,
  );
}

/** Puts one message together at a time. What has come is copied: parts belong to larger reads. */
export class MessageReader {
  readonly #bytesMax: number;
  readonly #encoding: string | undefined;
  readonly #encodings: readonly string[];
  readonly #memory: ComingBody;
  readonly #prefix: Buffer = Buffer.alloc(prefixBytes);
  #prefixLength = 0;
  #messageLength = 0;
  #room: Buffer | null = null;
  #length = 0;
  #taken = 0;

  /** The last message that was whole is compressed, in one of `encodings`. */
  isCompressed = false;

  /** @param encodings in which compressed messages are handed on as they are */
  constructor(
    bytesMax: number,
    encoding: string | undefined,
    memory: ComingBody,
    encodings: readonly string[] = [],
  ) {
    this.#bytesMax = bytesMax;
    this.#encoding = encoding;
    this.#encodings = encodings;
    this.#memory = memory;
  }

  /** A message has begun to come. */
  get hasBegun(): boolean {
    return this.#prefixLength > 0;
  }

  /**
   * Reads on, to the end of the part or of the message.
   * @returns the message when it is whole, and how much of the part is read
   * @throws {TsdbError} RESOURCE_EXHAUSTED for a message that is too large or has no room,
   *   UNIMPLEMENTED for one that is compressed
   */
  read(part: Uint8Array): { readonly message: Buffer | null; readonly length: number } {
    let length = 0;
    while (this.#prefixLength < prefixBytes) {
      if (length === part.length) return { message: null, length };
      this.#prefix[this.#prefixLength++] = part[length++]!;
      if (this.#prefixLength === prefixBytes) this.#begin();
    }
    const end = Math.min(part.length, length + this.#messageLength - this.#length);
    this.#add(part.subarray(length, end));
    const isWhole = this.#length === this.#messageLength;
    return { message: isWhole ? this.#whole() : null, length: end };
  }

  #begin(): void {
    this.isCompressed = this.#prefix[0] !== 0;
    const isTaken = this.#encoding !== undefined && this.#encodings.includes(this.#encoding);
    if (this.isCompressed && !isTaken) throw compressed(this.#encoding);
    this.#messageLength = this.#prefix.readUInt32BE(1);
    if (this.#messageLength > this.#bytesMax) {
      throw new TsdbError(
        'RESOURCE_EXHAUSTED',
        `the message is larger than ${this.#bytesMax} bytes: ${this.#messageLength}`,
      );
    }
  }

  #add(bytes: Uint8Array): void {
    const length = this.#length + bytes.length;
    let room = this.#room;
    if (room === null || length > room.length) {
      // What is only announced takes no memory; once a good part is there, the rest has its place.
      const isSure = length * sureParts >= this.#messageLength;
      const begun = Math.min(this.#messageLength, Math.max(firstRoomBytes, 2 * length));
      const larger = isSure ? this.#messageLength : begun;
      this.#takeTo(isSure ? length : larger, bytes.length);
      const grown = Buffer.allocUnsafe(larger);
      room?.copy(grown, 0, 0, this.#length);
      this.#room = grown;
      room = grown;
    } else this.#takeTo(length, bytes.length);
    room.set(bytes, this.#length);
    this.#length = length;
  }

  /** Only what was written takes memory. */
  #takeTo(bytes: number, came: number): void {
    const more = Math.max(0, bytes - this.#taken);
    this.#memory.take(more, came);
    this.#taken += more;
  }

  #whole(): Buffer {
    const message = this.#room ?? Buffer.alloc(0);
    this.forget();
    return message;
  }

  /** The message that has begun will not be whole. */
  forget(): void {
    this.#room = null;
    this.#length = 0;
    this.#taken = 0;
    this.#prefixLength = 0;
  }
}
