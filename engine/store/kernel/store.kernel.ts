// The entry of the store kernel: what store.ts and decoder.ts call. Addresses of columns and
// answers are in the stage, which the caller asks for.
import { Chunk, hasLagsOfRows, kindFloatStarts, readHeader } from '../../codec/kernel/codec';
import { dropCutRows } from '../../codec/kernel/cuts';
import {
  addChunk,
  Desk,
  deskBytes,
  finishDesk,
  hasLags,
  openDesk,
  rowAt,
} from '../../codec/kernel/merge';
import { encodeRowsMax } from '../../codec/kernel/scratch';
import { findSlots, sumBlocks } from './blocks';
import { encodeRows } from './encode';
import { copyCounts, namespaceAt, releaseCounts } from './memory/namespaces';
import { initPages, stageOf, state, stateAt, tablesAt, usedBytes } from './memory/pages';
import {
  encodeLong,
  fillMillis,
  insertChecked,
  keepOnly,
  longBytesMax,
  readMerged,
  readSeries,
} from './reads';
import {
  blockSizeOf,
  dropBlocks,
  dropFlushedBlock,
  freeSlot,
  Node,
  park,
  Series,
  seriesAt,
  takeSlot,
} from './memory/series';
import { noteFiles } from './writes';

export { digestRows, hashId } from './digest';
export { appendTyped, checkTyped, clearTypedGroup } from './mixed_writes';
export {
  cutTyped,
  digestTyped,
  measureTyped,
  mergeTyped,
  readTyped,
  typedMeasureBytes,
  typedOutBytes,
  typedWorkBytes,
} from './typed/chunks';
export { packChunks, packRoomBytes, packWorkBytes } from './pack';
export { append, check, noteFiles } from './writes';

const chunkAt: usize = stateAt + 3584;

/** Begins a memory that is all zero; `tablesAddress` then takes the codec's tables. */
export function init(pageMax: u32): void {
  initPages(pageMax);
}

export function tablesAddress(): usize {
  return tablesAt;
}

/**
 * A region for columns and answers; 0 without memory. It keeps its place until more is asked for.
 */
export function stage(bytes: usize): usize {
  return stageOf(bytes);
}

export function setNamespace(ordinal: u32, blockSizeNanos: i64): void {
  const namespace = namespaceAt(ordinal);
  if (namespace.blockSizeNanos == 0) namespace.oldestStart = i64.MAX_VALUE;
  // Of the one that had the number before there may have been many.
  if (namespace.countsLength == 0) releaseCounts(namespace);
  namespace.blockSizeNanos = blockSizeNanos;
}

/** A slot, or 2^32 - 1 when memory is over the budget. */
export function createSeries(namespaceOrdinal: u32, budgetBytes: usize): u32 {
  if (usedBytes() >= budgetBytes) return u32.MAX_VALUE;
  return takeSlot(namespaceOrdinal);
}

export function isLive(slot: u32): bool {
  return slot < state().seriesEnd && seriesAt(slot).isLive != 0;
}

export function generationOf(slot: u32): u32 {
  return seriesAt(slot).generation;
}

export function releaseSeries(slot: u32): void {
  const series = seriesAt(slot);
  park(series);
  dropBlocks(series, i64.MIN_VALUE, i64.MAX_VALUE);
  freeSlot(slot);
}

/** Sealed chunks keep the version of each row from now on, or have one for all. */
export function setKeepsRowVersions(keeps: u32): void {
  state().keepsRowVersions = keeps;
}

/**
 * Chunks of the series of slots [from, count) that overlap the range, one after the other, and
 * their lengths (u32). Gives the slot that did not fit any more, or the count.
 */
export function read(
  slots: usize,
  from: u32,
  count: u32,
  start: i64,
  end: i64,
  out: usize,
  room: usize,
  lengths: usize,
): u32 {
  let o = out;
  for (; from < count; from++) {
    const series = seriesAt(load<u32>(slots + (<usize>from << 2)));
    const next = readSeries(series, start, end, o, room - (o - out));
    if (next == 0) break;
    store<u32>(lengths + (<usize>from << 2), <u32>(next - o));
    o = next;
  }
  return from;
}

