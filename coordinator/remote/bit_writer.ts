/** Bits, most significant first, as Prometheus' chunks have them. */
export class BitWriter {
  #bytes: Uint8Array;
  #bitCount = 0;

  /** @param bytesExpected grows beyond them */
  constructor(bytesExpected: number) {
    this.#bytes = new Uint8Array(bytesExpected);
  }

  /** The lowest `count` bits of a word, at most 32 of them. */
  write(word: number, count: number): void {
    if (((this.#bitCount + count + 7) >> 3) + 1 > this.#bytes.length) this.#grow();
    for (let rest = count; rest > 0; ) {
      const free = 8 - (this.#bitCount & 7);
      const taken = Math.min(free, rest);
      const part = (word >>> (rest - taken)) & (2 ** taken - 1);
      this.#bytes[this.#bitCount >> 3]! |= part << (free - taken);
      this.#bitCount += taken;
      rest -= taken;
    }
  }

  #grow(): void {
    const larger = new Uint8Array(2 * this.#bytes.length + 16);
    larger.set(this.#bytes);
    this.#bytes = larger;
  }

  /** The lowest `count` bits, 64 at most. */
  writeBig(value: bigint, count: number): void {
    const bits = BigInt.asUintN(64, value);
    if (count > 32) this.write(Number(bits >> 32n) >>> 0, count - 32);
    this.write(Number(bits & 0xffff_ffffn), Math.min(count, 32));
  }

  uvarint(value: bigint): void {
    let rest = value;
    for (; rest >= 128n; rest >>= 7n) this.write(Number(rest & 127n) | 128, 8);
    this.write(Number(rest), 8);
  }

  varint(value: number): void {
    const whole = BigInt(value);
    this.uvarint(whole < 0n ? -whole * 2n - 1n : whole * 2n);
  }

  /** By size: 0 as 0, then n ones and a zero in front of 3, 6, 9, 12, 18, 25, 56 or 64 bits. */
  varbitInt(value: number): void {
    if (value === 0) {
      this.write(0, 1);
      return;
    }
    // The ranges lean to the positive side by one.
    this.#varbit(value, (bits) => value >= -(2 ** (bits - 1) - 1) && value <= 2 ** (bits - 1));
  }

  /** @param value at least 0 */
  varbitUint(value: number): void {
    if (value === 0) this.write(0, 1);
    else this.#varbit(value, (bits) => value < 2 ** bits);
  }

  #varbit(value: number, fits: (bits: number) => boolean): void {
    for (const [i, bits] of varbitSizes.entries()) {
      if (!fits(bits)) continue;
      this.write(2 ** (i + 2) - 2, i + 2);
      if (bits <= 25) this.write(value & (2 ** bits - 1), bits);
      else this.writeBig(BigInt(value), bits);
      return;
    }
    this.write(255, 8);
    this.writeBig(BigInt(value), 64);
  }

  finish(): Uint8Array {
    return this.#bytes.subarray(0, (this.#bitCount + 7) >> 3);
  }
}

const varbitSizes = [3, 6, 9, 12, 18, 25, 56];

/** Values of which each is written by its XOR with the one before. */
export class XorColumn {
  #low = 0;
  #high = 0;
  // 65 leading zeros: no window of significant bits is known yet.
  #leading = 65;
  #trailing = 0;

  /** The first one, whole. */
  first(bits: BitWriter, low: number, high: number): void {
    bits.write(high, 32);
    bits.write(low, 32);
    this.#low = low;
    this.#high = high;
  }

  /** 0 when equal; 10 and the significant bits within the window of the last ones; or 11, a window of their own, the bits. */
  next(bits: BitWriter, low: number, high: number): void {
    const xorLow = (low ^ this.#low) >>> 0;
    const xorHigh = (high ^ this.#high) >>> 0;
    this.#low = low;
    this.#high = high;
    if (xorLow === 0 && xorHigh === 0) {
      bits.write(0, 1);
      return;
    }
    const zeros = xorHigh !== 0 ? Math.clz32(xorHigh) : 32 + Math.clz32(xorLow);
    const leading = Math.min(zeros, 31);
    const trailing = xorLow !== 0 ? trailingZeros(xorLow) : 32 + trailingZeros(xorHigh);
    if (leading >= this.#leading && trailing >= this.#trailing) bits.write(0b10, 2);
    else {
      this.#leading = leading;
      this.#trailing = trailing;
      const length = 64 - leading - trailing;
      bits.write(0b11, 2);
      bits.write(leading, 5);
      bits.write(length === 64 ? 0 : length, 6);
    }
    writeWindow(bits, xorLow, xorHigh, this.#leading, this.#trailing);
  }
}

function trailingZeros(word: number): number {
  return 31 - Math.clz32(word & -word);
}

/** The bits of a 64-bit word between `leading` and `trailing` ones that are left out. */
function writeWindow(
  bits: BitWriter,
  low: number,
  high: number,
  leading: number,
  trailing: number,
): void {
  if (trailing < 32) {
    if (leading < 32) bits.write(high, 32 - leading);
    bits.write(low >>> trailing, 32 - trailing - Math.max(0, leading - 32));
  } else {
    bits.write(high >>> (trailing - 32), 64 - leading - trailing);
  }
}
