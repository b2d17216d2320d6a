// Appends rows. A row that is later than the last one of its block goes after the head's rows; a
// full head is sealed into a compressed chunk. Rows in between are kept beside both until there are
// enough of them to be merged into what they overlap.
import {
  Chunk,
  columnSlackBytes,
  decodeChunk,
  hasLagsOfRows,
  kindFloat,
  kindFloatLags,
  kindFloatStarts,
  lagOfLast,
  readHeader,
  versionAt,
} from '../../codec/kernel/codec';
import { encodeChunk, encodedBytesMax } from '../../codec/kernel/write';
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
import { rowBytesMax, startBytes } from '../../codec/kernel/rows';
import {
  addChunk,
  addColumns,
  addRow,
  Desk,
  deskBytes,
  deskRowsMax,
  desksNextRow,
  finishDesk,
  hasLags,
  openDesk,
} from '../../codec/kernel/merge';
import {
  allocate,
  deskOf,
  encoderAt,
  release,
  roomAt,
  roomOf,
  state,
  stateAt,
  tablesAt,
  trimDesk,
} from './memory/pages';
import {
  blockSizeOf,
  lateRowBytes,
  makeCurrent,
  Node,
  nodeOf,
  park,
  Series,
  typedOf,
} from './memory/series';
import { heldTyped } from './typed/part';

/**
 * After the state: a chunk header for whoever reads one, a row and a sealed chunk on their way.
 */
const chunkAt: usize = stateAt + 2048;
const rowAt: usize = stateAt + 3904;
const sealedAt: usize = stateAt + 16384;

/** Merged chunks of an open block have up to so many rows: long enough to be compact. */
const mergedRowsMax: u32 = 512;
const lateRowsMin: u32 = 32;
const lateRowsMax: u32 = 2048;
const lateRowsHardMax: u32 = 65535;
const deskBytesKept: usize = 1 << 20;

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

