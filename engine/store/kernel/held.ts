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
  readRows,
} from './head_rows';
import { deskOf, stateAt, tablesAt } from './memory/pages';
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
