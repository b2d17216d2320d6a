// Appends rows. A row that is later than the last one of its block goes behind the head's rows; a full head
// is sealed into a compressed chunk. Rows in between take the slow ways below: into the head by copy, or
// beside the sealed chunks until there are enough of them to merge.
import { Chunk, readHeader } from './codec';
import { encodeChunk, encodedBytesMax } from './codec_write';
import { addChunk, addRow, Desk, deskBytes, finishDesk, openDesk } from './merge';
import {
  allocate,
  deskOf,
  encoderAt,
  releaseLater,
  roomOf,
  state,
  stateAt,
  tablesAt,
  trimDesk,
} from './pages';
import {
  headRowBytes,
  headRowsMax,
  lateRowBytes,
  makeCurrent,
  Node,
  nodeOf,
  park,
  Series,
} from './series';

/** Behind the state: a chunk header for whoever reads one, and columns of a head that is sealed. */
const chunkAt: usize = stateAt + 2048;
const sealTimesAt: usize = stateAt + 4096;
const sealValuesAt: usize = sealTimesAt + 2048;
const sealedAt: usize = sealValuesAt + 2048;

/** Merged chunks of an open block have up to so many rows: long enough to be compact. */
const mergedRowsMax: u32 = 512;
const lateRowsMin: u32 = 32;
const lateRowsMax: u32 = 2048;
const lateRowsHardMax: u32 = 65535;
const deskBytesKept: usize = 1 << 20;
/** A head's first version is this much above its base, so that later rows may have lower ones. */
const versionSpan: i64 = 0x80000000;

/**
 * Rows that the next larger head has room for: small steps, so that a short series costs little, and
 * larger ones for a series that has sealed chunks in the block already and will fill this head too.
 */
export function headCapacityAfter(capacity: u32, hasChunks: bool): u32 {
  if (capacity == 0) return hasChunks ? 32 : 4;
  if (capacity < 16) return capacity << 1;
  if (capacity < 24) return 24;
  return capacity < 48 && !hasChunks ? 48 : headRowsMax;
}

// @ts-ignore: decorator
@inline
function storeHeadRow(series: Series, row: u32, nanos: i64, bits: u64, versionOffset: u32): void {
  const at = series.head + (<usize>row << 4);
  store<i64>(at, nanos);
  store<u64>(at, bits, 8);
  store<u32>(versionsOf(series) + (<usize>row << 2), versionOffset);
}

// @ts-ignore: decorator
@inline
function versionsOf(series: Series): usize {
  return series.head + (<usize>series.headCapacity << 4);
}

/** Appends one row, which the caller counts as a sample. Traps when there is no memory at all: admission keeps a reserve for this. */
export function appendRow(series: Series, nanos: i64, bits: u64, version: i64): void {
  if (nanos < series.blockStart || nanos >= series.blockEnd) switchBlock(series, nanos);
  if (nanos > series.lastNanos) {
    const count = <u32>series.headCount;
    const offset = version - series.baseVersion;
    if (count < <u32>series.headCapacity && count != 0 && <u64>offset < 0x100000000) {
      storeHeadRow(series, count, nanos, bits, <u32>offset);
      series.headCount = <u16>(count + 1);
      series.lastNanos = nanos;
      return;
    }
    appendWithRoom(series, nanos, bits, version);
    return;
  }
  insertRow(series, nanos, bits, version);
}

function switchBlock(series: Series, nanos: i64): void {
  park(series);
  const node = nodeOf(series, nanos);
  if (node == null) unreachable();
  makeCurrent(series, node!);
}

/** Behind the last row, when the head has no room or cannot express the version. */
function appendWithRoom(series: Series, nanos: i64, bits: u64, version: i64): void {
  const count = <u32>series.headCount;
  if (count == headRowsMax || (count != 0 && !fitsBase(series, version))) seal(series);
  if (series.headCount == 0) series.baseVersion = max<i64>(0, version - versionSpan);
  if (series.headCount == series.headCapacity) growHead(series);
  storeHeadRow(series, <u32>series.headCount, nanos, bits, <u32>(version - series.baseVersion));
  series.headCount++;
  series.lastNanos = nanos;
}

// @ts-ignore: decorator
@inline
function fitsBase(series: Series, version: i64): bool {
  return <u64>(version - series.baseVersion) < 0x100000000;
}

