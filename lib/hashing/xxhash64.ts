/**
 * XXH64, seed 0 (Yann Collet's xxHash): by it Prometheus takes a share of all series (`limit_ratio`). In bigints, which is
 * fast enough for some hundred bytes of labels.
 */
const mask = 0xffff_ffff_ffff_ffffn;
const prime1 = 0x9e37_79b1_85eb_ca87n;
const prime2 = 0xc2b2_ae3d_27d4_eb4fn;
const prime3 = 0x1656_67b1_9e37_79f9n;
const prime4 = 0x85eb_ca77_c2b2_ae63n;
const prime5 = 0x27d4_eb2f_1656_67c5n;

const times = (a: bigint, b: bigint): bigint => (a * b) & mask;
const rotated = (value: bigint, by: bigint): bigint =>
  ((value << by) & mask) | (value >> (64n - by));
const round = (lane: bigint, input: bigint): bigint =>
  times(rotated((lane + times(input, prime2)) & mask, 31n), prime1);

export function xxhash64(bytes: Uint8Array): bigint {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const { length } = bytes;
  let at = 0;
  let hash: bigint;
  if (length < 32) hash = prime5;
  else {
    const lanes = [(prime1 + prime2) & mask, prime2, 0n, (mask + 1n - prime1) & mask];
    for (; at + 32 <= length; at += 32) {
      for (const [i, lane] of lanes.entries()) {
        lanes[i] = round(lane, view.getBigUint64(at + 8 * i, true));
      }
    }
    const [a, b, c, d] = lanes as [bigint, bigint, bigint, bigint];
    hash = (rotated(a, 1n) + rotated(b, 7n) + rotated(c, 12n) + rotated(d, 18n)) & mask;
    for (const lane of lanes) {
      hash = (times(hash ^ round(0n, lane), prime1) + prime4) & mask;
    }
  }
  hash = (hash + BigInt(length)) & mask;
  for (; at + 8 <= length; at += 8) {
    const lane = round(0n, view.getBigUint64(at, true));
    hash = (times(rotated(hash ^ lane, 27n), prime1) + prime4) & mask;
  }
  if (at + 4 <= length) {
    const word = BigInt(view.getUint32(at, true));
    hash = (times(rotated(hash ^ times(word, prime1), 23n), prime2) + prime3) & mask;
    at += 4;
  }
  for (; at < length; at++) {
    hash = times(rotated(hash ^ times(BigInt(bytes[at]!), prime5), 11n), prime1);
  }
  hash = times(hash ^ (hash >> 33n), prime2);
  hash = times(hash ^ (hash >> 29n), prime3);
  return hash ^ (hash >> 32n);
}
