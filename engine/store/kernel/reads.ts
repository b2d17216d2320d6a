// Reads of a store: copies of chunks, heads as raw chunks, blocks merged for files, and the check
// of chunks that come from outside.
import {
  Chunk,
  columnSlackBytes,
  decodeChunk,
  kindFloatStarts,
  kindsAll,
  kindTyped,
  readHeader,
  versionAt,
} from '../../codec/kernel/codec';
import { encodeRowsMax } from '../../codec/kernel/scratch';
import { encodedBytesMax, encodeRaw, encodeRowsAsTheyAre } from '../../codec/kernel/write';
import { addLateRows, addHeadRows, hasStartsLoose, headerAt } from './block_merge';
import { encodeRows } from './encode';
import { addToArea, sealHead } from './heads';
import { firstNanosOf, headRowsMax, highestVersionOf, isStarted } from './head_rows';
import {
  addChunk,
  Desk,
  deskBytes,
  deskRowsMax,
  finishDesk,
  openDesk,
  rowAt,
} from '../../codec/kernel/merge';
import {
  answerNoMemory,
  deskOf,
  insertMalformed,
  insertNoMemory,
  insertOk,
  insertSpansBlocks,
  insertTimeOutOfRange,
  state,
  stateAt,
  tablesAt,
} from './memory/pages';
import {
  blockSizeOf,
  clearFlushed,
  copyHeadState,
  findNode,
  floatRowsOf,
  isFlushed,
  makeCurrent,
  Node,
  nodeOf,
  park,
  Series,
  setFlushed,
  typedOf,
} from './memory/series';
import { typedHeaderAt } from './typed/desk';
import {
  beginTypedChecks,
  checkTypedChunk,
  copyTyped,
  insertTyped,
  mergeTypedNode,
  typedReadBytesMax,
} from './typed/reads';

const checkedAt: usize = stateAt + 3072;

/** Bytes of a row in a raw chunk with versions. */
const rawRowBytes: usize = 20;
const chunkHeaderBytesMax: usize = 48;
const versionSpan: i64 = 0x100000000;
/** Times that a store takes: `rowNanosMax` of lib/block_time.ts. */
export const storeNanosMax: i64 = 1 << 62;

/** At most so many bytes are the chunks of a parked node. */
function readBytesMax(node: Node): usize {
  const loose: usize = hasStartsLoose(node) ? encodedBytesMax(headRowsMax, true) << 1 : 0;
  return (
    loose +
    node.areaLength +
    chunkHeaderBytesMax +
    <usize>node.headBytes +
    <usize>node.lateCount * (rawRowBytes + chunkHeaderBytesMax) +
    typedReadBytesMax(node)
  );
}

/**
 * Copies the chunks of a series that overlap [start, end) to `out`; gives their end, or 0 when they
 * may need more than `room`, with what they need as the answer, `answerNoMemory` when there is no
 * work space for them.
 */
export function readSeries(series: Series, start: i64, end: i64, out: usize, room: usize): usize {
  const size = blockSizeOf(series);
  copyHeadState(series);
  let needed: usize = 0;
  for (let at = series.nodes; at != 0; ) {
    const node = changetype<Node>(at);
    if (node.blockStart + size > start && node.blockStart < end) needed += readBytesMax(node);
    at = node.next;
  }
  let o = out;
  if (needed > room) {
    state().answer = needed;
    o = 0;
  } else {
    for (let at = series.nodes; at != 0; ) {
      const node = changetype<Node>(at);
      if (node.blockStart + size > start && node.blockStart < end) {
        const isWhole = node.blockStart >= start && node.blockStart + size <= end;
        o = copyArea(node, start, end, isWhole, o);
        o = copyLate(node, start, end, o);
        if (o == 0) break;
        o = copyHead(node, start, end, o);
        if (o == 0) break;
        o = copyTyped(node, start, end, isWhole, o);
        if (o == 0) break;
      }
      at = node.next;
    }
  }
  return o;
}

function copyArea(node: Node, start: i64, end: i64, isWhole: bool, o: usize): usize {
  const area = node.area;
  const length = node.areaLength;
  if (isWhole) {
    memory.copy(o, area, length);
    return o + length;
  }
  const areaEnd = area + length;
  for (let at = area; at < areaEnd; ) {
    const chunk = headerAt(at, areaEnd);
    const chunkEnd = chunk.end;
    if (chunk.lastNanos >= start && chunk.firstNanos < end) {
      memory.copy(o, at, chunkEnd - at);
      o += chunkEnd - at;
    }
    at = chunkEnd;
  }
  return o;
}

/**
 * The head as it is: to copy its few bytes is cheaper than to look for the rows of the range. Rows with start times are
 * encoded; 0 without work space for that.
 */
