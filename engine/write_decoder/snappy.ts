/**
 * Snappy block format: a varint with the uncompressed length, then literals and back references.
 * For remote read, whose requests are decoded here and its answers encoded, and for what is passed on of writes. Bodies
 * that are written are decoded by engine/write_decoder/kernel/wire/snappy.ts.
 */
import { badRequest } from '#lib/errors.ts';
import type { Work } from '#lib/turns/turns.ts';

/** What a decoder answers instead of a length. */
export const snappyProblem = {
  /** The length in front is cut off or not a u32. */
  badLength: -1,
  /** More than the target holds. */
  tooLong: -2,
  /** An element is cut off, points before the start or past the end, or bytes are missing. */
  corrupt: -3,
} as const;

/**
 * @param bytesMax refuse bodies that would become longer
 * @returns a fresh buffer
 * @throws {TsdbError} BAD_REQUEST when the bytes are not a snappy block
 */
export function decodeSnappy(bytes: Uint8Array, bytesMax: number): Uint8Array<ArrayBuffer> {
  const block = new Block(bytes, bytesMax);
  block.read(bytesMax);
  return block.decoded();
}

/** Decoded at once: as much as is between two looks at the clock (lib/turns/turns.ts). */
const bytesAtOnce = 32 << 10;

/**
 * The same, in turns with others.
 * @throws {TsdbError} BAD_REQUEST as above; the reason of the work's signal
 */
export async function decodeSnappyInTurns(
  bytes: Uint8Array,
  bytesMax: number,
  work: Work,
): Promise<Uint8Array<ArrayBuffer>> {
  const block = new Block(bytes, bytesMax);
  while (block.read(bytesAtOnce)) {
    if (work.spend(bytesAtOnce)) await work.pause();
  }
  return block.decoded();
}

export function snappyProblemText(problem: number, bytesMax: number): string {
  if (problem === snappyProblem.tooLong) return `longer than ${bytesMax} bytes when uncompressed`;
  if (problem === snappyProblem.badLength) return 'the length in front is malformed';
  return 'the block is corrupt';
}

/** A block that is decoded element by element. */
class Block {
  readonly #bytes: Uint8Array;
  readonly #bytesMax: number;
  #at = 0;
  #target: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  /** Decoded so far. */
  #end = 0;
  /** One of `snappyProblem`, or 0. */
  #problem: number;

  constructor(bytes: Uint8Array, bytesMax: number) {
    this.#bytes = bytes;
    this.#bytesMax = bytesMax;
    this.#problem = this.#readLength();
  }

