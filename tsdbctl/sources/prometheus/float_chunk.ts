/**
 * Chunks of floats, Prometheus' XOR encoding: two bytes of row count (big-endian), then bits, most significant first.
 *
 *     row 0    timestamp as a zigzag varint; value as 64 bits
 *     row 1    difference of the timestamps as a uvarint; value by XOR
 *     row n    change of that difference: 0 | 10 + 14 bits | 110 + 17 | 1110 + 20 | 1111 + 64; value by XOR
 */
import { BitReader, leaningPositive, xorColumn } from './bits.ts';
import type { Damage } from './damage.ts';
import { type FloatRows, millisMax } from './rows.ts';

/**
 * @param data of a chunk, without its encoding
 * @param damage makes the error for a place in `data`
 * @throws {TsdbError} BAD_REQUEST
 */
export function floatRows(data: Uint8Array, damage: Damage): FloatRows {
  const bits = new BitReader(data, damage);
  const count = bits.read(16);
  bits.checkEnd();
  if (count === 0) throw bits.fail('chunk has no rows');
  // A row takes two bits at least.
  if (count > bits.left / 2) throw bits.fail(`chunk is too short for its ${count} rows:`);
  const millis = new Float64Array(count);
  const values = new Float64Array(count);
  const words = new Int32Array(values.buffer);
  const value = xorColumn();
  let time = 0;
  let delta = 0;
  for (let row = 0; row < count; row++) {
    if (row === 0) {
      time = bits.varint();
      bits.firstXor(value);
    } else {
      if (row === 1) delta = bits.uvarint();
      else delta += deltaChange(bits);
      if (!(delta > 0)) throw bits.fail('times do not ascend');
      time += delta;
      bits.nextXor(value);
    }
    if (!(Math.abs(time) <= millisMax)) throw bits.fail(`time is out of range: ${time} ms`);
    bits.checkEnd();
    millis[row] = time;
    words[2 * row] = value.low;
    words[2 * row + 1] = value.high;
  }
  return { kind: 'floats', millis, values };
}

function deltaChange(bits: BitReader): number {
  const control = bits.peek();
  if (control >= 0) {
    bits.skip(1);
    return 0;
  }
  if ((control & 0x4000_0000) === 0) {
    bits.skip(16);
    return leaningPositive((control >>> 16) & 0x3fff, 14);
  }
  if ((control & 0x2000_0000) === 0) {
    bits.skip(20);
    return leaningPositive((control >>> 12) & 0x1_ffff, 17);
  }
  if ((control & 0x1000_0000) === 0) {
    bits.skip(24);
    return leaningPositive((control >>> 8) & 0xf_ffff, 20);
  }
  bits.skip(4);
  // What is not exact as a number is no time in range.
  return (bits.read(32) | 0) * 2 ** 32 + bits.read(32);
}