function copyHead(node: Node, start: i64, end: i64, o: usize): usize {
  const count = <u32>node.headCount;
  if (count == 0 || node.lastNanos < start) return o;
  const first = firstNanosOf(node.head, node.blockStart);
  if (first >= end) return o;
  if (isStarted(node.head)) {
    const work = deskOf(deskBytes(count, 1, true));
    if (work == 0) {
      state().answer = answerNoMemory;
      return 0;
    }
    const desk = openDesk(work, tablesAt, count, 1, true);
    addHeadRows(desk, node.head, node.blockStart, count);
    finishDesk(desk, true);
    return encodeRows(desk, count, o);
  }
  const version = highestVersionOf(node.head);
  return encodeRowsAsTheyAre(
    node.head,
    <usize>node.headBytes,
    count,
    first,
    node.lastNanos,
    version,
    o,
  );
}

/**
 * Late rows in order, as one raw chunk, or several when their versions are far apart; 0 without
 * work space for them.
 */
function copyLate(node: Node, start: i64, end: i64, o: usize): usize {
  const count = <u32>node.lateCount;
  if (count == 0) return o;
  const hasStarts = hasStartsLoose(node);
  const work = deskOf(deskBytes(count, count, hasStarts));
  if (work == 0) {
    state().answer = answerNoMemory;
    return 0;
  }
  const desk = openDesk(work, tablesAt, count, count, hasStarts);
  addLateRows(desk, node);
  finishDesk(desk, true);
  let row = rowAt(desk, start);
  const rowEnd = rowAt(desk, end);
  if (hasStarts) {
    keepOnly(desk, row, rowEnd);
    return encodeRows(desk, encodeRowsMax, o);
  }
  while (row < rowEnd) {
    const first = row;
    let low = i64.MAX_VALUE;
    let high: i64 = 0;
    for (; row < rowEnd; row++) {
      const place = <usize>row << 3;
      const version = load<i64>(desk.lags + place) + versionAt(load<i64>(desk.times + place));
      if (max(high, version) - min(low, version) >= versionSpan && row > first) break;
      low = min(low, version);
      high = max(high, version);
    }
    const place = <usize>first << 3;
    o = encodeRaw(
      desk.times + place,
      desk.values + place,
      desk.lags + place,
      row - first,
      high,
      o,
    );
  }
  return o;
}

/** Leaves rows [row, rowEnd) on a finished desk; none when the end lies before. */
export function keepOnly(desk: Desk, row: u32, rowEnd: u32): void {
  const place = <usize>row << 3;
  desk.times += place;
  desk.values += place;
  desk.lags += place;
  if (desk.starts != 0) desk.starts += place;
  desk.rowCount = max(rowEnd, row) - row;
}

/**
 * Writes the rows of one block, merged and encoded anew, to `out`; gives their end (`out` when
 * there are none), or 0 when they may need more than `room`, with what they need as the answer,
 * `answerNoMemory` when there is no work space for them.
 * @param isFlush marks the block as unchanged since; it is no longer the current one then
 */
export function readMerged(
  series: Series,
  blockStart: i64,
  out: usize,
  room: usize,
  isFlush: bool,
): usize {
  const node = findNode(series, blockStart);
  if (node == null || node.blockStart != blockStart) return out;
  copyHeadState(series);
  let o = floatRowsOf(node) == 0 ? out : mergeNode(node, out, room);
  if (o != 0) o = mergeTypedNode(node, o, room - (o - out));
  if (isFlush && o != 0) markFlushed(series, node);
  return o;
}

/** Marks a block as unchanged from now on; it is no longer the current one. */
function markFlushed(series: Series, node: Node): void {
  if (isFlushed(node)) return;
  if (series.current == changetype<usize>(node)) park(series);
  setFlushed(node);
}

function mergeNode(node: Node, out: usize, room: usize): usize {
  const rows = floatRowsOf(node);
  if (rows > deskRowsMax) {
    state().answer = answerNoMemory;
    return 0;
  }
  const areaEnd = node.area + node.areaLength;
  let parts = 1 + <u32>node.lateCount;
  let hasStarts = hasStartsLoose(node);
  for (let at = node.area; at < areaEnd; parts++) {
    const chunk = headerAt(at, areaEnd);
    if (chunk.kind == kindFloatStarts) hasStarts = true;
    at = chunk.end;
  }
  const needed = longBytesMax(rows, hasStarts);
  if (needed > room) {
    state().answer = needed;
    return 0;
  }
  const work = deskOf(deskBytes(rows, parts, hasStarts));
  if (work == 0) {
    state().answer = answerNoMemory;
    return 0;
  }
  const desk = openDesk(work, tablesAt, rows, parts, hasStarts);
  for (let at = node.area; at < areaEnd; ) {
    const chunk = headerAt(at, areaEnd);
    if (!addChunk(desk, chunk)) unreachable();
    at = chunk.end;
  }
  addHeadRows(desk, node.head, node.blockStart, node.headCount);
  addLateRows(desk, node);
  return encodeLong(desk, out);
}

