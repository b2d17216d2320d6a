/**
 * The snappy block format written for reading: the plain twin of
 * engine/write_decoder/kernel/wire/snappy.ts and of the decoder in snappy.ts.
 *
 *     length of the text (varint) | elements
 *
 * The lower two bits of an element's first byte say what it is: 0 a literal, 1 to 3 a copy of text
 * that was already given, with an offset back to it of so many bytes (for 3: four).
 */
import { snappyProblem } from './snappy.ts';

class CutOff extends Error {}

/** Takes bytes from the front. */
class Source {
  #rest: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#rest = bytes;
  }

  get isEmpty(): boolean {
    return this.#rest.length === 0;
  }

  take(count: number): Uint8Array {
    if (count > this.#rest.length) throw new CutOff();
    const taken = this.#rest.subarray(0, count);
    this.#rest = this.#rest.subarray(count);
    return taken;
  }

  /** A little-endian number of so many bytes. */
  number(bytes: number): number {
    return this.take(bytes).reduceRight((number, byte) => number * 256 + byte, 0);
  }

  /** Seven bits a byte, the lowest first, in five bytes at most. */
  varint(): number {
    const sevens: number[] = [];
    let byte: number;
    do {
      if (sevens.length === 5) throw new CutOff();
      byte = this.number(1);
      sevens.push(byte % 128);
    } while (byte >= 128);
    return sevens.reduceRight((number, seven) => number * 128 + seven, 0);
  }
}

/** The text, or one of `snappyProblem`. */
export function decodeSnappyTwin(bytes: Uint8Array, bytesMax: number): Uint8Array | number {
  const source = new Source(bytes);
  const length = orNull(() => source.varint());
  if (length === null || length >= 2 ** 32) return snappyProblem.badLength;
  if (length > bytesMax) return snappyProblem.tooLong;
  return orNull(() => textOf(source, length)) ?? snappyProblem.corrupt;
}

function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof CutOff) return null;
    throw error;
  }
}

/** Null when the elements give another length, or copy what is not there. */
function textOf(source: Source, length: number): Uint8Array | null {
  const text: number[] = [];
  while (!source.isEmpty) {
    const tag = source.number(1);
    const kind = tag % 4;
    const upper = tag >> 2;
    if (kind === 0) {
      // From 60 on the bits say how many bytes hold the length.
      const size = 1 + (upper < 60 ? upper : source.number(upper - 59));
      if (text.length + size > length) return null;
      for (const byte of source.take(size)) text.push(byte);
      continue;
    }
    // The shortest form has the upper bits of its offset in the tag.
    const size = kind === 1 ? 4 + (upper % 8) : 1 + upper;
    const offset =
      kind === 1 ? (tag >> 5) * 256 + source.number(1) : source.number(kind === 2 ? 2 : 4);
    if (offset === 0 || offset > text.length || text.length + size > length) return null;
    for (let i = 0; i < size; i++) text.push(text[text.length - offset]!);
  }
  return text.length === length ? Uint8Array.from(text) : null;
}
