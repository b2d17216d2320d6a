// Reads from other threads. A reader copies series out of the store's memory as images and reads
// these in a memory of its own with the code that the store itself reads with.
//
// An image: block size int64, bytes u32, whether it was opened u32; the record of the series with
// no block current; its nodes of the range, each followed by its head, area and late rows. Pointers
// are counted from the image's begin until it is opened.
import { changes, isUnchanged } from './changes';
import { allocate, directoryAt, release, state } from './pages';
import { readMerged, readSeries } from './reads';
import {
  lateRowBytes,
  namespaceAt,
  Node,
  nodeBytes,
  nodesOffset,
  Series,
  seriesAt,
  seriesBytes,
  slotsMax,
} from './series';

const headerBytes: usize = 16;
/** Behind each part: loads may go beyond its end. */
const slackBytes: usize = 64;
/** Copies of one series that are tried before the reader is told to come back later. */
const triesMax: u32 = 64;
/** Nodes that are passed between two looks at whether the copy is still good. */
const nodesBetweenLooks: u32 = 32;

/** Instead of bytes of an image. */
const torn: usize = 0;
const noRoom: usize = 1;

/** Why fewer images than asked for were copied. */
const whyRoom: u32 = 1;
const whyBusy: u32 = 2;

@inline
function blockSizeIn(image: usize): i64 {
  return load<i64>(image);
}

@inline
function bytesIn(image: usize): usize {
  return <usize>load<u32>(image, 8);
}

@inline
function seriesIn(image: usize): Series {
  return changetype<Series>(image + headerBytes);
}

@inline
function padded(bytes: usize): usize {
  return (bytes + slackBytes + 15) & ~15;
}

/**
 * Whether the bytes are in pages that were taken: a pointer that was read during a change may be
 * anything.
 */
@inline
function isInside(at: usize, bytes: usize): bool {
  return <u64>at + <u64>bytes <= <u64>state().pageEnd << 16;
}

/** A copy of a part after the others of an image. */
@inline
function copyPart(to: usize, from: usize, bytes: usize): usize {
  memory.copy(to, from, bytes);
  return to + padded(bytes);
}

/** The head's state of the current block as if it were parked. */
function parkInImage(node: Node, series: Series): void {
  node.lastNanos = series.lastNanos;
  node.lastVersion = series.lastVersion;
  node.lastBits = series.lastBits;
  node.stepMillis = series.stepMillis;
  node.head = series.head;
  node.headBytes = series.headBytes;
  node.headCapacity = series.headCapacity;
  node.headCount = series.headCount;
}

/**
 * Copies the blocks of a series that overlap [start, end); gives the image's bytes, `noRoom`, or
 * `torn` when something was changed meanwhile and was noticed. An image of another generation is
 * without blocks.
 */
function copyImage(
  slot: u32,
  generation: u32,
  start: i64,
  end: i64,
  image: usize,
  room: usize,
  count: u32,
): usize {
  let o = headerBytes + seriesBytes;
  if (room < o) return noRoom;
  const record = seriesIn(image);
  const isKnown = slot < slotsMax && load<u32>(directoryAt + (<usize>(slot >> 10) << 2)) != 0;
  if (isKnown) memory.copy(image + headerBytes, changetype<usize>(seriesAt(slot)), seriesBytes);
  let at: usize = 0;
  let size: i64 = 0;
  if (isKnown && record.generation == generation && record.isLive) {
    at = record.nodes;
    size = namespaceAt(<u32>record.namespaceOrdinal).blockSizeNanos;
  }
  const current = record.current;
  let link = headerBytes + nodesOffset;
  for (let step: u32 = 1; at != 0; step++) {
    if (!isInside(at, nodeBytes)) return torn;
    if (step % nodesBetweenLooks == 0 && !isUnchanged(count)) return torn;
    const source = changetype<Node>(at);
    if (source.blockStart >= end) break;
    const next = source.next;
    if (source.blockStart + size > start) {
      if (room - o < nodeBytes) return noRoom;
      const node = changetype<Node>(image + o);
      memory.copy(image + o, at, nodeBytes);
      if (at == current) parkInImage(node, record);
      store<usize>(image + link, o);
      link = o + offsetof<Node>('next');
      const nodeEnd = copyParts(image, o, room);
      if (nodeEnd <= noRoom) return nodeEnd;
      o = nodeEnd;
    }
    at = next;
  }
  store<usize>(image + link, 0);
  record.current = 0;
  store<i64>(image, size);
  store<u32>(image, <u32>o, 8);
  store<u32>(image, 0, 12);
  return o;
}

