/**
 * Values of an M3TSZ stream. As floats each one is XORed with the one before, and what is not zero of
 * that is written. As whole numbers, which are values times a power of ten, what is added to the one
 * before is written with as many bits as were said last. With whole numbers on, each row tells whether
 * the value is the same as before, how many bits and what power, and whether it is a float.
 */
import { badRequest } from '#lib/errors.ts';
import type { BitReader } from './bits.ts';

const two32 = 2 ** 32;

/** By their number in the stream. */
const divisors: readonly number[] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

export class ValueReader {
  readonly #bits: BitReader;
  /** Whether whole numbers are written as such. */
  readonly #wholes: boolean;
  #begun = false;
  #isFloat: boolean;
  #whole = 0;
  #divisor = 1;
  #significant = 0;
  /** Bits of the float before, and of the last XOR; both halves signed. */
  #high = 0;
  #low = 0;
  #xorHigh = 0;
  #xorLow = 0;

  constructor(bits: BitReader, wholes: boolean) {
    this.#bits = bits;
    this.#wholes = wholes;
    this.#isFloat = !wholes;
  }

  /**
   * Reads the next value to a place among others.
   * @param values of which `words` are the halves, low ones first
   * @throws {TsdbError} BAD_REQUEST when the stream is damaged
   */
  next(values: Float64Array, words: Uint32Array, row: number): void {
    if (this.#begun) this.#readNext();
    else this.#readFirst();
    if (this.#isFloat) {
      words[2 * row] = this.#low;
      words[2 * row + 1] = this.#high;
    } else {
      values[row] = this.#whole / this.#divisor;
    }
  }

  #readFirst(): void {
    this.#begun = true;
    if (!this.#wholes) this.#readFloat();
    else this.#readOfOtherKind();
  }

  #readNext(): void {
    const bits = this.#bits;
    if (!this.#wholes) {
      this.#readXor();
      return;
    }
    if (bits.read(1) === 0) {
      const isSame = bits.read(1) === 1;
      if (!isSame) this.#readOfOtherKind();
    } else if (this.#isFloat) {
      this.#readXor();
    } else {
      this.#readDifference();
    }
  }

  #readOfOtherKind(): void {
    const bits = this.#bits;
    this.#isFloat = bits.read(1) === 1;
    if (this.#isFloat) {
      this.#readFloat();
      return;
    }
    if (bits.read(1) === 1) {
      this.#significant = bits.read(1) === 0 ? 0 : bits.read(6) + 1;
    }
    if (bits.read(1) === 1) {
      const power = bits.read(3);
      const divisor = divisors[power];
      if (divisor === undefined) throw badRequest(`power of ten is above 6: ${power}`);
      this.#divisor = divisor;
    }
    this.#readDifference();
  }

  #readDifference(): void {
    const bits = this.#bits;
    const sign = bits.read(1) === 1 ? 1 : -1;
    const significant = this.#significant;
    const high = significant > 32 ? bits.read(significant - 32) * two32 : 0;
    this.#whole += sign * (high + bits.read(Math.min(significant, 32)));
  }

  #readFloat(): void {
    this.#high = this.#xorHigh = this.#bits.read(32) | 0;
    this.#low = this.#xorLow = this.#bits.read(32) | 0;
  }

  #readXor(): void {
    const bits = this.#bits;
    if (bits.read(1) === 0) {
      this.#xorHigh = 0;
      this.#xorLow = 0;
      return;
    }
    let count: number;
    let trailing: number;
    if (bits.read(1) === 0) {
      trailing = trailingZeros(this.#xorHigh, this.#xorLow);
      count = 64 - leadingZeros(this.#xorHigh, this.#xorLow) - trailing;
    } else {
      const leading = bits.read(6);
      count = bits.read(6) + 1;
      trailing = 64 - leading - count;
      if (trailing < 0) throw badRequest(`value has more than 64 bits: ${leading + count}`);
    }
    const high = count > 32 ? bits.read(count - 32) : 0;
    const low = bits.read(Math.min(count, 32));
    if (trailing >= 32) {
      this.#xorHigh = low << (trailing - 32);
      this.#xorLow = 0;
    } else if (trailing > 0) {
      this.#xorHigh = (high << trailing) | (low >>> (32 - trailing));
      this.#xorLow = low << trailing;
    } else {
      this.#xorHigh = high | 0;
      this.#xorLow = low | 0;
    }
    this.#high ^= this.#xorHigh;
    this.#low ^= this.#xorLow;
  }
}

/** 64 for zero. */
function leadingZeros(high: number, low: number): number {
  return high !== 0 ? Math.clz32(high) : 32 + Math.clz32(low);
}

/** 0 for zero, as M3 counts them. */
function trailingZeros(high: number, low: number): number {
  if (low !== 0) return 31 - Math.clz32(low & -low);
  return high !== 0 ? 63 - Math.clz32(high & -high) : 0;
}
