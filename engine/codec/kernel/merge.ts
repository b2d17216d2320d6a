// Brings chunks and loose rows of one series together: columns in ascending time, every time once.
// Of two rows with one time the higher version stays, on equal versions the larger value bits, then the
// later start time. Versions are kept as lags (rows.ts), which have their order.
import {
  Chunk,
  columnSlackBytes,
  decodeChunk,
  hasLagsOfRows,
  kindFloatStarts,
  lagOfLast,
  lagsFoundOf,
  versionAt,
} from './codec';

/**
 * Work space of a merge. Chunks that follow each other in time are one run; runs are merged by
 * pairs.
 */
@unmanaged
export class Desk {
  rowCount: u32;
  rowCapacity: u32;
  partCount: u32;
  runCount: u32;
  times: usize;
  values: usize;
  lags: usize;
  /** Where merged runs go before the columns change places. */
  timesOther: usize;
  valuesOther: usize;
  lagsOther: usize;
  /** Parts, 16 bytes each: first row u32, kind u32, lag or version i64. */
  parts: usize;
  /** First row of each run, u32. */
  runs: usize;
  lastNanos: i64;
  /** Of all parts; one that did not stay may have had it. */
  lagLowest: i64;
  lagHighest: i64;
  tables: usize;
  /** Start times of the rows, int64; 0 when nobody asks for them. */
  starts: usize;
  startsOther: usize;
}
const deskStructBytes: usize = 128;

/** Kind of a part: one lag for all rows, lags in the column already, or one version for all. */
const oneLag: u32 = 0;
const lagsInColumn: u32 = 1;
const oneVersion: u32 = 2;

@inline
function columnBytes(rowCapacity: u32): usize {
  return ((<usize>rowCapacity << 3) + columnSlackBytes + 15) & ~15;
}

/**
 * More rows of one series are not merged: what they need could not be counted in 32 bits, with room
 * for what is written beside it.
 */
export const deskRowsMax: u32 = 1 << 24;

/** Bytes for rows from so many parts (chunks, and loose rows one each). */
export function deskBytes(rowCapacity: u32, partCapacity: u32, withStarts: bool = false): usize {
  const columns: usize = withStarts ? 8 : 6;
  return deskStructBytes + columnBytes(rowCapacity) * columns + (<usize>partCapacity + 1) * 20 + 32;
}

export function openDesk(
  at: usize,
  tables: usize,
  rowCapacity: u32,
  partCapacity: u32,
  withStarts: bool = false,
): Desk {
  const desk = changetype<Desk>(at);
  const column = columnBytes(rowCapacity);
  let next = at + deskStructBytes;
  desk.times = next;
  desk.values = next + column;
  desk.lags = next + column * 2;
  desk.timesOther = next + column * 3;
  desk.valuesOther = next + column * 4;
  desk.lagsOther = next + column * 5;
  next += column * 6;
  desk.parts = next;
  desk.runs = next + (<usize>partCapacity + 1) * 16;
  next = (desk.runs + (<usize>partCapacity + 1) * 4 + 15) & ~15;
  desk.starts = withStarts ? next : 0;
  desk.startsOther = withStarts ? next + column : 0;
  desk.rowCount = 0;
  desk.rowCapacity = rowCapacity;
  desk.partCount = 0;
  desk.runCount = 0;
  desk.lastNanos = i64.MIN_VALUE;
  desk.lagLowest = i64.MAX_VALUE;
  desk.lagHighest = i64.MIN_VALUE;
  desk.tables = tables;
  return desk;
}

function beginPart(desk: Desk, firstNanos: i64, kind: u32, lagOrVersion: i64): void {
  const part = desk.parts + (<usize>(desk.partCount++) << 4);
  store<u32>(part, desk.rowCount);
  store<u32>(part, kind, 4);
  store<i64>(part, lagOrVersion, 8);
  if (desk.runCount == 0 || firstNanos <= desk.lastNanos) {
    store<u32>(desk.runs + (<usize>(desk.runCount++) << 2), desk.rowCount);
  }
}

