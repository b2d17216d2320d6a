// The verdict on series about which there is no doubt, so that a million new ones need not pass
// through JavaScript: names well-formed, not reserved and each once, values of printable ASCII that
// the quoted ID shows as they are.

import { copyBytes } from './bytes';

/** `idSchemeCode.quoted` of lib/series_id/scheme.ts. */
export const ID_SCHEME_QUOTED: u8 = 1;
/** `idSchemeCode.path`. */
export const ID_SCHEME_PATH: u8 = 4;

/**
 * Longest quoted ID of a plain series: its tags, and `{}` and `="",` less what the lengths took.
 */
export const PLAIN_ID_BYTES_MAX: usize = 0x11000;

/**
 * Writes the quoted ID of n bytes of canonical tags to target, at most PLAIN_ID_BYTES_MAX; answers
 * its length, or 0 when the rules must be asked.
 */
export function plainQuotedId(tags: usize, n: usize, target: usize): usize {
  if (n == 0) return 0;
  const end = tags + n;
  let p = target;
  let lastName: usize = 0;
  let lastNameLength: usize = 0;
  while (tags < end) {
    const nameLength = <usize>load<u16>(tags);
    const name = tags + 2;
    const valueLength = <usize>load<u16>(name + nameLength);
    const value = name + nameLength + 2;
    if (!isPlainName(name, nameLength) || !isPlainValue(value, valueLength)) return 0;
    // Canonical tags are sorted, so a name that appears twice stands beside itself.
    if (nameLength == lastNameLength && memory.compare(lastName, name, nameLength) == 0) return 0;
    lastName = name;
    lastNameLength = nameLength;
    store<u8>(p, p == target ? 0x7b : 0x2c);
    p++;
    copyBytes(p, name, nameLength);
    p += nameLength;
    store<u16>(p, 0x22_3d);
    copyBytes(p + 2, value, valueLength);
    p += 2 + valueLength;
    store<u8>(p++, 0x22);
    tags = value + valueLength;
  }
  store<u8>(p, 0x7d);
  return p + 1 - target;
}

/** Letters, digits and underscores, no digit first; no reserved name but __name__. */
function isPlainName(p: usize, n: usize): bool {
  if (n == 0) return false;
  for (let i: usize = 0; i < n; i++) {
    const byte = load<u8>(p + i);
    const isLetter = <u8>((byte | 0x20) - 0x61) < 26 || byte == 0x5f;
    const isDigit = <u8>(byte - 0x30) < 10 && i > 0;
    if (!isLetter && !isDigit) return false;
  }
  if (n < 2 || load<u16>(p) != 0x5f5f) return true;
  // "__name__" as one little-endian word.
  return n == 8 && load<u64>(p) == 0x5f5f_656d_616e_5f5f;
}

/** Not empty, printable ASCII without quote and backslash. */
function isPlainValue(p: usize, n: usize): bool {
  if (n == 0) return false;
  for (let i: usize = 0; i < n; i += 16) {
    const bytes = v128.load(p + i);
    const control = i8x16.lt_u(bytes, i8x16.splat(0x20));
    const beyond = i8x16.gt_u(bytes, i8x16.splat(0x7e));
    const quote = i8x16.eq(bytes, i8x16.splat(0x22));
    const backslash = i8x16.eq(bytes, i8x16.splat(0x5c));
    const odd = v128.or(v128.or(control, beyond), v128.or(quote, backslash));
    let found = <u32>i8x16.bitmask(odd);
    const left = n - i;
    if (left < 16) found &= (<u32>1 << <u32>left) - 1;
    if (found != 0) return false;
  }
  return true;
}