function growHead(series: Series): void {
  const hasChunks = changetype<Node>(series.current).areaLength != 0;
  const capacity = headCapacityAfter(<u32>series.headCapacity, hasChunks);
  const head = allocate(<usize>capacity * headRowBytes);
  if (head == 0) unreachable();
  const count = <usize>series.headCount;
  if (count != 0) {
    memory.copy(head, series.head, count << 4);
    memory.copy(head + (<usize>capacity << 4), versionsOf(series), count << 2);
  }
  if (series.head != 0) releaseLater(series.head);
  series.head = head;
  series.headCapacity = <u16>capacity;
}

/**
 * The version of a sealed chunk is the highest of its rows. While a batch is applied, a chunk of older rows
 * and such of the batch takes one less, so that a row of the batch that comes behind them still replaces an
 * older one.
 */
function sealedVersion(lowest: i64, highest: i64): i64 {
  return highest == state().batchVersion && lowest < highest ? highest - 1 : highest;
}

/** Compresses the head's rows and begins an empty head. */
function seal(series: Series): void {
  const count = <usize>series.headCount;
  const head = series.head;
  const node = changetype<Node>(series.current);
  // A chunk has one version. Rows that came as chunks from elsewhere must be compared with the head's rows
  // by the rows' own versions before that.
  if (load<i64>(head) <= node.areaLastNanos && mergeBlock(series, node, true)) return;
  const versions = versionsOf(series);
  let highest: u32 = 0;
  let lowest: u32 = u32.MAX_VALUE;
  for (let row: usize = 0; row < count; row++) {
    store<i64>(sealTimesAt + (row << 3), load<i64>(head + (row << 4)));
    store<u64>(sealValuesAt + (row << 3), load<u64>(head + (row << 4), 8));
    const offset = load<u32>(versions + (row << 2));
    highest = max(highest, offset);
    lowest = min(lowest, offset);
  }
  const base = series.baseVersion;
  const version = sealedVersion(base + <i64>lowest, base + <i64>highest);
  const end = encodeChunk(
    encoderAt,
    tablesAt,
    sealTimesAt,
    sealValuesAt,
    <u32>count,
    version,
    sealedAt,
  );
  addToArea(node, sealedAt, end - sealedAt, <u32>count, series.lastNanos);
  forgetHead(series);
}

function forgetHead(series: Series): void {
  if (series.head != 0) releaseLater(series.head);
  series.head = 0;
  series.headCount = 0;
  series.headCapacity = 0;
}

/** Copies sealed chunks behind the others of a block. */
export function addToArea(
  node: Node,
  chunks: usize,
  length: usize,
  rows: u32,
  lastNanos: i64,
): void {
  const lengthNew = node.areaLength + length;
  if (lengthNew > node.areaCapacity) {
    // An eighth more than needed once there is something: few copies, little room unused. The slack is
    // for loads behind the last chunk.
    const wanted = lengthNew + (node.areaLength == 0 ? 0 : lengthNew >> 3);
    const room = roomOf(wanted);
    const area = allocate(wanted);
    if (area == 0) unreachable();
    memory.copy(area, node.area, node.areaLength);
    if (node.area != 0) releaseLater(node.area);
    node.area = area;
    node.areaCapacity = room;
  }
  memory.copy(node.area + node.areaLength, chunks, length);
  node.areaLength = lengthNew;
  node.areaRows += rows;
  node.areaLastNanos = max(node.areaLastNanos, lastNanos);
}

/** A row at or before the last one of its block. */
function insertRow(series: Series, nanos: i64, bits: u64, version: i64): void {
  const count = <u32>series.headCount;
  const head = series.head;
  const node = changetype<Node>(series.current);
  if (count == 0 || (nanos < load<i64>(head) && node.areaLength != 0)) {
    return appendLate(series, node, nanos, bits, version);
  }
  let low: u32 = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (load<i64>(head + (<usize>middle << 4)) < nanos) low = middle + 1;
    else high = middle;
  }
  if (low < count && load<i64>(head + (<usize>low << 4)) == nanos) {
    if (fitsBase(series, version)) return replaceHeadRow(series, low, bits, version);
    return appendLate(series, node, nanos, bits, version);
  }
  if (count == headRowsMax || !fitsBase(series, version)) {
    return appendLate(series, node, nanos, bits, version);
  }
  insertIntoHead(series, low, nanos, bits, version);
}