/** Whether rows of the head have start times. */
@inline
export function hasStartedHead(series: Series): bool {
  return series.headCapacity == 0 && series.head != 0;
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
  const isAppended =
    start == 0
      ? appendRow(series, nanos, bits, version, isDerived)
      : appendStarted(series, nanos, bits, version, isDerived, start);
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

function forgetHead(series: Series): void {
  if (series.head != 0) release(series.head);
  series.head = 0;
  series.headBytes = 0;
  series.headCapacity = 0;
  series.headCount = 0;
}

/** Copies sealed chunks after the others of a block. */
export function addToArea(
  node: Node,
  chunks: usize,
  length: usize,
  rows: u32,
  lastNanos: i64,
): void {
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

export const isNew: u32 = 0;
export const isHeldAlready: u32 = 1;
export const isSuperseded: u32 = 2;

/** The row that wins of those that the memory holds for one time. */
@unmanaged
export class Held {
  lag: i64;
  bits: u64;
  start: i64;
  isSome: u32;
}
export const heldAt: usize = stateAt + 1600;

@inline
function offerHeld(held: Held, lag: i64, bits: u64, start: i64): void {
  if (held.isSome && !isBefore(held, lag, bits, start)) return;
  held.lag = lag;
  held.bits = bits;
  held.start = start;
  held.isSome = 1;
}

/** Whether the row goes before the held one. */
@inline
function isBefore(held: Held, lag: i64, bits: u64, start: i64): bool {
  if (held.lag != lag) return lag > held.lag;
  return held.bits != bits ? bits > held.bits : start > held.start;
}

/**
 * How a row stands to what the memory holds of its block for its time: a value that it does not
 * replace supersedes it, unless it is the same.
 */
function compareWithHeld(
  series: Series,
  nanos: i64,
  bits: u64,
  version: i64,
  start: i64,
): u32 {
  // Without work space to look: whoever wrote it sends it with a version of its own.
  if (!findHeld(series, nanos, version)) return isSuperseded;
  const held = changetype<Held>(heldAt);
  const lag = version - versionAt(nanos);
  if (!held.isSome || held.lag < lag) return isNew;
  if (held.bits == bits && held.start == start) return isHeldAlready;
  return isBefore(held, lag, bits, start) ? isNew : isSuperseded;
}

/**
 * Looks for the float that the current block holds for a time, of those that a row of the version does not replace;
 * false without work space.
 */
export function findHeld(series: Series, nanos: i64, version: i64): bool {
  const node = changetype<Node>(series.current);
  const held = changetype<Held>(heldAt);
  held.isSome = 0;
  const count = <u32>series.headCount;
  if (count != 0 && nanos <= series.lastNanos && nanos >= firstNanosOf(series.head, series.blockStart)) {
    const starts: usize = isStarted(series.head) ? headStartsAt : 0;
    readRows(series.head, series.blockStart, count, headTimesAt, headValuesAt, headLagsAt, starts);
    offerRowAt(held, nanos, headTimesAt, headValuesAt, headLagsAt, starts, count, 0);
  }
  const lateEnd = node.late + <usize>node.lateCount * lateRowBytes;
  for (let at = node.late; at < lateEnd; at += lateRowBytes) {
    if (load<i64>(at) != nanos) continue;
    offerHeld(held, load<i64>(at, 16), load<u64>(at, 8), load<i64>(at, 24));
  }
  const areaEnd = node.area + node.areaLength;
  for (let at = node.area; at < areaEnd; ) {
    const chunk = headerAt(at, areaEnd);
    at = chunk.end;
    // A chunk of lower versions holds nothing that the row does not replace.
    if (nanos < chunk.firstNanos || nanos > chunk.lastNanos || chunk.version < version) continue;
    const column = (<usize>chunk.rowCount << 3) + columnSlackBytes;
    const work = deskOf(column * 4);
    if (work == 0) return false;
    const starts = chunk.kind == kindFloatStarts ? work + 3 * column : 0;
    const hasRowLags = chunk.hasRowVersions != 0;
    const chunkLag = hasLagsOfRows(chunk) ? lagOfLast(chunk) : chunk.version - versionAt(nanos);
    const rows = chunk.rowCount;
    if (!decodeChunk(chunk, tablesAt, work, work + column, work + 2 * column, starts)) {
      unreachable();
    }
    const lags = hasRowLags ? work + 2 * column : 0;
    offerRowAt(held, nanos, work, work + column, lags, starts, rows, chunkLag);
  }
  return true;
}

/**
 * @param lags 0 when all rows have `lag`
 * @param starts 0 when no row has one
 */
function offerRowAt(
  held: Held,
  nanos: i64,
  times: usize,
  values: usize,
  lags: usize,
  starts: usize,
  count: u32,
  lag: i64,
): void {
  let low: u32 = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (load<i64>(times + (<usize>middle << 3)) < nanos) low = middle + 1;
    else high = middle;
  }
  const place = <usize>low << 3;
  if (low == count || load<i64>(times + place) != nanos) return;
  if (lags != 0) lag = load<i64>(lags + place);
  offerHeld(held, lag, load<u64>(values + place), starts == 0 ? 0 : load<i64>(starts + place));
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
}

/** Adds the late rows of a node to a desk. */
export function addLateRows(desk: Desk, node: Node): void {
  const end = node.late + <usize>node.lateCount * lateRowBytes;
  for (let at = node.late; at < end; at += lateRowBytes) {
    addRow(desk, load<i64>(at), load<u64>(at, 8), load<i64>(at, 16), load<i64>(at, 24));
  }
}

/** Whether a late row, or the head of a parked node, has a start time; its chunks say it themselves. */
export function hasStartsLoose(node: Node): bool {
  // To look at the head itself would wait for its line of memory.
  if (node.headCount != 0 && node.headCapacity == 0) return true;
  const end = node.late + <usize>node.lateCount * lateRowBytes;
  for (let at = node.late; at < end; at += lateRowBytes) {
    if (load<i64>(at, 24) != 0) return true;
  }
  return false;
}

/** Adds the rows of a head to a desk. */
export function addHeadRows(desk: Desk, head: usize, blockStart: i64, count: u32): void {
  if (count == 0) return;
  const next = desksNextRow(desk);
  const starts: usize = desk.starts == 0 ? 0 : desk.starts + next;
  readRows(head, blockStart, count, desk.times + next, desk.values + next, desk.lags + next, starts);
  addColumns(desk, count, lowestLagRead(), highestLagRead());
}

/** Header of a chunk of our own at `at`, which was checked when it came in. */
export function headerAt(at: usize, end: usize): Chunk {
  const chunk = changetype<Chunk>(chunkAt);
  if (!readHeader(chunk, at, end)) unreachable();
  return chunk;
}

/** What a merge takes: all late rows and whatever overlaps them, directly or by others. */
@unmanaged
class Extent {
  firstNanos: i64;
  lastNanos: i64;
  rowCount: u32;
  partCount: u32;
  keptBytes: usize;
  withHead: u32;
  hasStarts: u32;
}
const extentAt: usize = stateAt + 1536;

@inline
function isOutside(extent: Extent, firstNanos: i64, lastNanos: i64): bool {
  return firstNanos > extent.lastNanos || lastNanos < extent.firstNanos;
}

@inline
function widen(extent: Extent, firstNanos: i64, lastNanos: i64): void {
  extent.firstNanos = min(extent.firstNanos, firstNanos);
  extent.lastNanos = max(extent.lastNanos, lastNanos);
}

function extentOf(series: Series, node: Node, withHead: bool): Extent {
  const extent = changetype<Extent>(extentAt);
  extent.firstNanos = i64.MAX_VALUE;
  extent.lastNanos = i64.MIN_VALUE;
  extent.withHead = withHead ? 1 : 0;
  extent.hasStarts = hasStartedHead(series) ? 1 : 0;
  const lateEnd = node.late + <usize>node.lateCount * lateRowBytes;
  for (let at = node.late; at < lateEnd; at += lateRowBytes) {
    widen(extent, load<i64>(at), load<i64>(at));
    if (load<i64>(at, 24) != 0) extent.hasStarts = 1;
  }
  const hasHead = series.headCount != 0;
  const headFirst = hasHead ? firstNanosOf(series.head, series.blockStart) : 0;
  const headLast = series.lastNanos;
  if (withHead) widen(extent, headFirst, headLast);
  const areaEnd = node.area + node.areaLength;
  for (let isWider = true; isWider; ) {
    const firstNanos = extent.firstNanos;
    const lastNanos = extent.lastNanos;
    extent.rowCount = <u32>node.lateCount;
    extent.partCount = <u32>node.lateCount;
    extent.keptBytes = 0;
    for (let at = node.area; at < areaEnd; ) {
      const chunk = headerAt(at, areaEnd);
      if (isOutside(extent, chunk.firstNanos, chunk.lastNanos)) {
        extent.keptBytes += chunk.end - at;
      } else {
        widen(extent, chunk.firstNanos, chunk.lastNanos);
        if (chunk.kind == kindFloatStarts) extent.hasStarts = 1;
        extent.rowCount += chunk.rowCount;
        extent.partCount++;
      }
      at = chunk.end;
    }
    if (hasHead && !isOutside(extent, headFirst, headLast)) {
      widen(extent, headFirst, headLast);
      extent.withHead = 1;
      extent.rowCount += <u32>series.headCount;
      extent.partCount++;
    }
    isWider = firstNanos != extent.firstNanos || lastNanos != extent.lastNanos;
  }
  return extent;
}

/**
 * Merges the late rows of the current block, and its head when asked, with what they overlap. The
 * result may have one version, so everything with a time in it takes part and the rows' own
 * versions decide first. False without memory for it: then all stays as it is.
 */
function mergeBlock(series: Series, node: Node, withHead: bool): bool {
  const extent = extentOf(series, node, withHead);
  if (extent.rowCount > deskRowsMax) return false;
  const hasStarts = extent.hasStarts != 0;
  const outBytes =
    extent.keptBytes +
    encodedBytesMax(extent.rowCount, hasStarts) +
    256 * <usize>(extent.rowCount / mergedRowsMax + 1);
  const deskNeeded = deskBytes(extent.rowCount, extent.partCount, hasStarts);
  const work = deskOf(deskNeeded + outBytes);
  if (work == 0) return false;
  const desk = openDesk(work, tablesAt, extent.rowCount, extent.partCount, hasStarts);
  const outStart = work + deskNeeded;
  let out = outStart;
  let rowsKept: u32 = 0;
  const areaEnd = node.area + node.areaLength;
  for (let at = node.area; at < areaEnd; ) {
    const chunk = headerAt(at, areaEnd);
    const end = chunk.end;
    if (isOutside(extent, chunk.firstNanos, chunk.lastNanos)) {
      memory.copy(out, at, end - at);
      out += end - at;
      rowsKept += chunk.rowCount;
    } else if (!addChunk(desk, chunk)) {
      unreachable();
    }
    at = end;
  }
  addLateRows(desk, node);
  let rowsBefore = node.areaRows + <u32>node.lateCount;
  if (extent.withHead) {
    rowsBefore += <u32>series.headCount;
    addHeadRows(desk, series.head, series.blockStart, <u32>series.headCount);
  }
  finishDesk(desk, true);
  out = encodeRows(desk, mergedRowsMax, out);
  if (!replaceArea(node, outStart, out - outStart)) return false;
  node.areaRows = rowsKept + desk.rowCount;
  node.areaLastNanos = max(node.areaLastNanos, extent.lastNanos);
  state().sampleCount += <u64>node.areaRows - <u64>rowsBefore;
  if (node.late != 0) release(node.late);
  node.late = 0;
  node.lateCount = 0;
  if (extent.withHead) forgetHead(series);
  trimDesk(deskBytesKept);
  return true;
}

function replaceArea(node: Node, chunks: usize, length: usize): bool {
  const area = allocate(length);
  if (area == 0) return false;
  memory.copy(area, chunks, length);
  if (node.area != 0) release(node.area);
  node.area = area;
  node.areaLength = length;
  return true;
}

/**
 * Encodes the rows of a finished desk as chunks of even lengths up to a maximum; gives their end.
 */
export function encodeRows(desk: Desk, rowsMax: u32, out: usize): usize {
  const rowEnd = desk.rowCount;
  const chunkCount = (rowEnd + rowsMax - 1) / rowsMax;
  const rowsEach = chunkCount == 0 ? 0 : (rowEnd + chunkCount - 1) / chunkCount;
  for (let row: u32 = 0; row < rowEnd; row += rowsEach) {
    const place = <usize>row << 3;
    out = encodeRun(
      desk.times + place,
      desk.values + place,
      hasLags(desk) ? desk.lags + place : 0,
      desk.lagHighest,
      min(rowsEach, rowEnd - row),
      out,
      desk.starts == 0 ? 0 : desk.starts + place,
    );
  }
  return out;
}

/**
 * Encodes rows as one chunk: with the version of each row where the memory keeps them, else with
 * the highest one for all.
 * @param lags of the rows; 0 when all have `lag`
 * @param starts of the rows; 0 when none has one
 */
export function encodeRun(
  times: usize,
  values: usize,
  lags: usize,
  lag: i64,
  rows: u32,
  out: usize,
  starts: usize = 0,
): usize {
  if (starts != 0 && areZero(starts, rows)) starts = 0;
  if (!state().keepsRowVersions && starts == 0) {
    if (lags != 0) lag = lagOfHighestVersion(times, lags, rows);
    return encodeChunk(encoderAt, tablesAt, times, values, kindFloat, 0, lag, rows, out);
  }
  if (lags != 0) {
    let lowest = load<i64>(lags);
    lag = lowest;
    for (let p = lags + 8, end = lags + (<usize>rows << 3); p < end; p += 8) {
      lowest = min(lowest, load<i64>(p));
      lag = max(lag, load<i64>(p));
    }
    if (lowest == lag) lags = 0;
  }
  const kind = starts == 0 ? kindFloatLags : kindFloatStarts;
  return encodeChunk(encoderAt, tablesAt, times, values, kind, lags, lag, rows, out, starts);
}

function areZero(column: usize, rows: u32): bool {
  for (let p = column, end = column + (<usize>rows << 3); p < end; p += 8) {
    if (load<i64>(p) != 0) return false;
  }
  return true;
}

/**
 * The last row's lag with the highest version of all rows. While a batch is applied, a chunk of
 * older rows and such of the batch takes one less, so that a row of the batch that comes after
 * them still replaces an older one.
 */
function lagOfHighestVersion(times: usize, lags: usize, rows: u32): i64 {
  let lowest = i64.MAX_VALUE;
  let highest = i64.MIN_VALUE;
  let last: i64 = 0;
  for (let offset: usize = 0; offset < <usize>rows << 3; offset += 8) {
    last = versionAt(load<i64>(times + offset));
    const version = last + load<i64>(lags + offset);
    lowest = min(lowest, version);
    highest = max(highest, version);
  }
  const isOfBatch = highest == state().batchVersion && lowest < highest;
  return (isOfBatch ? highest - 1 : highest) - last;
}
