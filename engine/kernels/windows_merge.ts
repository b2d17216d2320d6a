// All chunks of a series → one run of rows, ascending, every timestamp once. Chunks that follow each other are
// decoded behind each other; chunks that overlap (replicas, late samples) are sorted runs that are merged pairwise.

import { Chunk, decodeChunk, readHeader, rowVersionsOf } from './codec';

/** Columns of one side of a merge. */
// @ts-ignore: decorator
@unmanaged
export class Columns {
  times: u32;
  values: u32;
  versions: u32;
  unused: u32;
}

/** Rows of the chunks that touch [startNanos, endNanos); -rows - 2 when they overlap, -1 when one is malformed. */
export function countRows(
  chunk: Chunk,
  start: usize,
  end: usize,
  startNanos: i64,
  endNanos: i64,
): f64 {
  let rows: f64 = 0;
  let last = i64.MIN_VALUE;
  let overlaps = false;
  for (let p = start; p < end; ) {
    if (!readHeader(chunk, p, end)) return -1;
    p = <usize>chunk.end;
    if (chunk.lastNanos < startNanos || chunk.firstNanos >= endNanos) continue;
    if (rows > 0 && chunk.firstNanos <= last) overlaps = true;
    last = chunk.lastNanos;
    rows += <f64>chunk.rowCount;
  }
  return overlaps ? -rows - 2 : rows;
}

/** Decodes the chunks one behind the other; they are known to ascend. -1 when one is malformed. */
export function decodeAscending(
  chunk: Chunk,
  tables: usize,
  start: usize,
  end: usize,
  startNanos: i64,
  endNanos: i64,
  columns: Columns,
): i32 {
  let rows: usize = 0;
  for (let p = start; p < end; ) {
    if (!readHeader(chunk, p, end)) return -1;
    p = <usize>chunk.end;
    if (chunk.lastNanos < startNanos || chunk.firstNanos >= endNanos) continue;
    const count = <usize>chunk.rowCount;
    const times = <usize>columns.times + (rows << 3);
    const values = <usize>columns.values + (rows << 3);
    if (!decodeChunk(chunk, tables, times, values)) return -1;
    rows += count;
  }
  return <i32>trim(columns, rows, startNanos, endNanos);
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

/**
 * Decodes chunks in any order and merges them. Of rows with one timestamp the higher version stays, then the larger
 * value bits. `runs` has room for a u32 a chunk and one more. The result is in `a`.
 */
export function decodeMerged(
  chunk: Chunk,
  tables: usize,
  start: usize,
  end: usize,
  startNanos: i64,
  endNanos: i64,
  a: Columns,
  b: Columns,
  runs: usize,
): i32 {
  let rows: usize = 0;
  let runCount: usize = 0;
  for (let p = start; p < end; ) {
    if (!readHeader(chunk, p, end)) return -1;
    p = <usize>chunk.end;
    if (chunk.lastNanos < startNanos || chunk.firstNanos >= endNanos) continue;
    const count = <usize>chunk.rowCount;
    const below = chunk.hasRowVersions ? rowVersionsOf(chunk) : 0;
    const times = <usize>a.times + (rows << 3);
    if (!decodeChunk(chunk, tables, times, <usize>a.values + (rows << 3))) return -1;
    const versions = <usize>a.versions + (rows << 3);
    for (let i: usize = 0; i < count; i++) {
      const less: i64 = below == 0 ? 0 : <i64>load<u32>(below + (i << 2));
      store<i64>(versions + (i << 3), chunk.version - less);
    }
    store<u32>(runs + (runCount << 2), <u32>rows);
    runCount++;
    rows += count;
  }
  store<u32>(runs + (runCount << 2), <u32>rows);
  let from = a;
  let to = b;
  while (runCount > 1) {
    runCount = mergePass(from, to, runs, runCount);
    const swapped = from;
    from = to;
    to = swapped;
  }
  rows = <usize>load<u32>(runs + (runCount << 2));
  if (from != a) {
    memory.copy(<usize>a.times, <usize>from.times, rows << 3);
    memory.copy(<usize>a.values, <usize>from.values, rows << 3);
  }
  return <i32>trim(a, rows, startNanos, endNanos);
}

/** Merges neighbouring runs two by two and rewrites the runs' starts. Returns how many are left. */
function mergePass(from: Columns, to: Columns, runs: usize, runCount: usize): usize {
  let written: usize = 0;
  let runsLeft: usize = 0;
  for (let run: usize = 0; run < runCount; run += 2) {
    const first = <usize>load<u32>(runs + (run << 2));
    const middle = <usize>load<u32>(runs + ((run + 1) << 2));
    const past = run + 1 < runCount ? <usize>load<u32>(runs + ((run + 2) << 2)) : middle;
    store<u32>(runs + (runsLeft << 2), <u32>written);
    runsLeft++;
    written = mergeRuns(from, first, middle, past, to, written);
  }
  store<u32>(runs + (runsLeft << 2), <u32>written);
  return runsLeft;
}

// @ts-ignore: decorator
@inline
function copyRow(from: Columns, source: usize, to: Columns, target: usize): void {
  store<i64>(<usize>to.times + (target << 3), load<i64>(<usize>from.times + (source << 3)));
  store<i64>(<usize>to.values + (target << 3), load<i64>(<usize>from.values + (source << 3)));
  store<i64>(<usize>to.versions + (target << 3), load<i64>(<usize>from.versions + (source << 3)));
}

/** Whether row b of the columns stands over row a, which has the same time. */
function replaces(columns: Columns, b: usize, a: usize): bool {
  const versionA = load<i64>(<usize>columns.versions + (a << 3));
  const versionB = load<i64>(<usize>columns.versions + (b << 3));
  if (versionA != versionB) return versionB > versionA;
  return (
    load<u64>(<usize>columns.values + (b << 3)) > load<u64>(<usize>columns.values + (a << 3))
  );
}

function mergeRuns(
  from: Columns,
  first: usize,
  middle: usize,
  past: usize,
  to: Columns,
  written: usize,
): usize {
  let a = first;
  let b = middle;
  const times = <usize>from.times;
  while (a < middle && b < past) {
    const timeA = load<i64>(times + (a << 3));
    const timeB = load<i64>(times + (b << 3));
    if (timeA < timeB) copyRow(from, a++, to, written++);
    else if (timeB < timeA) copyRow(from, b++, to, written++);
    else {
      copyRow(from, replaces(from, b, a) ? b : a, to, written++);
      a++;
      b++;
    }
  }
  while (a < middle) copyRow(from, a++, to, written++);
  while (b < past) copyRow(from, b++, to, written++);
  return written;
}
