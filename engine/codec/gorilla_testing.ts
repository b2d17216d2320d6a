/**
 * How many bytes the codec of the Gorilla paper would take, as a measure beside ours: times as
 * differences of differences in bit ranges that suit milliseconds (nanoseconds when there are
 * such), values by exclusive or with the one before. It counts bits and writes none.
 */
import type { ChunkRows } from './chunk.ts';

/**
 * Bits of a difference of differences with its prefix: 14, 17 and 20 bits are told apart from all
 * 64.
 */
function timeBits(change: bigint): number {
  if (change === 0n) return 1;
  for (const [prefixBits, bits] of [
    [2, 14],
    [3, 17],
    [4, 20],
  ] as const) {
    if (BigInt.asIntN(bits, change) === change) return prefixBits + bits;
  }
  return 4 + 64;
}

function leadingZeros(value: bigint): number {
  const high = Number(value >> 32n);
  return high === 0 ? 32 + Math.clz32(Number(value & 0xffffffffn)) : Math.clz32(high);
}

function trailingZeros(value: bigint): number {
  return 63 - leadingZeros(value & -value);
}

/** Whole bytes of the rows, with a count of two bytes and the first row as it is. */
export function gorillaBytes(rows: ChunkRows): number {
  const { timestampNanos, values } = rows;
  const bits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
  const unit = timestampNanos.every((nanos) => nanos % 1_000_000n === 0n) ? 1_000_000n : 1n;
  let total = 16 + 128;
  let stepBefore = 0n;
  let leading = 65;
  let trailing = 0;
  for (let row = 1; row < values.length; row++) {
    const step = (timestampNanos[row]! - timestampNanos[row - 1]!) / unit;
    total += timeBits(step - stepBefore);
    stepBefore = step;
    const differing = bits[row]! ^ bits[row - 1]!;
    if (differing === 0n) {
      total += 1;
      continue;
    }
    const zerosBefore = Math.min(leadingZeros(differing), 31);
    const zerosBehind = trailingZeros(differing);
    if (zerosBefore >= leading && zerosBehind >= trailing) {
      total += 2 + 64 - leading - trailing;
    } else {
      leading = zerosBefore;
      trailing = zerosBehind;
      total += 2 + 5 + 6 + 64 - leading - trailing;
    }
  }
  return Math.ceil(total / 8);
}
