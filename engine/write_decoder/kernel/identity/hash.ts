// A keyed hash of byte strings for tables: pairs of 32-bit words are added to random keys and
// multiplied (the NH construction), so that nobody who does not know the keys can make strings
// collide on purpose.

/** Bytes of random keys that `hashBytes` needs. */
export const HASH_KEY_BYTES: usize = 1024;

const MIX: u64 = 0x9e3779b97f4a7c15;

/** Hash of n bytes at p; may read up to 15 bytes past the end. */
export function hashBytes(p: usize, n: usize, keys: usize): u32 {
  let sum = i64x2(0, 0);
  const whole = n & ~15;
  let i: usize = 0;
  while (i < whole) {
    sum = i64x2.add(sum, product(v128.load(p + i), v128.load(keys + (i & (HASH_KEY_BYTES - 1)))));
    i += 16;
    // Keys repeat from here: without a mix blocks could be swapped.
    if ((i & (HASH_KEY_BYTES - 1)) == 0) {
      sum = i64x2.mul(v128.xor(sum, i64x2.shr_u(sum, 29)), i64x2(0x9e3779b97f4a7c15, 0x2545f4914f6cdd1d));
    }
  }
  const rest = <u8>(n & 15);
  if (rest != 0) {
    const inside = i8x16.lt_u(
      i8x16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
      i8x16.splat(rest),
    );
    const tail = v128.and(v128.load(p + i), inside);
    sum = i64x2.add(sum, product(tail, v128.load(keys + (i & (HASH_KEY_BYTES - 1)))));
  }
  let h = i64x2.extract_lane(sum, 0) ^ (i64x2.extract_lane(sum, 1) * MIX) ^ (<u64>n * MIX);
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccd;
  h ^= h >> 29;
  h *= MIX;
  return <u32>(h >> 32);
}

@inline
function product(data: v128, key: v128): v128 {
  const words = i32x4.add(data, key);
  return i64x2.extmul_low_i32x4_u(
    v128.shuffle<u32>(words, words, 0, 2, 0, 2),
    v128.shuffle<u32>(words, words, 1, 3, 1, 3),
  );
}

/** murmur3_32 with seed 0 (lib/hashing/hash.ts), for IDs. */
export function murmur3(p: usize, n: usize): u32 {
  const end = p + (n & ~3);
  let h: u32 = 0;
  for (; p < end; p += 4) {
    h ^= murmurWord(load<u32>(p));
    h = rotl(h, 13) * 5 + 0xe6546b64;
  }
  const rest = <u32>(n & 3);
  if (rest != 0) h ^= murmurWord(load<u32>(p) & ((<u32>1 << (rest << 3)) - 1));
  h ^= <u32>n;
  h ^= h >> 16;
  h *= 0x85ebca6b;
  h ^= h >> 13;
  h *= 0xc2b2ae35;
  return h ^ (h >> 16);
}

@inline
function murmurWord(word: u32): u32 {
  return rotl(word * 0xcc9e2d51, 15) * 0x1b873593;
}
