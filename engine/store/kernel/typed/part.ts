// Typed rows of a block: a head of the newest (head_values.ts), which becomes a chunk when it is full, and the chunks that
// came before. Chunks may overlap; enough rows over the times of others have all of them merged.
import { allocate, deskOf, release, roomAt, roomOf, state, stateAt, trimDesk } from '../memory/pages';
import { clearFlushed, Node, TypedPart, typedPartOf } from '../memory/series';
import {
  addTypedChunk,
  addTypedHead,
  addTypedRow,
  bytesOfDesk,
  chunkFieldsMax,
  chunkValueBytesMax,
  copyOf,
  encodeTypedDesk,
  fieldsOfDesk,
  finishTypedDesk,
  openTypedDesk,
  orderOfTyped,
  TypedDesk,
  typedDeskBytes,
  typedHeaderAt,
  typedLongBytesMax,
} from './desk';
import { beginTypedRows, TypedRow, typedRowRoom, writeTypedRow } from './head_values';

/** A row on its way; after a sealed chunk's place (heads.ts). */
const rowAt: usize = stateAt + 32768;

/** Values of more bytes are no rows of a head, but a chunk each. */
export const headValueMax: u32 = 4096;
/** A head of so many bytes is sealed when it has so many rows. */
const headBytesFull: u32 = 2048;
const headRowsFull: u32 = 32;
/** With so many of either it is sealed in any case. */
const headBytesMax: u32 = 32768;
const headRowsMax: u32 = 256;
/** First room of a head, which doubles. */
const headBytesFirst: u32 = 240;
/** So many rows over the times of others are merged when they are a quarter of all. */
const overlapRowsMin: u32 = 64;
/** More work space is not kept. */
export const typedDeskKept: usize = 8 << 20;

/** At most so many bytes a typed row makes its block take, when its value has `length`; `part` may be null. */
export function typedBytesNeeded(part: TypedPart | null, length: u32): usize {
  const row: usize = 2 * <usize>length + typedRowRoom;
  if (part == null) return 1024 + 4 * <usize>length;
  // A head that grows is held twice meanwhile, and so is an area.
  return row + <usize>part.headCapacity * 2 + part.areaLength + (part.areaLength >> 2) + 4096;
}

function isFull(part: TypedPart, length: u32, fields: u32): bool {
  return (
    part.headCount >= headRowsMax ||
    (part.headBytes >= headBytesFull && part.headCount >= headRowsFull) ||
    part.headBytes + length + <u32>typedRowRoom > headBytesMax ||
    part.headFields + fields > chunkFieldsMax ||
    part.headValueBytes + length > chunkValueBytesMax
  );
}

/** Adds a row to a node's typed part, and counts it. Traps without memory: admission keeps a reserve for this. */
export function addTyped(
  node: Node,
  nanos: i64,
  lag: i64,
  start: i64,
  value: u64,
  fields: u32,
): void {
  const found = typedPartOf(node);
  if (found == null) unreachable();
  const part = found!;
  clearFlushed(node);
  const length = <u32>(value >> 32);
  if (length > headValueMax) addLarge(node, part, nanos, lag, start, value, fields);
  else addToHead(node, part, nanos, lag, start, value, fields);
  part.lastNanos = max(part.lastNanos, nanos);
  noteAdded(node, nanos);
  state().sampleCount++;
}

