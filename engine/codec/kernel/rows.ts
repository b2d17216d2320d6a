// Rows one by one, each as the difference from the row before: the form of a store's heads and of
// chunks of kind "rows" (docs/formats/chunk.md), so that a series costs little before its rows are
// sealed, a row touches few cache lines, and a read copies a head as it is.
//
// A row is a control byte and what it says: bits 0-1, time: as far from the row before as that from
// its own (0), that and an int16 of milliseconds more (1), a u32 of milliseconds (2) or an int64 of
// nanoseconds (3) after the row before; bits 2-3, value: the value before plus an int8 (0), int16
// (1) or int32 (2), or all eight bytes (3); bits 4-6, version: the same (0), a u16 more (1), an
// int16 more than the time went on (2), an int24 (3) or an int32 more (4), or just as much more as
// the time went on (5); bit 7, only where rows have start times: another start than that of the row
// before, as an int64 of nanoseconds. The row before the first has value 0, no step, no start, and a
// time and a version that whoever keeps the rows knows.
//
// Rows are read with their lags: the version of a row less its time, both in 1/64 milliseconds.
// Rows with one time compare by lag as they do by version, and rows that were written as soon as
// they came about all have the same one.

export const nanosPerMilli: i64 = 1000000;
/** As in lib/hybrid_clock.ts. */
export const versionsPerMilli: i64 = 64;
/** `versionNanos` of lib/hybrid_clock.ts. */
export const versionNanos: i64 = 15625;
/** The longest row without a start time. */
export const rowBytesMax: usize = 21;
export const startBytes: usize = 8;
/** In the control byte. */
export const startChangesFlag: u32 = 128;
/** The shortest. */
export const rowBytesMin: usize = 2;

/** What reading rows found besides their columns. */
@unmanaged
export class RowsFound {
  lagLowest: i64;
  lagHighest: i64;
  /** Version of the last row. */
  version: i64;
  /** Step of the last row, in milliseconds. */
  stepMillis: u32;
  /** Start time of the last row, of rows that have some. */
  start: i64;
}
export const rowsFoundBytes: usize = 40;

export function floorDiv(value: i64, divisor: i64): i64 {
  const quotient = value / divisor;
  return quotient * divisor > value ? quotient - 1 : quotient;
}

/** Times `versionNanos` it is 1 modulo 2^64, so multiples of `versionNanos` are divided by it. */
const versionNanosInverse: i64 = 8723391485480952121;
/** The highest version of a time. */
const versionOfTimeMax: i64 = 590295810358705;

/** The version whose time it is: lags count from it. */
@inline
export function versionAt(nanos: i64): i64 {
  // Any other time gives a product beyond that: usual ones, of whole milliseconds, need no division.
  const quotient = nanos * versionNanosInverse;
  if (<u64>(quotient + versionOfTimeMax) <= <u64>versionOfTimeMax << 1) return quotient;
  return floorDiv(nanos, versionNanos);
}

/** Time of the row at p, relative to the row before, when that has no step. */
export function firstDelta(p: usize): i64 {
  const form = load<u8>(p) & 3;
  if (form == 0) return 0;
  if (form == 3) return load<i64>(p, 1);
  return (form == 1 ? <i64>load<i16>(p, 1) : <i64>load<u32>(p, 1)) * nanosPerMilli;
}

/**
 * Reads `count` rows, at least one, into columns; gives the place after them, or 0 when they are
 * malformed: longer than their bytes, of a form that is never written, or with a version beyond
 * [0, versionMax]. Up to `rowBytesMax` bytes after the end may be looked at.
 * @param nanos time of the row before the first
 * @param version of the row before the first
 * @param lags int64s: 1/64 milliseconds from a row's time to its version
 */
export function readRows(
  p: usize,
  end: usize,
  count: u32,
  nanos: i64,
  version: i64,
  versionMax: i64,
  times: usize,
  values: usize,
  lags: usize,
  found: RowsFound,
): usize {
  return readEach(false, p, end, count, nanos, version, versionMax, times, values, lags, 0, found);
}

/** The same of rows with start times; int64 nanoseconds, 0 for none. */
export function readStartedRows(
  p: usize,
  end: usize,
  count: u32,
  nanos: i64,
  version: i64,
  versionMax: i64,
  times: usize,
  values: usize,
  lags: usize,
  starts: usize,
  found: RowsFound,
): usize {
  return readEach(true, p, end, count, nanos, version, versionMax, times, values, lags, starts, found);
}

@inline
function readEach(
  hasStarts: bool,
  p: usize,
  end: usize,
  count: u32,
  nanos: i64,
  version: i64,
  versionMax: i64,
  times: usize,
  values: usize,
  lags: usize,
  starts: usize,
  found: RowsFound,
): usize {
  let start: i64 = 0;
  let step: i64 = 0;
  let bits: u64 = 0;
  // Whole milliseconds are whole steps of versions, so only other times need a division.
  let atTime = versionAt(nanos);
  let lowest = i64.MAX_VALUE;
  let highest = i64.MIN_VALUE;
  for (let row: usize = 0; row < <usize>count << 3; row += 8) {
    const control = <u32>load<u8>(p++);
    const timeForm = control & 3;
    if (timeForm < 3) {
      if (timeForm == 1) {
        step += <i64>load<i16>(p);
        p += 2;
      } else if (timeForm == 2) {
        step = <i64>load<u32>(p);
        p += 4;
      }
      nanos += step * nanosPerMilli;
      atTime += step * versionsPerMilli;
    } else {
      nanos += load<i64>(p);
      p += 8;
      step = 0;
      atTime = versionAt(nanos);
    }
    const valueForm = (control >> 2) & 3;
    if (valueForm == 3) {
      bits = load<u64>(p);
      p += 8;
    } else {
      let more: f64;
      if (valueForm == 0) {
        more = <f64>load<i8>(p);
        p += 1;
      } else if (valueForm == 1) {
        more = <f64>load<i16>(p);
        p += 2;
      } else {
        more = <f64>load<i32>(p);
        p += 4;
      }
      const value = reinterpret<f64>(bits) + more;
      // Bits of a NaN that was computed are not the same everywhere.
      if (value != value) return 0;
      bits = reinterpret<u64>(value);
    }
    const versionForm = hasStarts ? (control >> 4) & 7 : control >> 4;
    if (versionForm == 5) {
      version += step * versionsPerMilli;
    } else if (versionForm == 1) {
      version += <i64>load<u16>(p);
      p += 2;
    } else if (versionForm == 2) {
      version += step * versionsPerMilli + <i64>load<i16>(p);
      p += 2;
    } else if (versionForm == 3) {
      const more = load<i32>(p);
      version += <i64>((more << 8) >> 8);
      p += 3;
    } else if (versionForm == 4) {
      version += <i64>load<i32>(p);
      p += 4;
    } else if (versionForm != 0) return 0;
    if (hasStarts) {
      if (control & startChangesFlag) {
        start = load<i64>(p);
        p += startBytes;
      }
      store<i64>(starts + row, start);
    }
    if (p > end || <u64>version > <u64>versionMax) return 0;
    const lag = version - atTime;
    store<i64>(times + row, nanos);
    store<u64>(values + row, bits);
    store<i64>(lags + row, lag);
    lowest = min(lowest, lag);
    highest = max(highest, lag);
  }
  found.stepMillis = <u32>step;
  found.version = version;
  found.start = start;
  found.lagLowest = lowest;
  found.lagHighest = highest;
  return p;
}
