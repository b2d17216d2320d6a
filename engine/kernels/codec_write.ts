// Writes compressed chunks (docs/formats/codec.md), byte for byte as codec_twin.ts and codec_integers.ts
// do, where the choices are explained.
import {
  bookCodesOffset,
  bookLengthsOffset,
  formPacked,
  formPackedWithLowBits,
  formSparse,
  kindFloat,
  kindRaw,
  kindRows,
  modeBits,
  modeDecimal,
  modeRaw,
  powerOfTen,
  roundedMean,
  unitNanosOf,
  versionReference,
  zigzag,
} from './codec';

/** Rows of one chunk that the encoder takes; the counts of symbols fit 16 bits so. */
export const encodeRowsMax: u32 = 4096;
/** Bytes that a chunk of so many rows may take, compressed or raw with versions, and written over. */
@inline
export function encodedBytesMax(rows: u32): usize {
  return 256 + <usize>rows * 28;
}

const int64ColumnBytes: usize = (<usize>encodeRowsMax << 3) + 64;
/** Where things lie in the encoder's scratch: two int64 columns, symbol counts, exception rows. */
const residualsOffset: usize = int64ColumnBytes;
const countsOffset: usize = residualsOffset + int64ColumnBytes;
const sizesOffset: usize = countsOffset + 64;
const packingOffset: usize = sizesOffset + 4 * 64 + 64;
const beyondOffset: usize = packingOffset + 64;
const exceptionsOffset: usize = beyondOffset + 64;
export const encoderScratchBytes: usize = exceptionsOffset + (<usize>encodeRowsMax << 2) + 64;

const factorStepsMin: usize = 8;
const medianSampleCount: usize = 7;
const exponentMax: u32 = 15;
const exactIntegerMax: f64 = 9007199254740992;

export function writeVarint(o: usize, value: u64): usize {
  while (value >= 128) {
    store<u8>(o++, <u8>(value | 128));
    value >>= 7;
  }
  store<u8>(o++, <u8>value);
  return o;
}

@inline
function bitLength(value: u64): u64 {
  return 64 - clz(value);
}

/** Everything of a header but the length, at o. */
function writeHeader(
  o: usize,
  kind: u32,
  unitCode: u32,
  rows: u32,
  firstNanos: i64,
  lastNanos: i64,
  version: i64,
): usize {
  const unit = unitNanosOf(unitCode);
  store<u8>(o++, <u8>(kind | (unitCode << 4)));
  o = writeVarint(o, <u64>(rows - 1));
  const first = firstNanos / unit;
  o = writeVarint(o, zigzag(first));
  o = writeVarint(o, <u64>(lastNanos / unit - first));
  return writeVarint(o, zigzag(version - versionReference(lastNanos)));
}

const bodyOffset: usize = 4;

/** Puts the length before a body that was written at o + bodyOffset; gives the chunk's end. */
function frame(o: usize, bodyEnd: usize): usize {
  const body = o + bodyOffset;
  const length = bodyEnd - body;
  const start = writeVarint(o, <u64>length);
  memory.copy(start, body, length);
  return start + length;
}

/** Header of a chunk whose rows have versions of their own. */
function writeRowsHeader(
  o: usize,
  kind: u32,
  rows: u32,
  firstNanos: i64,
  lastNanos: i64,
  version: i64,
): usize {
  let code: u32 = 3;
  while (
    code > 0 &&
    (firstNanos % unitNanosOf(code) != 0 || lastNanos % unitNanosOf(code) != 0)
  ) {
    code--;
  }
  return writeHeader(o, kind | 64, code, rows, firstNanos, lastNanos, version);
}

/**
 * Copies rows in the form of rows.ts, with the version that the first is relative to before them, as a chunk; gives its
 * end.
 */
