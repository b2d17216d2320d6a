// Prints rows of a step grid as JSON pairs: `[time,"value"]` as Prometheus, `[value, time]` as Graphite; numbers with their
// shortest digits. Numbers that are very large or small are left to the caller.

import { powerOfFive, shortestDigits } from './shortest';

const absentBits: u64 = 0x7ff0000000000002;

/** Bytes of a prefix: its text, and the length in the last byte. */
const prefixBytesShift: usize = 5;
/** Room that one pair may need. */
export const pairBytesMax: usize = 64;
const pointBytesMax: usize = 128;
const wholeMax: f64 = 1000000000000000;
const decimalsMax: f64 = 1000000000;

const hundredMillion: u64 = 100_000_000;

/** Digits of a number below 10^8 with zeros in front, the first one in the lowest byte: 4, 2 and 1 digits at a time side by side. */
@inline
function eightDigits(value: u64): u64 {
  const fours = value / 10_000;
  let text = fours | ((value - fours * 10_000) << 32);
  const hundreds = ((text * 10_486) >> 20) & 0x0000007f_0000007f;
  text = hundreds | ((text - hundreds * 100) << 16);
  const tens = ((text * 103) >> 10) & 0x000f000f_000f000f;
  text = tens | ((text - tens * 10) << 8);
  return text | 0x3030303030303030;
}

/** Up to 17 digits; writes over up to 7 bytes behind them. */
function putDigits(value: u64, out: usize): usize {
  if (value < hundredMillion) {
    const text = eightDigits(value);
    const zeros = value == 0 ? 7 : ctz(text ^ 0x3030303030303030) >> 3;
    store<u64>(out, text >> (zeros << 3));
    return out + 8 - <usize>zeros;
  }
  const front = value / hundredMillion;
  const next = putDigits(front, out);
  store<u64>(next, eightDigits(value - front * hundredMillion));
  return next + 8;
}

/** Prints the number; 0 when it is none that is printed here. */
function putNumber(value: f64, out: usize): usize {
  const size = abs(value);
  if (!(size < wholeMax)) return 0;
  const whole = <u64>size;
  let o = out;
  if (value < 0 || (size == 0 && reinterpret<i64>(value) < 0)) store<u8>(o++, 45);
  if (<f64>whole == size) return putDigits(whole, o);
  if (size < decimalsMax) {
    const scaled = nearest(size * 1000000);
    // The quotient of two exact numbers is what a reader of the digits gets.
    if (scaled / 1000000 == size) return putMillionths(<u64>scaled, whole, o);
  }
  const packed = shortestDigits(size);
  if (packed == 0) return 0;
  const decimals = <usize>(packed >> 58);
  const digits = packed & ((1 << 58) - 1);
  return decimals == 0 ? putDigits(digits, o) : putDecimals(digits, decimals, whole, o);
}

/** A number that is not whole by its millionths, without zeros at the end. */
@inline
function putMillionths(millionths: u64, whole: u64, out: usize): usize {
  let digits = millionths;
  let decimals: usize = 6;
  if (digits % 1000 == 0) {
    digits /= 1000;
    decimals -= 3;
  }
  if (digits % 100 == 0) {
    digits /= 100;
    decimals -= 2;
  }
  if (digits % 10 == 0) {
    digits /= 10;
    decimals--;
  }
  return putDecimals(digits, decimals, whole, out);
}

/** Up to 18; above that anything, and nothing is in front of the point. */
@inline
function powerOfTen(exponent: u32): u64 {
  return powerOfFive(exponent) << exponent;
}

