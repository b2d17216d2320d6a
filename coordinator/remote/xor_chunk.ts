/**
 * Chunks in the XOR encoding that Prometheus reads in streamed remote-read answers: two bytes of
 * row count (big-endian), then bits, most significant first.
 *
 *     row 0    timestamp as a zigzag varint; value as 64 bits
 *     row 1    difference of the timestamps as a uvarint; value by XOR
 *     row n    change of that difference: 0 | 10 + 14 bits | 110 + 17 | 1110 + 20 | 1111 + 64; value by XOR
 *
 * A value by XOR with the one before is 0 when equal; 10 and the significant bits when they fit
 * into the window of the last ones; or 11, five bits of leading zeros, six bits of length (0 = 64)
 * and the bits.
 */
import { assert } from '#lib/assert.ts';

/** Rows of one chunk; the format could count to 65535, but readers expect small ones. */
export const xorChunkRowsMax = 120;

/**
 * Encodes rows [rowFirst, rowEnd) of columns.
 * @param timestampMillis ascending whole numbers
 * @param valueWords two words a row: low, high
 */
export function encodeXorChunk(
  timestampMillis: Float64Array,
  valueWords: Uint32Array,
  rowFirst: number,
  rowEnd: number,
): Uint8Array {
  const count = rowEnd - rowFirst;
  assert(count > 0 && count <= 65_535, 'a chunk holds 1 to 65535 rows');
  const bits = new BitWriter(count);
  bits.write(count, 16);
  let previousDelta = 0;
  let low = 0;
  let high = 0;
  // 65 leading zeros: no window of significant bits is known yet.
  let leading = 65;
  let trailing = 0;
  for (let row = rowFirst; row < rowEnd; row += 1) {
    const time = timestampMillis[row]!;
    const nextLow = valueWords[row * 2]!;
    const nextHigh = valueWords[row * 2 + 1]!;
    if (row === rowFirst) {
      bits.varint(time);
      bits.write(nextHigh, 32);
      bits.write(nextLow, 32);
    } else {
      const delta = time - timestampMillis[row - 1]!;
      if (row === rowFirst + 1) bits.uvarint(BigInt(delta));
      else writeDeltaChange(bits, delta - previousDelta);
      previousDelta = delta;
      const xorLow = (nextLow ^ low) >>> 0;
      const xorHigh = (nextHigh ^ high) >>> 0;
      if (xorLow === 0 && xorHigh === 0) {
        bits.write(0, 1);
      } else {
        const zeros = xorHigh !== 0 ? Math.clz32(xorHigh) : 32 + Math.clz32(xorLow);
        const nextLeading = Math.min(zeros, 31);
        const nextTrailing = xorLow !== 0 ? trailingZeros(xorLow) : 32 + trailingZeros(xorHigh);
        if (nextLeading >= leading && nextTrailing >= trailing) {
          bits.write(0b10, 2);
        } else {
          leading = nextLeading;
          trailing = nextTrailing;
          const length = 64 - leading - trailing;
          bits.write(0b11, 2);
          bits.write(leading, 5);
          bits.write(length === 64 ? 0 : length, 6);
        }
        writeWindow(bits, xorLow, xorHigh, leading, trailing);
      }
    }
    low = nextLow;
    high = nextHigh;
  }
  return bits.finish();
}

function trailingZeros(word: number): number {
  return 31 - Math.clz32(word & -word);
}

function writeDeltaChange(bits: BitWriter, change: number): void {
  if (change === 0) {
    bits.write(0, 1);
  } else if (fits(change, 14)) {
    bits.write(0b10, 2);
    bits.write(change & (2 ** 14 - 1), 14);
  } else if (fits(change, 17)) {
    bits.write(0b110, 3);
    bits.write(change & (2 ** 17 - 1), 17);
  } else if (fits(change, 20)) {
    bits.write(0b1110, 4);
    bits.write(change & (2 ** 20 - 1), 20);
  } else {
    const whole = BigInt.asUintN(64, BigInt(change));
    bits.write(0b1111, 4);
    bits.write(Number(whole >> 32n), 32);
    bits.write(Number(whole & 0xffff_ffffn), 32);
  }
}

/** The format's ranges lean to the positive side by one. */
function fits(change: number, bitCount: number): boolean {
  return change >= -(2 ** (bitCount - 1) - 1) && change <= 2 ** (bitCount - 1);
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

class BitWriter {
  readonly #bytes: Uint8Array;
  #bitCount = 0;

  constructor(rowCount: number) {
    // A row takes at most 68 bits of time and 77 of value; the first ones take less.
    this.#bytes = new Uint8Array(32 + rowCount * 19);
  }

  /** The lowest `count` bits of a word, at most 32 of them. */
  write(word: number, count: number): void {
    for (let rest = count; rest > 0; ) {
      const free = 8 - (this.#bitCount & 7);
      const taken = Math.min(free, rest);
      const part = (word >>> (rest - taken)) & (2 ** taken - 1);
      this.#bytes[this.#bitCount >> 3]! |= part << (free - taken);
      this.#bitCount += taken;
      rest -= taken;
    }
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

  finish(): Uint8Array {
    return this.#bytes.subarray(0, (this.#bitCount + 7) >> 3);
  }
}
