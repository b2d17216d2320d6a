// Snappy block decoding; the plain twin is engine/write_decoder/snappy_twin.ts.
//
// Elements are copied 16 bytes at a time, so up to 63 bytes past the end of the target are
// overwritten, and up to 15 past the end of the source are read: both regions keep slack. While
// both sides have room for the longest element, short ones are copied as 64 bytes whatever their
// length is: what is too much is written over by the next one, and no branch depends on the length.

export const SNAPPY_BAD_LENGTH: i32 = -1;
export const SNAPPY_TOO_LONG: i32 = -2;
export const SNAPPY_CORRUPT: i32 = -3;

/** A tag and the 64 bytes that are read after it. */
const FAST_SOURCE_BYTES: usize = 65;
const FAST_TARGET_BYTES: usize = 64;

/** Decodes n bytes at source to target. Answers the length, or a negative problem. */
export function decodeSnappy(source: usize, n: usize, target: usize, targetBytesMax: usize): i32 {
  let p = source;
  const end = source + n;
  let length: u64 = 0;
  let shift: u64 = 0;
  while (true) {
    if (p == end || shift == 35) return SNAPPY_BAD_LENGTH;
    const byte = <u64>load<u8>(p++);
    length |= (byte & 127) << shift;
    if (byte < 128) break;
    shift += 7;
  }
  if (length > 0xffff_ffff) return SNAPPY_BAD_LENGTH;
  if (length > <u64>targetBytesMax) return SNAPPY_TOO_LONG;
  let d = target;
  const targetEnd = target + <usize>length;
  const fastEnd = n > FAST_SOURCE_BYTES ? end - FAST_SOURCE_BYTES : source;
  const fastTargetEnd = length > <u64>FAST_TARGET_BYTES ? targetEnd - FAST_TARGET_BYTES : target;
  while (p < end) {
    while (p < fastEnd && d < fastTargetEnd) {
      const tag = <usize>load<u8>(p);
      const kind = tag & 3;
      if (kind == 0) {
        const size = (tag >> 2) + 1;
        if (size > 60) break;
        v128.store(d, v128.load(p, 1));
        if (size > 16) copy48(d, p + 1);
        p += size + 1;
        d += size;
        continue;
      }
      let offset: usize;
      let size: usize;
      if (kind == 2) {
        offset = <usize>load<u16>(p, 1);
        size = (tag >> 2) + 1;
      } else {
        if (kind == 3) break;
        offset = ((tag >> 5) << 8) | <usize>load<u8>(p, 1);
        size = 4 + ((tag >> 2) & 7);
      }
      if (offset < 16 || offset > d - target) break;
      p += kind + 1;
      v128.store(d, v128.load(d - offset));
      copy48(d, d - offset);
      d += size;
    }
    const tag = <usize>load<u8>(p);
    const kind = tag & 3;
    if (kind == 0) {
      let size = (tag >> 2) + 1;
      p++;
      if (size <= 16) {
        if (size > end - p || size > targetEnd - d) return SNAPPY_CORRUPT;
        v128.store(d, v128.load(p));
        p += size;
        d += size;
        continue;
      }
      if (size > 60) {
        const extra = size - 60;
        if (extra > end - p) return SNAPPY_CORRUPT;
        size = <usize>(load<u32>(p) & (0xffff_ffff >> (32 - (<u32>extra << 3))));
        p += extra;
        // The size is one more, which could wrap: it is compared before.
        if (size >= end - p) return SNAPPY_CORRUPT;
        size++;
      }
      if (size > end - p || size > targetEnd - d) return SNAPPY_CORRUPT;
      let from = p;
      let to = d;
      p += size;
      d += size;
      do {
        v128.store(to, v128.load(from));
        to += 16;
        from += 16;
      } while (to < d);
      continue;
    }
    let size = (tag >> 2) + 1;
    let offset: usize;
    if (kind == 2) {
      if (end - p < 3) return SNAPPY_CORRUPT;
      offset = <usize>load<u16>(p, 1);
      p += 3;
    } else if (kind == 1) {
      if (end - p < 2) return SNAPPY_CORRUPT;
      size = 4 + ((tag >> 2) & 7);
      offset = ((tag >> 5) << 8) | <usize>load<u8>(p, 1);
      p += 2;
    } else {
      if (end - p < 5) return SNAPPY_CORRUPT;
      offset = <usize>load<u32>(p, 1);
      p += 5;
    }
    if (offset == 0 || offset > d - target || size > targetEnd - d) return SNAPPY_CORRUPT;
    let from = d - offset;
    let to = d;
    d += size;
    if (offset >= 16) {
      v128.store(to, v128.load(from));
      while ((to += 16) < d) {
        from += 16;
        v128.store(to, v128.load(from));
      }
    } else if (offset >= 8) {
      do {
        store<u64>(to, load<u64>(from));
        to += 8;
        from += 8;
      } while (to < d);
    } else {
      do {
        store<u8>(to++, load<u8>(from++));
      } while (to < d);
    }
  }
  return d == targetEnd ? <i32>length : SNAPPY_CORRUPT;
}

/** The bytes from 16 to 64 of an element. */
@inline
function copy48(to: usize, from: usize): void {
  v128.store(to, v128.load(from, 16), 16);
  v128.store(to, v128.load(from, 32), 32);
  v128.store(to, v128.load(from, 48), 48);
}