/** The same time again: the row that wins stays, and costs nothing more. */
function replaceHeadRow(series: Series, row: u32, bits: u64, version: i64): void {
  const valueAt = series.head + (<usize>row << 4) + 8;
  const offsetAt = versionsOf(series) + (<usize>row << 2);
  const held = series.baseVersion + <i64>load<u32>(offsetAt);
  state().sampleCount--;
  if (version < held || (version == held && bits <= load<u64>(valueAt))) return;
  store<u64>(valueAt, bits);
  store<u32>(offsetAt, <u32>(version - series.baseVersion));
}

/** Copies the head with the row in its place, so that a reader of the old one sees no row twice. */
function insertIntoHead(series: Series, row: u32, nanos: i64, bits: u64, version: i64): void {
  const count = <usize>series.headCount;
  const before = <usize>row;
  const old = series.head;
  const oldVersions = versionsOf(series);
  let capacity = <u32>series.headCapacity;
  if (<u32>count == capacity) capacity = headCapacityAfter(capacity, false);
  const head = allocate(<usize>capacity * headRowBytes);
  if (head == 0) unreachable();
  const versions = head + (<usize>capacity << 4);
  memory.copy(head, old, before << 4);
  memory.copy(head + ((before + 1) << 4), old + (before << 4), (count - before) << 4);
  memory.copy(versions, oldVersions, before << 2);
  memory.copy(versions + ((before + 1) << 2), oldVersions + (before << 2), (count - before) << 2);
  series.head = head;
  series.headCapacity = <u16>capacity;
  storeHeadRow(series, row, nanos, bits, <u32>(version - series.baseVersion));
  series.headCount = <u16>(count + 1);
  releaseLater(old);
}

/** Beside the sealed chunks; enough of these rows are merged into the chunks that they overlap. */
function appendLate(series: Series, node: Node, nanos: i64, bits: u64, version: i64): void {
  const limit = min(max(node.areaRows >> 3, lateRowsMin), lateRowsMax);
  if (<u32>node.lateCount >= limit) mergeBlock(series, node, false);
  if (node.lateCount == node.lateCapacity) {
    const capacity = min(max<u32>(8, <u32>node.lateCapacity << 1), lateRowsHardMax);
    if (<u32>node.lateCount == capacity) unreachable();
    const late = allocate(<usize>capacity * lateRowBytes);
    if (late == 0) unreachable();
    if (node.late != 0) {
      memory.copy(late, node.late, <usize>node.lateCount * lateRowBytes);
      releaseLater(node.late);
    }
    node.late = late;
    node.lateCapacity = <u16>capacity;
  }
  const at = node.late + <usize>node.lateCount * lateRowBytes;
  store<i64>(at, nanos);
  store<u64>(at, bits, 8);
  store<i64>(at, version, 16);
  node.lateCount++;
}

/** Adds the late rows of a node to a desk. */
export function addLateRows(desk: Desk, node: Node): void {
  const end = node.late + <usize>node.lateCount * lateRowBytes;
  for (let at = node.late; at < end; at += lateRowBytes) {
    addRow(desk, load<i64>(at), load<u64>(at, 8), load<i64>(at, 16));
  }
}

/** Adds the rows of a head to a desk. */
export function addHeadRows(
  desk: Desk,
  head: usize,
  capacity: u32,
  count: u32,
  baseVersion: i64,
): void {
  const versions = head + (<usize>capacity << 4);
  for (let row: usize = 0; row < <usize>count; row++) {
    const at = head + (row << 4);
    const version = baseVersion + <i64>load<u32>(versions + (row << 2));
    addRow(desk, load<i64>(at), load<u64>(at, 8), version);
  }
}

/** Header of a chunk of our own at `at`, which was checked when it came in. */
export function headerAt(at: usize, end: usize): Chunk {
  const chunk = changetype<Chunk>(chunkAt);
  if (!readHeader(chunk, at, end)) unreachable();
  return chunk;
}

/** What a merge takes: all late rows and whatever overlaps them, directly or by others. */
// @ts-ignore: decorator
@unmanaged
class Extent {
  firstNanos: i64;
  lastNanos: i64;
  rowCount: u32;
  partCount: u32;
  keptBytes: usize;
  withHead: u32;
}
const extentAt: usize = stateAt + 1536;

