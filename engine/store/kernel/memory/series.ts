// What a store knows of a series: a record of one cache line with the head that is being written,
// and one node for each block. The head's state stands in the record while its block is the current
// one and is parked in the node otherwise.
import { countIn, countOut, makeCount, namespaceAt } from './namespaces';
import { allocate, directoryAt, release, state, State } from './pages';

/** Records of 64 bytes, 1024 to a page. */
@unmanaged
export class Series {
  generation: u32;
  namespaceOrdinal: u16;
  isLive: u8;
  /** A row was admitted since the last expiry. */
  isAdmitted: u8;
  /** Of the current block; the least int64 when there is none, so that no time is in it. */
  blockStart: i64;
  /**
   * No row of the current block that is in the head or was sealed from it is later; of the head's
   * last row.
   */
  lastNanos: i64;
  /** Of the head's last row: what the next one is written against. */
  lastVersion: i64;
  lastBits: u64;
  stepMillis: u32;
  /** Rows as head_rows.ts has them. */
  head: usize;
  headBytes: u16;
  /** 0 also of a head of rows with start times: it takes no row on the short way. */
  headCapacity: u16;
  headCount: u16;
  /** Bytes of the head that was sealed last, 0 before: the next one will have as many. */
  headBytesSealed: u16;
  current: usize;
  /**
   * List of the blocks' nodes by ascending start; of a slot that is free the next free one, + 1.
   */
  nodes: usize;
}

/** A block of a series, 80 bytes. */
@unmanaged
export class Node {
  blockStart: i64;
  lastNanos: i64;
  lastVersion: i64;
  lastBits: u64;
  /** No chunk of the area has a later row; the least int64 when there is none. */
  areaLastNanos: i64;
  stepMillis: u32;
  head: usize;
  headBytes: u16;
  headCapacity: u16;
  headCount: u16;
  lateCount: u16;
  next: usize;
  /** Sealed chunks, one after the other. */
  area: usize;
  areaLength: usize;
  /** Rows in the area. */
  areaRows: u32;
  /** Rows that came late, 32 bytes each: time, value, lag, start time. In no order. */
  late: usize;
  /**
   * Its typed part, or 0: a block that has one is never the current one but for a moment. In the lowest bit 1 when
   * nothing came since its rows were read for a file; never of the current block. A cell has no room for a field more.
   */
  typedAndFlushed: usize;
}
export const nodeBytes: usize = 80;

@inline
export function isFlushed(node: Node): bool {
  return (node.typedAndFlushed & 1) != 0;
}

@inline
export function setFlushed(node: Node): void {
  node.typedAndFlushed |= 1;
}

/** Something has come. */
@inline
export function clearFlushed(node: Node): void {
  node.typedAndFlushed &= ~1;
}

/** The typed part of a node, or null. */
@inline
export function typedOf(node: Node): TypedPart | null {
  const at = node.typedAndFlushed & ~1;
  return at == 0 ? null : changetype<TypedPart>(at);
}

/** What a block of a series has of typed rows. It begins with the row before the next one of its head (head_values.ts). */
@unmanaged
export class TypedPart {
  rowNanos: i64;
  rowStepNanos: i64;
  rowLag: i64;
  rowStart: i64;
  rowValue: u64;
  /** No row is later; the least int64 when there is none. */
  lastNanos: i64;
  /** The same of the area alone. */
  areaLastNanos: i64;
  /** Of the values of all rows, as strings. */
  valueBytes: u64;
  /** Of the area's rows. */
  areaFields: u64;
  head: usize;
  headBytes: u32;
  headCapacity: u32;
  headCount: u32;
  headFields: u32;
  headValueBytes: u32;
  /** 1 while the head's rows ascend strictly. */
  isHeadAscending: u32;
  /** The value of the head's last row, and room for it. */
  lastValue: usize;
  lastValueRoom: u32;
  /** Sealed chunks, one after the other. */
  area: usize;
  areaLength: usize;
  areaRows: u32;
  /** Rows that were sealed over the times of others since these were merged. */
  overlapRows: u32;
}

export const lateRowBytes: usize = 32;
const slotsPerPage: u32 = 1024;
const slotsMax: u32 = 16384 * slotsPerPage;