/** digits / 10^decimals, decimals up to 27; `whole` is what is in front of the point. */
function putDecimals(digits: u64, decimals: usize, whole: u64, out: usize): usize {
  const tail = digits - whole * powerOfTen(<u32>decimals);
  let p = putDigits(whole, out);
  store<u8>(p++, 46);
  let left = decimals;
  for (; left > 24; left--) store<u8>(p++, 48);
  const front = tail / hundredMillion;
  if (left > 16) {
    const first = front / hundredMillion;
    left -= 16;
    store<u64>(p, eightDigits(first) >> ((8 - left) << 3));
    store<u64>(p + left, eightDigits(front - first * hundredMillion));
    left += 8;
  } else if (left > 8) {
    left -= 8;
    store<u64>(p, eightDigits(front) >> ((8 - left) << 3));
  } else {
    store<u64>(p, eightDigits(tail) >> ((8 - left) << 3));
    return p + left;
  }
  store<u64>(p + left, eightDigits(tail - front * hundredMillion));
  return p + left + 8;
}

/**
 * Prints the steps from `first` on, each with its prefix `,[time,"` in front; absent steps are left
 * out. Ends when `out` is full or at a number that is not printed here. `state` takes the step to
 * go on with and the end of the text.
 */
export function printRow(
  values: usize,
  first: u32,
  steps: u32,
  prefixes: usize,
  out: usize,
  outEnd: usize,
  state: usize,
): void {
  let o = out;
  let step = <usize>first;
  for (; step < <usize>steps; step++) {
    const bits = load<u64>(values + (step << 3));
    if (bits == absentBits) continue;
    if (outEnd - o < pairBytesMax) break;
    const prefix = prefixes + (step << prefixBytesShift);
    v128.store(o, v128.load(prefix));
    v128.store(o, v128.load(prefix, 16), 16);
    const text = o + <usize>load<u8>(prefix, 31);
    const next = putNumber(reinterpret<f64>(bits), text);
    if (next == 0) break;
    store<u16>(next, 0x5d22);
    o = next + 2;
  }
  store<u32>(state, <u32>step);
  store<u32>(state, <u32>(o - out), 4);
}

/** `, ` as two bytes. */
const COMMA_SPACE: u16 = 0x202c;
/** `null` as four bytes. */
const NULL: u32 = 0x6c6c756e;

/**
 * Prints the points from `first` on as `, [value, time]`, and `null` for a value that is absent or NaN, or, where nulls are left
 * out, nothing. Ends as `printRow` does.
 * @param present of each point a byte, 0 or 1
 * @param start Unix seconds of point 0
 */
export function printPoints(
  values: usize,
  present: usize,
  first: u32,
  points: u32,
  start: f64,
  step: f64,
  leavesOutNulls: u32,
  out: usize,
  outEnd: usize,
  state: usize,
): void {
  let o = out;
  let point = first;
  // Of a time that is a whole number, all but the last eight digits: they seldom change.
  let front: u64 = 0;
  let frontText: u64 = 0;
  let frontBytes: usize = 0;
  for (; point < points; point++) {
    if (outEnd - o < pointBytesMax) break;
    const value = load<f64>(values + (<usize>point << 3));
    let next = o + 3;
    if (load<u8>(present + <usize>point) == 0 || value != value) {
      if (leavesOutNulls) continue;
      store<u32>(next, NULL);
      next += 4;
    } else {
      next = putNumber(value, next);
      if (next == 0) break;
    }
    store<u16>(o, COMMA_SPACE);
    store<u8>(o, 91, 2);
    store<u16>(next, COMMA_SPACE);
    next += 2;
    const time = start + <f64>point * step;
    const whole = <u64>time;
    if (time >= <f64>hundredMillion && time < wholeMax && <f64>whole == time) {
      const ahead = whole / hundredMillion;
      if (ahead != front) {
        front = ahead;
        frontBytes = putDigits(front, next) - next;
        frontText = load<u64>(next);
      }
      store<u64>(next, frontText);
      next += frontBytes;
      store<u64>(next, eightDigits(whole - front * hundredMillion));
      next += 8;
    } else {
      next = putNumber(time, next);
      if (next == 0) break;
    }
    store<u8>(next, 93);
    o = next + 1;
  }
  store<u32>(state, point);
  store<u32>(state, <u32>(o - out), 4);
}