export function encodeRowsAsTheyAre(
  at: usize,
  length: usize,
  rows: u32,
  firstNanos: i64,
  lastNanos: i64,
  version: i64,
  out: usize,
): usize {
  const o = writeRowsHeader(out + bodyOffset, kindRows, rows, firstNanos, lastNanos, version);
  memory.copy(o, at, length);
  return frame(out, o + length);
}

/**
 * Writes rows as a raw chunk with their versions; the versions are int64, none more than 2^32 - 1 below
 * `version`. Gives its end.
 */
export function encodeRaw(
  times: usize,
  values: usize,
  versions: usize,
  rows: u32,
  version: i64,
  out: usize,
): usize {
  const bytes = <usize>rows << 3;
  const first = load<i64>(times);
  const last = load<i64>(times + bytes - 8);
  let o = writeRowsHeader(out + bodyOffset, kindRaw, rows, first, last, version);
  memory.copy(o, times, bytes);
  memory.copy(o + bytes, values, bytes);
  o += bytes << 1;
  for (let i: usize = 0; i < <usize>rows; i++) {
    store<u32>(o, <u32>(version - load<i64>(versions + (i << 3))));
    o += 4;
  }
  return frame(out, o);
}

/**
 * Writes 1 to `encodeRowsMax` rows in strictly ascending time as a compressed chunk; gives its end.
 * @param scratch `encoderScratchBytes`
 * @param out `encodedBytesMax(rows)` free
 */
export function encodeChunk(
  scratch: usize,
  tables: usize,
  times: usize,
  values: usize,
  rows: u32,
  version: i64,
  out: usize,
): usize {
  const lastNanos = load<i64>(times + ((<usize>rows - 1) << 3));
  const firstNanos = load<i64>(times);
  const isRegular = stepsAreEqual(times, rows);
  const unitCode = timeUnitCode(times, isRegular ? min<u32>(rows, 2) : rows);
  const unit = unitNanosOf(unitCode);
  const body = out + bodyOffset;
  const control = writeHeader(body, kindFloat, unitCode, rows, firstNanos, lastNanos, version);
  let o = control + 1;
  if (!isRegular) {
    const steps = <i64>rows - 1;
    for (let i: usize = 0; i < <usize>rows << 3; i += 8) {
      store<i64>(scratch + i, load<i64>(times + i) / unit);
    }
    const step = roundedMean(lastNanos / unit - firstNanos / unit, steps);
    o = writeIntegers(scratch, tables, <usize>rows, step, o);
  }
  o = writeValues(scratch, tables, values, <usize>rows, control, o);
  if (!isRegular) store<u8>(control, load<u8>(control) | 128);
  return frame(out, o);
}

/** 0 ns, 1 µs, 2 ms, 3 s: the coarsest unit that all times are multiples of. */
function timeUnitCode(times: usize, rows: u32): u32 {
  const end = times + (<usize>rows << 3);
  let code: u32 = 3;
  let unit = unitNanosOf(code);
  let inverse: f64 = 1 / <f64>unit;
  let before: i64 = 0;
  for (let p = times; p < end; p += 8) {
    const time = load<i64>(p);
    const step = time - before;
    before = time;
    // A step below 2^52 is a multiple when its rounded quotient gives it back.
    while (code > 0) {
      const isMultiple =
        step < 4503599627370496 && step >= 0
          ? <i64>nearest(<f64>step * inverse) * unit == step
          : step % unit == 0;
      if (isMultiple) break;
      code--;
      unit = unitNanosOf(code);
      inverse = 1 / <f64>unit;
    }
    if (code == 0) break;
  }
  return code;
}

function stepsAreEqual(column: usize, rows: u32): bool {
  if (rows < 3) return true;
  const step = load<i64>(column, 8) - load<i64>(column);
  const steps = <usize>rows - 1;
  const paired = (steps & ~1) << 3;
  let differing = i64x2.splat(0);
  const first = i64x2.splat(step);
  for (let offset: usize = 0; offset < paired; offset += 16) {
    const pair = i64x2.sub(v128.load(column + offset, 8), v128.load(column + offset));
    differing = v128.or(differing, v128.xor(pair, first));
  }
  if (v128.any_true(differing)) return false;
  return !(steps & 1) || load<i64>(column + paired, 8) - load<i64>(column + paired) == step;
}

