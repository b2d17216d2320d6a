// Merges late rows of a block, and its head, into the sealed chunks that they overlap.
import { Chunk, kindFloatStarts, readHeader } from '../../codec/kernel/codec';
import {
  addChunk,
  addColumns,
  addRow,
  Desk,
  deskBytes,
  deskRowsMax,
  desksNextRow,
  finishDesk,
  openDesk,
} from '../../codec/kernel/merge';
import { encodedBytesMax } from '../../codec/kernel/write';
import { encodeRows } from './encode';
import { firstNanosOf, highestLagRead, lowestLagRead, readRows } from './head_rows';
import { allocate, deskOf, release, state, stateAt, tablesAt, trimDesk } from './memory/pages';
import { hasStartedHead, lateRowBytes, Node, Series } from './memory/series';

/** After the state: a chunk header for whoever reads one. */
const chunkAt: usize = stateAt + 2048;

/** Merged chunks of an open block have up to so many rows: long enough to be compact. */
const mergedRowsMax: u32 = 512;
const deskBytesKept: usize = 1 << 20;

export function forgetHead(series: Series): void {
  if (series.head != 0) release(series.head);
  series.head = 0;
  series.headBytes = 0;
  series.headCapacity = 0;
  series.headCount = 0;
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

/**
 * Rows of a block that are merged at once, about: to decode and write them takes up to 15 ms. Of a longer block a merge takes the
 * stretch that has the most late rows, which comes to as much work for each of them as to take all.
 */
export const mergeRowsUsual: u32 = 1 << 15;

/** What a merge takes: late rows and whatever overlaps them, directly or by others. */
@unmanaged
class Extent {
  firstNanos: i64;
  lastNanos: i64;
  rowCount: u32;
  partCount: u32;
  lateCount: u32;
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
  const hasHead = series.headCount != 0;
  const headFirst = hasHead ? firstNanosOf(series.head, series.blockStart) : 0;
  const headLast = series.lastNanos;
  if (withHead) widen(extent, headFirst, headLast);
  const isLong = node.areaRows > mergeRowsUsual;
  if (isLong && !withHead && areaIsInOrder(node)) takeDensest(extent, node);
  else if (!isLong || !withHead) takeLate(extent, node, 0, <u32>node.lateCount);
  const areaEnd = node.area + node.areaLength;
  for (let isWider = true; isWider; ) {
    const firstNanos = extent.firstNanos;
    const lastNanos = extent.lastNanos;
    extent.rowCount = 0;
    extent.partCount = 0;
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
  extent.lateCount = 0;
  for (let i: u32 = 0; i < <u32>node.lateCount; i++) {
    const at = lateAt(node, i);
    if (isOutside(extent, load<i64>(at), load<i64>(at))) continue;
    extent.lateCount++;
    if (load<i64>(at, 24) != 0) extent.hasStarts = 1;
  }
  extent.rowCount += extent.lateCount;
  extent.partCount += extent.lateCount;
  return extent;
}

@inline
function lateAt(node: Node, index: u32): usize {
  return node.late + <usize>index * lateRowBytes;
}

/** Makes the extent span the late rows [from, end). */
function takeLate(extent: Extent, node: Node, from: u32, end: u32): void {
  for (let i = from; i < end; i++) widen(extent, load<i64>(lateAt(node, i)), load<i64>(lateAt(node, i)));
}

/** Whether each chunk begins after the one before. */
function areaIsInOrder(node: Node): bool {
  let before = i64.MIN_VALUE;
  const areaEnd = node.area + node.areaLength;
  for (let at = node.area; at < areaEnd; ) {
    const chunk = headerAt(at, areaEnd);
    if (chunk.firstNanos <= before) return false;
    before = chunk.lastNanos;
    at = chunk.end;
  }
  return true;
}

/**
 * Makes the extent span the late rows of one of the stretches that the area, which is in order, is divided into: of that which has
 * the most. The late rows are in order, too.
 */
function takeDensest(extent: Extent, node: Node): void {
  const lateEnd = <u32>node.lateCount;
  const areaEnd = node.area + node.areaLength;
  let from: u32 = 0;
  let bestFrom: u32 = 0;
  let bestEnd: u32 = 0;
  for (let at = node.area; at < areaEnd; ) {
    let rows: u32 = 0;
    let nextFirst = i64.MAX_VALUE;
    for (; at < areaEnd; ) {
      const chunk = headerAt(at, areaEnd);
      if (rows != 0 && rows + chunk.rowCount > mergeRowsUsual) {
        nextFirst = chunk.firstNanos;
        break;
      }
      rows += chunk.rowCount;
      at = chunk.end;
    }
    let end = from;
    while (end < lateEnd && load<i64>(lateAt(node, end)) < nextFirst) end++;
    if (end - from > bestEnd - bestFrom) {
      bestFrom = from;
      bestEnd = end;
    }
    from = end;
  }
  takeLate(extent, node, bestFrom, bestEnd);
}

/** Sorts the late rows by time (in place; of one time in any order): a merge then has few runs. */
function sortLateRows(node: Node): void {
  const count = <u32>node.lateCount;
  for (let i = count >> 1; i > 0; ) siftDown(node, --i, count);
  for (let end = count; end > 1; ) {
    swapLate(node, 0, --end);
    siftDown(node, 0, end);
  }
}

function siftDown(node: Node, from: u32, end: u32): void {
  for (let at = from; ; ) {
    let child: u32 = 2 * at + 1;
    if (child >= end) return;
    const isRight =
      child + 1 < end && load<i64>(lateAt(node, child)) < load<i64>(lateAt(node, child + 1));
    if (isRight) child++;
    if (load<i64>(lateAt(node, at)) >= load<i64>(lateAt(node, child))) return;
    swapLate(node, at, child);
    at = child;
  }
}

function swapLate(node: Node, i: u32, j: u32): void {
  const a = lateAt(node, i);
  const b = lateAt(node, j);
  for (let field: usize = 0; field < lateRowBytes; field += 8) {
    const kept = load<i64>(a + field);
    store<i64>(a + field, load<i64>(b + field));
    store<i64>(b + field, kept);
  }
}

/** Whether the late rows are in order. */
function isLateSorted(node: Node): bool {
  for (let i: u32 = 1; i < <u32>node.lateCount; i++) {
    if (load<i64>(lateAt(node, i - 1)) > load<i64>(lateAt(node, i))) return false;
  }
  return true;
}

/** Adds the late rows of the extent to the desk. */
function addLateOf(extent: Extent, desk: Desk, node: Node): void {
  for (let i: u32 = 0; i < <u32>node.lateCount; i++) {
    const at = lateAt(node, i);
    const nanos = load<i64>(at);
    if (isOutside(extent, nanos, nanos)) continue;
    addRow(desk, nanos, load<u64>(at, 8), load<i64>(at, 16), load<i64>(at, 24));
  }
}

/** Forgets the late rows of the extent. */
function dropLateOf(extent: Extent, node: Node): void {
  let kept: u32 = 0;
  for (let i: u32 = 0; i < <u32>node.lateCount; i++) {
    const at = lateAt(node, i);
    if (!isOutside(extent, load<i64>(at), load<i64>(at))) continue;
    if (kept != i) memory.copy(lateAt(node, kept), at, lateRowBytes);
    kept++;
  }
  node.lateCount = <u16>kept;
  if (kept != 0 || node.late == 0) return;
  release(node.late);
  node.late = 0;
}

/**
 * Merges late rows of the current block, and its head when asked, with what they overlap: all of them, or of a long block those of a
 * stretch. The result may have one version, so everything with a time in it takes part and the rows' own
 * versions decide first. False without memory for it: then all stays as it is.
 */
export function mergeBlock(series: Series, node: Node, withHead: bool): bool {
  state().lookedNode = 0;
  if (!isLateSorted(node)) sortLateRows(node);
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
  let rowsKept: u32 = 0;
  const areaEnd = node.area + node.areaLength;
  for (let at = node.area; at < areaEnd; ) {
    const chunk = headerAt(at, areaEnd);
    at = chunk.end;
    if (isOutside(extent, chunk.firstNanos, chunk.lastNanos)) rowsKept += chunk.rowCount;
    else if (!addChunk(desk, chunk)) unreachable();
  }
  addLateOf(extent, desk, node);
  let rowsBefore = node.areaRows + extent.lateCount;
  if (extent.withHead) {
    rowsBefore += <u32>series.headCount;
    addHeadRows(desk, series.head, series.blockStart, <u32>series.headCount);
  }
  finishDesk(desk, true);
  // Chunks that were in order stay so.
  let out = copyChunks(node, i64.MIN_VALUE, extent.firstNanos - 1, outStart);
  out = encodeRows(desk, mergedRowsMax, out);
  out = copyChunks(node, extent.lastNanos + 1, i64.MAX_VALUE, out);
  if (!replaceArea(node, outStart, out - outStart)) return false;
  node.areaRows = rowsKept + desk.rowCount;
  node.areaLastNanos = max(node.areaLastNanos, extent.lastNanos);
  state().sampleCount += <u64>node.areaRows - <u64>rowsBefore;
  dropLateOf(extent, node);
  if (extent.withHead) forgetHead(series);
  trimDesk(deskBytesKept);
  return true;
}

/** Copies the chunks of the area that lie in a range of times; gives where they end. */
function copyChunks(node: Node, firstNanos: i64, lastNanos: i64, out: usize): usize {
  const areaEnd = node.area + node.areaLength;
  for (let at = node.area; at < areaEnd; ) {
    const chunk = headerAt(at, areaEnd);
    const length = chunk.end - at;
    if (chunk.firstNanos >= firstNanos && chunk.lastNanos <= lastNanos) {
      memory.copy(out, at, length);
      out += length;
    }
    at += length;
  }
  return out;
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
