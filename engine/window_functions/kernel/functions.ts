// Window functions over columns: f64 values of n rows, and for every step the window [start, end)
// of rows. A step without a value gets the bits of the stale marker.

const absentBits: u64 = 0x7ff0000000000002;
/** Sums of whole numbers below it are exact, so that windows may be differences of prefix sums. */
const exactLimit: f64 = 9007199254740992;

@inline
function startOf(starts: usize, step: usize): i32 {
  return load<i32>(starts + (step << 2));
}

@inline
function valueAt(values: usize, row: i32): f64 {
  return load<f64>(values + (<usize>row << 3));
}

/**
 * The newest row of each window, unless it is a stale marker (then its bits say so by themselves).
 */
export function instantRow(values: usize, starts: usize, ends: usize, steps: u32, out: usize): void {
  for (let step: usize = 0; step < <usize>steps; step++) {
    const last = startOf(ends, step) - 1;
    const bits =
      last < startOf(starts, step) ? absentBits : load<u64>(values + (<usize>last << 3));
    store<u64>(out + (step << 3), bits);
  }
}

export function countRow(starts: usize, ends: usize, steps: u32, out: usize): void {
  for (let step: usize = 0; step < <usize>steps; step++) {
    const count = startOf(ends, step) - startOf(starts, step);
    if (count <= 0) store<u64>(out + (step << 3), absentBits);
    else store<f64>(out + (step << 3), <f64>count);
  }
}

/**
 * What a rate needs of the times alone, once for all series with the same times: per step seconds
 * to the start, to the end and between first and last row, and the factor when the start is not
 * moved; seconds of 0 mark no value.
 */
export function rateConstants(
  millis: usize,
  starts: usize,
  ends: usize,
  steps: u32,
  referenceStart: f64,
  referenceStep: f64,
  range: f64,
  isRate: bool,
  constants: usize,
): void {
  const rangeSeconds = range / 1000;
  for (let step: usize = 0; step < <usize>steps; step++) {
    const start = startOf(starts, step);
    const last = startOf(ends, step) - 1;
    const at = constants + (step << 5);
    if (last <= start) {
      store<f64>(at, 0, 16);
      continue;
    }
    const reference = referenceStart + <f64>step * referenceStep;
    const firstTime = valueAt(millis, start);
    const lastTime = valueAt(millis, last);
    const sampled = (lastTime - firstTime) / 1000;
    const mean = sampled / <f64>(last - start);
    const threshold = mean * 1.1;
    let toStart = (firstTime - (reference - range)) / 1000;
    let toEnd = (reference - lastTime) / 1000;
    if (toStart >= threshold) toStart = mean / 2;
    if (toEnd >= threshold) toEnd = mean / 2;
    let factor = (sampled + toStart + toEnd) / sampled;
    if (isRate) factor /= rangeSeconds;
    store<f64>(at, toStart);
    store<f64>(at, toEnd, 8);
    store<f64>(at, sampled, 16);
    store<f64>(at, factor, 24);
  }
}

/**
 * rate and increase; false when more than `visitsMax` rows were looked at again for windows with resets, then
 * nothing counts. `prefix` has room for n f64.
 */
export function counterRow(
  values: usize,
  rows: u32,
  starts: usize,
  ends: usize,
  steps: u32,
  constants: usize,
  prefix: usize,
  range: f64,
  isRate: bool,
  visitsMax: f64,
  out: usize,
): bool {
  const rangeSeconds = range / 1000;
  let visits: f64 = 0;
  const isExact = prefixOfResets(values, rows, prefix);
  for (let step: usize = 0; step < <usize>steps; step++) {
    const at = constants + (step << 5);
    const sampled = load<f64>(at, 16);
    if (sampled == 0) {
      store<u64>(out + (step << 3), absentBits);
      continue;
    }
    const start = startOf(starts, step);
    const last = startOf(ends, step) - 1;
    const first = valueAt(values, start);
    let change = valueAt(values, last) - first;
    const resets = valueAt(prefix, last) - valueAt(prefix, start);
    if (resets != 0) {
      if (isExact) change += resets;
      else {
        visits += <f64>(last - start);
        if (visits > visitsMax) return false;
        change = changeWithResets(values, start, last);
      }
    }
    let factor = load<f64>(at, 24);
    const toStart = load<f64>(at);
    // Most rows are far above zero: then the divisions below are not needed.
    if (change > 0 && first >= 0 && !(sampled * first > toStart * change * 1.000001)) {
      const toZero = sampled * (first / change);
      if (toZero < toStart) {
        factor = (sampled + toZero + load<f64>(at, 8)) / sampled;
        if (isRate) factor /= rangeSeconds;
      }
    }
    store<f64>(out + (step << 3), change * factor);
  }
  return true;
}