/** Adds the chunk whose header was read. False when its payload is malformed. */
export function addChunk(desk: Desk, chunk: Chunk): bool {
  const place = <usize>desk.rowCount << 3;
  let lowest = lagOfLast(chunk);
  let highest = lowest;
  if (chunk.hasRowVersions) {
    beginPart(desk, chunk.firstNanos, lagsInColumn, 0);
  } else if (hasLagsOfRows(chunk)) {
    beginPart(desk, chunk.firstNanos, oneLag, lowest);
  } else {
    beginPart(desk, chunk.firstNanos, oneVersion, chunk.version);
    highest = chunk.version - versionAt(chunk.firstNanos);
  }
  const lags = desk.lags + place;
  // They are read whole also when nobody asks for them.
  const starts = (desk.starts == 0 ? desk.timesOther : desk.starts) + place;
  if (!decodeChunk(chunk, desk.tables, desk.times + place, desk.values + place, lags, starts)) {
    return false;
  }
  if (desk.starts != 0 && chunk.kind != kindFloatStarts) {
    memory.fill(starts, 0, <usize>chunk.rowCount << 3);
  }
  if (chunk.hasRowVersions) {
    const found = lagsFoundOf(chunk);
    lowest = found.lagLowest;
    highest = found.lagHighest;
  }
  desk.lagLowest = min(desk.lagLowest, lowest);
  desk.lagHighest = max(desk.lagHighest, highest);
  desk.lastNanos = chunk.lastNanos;
  desk.rowCount += chunk.rowCount;
  return true;
}

/** Adds one row, in any order. */
export function addRow(desk: Desk, nanos: i64, valueBits: u64, lag: i64, start: i64 = 0): void {
  const last = desk.parts + (<usize>desk.partCount << 4) - 16;
  if (desk.partCount == 0 || load<u32>(last, 4) != lagsInColumn || nanos <= desk.lastNanos) {
    beginPart(desk, nanos, lagsInColumn, 0);
  }
  const place = <usize>(desk.rowCount++) << 3;
  store<i64>(desk.times + place, nanos);
  store<u64>(desk.values + place, valueBits);
  store<i64>(desk.lags + place, lag);
  if (desk.starts != 0) store<i64>(desk.starts + place, start);
  desk.lastNanos = nanos;
  desk.lagLowest = min(desk.lagLowest, lag);
  desk.lagHighest = max(desk.lagHighest, lag);
}

/** Where the columns go on: what is put there becomes rows by `addColumns`. */
@inline
export function desksNextRow(desk: Desk): usize {
  return <usize>desk.rowCount << 3;
}

/** Adds rows in ascending time that were put after the others, with their lags and asked starts. */
export function addColumns(desk: Desk, count: u32, lowest: i64, highest: i64): void {
  const place = <usize>desk.rowCount << 3;
  beginPart(desk, load<i64>(desk.times + place), lagsInColumn, 0);
  desk.lagLowest = min(desk.lagLowest, lowest);
  desk.lagHighest = max(desk.lagHighest, highest);
  desk.rowCount += count;
  desk.lastNanos = load<i64>(desk.times + place + ((<usize>count - 1) << 3));
}

/**
 * Brings all rows into the columns in order; lags are filled when they decide or `needLags`, unless
 * all rows have the same.
 */
export function finishDesk(desk: Desk, needLags: bool): void {
  if (hasLags(desk) && (desk.runCount > 1 || needLags)) fillLags(desk);
  while (desk.runCount > 1) mergePairs(desk);
}

/** Whether rows have different lags; else all have `lagHighest` and their column holds nothing. */
@inline
export function hasLags(desk: Desk): bool {
  return desk.lagLowest != desk.lagHighest;
}

function fillLags(desk: Desk): void {
  for (let i: u32 = 0; i < desk.partCount; i++) {
    const part = desk.parts + (<usize>i << 4);
    const kind = load<u32>(part, 4);
    if (kind == lagsInColumn) continue;
    const end = i + 1 < desk.partCount ? load<u32>(part, 16) : desk.rowCount;
    const lagOrVersion = load<i64>(part, 8);
    const apart = desk.lags - desk.times;
    const columnEnd = desk.times + (<usize>end << 3);
    for (let p = desk.times + (<usize>load<u32>(part) << 3); p < columnEnd; p += 8) {
      const lag = kind == oneLag ? lagOrVersion : lagOrVersion - versionAt(load<i64>(p));
      store<i64>(p + apart, lag);
    }
  }
}

