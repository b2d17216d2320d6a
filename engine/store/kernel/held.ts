// What the memory holds of a block for a time, and how a row stands to it.
import {
  columnSlackBytes,
  decodeChunk,
  hasLagsOfRows,
  kindFloatStarts,
  lagOfLast,
  versionAt,
} from '../../codec/kernel/codec';
import { headerAt } from './block_merge';
import {
  firstNanosOf,
  headLagsAt,
  headStartsAt,
  headTimesAt,
  headValuesAt,
  isStarted,
  lastStartOf,
  readRows,
} from './head_rows';
import { lookedOf, state, stateAt, tablesAt } from './memory/pages';
import { lateRowBytes, Node, Series } from './memory/series';

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

/**
 * What was found when the last row was compared. Late rows come as runs, and to decode a chunk for each of them took fifteen times
 * as long as all else that is done for it. It is of the state's `lookedNode`, and holds until the area of the node changes or the
 * columns of a head are used for something else (`mergeBlock`, `addToArea`, `readRows`).
 */
@unmanaged
class Looked {
  /** The head that lies in the columns, with so many rows; 0 for none. */
  head: usize;
  headCount: u32;
  /** 1 when the chunk's rows are decoded. */
  isDecoded: u32;
  /** No late row is earlier or later. */
  lateFirstNanos: i64;
  lateLastNanos: i64;
  /** Times from and to, inclusive, of which no chunk of the area knows anything but the one. */
  firstNanos: i64;
  lastNanos: i64;
  /** The chunk; 0 for none. */
  chunk: usize;
  version: i64;
  /** Decoded columns; 0 for one that there is not. */
  times: usize;
  values: usize;
  lags: usize;
  starts: usize;
  rowCount: u32;
  /** 1 where rows without a lag of their own have that of the last one, 0 where they have its version. */
  hasOneLag: u32;
  lag: i64;
  /** 1 when each chunk of the area begins after the one before: those before `nextAt` end before `firstNanos`. */
  isInOrder: u32;
  /** The chunk, or the first one after `lastNanos`; the area's end where there is none. */
  nextAt: usize;
}
const lookedAt: usize = stateAt + 1664;

/** A late row comes to the node. */
@inline
export function noteLate(node: Node, nanos: i64): void {
  if (state().lookedNode != changetype<usize>(node)) return;
  const looked = changetype<Looked>(lookedAt);
  looked.lateFirstNanos = min(looked.lateFirstNanos, nanos);
  looked.lateLastNanos = max(looked.lateLastNanos, nanos);
}

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
export function compareWithHeld(
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
  const looked = changetype<Looked>(lookedAt);
  held.isSome = 0;
  if (isLastOfAll(series, node, nanos)) {
    const start = isStarted(series.head) ? lastStartOf(series.head) : 0;
    offerHeld(held, series.lastVersion - versionAt(nanos), series.lastBits, start);
    offerLate(held, node, nanos);
    return true;
  }
  const isKnown = state().lookedNode == changetype<usize>(node);
  state().lookedNode = 0;
  if (!isKnown) looked.head = 0;
  const count = <u32>series.headCount;
  if (count != 0 && nanos <= series.lastNanos && nanos >= firstNanosOf(series.head, series.blockStart)) {
    const starts: usize = isStarted(series.head) ? headStartsAt : 0;
    if (looked.head != series.head || looked.headCount != count) {
      readRows(series.head, series.blockStart, count, headTimesAt, headValuesAt, headLagsAt, starts);
      looked.head = series.head;
      looked.headCount = count;
    }
    offerRowAt(held, nanos, headTimesAt, headValuesAt, headLagsAt, starts, count, 0);
  }
  if (!isKnown) lookAtLate(looked, node);
  if (nanos >= looked.lateFirstNanos && nanos <= looked.lateLastNanos) offerLate(held, node, nanos);
  const isNear = isKnown && nanos >= looked.firstNanos && nanos <= looked.lastNanos;
  const isAfter = isKnown && looked.isInOrder != 0 && nanos > looked.lastNanos;
  if (isAfter) goOnInArea(looked, node, nanos);
  if (!isNear && !isAfter && !lookAtArea(looked, node, nanos)) {
    if (!offerOverlapping(held, looked, node, nanos, version)) return false;
  } else if (looked.chunk != 0 && looked.version >= version) {
    if (looked.isDecoded == 0 && !decodeLooked(looked, node)) return false;
    offerLooked(held, looked, nanos);
  }
  state().lookedNode = changetype<usize>(node);
  return true;
}

function offerLate(held: Held, node: Node, nanos: i64): void {
  const lateEnd = node.late + <usize>node.lateCount * lateRowBytes;
  for (let at = node.late; at < lateEnd; at += lateRowBytes) {
    if (load<i64>(at) != nanos) continue;
    offerHeld(held, load<i64>(at, 16), load<u64>(at, 8), load<i64>(at, 24));
  }
}

/**
 * Whether the head's last row and late rows are all that the current block has of the time. To look at all else for each row of a batch whose rows have
 * the last time grew with the chunks: what was looked at is forgotten when a row is replaced.
 */
function isLastOfAll(series: Series, node: Node, nanos: i64): bool {
  return (
    series.headCount != 0 &&
    nanos == series.lastNanos &&
    nanos > node.areaLastNanos
  );
}

