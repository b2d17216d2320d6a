// Appends rows. A row that is later than the last one of its block goes after the head's rows; a
// full head is sealed into a compressed chunk. Rows in between are kept beside both until there are
// enough of them to be merged into what they overlap (block_merge.ts).
import { versionAt } from '../../codec/kernel/codec';
import { rowBytesMax, startBytes } from '../../codec/kernel/rows';
import { forgetHead, mergeBlock } from './block_merge';
import { encodeRun } from './encode';
import {
  baseVersionOf,
  beginRows,
  firstNanosOf,
  headRowsMax,
  headLagsAt,
  headStartsAt,
  headTimesAt,
  headValuesAt,
  highestLagRead,
  isNearBase,
  isNearVersion,
  isStarted,
  lastStartOf,
  lowestLagRead,
  noteLastStart,
  readRows,
  startRead,
  stepRead,
  versionRead,
  writeRow,
  writeStart,
} from './head_rows';
import { compareWithHeld, isHeldAlready, isSuperseded, noteLate } from './held';
import { allocate, release, roomAt, roomOf, state, stateAt } from './memory/pages';
import {
  blockSizeOf,
  hasStartedHead,
  lateRowBytes,
  makeCurrent,
  Node,
  nodeOf,
  park,
  Series,
  typedOf,
} from './memory/series';
import { heldTyped } from './typed/part';

/** After the state: a row and a sealed chunk on their way. */
const rowAt: usize = stateAt + 3904;
const sealedAt: usize = stateAt + 16384;

const lateRowsMin: u32 = 32;
const lateRowsMax: u32 = 2048;
const lateRowsHardMax: u32 = 65535;

/** A head of more bytes is sealed although it has few rows. */
const headBytesMax: u32 = 1536;

/**
 * Bytes that the next larger head has: a short series costs little, one that has sealed chunks in
 * the block already will fill this head too. Steps are wide, for a few series that stay behind keep
 * the pages of the size before, and none has the size of a node, which stays.
 */
export function headCapacityAfter(capacity: u32, hasChunks: bool): u32 {
  if (capacity == 0) return hasChunks ? 320 : 64;
  if (capacity < 144) return 144;
  if (capacity < 320) return 320;
  if (capacity < 640) return 640;
  if (capacity < 1024) return 1024;
  return headBytesMax;
}

@inline
export function isInBlock(series: Series, nanos: i64): bool {
  return <u64>(nanos - series.blockStart) < <u64>blockSizeOf(series);
}

/** Whether the head takes any row without growing. */
@inline
export function hasRoom(series: Series): bool {
  return (
    <u32>series.headBytes + <u32>rowBytesMax <= <u32>series.headCapacity &&
    <u32>series.headCount < headRowsMax
  );
}

/** Bytes that the head may have before it grows; `headCapacity` is 0 where rows have start times. */
@inline
export function headRoomOf(head: usize, headCapacity: u16): usize {
  if (headCapacity != 0 || head == 0) return <usize>headCapacity;
  return min<usize>(roomAt(head), <usize>headBytesMax);
}

/** Whether the head is sealed before it takes another row. */
@inline
export function isFull(series: Series): bool {
  const rowBytes = <u32>rowBytesMax + (hasStartedHead(series) ? <u32>startBytes : 0);
  return <u32>series.headCount >= headRowsMax || <u32>series.headBytes + rowBytes > headBytesMax;
}

/** Whether a head of rows with start times takes another one without growing. */
export function hasRoomForStarted(series: Series): bool {
  const needed = <usize>series.headBytes + rowBytesMax + startBytes;
  return !isFull(series) && needed <= headRoomOf(series.head, series.headCapacity);
}

/**
 * Appends one row, which the caller counts as a sample. Traps when there is no memory at all:
 * admission keeps a reserve for this.
 * @param isDerived the version is derived from the row's time
 * @returns false when it is, and another value stands at that time that it cannot replace
 */
