// Prints rows of a step grid as JSON pairs `[time,"value"]`, numbers with their shortest digits.
// Numbers that are very large or small are left to the caller.

import { shortestDigits } from './shortest';

const absentBits: u64 = 0x7ff0000000000002;

/** Bytes of a prefix: its text, and the length in the last byte. */
const prefixBytesShift: usize = 5;
/** Room that one pair may need. */
export const pairBytesMax: usize = 64;
const wholeMax: f64 = 1000000000000000;
const decimalsMax: f64 = 1000000000;

@inline
function putDigits(value: u64, out: usize): usize {
  let count: usize = 1;
  for (let rest = value; rest >= 10; rest /= 10) count++;
  let rest = value;
  for (let p = out + count; p > out; ) {
    const quotient = rest / 10;
    p--;
    store<u8>(p, 48 + <u8>(rest - quotient * 10));
    rest = quotient;
  }
  return out + count;
}

/** Prints the number; 0 when it is none that is printed here. */
function putNumber(value: f64, out: usize): usize {
  const size = abs(value);
  if (!(size < wholeMax)) return 0;
  const whole = <u64>size;
  let o = out;
  if (value < 0 || (size == 0 && reinterpret<i64>(value) < 0)) store<u8>(o++, 45);
  if (<f64>whole == size) return putDigits(whole, o);
  let decimals: usize = 0;
  let digits: u64 = 0;
  if (size < decimalsMax) {
    let power: f64 = 1;
    for (let wanted: usize = 1; wanted <= 6; wanted++) {
      power *= 10;
      const scaled = nearest(size * power);
      // The quotient of two exact numbers is what a reader of the digits gets.
      if (scaled / power != size) continue;
      digits = <u64>scaled;
      decimals = wanted;
      break;
    }
  }
  if (decimals == 0) {
    const packed = shortestDigits(size);
    if (packed == 0) return 0;
    decimals = <usize>(packed >> 58);
    digits = packed & ((1 << 58) - 1);
    if (decimals == 0) return putDigits(digits, o);
  }
  return putDecimals(digits, decimals, o);
}

/** digits / 10^decimals, decimals up to 27. */
function putDecimals(digits: u64, decimals: usize, out: usize): usize {
  let power: u64 = 1;
  for (let i: usize = 0; i < decimals && i < 19; i++) power *= 10;
  const head = decimals > 18 ? 0 : digits / power;
  let tail = digits - head * power;
  if (decimals > 18) tail = digits;
  const point = putDigits(head, out);
  store<u8>(point, 46);
  const end = point + 1 + decimals;
  for (let p = end; p > point + 1; ) {
    const quotient = tail / 10;
    p--;
    store<u8>(p, 48 + <u8>(tail - quotient * 10));
    tail = quotient;
  }
  return end;
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
