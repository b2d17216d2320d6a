// Reads of typed parts: copies of chunks, heads as chunks, parts merged for files; and chunks that come from outside.
import {
  answerNoMemory,
  deskOf,
  insertMalformed,
  insertNoMemory,
  insertOk,
  insertTooLarge,
  state,
  stateAt,
  trimDesk,
} from '../memory/pages';
import {
  clearFlushed,
  findNode,
  Node,
  nodeOf,
  Series,
  typedOf,
  TypedPart,
  typedPartOf,
} from '../memory/series';
import {
  addTypedChunk,
  addTypedHead,
  encodeTypedDesk,
  fieldsOfDesk,
  finishTypedDesk,
  isMergeableTyped,
  keepTypedRange,
  openTypedDesk,
  rowAt,
  TypedDesk,
  typedDeskBytes,
  typedHeaderAt,
  typedLongBytesMax,
  bytesOfDesk,
} from './desk';
import { addTypedArea, gatherTyped, noteOverlap, typedDeskKept } from './part';
import { typedBytesMax } from '../../../codec/layout';

/** At most so many bytes are the typed chunks of a parked node, as they are read. */
export function typedReadBytesMax(node: Node): usize {
  const part = typedOf(node);
  if (part == null) return 0;
  if (part.headCount == 0) return part.areaLength;
  const head = typedLongBytesMax(part.headCount, <u64>part.headFields, <usize>part.headValueBytes);
  return part.areaLength + head;
}

/** Copies the typed chunks that overlap [start, end), and makes one of the head; 0 without work space. */
export function copyTyped(node: Node, start: i64, end: i64, isWhole: bool, o: usize): usize {
  const part = typedOf(node);
  if (part == null || part.lastNanos < start) return o;
  const areaEnd = part.area + part.areaLength;
  if (isWhole) {
    memory.copy(o, part.area, part.areaLength);
    o += part.areaLength;
  } else {
    for (let at = part.area; at < areaEnd; ) {
      const chunk = typedHeaderAt(at, areaEnd);
      const chunkEnd = chunk.end;
      if (chunk.lastNanos >= start && chunk.firstNanos < end) {
        memory.copy(o, at, chunkEnd - at);
        o += chunkEnd - at;
      }
      at = chunkEnd;
    }
  }
  if (part.headCount == 0) return o;
  const valueBytes = <usize>part.headValueBytes;
  const work = deskOf(typedDeskBytes(part.headCount, valueBytes));
  if (work == 0) {
    state().answer = answerNoMemory;
    return 0;
  }
  const desk = openTypedDesk(work, part.headCount, valueBytes);
  addTypedHead(desk, part.head, part.headCount, node.blockStart);
  finishTypedDesk(desk);
  if (!keepTypedRange(desk, start, end)) return o;
  return encodeTypedDesk(desk, o);
}

/**
 * Writes the typed rows of a node, merged, as long chunks; gives their end, or 0 as `readMerged` does.
 */
export function mergeTypedNode(node: Node, out: usize, room: usize): usize {
  const part = typedOf(node);
  if (part == null) return out;
  const rows = part.areaRows + part.headCount;
  if (rows == 0) return out;
  const fields = part.areaFields + <u64>part.headFields;
  const needed = typedLongBytesMax(rows, fields, <usize>part.valueBytes);
  if (needed > room) {
    state().answer = needed;
    return 0;
  }
  const work = gatherTyped(node, part, 0);
  if (work == 0) {
    state().answer = answerNoMemory;
    return 0;
  }
  const end = encodeTypedDesk(changetype<TypedDesk>(work), out);
  trimDesk(typedDeskKept);
  return end;
}

/** Of the typed chunks of one block that were checked one after the other and are not added yet. */
@unmanaged
class TypedSums {
  blockStart: i64;
  fields: u64;
  valueBytes: u64;
  rows: u32;
}
const sumsAt: usize = stateAt + 2752;

export function beginTypedChecks(): void {
  memory.fill(sumsAt, 0, offsetof<TypedSums>());
}

/**
 * Reads a typed chunk from outside whole: whether it may go into a store, where it is trusted. A few bytes may stand
 * for a megabyte of values, so what they come to is counted.
 */
export function checkTypedChunk(series: Series, blockStart: i64, at: usize, end: usize): u32 {
  const chunk = typedHeaderAt(at, end);
  const work = deskOf(typedDeskBytes(chunk.rowCount, typedBytesMax));
  if (work == 0) return insertNoMemory;
  const desk = openTypedDesk(work, chunk.rowCount, typedBytesMax);
  const node = findNode(series, chunk.firstNanos);
  if (!addTypedChunk(desk, chunk)) return insertMalformed;
  const sums = changetype<TypedSums>(sumsAt);
  if (sums.blockStart != blockStart) beginTypedChecks();
  sums.blockStart = blockStart;
  sums.rows += desk.rowCount;
  sums.fields += fieldsOfDesk(desk);
  sums.valueBytes += bytesOfDesk(desk);
  let rows = sums.rows;
  let fields = sums.fields;
  let valueBytes = sums.valueBytes;
  let part: TypedPart | null = null;
  if (node != null) part = typedOf(node);
  if (part != null) {
    rows += part.areaRows + part.headCount;
    fields += part.areaFields + <u64>part.headFields;
    valueBytes += part.valueBytes;
  }
  return isMergeableTyped(rows, fields, valueBytes) ? insertOk : insertTooLarge;
}

/** Adds a chunk that was checked to a series. */
export function insertTyped(series: Series, at: usize, end: usize): void {
  const chunk = typedHeaderAt(at, end);
  const rows = chunk.rowCount;
  const firstNanos = chunk.firstNanos;
  const lastNanos = chunk.lastNanos;
  const node = nodeOf(series, firstNanos);
  if (node == null) unreachable();
  const part = typedPartOf(node!);
  if (part == null) unreachable();
  clearFlushed(node!);
  const work = deskOf(typedDeskBytes(rows, typedBytesMax));
  if (work == 0) unreachable();
  const desk = openTypedDesk(work, rows, typedBytesMax);
  if (!addTypedChunk(desk, chunk)) unreachable();
  const isApart = firstNanos > part!.areaLastNanos;
  part!.valueBytes += bytesOfDesk(desk);
  addTypedArea(part!, at, end - at, rows, fieldsOfDesk(desk), lastNanos);
  state().sampleCount += <u64>rows;
  if (!isApart) noteOverlap(node!, part!, rows);
}