function addToHead(
  node: Node,
  part: TypedPart,
  nanos: i64,
  lag: i64,
  start: i64,
  value: u64,
  fields: u32,
): void {
  const length = <u32>(value >> 32);
  if (part.headCount != 0 && isFull(part, length, fields)) sealTyped(node, part);
  const row = changetype<TypedRow>(changetype<usize>(part));
  if (part.headCount == 0) {
    beginTypedRows(row, node.blockStart);
    part.isHeadAscending = 1;
  } else if (nanos <= part.rowNanos) {
    part.isHeadAscending = 0;
  }
  const written = <u32>(writeTypedRow(rowAt, row, nanos, lag, start, value) - rowAt);
  if (part.headBytes + written > part.headCapacity) growHead(part, part.headBytes + written);
  memory.copy(part.head + <usize>part.headBytes, rowAt, <usize>written);
  part.headBytes += written;
  part.headCount++;
  part.headFields += fields;
  part.headValueBytes += length;
  part.valueBytes += <u64>length;
  if (length > part.lastValueRoom) {
    if (part.lastValue != 0) release(part.lastValue);
    const room = <usize>length + (<usize>length >> 3);
    part.lastValue = allocate(room);
    if (part.lastValue == 0) unreachable();
    part.lastValueRoom = <u32>roomOf(room);
  }
  row.value = copyOf(value, part.lastValue);
}

function growHead(part: TypedPart, bytes: u32): void {
  let capacity = max(part.headCapacity, headBytesFirst);
  while (capacity < bytes) capacity += capacity >> 1;
  const head = allocate(<usize>capacity);
  if (head == 0) unreachable();
  memory.copy(head, part.head, <usize>part.headBytes);
  if (part.head != 0) release(part.head);
  part.head = head;
  part.headCapacity = <u32>roomOf(<usize>capacity);
}

/** A desk, and room for what is written of it after that. */
function deskFor(rows: u32, fields: u64, valueBytes: usize): usize {
  return deskOf(typedDeskBytes(rows, valueBytes) + typedLongBytesMax(rows, fields, valueBytes));
}

/** A value that is too long for a head is a chunk of its own. */
function addLarge(
  node: Node,
  part: TypedPart,
  nanos: i64,
  lag: i64,
  start: i64,
  value: u64,
  fields: u32,
): void {
  const work = deskFor(1, <u64>fields, <usize>(value >> 32));
  if (work == 0) unreachable();
  const desk = openTypedDesk(work, 1, <usize>(value >> 32));
  addTypedRow(desk, nanos, lag, start, value);
  part.valueBytes += value >> 32;
  addDesk(node, part, desk, work + typedDeskBytes(1, <usize>(value >> 32)), <u64>fields);
}

/** Makes chunks of the head's rows. */
export function sealTyped(node: Node, part: TypedPart): void {
  const count = part.headCount;
  const valueBytes = <usize>part.headValueBytes;
  const work = deskFor(count, <u64>part.headFields, valueBytes);
  if (work == 0) unreachable();
  const desk = openTypedDesk(work, count, valueBytes);
  addTypedHead(desk, part.head, count, node.blockStart);
  finishTypedDesk(desk);
  const fields = desk.rowCount == count ? <u64>part.headFields : fieldsOfDesk(desk);
  emptyHead(part);
  state().sampleCount -= <u64>(count - desk.rowCount);
  part.valueBytes -= <u64>valueBytes - bytesOfDesk(desk);
  addDesk(node, part, desk, work + typedDeskBytes(count, valueBytes), fields);
}

/** Its room stays for the rows to come. */
function emptyHead(part: TypedPart): void {
  part.headCount = 0;
  part.headBytes = 0;
  part.headFields = 0;
  part.headValueBytes = 0;
}

/** Adds the rows of a finished desk to the area, and merges what overlaps when there is enough of it. */
function addDesk(node: Node, part: TypedPart, desk: TypedDesk, out: usize, fields: u64): void {
  const rows = desk.rowCount;
  const firstNanos = load<i64>(desk.times);
  const lastNanos = load<i64>(desk.times + ((<usize>rows - 1) << 3));
  const end = encodeTypedDesk(desk, out);
  const isApart = firstNanos > part.areaLastNanos;
  addTypedArea(part, out, end - out, rows, fields, lastNanos);
  if (!isApart) noteOverlap(node, part, rows);
}

/** So many rows of the area lie over the times of others: enough of them have all merged. */
export function noteOverlap(node: Node, part: TypedPart, rows: u32): void {
  part.overlapRows += rows;
  if (part.overlapRows > max(overlapRowsMin, part.areaRows >> 2)) mergeTyped(node, part);
}

