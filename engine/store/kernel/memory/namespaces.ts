// What a store knows of a namespace, and how many series have each of its blocks: which blocks there
// are is asked all the time, and a walk over all series takes a hundred milliseconds for a million.
import { allocate, namespacesAt, release } from './pages';

@unmanaged
export class Namespace {
  blockSizeNanos: i64;
  /** No block of its series begins before. */
  oldestStart: i64;
  /**
   * The same for the series that the running expiry has passed, and for all blocks that were made
   * since it began.
   */
  oldestSeen: i64;
  /** Whether the running expiry has looked at the blocks of all series that it passed. */
  isSeenWhole: u32;
  /** How many series have each block: a table of entries, how many, room for how many. */
  counts: usize;
  countsLength: u32;
  countsRoom: u32;
  /** The entry that was used last: neighbours mostly have the same blocks. */
  countsLast: u32;
}
const namespaceStructBytes: usize = 64;

@inline
export function namespaceAt(ordinal: u32): Namespace {
  return changetype<Namespace>(namespacesAt + <usize>ordinal * namespaceStructBytes);
}

/** An entry of the table, 16 bytes, by ascending start. */
@unmanaged
class BlockCount {
  blockStart: i64;
  /** Series that have the block, 0 for a moment before the first one has it. */
  seriesCount: u32;
  unused: u32;
}
const entryShift: usize = 4;
const roomFirst: u32 = 16;

@inline
function entryAt(namespace: Namespace, index: u32): BlockCount {
  return changetype<BlockCount>(namespace.counts + (<usize>index << entryShift));
}

/** The first entry that does not begin before. */
function indexOf(namespace: Namespace, blockStart: i64): u32 {
  const last = namespace.countsLast;
  const length = namespace.countsLength;
  if (last < length && entryAt(namespace, last).blockStart == blockStart) return last;
  let low: u32 = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (entryAt(namespace, middle).blockStart < blockStart) low = middle + 1;
    else high = middle;
  }
  namespace.countsLast = low;
  return low;
}

function hasEntry(namespace: Namespace, index: u32, blockStart: i64): bool {
  return (
    index < namespace.countsLength && entryAt(namespace, index).blockStart == blockStart
  );
}

/** Makes sure that the block can be counted; false without memory. */
export function makeCount(namespace: Namespace, blockStart: i64): bool {
  const index = indexOf(namespace, blockStart);
  if (hasEntry(namespace, index, blockStart)) return true;
  const length = namespace.countsLength;
  if (length == namespace.countsRoom) {
    const room = max(roomFirst, 2 * length);
    const larger = allocate(<usize>room << entryShift);
    if (larger == 0) return false;
    if (length > 0) {
      memory.copy(larger, namespace.counts, <usize>length << entryShift);
      release(namespace.counts);
    }
    namespace.counts = larger;
    namespace.countsRoom = room;
  }
  return true;
}

/** A series has the block from now on; there is room to count it. */
export function countIn(namespace: Namespace, blockStart: i64): void {
  const index = indexOf(namespace, blockStart);
  const entry = entryAt(namespace, index);
  if (!hasEntry(namespace, index, blockStart)) {
    const at = changetype<usize>(entry);
    const length = namespace.countsLength++;
    memory.copy(at + (1 << entryShift), at, <usize>(length - index) << entryShift);
    entry.blockStart = blockStart;
    entry.seriesCount = 0;
  }
  entry.seriesCount++;
}

/** A series that had the block has it no more. */
export function countOut(namespace: Namespace, blockStart: i64): void {
  const index = indexOf(namespace, blockStart);
  if (!hasEntry(namespace, index, blockStart)) unreachable();
  const entry = entryAt(namespace, index);
  if (--entry.seriesCount > 0) return;
  const at = changetype<usize>(entry);
  const length = --namespace.countsLength;
  memory.copy(at, at + (1 << entryShift), <usize>(length - index) << entryShift);
}

/** Gives the memory of a table back that has no entries. */
export function releaseCounts(namespace: Namespace): void {
  if (namespace.counts != 0) release(namespace.counts);
  namespace.counts = 0;
  namespace.countsRoom = 0;
}

/** Writes the counts from one on, as many as fit: start i64, series as float64; gives how many. */
export function copyCounts(namespace: Namespace, from: u32, out: usize, countMax: u32): u32 {
  const length = namespace.countsLength;
  if (from >= length) return 0;
  const count = min(length - from, countMax);
  for (let i: u32 = 0; i < count; i++) {
    const entry = entryAt(namespace, from + i);
    store<i64>(out + (<usize>i << 4), entry.blockStart);
    store<f64>(out + (<usize>i << 4), <f64>entry.seriesCount, 8);
  }
  return count;
}