/**
 * The same for one block of each series, merged and encoded anew; with `isFlush` the blocks are
 * marked as unchanged since.
 */
export function readBlock(
  slots: usize,
  from: u32,
  count: u32,
  blockStart: i64,
  out: usize,
  room: usize,
  lengths: usize,
  isFlush: bool,
): u32 {
  let o = out;
  for (; from < count; from++) {
    const series = seriesAt(load<u32>(slots + (<usize>from << 2)));
    const next = readMerged(series, blockStart, o, room - (o - out), isFlush);
    if (next == 0) break;
    store<u32>(lengths + (<usize>from << 2), <u32>(next - o));
    o = next;
  }
  return from;
}

/** Bytes that the slot at which a read stopped needs. */
export function answer(): f64 {
  return <f64>state().answer;
}

/** 0, or why the chunks are refused (`insert…` in reads.ts). */
export function insertChunks(slot: u32, at: usize, length: usize): u32 {
  return insertChecked(seriesAt(slot), at, at + length);
}

/** Writes starts (i64) of the blocks that have rows, ascending; gives how many there are. */
export function blockStarts(slot: u32, out: usize, countMax: u32): u32 {
  let count: u32 = 0;
  for (let at = seriesAt(slot).nodes; at != 0; ) {
    const node = changetype<Node>(at);
    if (count < countMax) store<i64>(out + (<usize>count << 3), node.blockStart);
    count++;
    at = node.next;
  }
  return count;
}

export function dropBlock(slots: usize, count: u32, blockStart: i64): void {
  for (let i: u32 = 0; i < count; i++) {
    const series = seriesAt(load<u32>(slots + (<usize>i << 2)));
    park(series);
    dropBlocks(series, blockStart, blockStart + blockSizeOf(series));
  }
}

/** Drops the block of each series that is live and still as it was flushed; gives how many did. */
export function dropFlushed(slots: usize, count: u32, blockStart: i64): u32 {
  const s = state();
  const seriesEnd = s.seriesEnd;
  let dropped: u32 = 0;
  for (let i: u32 = 0; i < count; i++) {
    const slot = load<u32>(slots + (<usize>i << 2));
    if (slot >= seriesEnd) continue;
    const series = seriesAt(slot);
    if (!series.isLive || !dropFlushedBlock(series, blockStart)) continue;
    dropped++;
    noteFiles(s.batchVersionHighest, blockStart + blockSizeOf(series));
  }
  return dropped;
}

/**
 * Writes how many series have each block of a namespace, by ascending start, from the given one on: start i64, series as
 * float64. Gives how many were written, at most `countMax`.
 */
export function blocks(namespaceOrdinal: u32, from: u32, out: usize, countMax: u32): u32 {
  return copyCounts(namespaceAt(namespaceOrdinal), from, out, countMax);
}

/**
 * Writes what the series of slots [from, end) have of each block of a namespace, by ascending start: start i64, then as
 * float64 how many series, rows and bytes. Gives how many blocks there are, or more than `countMax` when they do not fit.
 * The answer is the slot to go on from, before the end when so many blocks of series were looked at.
 */
export function sums(
  namespaceOrdinal: u32,
  from: u32,
  end: u32,
  nodesMax: u32,
  out: usize,
  countMax: u32,
): u32 {
  return sumBlocks(namespaceOrdinal, from, end, nodesMax, out, countMax);
}

/**
 * Writes the slots (u32) in [from, end) of the series that have rows in a block, or in any, ascending; gives how many. The
 * answer is as that of `sums`.
 */
export function slotsWithRows(
  namespaceOrdinal: u32,
  blockStart: i64,
  inAnyBlock: bool,
  from: u32,
  end: u32,
  nodesMax: u32,
  out: usize,
): u32 {
  return findSlots(namespaceOrdinal, blockStart, inAnyBlock, from, end, nodesMax, out);
}

/**
 * Drops what ends at or before the cutoff, for the slots [from, end); writes slots of series that
 * hold nothing. Gives how many, and the answer is the slot to go on from. One walk of a namespace
 * goes on at a time, and begins with slot 0; writes may come between its calls.
 */