/** Copies chunks after the others of a part. */
export function addTypedArea(
  part: TypedPart,
  chunks: usize,
  length: usize,
  rows: u32,
  fields: u64,
  lastNanos: i64,
): void {
  const lengthNew = part.areaLength + length;
  if (part.area == 0 || lengthNew > roomAt(part.area)) {
    const wanted = lengthNew + (part.areaLength == 0 ? 0 : lengthNew >> 2);
    const area = allocate(wanted);
    if (area == 0) unreachable();
    memory.copy(area, part.area, part.areaLength);
    if (part.area != 0) release(part.area);
    part.area = area;
  }
  memory.copy(part.area + part.areaLength, chunks, length);
  part.areaLength = lengthNew;
  part.areaRows += rows;
  part.areaFields += fields;
  part.areaLastNanos = max(part.areaLastNanos, lastNanos);
  part.lastNanos = max(part.lastNanos, lastNanos);
}

/** Work space for all rows of a part, and more after it; 0 without it. */
function deskOfPart(part: TypedPart, moreBytes: usize): usize {
  // Chunks of several blocks that come by turns are counted apart, so that a part may be past its limits.
  if (part.valueBytes > 1 << 30) return 0;
  const rows = part.areaRows + part.headCount;
  return deskOf(typedDeskBytes(rows, <usize>part.valueBytes) + moreBytes);
}

/**
 * All rows of a part on a desk, in order; 0 without memory for it.
 * @param outBytes room after the desk
 */
export function gatherTyped(node: Node, part: TypedPart, outBytes: usize): usize {
  const rows = part.areaRows + part.headCount;
  const work = deskOfPart(part, outBytes);
  if (work == 0) return 0;
  const desk = openTypedDesk(work, rows, <usize>part.valueBytes);
  const areaEnd = part.area + part.areaLength;
  for (let at = part.area; at < areaEnd; ) {
    const chunk = typedHeaderAt(at, areaEnd);
    at = chunk.end;
    if (!addTypedChunk(desk, chunk)) unreachable();
  }
  addTypedHead(desk, part.head, part.headCount, node.blockStart);
  finishTypedDesk(desk);
  return work;
}

/** Makes the whole part chunks that follow each other. All stays as it is without memory for it. */
function mergeTyped(node: Node, part: TypedPart): void {
  part.overlapRows = 0;
  const rowsBefore = part.areaRows + part.headCount;
  const valueBytes = <usize>part.valueBytes;
  const fields = part.areaFields + <u64>part.headFields;
  const work = gatherTyped(node, part, typedLongBytesMax(rowsBefore, fields, valueBytes));
  if (work == 0) return;
  const desk = changetype<TypedDesk>(work);
  const out = work + typedDeskBytes(rowsBefore, valueBytes);
  const end = encodeTypedDesk(desk, out);
  const area = allocate(end - out);
  if (area == 0) return;
  memory.copy(area, out, end - out);
  if (part.area != 0) release(part.area);
  part.area = area;
  part.areaLength = end - out;
  part.areaRows = desk.rowCount;
  part.areaFields = fieldsOfDesk(desk);
  part.areaLastNanos = part.lastNanos;
  emptyHead(part);
  part.valueBytes = bytesOfDesk(desk);
  state().sampleCount -= <u64>(rowsBefore - desk.rowCount);
  trimDesk(typedDeskKept);
}

/** The typed row that wins of those that the memory holds for one time. */
@unmanaged
export class HeldTyped {
  lag: i64;
  start: i64;
  value: u64;
  isSome: u32;
}
const heldAt: usize = stateAt + 2688;

/**
 * What lies on the desk of the state's `lookedTyped`: late rows come one after the other by time, and to decode a chunk for each of
 * them takes thirty times as long as all else that is done for it.
 */
