/**
 * Numbers and texts in as few bytes as they need (docs/formats/fileset.md, "Packed"): varints,
 * bits, and texts that say what they share with the one before.
 */

/** Most bits of one number. */
export const packedBitsMax = 25;

/**
 * Bytes that stand behind the last bits, so that a reader can take four bytes wherever bits begin.
 */
export const packedSlackBytes = 4;

/** Most columns of which one mask of bits tells which changed. */
export const maskColumnsMax = 24;

/** Bits that numbers below `count` take. */
export function bitsFor(count: number): number {
  return count <= 1 ? 0 : 32 - Math.clz32(count - 1);
}

/** Growing bytes. */
export class PackedWriter {
  #bytes: Uint8Array<ArrayBuffer> = new Uint8Array(4096);
  #view: DataView = new DataView(this.#bytes.buffer);
  #bits = 0;
  #bitCount = 0;
  length = 0;

  #room(more: number): void {
    if (more <= this.#bytes.length - this.length) return;
    const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.length + more));
    larger.set(this.#bytes.subarray(0, this.length));
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }

  u8(value: number): void {
    this.#room(1);
    this.#bytes[this.length++] = value;
  }

  u32(value: number): void {
    this.#room(4);
    this.#view.setUint32(this.length, value, true);
    this.length += 4;
  }

  setU32(position: number, value: number): void {
    this.#view.setUint32(position, value, true);
  }

  u64(value: number): void {
    this.#room(8);
    this.#view.setBigUint64(this.length, BigInt(value), true);
    this.length += 8;
  }

  i64(value: bigint): void {
    this.#room(8);
    this.#view.setBigInt64(this.length, value, true);
    this.length += 8;
  }

  /** Whole numbers below 2^53. */
  varint(value: number): void {
    this.#room(8);
    let rest = value;
    while (rest >= 128) {
      this.#bytes[this.length++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.length++] = rest;
  }

  bytes(part: Uint8Array): void {
    this.#room(part.length);
    this.#bytes.set(part, this.length);
    this.length += part.length;
  }

  /** @param width at most `packedBitsMax`; the value fits into it */
  bits(value: number, width: number): void {
    let bits = this.#bits | (value << this.#bitCount);
    let count = this.#bitCount + width;
    if (count >= 8) {
      this.#room(4);
      for (; count >= 8; count -= 8) {
        this.#bytes[this.length++] = bits;
        bits >>>= 8;
      }
    }
    this.#bits = bits;
    this.#bitCount = count;
  }

  /** Ends the bits: what follows begins at a byte. */
  endBits(): void {
    if (this.#bitCount > 0) this.u8(this.#bits);
    this.#bits = 0;
    this.#bitCount = 0;
  }

  /**
   * A text of at most 65,535 bytes after another one, of which the beginning is not written again.
   */
  text(text: Uint8Array, before: Uint8Array): void {
    const most = Math.min(text.length, before.length);
    let shared = 0;
    while (shared < most && text[shared] === before[shared]) shared++;
    const rest = text.length - shared;
    this.u8((Math.min(shared, 15) << 4) | Math.min(rest, 15));
    if (shared >= 15) this.varint(shared - 15);
    if (rest >= 15) this.varint(rest - 15);
    this.#room(rest);
    for (let i = shared; i < text.length; i++) this.#bytes[this.length++] = text[i]!;
  }

  /**
   * Bits of many numbers, of which few differ from those of another set: runs of words that are the
   * same, and of others.
   */
  bitset(words: Uint32Array, before: Uint32Array): void {
    for (let at = 0; at < words.length; ) {
      const same = at;
      while (at < words.length && words[at] === before[at]) at++;
      const others = at;
      // One word that is the same does not end the others.
      while (at < words.length && (words[at] !== before[at] || words[at + 1] !== before[at + 1]))
        at++;
      this.varint(others - same);
      this.varint(at - others);
      for (let i = others; i < at; i++) this.u32((words[i]! ^ before[i]!) >>> 0);
    }
  }

  /** Borrowed until the next addition. */
  view(start: number): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(start, this.length);
  }

  clear(): void {
    this.length = 0;
  }
}

/**
 * Reads what a `PackedWriter` wrote; nothing beyond `end` is read, but for the slack after bits.
 */