@inline
export function seriesAt(slot: u32): Series {
  const page = <usize>load<u32>(directoryAt + (<usize>(slot >> 10) << 2));
  return changetype<Series>(page + (<usize>(slot & 1023) << 6));
}

@inline
export function blockSizeOf(series: Series): i64 {
  return namespaceAt(<u32>series.namespaceOrdinal).blockSizeNanos;
}

/** A slot for a new series, or u32.MAX_VALUE without memory for it. */
export function takeSlot(namespaceOrdinal: u32): u32 {
  const s = state();
  let slot: u32;
  if (s.slotFree != 0) {
    slot = s.slotFree - 1;
    s.slotFree = <u32>seriesAt(slot).nodes;
  } else {
    slot = s.seriesEnd;
    if (slot >= slotsMax) return u32.MAX_VALUE;
    if ((slot & (slotsPerPage - 1)) == 0) {
      const page = allocate(65536);
      if (page == 0) return u32.MAX_VALUE;
      memory.fill(page, 0, 65536);
      store<u32>(directoryAt + (<usize>(slot >> 10) << 2), <u32>page);
    }
    s.seriesEnd++;
  }
  const series = seriesAt(slot);
  if (series.generation == 0) series.generation = 1;
  series.namespaceOrdinal = <u16>namespaceOrdinal;
  series.isLive = 1;
  series.isAdmitted = 1;
  forgetCurrent(series);
  series.nodes = 0;
  s.seriesCount++;
  return slot;
}

/** Frees a slot whose nodes are gone. */
export function freeSlot(slot: u32): void {
  const s = state();
  const series = seriesAt(slot);
  series.isLive = 0;
  series.generation++;
  if (series.generation == 0) series.generation = 1;
  series.nodes = <usize>s.slotFree;
  s.slotFree = slot + 1;
  s.seriesCount--;
}

/** Makes no block the current one. */
function forgetCurrent(series: Series): void {
  series.current = 0;
  series.blockStart = i64.MIN_VALUE;
  series.head = 0;
  series.headBytes = 0;
  series.headCapacity = 0;
  series.headCount = 0;
  series.headBytesSealed = 0;
}

/**
 * Writes the head's state to its node too, where a read looks for it; the record goes on to have
 * it.
 */
export function copyHeadState(series: Series): void {
  if (series.current == 0) return;
  const node = changetype<Node>(series.current);
  node.lastNanos = series.lastNanos;
  node.lastVersion = series.lastVersion;
  node.lastBits = series.lastBits;
  node.stepMillis = series.stepMillis;
  node.head = series.head;
  node.headBytes = series.headBytes;
  node.headCapacity = series.headCapacity;
  node.headCount = series.headCount;
}

/** Writes the head's state back to its node, which has it from now on. */
export function park(series: Series): void {
  if (series.current == 0) return;
  copyHeadState(series);
  forgetCurrent(series);
}

/** Makes the node's block the current one; nothing must be current. */
export function makeCurrent(series: Series, node: Node): void {
  // Whoever makes a block the current one is about to write to it.
  clearFlushed(node);
  series.current = changetype<usize>(node);
  series.blockStart = node.blockStart;
  series.lastNanos = node.lastNanos;
  series.lastVersion = node.lastVersion;
  series.lastBits = node.lastBits;
  series.stepMillis = node.stepMillis;
  series.head = node.head;
  series.headBytes = node.headBytes;
  series.headCapacity = node.headCapacity;
  series.headCount = node.headCount;
  series.headBytesSealed = 0;
}

/** Whether rows of the head have start times. */
@inline
export function hasStartedHead(series: Series): bool {
  return series.headCapacity == 0 && series.head != 0;
}

/** The node of the block that holds the time, or null. */
export function findNode(series: Series, nanos: i64): Node | null {
  const size = blockSizeOf(series);
  let at = series.nodes;
  while (at != 0) {
    const node = changetype<Node>(at);
    if (nanos < node.blockStart + size) return nanos >= node.blockStart ? node : null;
    at = node.next;
  }
  return null;
}

