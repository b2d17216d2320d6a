// Writes a stream of integers: a line, few residuals, or all of them by a book of codes.
import {
  bookCodesOffset,
  bookLengthsOffset,
  formPacked,
  formPackedWithLowBits,
  formSparse,
  roundedMean,
  zigzag,
} from './codec';
import {
  beyondOffset,
  countsOffset,
  encodeRowsMax,
  packingOffset,
  residualsOffset,
  sizesOffset,
} from './scratch';

const factorStepsMin: usize = 8;
const medianSampleCount: usize = 7;

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

/** Appends the integers of the scratch's first column after the first one; it may change them. */
export function writeIntegers(
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

/**
 * Steps so near to the mean have sums below 2^53, over all `encodeRowsMax` rows and their offsets
 * too.
 */
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
 * Chooses book and low bits by what they cost; gives the bits. `packing` gets book, low bits and
 * how many residuals are zero.
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

/**
 * Values that the fine count tells apart: -32 to 31. Beyond, up to two bits coarser, all is
 * escaped.
 */
const fineMax: i64 = 32;

/**
 * Counts the residuals without their low bits, at the least number of these; the number and the
 * escaped bits of those beyond the count are summed for each number of low bits.
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

/**
 * Sums the fine count to symbols of residuals that are `shift` bits shorter; gives their escaped
 * bits.
 */
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
