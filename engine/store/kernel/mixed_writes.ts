// Writes of typed rows: admission and application. A row whose version is derived is compared with the floats of its
// block too.
import { versionAt } from '../../codec/kernel/codec';
import { fieldsOf, notCanonical } from '../../typed/kernel/check';
import { placed } from '../../typed/kernel/fields';
import { findHeld, Held, heldAt, isHeldAlready, isNew, isSuperseded } from './held';
import { sortLate } from './late_order';
import { forgetLooked, state, usedBytes } from './memory/pages';
import { isMergeableTyped, orderOfTyped } from './typed/desk';
import {
  blockSizeOf,
  findNode,
  floatRowsOf,
  isFlushed,
  makeCurrent,
  Node,
  nodeOf,
  park,
  Series,
  seriesAt,
  setFlushed,
  typedOf,
  TypedPart,
} from './memory/series';
import { addTyped, heldTyped, typedBytesNeeded } from './typed/part';
import {
  derivedVersion,
  noBytesAreEnough,
  outcomeBadValue,
  outcomeResourceExhausted,
  outcomeSuperseded,
  outcomeTooFarFuture,
  outcomeTooFarPast,
  outcomeUnknownReference,
  outcomeWritten,
} from './writes';

/**
 * What the batches of a group add to a block from when they are looked at until they are applied; blocks of one bucket are
 * counted together. There may be two groups: one is looked at while the one before it is in the log, and not applied yet.
 */
@unmanaged
class Added {
  rows: u64;
  fields: u64;
  valueBytes: u64;
}
const bucketCount: u32 = 512;
const bucketBytes: usize = 24;
const groupBytes: usize = 512 * 24;
const addedAt: usize = memory.data(2 * 512 * 24, 16);

/** Nothing of the group (0 or 1) is on its way: it begins, or all of it is applied. */
export function clearTypedGroup(group: u32): void {
  memory.fill(addedAt + <usize>group * groupBytes, 0, groupBytes);
}

/** Of group 0; that of group 1 is `groupBytes` further on. */
function addedOf(slot: u32, series: Series, nanos: i64): usize {
  const block = <u32>(nanos / blockSizeOf(series));
  const hash = (slot * 0x9e3779b1) ^ (block * 0x85ebca6b);
  return addedAt + <usize>((hash >>> 16) & (bucketCount - 1)) * bucketBytes;
}

/** Bytes that the typed row may make its series take. What work takes meanwhile is left free by all admission. */
function typedNeeded(series: Series, nanos: i64, length: u32, fields: u32, addedTo: usize): usize {
  const node = findNode(series, nanos);
  let part: TypedPart | null = null;
  if (node != null) part = typedOf(node);
  const added = changetype<Added>(addedTo);
  const ofOther = changetype<Added>(addedTo + groupBytes);
  let rows = added.rows + ofOther.rows + 1;
  let allFields = added.fields + ofOther.fields + <u64>fields;
  let valueBytes = added.valueBytes + ofOther.valueBytes + <u64>length;
  if (part != null) {
    rows += <u64>(part.areaRows + part.headCount);
    allFields += part.areaFields + <u64>part.headFields;
    valueBytes += part.valueBytes;
  }
  const isMergeable =
    rows <= <u64>u32.MAX_VALUE && isMergeableTyped(<u32>rows, allFields, valueBytes);
  return isMergeable ? typedBytesNeeded(part, length) : noBytesAreEnough;
}

/**
 * `check` of typed rows, whose values end at `ends` (u32) and lie one after the other at `bytes`: these are looked at
 * whole.
 * @param group 0 or 1: what it is counted with until it is applied
 */
