/**
 * Changes to bytes that hit what a reader decides by: lengths, counts, offsets, and their limits.
 */
import type { Random } from '#lib/env/env.ts';

/** A whole number in [0, end). */
export type Pick = (end: number) => number;

/** Numbers that a seed decides. */
export function pickOf(seed: number): Pick {
  let state = (Math.imul(seed, 0x9e3779b1) ^ 0x6b43a9b5) >>> 0;
  return (end) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return Math.floor((((x ^ (x >>> 14)) >>> 0) / 2 ** 32) * end);
  };
}

export function bytesOf(pick: Pick, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i += 1) bytes[i] = pick(256);
  return bytes;
}

/** The randomness that the write decoder takes, as a seed decides it. */
export function randomOf(pick: Pick): Random {
  return {
    u32: () => pick(2 ** 32),
    bytes: (length) => bytesOf(pick, length),
    fraction: () => pick(1000) / 1000,
  };
}

/** A number that is near the old one, at an edge of its width, or anything. */
export function changedNumber(pick: Pick, old: bigint, bits: 8 | 16 | 32 | 64): bigint {
  const wrap = (value: bigint): bigint => BigInt.asUintN(bits, value);
  switch (pick(8)) {
    case 0:
      return 0n;
    case 1:
      return wrap(old + 1n);
    case 2:
      return wrap(old - 1n);
    case 3:
      return wrap(-1n - BigInt(pick(16)));
    case 4:
      return wrap(old ^ (1n << BigInt(pick(bits))));
    case 5:
      return wrap(old * BigInt(2 + pick(8)) + BigInt(pick(8)));
    case 6:
      return wrap((1n << BigInt(pick(bits))) + BigInt(pick(3)) - 1n);
    default:
      return BigInt(pick(200));
  }
}

/** Changes the fixed-width number at a place, in the bytes themselves. */
export function changeFixed(pick: Pick, bytes: Uint8Array, at: number, width: 1 | 2 | 4 | 8): void {
  if (at < 0 || at + width > bytes.length) return;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (width === 1) bytes[at] = Number(changedNumber(pick, BigInt(bytes[at]!), 8));
  else if (width === 2) {
    view.setUint16(at, Number(changedNumber(pick, BigInt(view.getUint16(at, true)), 16)), true);
  } else if (width === 4) {
    view.setUint32(at, Number(changedNumber(pick, BigInt(view.getUint32(at, true)), 32)), true);
  } else view.setBigUint64(at, changedNumber(pick, view.getBigUint64(at, true), 64), true);
}

/** Base 128, the lowest bits first; `extra` bytes that say nothing behind it. */
export function varintOf(value: bigint, extra = 0): number[] {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  bytes.push(Number(rest));
  for (let i = 0; i < extra; i += 1) {
    bytes[bytes.length - 1]! |= 128;
    bytes.push(0);
  }
  return bytes;
}

/** The varint at a place and where it ends, or null when there is none. */
export function varintAt(bytes: Uint8Array, at: number): { value: bigint; end: number } | null {
  let value = 0n;
  for (let i = 0; i < 10; i += 1) {
    const byte = bytes[at + i];
    if (byte === undefined) return null;
    value |= BigInt(byte & 127) << BigInt(7 * i);
    if (byte < 128) return { value: BigInt.asUintN(64, value), end: at + i + 1 };
  }
  return null;
}

/** The bytes with another varint at a place, which may be longer, or be cut off by what it says. */
export function withVarintChanged(pick: Pick, bytes: Uint8Array, at: number): Uint8Array {
  const old = varintAt(bytes, at);
  if (old === null) return bytes;
  const value = changedNumber(pick, old.value, pick(2) === 0 ? 32 : 64);
  const extra = pick(12) === 0 ? pick(10) : 0;
  return replaced(bytes, at, old.end, varintOf(value, extra));
}

export function replaced(
  bytes: Uint8Array,
  start: number,
  end: number,
  part: ArrayLike<number>,
): Uint8Array {
  const result = new Uint8Array(bytes.length - (end - start) + part.length);
  result.set(bytes.subarray(0, start));
  result.set(part, start);
  result.set(bytes.subarray(end), start + part.length);
  return result;
}

/**
 * Bits flipped, bytes overwritten, cut off, doubled, left out or put in; without knowing what they
 * are.
 */
export function damaged(pick: Pick, bytes: Uint8Array): Uint8Array {
  if (bytes.length === 0) return bytesOf(pick, pick(8));
  // A slice of a Buffer would be the same memory.
  let result: Uint8Array = new Uint8Array(bytes);
  for (let count = 1 + pick(3); count > 0 && result.length > 0; count -= 1) {
    const at = pick(result.length);
    const other = Math.min(result.length, at + pick(40));
    switch (pick(8)) {
      case 0:
      case 1:
        result[at]! ^= 1 << pick(8);
        break;
      case 2:
        result[at] = [0, 1, 127, 128, 255][pick(5)]!;
        break;
      case 3:
        result = result.slice(0, at);
        break;
      case 4:
        result.copyWithin(at, pick(result.length), pick(result.length));
        break;
      case 5:
        result = replaced(result, at, other, []).slice();
        break;
      case 6:
        result = replaced(result, at, at, result.slice(at, other)).slice();
        break;
      default:
        result = replaced(result, at, at, bytesOf(pick, 1 + pick(12))).slice();
    }
  }
  return result;
}
