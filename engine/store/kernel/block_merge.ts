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
export function mergeBlock(series: Series, node: Node, withHead: bool): bool {
  state().lookedNode = 0;
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