/** Whether any sum of the rows is exact: all are whole numbers, and together below the limit. */
function sumsAreExact(values: usize, rows: u32): bool {
  const end = values + (<usize>rows << 3);
  let whole = i64x2.splat(-1);
  let largest = f64x2.splat(0);
  let p = values;
  for (; p + 16 <= end; p += 16) {
    const pair = v128.load(p);
    whole = v128.and(whole, f64x2.eq(f64x2.nearest(pair), pair));
    largest = f64x2.pmax(largest, f64x2.abs(pair));
  }
  if (p < end) {
    const pair = v128.load64_zero(p);
    whole = v128.and(whole, f64x2.eq(f64x2.nearest(pair), pair));
    largest = f64x2.pmax(largest, f64x2.abs(pair));
  }
  if (!i64x2.all_true(whole)) return false;
  const bound = max(f64x2.extract_lane(largest, 0), f64x2.extract_lane(largest, 1));
  return bound * <f64>rows < exactLimit;
}

/**
 * Running sums of what was counted before each reset, when all are whole numbers and the sums exact
 * (true); else running counts of the resets (false). `prefix` may be written one row after its
 * end.
 */
function prefixOfResets(values: usize, rows: u32, prefix: usize): bool {
  const isExact = sumsAreExact(values, rows);
  const one = f64x2.splat(1);
  let sum: f64 = 0;
  store<f64>(prefix, 0);
  // Two rows at a time, so that the running sum is not waited for at every row.
  const end = prefix + (<usize>rows << 3);
  let row = values;
  for (let p = prefix + 8; p < end; p += 16, row += 16) {
    const previous = v128.load(row);
    const isReset = f64x2.lt(v128.load(row, 8), previous);
    const lost = v128.and(isReset, isExact ? previous : one);
    const first = f64x2.extract_lane(lost, 0);
    const both = first + f64x2.extract_lane(lost, 1);
    store<f64>(p, sum + first);
    sum += both;
    store<f64>(p, sum, 8);
  }
  return isExact;
}

function changeWithResets(values: usize, start: i32, last: i32): f64 {
  let previous = valueAt(values, start);
  let change = valueAt(values, last) - previous;
  for (let row = start + 1; row <= last; row++) {
    const value = valueAt(values, row);
    if (value < previous) change += previous;
    previous = value;
  }
  return change;
}

export function deltaRow(
  values: usize,
  starts: usize,
  ends: usize,
  steps: u32,
  constants: usize,
  out: usize,
): void {
  for (let step: usize = 0; step < <usize>steps; step++) {
    const at = constants + (step << 5);
    if (load<f64>(at, 16) == 0) {
      store<u64>(out + (step << 3), absentBits);
      continue;
    }
    const change =
      valueAt(values, startOf(ends, step) - 1) - valueAt(values, startOf(starts, step));
    store<f64>(out + (step << 3), change * load<f64>(at, 24));
  }
}

/** Running sums into prefix[0..n], for rows whose sums are exact; may write one after. */
function prefixOfSums(values: usize, rows: u32, prefix: usize): void {
  let sum: f64 = 0;
  store<f64>(prefix, 0);
  const end = values + (<usize>rows << 3);
  let p = prefix + 8;
  for (let row = values; row < end; row += 16, p += 16) {
    const first = load<f64>(row);
    store<f64>(p, sum + first);
    sum += first + load<f64>(row, 8);
    store<f64>(p, sum, 8);
  }
}

/** What `sumRow` returns. */
const sumDone: i32 = 1;
/** A mean's sum overflows. */
const sumNotHere: i32 = 0;
const sumTooDear: i32 = 2;

/**
 * sum or avg; nothing counts unless it is done, with no more looks at rows than it may. `prefix` has
 * room for n + 1 f64.
 */
