// Writes of floats: admission of rows before the commit log has them, and their application after it.
import { versionAt } from '../../codec/kernel/codec';
import { versionNanos } from '../../codec/kernel/rows';
import { mergeRowsUsual } from './block_merge';
import { headRowsMax, isStarted } from './head_rows';
import {
  appendAny,
  hasRoom,
  hasRoomForStarted,
  headCapacityAfter,
  headRoomOf,
  isFull,
  isInBlock,
} from './heads';
import { sortLate } from './late_order';
import { forgetLooked, state, usedBytes } from './memory/pages';
import { blockSizeOf, findNode, hasStartedHead, lateRowBytes, Node, Series, seriesAt, typedOf } from './memory/series';

export const outcomeWritten: u32 = 0;
export const outcomeUnknownReference: u32 = 1;
export const outcomeTooFarPast: u32 = 2;
export const outcomeTooFarFuture: u32 = 3;
export const outcomeResourceExhausted: u32 = 6;
export const outcomeSuperseded: u32 = 8;
export const outcomeBadValue: u32 = 10;

/** Rows of one series in one block of the memory: a query decodes no more. */
const blockRowsMax: u64 = 1 << 24;
/**
 * Work space for a row when its block is merged, and when the block is read for a file: columns and
 * what is written from them; with a column of start times.
 */
const mergeRowBytes: u64 = 80;
const startedMergeRowBytes: u64 = 108;
/** More than any memory has. */
export const noBytesAreEnough: usize = u32.MAX_VALUE;

/** Whether the block can still be merged with one more head. */
@inline
function isMergeable(node: Node, rowsMax: u32): bool {
  return node.areaRows + <u32>node.lateCount + headRowsMax <= rowsMax;
}

/**
 * Bytes that the row may make its series take. Rows that are sealed, late or of another block need
 * their block to be merged sooner or later.
 * @param rowsMax that the memory can merge
 * @param hasStart a head of rows without start times is sealed when such a row goes after it
 */
@inline
function bytesNeeded(series: Series, nanos: i64, rowsMax: u32, hasStart: bool): usize {
  if (!isInBlock(series, nanos)) {
    const other = findNode(series, nanos);
    if (other == null) return 4096;
    if (!isMergeable(other, rowsMax)) return noBytesAreEnough;
    // Where it is never the current one, or its head is sealed at once, that counts here.
    const isSealed = hasStart && nanos > other.lastNanos && hasPlainRows(other.head);
    const hasSeal = isSealed || typedOf(other) != null;
    return hasSeal ? 4096 + other.areaLength + (other.areaLength >> 2) : 4096;
  }
  if (nanos <= series.lastNanos && !isMergeable(changetype<Node>(series.current), rowsMax)) {
    return noBytesAreEnough;
  }
  const isSealed = hasStart && nanos > series.lastNanos && hasPlainRows(series.head);
  if (hasRoom(series) && !isSealed) return 0;
  if (hasStartedHead(series) && hasRoomForStarted(series)) return 0;
  if (!isFull(series) && !isSealed) {
    const next = headCapacityAfter(<u32>headRoomOf(series.head, series.headCapacity), true);
    return <usize>max(next, <u32>series.headBytesSealed);
  }
  const node = changetype<Node>(series.current);
  if (!isMergeable(node, rowsMax)) return noBytesAreEnough;
  return 4096 + node.areaLength + (node.areaLength >> 2);
}

/**
 * What one more row may make the area of its block take that has been counted with room to grow by a row before it in the batch: five
 * times its bytes, since an area that grows by quarters is copied that often.
 */
const grownRowBytes: usize = 5 * 32;

/** Whether there are rows in a head, and none of them has a start time. */
@inline
function hasPlainRows(head: usize): bool {
  return head != 0 && !isStarted(head);
}

/**
 * Sets the outcomes (u8) of rows that have none; gives how many have one other than 0. The columns:
 * u32 slots, u32 generations, i64 times in units, i64 start times (0 for a column of none), and the outcomes.
 */