export function expire(
  namespaceOrdinal: u32,
  cutoff: i64,
  from: u32,
  end: u32,
  out: usize,
  countMax: u32,
): u32 {
  const s = state();
  const namespace = namespaceAt(namespaceOrdinal);
  // As long as the oldest block stays there is no need to look at the nodes.
  const isSome =
    namespace.oldestStart != i64.MAX_VALUE &&
    namespace.oldestStart + namespace.blockSizeNanos <= cutoff;
  if (from == 0) {
    namespace.isSeenWhole = isSome ? 1 : 0;
    namespace.oldestSeen = i64.MAX_VALUE;
  }
  end = min(end, s.seriesEnd);
  let count: u32 = 0;
  for (; from < end && count < countMax; from++) {
    const series = seriesAt(from);
    if (!series.isLive || <u32>series.namespaceOrdinal != namespaceOrdinal) continue;
    if (isSome) {
      if (isPast(series, cutoff)) {
        park(series);
        dropBlocks(series, i64.MIN_VALUE, cutoff);
      }
      if (series.nodes != 0) {
        const oldest = changetype<Node>(series.nodes).blockStart;
        namespace.oldestSeen = min(namespace.oldestSeen, oldest);
      }
    }
    if (series.nodes == 0 && !series.isAdmitted) {
      store<u32>(out + (<usize>(count++) << 2), from);
    }
    series.isAdmitted = 0;
  }
  // Not when an old block came during the walk, for its begin was not looked at then.
  if (namespace.isSeenWhole && from == s.seriesEnd) namespace.oldestStart = namespace.oldestSeen;
  s.answer = <u64>from;
  return count;
}

/** Whether the first block of a series ends at or before the time. */
function isPast(series: Series, cutoff: i64): bool {
  if (series.nodes == 0) return false;
  return changetype<Node>(series.nodes).blockStart + blockSizeOf(series) <= cutoff;
}

export function seriesEnd(): u32 {
  return state().seriesEnd;
}

export function seriesCount(): u32 {
  return state().seriesCount;
}

export function sampleCount(): f64 {
  return <f64>state().sampleCount;
}

export function memoryBytes(): f64 {
  return <f64>usedBytes();
}

/**
 * For a decoder, whose memory holds no series: reads the headers of chunks in [at, end). Gives how
 * many overlap the range, or -1 when one is malformed; the answer is how many rows they have. What is
 * written of them keeps the version of each row when one of them does.
 */
export function scanChunks(at: usize, end: usize, nanosFrom: i64, nanosEnd: i64): i32 {
  const chunk = changetype<Chunk>(chunkAt);
  let rows: u64 = 0;
  let count: i32 = 0;
  let keepsRowVersions: u32 = 0;
  let hasStarts: u32 = 0;
  while (at < end) {
    if (!readHeader(chunk, at, end)) return -1;
    at = chunk.end;
    if (hasLagsOfRows(chunk)) keepsRowVersions = 1;
    if (chunk.lastNanos < nanosFrom || chunk.firstNanos >= nanosEnd) continue;
    rows += <u64>chunk.rowCount;
    count++;
    if (chunk.kind == kindFloatStarts) hasStarts = 1;
  }
  state().hasStarts = hasStarts;
  state().answer = rows;
  state().keepsRowVersions = keepsRowVersions;
  return count;
}

/** Work space for rows without their start times. */
export function decodeBytes(rows: u32, chunks: u32): usize {
  return deskBytes(rows, chunks);
}

/** The same with the start times, when a chunk that `scanChunks` has read has some. */
export function mergeBytes(rows: u32, chunks: u32): usize {
  return deskBytes(rows, chunks, state().hasStarts != 0);
}

/**
 * Decodes and merges the chunks that overlap the range, in work space of `decodeBytes`, with
 * `needAll` of `mergeBytes`. Gives the rows, or -1 when a payload is malformed. Six u32 at `answers`:
 * addresses of the rows' milliseconds, nanoseconds and values, how many rows of the columns lie
 * before them, and with `needAll` the addresses of their lags (1/64 milliseconds from time to version),
 * 0 when all have the one that follows as an i64, and of their start times, 0 when none has one.
 */
