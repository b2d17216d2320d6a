// The rows of a head, appended one by one in the form of engine/codec/kernel/rows.ts. A head begins
// with the version of its first row, int64; the row before the first has the block's start as its
// time. One of rows with start times says so in a bit that no version has, and has the last one's
// start time after it.
import { versionMax } from '../../codec/kernel/codec';
import { state, stateAt } from './memory/pages';
import {
  firstDelta,
  nanosPerMilli,
  readRows as readRowsAt,
  readStartedRows,
  RowsFound,
  startBytes,
  startChangesFlag,
  versionsPerMilli,
} from '../../codec/kernel/rows';

export const headRowsMax: u32 = 256;
const headHeaderBytes: usize = 8;
const startedHeaderBytes: usize = 16;
const startedFlag: i64 = 1 << 62;

/** Columns that a head is read into: times, values and lags of `headRowsMax` rows. */
export const headTimesAt: usize = stateAt + 4096;
export const headValuesAt: usize = headTimesAt + 2112;
export const headLagsAt: usize = headValuesAt + 2112;
export const headStartsAt: usize = headLagsAt + 2112;
/** What the last `readRows` found besides its rows. */
const foundAt: usize = stateAt + 4000;

/**
 * A version this near to that of the row before can always be expressed: `headRowsMax` times it is
 * 2^30.
 */
const nearVersionSteps: i64 = 1 << 22;
/**
 * So near to the head's first version may any be: all differences between rows fit 32 bits then.
 */
const nearBaseSteps: i64 = 1 << 29;
const versionSpanMax: i64 = 1 << 30;

/** Whether rows of the head have start times. */
@inline
export function isStarted(head: usize): bool {
  return (load<i64>(head) & startedFlag) != 0;
}

/** Version of the first row. */
@inline
export function baseVersionOf(head: usize): i64 {
  return load<i64>(head) & ~startedFlag;
}

/** Begins an empty head; gives the length of what it begins with. */
export function beginRows(head: usize, version: i64, hasStarts: bool): usize {
  if (!hasStarts) {
    store<i64>(head, version);
    return headHeaderBytes;
  }
  store<i64>(head, version | startedFlag);
  store<i64>(head, 0, 8);
  return startedHeaderBytes;
}

/** Start time of the last row of a head whose rows have some. */
@inline
export function lastStartOf(head: usize): i64 {
  return load<i64>(head, 8);
}

@inline
export function noteLastStart(head: usize, start: i64): void {
  store<i64>(head, start, 8);
}

@inline
function rowsOf(head: usize): usize {
  return head + (isStarted(head) ? startedHeaderBytes : headHeaderBytes);
}

/** Adds the start time to a row that was written at `at`, unless it is that of the row before; gives its end. */
@inline
export function writeStart(at: usize, end: usize, start: i64, startBefore: i64): usize {
  if (start == startBefore) return end;
  store<u8>(at, <u8>(<u32>load<u8>(at) | startChangesFlag));
  store<i64>(end, start);
  return end + startBytes;
}

@inline
export function isNearVersion(version: i64, before: i64): bool {
  return <u64>(version - before + nearVersionSteps) < <u64>nearVersionSteps << 1;
}

@inline
export function isNearBase(version: i64, base: i64): bool {
  return <u64>(version - base + nearBaseSteps) < <u64>nearBaseSteps << 1;
}

/**
 * Writes a row that is not earlier than the one before; gives its end and its step in milliseconds
 * above it (end in the low word).
 */
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
    if (late == 0 && state().keepsRowVersions != 0) {
      control |= 5 << 4;
    } else if (<u64>versionDelta < 65536) {
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

/**
 * Reads the first rows of a head into columns; gives the place after them.
 * @param starts filled with start times, 0 where there are none; 0 when they are not asked for
 */
export function readRows(
  head: usize,
  blockStart: i64,
  count: u32,
  times: usize,
  values: usize,
  lags: usize,
  starts: usize = 0,
): usize {
  // What was read before may lie in these columns.
  state().lookedNode = 0;
  const found = changetype<RowsFound>(foundAt);
  const version = baseVersionOf(head);
  const at = rowsOf(head);
  found.stepMillis = 0;
  found.version = version;
  found.start = 0;
  if (count == 0) return at;
  let end: usize;
  if (isStarted(head)) {
    if (starts == 0) starts = headStartsAt;
    end = readStartedRows(
      at,
      usize.MAX_VALUE,
      count,
      blockStart,
      version,
      versionMax,
      times,
      values,
      lags,
      starts,
      found,
    );
  } else {
    if (starts != 0) memory.fill(starts, 0, <usize>count << 3);
    end = readRowsAt(
      at,
      usize.MAX_VALUE,
      count,
      blockStart,
      version,
      versionMax,
      times,
      values,
      lags,
      found,
    );
  }
  if (end == 0) unreachable();
  return end;
}

/** Step of the last row that was read, in milliseconds. */
export function stepRead(): u32 {
  return changetype<RowsFound>(foundAt).stepMillis;
}

/** Version of the last row that was read, or what the first one is relative to. */
export function versionRead(): i64 {
  return changetype<RowsFound>(foundAt).version;
}

/** Start time of the last row that was read. */
export function startRead(): i64 {
  return changetype<RowsFound>(foundAt).start;
}

/** Lowest and highest lag of the rows that were read; there was at least one. */
export function lowestLagRead(): i64 {
  return changetype<RowsFound>(foundAt).lagLowest;
}

export function highestLagRead(): i64 {
  return changetype<RowsFound>(foundAt).lagHighest;
}

/** Time of the first row of a head that has one. */
export function firstNanosOf(head: usize, blockStart: i64): i64 {
  return blockStart + firstDelta(rowsOf(head));
}

/** No row of a head has a higher version; which one is the highest only reading them would tell. */
export function highestVersionOf(head: usize): i64 {
  return min(baseVersionOf(head) + versionSpanMax, versionMax);
}
