// What the blocks of a store hold: walks over series that change nothing.
import { headRoomOf } from './heads';
import { state } from './memory/pages';
import {
  lateRowBytes,
  Node,
  nodeBytes,
  Series,
  seriesAt,
  typedBytesOf,
  typedRowsOf,
} from './memory/series';

/** An entry of the answer: start i64; series, rows and bytes as float64. */
const entryShift: usize = 5;

/**
 * The entry of a block in the ascending ones at `out`, made when there is none; 0 when it does not
 * fit.
 */
function entryOf(out: usize, count: u32, countMax: u32, blockStart: i64): usize {
  let low: u32 = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (load<i64>(out + (<usize>middle << entryShift)) < blockStart) low = middle + 1;
    else high = middle;
  }
  const at = out + (<usize>low << entryShift);
  if (low < count && load<i64>(at) == blockStart) return at;
  if (count == countMax) return 0;
  memory.copy(at + 32, at, <usize>(count - low) << entryShift);
  store<i64>(at, blockStart);
  store<f64>(at, 0, 8);
  store<f64>(at, 0, 16);
  store<f64>(at, 0, 24);
  return at;
}

const slotsTouched: u32 = 32;

/** Loads the first nodes of series, so that the processor waits for all of them at once. */
function touchNodes(slot: u32, slotEnd: u32): void {
  let seen: u32 = 0;
  for (; slot < slotEnd; slot++) {
    const at = seriesAt(slot).nodes;
    // The number of a free slot is an address too, of something else.
    seen |= load<u32>(at) | load<u32>(at, 64);
  }
  state().touched = seen;
}

/**
 * Fills the entries of what the slots [slot, slotEnd) have; gives their number, or one more than `countMax` when they do
 * not fit. The answer (of the state) is the slot to go on from, before the end when so many nodes were looked at.
 */
export function sumBlocks(
  namespaceOrdinal: u32,
  slot: u32,
  slotEnd: u32,
  nodesMax: u32,
  out: usize,
  countMax: u32,
): u32 {
  const s = state();
  slotEnd = min(slotEnd, s.seriesEnd);
  let count: u32 = 0;
  let nodes: u32 = 0;
  let entry: usize = 0;
  for (let slotTouched = slot; slot < slotEnd && nodes < nodesMax; slot++) {
    if (slot == slotTouched) {
      slotTouched = min(slot + slotsTouched, slotEnd);
      touchNodes(slot, slotTouched);
    }
    const series = seriesAt(slot);
    if (!series.isLive || <u32>series.namespaceOrdinal != namespaceOrdinal) continue;
    for (let at = series.nodes; at != 0; ) {
      const node = changetype<Node>(at);
      // Neighbours mostly have the same blocks.
      if (entry == 0 || load<i64>(entry) != node.blockStart) {
        const known = count;
        entry = entryOf(out, count, countMax, node.blockStart);
        if (entry == 0) return countMax + 1;
        if (load<f64>(entry, 8) == 0) count = known + 1;
      }
      addNode(entry, series, node);
      nodes++;
      at = node.next;
    }
  }
  s.answer = <u64>slot;
  return count;
}

function addNode(entry: usize, series: Series, node: Node): void {
  const isCurrent = series.current == changetype<usize>(node);
  const headCount = <u32>(isCurrent ? series.headCount : node.headCount);
  const headBytes = isCurrent
    ? headRoomOf(series.head, series.headCapacity)
    : headRoomOf(node.head, node.headCapacity);
  const rows = node.areaRows + headCount + <u32>node.lateCount + typedRowsOf(node);
  // What is after the last chunk and row is left out: to ask for it costs more lines of memory.
  const lateBytes = <usize>node.lateCount * lateRowBytes;
  const bytes = nodeBytes + headBytes + node.areaLength + lateBytes + typedBytesOf(node);
  store<f64>(entry, load<f64>(entry, 8) + 1, 8);
  store<f64>(entry, load<f64>(entry, 16) + <f64>rows, 16);
  store<f64>(entry, load<f64>(entry, 24) + <f64>bytes, 24);
}

/**
 * Writes the slots (u32) in [slot, slotEnd) of the series that have rows in a block, or in any, ascending; gives how many. The
 * answer is as that of `sumBlocks`.
 */
export function findSlots(
  namespaceOrdinal: u32,
  blockStart: i64,
  inAnyBlock: bool,
  slot: u32,
  slotEnd: u32,
  nodesMax: u32,
  out: usize,
): u32 {
  const s = state();
  slotEnd = min(slotEnd, s.seriesEnd);
  let count: u32 = 0;
  let nodes: u32 = 0;
  for (; slot < slotEnd && nodes < nodesMax; slot++) {
    const series = seriesAt(slot);
    if (!series.isLive || <u32>series.namespaceOrdinal != namespaceOrdinal) continue;
    let has = inAnyBlock && series.nodes != 0;
    // Most series write to the block that is asked for, or hold nothing.
    if (!has && !inAnyBlock) has = series.current != 0 && series.blockStart == blockStart;
    if (!has && !inAnyBlock) {
      let at = series.nodes;
      for (; at != 0 && changetype<Node>(at).blockStart < blockStart; nodes++) {
        at = changetype<Node>(at).next;
      }
      has = at != 0 && changetype<Node>(at).blockStart == blockStart;
    }
    if (has) store<u32>(out + (<usize>(count++) << 2), slot);
  }
  s.answer = <u64>slot;
  return count;
}