/** The node of the block that holds the time, made when there is none; null without memory. */
export function nodeOf(series: Series, nanos: i64): Node | null {
  const size = blockSizeOf(series);
  let link = changetype<usize>(series) + offsetof<Series>('nodes');
  while (load<usize>(link) != 0) {
    const node = changetype<Node>(load<usize>(link));
    if (nanos < node.blockStart + size) {
      if (nanos >= node.blockStart) return node;
      break;
    }
    link = changetype<usize>(node) + offsetof<Node>('next');
  }
  // `blockStartOf` of lib/block_time.ts.
  const rest = nanos % size;
  const blockStart = nanos - (rest < 0 ? rest + size : rest);
  const namespace = namespaceAt(<u32>series.namespaceOrdinal);
  if (!makeCount(namespace, blockStart)) return null;
  const at = allocate(nodeBytes);
  if (at == 0) return null;
  countIn(namespace, blockStart);
  memory.fill(at, 0, nodeBytes);
  const node = changetype<Node>(at);
  node.blockStart = blockStart;
  node.lastNanos = i64.MIN_VALUE;
  node.areaLastNanos = i64.MIN_VALUE;
  namespace.oldestStart = min(namespace.oldestStart, node.blockStart);
  namespace.oldestSeen = min(namespace.oldestSeen, node.blockStart);
  node.next = load<usize>(link);
  store<usize>(link, at);
  return node;
}

/** Float rows of a parked node. */
export function floatRowsOf(node: Node): u32 {
  return node.areaRows + <u32>node.headCount + <u32>node.lateCount;
}

export function typedRowsOf(node: Node): u32 {
  const part = typedOf(node);
  return part == null ? 0 : part.areaRows + part.headCount;
}

/** Memory of a node's typed part. */
export function typedBytesOf(node: Node): usize {
  const part = typedOf(node);
  if (part == null) return 0;
  const head = <usize>part.headCapacity + <usize>part.lastValueRoom;
  return offsetof<TypedPart>() + head + part.areaLength;
}

/** The typed part of a node, made when there is none; null without memory. */
export function typedPartOf(node: Node): TypedPart | null {
  const held = typedOf(node);
  if (held != null) return held;
  const at = allocate(offsetof<TypedPart>());
  if (at == 0) return null;
  memory.fill(at, 0, offsetof<TypedPart>());
  const part = changetype<TypedPart>(at);
  part.lastNanos = i64.MIN_VALUE;
  part.areaLastNanos = i64.MIN_VALUE;
  node.typedAndFlushed |= at;
  return part;
}

function freeTypedPart(part: TypedPart): void {
  if (part.head != 0) release(part.head);
  if (part.lastValue != 0) release(part.lastValue);
  if (part.area != 0) release(part.area);
  release(changetype<usize>(part));
}

/** Frees what a parked node of a series holds and the node, which the caller has taken out of its list. */
function freeNode(series: Series, node: Node): void {
  countOut(namespaceAt(<u32>series.namespaceOrdinal), node.blockStart);
  const s: State = state();
  s.sampleCount -= <u64>floatRowsOf(node) + <u64>typedRowsOf(node);
  const part = typedOf(node);
  if (part != null) freeTypedPart(part);
  if (node.head != 0) release(node.head);
  if (node.area != 0) release(node.area);
  if (node.late != 0) release(node.late);
  release(changetype<usize>(node));
}

/** Drops the block when nothing came since it was read for a file; gives whether it did. */
export function dropFlushedBlock(series: Series, blockStart: i64): bool {
  let link = changetype<usize>(series) + offsetof<Series>('nodes');
  while (load<usize>(link) != 0) {
    const node = changetype<Node>(load<usize>(link));
    if (node.blockStart >= blockStart) {
      if (node.blockStart != blockStart || !isFlushed(node)) return false;
      store<usize>(link, node.next);
      freeNode(series, node);
      return true;
    }
    link = changetype<usize>(node) + offsetof<Node>('next');
  }
  return false;
}

/** Drops the blocks in [start, end) of a series whose head is parked. */
export function dropBlocks(series: Series, startFrom: i64, endUpTo: i64): void {
  const size = blockSizeOf(series);
  let link = changetype<usize>(series) + offsetof<Series>('nodes');
  while (load<usize>(link) != 0) {
    const node = changetype<Node>(load<usize>(link));
    if (node.blockStart >= startFrom && node.blockStart + size <= endUpTo) {
      store<usize>(link, node.next);
      freeNode(series, node);
    } else {
      link = changetype<usize>(node) + offsetof<Node>('next');
    }
  }
}
