// Writes the values of a chunk: as scaled decimals where they are such, else by their bits.
import { modeBits, modeRaw, powerOfTen, zigzag } from './codec';
import { exceptionsOffset } from './scratch';
import { writeIntegers, writeVarint } from './integers';

const exponentMax: u32 = 15;
const exactIntegerMax: f64 = 9007199254740992;

/** Writes the values after the control byte, which it sets too. */
export function writeValues(
  scratch: usize,
  tables: usize,
  values: usize,
  rows: usize,
  control: usize,
  out: usize,
): usize {
  let exceptionCount = decimals(scratch, values, rows, control);
  const isDecimal = exceptionCount != notDecimal;
  if (!isDecimal) exceptionCount = floatBits(scratch, values, rows);
  let tag = isDecimal ? <u32>load<u8>(control) : modeBits << 4;
  const firstInteger = load<i64>(scratch);
  let o = writeVarint(out, zigzag(firstInteger));
  if (rows > 1) o = writeIntegers(scratch, tables, rows, 0, o);
  if (exceptionCount != 0) {
    tag |= 64;
    o = writeExceptions(scratch + exceptionsOffset, exceptionCount, values, o);
  }
  if (o - out >= rows << 3) {
    tag = modeRaw << 4;
    memory.copy(out, values, rows << 3);
    o = out + (rows << 3);
  }
  store<u8>(control, <u8>tag);
  return o;
}

function writeExceptions(exceptions: usize, count: u32, values: usize, o: usize): usize {
  o = writeVarint(o, <u64>count);
  let rowNext: u32 = 0;
  for (let i: u32 = 0; i < count; i++) {
    const row = load<u32>(exceptions + (<usize>i << 2));
    o = writeVarint(o, <u64>(row - rowNext));
    store<u64>(o, load<u64>(values + (<usize>row << 3)));
    o += 8;
    rowNext = row + 1;
  }
  return o;
}

const notDecimal: u32 = 0xffffffff;
const noInteger: i64 = i64.MIN_VALUE;

/**
 * The value times 10^exponent as an integer that gives the value back bit for bit, or `noInteger`.
 */
@inline
function decimalOf(value: f64, power: f64): i64 {
  const scaled = nearest(value * power);
  if (!(abs(scaled) < exactIntegerMax)) return noInteger;
  const integer = <i64>scaled;
  const back = <f64>integer / power;
  return reinterpret<u64>(back) == reinterpret<u64>(value) ? integer : noInteger;
}

@inline
function exceptionCountMax(rows: usize): u32 {
  return <u32>(rows >> 4) + 1;
}

/**
 * Values as decimal integers into the first column of the scratch, with the rows of exceptions.
 * Sets the control byte to the exponent; gives the number of exceptions, or `notDecimal`.
 */
function decimals(scratch: usize, values: usize, rows: usize, control: usize): u32 {
  const exponent = decimalExponent(scratch, values, rows);
  if (exponent < 0) return notDecimal;
  store<u8>(control, <u8>(exponent & 15));
  // The search stored the integers already when no row made it change its mind.
  if (exponent & exponentIsFinal) return 0;
  const power = powerOfTen(<u32>exponent & 15);
  const exceptions = scratch + exceptionsOffset;
  const countMax: u32 = exceptionCountMax(rows) + 1 + <u32>(rows >> 6);
  // Or those from some row on.
  const rowEnd = exponent & exponentIsFinalFrom ? <usize>(exponent >> 16) : rows;
  let count: u32 = 0;
  let before: i64 = 0;
  for (let row: usize = 0; row < rowEnd; row++) {
    const integer = decimalOf(load<f64>(values + (row << 3)), power);
    if (integer != noInteger) {
      if (<usize>count == row) fillFirst(scratch, count, integer);
      before = integer;
    } else {
      store<u32>(exceptions + (<usize>count << 2), <u32>row);
      if (++count > countMax) return notDecimal;
    }
    store<i64>(scratch + (row << 3), before);
  }
  if (<usize>count == rowEnd && rowEnd < rows) fillFirst(scratch, count, load<i64>(scratch + (rowEnd << 3)));
  return <usize>count == rows ? notDecimal : count;
}

/** Exceptions before the first integer take that one. */
function fillFirst(column: usize, count: u32, integer: i64): void {
  for (let i: usize = 0; i < <usize>count; i++) store<i64>(column + (i << 3), integer);
}

/** Set on an exponent with which every row was stored. */
const exponentIsFinal: i32 = 256;
/** Set when every row from one on was stored; the row stands above 16 bits. */
const exponentIsFinalFrom: i32 = 512;

