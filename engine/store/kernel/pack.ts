// Chunks for a snapshot: heads, which a read copies row by row, are encoded as if they were sealed.
// Where the rows of a chunk get its one version, a head stays as it is when another chunk of the
// series has rows in its time: those are decided by the rows' own versions.
import { Chunk, columnSlackBytes, decodeChunk, kindRows, kindsAll, lagsFoundOf, readHeader } from '../../codec/kernel/codec';
import { encodedBytesMax } from '../../codec/kernel/write';
import { encodeRun } from './encode';
import { state, stateAt, tablesAt } from './memory/pages';

const packedAt: usize = stateAt + 3072;
const otherAt: usize = stateAt + 3584;
/** Rows of a head that is encoded; there are none of so many. */
const packRowsMax: u32 = 1024;
const columnBytes: usize = (<usize>packRowsMax << 3) + columnSlackBytes;

/** Work space of `packChunks`. */
export const packWorkBytes: usize = columnBytes * 3;
/** Room that it needs after the chunks' own length. */
export const packRoomBytes: usize = encodedBytesMax(packRowsMax);

/**
 * Writes the chunks of some series, one after the other, to `out` and their lengths (u32) over
 * those given; gives their end, or 0 when a chunk is malformed.
 */
export function packChunks(
  chunks: usize,
  lengths: usize,
  count: u32,
  work: usize,
  out: usize,
): usize {
  let at = chunks;
  let o = out;
  for (let i: usize = 0; i < <usize>count << 2; i += 4) {
    const end = at + <usize>load<u32>(lengths + i);
    const start = o;
    o = packSeries(at, end, work, o);
    if (o == 0) return 0;
    store<u32>(lengths + i, <u32>(o - start));
    at = end;
  }
  return o;
}

function packSeries(chunks: usize, end: usize, work: usize, out: usize): usize {
  const chunk = changetype<Chunk>(packedAt);
  let o = out;
  for (let at = chunks; at < end; ) {
    if (!readHeader(chunk, at, end, kindsAll)) return 0;
    const length = chunk.end - at;
    const next = chunk.end;
    let packed = o;
    if (
      chunk.kind == kindRows &&
      chunk.rowCount <= packRowsMax &&
      (state().keepsRowVersions || isApart(chunks, end, at, chunk.firstNanos, chunk.lastNanos))
    ) {
      const values = work + columnBytes;
      const lags = values + columnBytes;
      // Such rows have no start times.
      if (!decodeChunk(chunk, tablesAt, work, values, lags, 0)) return 0;
      packed = encodeRun(work, values, lags, lagsFoundOf(chunk).lagHighest, chunk.rowCount, o);
    }
    if (packed == o || packed - o >= length) {
      memory.copy(o, at, length);
      packed = o + length;
    }
    o = packed;
    at = next;
  }
  return o;
}

/** Whether no other chunk has rows in the time. */
function isApart(chunks: usize, end: usize, self: usize, firstNanos: i64, lastNanos: i64): bool {
  const other = changetype<Chunk>(otherAt);
  for (let at = chunks; at < end; ) {
    if (!readHeader(other, at, end, kindsAll)) return false;
    if (at != self && other.firstNanos <= lastNanos && other.lastNanos >= firstNanos) return false;
    at = other.end;
  }
  return true;
}