export function check(
  slots: usize,
  generations: usize,
  times: usize,
  starts: usize,
  outcomes: usize,
  rowCount: usize,
  unitNanos: i64,
  namespaceOrdinal: u32,
  nanosFrom: i64,
  nanosEnd: i64,
  budgetBytes: usize,
  reserveBytes: usize,
): u32 {
  const seriesEnd = state().seriesEnd;
  const unitsMax = i64.MAX_VALUE / unitNanos;
  let bytes: u64 = usedBytes();
  const bytesFree = max<i64>(<i64>budgetBytes + <i64>reserveBytes - <i64>bytes, 0);
  const rowBytes = starts == 0 ? mergeRowBytes : startedMergeRowBytes;
  const rowsMax = <u32>min<u64>(<u64>bytesFree / rowBytes, blockRowsMax);
  let refused: u32 = 0;
  // The block whose area was counted last.
  let grownSlot = u32.MAX_VALUE;
  let grownStart: i64 = 0;
  let rowTouched: usize = 0;
  for (let row: usize = 0; row < rowCount; row++) {
    if (row == rowTouched) {
      rowTouched = min(row + rowsTouched, rowCount);
      touchRecords(slots, row, rowTouched, seriesEnd);
    }
    if (load<u8>(outcomes + row) != outcomeWritten) {
      refused++;
      continue;
    }
    let outcome = outcomeUnknownReference;
    const slot = load<u32>(slots + (row << 2));
    if (slot < seriesEnd) {
      const series = seriesAt(slot);
      if (
        series.generation == load<u32>(generations + (row << 2)) &&
        <u32>series.namespaceOrdinal == namespaceOrdinal &&
        series.isLive
      ) {
        const units = load<i64>(times + (row << 3));
        const nanos = units * unitNanos;
        if (units < -unitsMax || (units <= unitsMax && nanos < nanosFrom)) {
          outcome = outcomeTooFarPast;
        } else if (units > unitsMax || nanos >= nanosEnd) {
          outcome = outcomeTooFarFuture;
        } else {
          const hasStart = starts != 0 && load<i64>(starts + (row << 3)) != 0;
          let needed = bytesNeeded(series, nanos, rowsMax, hasStart);
          if (needed > 4096 && needed != noBytesAreEnough) {
            const start = blockStartAt(series, nanos);
            if (slot == grownSlot && start == grownStart) needed = grownRowBytes;
            grownSlot = slot;
            grownStart = start;
          }
          const limit = <u64>budgetBytes + (needed == 0 ? <u64>(reserveBytes >> 1) : 0);
          if (bytes + needed + lateRowBytes > limit) {
            outcome = outcomeResourceExhausted;
          } else {
            outcome = outcomeWritten;
            bytes += needed + lateRowBytes;
            series.isAdmitted = 1;
          }
        }
      }
    }
    if (outcome == outcomeWritten) continue;
    store<u8>(outcomes + row, <u8>outcome);
    refused++;
  }
  return refused;
}

/** `blockStartOf` of lib/block_time.ts. */
@inline
function blockStartAt(series: Series, nanos: i64): i64 {
  const size = blockSizeOf(series);
  const rest = nanos % size;
  return nanos - (rest < 0 ? rest + size : rest);
}

/** Rows whose records or heads are looked at before they are worked on. */
const rowsTouched: usize = 32;

/**
 * Loads what the next rows will write after, and nothing else: the processor waits for all these
 * lines of memory at once instead of for one after the other.
 */
function touchHeads(slots: usize, row: usize, rowEnd: usize, seriesEnd: u32): void {
  let seen: u32 = 0;
  for (; row < rowEnd; row++) {
    const slot = load<u32>(slots + (row << 2));
    if (slot >= seriesEnd) continue;
    const series = seriesAt(slot);
    seen |= <u32>load<u8>(series.head + <usize>series.headBytes);
  }
  state().touched = seen;
}

/** The same for the records of series. */
function touchRecords(slots: usize, row: usize, rowEnd: usize, seriesEnd: u32): void {
  let seen: u32 = 0;
  for (; row < rowEnd; row++) {
    const slot = load<u32>(slots + (row << 2));
    if (slot < seriesEnd) seen |= seriesAt(slot).generation;
  }
  state().touched = seen;
}

/** Versions of rows that are in files, of blocks up to this end, are not above. */
export function noteFiles(version: i64, blockEnd: i64): void {
  const s = state();
  // A row of such a block may still be written with its time as its version.
  const isRecent = versionAt(blockEnd) + <i64>liveLagMax > version;
  if (isRecent) s.versionRecentFiles = max(s.versionRecentFiles, version);
  else s.versionOtherFiles = max(s.versionOtherFiles, version);
}

/** `versionGrain` and `liveLagMax` of lib/hybrid_clock.ts. */
const versionGrain: i64 = 1 << 18;
const liveLagMax: u64 = 1 << 20;

/** `derivedVersion` of lib/hybrid_clock.ts, by the version of the row's time. */
@inline
export function derivedVersion(version: i64, atTime: i64): i64 {
  const lag = version - atTime;
  return max(<u64>lag < liveLagMax ? atTime : version & -versionGrain, 0);
}

/** Rows that are compared with what their blocks hold, or merged into it, in one go: up to some 5 us each. */
const lateRowsAtOnce: u32 = 4096;
/** Those of a long block count as so many: for each forty of them, about, a stretch of it is merged. */
const rowsOfLongBlock: u32 = 64;
/** Where there are typed rows as well these have to be decoded anew in each go: fewer goes. */
const rowsOfMixedBlock: u32 = 8;

