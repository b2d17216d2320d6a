// Digests of keys, by which these are known in a fraction of their bytes: three sums of products of their words, each after random
// words were added (NH of UMAC, RFC 4418, shifted by a block for each sum). Two keys of one length that were chosen without
// knowledge of the random words have the same digest with a probability of 2^-96 at most, whatever the keys are: a proof, no hope.

const BLOCK: usize = 16;
const SUMS: usize = 3;
export const DIGEST_BYTES: usize = 8 * SUMS;

/** Random bytes: as many as the longest key has, and a block more for its end and for each sum. */
let randomAt: usize = 0;
/** A block for keys that are shorter. */
let shortAt: usize = 0;

let first: u64 = 0;
let second: u64 = 0;
let third: u64 = 0;

export function digestRandomBytes(keyBytesMax: usize): usize {
  return ((keyBytesMax + BLOCK - 1) & ~(BLOCK - 1)) + BLOCK + SUMS * BLOCK;
}

/** @param short room for a block */
export function initDigests(random: usize, short: usize): void {
  randomAt = random;
  shortAt = short;
}

/** Products of two pairs of words. */
@inline
function products(block: v128, at: usize): v128 {
  const words = i32x4.add(block, v128.load(at));
  return i64x2.extmul_low_i32x4_u(words, i8x16.shuffle(words, words, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
}

@inline
function sumOf(sums: v128): u64 {
  return i64x2.extract_lane(sums, 0) + i64x2.extract_lane(sums, 1);
}

/** Makes the digest of a key, which is the one that is spoken of until the next one. */
export function digestOf(key: usize, length: usize): void {
  let at = key;
  let blocks = length / BLOCK;
  if (length < BLOCK) {
    store<u64>(shortAt, 0);
    store<u64>(shortAt, 0, 8);
    for (let i: usize = 0; i < length; i++) store<u8>(shortAt + i, load<u8>(key + i));
    at = shortAt;
    blocks = 1;
  }
  let random = randomAt;
  let a = i64x2.splat(0);
  let b = i64x2.splat(0);
  let c = i64x2.splat(0);
  // The last block may have bytes of the one before again.
  const hasRest = length > BLOCK && (length & (BLOCK - 1)) != 0;
  for (const end = at + blocks * BLOCK; at < end; at += BLOCK, random += BLOCK) {
    const block = v128.load(at);
    a = i64x2.add(a, products(block, random));
    b = i64x2.add(b, products(block, random + BLOCK));
    c = i64x2.add(c, products(block, random + 2 * BLOCK));
  }
  if (hasRest) {
    const block = v128.load(key + length - BLOCK);
    a = i64x2.add(a, products(block, random));
    b = i64x2.add(b, products(block, random + BLOCK));
    c = i64x2.add(c, products(block, random + 2 * BLOCK));
  }
  first = sumOf(a);
  second = sumOf(b);
  third = sumOf(c);
}

/** Part of the digest, for hashes. */
@inline
export function digestWord(): u64 {
  return first;
}

@inline
export function isDigest(at: usize): bool {
  return load<u64>(at) == first && load<u64>(at, 8) == second && load<u64>(at, 16) == third;
}

@inline
export function storeDigest(at: usize): void {
  store<u64>(at, first);
  store<u64>(at, second, 8);
  store<u64>(at, third, 16);
}
