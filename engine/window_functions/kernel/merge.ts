// All chunks of a series → one run of rows, ascending, every timestamp once. Chunks are taken in
// the order of their first times; one that begins after all rows so far is decoded in place, one
// that overlaps (replicas, late samples) is merged with the rows that it touches. Replicas often
// hold the same bytes: these are taken once.

import {
  Chunk,
  decodeChunk,
  hasLagsOfRows,
  lagOfLast,
  readHeader,
  versionAt,
} from '../../codec/kernel/codec';

/**
 * Addresses of columns: int64 nanoseconds, float64 values, and int64 lags, which order rows of one time
 * by version (rows.ts).
 */
@unmanaged
export class Columns {
  times: u32;
  values: u32;
  lags: u32;
  unused: u32;
}

/** An entry of the list of chunks. */
@unmanaged
class Listed {
  firstNanos: i64;
  address: u32;
  end: u32;
}
const listedShift: usize = 4;
/** Of an entry. */
export const listedBytes: usize = 1 << listedShift;

@inline
function listed(list: usize, index: usize): Listed {
  return changetype<Listed>(list + (index << listedShift));
}

/** What was found of a series' chunks. */
@unmanaged
export class Found {
  /** Rows of the listed chunks. */
  rows: f64;
  chunks: u32;
  /** 1 when chunks overlap: then rows need lags. */
  overlaps: u32;
}

function sameBytes(a: usize, b: usize, length: usize): bool {
  let i: usize = 0;
  for (; i + 8 <= length; i += 8) if (load<u64>(a + i) != load<u64>(b + i)) return false;
  for (; i < length; i++) if (load<u8>(a + i) != load<u8>(b + i)) return false;
  return true;
}

/**
 * Lists the chunks that touch [startNanos, endNanos), equal ones once, by first time. `list` has
 * room for `listedBytes` a chunk. False when one is malformed.
 */
export function listChunks(
  chunk: Chunk,
  start: usize,
  end: usize,
  startNanos: i64,
  endNanos: i64,
  list: usize,
  found: Found,
): bool {
  let rows: f64 = 0;
  let count: usize = 0;
  let last = i64.MIN_VALUE;
  let overlaps = false;
  // Where the next chunk's twin is expected: replicas come one after the other, each in the order
  // of time.
  let expected: usize = 0;
  for (let p = start; p < end; ) {
    if (!readHeader(chunk, p, end)) return false;
    const next = <usize>chunk.end;
    if (chunk.lastNanos >= startNanos && chunk.firstNanos < endNanos) {
      let isKnown = false;
      if (count > 0 && chunk.firstNanos <= last) {
        const length = next - p;
        for (let tries: usize = 0; tries < count && !isKnown; tries++) {
          const candidate = expected + tries < count ? expected + tries : expected + tries - count;
          const other = listed(list, candidate);
          if (other.firstNanos != chunk.firstNanos) continue;
          const address = <usize>other.address;
          if (<usize>other.end - address != length || !sameBytes(address, p, length)) continue;
          isKnown = true;
          expected = candidate + 1;
        }
        if (!isKnown) overlaps = true;
      }
      if (!isKnown) {
        const entry = listed(list, count);
        entry.firstNanos = chunk.firstNanos;
        entry.address = <u32>p;
        entry.end = <u32>next;
        count++;
        rows += <f64>chunk.rowCount;
        if (chunk.lastNanos > last) last = chunk.lastNanos;
      }
    }
    p = next;
  }
  if (overlaps) sortByTime(list, count);
  found.rows = rows;
  found.chunks = <u32>count;
  found.overlaps = overlaps ? 1 : 0;
  return true;
}

/** Shell's sort: the list is short, or nearly in order. */
function sortByTime(list: usize, count: usize): void {
  let gap: usize = 1;
  while (gap < count / 3) gap = gap * 3 + 1;
  for (; gap > 0; gap /= 3) {
    for (let i = gap; i < count; i++) {
      const moved = listed(list, i);
      const firstNanos = moved.firstNanos;
      const address = moved.address;
      const end = moved.end;
      let at = i;
      while (at >= gap && listed(list, at - gap).firstNanos > firstNanos) {
        const source = listed(list, at - gap);
        const target = listed(list, at);
        target.firstNanos = source.firstNanos;
        target.address = source.address;
        target.end = source.end;
        at -= gap;
      }
      const target = listed(list, at);
      target.firstNanos = firstNanos;
      target.address = address;
      target.end = end;
    }
  }
}

/**
 * Decodes the listed chunks into the columns, which have room for all their rows; so have the spare
 * columns, that are needed when chunks overlap. Returns the rows in [startNanos, endNanos), or -1
 * when a chunk is malformed.
 */