function mergePairs(desk: Desk): void {
  const runs = desk.runs;
  const runCount = desk.runCount;
  store<u32>(runs + (<usize>runCount << 2), desk.rowCount);
  let out: u32 = 0;
  let outRuns: u32 = 0;
  for (let run: u32 = 0; run < runCount; run += 2) {
    const a = load<u32>(runs + (<usize>run << 2));
    const b = load<u32>(runs + (<usize>run << 2), 4);
    const end = run + 2 <= runCount ? load<u32>(runs + (<usize>run << 2), 8) : b;
    // Runs read so far lie before `run`, so the list can be rewritten in place.
    store<u32>(runs + (<usize>(outRuns++) << 2), out);
    out = mergeTwo(desk, a, b, b, end, out);
  }
  desk.rowCount = out;
  desk.runCount = outRuns;
  let swapped = desk.times;
  desk.times = desk.timesOther;
  desk.timesOther = swapped;
  swapped = desk.values;
  desk.values = desk.valuesOther;
  desk.valuesOther = swapped;
  swapped = desk.lags;
  desk.lags = desk.lagsOther;
  desk.lagsOther = swapped;
  swapped = desk.starts;
  desk.starts = desk.startsOther;
  desk.startsOther = swapped;
}

/**
 * Merges rows [a, aEnd) and [b, bEnd) to the other columns from row `out`; gives the row after
 * them.
 */
function mergeTwo(desk: Desk, a: u32, aEnd: u32, b: u32, bEnd: u32, out: u32): u32 {
  const times = desk.times;
  const values = desk.values;
  const lags = desk.lags;
  // Without different lags their column holds nothing.
  const comparesLags = hasLags(desk);
  while (a < aEnd && b < bEnd) {
    const aTime = load<i64>(times + (<usize>a << 3));
    const bTime = load<i64>(times + (<usize>b << 3));
    let row = a;
    if (bTime < aTime) row = b;
    else if (bTime == aTime) {
      const aLag = comparesLags ? load<i64>(lags + (<usize>a << 3)) : 0;
      const bLag = comparesLags ? load<i64>(lags + (<usize>b << 3)) : 0;
      const aBits = load<u64>(values + (<usize>a << 3));
      const bBits = load<u64>(values + (<usize>b << 3));
      if (bLag > aLag || (bLag == aLag && bBits > aBits)) row = b;
      else if (bLag == aLag && bBits == aBits && desk.starts != 0) {
        const aStart = load<i64>(desk.starts + (<usize>a << 3));
        if (load<i64>(desk.starts + (<usize>b << 3)) > aStart) row = b;
      }
      a++;
      b++;
      copyRows(desk, row, out++, 1);
      continue;
    }
    copyRows(desk, row, out++, 1);
    if (row == a) a++;
    else b++;
  }
  copyRows(desk, a, out, aEnd - a);
  out += aEnd - a;
  copyRows(desk, b, out, bEnd - b);
  return out + (bEnd - b);
}

@inline
function copyRows(desk: Desk, from: u32, to: u32, count: u32): void {
  const source = <usize>from << 3;
  const target = <usize>to << 3;
  if (count == 1) {
    store<i64>(desk.timesOther + target, load<i64>(desk.times + source));
    store<i64>(desk.valuesOther + target, load<i64>(desk.values + source));
    store<i64>(desk.lagsOther + target, load<i64>(desk.lags + source));
    if (desk.starts != 0) {
      store<i64>(desk.startsOther + target, load<i64>(desk.starts + source));
    }
    return;
  }
  memory.copy(desk.timesOther + target, desk.times + source, <usize>count << 3);
  memory.copy(desk.valuesOther + target, desk.values + source, <usize>count << 3);
  memory.copy(desk.lagsOther + target, desk.lags + source, <usize>count << 3);
  if (desk.starts != 0) {
    memory.copy(desk.startsOther + target, desk.starts + source, <usize>count << 3);
  }
}

/** First row of the desk's ascending times at or after the time. */
export function rowAt(desk: Desk, nanos: i64): u32 {
  let low: u32 = 0;
  let high = desk.rowCount;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (load<i64>(desk.times + (<usize>middle << 3)) < nanos) low = middle + 1;
    else high = middle;
  }
  return low;
}