export function checkTyped(
  slots: usize,
  generations: usize,
  times: usize,
  ends: usize,
  bytes: usize,
  outcomes: usize,
  rowCount: usize,
  unitNanos: i64,
  namespaceOrdinal: u32,
  nanosFrom: i64,
  nanosEnd: i64,
  budgetBytes: usize,
  group: u32,
): u32 {
  const seriesEnd = state().seriesEnd;
  const unitsMax = i64.MAX_VALUE / unitNanos;
  let used: u64 = usedBytes();
  let refused: u32 = 0;
  let valueAt = bytes;
  for (let row: usize = 0; row < rowCount; row++) {
    const at = valueAt;
    valueAt = bytes + <usize>load<u32>(ends + (row << 2));
    if (load<u8>(outcomes + row) != outcomeWritten) {
      refused++;
      continue;
    }
    const count = fieldsOf(at, valueAt);
    const slot = load<u32>(slots + (row << 2));
    const generation = load<u32>(generations + (row << 2));
    const units = load<i64>(times + (row << 3));
    const nanos = units * unitNanos;
    let outcome = outcomeWritten;
    if (count == notCanonical) outcome = outcomeBadValue;
    else if (slot >= seriesEnd || !isOf(seriesAt(slot), generation, namespaceOrdinal)) {
      outcome = outcomeUnknownReference;
    } else if (units < -unitsMax || (units <= unitsMax && nanos < nanosFrom)) {
      outcome = outcomeTooFarPast;
    } else if (units > unitsMax || nanos >= nanosEnd) {
      outcome = outcomeTooFarFuture;
    } else {
      const series = seriesAt(slot);
      const length = <u32>(valueAt - at);
      const addedTo = addedOf(slot, series, nanos);
      const needed = typedNeeded(series, nanos, length, count, addedTo);
      if (used + <u64>needed > <u64>budgetBytes) outcome = outcomeResourceExhausted;
      else {
        used += <u64>needed;
        series.isAdmitted = 1;
        const added = changetype<Added>(addedTo + <usize>group * groupBytes);
        added.rows++;
        added.fields += <u64>count;
        added.valueBytes += <u64>length;
      }
    }
    if (outcome == outcomeWritten) continue;
    store<u8>(outcomes + row, <u8>outcome);
    refused++;
  }
  return refused;
}

function isOf(series: Series, generation: u32, namespaceOrdinal: u32): bool {
  return (
    series.generation == generation &&
    <u32>series.namespaceOrdinal == namespaceOrdinal &&
    series.isLive != 0
  );
}

/** As `lateRowsAtOnce` of floats, of which one is a tenth of the work. */
const lateTypedAtOnce: u32 = 256;

/**
 * `append` of typed rows whose values `checkTyped` has looked at; the answer is as there.
 * @param starts i64 nanoseconds, 0 for none
 */
export function appendTyped(
  slots: usize,
  generations: usize,
  times: usize,
  starts: usize,
  ends: usize,
  bytes: usize,
  outcomes: usize,
  late: usize,
  rowCount: usize,
  unitNanos: i64,
  version: i64,
  isDerived: bool,
): u32 {
  const s = state();
  s.batchVersion = version;
  s.batchVersionHighest = max(s.batchVersionHighest, version);
  forgetLooked();
  let superseded: u32 = 0;
  let lateCount: u32 = 0;
  let lateSeen: u32 = 0;
  let row: usize = 0;
  for (; row < rowCount && lateSeen < lateTypedAtOnce; row++) {
    if (load<u8>(outcomes + row) != outcomeWritten) continue;
    const slot = load<u32>(slots + (row << 2));
    if (slot >= s.seriesEnd) continue;
    const series = seriesAt(slot);
    if (series.generation != load<u32>(generations + (row << 2)) || !series.isLive) continue;
    const nanos = load<i64>(times + (row << 3)) * unitNanos;
    let rowVersion = version;
    if (isDerived) {
      const atTime = versionAt(nanos);
      rowVersion = derivedVersion(version, atTime);
      // A file may have another value, whatever the memory has.
      const ofFiles = max(
        s.versionRecentFiles,
        rowVersion == atTime ? 0 : s.versionOtherFiles,
      );
      if (rowVersion <= ofFiles) {
        store<u8>(outcomes + row, <u8>outcomeSuperseded);
        superseded++;
        continue;
      }
    }
    if (isLateTyped(series, nanos)) {
      lateSeen++;
      if (isDerived) {
        store<u16>(late + (<usize>(lateCount++) << 1), <u16>row);
        continue;
      }
    }
    const value = valueOf(bytes, ends, row);
    const start = load<i64>(starts + (row << 3));
    if (appendTypedRow(series, nanos, start, value, rowVersion, isDerived)) continue;
    store<u8>(outcomes + row, <u8>outcomeSuperseded);
    superseded++;
  }
  const sorted = sortLate(late, late + (rowCount << 1), lateCount, slots, times);
  for (let i: u32 = 0; i < lateCount; i++) {
    const lateRow = <usize>load<u16>(sorted + (<usize>i << 1));
    const series = seriesAt(load<u32>(slots + (lateRow << 2)));
    const nanos = load<i64>(times + (lateRow << 3)) * unitNanos;
    const rowVersion = derivedVersion(version, versionAt(nanos));
    const value = valueOf(bytes, ends, lateRow);
    const start = load<i64>(starts + (lateRow << 3));
    if (appendTypedRow(series, nanos, start, value, rowVersion, true)) continue;
    store<u8>(outcomes + lateRow, <u8>outcomeSuperseded);
    superseded++;
  }
  s.answer = row;
  return superseded;
}

