/**
 * Messages of a commit log of M3. The file is of chunks: 32 bits, little endian, of the size, the sum
 * of these four bytes, and the sum of the bytes that follow. Together those are messages, each with
 * its size before it in seven bits a byte; one may be in more than one chunk.
 */
import type { DiskFile } from '#lib/env/env.ts';
import { adler32 } from '../bytes/adler32.ts';
import { FileBytes } from '../bytes/file_bytes.ts';

const headerBytes = 12;
const chunkBytesMax = 1 << 26;
const messageBytesMax = 1 << 26;
const varintBytesMax = 5;

const heldBytesFirst = 1 << 17;

/** Messages among bytes; they are good until the next ones are read. */
export interface Messages {
  readonly bytes: Uint8Array;
  /** Where each one begins and ends, in turn. */
  readonly bounds: readonly number[];
}

/** Why reading ended before the end of the file. */
export interface Problem {
  readonly text: string;
  /** Bytes of the file before it are good. */
  readonly position: number;
  /** More should follow where the file ends; else what is there is damaged. */
  readonly isCutOff: boolean;
}

export class MessageFile {
  readonly #file: FileBytes;
  /** Of chunks that were read, what is no whole message yet. */
  #held: Uint8Array = new Uint8Array(heldBytesFirst);
  #from = 0;
  #to = 0;
  /** Where the chunk begins that was read last. */
  #chunkAt = 0;
  /** Null when the file was read to its end. */
  problem: Problem | null = null;

  constructor(file: DiskFile) {
    this.#file = new FileBytes(file);
  }

  /** Messages of the next chunk; null when there is no other one, or a problem. */
  async next(): Promise<Messages | null> {
    const bytes = await this.#chunk();
    if (bytes === null) return null;
    this.#hold(bytes);
    const bounds: number[] = [];
    for (;;) {
      const size = this.#size();
      if (size === null) break;
      if (size.bytes > this.#to - size.end) break;
      bounds.push(size.end, size.end + size.bytes);
      this.#from = size.end + size.bytes;
    }
    return { bytes: this.#held, bounds };
  }

  /** The chunk that was read last has something that cannot be read. */
  damagedBy(text: string): void {
    this.problem = { text, position: this.#chunkAt, isCutOff: false };
  }

  #endsWithin(what: string): void {
    this.problem = { text: `ends within ${what}`, position: this.#chunkAt, isCutOff: true };
  }

  async #chunk(): Promise<Uint8Array | null> {
    if (this.problem !== null) return null;
    const file = this.#file;
    this.#chunkAt = file.position;
    if (!file.holds(headerBytes) && !(await file.reads(headerBytes))) {
      if (file.next.length > 0) this.#endsWithin('the header of a chunk');
      else if (this.#to > this.#from) this.#endsWithin('an entry');
      return null;
    }
    const header = file.next;
    const words = new DataView(header.buffer, header.byteOffset, headerBytes);
    const size = words.getUint32(0, true);
    if (adler32(header.subarray(0, 4)) !== words.getUint32(4, true)) {
      this.damagedBy('has another checksum of the size of a chunk');
      return null;
    }
    if (size > chunkBytesMax) {
      this.damagedBy(`has a chunk longer than ${chunkBytesMax} bytes (${size})`);
      return null;
    }
    const sum = words.getUint32(8, true);
    const whole = headerBytes + size;
    if (!file.holds(whole) && !(await file.reads(whole))) {
      this.#endsWithin('a chunk');
      return null;
    }
    const bytes = file.next.subarray(headerBytes, whole);
    if (adler32(bytes) !== sum) {
      this.damagedBy('has another checksum of a chunk');
      return null;
    }
    file.use(whole);
    return bytes;
  }

  #hold(bytes: Uint8Array): void {
    const rest = this.#to - this.#from;
    if (rest + bytes.length > this.#held.length) {
      const larger = new Uint8Array(2 * (rest + bytes.length));
      larger.set(this.#held.subarray(this.#from, this.#to));
      this.#held = larger;
    } else if (bytes.length > this.#held.length - this.#to) {
      this.#held.copyWithin(0, this.#from, this.#to);
    } else {
      this.#held.set(bytes, this.#to);
      this.#to += bytes.length;
      return;
    }
    this.#held.set(bytes, rest);
    this.#from = 0;
    this.#to = rest + bytes.length;
  }

  /** Of the next message; null when not all of it is there, or it is damaged. */
  #size(): { readonly bytes: number; readonly end: number } | null {
    let bytes = 0;
    for (let at = this.#from; at < this.#to; at += 1) {
      const digit = at - this.#from;
      const next = this.#held[at]!;
      bytes += (next & 127) * 2 ** (7 * digit);
      if (next < 128 && bytes <= messageBytesMax) return { bytes, end: at + 1 };
      if (next < 128 || digit + 1 === varintBytesMax) {
        this.damagedBy(`has an entry longer than ${messageBytesMax} bytes`);
        return null;
      }
    }
    return null;
  }
}
