/** MurmurHash3_x86_128 by Austin Appleby: for bytes that stand for themselves, of a seed that nobody else knows. */

const c1 = 0x239b961b;
const c2 = 0xab0e9789 | 0;
const c3 = 0x38b34ae5;
const c4 = 0xa1e38b93 | 0;

/** @param out gets four words */
export function hash128(bytes: Uint8Array, seed: number, out: Uint32Array): void {
  const { length } = bytes;
  const end = length & ~15;
  let h1 = seed | 0;
  let h2 = h1;
  let h3 = h1;
  let h4 = h1;
  let at = 0;
  for (; at < end; at += 16) {
    h1 ^= mixed(wordAt(bytes, at), c1, 15, c2);
    h1 = Math.imul(((h1 << 19) | (h1 >>> 13)) + h2, 5) + 0x561ccd1b;
    h2 ^= mixed(wordAt(bytes, at + 4), c2, 16, c3);
    h2 = Math.imul(((h2 << 17) | (h2 >>> 15)) + h3, 5) + 0x0bcaa747;
    h3 ^= mixed(wordAt(bytes, at + 8), c3, 17, c4);
    h3 = Math.imul(((h3 << 15) | (h3 >>> 17)) + h4, 5) + 0x96cd1c35;
    h4 ^= mixed(wordAt(bytes, at + 12), c4, 18, c1);
    h4 = Math.imul(((h4 << 13) | (h4 >>> 19)) + h1, 5) + 0x32ac3b17;
  }
  // What is left, as if zeros came after it: a word of zeros changes nothing.
  h4 ^= mixed(restAt(bytes, at + 12), c4, 18, c1);
  h3 ^= mixed(restAt(bytes, at + 8), c3, 17, c4);
  h2 ^= mixed(restAt(bytes, at + 4), c2, 16, c3);
  h1 ^= mixed(restAt(bytes, at), c1, 15, c2);
  h1 ^= length;
  h2 ^= length;
  h3 ^= length;
  h4 ^= length;
  h1 = (h1 + h2 + h3 + h4) | 0;
  h2 = (h2 + h1) | 0;
  h3 = (h3 + h1) | 0;
  h4 = (h4 + h1) | 0;
  h1 = finished(h1);
  h2 = finished(h2);
  h3 = finished(h3);
  h4 = finished(h4);
  h1 = (h1 + h2 + h3 + h4) | 0;
  out[0] = h1;
  out[1] = h2 + h1;
  out[2] = h3 + h1;
  out[3] = h4 + h1;
}

function wordAt(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
}

function restAt(bytes: Uint8Array, at: number): number {
  const { length } = bytes;
  let word = 0;
  for (let i = Math.min(length, at + 4) - 1; i >= at; i--) word = (word << 8) | bytes[i]!;
  return word;
}

function mixed(word: number, first: number, by: number, second: number): number {
  const k = Math.imul(word, first);
  return Math.imul((k << by) | (k >>> (32 - by)), second);
}

function finished(hash: number): number {
  let h = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
