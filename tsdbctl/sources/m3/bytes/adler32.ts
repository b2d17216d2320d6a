/** Adler-32, the sum with which M3 checks its files. */

const modulus = 65_521;

/** So many bytes are added before the sums must be cut, to stay below 2^31. */
const bytesBetween = 3800;

/** @param sum that of the bytes before these */
export function adler32(bytes: Uint8Array, sum = 1): number {
  let a = sum & 0xffff;
  let b = sum >>> 16;
  for (let at = 0; at < bytes.length; ) {
    const end = Math.min(at + bytesBetween, bytes.length);
    for (; at < end; at += 1) {
      a = (a + bytes[at]!) | 0;
      b = (b + a) | 0;
    }
    a %= modulus;
    b %= modulus;
  }
  return ((b << 16) | a) >>> 0;
}
