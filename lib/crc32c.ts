/**
 * CRC-32C (Castagnoli polynomial, reflected), the checksum of the commit log and of filesets. Eight
 * bytes a step: table k gives the effect of a byte that is followed by k more bytes of the step.
 */

/** Reflected form of the polynomial 0x1edc6f41. */
const polynomial = 0x82f63b78;

const tables: readonly Int32Array[] = makeTables();

function makeTables(): Int32Array[] {
  const made = Array.from({ length: 8 }, () => new Int32Array(256));
  for (let byte = 0; byte < 256; byte += 1) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? polynomial : 0);
    made[0]![byte] = crc;
  }
  for (let table = 1; table < 8; table += 1) {
    for (let byte = 0; byte < 256; byte += 1) {
      const before = made[table - 1]![byte]!;
      made[table]![byte] = (before >>> 8) ^ made[0]![before & 255]!;
    }
  }
  return made;
}

const [table0, table1, table2, table3, table4, table5, table6, table7] = tables as [
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
];

/**
 * Checksum of `bytes[start, end)`, as an unsigned 32-bit integer.
 *
 * @param previous the checksum of what stands before, so that
 *   `crc32c(b, crc32c(a))` is the checksum of a and b, one behind the other; 0 at the beginning
 */
export function crc32c(
  bytes: Uint8Array,
  previous = 0,
  start = 0,
  end: number = bytes.length,
): number {
  let crc = ~previous;
  let at = start;
  const wide = end - 7;
  for (; at < wide; at += 8) {
    crc ^= bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    crc =
      table7[crc & 255]! ^
      table6[(crc >>> 8) & 255]! ^
      table5[(crc >>> 16) & 255]! ^
      table4[crc >>> 24]! ^
      table3[bytes[at + 4]!]! ^
      table2[bytes[at + 5]!]! ^
      table1[bytes[at + 6]!]! ^
      table0[bytes[at + 7]!]!;
  }
  for (; at < end; at += 1) crc = (crc >>> 8) ^ table0[(crc ^ bytes[at]!) & 255]!;
  return ~crc >>> 0;
}