export class PackedReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #damage: (reason: string) => Error;
  #end: number;
  #at: number;
  #bit: number;

  /** @param damage makes the error that is thrown where the bytes cannot be right */
  constructor(bytes: Uint8Array, start: number, end: number, damage: (reason: string) => Error) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#damage = damage;
    this.#at = start;
    this.#end = end;
    this.#bit = 0;
  }

  /** Goes to a position of the bytes. @param end nothing from there on is read */
  seek(position: number, end: number): void {
    this.#at = position;
    this.#end = end;
    this.#bit = 0;
  }

  get position(): number {
    return this.#at;
  }

  get end(): number {
    return this.#end;
  }

  /** Takes the next bytes. @returns where they begin */
  take(count: number): number {
    if (count > this.#end - this.#at) throw this.#damage('numbers are cut off');
    const start = this.#at;
    this.#at += count;
    return start;
  }

  /** The next bytes, borrowed. */
  bytes(count: number): Uint8Array {
    const start = this.take(count);
    return this.#bytes.subarray(start, start + count);
  }

  u8(): number {
    return this.#bytes[this.take(1)]!;
  }

  u32(): number {
    return this.#view.getUint32(this.take(4), true);
  }

  varint(): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < 8; i++) {
      const byte = this.u8();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
    throw this.#damage('a number is too long');
  }

  i64(): bigint {
    return this.#view.getBigInt64(this.take(8), true);
  }

  /** Makes `words`, which are those of the set before, those of the next one. */
  bitset(words: Uint32Array): void {
    for (let at = 0; at < words.length; ) {
      const same = this.varint();
      const others = this.varint();
      if (same + others === 0 || same + others > words.length - at) {
        throw this.#damage('words of a bitset are more than it has');
      }
      at += same;
      for (const end = at + others; at < end; at++) words[at]! ^= this.u32();
    }
  }

  /** A varint of at most this value. */
  varintUpTo(max: number): number {
    const value = this.varint();
    if (value > max) throw this.#damage(`a number is too large: ${value}`);
    return value;
  }

  /**
   * The next bits; the slack of `packedSlackBytes` has to lie after `end`.
   * @param width at most `packedBitsMax`
   */
  bits(width: number): number {
    if (this.#at > this.#end) throw this.#damage('bits are cut off');
    const value = (this.#view.getUint32(this.#at, true) >>> this.#bit) & ((1 << width) - 1);
    const bit = this.#bit + width;
    this.#at += bit >>> 3;
    this.#bit = bit & 7;
    return value;
  }

  /** Ends the bits: what follows begins at a byte. */
  endBits(): void {
    if (this.#bit > 0) this.#at++;
    this.#bit = 0;
    if (this.#at > this.#end) throw this.#damage('bits are cut off');
  }

  /**
   * Adds the next text to `texts`.
   * @param beforeStart where the text before it lies in `texts`, and its length
   * @returns its length
   */
  text(texts: PackedTexts, beforeStart: number, beforeLength: number): number {
    const lengths = this.u8();
    let shared = lengths >>> 4;
    let rest = lengths & 15;
    if (shared === 15) shared += this.varint();
    if (rest === 15) rest += this.varint();
    if (shared > beforeLength) throw this.#damage('a text shares more than there is');
    if (shared + rest > 65_535) throw this.#damage('a text is too long');
    const from = this.take(rest);
    if (!texts.reserve(shared + rest)) throw this.#damage('texts are too long');
    const { bytes } = texts;
    let at = texts.length;
    for (let i = 0; i < shared; i++) bytes[at++] = bytes[beforeStart + i]!;
    for (let i = 0; i < rest; i++) bytes[at++] = this.#bytes[from + i]!;
    texts.length = at;
    return shared + rest;
  }
}

/** Most bytes of texts that are read together. */
const textsBytesMax = 1 << 30;

/** Texts one after the other. */
export class PackedTexts {
  bytes: Uint8Array<ArrayBuffer>;
  length: number;

  constructor(expectedBytes: number) {
    this.bytes = new Uint8Array(expectedBytes);
    this.length = 0;
  }

  /** Makes room for as many bytes more. @returns false when they are too many */
  reserve(more: number): boolean {
    const needed = this.length + more;
    if (needed <= this.bytes.length) return true;
    if (needed > textsBytesMax) return false;
    const larger = new Uint8Array(Math.max(needed, 2 * this.bytes.length));
    larger.set(this.bytes.subarray(0, this.length));
    this.bytes = larger;
    return true;
  }
}
