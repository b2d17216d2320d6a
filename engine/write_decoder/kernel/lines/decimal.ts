// Decimal texts to float64, rounded to the nearest, ties to even: digits to a 64-bit number and a power of ten, then one exact
// operation where both are small (Clinger), else the product with the power's 128 bits (Eisel and Lemire). What neither
// settles is left to the host (`NEEDS_HOST`). The twin is JavaScript's `Number`.

import { POWERS_OF_FIVE } from '../identity/memory';

/** Digits that always fit 64 bits. */
const DIGITS_MAX: u32 = 19;
const POWER_MIN: i32 = -342;
const POWER_MAX: i32 = 308;
/** Beyond these a power of ten is 0 or infinite, whatever the digits of a line are. */
const EXPONENT_MAX: i32 = 10_000_000;
const INFINITY_BITS: u64 = 0x7ff0_0000_0000_0000;
/** Of a NaN that is none of Prometheus' markers. */
export const NAN_BITS: u64 = 0x7ff8_0000_0000_0001;
const SIGN: u64 = 0x8000_0000_0000_0000;
const HIDDEN_BIT: u64 = 0x0010_0000_0000_0000;

let resultBits: u64 = 0;
let needsHost: bool = false;
// What `takeDigits` read.
let takenDigits: u64 = 0;
let takenPower: i32 = 0;
let takenMore: bool = false;
let takenNegative: bool = false;
let isOver: bool = false;

/** Bits of the number that `takeDecimal` or `takeNumber` read. */
@inline
export function decimalBits(): u64 {
  return resultBits;
}

/** Whether the host has to read that text again. */
@inline
export function decimalNeedsHost(): bool {
  return needsHost;
}

@inline
function digitAt(p: usize): u32 {
  return <u32>load<u8>(p) - 0x30;
}

/** The first 19 digits that `takeDigits` read, as a number: it is times ten to `decimalPower`. */
@inline
export function decimalDigits(): u64 {
  return takenDigits;
}
@inline
export function decimalPower(): i32 {
  return takenPower;
}
@inline
export function decimalIsNegative(): bool {
  return takenNegative;
}

/** Whether the number that was read is beyond the largest one, and not meant to be infinite. */
@inline
export function decimalIsOver(): bool {
  return isOver;
}

/**
 * Reads `-`, digits with a point in, before or behind them, and an exponent; answers the position after them, or 0 where there
 * is no number. Text behind it must end with a byte that belongs to none.
 */
export function takeDecimal(p: usize): usize {
  p = takeDigits(p);
  if (p == 0) return 0;
  needsHost = false;
  setDouble(takenDigits, takenPower, takenMore);
  if (takenNegative) resultBits |= SIGN;
  return p;
}

/** The same, without the float64 of it. */
@inline
export function takeDigits(p: usize): usize {
  const isNegative = load<u8>(p) == 0x2d;
  if (isNegative) p++;
  const start = p;
  let size: u64 = 0;
  let digits: u32 = 0;
  let places: i32 = 0;
  let dropped: u32 = 0;
  let digit: u32;
  while ((digit = digitAt(p)) < 10) {
    if (digits < DIGITS_MAX) {
      size = size * 10 + <u64>digit;
      digits += <u32>(size != 0);
    } else {
      dropped |= digit;
      places++;
    }
    p++;
  }
  let hasDigits = p != start;
  if (load<u8>(p) == 0x2e) {
    const fraction = ++p;
    while ((digit = digitAt(p)) < 10) {
      if (digits < DIGITS_MAX) {
        size = size * 10 + <u64>digit;
        digits += <u32>(size != 0);
        places--;
      } else dropped |= digit;
      p++;
    }
    hasDigits = hasDigits || p != fraction;
  }
  if (!hasDigits) return 0;
  if ((load<u8>(p) | 0x20) == 0x65) {
    p = takeExponent(p + 1);
    if (p == 0) return 0;
    places += exponent;
  }
  takenDigits = size;
  takenPower = places;
  takenMore = dropped != 0;
  takenNegative = isNegative;
  return p;
}

/**
 * Reads a number as Go's strconv.ParseFloat has it: a sign or none, then a decimal, `inf` or `infinity`; or `nan` without a
 * sign; words in any case. Answers the position after it, or 0 where there is none.
 */