/**
 * Applies the rows whose outcome is 0. Those that another value supersedes get that outcome; gives
 * how many. The answer is how many rows were looked at: it ends before the others after so many late ones. Late ones come after the others, in an order of their own, those of one time as they came: a later one that does not
 * replace the other is superseded.
 * @param starts i64 nanoseconds, 0 for none; 0 for a column of none
 * @param late room for two u16 a row
 * @param rowCount at most 65,536
 * @param isDerived versions of rows are derived from their times
 */
export function append(
  slots: usize,
  generations: usize,
  times: usize,
  starts: usize,
  values: usize,
  outcomes: usize,
  late: usize,
  rowCount: usize,
  unitNanos: i64,
  version: i64,
  isDerived: bool,
): u32 {
  const s = state();
  const seriesEnd = s.seriesEnd;
  s.batchVersion = version;
  s.batchVersionHighest = max(s.batchVersionHighest, version);
  forgetLooked();
  // 0 where a unit is less than a step of versions.
  const versionsPerUnit = unitNanos % versionNanos == 0 ? unitNanos / versionNanos : 0;
  const recentFiles = s.versionRecentFiles;
  const otherFiles = max(recentFiles, s.versionOtherFiles);
  let appended: u64 = 0;
  let superseded: u32 = 0;
  let lateCount: u32 = 0;
  let lateSeen: u32 = 0;
  let rowTouched: usize = 0;
  let row: usize = 0;
  for (; row < rowCount && lateSeen < lateRowsAtOnce; row++) {
    if (row == rowTouched) {
      rowTouched = min(row + rowsTouched, rowCount);
      touchHeads(slots, row, rowTouched, seriesEnd);
    }
    if (load<u8>(outcomes + row) != outcomeWritten) continue;
    const slot = load<u32>(slots + (row << 2));
    if (slot >= seriesEnd) continue;
    const series = seriesAt(slot);
    if (series.generation != load<u32>(generations + (row << 2)) || !series.isLive) continue;
    const units = load<i64>(times + (row << 3));
    const nanos = units * unitNanos;
    const bits = load<u64>(values + (row << 3));
    let rowVersion = version;
    if (isDerived) {
      const atTime = versionsPerUnit != 0 ? units * versionsPerUnit : versionAt(nanos);
      rowVersion = derivedVersion(version, atTime);
      // A file may have another value, whatever the memory has.
      if (rowVersion <= (rowVersion == atTime ? recentFiles : otherFiles)) {
        store<u8>(outcomes + row, <u8>outcomeSuperseded);
        superseded++;
        continue;
      }
    }
    if (isLate(series, nanos)) {
      lateSeen += workOf(series, nanos);
      if (isDerived) {
        store<u16>(late + (<usize>(lateCount++) << 1), <u16>row);
        continue;
      }
    }
    const start = starts == 0 ? 0 : load<i64>(starts + (row << 3));
    if (appendAny(series, nanos, bits, rowVersion, isDerived, start)) {
      appended++;
    } else {
      store<u8>(outcomes + row, <u8>outcomeSuperseded);
      superseded++;
    }
  }
  const sorted = sortLate(late, late + (rowCount << 1), lateCount, slots, times);
  for (let i: u32 = 0; i < lateCount; i++) {
    const lateRow = <usize>load<u16>(sorted + (<usize>i << 1));
    const series = seriesAt(load<u32>(slots + (lateRow << 2)));
    const nanos = load<i64>(times + (lateRow << 3)) * unitNanos;
    const bits = load<u64>(values + (lateRow << 3));
    const start = starts == 0 ? 0 : load<i64>(starts + (lateRow << 3));
    if (appendAny(series, nanos, bits, derivedVersion(version, versionAt(nanos)), true, start)) {
      appended++;
    } else {
      store<u8>(outcomes + lateRow, <u8>outcomeSuperseded);
      superseded++;
    }
  }
  s.sampleCount += appended;
  s.answer = row;
  return superseded;
}

/**
 * Whether a row is compared with what its block holds: where it is not the last one, or the block has typed rows. It does not go by
 * which block the row before was of: of two rows of one time the later one comes after the other, whatever is between them.
 */
@inline
function isLate(series: Series, nanos: i64): bool {
  return isInBlock(series, nanos) ? nanos < series.lastNanos : isLateElsewhere(series, nanos);
}

/** The same of a row whose block is not the current one. */
function isLateElsewhere(series: Series, nanos: i64): bool {
  const node = findNode(series, nanos);
  return node != null && (nanos < node!.lastNanos || typedOf(node!) != null);
}

/** How many late rows a late row counts as. */
function workOf(series: Series, nanos: i64): u32 {
  const node = findNode(series, nanos)!;
  if (node.areaRows <= mergeRowsUsual) return 1;
  return typedOf(node) == null ? rowsOfLongBlock : rowsOfMixedBlock;
}