@unmanaged
class LookedTyped {
  /** Times from and to, inclusive, that the same chunks span: their rows are on the desk, and those of the head. */
  firstNanos: i64;
  lastNanos: i64;
  /** Rows of times from and to came after that. */
  addedFirstNanos: i64;
  addedLastNanos: i64;
}
const lookedAt: usize = stateAt + 2880;

/** A row comes to the part of a node, and is the last one of its head. */
function noteAdded(node: Node, nanos: i64): void {
  if (state().lookedTyped != changetype<usize>(node)) return;
  const looked = changetype<LookedTyped>(lookedAt);
  looked.addedFirstNanos = min(looked.addedFirstNanos, nanos);
  looked.addedLastNanos = max(looked.addedLastNanos, nanos);
}

/**
 * Looks for the row of a part at a time; its value is good until the next use of work space. Null without work space.
 */
export function heldTyped(node: Node, part: TypedPart, nanos: i64): HeldTyped | null {
  const held = changetype<HeldTyped>(heldAt);
  held.isSome = 0;
  if (nanos > part.lastNanos) return held;
  if (
    part.headCount != 0 &&
    part.isHeadAscending != 0 &&
    nanos == part.rowNanos &&
    nanos > part.areaLastNanos
  ) {
    offer(held, part.rowLag, part.rowStart, part.rowValue);
    return held;
  }
  if (!isLookedAt(node, nanos) && !lookAtTyped(node, part, nanos)) return null;
  const desk = changetype<TypedDesk>(state().desk);
  for (let place: usize = 0; place < <usize>desk.rowCount << 3; place += 8) {
    if (load<i64>(desk.times + place) != nanos) continue;
    offer(
      held,
      load<i64>(desk.lags + place),
      load<i64>(desk.starts + place),
      load<u64>(desk.places + place),
    );
  }
  return held;
}

/** Whether all that a part has of a time is on the desk. */
function isLookedAt(node: Node, nanos: i64): bool {
  if (state().lookedTyped != changetype<usize>(node)) return false;
  const looked = changetype<LookedTyped>(lookedAt);
  if (nanos < looked.firstNanos || nanos > looked.lastNanos) return false;
  return nanos < looked.addedFirstNanos || nanos > looked.addedLastNanos;
}

/** Puts what a part has of a time on the desk; false without work space. */
function lookAtTyped(node: Node, part: TypedPart, nanos: i64): bool {
  const work = deskOfPart(part, 0);
  if (work == 0) return false;
  const looked = changetype<LookedTyped>(lookedAt);
  const desk = openTypedDesk(work, part.areaRows + part.headCount, <usize>part.valueBytes);
  let firstNanos = i64.MIN_VALUE;
  let lastNanos = i64.MAX_VALUE;
  const areaEnd = part.area + part.areaLength;
  for (let at = part.area; at < areaEnd; ) {
    const chunk = typedHeaderAt(at, areaEnd);
    at = chunk.end;
    if (chunk.lastNanos < nanos) {
      firstNanos = max(firstNanos, chunk.lastNanos + 1);
    } else if (chunk.firstNanos > nanos) {
      lastNanos = min(lastNanos, chunk.firstNanos - 1);
    } else {
      firstNanos = max(firstNanos, chunk.firstNanos);
      lastNanos = min(lastNanos, chunk.lastNanos);
      if (!addTypedChunk(desk, chunk)) unreachable();
    }
  }
  addTypedHead(desk, part.head, part.headCount, node.blockStart);
  looked.firstNanos = firstNanos;
  looked.lastNanos = lastNanos;
  looked.addedFirstNanos = i64.MAX_VALUE;
  looked.addedLastNanos = i64.MIN_VALUE;
  state().lookedTyped = changetype<usize>(node);
  return true;
}

function offer(held: HeldTyped, lag: i64, start: i64, value: u64): void {
  if (held.isSome) {
    if (orderOfTyped(held.lag, held.value, held.start, lag, value, start) >= 0) return;
  }
  held.lag = lag;
  held.start = start;
  held.value = value;
  held.isSome = 1;
}
