// Protobuf on the wire. A position of 0 says malformed; no function reads a value past the end that
// it was given, though wide loads may touch the slack after it.

/** Where `takeVarint` leaves its value. */
export const VARINT_CELL: usize = 0x10000 + 512;

@inline
export function varintValue(): u64 {
  return load<u64>(VARINT_CELL);
}

/**
 * Reads a varint of at most ten bytes; its low 64 bits are `varintValue`. Answers the position
 * after it.
 */
export function takeVarint(p: usize, end: usize): usize {
  let value: u64 = 0;
  for (let shift: u64 = 0; shift < 70; shift += 7) {
    if (p == end) return 0;
    const byte = <u64>load<u8>(p++);
    value |= (byte & 127) << shift;
    if (byte < 128) {
      store<u64>(VARINT_CELL, value);
      return p;
    }
  }
  return 0;
}

/** Reads a field key into `varintValue`; field number 0 and keys beyond 32 bits are malformed. */
export function takeKey(p: usize, end: usize): usize {
  p = takeVarint(p, end);
  if (p == 0 || varintValue() > 0xffff_ffff || varintValue() < 8) return 0;
  return p;
}

/** Reads a length into `varintValue` and holds that so many bytes are there. */
export function takeLength(p: usize, end: usize): usize {
  p = takeVarint(p, end);
  if (p == 0 || varintValue() > <u64>(end - p)) return 0;
  return p;
}

/** The position after the value of a field that nobody reads. */
export function skipField(p: usize, end: usize, wireType: u32): usize {
  if (wireType == 0) return takeVarint(p, end);
  if (wireType == 1) return end - p < 8 ? 0 : p + 8;
  if (wireType == 5) return end - p < 4 ? 0 : p + 4;
  if (wireType != 2) return 0;
  p = takeLength(p, end);
  return p == 0 ? 0 : p + <usize>varintValue();
}