export function decodeListed(
  chunk: Chunk,
  tables: usize,
  list: usize,
  found: Found,
  startNanos: i64,
  endNanos: i64,
  columns: Columns,
  spare: Columns,
): i32 {
  const needsLags = found.overlaps != 0;
  let rows: usize = 0;
  for (let index: usize = 0; index < <usize>found.chunks; index++) {
    const entry = listed(list, index);
    if (!readHeader(chunk, <usize>entry.address, <usize>entry.end)) return -1;
    const times = <usize>columns.times;
    if (rows > 0 && chunk.firstNanos <= load<i64>(times + ((rows - 1) << 3))) {
      const free = <usize>columns.lags + (rows << 3);
      if (!decodeRun(chunk, tables, spare, 0, true, free)) return -1;
      rows = mergeTail(columns, rows, spare, <usize>chunk.rowCount);
    } else {
      const free = needsLags ? <usize>spare.lags : <usize>columns.lags + (rows << 3);
      if (!decodeRun(chunk, tables, columns, rows, needsLags, free)) return -1;
      rows += <usize>chunk.rowCount;
    }
  }
  return <i32>trim(columns, rows, startNanos, endNanos);
}

/**
 * Decodes one chunk to row `at` of the columns.
 * @param free a column for start times, which nobody asks for
 */
function decodeRun(
  chunk: Chunk,
  tables: usize,
  columns: Columns,
  at: usize,
  needsLags: bool,
  free: usize,
): bool {
  const offset = at << 3;
  const times = <usize>columns.times + offset;
  const lags = <usize>columns.lags + offset;
  if (!decodeChunk(chunk, tables, times, <usize>columns.values + offset, lags, free)) return false;
  if (!needsLags || chunk.hasRowVersions) return true;
  const isOneLag = hasLagsOfRows(chunk);
  const lag = lagOfLast(chunk);
  for (let i: usize = 0; i < <usize>chunk.rowCount << 3; i += 8) {
    store<i64>(lags + i, isOneLag ? lag : chunk.version - versionAt(load<i64>(times + i)));
  }
  return true;
}

@inline
function copyRow(from: Columns, source: usize, to: Columns, target: usize): void {
  store<i64>(<usize>to.times + (target << 3), load<i64>(<usize>from.times + (source << 3)));
  store<i64>(<usize>to.values + (target << 3), load<i64>(<usize>from.values + (source << 3)));
  store<i64>(<usize>to.lags + (target << 3), load<i64>(<usize>from.lags + (source << 3)));
}

/** Whether row b of the columns stands over row a, which has the same time. */
function replaces(columns: Columns, b: usize, a: usize): bool {
  const lagA = load<i64>(<usize>columns.lags + (a << 3));
  const lagB = load<i64>(<usize>columns.lags + (b << 3));
  if (lagA != lagB) return lagB > lagA;
  return load<u64>(<usize>columns.values + (b << 3)) > load<u64>(<usize>columns.values + (a << 3));
}

/**
 * Merges spare rows [0, count) with the rows of the columns that they touch. Of rows with one
 * timestamp the higher version stays, then the larger value bits. Returns how many rows the columns
 * have then.
 */
function mergeTail(columns: Columns, rows: usize, spare: Columns, count: usize): usize {
  const first = lowerBound(<usize>columns.times, rows, load<i64>(<usize>spare.times));
  const tail = rows - first;
  copyColumns(columns, first, spare, count, tail);
  const times = <usize>spare.times;
  const past = count + tail;
  let a: usize = 0;
  let b = count;
  let written = first;
  while (a < count && b < past) {
    const timeA = load<i64>(times + (a << 3));
    const timeB = load<i64>(times + (b << 3));
    if (timeA < timeB) copyRow(spare, a++, columns, written++);
    else if (timeB < timeA) copyRow(spare, b++, columns, written++);
    else {
      copyRow(spare, replaces(spare, b, a) ? b : a, columns, written++);
      a++;
      b++;
    }
  }
  const left = a < count ? count - a : past - b;
  copyColumns(spare, a < count ? a : b, columns, written, left);
  return written + left;
}

function copyColumns(from: Columns, source: usize, to: Columns, target: usize, count: usize): void {
  const bytes = count << 3;
  memory.copy(<usize>to.times + (target << 3), <usize>from.times + (source << 3), bytes);
  memory.copy(<usize>to.values + (target << 3), <usize>from.values + (source << 3), bytes);
  memory.copy(<usize>to.lags + (target << 3), <usize>from.lags + (source << 3), bytes);
}

/** Keeps the rows in [startNanos, endNanos), moved to the front. */
function trim(columns: Columns, rows: usize, startNanos: i64, endNanos: i64): usize {
  const times = <usize>columns.times;
  const first = lowerBound(times, rows, startNanos);
  const past = lowerBound(times, rows, endNanos);
  const kept = past - first;
  if (first > 0) {
    memory.copy(times, times + (first << 3), kept << 3);
    const values = <usize>columns.values;
    memory.copy(values, values + (first << 3), kept << 3);
  }
  return kept;
}

function lowerBound(times: usize, rows: usize, wanted: i64): usize {
  let low: usize = 0;
  let high = rows;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (load<i64>(times + (middle << 3)) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}
