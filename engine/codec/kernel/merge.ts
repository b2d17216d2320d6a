// Brings chunks and loose rows of one series together: columns in ascending time, every time once.
// Of two rows with one time the higher version stays, on equal versions the larger value bits.
import { Chunk, columnSlackBytes, decodeChunk, kindRows, rowsFoundOf, rowVersionsOf } from './codec';

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
  versions: usize;
  /** Where merged runs go before the columns change places. */
  timesOther: usize;
  valuesOther: usize;
  versionsOther: usize;
  /** Parts, 16 bytes each: first row u32, kind u32, version i64. */
  parts: usize;
  /** First row of each run, u32. */
  runs: usize;
  lastNanos: i64;
  /** Highest and lowest version of all parts. */
  version: i64;
  versionLowest: i64;
  tables: usize;
}
const deskStructBytes: usize = 128;

/**
 * Kind of a part: one version for all rows, versions in the column already, or else their address.
 */
const oneVersion: u32 = 0;
const versionsInColumn: u32 = 1;

@inline
function columnBytes(rowCapacity: u32): usize {
  return ((<usize>rowCapacity << 3) + columnSlackBytes + 15) & ~15;
}

/**
 * More rows of one series are not merged: what they need could not be counted in 32 bits, with room
 * for what is written beside it.
 */
export const deskRowsMax: u32 = 1 << 25;

/** Bytes for rows from so many parts (chunks, and loose rows one each). */
export function deskBytes(rowCapacity: u32, partCapacity: u32): usize {
  return deskStructBytes + columnBytes(rowCapacity) * 6 + (<usize>partCapacity + 1) * 20 + 16;
}

export function openDesk(
  at: usize,
  tables: usize,
  rowCapacity: u32,
  partCapacity: u32,
): Desk {
  const desk = changetype<Desk>(at);
  const column = columnBytes(rowCapacity);
  let next = at + deskStructBytes;
  desk.times = next;
  desk.values = next + column;
  desk.versions = next + column * 2;
  desk.timesOther = next + column * 3;
  desk.valuesOther = next + column * 4;
  desk.versionsOther = next + column * 5;
  next += column * 6;
  desk.parts = next;
  desk.runs = next + (<usize>partCapacity + 1) * 16;
  desk.rowCount = 0;
  desk.rowCapacity = rowCapacity;
  desk.partCount = 0;
  desk.runCount = 0;
  desk.lastNanos = i64.MIN_VALUE;
  desk.version = 0;
  desk.versionLowest = i64.MAX_VALUE;
  desk.tables = tables;
  return desk;
}

function beginPart(desk: Desk, firstNanos: i64, kind: u32, version: i64): void {
  const part = desk.parts + (<usize>(desk.partCount++) << 4);
  store<u32>(part, desk.rowCount);
  store<u32>(part, kind, 4);
  store<i64>(part, version, 8);
  if (desk.runCount == 0 || firstNanos <= desk.lastNanos) {
    store<u32>(desk.runs + (<usize>(desk.runCount++) << 2), desk.rowCount);
  }
}

/** Adds the chunk whose header was read. False when its payload is malformed. */
export function addChunk(desk: Desk, chunk: Chunk): bool {
  const place = <usize>desk.rowCount << 3;
  let lowest = chunk.version;
  let highest = lowest;
  let kind = oneVersion;
  if (chunk.kind == kindRows) kind = versionsInColumn;
  else if (chunk.hasRowVersions) kind = <u32>rowVersionsOf(chunk);
  beginPart(desk, chunk.firstNanos, kind, chunk.version);
  const versions = desk.versions + place;
  if (!decodeChunk(chunk, desk.tables, desk.times + place, desk.values + place, versions)) {
    return false;
  }
  if (chunk.kind == kindRows) {
    lowest = rowsFoundOf(chunk).versionLowest;
    highest = rowsFoundOf(chunk).versionHighest;
  }
  desk.version = max(desk.version, highest);
  desk.versionLowest = min(desk.versionLowest, lowest);
  desk.lastNanos = chunk.lastNanos;
  desk.rowCount += chunk.rowCount;
  return true;
}

