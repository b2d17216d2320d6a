// The rows of a head: appended one by one, each as the difference from the row before, so that a series costs
// little before its rows are sealed and a row touches few cache lines. Nobody but a store sees this form.
//
// A head begins with the version of its first row, int64. A row is a control byte and what it says:
// bits 0-1, time: as far from the row before as that from its own (0), that and an int16 of milliseconds more (1),
//   a u32 of milliseconds (2) or an int64 of nanoseconds (3) behind the row before;
// bits 2-3, value: the value before plus an int8 (0), int16 (1) or int32 (2), or all eight bytes (3);
// bits 4-6, version: the same (0), a u16 more (1), an int16 more than the time went on (2), an int24 (3) or an int32
//   more (4).
// The row before the first has the block's start as its time, value 0, the head's version, and no step.
import { stateAt } from './pages';

export const headRowsMax: u32 = 256;
export const headHeaderBytes: usize = 8;
/** The longest row. */
export const rowBytesMax: usize = 21;

/** Columns that a head is read into: times, values and versions of `headRowsMax` rows. */
export const headTimesAt: usize = stateAt + 4096;
export const headValuesAt: usize = headTimesAt + 2112;
export const headVersionsAt: usize = headValuesAt + 2112;
/** What the last `readRows` found behind its rows. */
const tailStepAt: usize = stateAt + 4000;
const versionLowestAt: usize = stateAt + 4008;
const versionHighestAt: usize = stateAt + 4016;

const nanosPerMilli: i64 = 1000000;
const versionsPerMilli: i64 = 64;
/** A version this near to that of the row before can always be expressed: `headRowsMax` times it is 2^30. */
const nearVersionSteps: i64 = 1 << 22;
/** So near to the head's first version may any be: all differences between rows fit 32 bits then. */
const nearBaseSteps: i64 = 1 << 29;

// @ts-ignore: decorator
@inline
export function isNearVersion(version: i64, before: i64): bool {
  return <u64>(version - before + nearVersionSteps) < <u64>nearVersionSteps << 1;
}

// @ts-ignore: decorator
@inline
export function isNearBase(version: i64, base: i64): bool {
  return <u64>(version - base + nearBaseSteps) < <u64>nearBaseSteps << 1;
}

/**
 * Writes a row that is not earlier than the one before; gives its end and its step in milliseconds above it
 * (end in the low word).
 */
// @ts-ignore: decorator
@inline
export function writeRow(
  at: usize,
  delta: i64,
  stepMillis: u32,
  bits: u64,
  bitsBefore: u64,
  versionDelta: i64,
): u64 {
  let control: u32 = 0;
  let o = at + 1;
  let millis = <i64>stepMillis;
  if (delta != millis * nanosPerMilli) {
    millis = delta / nanosPerMilli;
    if (millis * nanosPerMilli == delta && <u64>millis < 0x100000000) {
      const change = millis - <i64>stepMillis;
      if (change == <i64>(<i16>change)) {
        store<i16>(o, <i16>change);
        o += 2;
        control = 1;
      } else {
        store<u32>(o, <u32>millis);
        o += 4;
        control = 2;
      }
    } else {
      store<i64>(o, delta);
      o += 8;
      control = 3;
      millis = 0;
    }
  }
  // The same value is a difference of 0: to look for it first would be guessed wrong too often.
  const before = reinterpret<f64>(bitsBefore);
  const difference = reinterpret<f64>(bits) - before;
  // A difference of NaN is none.
  const isSmall = abs(difference) < 2147483648;
  const whole = isSmall ? <i32>difference : 0;
  if (isSmall && reinterpret<u64>(before + <f64>whole) == bits) {
    store<i32>(o, whole);
    if (whole == <i32>(<i8>whole)) {
      o += 1;
    } else if (whole == <i32>(<i16>whole)) {
      o += 2;
      control |= 1 << 2;
    } else {
      o += 4;
      control |= 2 << 2;
    }
  } else {
    store<u64>(o, bits);
    o += 8;
    control |= 3 << 2;
  }
  if (versionDelta != 0) {
    const late = versionDelta - millis * versionsPerMilli;
    if (<u64>versionDelta < 65536) {
      store<u16>(o, <u16>versionDelta);
      o += 2;
      control |= 1 << 4;
    } else if (late == <i64>(<i16>late)) {
      store<i16>(o, <i16>late);
      o += 2;
      control |= 2 << 4;
    } else {
      store<i32>(o, <i32>versionDelta);
      const isShort = <u64>(versionDelta + 0x800000) < 0x1000000;
      o += isShort ? 3 : 4;
      control |= isShort ? 3 << 4 : 4 << 4;
    }
  }
  store<u8>(at, <u8>control);
  return (<u64>millis << 32) | <u64>o;
}

/** Reads the first rows of a head into columns; gives the place behind them. */
export function readRows(
  head: usize,
  blockStart: i64,
  count: u32,
  times: usize,
  values: usize,
  versions: usize,
): usize {
  let p = head + headHeaderBytes;
  let nanos = blockStart;
  let step: i64 = 0;
  let bits: u64 = 0;
  let version = load<i64>(head);
  let lowest = version;
  let highest = version;
  for (let row: usize = 0; row < <usize>count << 3; row += 8) {
    const control = <u32>load<u8>(p++);
    const timeForm = control & 3;
    if (timeForm == 0) nanos += step * nanosPerMilli;
    else if (timeForm < 3) {
      if (timeForm == 1) {
        step += <i64>load<i16>(p);
        p += 2;
      } else {
        step = <i64>load<u32>(p);
        p += 4;
      }
      nanos += step * nanosPerMilli;
    } else {
      nanos += load<i64>(p);
      p += 8;
      step = 0;
    }
    const valueForm = (control >> 2) & 3;
    if (valueForm == 0) {
      bits = reinterpret<u64>(reinterpret<f64>(bits) + <f64>load<i8>(p));
      p += 1;
    } else if (valueForm == 3) {
      bits = load<u64>(p);
      p += 8;
    } else {
      const whole = valueForm == 1 ? <i32>load<i16>(p) : load<i32>(p);
      bits = reinterpret<u64>(reinterpret<f64>(bits) + <f64>whole);
      p += valueForm == 1 ? 2 : 4;
    }
    const versionForm = control >> 4;
    if (versionForm == 1) {
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
    }
    store<i64>(times + row, nanos);
    store<u64>(values + row, bits);
    store<i64>(versions + row, version);
    lowest = min(lowest, version);
    highest = max(highest, version);
  }
  store<u32>(tailStepAt, <u32>step);
  store<i64>(versionLowestAt, lowest);
  store<i64>(versionHighestAt, highest);
  return p;
}

/** Step of the last row that was read, in milliseconds. */
export function stepRead(): u32 {
  return load<u32>(tailStepAt);
}

/** Lowest and highest version of the rows that were read; there was at least one. */
export function lowestVersionRead(): i64 {
  return load<i64>(versionLowestAt);
}

export function highestVersionRead(): i64 {
  return load<i64>(versionHighestAt);
}

/** Time of the first row of a head that has one. */
export function firstNanosOf(head: usize, blockStart: i64): i64 {
  const p = head + headHeaderBytes;
  const form = load<u8>(p) & 3;
  if (form == 0) return blockStart;
  if (form == 3) return blockStart + load<i64>(p, 1);
  const millis = form == 1 ? <i64>load<i16>(p, 1) : <i64>load<u32>(p, 1);
  return blockStart + millis * nanosPerMilli;
}