/** Writes the values behind the control byte, which it sets too. */
function writeValues(
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

/** The value times 10^exponent as an integer that gives the value back bit for bit, or `noInteger`. */
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
 * Values as decimal integers into the first column of the scratch, with the rows of exceptions. Sets the
 * control byte to the exponent; gives the number of exceptions, or `notDecimal`.
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

/** Appends the integers of the scratch's first column behind the first one; it may change them. */
function writeIntegers(
  scratch: usize,
  tables: usize,
  rows: usize,
  stepExpected: i64,
  o: usize,
): usize {
  const steps = rows - 1;
  const residuals = scratch + residualsOffset;
  const stepFirst = load<i64>(scratch, 8) - load<i64>(scratch);
  let differing = i64x2.splat(0);
  const first = i64x2.splat(stepFirst);
  const paired = (steps & ~1) << 3;
  for (let offset: usize = 0; offset < paired; offset += 16) {
    const step = i64x2.sub(v128.load(scratch + offset, 8), v128.load(scratch + offset));
    v128.store(residuals + offset, step);
    differing = v128.or(differing, v128.xor(step, first));
  }
  let differ = i64x2.extract_lane(differing, 0) | i64x2.extract_lane(differing, 1);
  if (steps & 1) {
    const step = load<i64>(scratch + paired, 8) - load<i64>(scratch + paired);
    store<i64>(residuals + paired, step);
    differ |= step ^ stepFirst;
  }
  if (differ == 0) {
    store<u8>(o, 0);
    return writeVarint(o + 1, zigzag(stepFirst - stepExpected));
  }
  const factor = commonFactor(residuals, steps);
  if (factor > 1) divideBy(residuals, steps, factor);
  return writeSteps(scratch, tables, steps, factor > 1 ? 0 : stepExpected, factor, o);
}

function commonFactor(residuals: usize, steps: usize): u64 {
  if (steps < factorStepsMin) return 1;
  let factor: u64 = 0;
  const end = residuals + (steps << 3);
  for (let p = residuals; p < end; p += 8) {
    const step = load<i64>(p);
    let b = <u64>(step < 0 ? -step : step);
    if (b == 0 || b == factor) continue;
    let a = factor;
    while (b != 0) {
      const rest = a % b;
      a = b;
      b = rest;
    }
    factor = a;
    if (factor == 1) return 1;
  }
  return factor;
}

function divideBy(residuals: usize, steps: usize, factor: u64): void {
  const end = residuals + (steps << 3);
  for (let p = residuals; p < end; p += 8) {
    const step = load<i64>(p);
    const quotient = <i64>(<u64>(step < 0 ? -step : step) / factor);
    store<i64>(p, step < 0 ? -quotient : quotient);
  }
}

/** Median of seven steps spread over the rows. */
function medianStep(residuals: usize, steps: usize, samples: usize): i64 {
  for (let i: usize = 0; i < medianSampleCount; i++) {
    const row = (i * (steps - 1)) / (medianSampleCount - 1);
    const step = load<i64>(residuals + (row << 3));
    let place = i;
    while (place > 0 && load<i64>(samples + ((place - 1) << 3)) > step) {
      store<i64>(samples + (place << 3), load<i64>(samples + ((place - 1) << 3)));
      place--;
    }
    store<i64>(samples + (place << 3), step);
  }
  return load<i64>(samples + ((medianSampleCount >> 1) << 3));
}

/** Steps so near to the mean have sums below 2^53, over all `encodeRowsMax` rows and their offsets too. */
const smallMiss: i64 = 1 << 28;

function stepsAreSmall(residuals: usize, steps: usize, mean: i64): bool {
  const low = i64x2.splat(mean - smallMiss);
  const high = i64x2.splat(mean + smallMiss);
  let isSmall = i64x2.splat(-1);
  const paired = (steps & ~1) << 3;
  for (let offset: usize = 0; offset < paired; offset += 16) {
    const step = v128.load(residuals + offset);
    isSmall = v128.and(isSmall, v128.and(i64x2.gt_s(step, low), i64x2.lt_s(step, high)));
  }
  if (!i64x2.all_true(isSmall)) return false;
  // A mean near the ends of 64 bits would wrap.
  if (mean < -(1 << 62) || mean > 1 << 62) return false;
  const last = load<i64>(residuals + paired);
  return !(steps & 1) || (last > mean - smallMiss && last < mean + smallMiss);
}

/** Predicts the steps in the residuals' column, which become residuals, and writes them. */
function writeSteps(
  scratch: usize,
  tables: usize,
  steps: usize,
  stepExpected: i64,
  factor: u64,
  o: usize,
): usize {
  const residuals = scratch + residualsOffset;
  const end = residuals + (steps << 3);
  let span = load<i64>(scratch + (steps << 3)) - load<i64>(scratch);
  if (factor > 1) {
    span = 0;
    for (let p = residuals; p < end; p += 8) span += load<i64>(p);
  }
  const mean = roundedMean(span, <i64>steps);
  const median =
    steps < medianSampleCount ? mean : medianStep(residuals, steps, scratch + sizesOffset);
  let meanSum: f64 = 0;
  let medianSum: f64 = 0;
  let offsetSum: f64 = 0;
  let offset: i64 = 0;
  const isSmall = stepsAreSmall(residuals, steps, mean);
  if (isSmall) {
    // Sums of floats would be exact, and so are those of integers, which are faster.
    let meanTotal: i64 = 0;
    let offsetTotal: i64 = 0;
    for (let p = residuals; p < end; p += 8) {
      const miss = load<i64>(p) - mean;
      offset += miss;
      meanTotal += abs(miss);
      offsetTotal += offset;
    }
    meanSum = <f64>meanTotal;
    offsetSum = <f64>offsetTotal;
  } else {
    for (let p = residuals; p < end; p += 8) {
      const miss = load<i64>(p) - mean;
      offset += miss;
      meanSum += abs(<f64>miss);
      offsetSum += <f64>offset;
    }
  }
  if (median == mean) medianSum = meanSum;
  else for (let p = residuals; p < end; p += 8) medianSum += abs(<f64>(load<i64>(p) - median));
  const isMedian = medianSum < meanSum;
  const offsetMean = offsetSum / <f64>steps;
  let isLine = false;
  let center: i64 = 0;
  if (abs(offsetMean) < 4611686018427387904) {
    center = <i64>offsetMean;
    let lineSum: f64 = 0;
    offset = -center;
    if (isSmall) {
      let lineTotal: i64 = 0;
      for (let p = residuals; p < end; p += 8) {
        offset += load<i64>(p) - mean;
        lineTotal += abs(offset);
      }
      lineSum = <f64>lineTotal;
    } else {
      for (let p = residuals; p < end; p += 8) {
        offset += load<i64>(p) - mean;
        lineSum += abs(<f64>offset);
      }
    }
    isLine = lineSum < min(meanSum, medianSum);
  }
  const step = isMedian && !isLine ? median : mean;
  const tag = (isLine ? <u32>16 : 0) | (factor > 1 ? <u32>128 : 0);
  const tagAt = o++;
  if (factor > 1) o = writeVarint(o, factor);
  o = writeVarint(o, zigzag(step - stepExpected));
  if (isLine) o = writeVarint(o, zigzag(center));
  return writeResiduals(scratch, tables, steps, step, isLine, center, tag, tagAt, o);
}

/** Turns steps into residuals, counts them, and writes them in the form that is shortest. */
function writeResiduals(
  scratch: usize,
  tables: usize,
  steps: usize,
  step: i64,
  isLine: bool,
  center: i64,
  tag: u32,
  tagAt: usize,
  o: usize,
): usize {
  const residuals = scratch + residualsOffset;
  const counts = scratch + countsOffset;
  const sizes = scratch + sizesOffset;
  memory.fill(counts, 0, packingOffset - countsOffset);
  const end = residuals + (steps << 3);
  let offset = -center;
  let rawBits: u64 = 0;
  for (let p = residuals; p < end; p += 8) {
    const miss = load<i64>(p) - step;
    offset += miss;
    const residual = isLine ? offset : miss;
    store<i64>(p, residual);
    const code = zigzag(residual);
    const symbol = <usize>min<u64>(code, 15);
    store<u32>(counts + (symbol << 2), load<u32>(counts + (symbol << 2)) + 1);
    if (code >= 15) {
      rawBits += 6 + max<u64>(1, bitLength(code - 15));
      const size = sizes + (<usize>bitLength(code >> 1) << 2);
      store<u32>(size, load<u32>(size) + 1);
    }
  }
  const packing = scratch + packingOffset;
  const bits = choosePacking(scratch, tables, steps, rawBits, packing);
  const book = load<u32>(packing);
  const lowBits = load<u32>(packing, 4);
  const lowBytes = (steps * <usize>lowBits + 7) >> 3;
  const bytes =
    lowBytes +
    <usize>((bits - <u64>steps * <u64>lowBits + 7) >> 3) +
    (lowBits > 0 ? 1 : 0);
  const nonZeroCount = steps - <usize>load<u32>(packing, 8);
  if (nonZeroCount <= steps >> 3) {
    const sparseEnd = writeSparse(residuals, steps, <u32>nonZeroCount, o);
    if (sparseEnd - o <= bytes) {
      store<u8>(tagAt, <u8>(tag | (formSparse << 5)));
      return sparseEnd;
    }
  }
  const form = lowBits > 0 ? formPackedWithLowBits : formPacked;
  store<u8>(tagAt, <u8>(tag | book | (form << 5)));
  if (lowBits > 0) {
    store<u8>(o, <u8>lowBits);
    o = writeLowBits(residuals, steps, <u64>lowBits, o + 1);
  }
  return writeSymbols(residuals, steps, tables, book, <i64>lowBits, o);
}

function writeSparse(residuals: usize, steps: usize, nonZeroCount: u32, o: usize): usize {
  o = writeVarint(o, <u64>nonZeroCount);
  let rowNext: usize = 0;
  for (let row: usize = 0; row < steps; row++) {
    const residual = load<i64>(residuals + (row << 3));
    if (residual == 0) continue;
    o = writeVarint(o, <u64>(row - rowNext));
    o = writeVarint(o, zigzag(residual));
    rowNext = row + 1;
  }
  return o;
}

/**
 * Chooses book and low bits by what they cost; gives the bits. `packing` gets book, low bits and how
 * many residuals are zero.
 */
function choosePacking(
  scratch: usize,
  tables: usize,
  steps: usize,
  rawBits: u64,
  packing: usize,
): u64 {
  const counts = scratch + countsOffset;
  store<u32>(packing, load<u32>(counts), 8);
  const sizes = scratch + sizesOffset;
  const upper = upperSize(counts, sizes, steps);
  const lowBitsMax = upper > 1 ? upper - 1 : 0;
  const lowBitsMin = upper > 3 ? upper - 3 : 0;
  let bookBits = lowBitsMin == 0 ? cheapestBook(tables, counts) : 0;
  let best = lowBitsMin == 0 ? rawBits + (bookBits >> 8) : u64.MAX_VALUE;
  store<u32>(packing, <u32>(bookBits & 255));
  store<u32>(packing, 0, 4);
  if (lowBitsMax == 0) return best;
  countFine(scratch, steps, <i64>lowBitsMin, <i64>lowBitsMax);
  for (let lowBits = max<u32>(lowBitsMin, 1); lowBits <= lowBitsMax; lowBits++) {
    let bits = countCoarse(scratch, <i64>(lowBits - lowBitsMin));
    bits += <u64>steps * <u64>lowBits;
    bookBits = cheapestBook(tables, counts);
    bits += bookBits >> 8;
    if (bits < best) {
      best = bits;
      store<u32>(packing, <u32>(bookBits & 255));
      store<u32>(packing, lowBits, 4);
    }
  }
  return best;
}

/** Bits of the residual that three quarters of them do not exceed in size. */
function upperSize(counts: usize, sizes: usize, steps: usize): u32 {
  // Symbols 0 to 14 tell the size of theirs; larger ones were counted by size.
  store<u32>(sizes, load<u32>(counts) + load<u32>(counts, 4));
  store<u32>(sizes, load<u32>(counts, 8) + load<u32>(counts, 12), 4);
  let two: u32 = 0;
  let three: u32 = 0;
  for (let symbol: usize = 4; symbol < 8; symbol++) two += load<u32>(counts + (symbol << 2));
  for (let symbol: usize = 8; symbol < 15; symbol++) three += load<u32>(counts + (symbol << 2));
  store<u32>(sizes, two, 8);
  store<u32>(sizes, load<u32>(sizes, 12) + three, 12);
  const wanted = <u32>((steps * 3 + 3) >> 2);
  let size: u32 = 0;
  let reached = load<u32>(sizes);
  while (reached < wanted) reached += load<u32>(sizes + (<usize>(++size) << 2));
  return size;
}

/** Values that the fine count tells apart: -32 to 31. Beyond, up to two bits coarser, all is escaped. */
const fineMax: i64 = 32;

/**
 * Counts the residuals without their low bits, at the least number of these; the number and the escaped bits
 * of those beyond the count are summed for each number of low bits.
 */
function countFine(scratch: usize, steps: usize, lowBitsMin: i64, lowBitsMax: i64): void {
  const fine = scratch + sizesOffset;
  const beyond = scratch + beyondOffset;
  memory.fill(fine, 0, 4 * 2 * <usize>fineMax);
  memory.fill(beyond, 0, 4 * 8);
  const end = scratch + residualsOffset + (steps << 3);
  for (let p = scratch + residualsOffset; p < end; p += 8) {
    const residual = load<i64>(p);
    const place = <u64>((residual >> lowBitsMin) + fineMax);
    if (place < 2 * <u64>fineMax) {
      const at = fine + (<usize>place << 2);
      store<u32>(at, load<u32>(at) + 1);
      continue;
    }
    store<u64>(beyond, load<u64>(beyond) + 1);
    for (let lowBits = lowBitsMin; lowBits <= lowBitsMax; lowBits++) {
      const sum = beyond + 8 + (<usize>(lowBits - lowBitsMin) << 3);
      store<u64>(sum, load<u64>(sum) + escapedBits(zigzag(residual >> lowBits)));
    }
  }
}

@inline
function escapedBits(code: u64): u64 {
  return 6 + max<u64>(1, bitLength(code - 15));
}

/** Sums the fine count to symbols of residuals that are `shift` bits shorter; gives their escaped bits. */
function countCoarse(scratch: usize, shift: i64): u64 {
  const counts = scratch + countsOffset;
  const fine = scratch + sizesOffset;
  const beyond = scratch + beyondOffset;
  memory.fill(counts, 0, 64);
  let bits = load<u64>(beyond + 8 + (<usize>shift << 3));
  for (let value = -fineMax; value < fineMax; value++) {
    const count = load<u32>(fine + (<usize>(value + fineMax) << 2));
    const code = zigzag(value >> shift);
    const symbol = <usize>min<u64>(code, 15);
    store<u32>(counts + (symbol << 2), load<u32>(counts + (symbol << 2)) + count);
    if (code >= 15) bits += <u64>count * escapedBits(code);
  }
  const escaped = counts + (15 << 2);
  store<u32>(escaped, load<u32>(escaped) + <u32>load<u64>(beyond));
  return bits;
}

/** The book with which the counted symbols take the fewest bits: bits * 256 + book. */
function cheapestBook(tables: usize, counts: usize): u64 {
  const low = i16x8.narrow_i32x4_s(v128.load(counts), v128.load(counts, 16));
  const high = i16x8.narrow_i32x4_s(v128.load(counts, 32), v128.load(counts, 48));
  let best: u64 = u64.MAX_VALUE;
  for (let book: usize = 0; book < 16; book++) {
    const lengths = v128.load(tables + bookLengthsOffset + (book << 4));
    const sums = i32x4.add(
      i32x4.dot_i16x8_s(low, i16x8.extend_low_i8x16_u(lengths)),
      i32x4.dot_i16x8_s(high, i16x8.extend_high_i8x16_u(lengths)),
    );
    const pairs = i32x4.add(sums, v128.shuffle<u32>(sums, sums, 2, 3, 0, 1));
    const bits = <u64>(i32x4.extract_lane(pairs, 0) + i32x4.extract_lane(pairs, 1));
    best = min(best, (bits << 8) | <u64>book);
  }
  return best;
}

function writeLowBits(residuals: usize, steps: usize, lowBits: u64, o: usize): usize {
  const end = residuals + (steps << 3);
  const mask: u64 = (1 << lowBits) - 1;
  let pending: u64 = 0;
  let pendingBits: u64 = 0;
  for (let p = residuals; p < end; p += 8) {
    const bits = load<u64>(p) & mask;
    store<u64>(o, pending | (bits << pendingBits));
    pendingBits += lowBits;
    if (pendingBits >= 64) {
      // The word is full: what did not fit begins the next one.
      pendingBits -= 64;
      o += 8;
      pending = pendingBits == 0 ? 0 : bits >> (lowBits - pendingBits);
    } else {
      pending |= bits << (pendingBits - lowBits);
    }
  }
  store<u64>(o, pending);
  return o + <usize>((pendingBits + 7) >> 3);
}

function writeSymbols(
  residuals: usize,
  steps: usize,
  tables: usize,
  book: u32,
  lowBits: i64,
  o: usize,
): usize {
  const end = residuals + (steps << 3);
  const lengths = tables + bookLengthsOffset + (<usize>book << 4);
  const codes = tables + bookCodesOffset + (<usize>book << 5);
  let pending: u64 = 0;
  let pendingBits: u64 = 0;
  for (let p = residuals; p < end; p += 8) {
    const code = zigzag(load<i64>(p) >> lowBits);
    const symbol = <usize>min<u64>(code, 15);
    pending |= <u64>load<u16>(codes + (symbol << 1)) << pendingBits;
    pendingBits += <u64>load<u8>(lengths + symbol);
    if (symbol == 15) {
      const over = code - 15;
      const overBits = max<u64>(1, bitLength(over));
      pending |= (overBits - 1) << pendingBits;
      pendingBits += 6;
      store<u64>(o, pending);
      o += <usize>(pendingBits >> 3);
      pending >>= pendingBits & ~7;
      pendingBits &= 7;
      store<u64>(o, pending | (over << pendingBits));
      pendingBits += overBits;
      if (pendingBits >= 64) {
        pendingBits -= 64;
        o += 8;
        pending = pendingBits == 0 ? 0 : over >> (overBits - pendingBits);
      } else {
        pending |= over << (pendingBits - overBits);
      }
    }
    store<u64>(o, pending);
    o += <usize>(pendingBits >> 3);
    pending >>= pendingBits & ~7;
    pendingBits &= 7;
  }
  store<u64>(o, pending);
  return o + (pendingBits > 0 ? 1 : 0);
}