/**
 * Copies what the node at an offset of the image points to; gives the offset after, `noRoom` or
 * `torn`.
 */
function copyParts(image: usize, nodeOffset: usize, room: usize): usize {
  const node = changetype<Node>(image + nodeOffset);
  let o = nodeOffset + nodeBytes;
  const headBytes: usize = node.headCount == 0 ? 0 : <usize>node.headBytes;
  const lateBytes = <usize>node.lateCount * lateRowBytes;
  if (!isInside(node.head, headBytes) || !isInside(node.area, node.areaLength)) return torn;
  if (!isInside(node.late, lateBytes)) return torn;
  const needed = <u64>headBytes + <u64>node.areaLength + <u64>lateBytes + 4 * <u64>slackBytes;
  if (needed > <u64>(room - o)) return noRoom;
  const head = o;
  o = copyPart(image + o, node.head, headBytes) - image;
  const area = o;
  o = copyPart(image + o, node.area, node.areaLength) - image;
  const late = o;
  o = copyPart(image + o, node.late, lateBytes) - image;
  node.head = head;
  node.area = area;
  node.late = late;
  return o;
}

/**
 * Copies images of the series from number `from` on, one after the other. Called by an instance of
 * another thread: touches nothing but its own region, in which all the addresses are.
 * @param lengths bytes of each image (u32), and after the last one why it stopped: 1 room, 2 busy
 * @returns the number of the series at which it stopped
 */
export function copyImages(
  slots: usize,
  generations: usize,
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
    const at = <usize>from << 2;
    const slot = load<u32>(slots + at);
    const generation = load<u32>(generations + at);
    let bytes = torn;
    for (let tries: u32 = 0; bytes == torn && tries < triesMax; tries++) {
      const before = changes();
      if (before & 1) continue;
      bytes = copyImage(slot, generation, start, end, o, room - (o - out), before);
      if (!isUnchanged(before)) bytes = torn;
    }
    if (bytes <= noRoom) {
      store<u32>(lengths + (<usize>count << 2), bytes == noRoom ? whyRoom : whyBusy);
      break;
    }
    store<u32>(lengths + at, <u32>bytes);
    o += bytes;
  }
  return from;
}

/** Makes the series of an image one of this memory. */
function openImage(image: usize): Series {
  const series = seriesIn(image);
  if (load<u32>(image, 12) != 0) return series;
  store<u32>(image, 1, 12);
  const size = blockSizeIn(image);
  if (size != 0) namespaceAt(<u32>series.namespaceOrdinal).blockSizeNanos = size;
  let link = image + headerBytes + nodesOffset;
  while (load<usize>(link) != 0) {
    const at = image + load<usize>(link);
    store<usize>(link, at);
    const node = changetype<Node>(at);
    node.head += image;
    node.area += image;
    node.late += image;
    link = at + offsetof<Node>('next');
  }
  return series;
}

/**
 * `read`, or with `isMerged` `readBlock` of the block at `start`, of images that lie one after the
 * other.
 */
export function readImages(
  images: usize,
  from: u32,
  count: u32,
  start: i64,
  end: i64,
  isMerged: bool,
  out: usize,
  room: usize,
  lengths: usize,
): u32 {
  let image = images;
  for (let i: u32 = 0; i < from; i++) image += bytesIn(image);
  let o = out;
  for (; from < count; from++) {
    const series = openImage(image);
    const left = room - (o - out);
    let next = o;
    if (series.nodes != 0) {
      next = isMerged
        ? readMerged(series, start, o, left, false)
        : readSeries(series, start, end, o, left);
    }
    if (next == 0) break;
    store<u32>(lengths + (<usize>from << 2), <u32>(next - o));
    o = next;
    image += bytesIn(image);
  }
  return from;
}

/** A region that a reader of another thread has for itself; 0 without memory. */
export function takeRegion(bytes: usize): usize {
  return allocate(bytes);
}

/** Gives a region back when its reader has ended. */
export function releaseRegion(at: usize): void {
  release(at);
}