export function takeNumber(p: usize): usize {
  isOver = false;
  needsHost = false;
  const first = load<u8>(p);
  const start = p + <usize>(first == 0x2b);
  if (start == p || load<u8>(start) != 0x2d) {
    const end = takeDecimal(start);
    if (end != 0) {
      isOver = (resultBits & INFINITY_BITS) == INFINITY_BITS;
      return end;
    }
  }
  const word = p + <usize>(first == 0x2b || first == 0x2d);
  const three = load<u32>(word) & 0xff_ffff | 0x20_2020;
  if (three == 0x6e_616e) {
    resultBits = NAN_BITS;
    return word == p ? word + 3 : 0;
  }
  if (three != 0x66_6e69) return 0;
  resultBits = first == 0x2d ? INFINITY_BITS | SIGN : INFINITY_BITS;
  const five = load<u64>(word, 3) & 0xff_ffff_ffff | 0x20_2020_2020;
  return word + (five == 0x79_7469_6e69 ? 8 : 3);
}

let exponent: i32 = 0;

function takeExponent(p: usize): usize {
  const sign = <u32>load<u8>(p);
  if (sign == 0x2d || sign == 0x2b) p++;
  if (digitAt(p) > 9) return 0;
  let value: i32 = 0;
  for (let digit: u32; (digit = digitAt(p)) < 10; p++) {
    if (value < EXPONENT_MAX) value = value * 10 + <i32>digit;
  }
  exponent = sign == 0x2d ? -value : value;
  return p;
}

/** @param hasMore digits other than 0 stand behind those of the mantissa */
function setDouble(mantissa: u64, power: i32, hasMore: bool): void {
  if (mantissa == 0) {
    resultBits = 0;
    return;
  }
  if (!hasMore && mantissa <= 1 << 53 && power >= -22 && power <= 22) {
    const size = <f64>mantissa;
    resultBits = reinterpret<u64>(power < 0 ? size / exactPower(-power) : size * exactPower(power));
    return;
  }
  needsHost = !setProduct(mantissa, power);
  if (!hasMore || needsHost) return;
  // The number lies between this and the next mantissa.
  const bits = resultBits;
  needsHost = !setProduct(mantissa + 1, power) || resultBits != bits;
}

/** 10 to the power of 0 to 22, each exact. */
@inline
function exactPower(power: i32): f64 {
  return load<f64>(EXACT_POWERS + (<usize>power << 3));
}

const EXACT_POWERS: usize = memory.data<f64>([
  1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21,
  1e22,
]);

let low: u64 = 0;

/** Upper half of a product; the lower one is in `low`. */
@inline
function multiply(a: u64, b: u64): u64 {
  const a0 = a & 0xffff_ffff;
  const a1 = a >> 32;
  const b0 = b & 0xffff_ffff;
  const b1 = b >> 32;
  const middle = a1 * b0;
  const other = a0 * b1;
  const carry = ((a0 * b0) >> 32) + (middle & 0xffff_ffff) + (other & 0xffff_ffff);
  low = a * b;
  return a1 * b1 + (middle >> 32) + (other >> 32) + (carry >> 32);
}

/** Sets the bits of mantissa times ten to the power; false where the product does not settle them. */
function setProduct(mantissa: u64, power: i32): bool {
  if (power < POWER_MIN) {
    resultBits = 0;
    return true;
  }
  if (power > POWER_MAX) {
    resultBits = INFINITY_BITS;
    return true;
  }
  const zeros = <i32>clz(mantissa);
  const shifted = mantissa << <u64>zeros;
  const five = POWERS_OF_FIVE + (<usize>(power - POWER_MIN) << 4);
  let upper = multiply(shifted, load<u64>(five));
  let lower = low;
  if ((upper & 0x1ff) == 0x1ff) {
    const rest = multiply(shifted, load<u64>(five, 8));
    lower += rest;
    if (lower < rest) upper++;
  }
  if (lower == 0xffff_ffff_ffff_ffff && (power < -27 || power > 55)) return false;
  const top = <i32>(upper >> 63);
  let bits = upper >> <u64>(top + 9);
  // Binary exponent with its bias: floor(power * log2(10)) is power * 217706 / 65536.
  let binary = ((217_706 * power) >> 16) + 63 + top - zeros + 1023;
  if (binary <= 0) {
    // Subnormal; what carries into the hidden bit is the smallest exponent by itself.
    const shift = 1 - binary;
    resultBits = shift >= 64 ? 0 : roundedHalf(bits >> <u64>shift);
    return true;
  }
  // A tie, exactly: to even.
  const isTie = lower <= 1 && power >= -4 && power <= 23 && (bits & 3) == 1;
  if (isTie && bits << <u64>(top + 9) == upper) bits &= ~<u64>1;
  bits = roundedHalf(bits);
  if (bits >= HIDDEN_BIT << 1) {
    bits = HIDDEN_BIT;
    binary++;
  }
  resultBits = binary >= 0x7ff ? INFINITY_BITS : (bits & ~HIDDEN_BIT) | (<u64>binary << 52);
  return true;
}

@inline
function roundedHalf(bits: u64): u64 {
  return (bits + (bits & 1)) >> 1;
}