/** Whether a row is compared with what its block holds. */
function isLateTyped(series: Series, nanos: i64): bool {
  const found = findNode(series, nanos);
  if (found == null) return false;
  const node = found!;
  const part = typedOf(node);
  return (part != null && nanos <= part.lastNanos) || floatRowsOf(node) != 0;
}

/** Value of a row, `placed`. */
@inline
function valueOf(bytes: usize, ends: usize, row: usize): u64 {
  const first = row == 0 ? 0 : <usize>load<u32>(ends + (row << 2) - 4);
  return placed(bytes + first, <usize>load<u32>(ends + (row << 2)) - first);
}

/**
 * Appends one typed row, and counts it. Traps as `appendRow` does.
 * @returns false when its version is derived, and another value stands at that time that it cannot replace
 */
function appendTypedRow(
  series: Series,
  nanos: i64,
  start: i64,
  value: u64,
  version: i64,
  isDerived: bool,
): bool {
  const node = nodeOf(series, nanos);
  if (node == null) unreachable();
  if (series.current == changetype<usize>(node)) park(series);
  const lag = version - versionAt(nanos);
  if (isDerived) {
    const standing = compareTypedWithHeld(series, node!, nanos, lag, value, start);
    if (standing != isNew) return standing == isHeldAlready;
  }
  const at = <usize>(value & 0xffffffff);
  addTyped(node!, nanos, lag, start, value, fieldsOf(at, at + <usize>(value >> 32)));
  return true;
}

function compareTypedWithHeld(
  series: Series,
  node: Node,
  nanos: i64,
  lag: i64,
  value: u64,
  start: i64,
): u32 {
  if (floatRowsOf(node) != 0 && nanos <= node.lastNanos) {
    const current = series.current;
    const wasFlushed = isFlushed(node);
    park(series);
    makeCurrent(series, node);
    const isFound = findHeld(series, nanos, lag + versionAt(nanos));
    park(series);
    // Nothing was written.
    if (wasFlushed) setFlushed(node);
    if (current != 0) makeCurrent(series, changetype<Node>(current));
    // A typed value goes before a float of the same version.
    const float = changetype<Held>(heldAt);
    if (!isFound || (float.isSome && float.lag > lag)) return isSuperseded;
  }
  const part = typedOf(node);
  if (part == null) return isNew;
  const held = heldTyped(node, part, nanos);
  if (held == null) return isSuperseded;
  if (!held.isSome || held.lag < lag) return isNew;
  if (orderOfTyped(0, held.value, held.start, 0, value, start) == 0) return isHeldAlready;
  const order = orderOfTyped(held.lag, held.value, held.start, lag, value, start);
  return order > 0 ? isSuperseded : isNew;
}