  #readLength(): number {
    const bytes = this.#bytes;
    let length = 0;
    for (let i = 0; ; i++) {
      if (this.#at === bytes.length || i === 5) return snappyProblem.badLength;
      const byte = bytes[this.#at++]!;
      length += (byte & 127) * 2 ** (7 * i);
      if (byte < 128) break;
    }
    if (length > 0xffff_ffff) return snappyProblem.badLength;
    if (length > this.#bytesMax) return snappyProblem.tooLong;
    this.#target = new Uint8Array(length);
    return 0;
  }

  /** Decodes so many bytes, or some more. @returns whether there are more */
  read(bytesMore: number): boolean {
    if (this.#problem !== 0) return false;
    this.#problem = this.#readElements(Math.min(this.#target.length, this.#end + bytesMore));
    return this.#problem === 0 && this.#at < this.#bytes.length;
  }

  /** @returns one of `snappyProblem`, or 0 */
  #readElements(stopAt: number): number {
    const bytes = this.#bytes;
    const target = this.#target;
    const { length } = target;
    let at = this.#at;
    let end = this.#end;
    // What stands behind the last byte is a problem, and has to be met.
    while (at < bytes.length && (end < stopAt || stopAt === length)) {
      const tag = bytes[at++]!;
      const kind = tag & 3;
      if (kind === 0) {
        let size = (tag >> 2) + 1;
        if (size > 60) {
          const extra = size - 60;
          if (extra > bytes.length - at) return snappyProblem.corrupt;
          size = 1;
          for (let i = 0; i < extra; i++) size += bytes[at++]! * 2 ** (8 * i);
        }
        if (size > bytes.length - at || size > length - end) return snappyProblem.corrupt;
        target.set(bytes.subarray(at, at + size), end);
        at += size;
        end += size;
        continue;
      }
      const offsetBytes = kind === 3 ? 4 : kind;
      if (offsetBytes > bytes.length - at) return snappyProblem.corrupt;
      let offset = 0;
      for (let i = 0; i < offsetBytes; i++) offset += bytes[at++]! * 2 ** (8 * i);
      let size = (tag >> 2) + 1;
      if (kind === 1) {
        offset += (tag >> 5) * 256;
        size = ((tag >> 2) & 7) + 4;
      }
      if (offset === 0 || offset > end || size > length - end) return snappyProblem.corrupt;
      for (const stop = end + size; end < stop; end++) target[end] = target[end - offset]!;
    }
    this.#at = at;
    this.#end = end;
    return 0;
  }

  /** @throws {TsdbError} BAD_REQUEST */
  decoded(): Uint8Array<ArrayBuffer> {
    const isShort = this.#end < this.#target.length;
    const problem = this.#problem === 0 && isShort ? snappyProblem.corrupt : this.#problem;
    if (problem === 0) return this.#target;
    throw badRequest(`cannot decode snappy: ${snappyProblemText(problem, this.#bytesMax)}`);
  }
}

/** Matches reach back this far at most, so that an offset takes two bytes. */
const windowBytes = 65_535;
const hashBits = 14;
/** Matches are looked for while this many bytes are left. */
const matchTailBytes = 8;

/** Compresses to one snappy block; a fresh buffer. */
export function encodeSnappy(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const [length, elements] = encodeSnappyParts([bytes]) as Iterable<Uint8Array>;
  const block = new Uint8Array(length!.length + elements!.length);
  block.set(length!);
  block.set(elements!, length!.length);
  return block;
}

/**
 * Compresses parts, one when it is asked for, to one snappy block that the pieces make up. No part refers
 * to another one.
 */
export function* encodeSnappyParts(parts: readonly Uint8Array[]): Generator<Uint8Array> {
  yield lengthInFront(parts.reduce((sum, part) => sum + part.length, 0));
  for (const part of parts) yield elementsOf(part);
}

function lengthInFront(length: number): Uint8Array {
  const bytes: number[] = [];
  for (let rest = length; ; rest = Math.floor(rest / 128)) {
    bytes.push(rest >= 128 ? (rest % 128) | 128 : rest);
    if (rest < 128) return Uint8Array.from(bytes);
  }
}

function elementsOf(bytes: Uint8Array): Uint8Array {
  const target = new Uint8Array(32 + bytes.length + Math.ceil(bytes.length / 6));
  const table = new Int32Array(1 << hashBits).fill(-1);
  let out = 0;
  const wordAt = (at: number): number =>
    bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
  const literal = (start: number, end: number): void => {
    if (start === end) return;
    const size = end - start - 1;
    if (size < 60) target[out++] = size << 2;
    else {
      const extra = size < 256 ? 1 : size < 65_536 ? 2 : size < 16_777_216 ? 3 : 4;
      target[out++] = (59 + extra) << 2;
      for (let i = 0; i < extra; i++) target[out++] = size >>> (8 * i);
    }
    target.set(bytes.subarray(start, end), out);
    out += end - start;
  };
  let done = 0;
  let at = 0;
  while (at < bytes.length - matchTailBytes) {
    const word = wordAt(at);
    const bucket = Math.imul(word, 0x1e35a7bd) >>> (32 - hashBits);
    const candidate = table[bucket]!;
    table[bucket] = at;
    if (candidate < 0 || at - candidate > windowBytes || wordAt(candidate) !== word) {
      // Stretches without matches are crossed in growing steps.
      at += 1 + ((at - done) >> 5);
      continue;
    }
    literal(done, at);
    let size = 4;
    while (at + size < bytes.length && bytes[at + size] === bytes[candidate + size]) size++;
    const offset = at - candidate;
    at += size;
    done = at;
    for (; size > 0; size -= 64) {
      target[out++] = ((Math.min(size, 64) - 1) << 2) | 2;
      target[out++] = offset;
      target[out++] = offset >> 8;
    }
  }
  literal(done, bytes.length);
  return target.slice(0, out);
}
