/**
 * CRC-32C (Castagnoli polynomial, reflected), the checksum of the commit log, of filesets and of
 * saved indexes. Sixteen bytes a step, read as words: part k of the table gives the effect of a
 * byte that is followed by k more bytes of the step.
 */

/** Reflected form of the polynomial 0x1edc6f41. */
const polynomial = 0x82f63b78;

const stepBytes = 16;
/** For fewer bytes a view of their words costs more than it saves. */
const wordsMin = 96;

/** Parts of 256 entries, one after the other. */
const table: Int32Array = makeTable();

function makeTable(): Int32Array {
  const made = new Int32Array(stepBytes * 256);
  for (let byte = 0; byte < 256; byte += 1) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? polynomial : 0);
    made[byte] = crc;
  }
  for (let at = 256; at < made.length; at += 1) {
    const before = made[at - 256]!;
    made[at] = (before >>> 8) ^ made[before & 255]!;
  }
  return made;
}

/**
 * Checksum of `bytes[start, end)`, as an unsigned 32-bit integer.
 *
 * @param previous the checksum of what stands before, so that
 *   `crc32c(b, crc32c(a))` is the checksum of a and b, one after the other; 0 at the beginning
 */
export function crc32c(
  bytes: Uint8Array,
  previous = 0,
  start = 0,
  end: number = bytes.length,
): number {
  let crc = ~previous;
  let at = start;
  if (end - start >= wordsMin) {
    // Words can be read from a multiple of four in the buffer on.
    const aligned = start + (-(bytes.byteOffset + start) & 3);
    for (; at < aligned; at += 1) crc = (crc >>> 8) ^ table[(crc ^ bytes[at]!) & 255]!;
    const steps = Math.floor((end - at) / stepBytes);
    crc = crcOfSteps(crc, new Uint32Array(bytes.buffer, bytes.byteOffset + at, 4 * steps));
    at += steps * stepBytes;
  }
  for (const wide = end - 7; at < wide; at += 8) {
    crc ^= bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    crc =
      table[0x700 + (crc & 255)]! ^
      table[0x600 + ((crc >>> 8) & 255)]! ^
      table[0x500 + ((crc >>> 16) & 255)]! ^
      table[0x400 + (crc >>> 24)]! ^
      table[0x300 + bytes[at + 4]!]! ^
      table[0x200 + bytes[at + 5]!]! ^
      table[0x100 + bytes[at + 6]!]! ^
      table[bytes[at + 7]!]!;
  }
  for (; at < end; at += 1) crc = (crc >>> 8) ^ table[(crc ^ bytes[at]!) & 255]!;
  return ~crc >>> 0;
}

/** @param words little-endian, four a step */
function crcOfSteps(previous: number, words: Uint32Array): number {
  let crc = previous;
  for (let i = 0; i < words.length; i += 4) {
    const a = crc ^ words[i]!;
    const b = words[i + 1]!;
    const c = words[i + 2]!;
    const d = words[i + 3]!;
    crc =
      table[0xf00 + (a & 255)]! ^
      table[0xe00 + ((a >>> 8) & 255)]! ^
      table[0xd00 + ((a >>> 16) & 255)]! ^
      table[0xc00 + (a >>> 24)]! ^
      table[0xb00 + (b & 255)]! ^
      table[0xa00 + ((b >>> 8) & 255)]! ^
      table[0x900 + ((b >>> 16) & 255)]! ^
      table[0x800 + (b >>> 24)]! ^
      table[0x700 + (c & 255)]! ^
      table[0x600 + ((c >>> 8) & 255)]! ^
      table[0x500 + ((c >>> 16) & 255)]! ^
      table[0x400 + (c >>> 24)]! ^
      table[0x300 + (d & 255)]! ^
      table[0x200 + ((d >>> 8) & 255)]! ^
      table[0x100 + ((d >>> 16) & 255)]! ^
      table[d >>> 24]!;
  }
  return crc;
}
