/**
 * HalfSipHash-2-4 by Jean-Philippe Aumasson and Daniel J. Bernstein, made longer: for bytes that stand for themselves. Who does
 * not know the key finds no two of the same hash, as he does for murmur3, whatever its seed is.
 */

/** 64 bits. */
export type HashKey = readonly [number, number];

const outWords = 4;

/** @param out gets four words, the first two of which are HalfSipHash's */
export function hash128(bytes: Uint8Array, [k0, k1]: HashKey, out: Uint32Array): void {
  const { length } = bytes;
  const rest = length & ~3;
  let v0 = k0 | 0;
  let v1 = k1 ^ 0xee;
  let v2 = k0 ^ 0x6c796765;
  let v3 = k1 ^ 0x74656462;
  const words = (length >>> 2) + 1;
  for (let step = 0; step < words + outWords; step++) {
    const isIn = step < words;
    let word = 0;
    if (isIn) {
      const at = 4 * step;
      word = at < rest ? wordAt(bytes, at) : restAt(bytes, at) | (length << 24);
      v3 ^= word;
    } else if (step === words) v2 ^= 0xee;
    else v1 ^= 0xdd;
    for (let round = isIn ? 2 : 4; round > 0; round--) {
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
    }
    if (isIn) v0 ^= word;
    else out[step - words] = v1 ^ v3;
  }
}

function wordAt(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
}

/** Fewer than four bytes. */
function restAt(bytes: Uint8Array, at: number): number {
  let word = 0;
  for (let i = bytes.length - 1; i >= at; i--) word = (word << 8) | bytes[i]!;
  return word;
}