/** Adds one row, in any order. */
export function addRow(desk: Desk, nanos: i64, valueBits: u64, version: i64): void {
  const last = desk.parts + (<usize>desk.partCount << 4) - 16;
  if (desk.partCount == 0 || load<u32>(last, 4) != versionsInColumn || nanos <= desk.lastNanos) {
    beginPart(desk, nanos, versionsInColumn, version);
  }
  const place = <usize>(desk.rowCount++) << 3;
  store<i64>(desk.times + place, nanos);
  store<u64>(desk.values + place, valueBits);
  store<i64>(desk.versions + place, version);
  desk.lastNanos = nanos;
  desk.version = max(desk.version, version);
  desk.versionLowest = min(desk.versionLowest, version);
}

/** Where the columns go on: what is put there becomes rows by `addColumns`. */
@inline
export function desksNextRow(desk: Desk): usize {
  return <usize>desk.rowCount << 3;
}

/** Adds rows in ascending time that were put after the others, with their versions. */
export function addColumns(desk: Desk, count: u32, lowest: i64, highest: i64): void {
  const place = <usize>desk.rowCount << 3;
  beginPart(desk, load<i64>(desk.times + place), versionsInColumn, 0);
  desk.version = max(desk.version, highest);
  desk.versionLowest = min(desk.versionLowest, lowest);
  desk.rowCount += count;
  desk.lastNanos = load<i64>(desk.times + place + ((<usize>count - 1) << 3));
}

/**
 * Brings all rows into the columns in order; versions are filled only when `needVersions` or
 * merged.
 */
export function finishDesk(desk: Desk, needVersions: bool): void {
  if (desk.runCount > 1 || needVersions) fillVersions(desk);
  while (desk.runCount > 1) mergePairs(desk);
}

function fillVersions(desk: Desk): void {
  for (let i: u32 = 0; i < desk.partCount; i++) {
    const part = desk.parts + (<usize>i << 4);
    const kind = load<u32>(part, 4);
    if (kind == versionsInColumn) continue;
    const first = load<u32>(part);
    const end = i + 1 < desk.partCount ? load<u32>(part, 16) : desk.rowCount;
    const version = load<i64>(part, 8);
    const column = desk.versions;
    for (let row = first; row < end; row++) {
      const below: u32 = kind == oneVersion ? 0 : load<u32>(<usize>kind + (<usize>(row - first) << 2));
      store<i64>(column + (<usize>row << 3), version - <i64>below);
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
  swapped = desk.versions;
  desk.versions = desk.versionsOther;
  desk.versionsOther = swapped;
}

/**
 * Merges rows [a, aEnd) and [b, bEnd) to the other columns from row `out`; gives the row after
 * them.
 */
function mergeTwo(desk: Desk, a: u32, aEnd: u32, b: u32, bEnd: u32, out: u32): u32 {
  const times = desk.times;
  const values = desk.values;
  const versions = desk.versions;
  while (a < aEnd && b < bEnd) {
    const aTime = load<i64>(times + (<usize>a << 3));
    const bTime = load<i64>(times + (<usize>b << 3));
    let row = a;
    if (bTime < aTime) row = b;
    else if (bTime == aTime) {
      const aVersion = load<i64>(versions + (<usize>a << 3));
      const bVersion = load<i64>(versions + (<usize>b << 3));
      const aBits = load<u64>(values + (<usize>a << 3));
      const bBits = load<u64>(values + (<usize>b << 3));
      if (bVersion > aVersion || (bVersion == aVersion && bBits > aBits)) row = b;
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
    store<i64>(desk.versionsOther + target, load<i64>(desk.versions + source));
    return;
  }
  memory.copy(desk.timesOther + target, desk.times + source, <usize>count << 3);
  memory.copy(desk.valuesOther + target, desk.values + source, <usize>count << 3);
  memory.copy(desk.versionsOther + target, desk.versions + source, <usize>count << 3);
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
