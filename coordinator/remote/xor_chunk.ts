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
import { BitWriter, XorColumn } from './bit_writer.ts';

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
  // A row takes at most 68 bits of time and 77 of value; the first ones take less.
  const bits = new BitWriter(32 + count * 19);
  bits.write(count, 16);
  let previousDelta = 0;
  const values = new XorColumn();
  for (let row = rowFirst; row < rowEnd; row += 1) {
    const time = timestampMillis[row]!;
    const [low, high] = [valueWords[row * 2]!, valueWords[row * 2 + 1]!];
    if (row === rowFirst) {
      bits.varint(time);
      values.first(bits, low, high);
      continue;
    }
    const delta = time - timestampMillis[row - 1]!;
    if (row === rowFirst + 1) bits.uvarint(BigInt(delta));
    else writeDeltaChange(bits, delta - previousDelta);
    previousDelta = delta;
    values.next(bits, low, high);
  }
  return bits.finish();
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
    bits.write(0b1111, 4);
    bits.writeBig(BigInt(change), 64);
  }
}

/** The format's ranges lean to the positive side by one. */
function fits(change: number, bitCount: number): boolean {
  return change >= -(2 ** (bitCount - 1) - 1) && change <= 2 ** (bitCount - 1);
}