export function decodeChunks(
  at: usize,
  end: usize,
  nanosFrom: i64,
  nanosEnd: i64,
  rows: u32,
  chunks: u32,
  work: usize,
  answers: usize,
  needAll: bool,
): i32 {
  const chunk = changetype<Chunk>(chunkAt);
  const withStarts = needAll && state().hasStarts != 0;
  const desk: Desk = openDesk(work, tablesAt, rows, chunks, withStarts);
  while (at < end) {
    readHeader(chunk, at, end);
    at = chunk.end;
    if (chunk.lastNanos < nanosFrom || chunk.firstNanos >= nanosEnd) continue;
    if (!addChunk(desk, chunk)) return -1;
  }
  finishDesk(desk, needAll);
  const row = rowAt(desk, nanosFrom);
  const rowEnd = rowAt(desk, nanosEnd);
  fillMillis(desk, row, rowEnd);
  store<u32>(answers, <u32>(desk.timesOther + (<usize>row << 3)));
  store<u32>(answers, <u32>(desk.times + (<usize>row << 3)), 4);
  store<u32>(answers, <u32>(desk.values + (<usize>row << 3)), 8);
  store<u32>(answers, row, 12);
  store<u32>(answers, hasLags(desk) ? <u32>(desk.lags + (<usize>row << 3)) : 0, 16);
  store<u32>(answers, withStarts ? <u32>(desk.starts + (<usize>row << 3)) : 0, 20);
  store<i64>(answers, desk.lagHighest, 24);
  return <i32>(rowEnd - row);
}

/** Room for the long chunks of so many rows. */
export function mergedBytesMax(rows: u32): usize {
  return longBytesMax(rows, state().hasStarts != 0);
}

/**
 * Merges all chunks in [at, end), which `scanChunks` has read, into long ones at `out`, in work
 * space of `mergeBytes`. Gives their end, or 0 when a payload is malformed.
 */
export function mergeChunks(
  at: usize,
  end: usize,
  rows: u32,
  chunks: u32,
  work: usize,
  out: usize,
): usize {
  const chunk = changetype<Chunk>(chunkAt);
  const desk: Desk = openDesk(work, tablesAt, rows, chunks, state().hasStarts != 0);
  while (at < end) {
    readHeader(chunk, at, end);
    at = chunk.end;
    // A chunk that the scan left out has a time that no store takes.
    if (desk.partCount == chunks || chunk.rowCount > rows - desk.rowCount) return 0;
    if (!addChunk(desk, chunk)) return 0;
  }
  return encodeLong(desk, out);
}

/**
 * The rows of [nanosFrom, nanosEnd) of one chunk that `scanChunks` has read, as chunks at `out`, in
 * work space of `mergeBytes`. Gives their end, or 0 when the payload is malformed.
 */
export function keepRows(
  at: usize,
  end: usize,
  nanosFrom: i64,
  nanosEnd: i64,
  work: usize,
  out: usize,
): usize {
  const chunk = changetype<Chunk>(chunkAt);
  if (!readHeader(chunk, at, end)) return 0;
  const desk: Desk = openDesk(work, tablesAt, chunk.rowCount, 1, state().hasStarts != 0);
  if (!addChunk(desk, chunk)) return 0;
  finishDesk(desk, true);
  const row = rowAt(desk, nanosFrom);
  keepOnly(desk, row, rowAt(desk, nanosEnd));
  return encodeRows(desk, encodeRowsMax, out);
}

/**
 * The rows of one chunk that no deletion covers, as `keepRows`: of kinds that keep the version of each row.
 * The answer is how many rows went.
 * @param cuts three i64 each: start, end (left out), and the highest version of rows that go
 */
export function cutRows(
  at: usize,
  end: usize,
  cuts: usize,
  cutCount: u32,
  work: usize,
  out: usize,
): usize {
  const chunk = changetype<Chunk>(chunkAt);
  if (!readHeader(chunk, at, end)) return 0;
  const desk: Desk = openDesk(work, tablesAt, chunk.rowCount, 1, state().hasStarts != 0);
  if (!addChunk(desk, chunk)) return 0;
  finishDesk(desk, true);
  state().answer = <u64>dropCutRows(desk, cuts, cutCount);
  return encodeRows(desk, encodeRowsMax, out);
}