export function appendRow(
  series: Series,
  nanos: i64,
  bits: u64,
  version: i64,
  isDerived: bool,
): bool {
  if (!isInBlock(series, nanos)) {
    if (!switchBlock(series, nanos)) return appendMixed(series, nanos, bits, version, isDerived, 0);
  }
  const before = series.lastNanos;
  if (nanos > before) {
    const versionBefore = series.lastVersion;
    if (!hasRoom(series) || !isNearVersion(version, versionBefore)) {
      appendWithRoom(series, nanos, bits, version, 0);
      return true;
    }
    const at = series.head + <usize>series.headBytes;
    const written = writeRow(
      at,
      nanos - before,
      series.stepMillis,
      bits,
      series.lastBits,
      version - versionBefore,
    );
    series.stepMillis = <u32>(written >> 32);
    series.headBytes = <u16>(<usize><u32>written - series.head);
    series.lastNanos = nanos;
    series.lastVersion = version;
    series.lastBits = bits;
    series.headCount++;
    return true;
  }
  return insertRow(series, nanos, bits, version, isDerived, 0);
}

/** `appendRow` of a row that has a start time. */
export function appendStarted(
  series: Series,
  nanos: i64,
  bits: u64,
  version: i64,
  isDerived: bool,
  start: i64,
): bool {
  if (!isInBlock(series, nanos) && !switchBlock(series, nanos)) {
    return appendMixed(series, nanos, bits, version, isDerived, start);
  }
  if (nanos <= series.lastNanos) return insertRow(series, nanos, bits, version, isDerived, start);
  appendWithRoom(series, nanos, bits, version, start);
  return true;
}

/** The one or the other. @param start 0 for a row that has none */
@inline
export function appendAny(
  series: Series,
  nanos: i64,
  bits: u64,
  version: i64,
  isDerived: bool,
  start: i64,
): bool {
  return start == 0
    ? appendRow(series, nanos, bits, version, isDerived)
    : appendStarted(series, nanos, bits, version, isDerived, start);
}

/** Makes the time's block the current one; false when it has typed rows. */
function switchBlock(series: Series, nanos: i64): bool {
  park(series);
  const node = nodeOf(series, nanos);
  if (node == null) unreachable();
  if (typedOf(node!) != null) return false;
  makeCurrent(series, node!);
  return true;
}

/** A block that has typed rows too is the current one only meanwhile: what stands of these may win. */
function appendMixed(
  series: Series,
  nanos: i64,
  bits: u64,
  version: i64,
  isDerived: bool,
  start: i64,
): bool {
  const node = nodeOf(series, nanos)!;
  if (isDerived) {
    const held = heldTyped(node, typedOf(node)!, nanos);
    // Without work space to look: whoever wrote it sends it with a version of its own.
    if (held == null) return false;
    if (held.isSome && held.lag >= version - versionAt(nanos)) return false;
  }
  makeCurrent(series, node);
  const isAppended = appendAny(series, nanos, bits, version, isDerived, start);
  park(series);
  return isAppended;
}

/** After the last row, when the head may have no room or cannot express the version or the start time. */
function appendWithRoom(series: Series, nanos: i64, bits: u64, version: i64, start: i64): void {
  if (series.headCount != 0) {
    const isNear =
      isNearVersion(version, series.lastVersion) ||
      isNearBase(version, baseVersionOf(series.head));
    const hasPlace = start == 0 || isStarted(series.head);
    if (isFull(series) || !isNear || !hasPlace) sealHead(series);
  }
  const isFirst = series.headCount == 0;
  if (isFirst) beginHead(series, version, start != 0);
  const written = writeRow(
    rowAt,
    nanos - (isFirst ? series.blockStart : series.lastNanos),
    series.stepMillis,
    bits,
    series.lastBits,
    version - series.lastVersion,
  );
  const hasStarts = isStarted(series.head);
  let end = <usize><u32>written;
  if (hasStarts) {
    end = writeStart(rowAt, end, start, lastStartOf(series.head));
    noteLastStart(series.head, start);
  }
  const length = end - rowAt;
  const headBytes = <usize>series.headBytes;
  const room = headRoomOf(series.head, series.headCapacity);
  if (headBytes + length > room) {
    const hasChunks = changetype<Node>(series.current).areaLength != 0;
    resizeHead(series, headCapacityAfter(<u32>room, hasChunks), headBytes);
  }
  memory.copy(series.head + headBytes, rowAt, length);
  series.headBytes = <u16>(headBytes + length);
  series.stepMillis = <u32>(written >> 32);
  series.lastNanos = nanos;
  series.lastVersion = version;
  series.lastBits = bits;
  series.headCount++;
}

