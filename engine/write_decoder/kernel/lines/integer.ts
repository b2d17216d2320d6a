// Whole numbers as texts.

const MAX_TENTH: u64 = 0xffff_ffff_ffff_ffff / 10;
const MAX_LAST: u64 = 0xffff_ffff_ffff_ffff % 10;

let size: u64 = 0;
let isNegative: bool = false;
let isOver: bool = false;

/** Without its sign, of the number that `takeInteger` read. */
@inline
export function integerSize(): u64 {
  return size;
}
@inline
export function integerIsNegative(): bool {
  return isNegative;
}
/** Whether it is beyond 64 bits. */
@inline
export function integerIsOver(): bool {
  return isOver;
}

/** Whether eight bytes are all digits. */
@inline
function areDigits(bytes: u64): bool {
  return (((bytes & 0xf0f0_f0f0_f0f0_f0f0) | (((bytes + 0x0606_0606_0606_0606) & 0xf0f0_f0f0_f0f0_f0f0) >> 4)) ^ 0x3333_3333_3333_3333) == 0;
}

/** The number that eight digits are. */
@inline
function valueOfDigits(bytes: u64): u64 {
  bytes -= 0x3030_3030_3030_3030;
  bytes = bytes * 10 + (bytes >> 8);
  return (
    ((bytes & 0x0000_00ff_0000_00ff) * 0x000f_4240_0000_0064 + ((bytes >> 16) & 0x0000_00ff_0000_00ff) * 0x0000_2710_0000_0001) >> 32
  );
}

/** Reads `-` or not and digits; answers the position after them, or 0 where there is no digit. */
export function takeInteger(p: usize): usize {
  isNegative = load<u8>(p) == 0x2d;
  isOver = false;
  if (isNegative) p++;
  const start = p;
  let value: u64 = 0;
  // Sixteen digits are far from 64 bits.
  while (p - start < 16 && areDigits(load<u64>(p))) {
    value = value * 100_000_000 + valueOfDigits(load<u64>(p));
    p += 8;
  }
  for (let digit: u32; (digit = <u32>load<u8>(p) - 0x30) < 10; p++) {
    if (value >= MAX_TENTH && (value > MAX_TENTH || <u64>digit > MAX_LAST)) isOver = true;
    value = value * 10 + <u64>digit;
  }
  size = value;
  return p == start ? 0 : p;
}

/** Whether it fits 63 bits and a sign. */
@inline
export function integerFits(): bool {
  return !isOver && size <= (isNegative ? 0x8000_0000_0000_0000 : 0x7fff_ffff_ffff_ffff);
}

@inline
export function signedInteger(): i64 {
  return isNegative ? <i64>(0 - size) : <i64>size;
}

/** The nearest float64. */
@inline
export function integerBits(): u64 {
  return reinterpret<u64>(isNegative ? -<f64>size : <f64>size);
}