// @ts-ignore: decorator
@inline
function isOutside(extent: Extent, firstNanos: i64, lastNanos: i64): bool {
  return firstNanos > extent.lastNanos || lastNanos < extent.firstNanos;
}

// @ts-ignore: decorator
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
  const lateEnd = node.late + <usize>node.lateCount * lateRowBytes;
  for (let at = node.late; at < lateEnd; at += lateRowBytes) {
    widen(extent, load<i64>(at), load<i64>(at));
  }
  const head = series.head;
  const headLast = head + (<usize>series.headCount << 4) - 16;
  if (withHead) widen(extent, load<i64>(head), load<i64>(headLast));
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
        extent.rowCount += chunk.rowCount;
        extent.partCount++;
      }
      at = chunk.end;
    }
    if (series.headCount != 0 && !isOutside(extent, load<i64>(head), load<i64>(headLast))) {
      widen(extent, load<i64>(head), load<i64>(headLast));
      extent.withHead = 1;
      extent.rowCount += <u32>series.headCount;
      extent.partCount += <u32>series.headCount;
    }
    isWider = firstNanos != extent.firstNanos || lastNanos != extent.lastNanos;
  }
  return extent;
}

/**
 * Merges the late rows of the current block, and its head when asked, with what they overlap. The result
 * has one version, so everything with a time in it takes part and the rows' own versions decide first.
 * False without memory for it: then all stays as it is.
 */
function mergeBlock(series: Series, node: Node, withHead: bool): bool {
  const extent = extentOf(series, node, withHead);
  const outBytes =
    extent.keptBytes +
    encodedBytesMax(extent.rowCount) +
    256 * <usize>(extent.rowCount / mergedRowsMax + 1);
  const deskNeeded = deskBytes(extent.rowCount, extent.partCount);
  const work = deskOf(deskNeeded + outBytes);
  if (work == 0) return false;
  const desk = openDesk(work, tablesAt, extent.rowCount, extent.partCount);
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
    addHeadRows(desk, series.head, series.headCapacity, series.headCount, series.baseVersion);
  }
  finishDesk(desk, false);
  const version = sealedVersion(desk.versionLowest, desk.version);
  out = encodeRows(desk, version, mergedRowsMax, out);
  if (!replaceArea(node, outStart, out - outStart)) return false;
  node.areaRows = rowsKept + desk.rowCount;
  node.areaLastNanos = max(node.areaLastNanos, extent.lastNanos);
  state().sampleCount += <u64>node.areaRows - <u64>rowsBefore;
  if (node.late != 0) releaseLater(node.late);
  node.late = 0;
  node.lateCount = 0;
  node.lateCapacity = 0;
  if (extent.withHead) forgetHead(series);
  trimDesk(deskBytesKept);
  return true;
}

function replaceArea(node: Node, chunks: usize, length: usize): bool {
  const area = allocate(length);
  if (area == 0) return false;
  memory.copy(area, chunks, length);
  if (node.area != 0) releaseLater(node.area);
  node.area = area;
  node.areaLength = length;
  node.areaCapacity = roomOf(length);
  return true;
}

/** Instead of a version: each chunk has the highest one of its rows, whose versions are filled. */
export const versionOfRows: i64 = -1;

function highestVersion(desk: Desk, row: u32, rowEnd: u32): i64 {
  let highest: i64 = 0;
  const end = desk.versions + (<usize>rowEnd << 3);
  for (let p = desk.versions + (<usize>row << 3); p < end; p += 8) {
    highest = max(highest, load<i64>(p));
  }
  return highest;
}

/** Encodes the rows of a finished desk as chunks of even lengths up to a maximum; gives their end. */
export function encodeRows(desk: Desk, version: i64, rowsMax: u32, out: usize): usize {
  const rowEnd = desk.rowCount;
  const chunkCount = (rowEnd + rowsMax - 1) / rowsMax;
  const rowsEach = chunkCount == 0 ? 0 : (rowEnd + chunkCount - 1) / chunkCount;
  for (let row: u32 = 0; row < rowEnd; row += rowsEach) {
    const rows = min(rowsEach, rowEnd - row);
    out = encodeChunk(
      encoderAt,
      tablesAt,
      desk.times + (<usize>row << 3),
      desk.values + (<usize>row << 3),
      rows,
      version == versionOfRows ? highestVersion(desk, row, row + rows) : version,
      out,
    );
  }
  return out;
}
