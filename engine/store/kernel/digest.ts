// Digests of rows (docs/REPAIR.md): sums of hashes of (ID of the series, time, start time if there is one, value bits),
// so that replicas that have the same rows have the same digest, however these lie in chunks and in whatever order
// series come.
import { Chunk, readHeader } from '../../codec/kernel/codec';
import { addChunk, Desk, finishDesk, openDesk, rowAt } from '../../codec/kernel/merge';
import { mix } from './memory/mix';
import { state, stateAt, tablesAt } from './memory/pages';

const chunkAt: usize = stateAt + 3584;

const seedLow: u64 = 0x9e3779b97f4a7c15;
const seedHigh: u64 = 0xc2b2ae3d27d4eb4f;

/**
 * Writes two u64 to `out`, the hash of an ID.
 * @param at the ID, with zeros after it up to a multiple of eight bytes
 */
export function hashId(at: usize, length: u32, out: usize): void {
  let low = mix(seedLow + <u64>length);
  let high = mix(seedHigh + <u64>length);
  for (let end = at + <usize>length; at < end; at += 8) {
    const word = load<u64>(at);
    low = mix(low ^ word);
    high = mix(high + word);
  }
  store<u64>(out, low);
  store<u64>(out, high, 8);
}

/**
 * Writes two u64 to `out`, the digest of the rows in [nanosFrom, nanosEnd) of chunks that
 * `scanChunks` has read with this range, in work space of `mergeBytes`. Chunks that follow each
 * other in time are not merged. Gives the rows, or -1 when a payload is malformed.
 * @param id what `hashId` has written
 */
export function digestRows(
  id: usize,
  at: usize,
  end: usize,
  nanosFrom: i64,
  nanosEnd: i64,
  rows: u32,
  chunks: u32,
  work: usize,
  out: usize,
): i32 {
  const chunk = changetype<Chunk>(chunkAt);
  const desk: Desk = openDesk(work, tablesAt, rows, chunks, state().hasStarts != 0);
  while (at < end) {
    readHeader(chunk, at, end);
    at = chunk.end;
    if (chunk.lastNanos < nanosFrom || chunk.firstNanos >= nanosEnd) continue;
    if (!addChunk(desk, chunk)) return -1;
  }
  finishDesk(desk, false);
  const row = rowAt(desk, nanosFrom);
  const rowEnd = rowAt(desk, nanosEnd);
  const idLow = load<u64>(id);
  const idHigh = load<u64>(id, 8);
  const toValue = desk.values - desk.times;
  const toStart: usize = desk.starts == 0 ? 0 : desk.starts - desk.times;
  let low: u64 = 0;
  let high: u64 = 0;
  const last = desk.times + (<usize>rowEnd << 3);
  for (let p = desk.times + (<usize>row << 3); p < last; p += 8) {
    const bits = load<u64>(p + toValue);
    let time = mix(load<u64>(p) + idLow);
    if (toStart != 0 && load<u64>(p + toStart) != 0) time = mix(time + load<u64>(p + toStart));
    low += mix(time ^ bits);
    high += mix((rotl<u64>(time, 29) + bits) ^ idHigh);
  }
  store<u64>(out, low);
  store<u64>(out, high, 8);
  return <i32>(rowEnd - row);
}
