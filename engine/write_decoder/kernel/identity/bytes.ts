// Comparing and copying bytes, 16 at a time, and telling whether they are UTF-8. Both may read and write up to 15 bytes past the end:
// every region of a kernel's memory is followed by slack or by another region.

/** Whether n bytes at a and b are equal. */
@inline
export function equalBytes(a: usize, b: usize, n: usize): bool {
  while (n > 64) {
    const first = v128.xor(v128.load(a), v128.load(b));
    const second = v128.xor(v128.load(a, 16), v128.load(b, 16));
    const third = v128.xor(v128.load(a, 32), v128.load(b, 32));
    const fourth = v128.xor(v128.load(a, 48), v128.load(b, 48));
    if (v128.any_true(v128.or(v128.or(first, second), v128.or(third, fourth)))) return false;
    a += 64;
    b += 64;
    n -= 64;
  }
  if (n > 32) {
    const first = v128.xor(v128.load(a), v128.load(b));
    const second = v128.xor(v128.load(a, 16), v128.load(b, 16));
    if (v128.any_true(v128.or(first, second))) return false;
    a += 32;
    b += 32;
    n -= 32;
  }
  if (n > 16) {
    if (v128.any_true(v128.xor(v128.load(a), v128.load(b)))) return false;
    a += 16;
    b += 16;
    n -= 16;
  }
  const same = <u32>i8x16.bitmask(i8x16.eq(v128.load(a), v128.load(b)));
  return (~same & ((<u32>1 << <u32>n) - 1)) == 0;
}

/** Copies n bytes forward. The regions must not overlap closer than 16 bytes. */
@inline
export function copyBytes(target: usize, source: usize, n: usize): void {
  const end = target + n;
  while (target < end) {
    v128.store(target, v128.load(source));
    target += 16;
    source += 16;
  }
}

/** Order of two byte strings as memcmp has it, a prefix first: negative, 0 or positive. */
export function compareBytes(a: usize, aLength: usize, b: usize, bLength: usize): i32 {
  const shared = min(aLength, bLength);
  for (let i: usize = 0; i < shared; i += 16) {
    let differing = ~<u32>i8x16.bitmask(i8x16.eq(v128.load(a + i), v128.load(b + i))) & 0xffff;
    const left = shared - i;
    if (left < 16) differing &= (<u32>1 << <u32>left) - 1;
    if (differing != 0) {
      const at = i + <usize>ctz(differing);
      return <i32>load<u8>(a + at) - <i32>load<u8>(b + at);
    }
  }
  return aLength < bLength ? -1 : aLength > bLength ? 1 : 0;
}
/** Characters of the n bytes at p, or -1 when they are not UTF-8: no longer forms, no surrogates, nothing above 10FFFF. */
export function runesOf(p: usize, n: usize): i32 {
  const end = p + n;
  let runes: i32 = 0;
  while (p < end) {
    const byte = <u32>load<u8>(p++);
    runes++;
    if (byte < 0x80) continue;
    let more: usize = 1;
    let lowest: u32 = 0x80;
    let rune = byte & 0x1f;
    if (byte < 0xc2 || byte > 0xf4) return -1;
    if (byte >= 0xf0) {
      more = 3;
      lowest = 0x10000;
      rune = byte & 7;
    } else if (byte >= 0xe0) {
      more = 2;
      lowest = 0x800;
      rune = byte & 15;
    }
    if (more > end - p) return -1;
    for (; more > 0; more--) {
      const next = <u32>load<u8>(p++);
      if ((next & 0xc0) != 0x80) return -1;
      rune = (rune << 6) | (next & 0x3f);
    }
    if (rune < lowest || rune > 0x10ffff || (rune >= 0xd800 && rune < 0xe000)) return -1;
  }
  return runes;
}
