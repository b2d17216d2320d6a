/** Bits of a chunk, most significant first. */
import type { Damage } from './damage.ts';

/** Reads go at most so many bytes beyond the bits that are there, before their end is checked. */
const paddingBytes = 32;
/** Bits of a number by how many ones stand in front of it. */
const varbitSizes = [0, 3, 6, 9, 12, 18, 25, 56, 64] as const;

/** A value that is written by its XOR with the one before. */
export interface XorColumn {
  low: number;
  high: number;
  leading: number;
  length: number;
}

/** Before its first value all 64 bits are the window. */
export function xorColumn(): XorColumn {
  return { low: 0, high: 0, leading: 0, length: 64 };
}

/**
 * Bits beyond the end are zeros: who reads calls `checkEnd()` before it trusts what was read, and
 * within every 256 bits.
 */
export class BitReader {
  readonly #damage: Damage;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #end: number;
  #at = 0;

  /** @param damage makes the error for a place in `bytes` */
  constructor(bytes: Uint8Array, damage: Damage) {
    this.#bytes = new Uint8Array(bytes.length + paddingBytes);
    this.#bytes.set(bytes);
    this.#view = new DataView(this.#bytes.buffer);
    this.#end = 8 * bytes.length;
    this.#damage = damage;
  }

  get left(): number {
    return Math.max(0, this.#end - this.#at);
  }

  /** @throws {TsdbError} BAD_REQUEST when more was read than there is */
  checkEnd(): void {
    if (this.#at > this.#end) throw this.#damage('chunk is cut off', this.#end >> 3);
  }

  fail(reason: string): Error {
    return this.#damage(reason, Math.min(this.#at, this.#end) >> 3);
  }

  /** The next 32 bits, as a signed word. */
  peek(): number {
    const at = this.#at >> 3;
    const shift = this.#at & 7;
    return (this.#view.getInt32(at) << shift) | (this.#bytes[at + 4]! >> (8 - shift));
  }

  skip(count: number): void {
    this.#at += count;
  }

  /** At least 1 and at most 32 bits. */
  read(count: number): number {
    const value = this.peek() >>> (32 - count);
    this.#at += count;
    return value;
  }

  read64(): bigint {
    const high = this.read(32);
    return (BigInt(high) << 32n) | BigInt(this.read(32));
  }

  double(): number {
    doubleBits[0] = this.read64();
    return doubles[0]!;
  }

  /** Of bytes, at any bit; the magnitude is below 2^53. @throws {TsdbError} BAD_REQUEST */
  varint(): number {
    const zigzag = this.uvarint();
    return zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
  }

  /** From 0 to 2^53 - 1. @throws {TsdbError} BAD_REQUEST */
  uvarint(): number {
    let value = 0;
    for (let scale = 1; scale <= 2 ** 49; scale *= 128) {
      const byte = this.read(8);
      value += (byte & 127) * scale;
      if (byte < 128 && Number.isSafeInteger(value)) return value;
    }
    throw this.fail('number is too large');
  }

  /** By size: 0 as 0, then n ones and a zero in front of 3, 6, 9, 12, 18, 25, 56 or 64 bits. */
  #varbitSize(): number {
    // Ones in front, at most eight of them.
    const ones = Math.min(8, Math.clz32(~this.peek()));
    this.#at += Math.min(8, ones + 1);
    return varbitSizes[ones]!;
  }

  varbitUint(): bigint {
    const size = this.#varbitSize();
    if (size === 0) return 0n;
    if (size <= 25) return BigInt(this.read(size));
    const high = this.read(size - 32);
    return (BigInt(high) << 32n) | BigInt(this.read(32));
  }

  /** The largest number of a size is one more than in two's complement, but for 64 bits. */
  varbitInt(): bigint {
    const size = this.#varbitSize();
    if (size === 0) return 0n;
    if (size <= 25) return BigInt(leaningPositive(this.read(size), size));
    const high = this.read(size - 32);
    const value = (BigInt(high) << 32n) | BigInt(this.read(32));
    if (size === 64) return BigInt.asIntN(64, value);
    return value > 1n << 55n ? value - (1n << 56n) : value;
  }

  /** @throws {TsdbError} BAD_REQUEST when it is not exact as a number */
  varbitNumber(): number {
    const value = Number(this.varbitInt());
    if (!Number.isSafeInteger(value)) throw this.fail(`number is too large: ${value}`);
    return value;
  }

  /** A first value, whole. */
  firstXor(column: XorColumn): void {
    column.high = this.read(32);
    column.low = this.read(32);
  }

  /**
   * 0 when equal; 10 and the significant bits within the window of the last ones; or 11, five bits of leading zeros, six of
   * length (0 for 64), the bits.
   * @throws {TsdbError} BAD_REQUEST
   */
  nextXor(column: XorColumn): void {
    const control = this.peek();
    if (control >= 0) {
      this.#at += 1;
      return;
    }
    if ((control & 0x4000_0000) === 0) {
      this.#at += 2;
    } else {
      column.leading = (control >>> 25) & 31;
      column.length = (control >>> 19) & 63 || 64;
      this.#at += 13;
      if (column.leading + column.length > 64) throw this.fail('window of bits is too long');
    }
    const { length } = column;
    const trailing = 64 - column.leading - length;
    if (length <= 32) {
      const bits = this.read(length);
      if (trailing >= 32) column.high ^= bits << (trailing - 32);
      else {
        column.low ^= bits << trailing;
        if (trailing > 0) column.high ^= bits >>> (32 - trailing);
      }
      return;
    }
    const upper = this.read(length - 32);
    const lower = this.read(32);
    column.low ^= lower << trailing;
    column.high ^= trailing === 0 ? upper : (upper << trailing) | (lower >>> (32 - trailing));
  }
}

const doubles = new Float64Array(1);
const doubleBits = new BigUint64Array(doubles.buffer);

/** @param value the bits of a number */
export function leaningPositive(value: number, size: number): number {
  return value > 2 ** (size - 1) ? value - 2 ** size : value;
}

export function bitsOfXor({ low, high }: XorColumn): bigint {
  return (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
}