/** 1.5 * 2^52: a float below 2^51 that it is added to has its integer in the lowest bits. */
const wholeShift: f64 = 6755399441055744;

/** The same by pairs, up to one that has no integer or a large one. */
function wholePairs(column: usize, values: usize, rows: usize): usize {
  const shift = f64x2.splat(wholeShift);
  const limit = f64x2.splat(2251799813685248);
  const end = (rows & ~1) << 3;
  for (let offset: usize = 0; offset < end; offset += 16) {
    const pair = v128.load(values + offset);
    const shifted = f64x2.add(pair, shift);
    const back = f64x2.sub(shifted, shift);
    // The bits are compared, so that -0 is none.
    const isWhole = v128.and(i64x2.eq(back, pair), f64x2.lt(f64x2.abs(pair), limit));
    if (!i64x2.all_true(isWhole)) return offset >> 3;
    v128.store(column + offset, i64x2.sub(shifted, shift));
  }
  return rows & ~1;
}

/** How many values at the beginning are integers; they are stored in the column. */
function wholeRows(column: usize, values: usize, rows: usize): usize {
  const pairs = wholePairs(column, values, rows);
  for (let row = pairs; row < rows; row++) {
    const value = load<f64>(values + (row << 3));
    if (!(abs(value) < exactIntegerMax)) return row;
    const integer = <i64>value;
    if (reinterpret<u64>(<f64>integer) != reinterpret<u64>(value)) return row;
    store<i64>(column + (row << 3), integer);
  }
  return rows;
}

/** The exponent that suits the values, or -1 when too many of them are no short decimals. */
function decimalExponent(scratch: usize, values: usize, rows: usize): i32 {
  const raiseCountMax: u32 = <u32>(rows >> 6) + 1;
  const lostCountMax = exceptionCountMax(rows);
  let exponent: u32 = 0;
  let power: f64 = 1;
  const whole = wholeRows(scratch, values, rows);
  if (whole == rows) return exponentIsFinal;
  let exponentNeeded: u32 = 0;
  let raiseCount: u32 = 0;
  let lostCount: u32 = 0;
  let lostOffset: usize = 0;
  let storedFrom: usize = 0;
  for (let offset: usize = whole << 3; offset < rows << 3; offset += 8) {
    const value = load<f64>(values + offset);
    const integer = decimalOf(value, power);
    if (integer != noInteger) {
      store<i64>(scratch + offset, integer);
      continue;
    }
    let needed = exponent + 1;
    while (needed <= exponentMax && decimalOf(value, powerOfTen(needed)) == noInteger) needed++;
    if (needed > exponentMax) {
      if (++lostCount > lostCountMax) return -1;
      lostOffset = offset;
      continue;
    }
    exponentNeeded = max(exponentNeeded, needed);
    if (++raiseCount > raiseCountMax) {
      exponent = exponentNeeded;
      power = powerOfTen(exponent);
      raiseCount = 0;
      storedFrom = offset + 8;
    }
  }
  const digits = <i32>exponentNeeded - <i32>exponent;
  if (<i32>raiseCount * 228 > <i32>rows * 10 * digits) return <i32>exponentNeeded;
  if (raiseCount == 0 && (lostCount == 0 || lostOffset < storedFrom)) {
    return <i32>exponent | exponentIsFinalFrom | <i32>((storedFrom >> 3) << 16);
  }
  return <i32>exponent;
}

/** Float bits as integers with the order of the floats; gives the number of exceptions (NaNs). */
function floatBits(scratch: usize, values: usize, rows: usize): u32 {
  let nanCount: u32 = 0;
  for (let row: usize = 0; row < rows; row++) {
    const value = load<f64>(values + (row << 3));
    nanCount += value != value ? 1 : 0;
  }
  const nansAreExceptions = nanCount <= exceptionCountMax(rows) && <usize>nanCount < rows;
  const exceptions = scratch + exceptionsOffset;
  let count: u32 = 0;
  let before: i64 = 0;
  for (let row: usize = 0; row < rows; row++) {
    const value = load<f64>(values + (row << 3));
    if (nansAreExceptions && value != value) {
      store<u32>(exceptions + (<usize>(count++) << 2), <u32>row);
    } else {
      const bits = load<i64>(values + (row << 3));
      before = bits ^ ((bits >> 63) & i64.MAX_VALUE);
      if (<usize>count == row) fillFirst(scratch, count, before);
    }
    store<i64>(scratch + (row << 3), before);
  }
  return count;
}