export function sumRow(
  values: usize,
  rows: u32,
  starts: usize,
  ends: usize,
  steps: u32,
  prefix: usize,
  isMean: bool,
  visitsMax: f64,
  out: usize,
): i32 {
  // Windows that touch a row more than once are worth prefix sums, where these are exact.
  if (sumsAreExact(values, rows)) {
    prefixOfSums(values, rows, prefix);
    for (let step: usize = 0; step < <usize>steps; step++) {
      const start = startOf(starts, step);
      const end = startOf(ends, step);
      if (end <= start) store<u64>(out + (step << 3), absentBits);
      else {
        const sum = valueAt(prefix, end) - valueAt(prefix, start);
        store<f64>(out + (step << 3), isMean ? sum / <f64>(end - start) : sum);
      }
    }
    return sumDone;
  }
  const total = rowsOfWindows(starts, ends, steps);
  const hasBlocks = total > 4 * <f64>rows && total > <f64>steps * 2 * <f64>blockRows;
  if (total > visitsMax) {
    if (!hasBlocks) return sumTooDear;
    if (total / <f64>blockRows + <f64>steps * 2 * <f64>blockRows > visitsMax) return sumTooDear;
  }
  if (hasBlocks) sumBlocks(values, rows, prefix);
  for (let step: usize = 0; step < <usize>steps; step++) {
    const start = startOf(starts, step);
    const end = startOf(ends, step);
    if (end <= start) {
      store<u64>(out + (step << 3), absentBits);
      continue;
    }
    let sum: f64 = 0;
    let compensation: f64 = 0;
    let row = start;
    while (row < end) {
      let value: f64;
      if (hasBlocks && (row & (blockRows - 1)) == 0 && end - row >= blockRows) {
        const block = prefix + (<usize>(row >> blockShift) << 4);
        value = load<f64>(block);
        compensation += load<f64>(block, 8);
        row += blockRows;
      } else {
        value = valueAt(values, row);
        row++;
      }
      const next = sum + value;
      compensation += lostBits(sum, value, next);
      sum = next;
    }
    // Infinite or NaN: engine/window_functions/functions.ts has the rules for means and for what is
    // lost on the way.
    if (!(abs(sum) < Infinity)) return sumNotHere;
    const count = <f64>(end - start);
    store<f64>(out + (step << 3), isMean ? sum / count + compensation / count : sum + compensation);
  }
  return sumDone;
}

/** What the sum of the two loses by rounding (Neumaier). */
@inline
function lostBits(sum: f64, value: f64, next: f64): f64 {
  return abs(sum) >= abs(value) ? sum - next + value : value - next + sum;
}

/** Rows of all windows together: where they stand in many, sums of blocks are worth making. */
function rowsOfWindows(starts: usize, ends: usize, steps: u32): f64 {
  let total: f64 = 0;
  for (let step: usize = 0; step < <usize>steps; step++) {
    total += <f64>(startOf(ends, step) - startOf(starts, step));
  }
  return total;
}

/**
 * Sum and compensation of each whole block; a block keeps its own, so that no window inherits
 * another's.
 */
function sumBlocks(values: usize, rows: u32, blocks: usize): void {
  const blockCount = <i32>rows >> blockShift;
  for (let block: i32 = 0; block < blockCount; block++) {
    let sum: f64 = 0;
    let compensation: f64 = 0;
    const first = block << blockShift;
    for (let row = first; row < first + blockRows; row++) {
      const value = valueAt(values, row);
      const next = sum + value;
      compensation += lostBits(sum, value, next);
      sum = next;
    }
    const at = blocks + (<usize>block << 4);
    store<f64>(at, sum);
    store<f64>(at, compensation, 8);
  }
}

const blockShift: i32 = 4;
const blockRows: i32 = 1 << blockShift;

@inline
function better(value: f64, held: f64, wantsGreatest: bool): bool {
  return (wantsGreatest ? value > held : value < held) || held != held;
}

function extremeOf(
  values: usize,
  start: i32,
  end: i32,
  held: f64,
  wantsGreatest: bool,
): f64 {
  let best = held;
  for (let row = start; row < end; row++) {
    const value = valueAt(values, row);
    if (better(value, best, wantsGreatest)) best = value;
  }
  return best;
}

/** min or max; `blocks` has room for n / 16 + 1 f64. NaN only where all rows are NaN. */
export function extremeRow(
  values: usize,
  rows: u32,
  starts: usize,
  ends: usize,
  steps: u32,
  blocks: usize,
  wantsGreatest: bool,
  out: usize,
): void {
  const blockCount = <i32>rows >> blockShift;
  for (let block: i32 = 0; block < blockCount; block++) {
    const first = block << blockShift;
    const best = extremeOf(
      values,
      first + 1,
      first + blockRows,
      valueAt(values, first),
      wantsGreatest,
    );
    store<f64>(blocks + (<usize>block << 3), best);
  }
  for (let step: usize = 0; step < <usize>steps; step++) {
    const start = startOf(starts, step);
    const end = startOf(ends, step);
    if (end <= start) {
      store<u64>(out + (step << 3), absentBits);
      continue;
    }
    let best = valueAt(values, start);
    const blockFirst = (start + blockRows) >> blockShift;
    const blockPast = end >> blockShift;
    if (blockFirst >= blockPast) best = extremeOf(values, start + 1, end, best, wantsGreatest);
    else {
      best = extremeOf(values, start + 1, blockFirst << blockShift, best, wantsGreatest);
      best = extremeOf(blocks, blockFirst, blockPast, best, wantsGreatest);
      best = extremeOf(values, blockPast << blockShift, end, best, wantsGreatest);
    }
    store<f64>(out + (step << 3), best);
  }
}