function lookAtLate(looked: Looked, node: Node): void {
  looked.lateFirstNanos = i64.MAX_VALUE;
  looked.lateLastNanos = i64.MIN_VALUE;
  const lateEnd = node.late + <usize>node.lateCount * lateRowBytes;
  for (let at = node.late; at < lateEnd; at += lateRowBytes) {
    looked.lateFirstNanos = min(looked.lateFirstNanos, load<i64>(at));
    looked.lateLastNanos = max(looked.lateLastNanos, load<i64>(at));
  }
}

/** Looks for the chunk that spans a time; false when several do, and then nothing is kept in mind. */
function lookAtArea(looked: Looked, node: Node, nanos: i64): bool {
  looked.chunk = 0;
  looked.isDecoded = 0;
  looked.isInOrder = 0;
  let firstNanos = i64.MIN_VALUE;
  let lastNanos = i64.MAX_VALUE;
  let before = i64.MIN_VALUE;
  let isInOrder: u32 = 1;
  let nextAt: usize = 0;
  const areaEnd = node.area + node.areaLength;
  for (let at = node.area; at < areaEnd; ) {
    const chunk = headerAt(at, areaEnd);
    if (chunk.firstNanos <= before) isInOrder = 0;
    before = chunk.lastNanos;
    if (chunk.lastNanos < nanos) {
      firstNanos = max(firstNanos, chunk.lastNanos + 1);
    } else {
      if (nextAt == 0) nextAt = at;
      if (chunk.firstNanos > nanos) {
        lastNanos = min(lastNanos, chunk.firstNanos - 1);
      } else if (looked.chunk == 0) {
        looked.chunk = at;
        looked.version = chunk.version;
      } else {
        looked.chunk = 0;
        looked.firstNanos = i64.MAX_VALUE;
        return false;
      }
    }
    at = chunk.end;
  }
  looked.firstNanos = firstNanos;
  looked.lastNanos = lastNanos;
  looked.isInOrder = isInOrder;
  looked.nextAt = nextAt == 0 ? areaEnd : nextAt;
  return true;
}

/**
 * `lookAtArea` of an area in order, for a time after those that are known: late rows come by ascending time, and to walk all headers
 * for each of them grew with the square of a long block.
 */
function goOnInArea(looked: Looked, node: Node, nanos: i64): void {
  looked.chunk = 0;
  looked.isDecoded = 0;
  looked.firstNanos = looked.lastNanos + 1;
  looked.lastNanos = i64.MAX_VALUE;
  const areaEnd = node.area + node.areaLength;
  let at = looked.nextAt;
  for (; at < areaEnd; ) {
    const chunk = headerAt(at, areaEnd);
    if (chunk.lastNanos >= nanos) {
      if (chunk.firstNanos > nanos) {
        looked.lastNanos = chunk.firstNanos - 1;
      } else {
        looked.chunk = at;
        looked.version = chunk.version;
        looked.firstNanos = chunk.firstNanos;
        looked.lastNanos = chunk.lastNanos;
      }
      break;
    }
    looked.firstNanos = chunk.lastNanos + 1;
    at = chunk.end;
  }
  looked.nextAt = at;
}

/** False without work space. */
function decodeLooked(looked: Looked, node: Node): bool {
  const chunk = headerAt(looked.chunk, node.area + node.areaLength);
  const column = (<usize>chunk.rowCount << 3) + columnSlackBytes;
  const work = lookedOf(column * 4);
  if (work == 0) return false;
  looked.rowCount = chunk.rowCount;
  looked.times = work;
  looked.values = work + column;
  looked.lags = chunk.hasRowVersions ? work + 2 * column : 0;
  looked.starts = chunk.kind == kindFloatStarts ? work + 3 * column : 0;
  looked.hasOneLag = hasLagsOfRows(chunk) ? 1 : 0;
  looked.lag = lagOfLast(chunk);
  if (!decodeChunk(chunk, tablesAt, work, work + column, work + 2 * column, looked.starts)) {
    unreachable();
  }
  looked.isDecoded = 1;
  return true;
}

function offerLooked(held: Held, looked: Looked, nanos: i64): void {
  const lag = looked.hasOneLag != 0 ? looked.lag : looked.version - versionAt(nanos);
  offerRowAt(
    held,
    nanos,
    looked.times,
    looked.values,
    looked.lags,
    looked.starts,
    looked.rowCount,
    lag,
  );
}

/** Offers what each of the chunks that span a time has for it; false without work space. */
function offerOverlapping(
  held: Held,
  looked: Looked,
  node: Node,
  nanos: i64,
  version: i64,
): bool {
  const areaEnd = node.area + node.areaLength;
  for (let at = node.area; at < areaEnd; ) {
    const chunk = headerAt(at, areaEnd);
    const next = chunk.end;
    // A chunk of lower versions holds nothing that the row does not replace.
    if (nanos >= chunk.firstNanos && nanos <= chunk.lastNanos && chunk.version >= version) {
      looked.chunk = at;
      looked.version = chunk.version;
      if (!decodeLooked(looked, node)) return false;
      offerLooked(held, looked, nanos);
    }
    at = next;
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
