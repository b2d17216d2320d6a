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

/** Rows that a head has room for: small steps, so that a short series costs little. */
export function headCapacityAfter(capacity: u32): u32 {
  if (capacity == 0) return 4;
  if (capacity < 16) return capacity << 1;
  if (capacity < 32) return capacity + 8;
  if (capacity < 64) return capacity + 16;
  return min(capacity + 32, headRowsMax);
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

/** Appends one row. Traps when there is no memory at all: admission keeps a reserve for this. */
export function appendRow(series: Series, nanos: i64, bits: u64, version: i64): void {
  if (nanos < series.blockStart || nanos >= series.blockEnd) switchBlock(series, nanos);
  if (nanos > series.lastNanos) {
    const count = <u32>series.headCount;
    const offset = version - series.baseVersion;
    if (count < <u32>series.headCapacity && count != 0 && <u64>offset < 0x100000000) {
      storeHeadRow(series, count, nanos, bits, <u32>offset);
      series.headCount = <u16>(count + 1);
      series.lastNanos = nanos;
      state().sampleCount++;
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
  state().sampleCount++;
}

// @ts-ignore: decorator
@inline
function fitsBase(series: Series, version: i64): bool {
  return <u64>(version - series.baseVersion) < 0x100000000;
}

function growHead(series: Series): void {
  const capacity = headCapacityAfter(<u32>series.headCapacity);
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

/** Compresses the head's rows and begins an empty head. */
export function seal(series: Series): void {
  const count = <usize>series.headCount;
  const head = series.head;
  const versions = versionsOf(series);
  let offset: u32 = 0;
  for (let row: usize = 0; row < count; row++) {
    store<i64>(sealTimesAt + (row << 3), load<i64>(head + (row << 4)));
    store<u64>(sealValuesAt + (row << 3), load<u64>(head + (row << 4), 8));
    offset = max(offset, load<u32>(versions + (row << 2)));
  }
  const version = series.baseVersion + <i64>offset;
  const end = encodeChunk(
    encoderAt,
    tablesAt,
    sealTimesAt,
    sealValuesAt,
    <u32>count,
    version,
    sealedAt,
  );
  addToArea(changetype<Node>(series.current), sealedAt, end - sealedAt, <u32>count);
  releaseLater(head);
  series.head = 0;
  series.headCount = 0;
  series.headCapacity = 0;
}

/** Copies sealed chunks behind the others of a block. */
export function addToArea(node: Node, chunks: usize, length: usize, rows: u32): void {
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
  if (<u32>count == capacity) capacity = headCapacityAfter(capacity);
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
  state().sampleCount++;
}

/** Beside the sealed chunks; enough of these rows are merged into the chunks that they overlap. */
function appendLate(series: Series, node: Node, nanos: i64, bits: u64, version: i64): void {
  const limit = min(max(node.areaRows >> 3, lateRowsMin), lateRowsMax);
  if (<u32>node.lateCount >= limit) mergeLate(node);
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
  state().sampleCount++;
}

/** Adds the late rows of a node to a desk. */
export function addLateRows(desk: Desk, node: Node): void {
  const end = node.late + <usize>node.lateCount * lateRowBytes;
  for (let at = node.late; at < end; at += lateRowBytes) {
    addRow(desk, load<i64>(at), load<u64>(at, 8), load<i64>(at, 16));
  }
}

/** Adds the head of a parked node to a desk. */
export function addHeadRows(desk: Desk, node: Node): void {
  const versions = node.head + (<usize>node.headCapacity << 4);
  for (let row: usize = 0; row < <usize>node.headCount; row++) {
    const at = node.head + (row << 4);
    const version = node.baseVersion + <i64>load<u32>(versions + (row << 2));
    addRow(desk, load<i64>(at), load<u64>(at, 8), version);
  }
}

/** Header of a chunk of our own at `at`, which was checked when it came in. */
export function headerAt(at: usize, end: usize): Chunk {
  const chunk = changetype<Chunk>(chunkAt);
  if (!readHeader(chunk, at, end)) unreachable();
  return chunk;
}

/**
 * Writes the area anew: chunks that the late rows overlap are merged with them, the others stay as they
 * are. Without memory for it the late rows stay late.
 */
function mergeLate(node: Node): void {
  let lateFirst = i64.MAX_VALUE;
  let lateLast = i64.MIN_VALUE;
  const lateEnd = node.late + <usize>node.lateCount * lateRowBytes;
  for (let at = node.late; at < lateEnd; at += lateRowBytes) {
    lateFirst = min(lateFirst, load<i64>(at));
    lateLast = max(lateLast, load<i64>(at));
  }
  let rows = <u32>node.lateCount;
  let parts = <u32>node.lateCount;
  let keptBytes: usize = 0;
  const areaEnd = node.area + node.areaLength;
  for (let at = node.area; at < areaEnd; ) {
    const chunk = headerAt(at, areaEnd);
    if (chunk.firstNanos > lateLast || chunk.lastNanos < lateFirst) {
      keptBytes += chunk.end - at;
    } else {
      rows += chunk.rowCount;
      parts++;
    }
    at = chunk.end;
  }
  const outBytes = keptBytes + encodedBytesMax(rows) + 256 * (rows / mergedRowsMax + 1);
  const deskNeeded = deskBytes(rows, parts);
  const work = deskOf(deskNeeded + outBytes);
  if (work == 0) return;
  const desk = openDesk(work, tablesAt, rows, parts);
  let out = work + deskNeeded;
  const outStart = out;
  let rowsKept: u32 = 0;
  for (let at = node.area; at < areaEnd; ) {
    const chunk = headerAt(at, areaEnd);
    const end = chunk.end;
    if (chunk.firstNanos > lateLast || chunk.lastNanos < lateFirst) {
      memory.copy(out, at, end - at);
      out += end - at;
      rowsKept += chunk.rowCount;
    } else if (!addChunk(desk, chunk)) {
      unreachable();
    }
    at = end;
  }
  addLateRows(desk, node);
  finishDesk(desk, false);
  out = encodeRows(desk, 0, desk.rowCount, mergedRowsMax, out);
  if (replaceArea(node, outStart, out - outStart)) {
    const s = state();
    s.sampleCount -= <u64>(node.areaRows + <u32>node.lateCount);
    node.areaRows = rowsKept + desk.rowCount;
    s.sampleCount += <u64>node.areaRows;
    releaseLater(node.late);
    node.late = 0;
    node.lateCount = 0;
    node.lateCapacity = 0;
  }
  trimDesk(deskBytesKept);
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

/** Encodes rows of a finished desk as chunks of even lengths up to a maximum; gives their end. */
export function encodeRows(desk: Desk, row: u32, rowEnd: u32, rowsMax: u32, out: usize): usize {
  if (row >= rowEnd) return out;
  const chunkCount = (rowEnd - row + rowsMax - 1) / rowsMax;
  const rowsEach = (rowEnd - row + chunkCount - 1) / chunkCount;
  for (; row < rowEnd; row += rowsEach) {
    out = encodeChunk(
      encoderAt,
      tablesAt,
      desk.times + (<usize>row << 3),
      desk.values + (<usize>row << 3),
      min(rowsEach, rowEnd - row),
      desk.version,
      out,
    );
  }
  return out;
}