function beginHead(series: Series, version: i64, hasStarts: bool): void {
  const hasChunks = changetype<Node>(series.current).areaLength != 0;
  const bytes = <usize>max(headCapacityAfter(0, hasChunks), <u32>series.headBytesSealed);
  const head = allocate(bytes);
  if (head == 0) unreachable();
  series.head = head;
  series.headCapacity = hasStarts ? 0 : <u16>min(roomOf(bytes), <usize>headBytesMax);
  series.headBytes = <u16>beginRows(head, version, hasStarts);
  series.stepMillis = 0;
  series.lastBits = 0;
  series.lastVersion = version;
}

/** Gives the head another size, with its first bytes. */
function resizeHead(series: Series, capacity: u32, bytesKept: usize): void {
  const head = allocate(<usize>capacity);
  if (head == 0) unreachable();
  memory.copy(head, series.head, bytesKept);
  release(series.head);
  series.head = head;
  series.headCapacity = isStarted(head) ? 0 : <u16>capacity;
}

function hasLateRowFrom(node: Node, nanos: i64): bool {
  const end = node.late + <usize>node.lateCount * lateRowBytes;
  for (let at = node.late; at < end; at += lateRowBytes) {
    if (load<i64>(at) >= nanos) return true;
  }
  return false;
}

/** Compresses the head's rows and begins an empty head. */
export function sealHead(series: Series): void {
  const count = <u32>series.headCount;
  const head = series.head;
  const node = changetype<Node>(series.current);
  // Where a chunk has one version for all of its rows, late ones and such that came as chunks from
  // elsewhere must be compared with the head's by the rows' own versions before that.
  const firstNanos = firstNanosOf(head, series.blockStart);
  const isApart = firstNanos > node.areaLastNanos && !hasLateRowFrom(node, firstNanos);
  if (!isApart && mergeBlock(series, node, true)) return;
  const starts: usize = isStarted(head) ? headStartsAt : 0;
  readRows(head, series.blockStart, count, headTimesAt, headValuesAt, headLagsAt, starts);
  const hasOneLag = lowestLagRead() == highestLagRead();
  const end = encodeRun(
    headTimesAt,
    headValuesAt,
    hasOneLag ? 0 : headLagsAt,
    highestLagRead(),
    count,
    sealedAt,
    starts,
  );
  series.headBytesSealed = series.headBytes + <u16>rowBytesMax;
  addToArea(node, sealedAt, end - sealedAt, count, series.lastNanos);
  forgetHead(series);
}

/** Copies sealed chunks after the others of a block. */
export function addToArea(
  node: Node,
  chunks: usize,
  length: usize,
  rows: u32,
  lastNanos: i64,
): void {
  state().lookedNode = 0;
  const lengthNew = node.areaLength + length;
  if (node.area == 0 || lengthNew > roomAt(node.area)) {
    // A quarter more than needed once there is something: few copies, little room unused.
    const wanted = lengthNew + (node.areaLength == 0 ? 0 : lengthNew >> 2);
    const area = allocate(wanted);
    if (area == 0) unreachable();
    memory.copy(area, node.area, node.areaLength);
    if (node.area != 0) release(node.area);
    node.area = area;
  }
  memory.copy(node.area + node.areaLength, chunks, length);
  node.areaLength = lengthNew;
  node.areaRows += rows;
  node.areaLastNanos = max(node.areaLastNanos, lastNanos);
}

