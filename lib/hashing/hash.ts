/**
 * murmur3_32, seed 0: the hash that maps an ID to its shard, as in the reference system
 * (Austin Appleby's MurmurHash3_x86_32).
 */
export function murmur3(bytes: Uint8Array, seed = 0): number {
  const end = bytes.length & ~3;
  let h = seed | 0;
  let at = 0;
  for (; at < end; at += 4) {
    let k = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    k = Math.imul(k, 0xcc9e2d51);
    k = (k << 15) | (k >>> 17);
    h ^= Math.imul(k, 0x1b873593);
    h = (h << 13) | (h >>> 19);
    h = (Math.imul(h, 5) + 0xe6546b64) | 0;
  }
  let tail = 0;
  const rest = bytes.length & 3;
  if (rest >= 3) tail ^= bytes[at + 2]! << 16;
  if (rest >= 2) tail ^= bytes[at + 1]! << 8;
  if (rest >= 1) {
    tail ^= bytes[at]!;
    tail = Math.imul(tail, 0xcc9e2d51);
    tail = (tail << 15) | (tail >>> 17);
    h ^= Math.imul(tail, 0x1b873593);
  }
  h ^= bytes.length;
  h ^= h >>> 16;
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  h ^= h >>> 16;
  return h >>> 0;
}

/** Shard of a series ID: murmur3_32 of its bytes, modulo the number of shards. */
export function shardOf(id: Uint8Array, shardCount: number): number {
  return murmur3(id) % shardCount;
}