/** Encodes the rows of a desk as long chunks. */
export function encodeLong(desk: Desk, out: usize): usize {
  finishDesk(desk, true);
  return encodeRows(desk, encodeRowsMax, out);
}

/** At most so many bytes are the long chunks of so many rows. */
export function longBytesMax(rows: u32, hasStarts: bool): usize {
  return encodedBytesMax(rows, hasStarts) + 256 * <usize>(rows / encodeRowsMax + 1);
}

/** Checks chunks whole; only good ones may go into a store, where they are trusted. */
function checkChunks(series: Series, at: usize, end: usize): u32 {
  const size = blockSizeOf(series);
  const chunk = changetype<Chunk>(checkedAt);
  beginTypedChecks();
  while (at < end) {
    if (!readHeader(chunk, at, end, kindsAll)) return insertMalformed;
    const from = at;
    at = chunk.end;
    if (chunk.firstNanos <= -storeNanosMax || chunk.lastNanos >= storeNanosMax) {
      return insertTimeOutOfRange;
    }
    // `blockStartOf` of lib/block_time.ts.
    const rest = chunk.firstNanos % size;
    const blockStart = chunk.firstNanos - (rest < 0 ? rest + size : rest);
    if (chunk.lastNanos - blockStart >= size) return insertSpansBlocks;
    if (chunk.kind == kindTyped) {
      const outcome = checkTypedChunk(series, blockStart, from, at);
      if (outcome != insertOk) return outcome;
      continue;
    }
    const column = (<usize>chunk.rowCount << 3) + columnSlackBytes;
    const work = deskOf(column * 4);
    if (work == 0) return insertNoMemory;
    const lags = work + 2 * column;
    if (!decodeChunk(chunk, tablesAt, work, work + column, lags, lags + column)) {
      return insertMalformed;
    }
  }
  return insertOk;
}

/**
 * Makes the last time of a block that of its chunks, so that no row that may be among them is
 * written after them unseen. The head's rows, which count from it, are sealed before.
 */
function coverArea(series: Series, node: Node): void {
  if (node.headCount != 0) {
    makeCurrent(series, node);
    sealHead(series);
    park(series);
  }
  node.lastNanos = max(node.lastNanos, node.areaLastNanos);
}

/** Adds chunks from outside to a series: all of them, or none. */
export function insertChecked(series: Series, at: usize, end: usize): u32 {
  const outcome = checkChunks(series, at, end);
  if (outcome != insertOk) return outcome;
  const current = series.current;
  park(series);
  while (at < end) {
    const chunk = typedHeaderAt(at, end);
    const chunkEnd = chunk.end;
    const rows = chunk.rowCount;
    const lastNanos = chunk.lastNanos;
    if (chunk.kind == kindTyped) {
      insertTyped(series, at, chunkEnd);
      at = chunkEnd;
      continue;
    }
    const node = nodeOf(series, chunk.firstNanos);
    if (node == null) unreachable();
    clearFlushed(node!);
    addToArea(node!, at, chunkEnd - at, rows, lastNanos);
    state().sampleCount += <u64>rows;
    if (node!.lastNanos < lastNanos) coverArea(series, node!);
    at = chunkEnd;
  }
  if (current != 0 && typedOf(changetype<Node>(current)) == null) {
    makeCurrent(series, changetype<Node>(current));
  }
  return insertOk;
}

/** Used by decoders, which have a memory of their own: fills unix milliseconds, rounded down. */
export function fillMillis(desk: Desk, row: u32, rowEnd: u32): void {
  const end = desk.times + (<usize>rowEnd << 3);
  const apart = desk.timesOther - desk.times;
  let p = desk.times + (<usize>row << 3);
  while (p < end) {
    const nanos = load<i64>(p);
    let millis = <i64>(<f64>nanos * 1e-6);
    const rest = nanos - millis * 1000000;
    millis += <i64>(rest >= 1000000) - <i64>(rest < 0);
    store<f64>(p + apart, <f64>millis);
    p += 8;
    if (p + 64 <= end) p = fillRegularMillis(p, end, apart, <f64>millis);
  }
}

/** Goes on as long as times have the step of the first two and it is whole milliseconds. */
function fillRegularMillis(p: usize, end: usize, apart: usize, millis: f64): usize {
  const step = load<i64>(p) - load<i64>(p - 8);
  const stepMillis = nearest(<f64>step * 1e-6);
  if (<i64>stepMillis * 1000000 != step) return p;
  const steps = i64x2.splat(step);
  const stride = f64x2.splat(stepMillis * 2);
  let pair = f64x2(millis + stepMillis, millis + stepMillis * 2);
  while (p + 16 <= end) {
    if (i64x2.all_true(i64x2.eq(i64x2.sub(v128.load(p), v128.load(p - 8)), steps)) == false) break;
    v128.store(p + apart, pair);
    pair = f64x2.add(pair, stride);
    p += 16;
  }
  return p;
}