/** A row at or before the last one of its block; gives what `appendRow` does. */
function insertRow(
  series: Series,
  nanos: i64,
  bits: u64,
  version: i64,
  isDerived: bool,
  start: i64,
): bool {
  if (isDerived) {
    const standing = compareWithHeld(series, nanos, bits, version, start);
    if (standing == isSuperseded) return false;
    if (standing == isHeldAlready) {
      state().sampleCount--;
      return true;
    }
  }
  const isLast =
    series.headCount != 0 &&
    nanos == series.lastNanos &&
    (start == 0 || isStarted(series.head));
  if (isLast && isNearBase(version, baseVersionOf(series.head))) {
    replaceLastRow(series, bits, version, start);
  } else {
    appendLate(series, changetype<Node>(series.current), nanos, bits, version, start);
  }
  return true;
}

/**
 * The last time again, as when a batch is sent twice: the row that wins stays, and costs nothing
 * more.
 */
function replaceLastRow(series: Series, bits: u64, version: i64, start: i64): void {
  state().sampleCount--;
  const held = series.lastVersion;
  const head = series.head;
  const hasStarts = isStarted(head);
  if (version < held) return;
  if (version == held) {
    if (bits < series.lastBits) return;
    if (bits == series.lastBits && (!hasStarts || start <= lastStartOf(head))) return;
  }
  const rows = <u32>series.headCount - 1;
  const end = readRows(head, series.blockStart, rows, headTimesAt, headValuesAt, headLagsAt);
  const last = (<usize>rows << 3) - 8;
  const isFirst = rows == 0;
  const written = writeRow(
    rowAt,
    series.lastNanos - (isFirst ? series.blockStart : load<i64>(headTimesAt + last)),
    stepRead(),
    bits,
    isFirst ? 0 : load<u64>(headValuesAt + last),
    version - versionRead(),
  );
  let rowEnd = <usize><u32>written;
  if (hasStarts) {
    rowEnd = writeStart(rowAt, rowEnd, start, startRead());
    noteLastStart(head, start);
  }
  const length = rowEnd - rowAt;
  const kept = end - head;
  let capacity = <u32>headRoomOf(head, series.headCapacity);
  while (kept + length > <usize>capacity) capacity = headCapacityAfter(capacity, false);
  resizeHead(series, capacity, kept);
  memory.copy(series.head + kept, rowAt, length);
  series.headBytes = <u16>(kept + length);
  series.lastVersion = version;
  series.lastBits = bits;
}

/** Beside the sealed chunks; enough of these rows are merged into the chunks that they overlap. */
function appendLate(
  series: Series,
  node: Node,
  nanos: i64,
  bits: u64,
  version: i64,
  start: i64,
): void {
  const limit = min(max(node.areaRows >> 3, lateRowsMin), lateRowsMax);
  if (<u32>node.lateCount >= limit) mergeBlock(series, node, false);
  if (<u32>node.lateCount == lateRowsHardMax) unreachable();
  const bytes = <usize>node.lateCount * lateRowBytes;
  if (node.late == 0 || bytes + lateRowBytes > roomAt(node.late)) {
    const late = allocate(max<usize>(2 * lateRowBytes, bytes << 1));
    if (late == 0) unreachable();
    if (node.late != 0) {
      memory.copy(late, node.late, bytes);
      release(node.late);
    }
    node.late = late;
  }
  const at = node.late + <usize>node.lateCount * lateRowBytes;
  store<i64>(at, nanos);
  store<u64>(at, bits, 8);
  store<i64>(at, version - versionAt(nanos), 16);
  store<i64>(at, start, 24);
  node.lateCount++;
  noteLate(node, nanos);
}
