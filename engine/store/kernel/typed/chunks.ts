// Typed chunks outside of a store: measured, merged, cut and digested. Bytes come from outside, and a few of them may
// stand for a megabyte of values: what chunks come to is found first, and then room is made for it.
import { Chunk, kindsAll, kindTyped, readHeader } from '../../../codec/kernel/codec';
import { isCut } from '../../../codec/kernel/cuts';
import { typedBytesMax, typedRowsMax } from '../../../codec/layout';
import {
  typeBits,
  typeBytes,
  typeDouble,
  typeFloat,
  typeMessage,
  varintAt,
  varintEnd,
} from '../../../typed/kernel/fields';
import { mix } from '../memory/mix';
import { state, stateAt } from '../memory/pages';
import {
  addTypedChunk,
  bytesOfDesk,
  encodeTypedDesk,
  fieldsOfDesk,
  finishTypedDesk,
  isMergeableTyped,
  keepTypedRange,
  openTypedDesk,
  rowAt,
  TypedDesk,
  typedDeskBytes,
  typedLongBytesMax,
} from './desk';

const chunkAt: usize = stateAt + 2304;

/** Work space of `measureTyped`. */
export const typedMeasureBytes: usize = typedDeskBytes(typedRowsMax, typedBytesMax);

/** Reads the next header; 0 when it is malformed or of no typed chunk, else where the chunk ends. */
function nextTyped(chunk: Chunk, at: usize, end: usize): usize {
  if (!readHeader(chunk, at, end, kindsAll) || chunk.kind != kindTyped) return 0;
  return chunk.end;
}

@inline
function overlaps(chunk: Chunk, nanosFrom: i64, nanosEnd: i64): bool {
  return chunk.lastNanos >= nanosFrom && chunk.firstNanos < nanosEnd;
}

/**
 * What the typed chunks in [at, end) that overlap the range come to: three float64 at `answers`, rows, fields and bytes of
 * values. Gives 1, 0 when one is malformed, or 2 when they are too much to be merged.
 */
export function measureTyped(
  at: usize,
  end: usize,
  nanosFrom: i64,
  nanosEnd: i64,
  work: usize,
  answers: usize,
): u32 {
  const chunk = changetype<Chunk>(chunkAt);
  let rows: u64 = 0;
  let fields: u64 = 0;
  let bytes: u64 = 0;
  while (at < end) {
    at = nextTyped(chunk, at, end);
    if (at == 0) return 0;
    if (!overlaps(chunk, nanosFrom, nanosEnd)) continue;
    if (chunk.rowCount > <u32>typedRowsMax) return 0;
    const desk = openTypedDesk(work, chunk.rowCount, typedBytesMax);
    if (!addTypedChunk(desk, chunk)) return 0;
    rows += <u64>desk.rowCount;
    fields += fieldsOfDesk(desk);
    bytes += bytesOfDesk(desk);
    if (rows > 1 << 24 || !isMergeableTyped(<u32>rows, fields, bytes)) return 2;
  }
  store<f64>(answers, <f64>rows);
  store<f64>(answers, <f64>fields, 8);
  store<f64>(answers, <f64>bytes, 16);
  return 1;
}

/** Work space for what was measured. */
export function typedWorkBytes(rows: u32, valueBytes: usize): usize {
  return typedDeskBytes(rows, valueBytes);
}

/** Room for the chunks of what was measured. */
export function typedOutBytes(rows: u32, fields: f64, valueBytes: usize): usize {
  return typedLongBytesMax(rows, <u64>fields, valueBytes);
}

/** The rows in the range of chunks that were measured, each time once, ascending. */
function gather(
  at: usize,
  end: usize,
  nanosFrom: i64,
  nanosEnd: i64,
  rows: u32,
  valueBytes: usize,
  work: usize,
): TypedDesk {
  const chunk = changetype<Chunk>(chunkAt);
  const desk = openTypedDesk(work, rows, valueBytes);
  while (at < end) {
    at = nextTyped(chunk, at, end);
    if (at == 0) unreachable();
    if (!overlaps(chunk, nanosFrom, nanosEnd)) continue;
    if (!addTypedChunk(desk, chunk)) unreachable();
  }
  finishTypedDesk(desk);
  return desk;
}

/** Writes the rows in the range of chunks that were measured as long chunks to `out`; gives their end. */
export function mergeTyped(
  at: usize,
  end: usize,
  nanosFrom: i64,
  nanosEnd: i64,
  rows: u32,
  valueBytes: usize,
  work: usize,
  out: usize,
): usize {
  const desk = gather(at, end, nanosFrom, nanosEnd, rows, valueBytes, work);
  if (!keepTypedRange(desk, nanosFrom, nanosEnd)) return out;
  return encodeTypedDesk(desk, out);
}

/**
 * `mergeTyped` of all rows that no deletion covers; the answer is how many rows went.
 * @param cuts as in `cutRows`
 */
export function cutTyped(
  at: usize,
  end: usize,
  cuts: usize,
  cutCount: u32,
  rows: u32,
  valueBytes: usize,
  work: usize,
  out: usize,
): usize {
  const desk = gather(at, end, i64.MIN_VALUE, i64.MAX_VALUE, rows, valueBytes, work);
  const rowEnd = desk.rowCount;
  let to: usize = 0;
  for (let from: usize = 0; from < <usize>rowEnd << 3; from += 8) {
    const nanos = load<i64>(desk.times + from);
    const lag = load<i64>(desk.lags + from);
    if (isCut(cuts, cutCount, nanos, lag)) continue;
    store<i64>(desk.times + to, nanos);
    store<i64>(desk.lags + to, lag);
    store<i64>(desk.starts + to, load<i64>(desk.starts + from));
    store<u64>(desk.places + to, load<u64>(desk.places + from));
    to += 8;
  }
  desk.rowCount = <u32>(to >> 3);
  state().answer = <u64>(rowEnd - desk.rowCount);
  return encodeTypedDesk(desk, out);
}

/**
 * Writes two u64 to `out`, the digest of the rows in the range of chunks that were measured; gives how many they are.
 * @param id what `hashId` has written
 */
export function digestTyped(
  id: usize,
  at: usize,
  end: usize,
  nanosFrom: i64,
  nanosEnd: i64,
  rows: u32,
  valueBytes: usize,
  work: usize,
  out: usize,
): u32 {
  const desk = gather(at, end, nanosFrom, nanosEnd, rows, valueBytes, work);
  const rowEnd = rowAt(desk, nanosEnd);
  const idLow = load<u64>(id);
  const idHigh = load<u64>(id, 8);
  let low: u64 = 0;
  let high: u64 = 0;
  let count: u32 = 0;
  for (let row = rowAt(desk, nanosFrom); row < rowEnd; row++, count++) {
    const place = <usize>row << 3;
    const start = load<u64>(desk.starts + place);
    let time = mix(load<u64>(desk.times + place) + idLow);
    if (start != 0) time = mix(time + start);
    const hash = hashOf(load<u64>(desk.places + place));
    low += mix(time ^ hash);
    high += mix((rotl<u64>(time, 29) + hash) ^ idHigh);
  }
  store<u64>(out, low);
  store<u64>(out, high, 8);
  return count;
}

/** Of kind, layout and fields, in whatever order these come. */
function hashOf(value: u64): u64 {
  const p = <usize>(value & 0xffffffff);
  const end = p + <usize>(value >> 32);
  const layoutEnd = varintEnd(p + 1);
  return mix(mix(varintAt(p + 1) * 8 + <u64>load<u8>(p)) + hashOfFields(layoutEnd, end));
}

function hashOfFields(p: usize, end: usize): u64 {
  let sum: u64 = 0;
  while (p < end) {
    const tag = varintAt(p);
    const type = <u32>(tag & ((1 << typeBits) - 1));
    p = varintEnd(p);
    let content: u64;
    if (type == typeDouble) {
      content = load<u64>(p);
      p += 8;
    } else if (type == typeFloat) {
      content = <u64>load<u32>(p);
      p += 4;
    } else {
      content = varintAt(p);
      p = varintEnd(p);
      if (type >= typeBytes) {
        const past = p + <usize>content;
        content = type == typeMessage ? hashOfFields(p, past) : hashOfBytes(p, past);
        p = past;
      }
    }
    sum += mix(mix(tag) + content);
  }
  return sum;
}

function hashOfBytes(p: usize, end: usize): u64 {
  let hash = <u64>(end - p);
  for (; p < end; p += 8) {
    const left = <u64>(end - p);
    const word = left >= 8 ? load<u64>(p) : load<u64>(p) & ((1 << (left << 3)) - 1);
    hash = mix(hash + word);
  }
  return hash;
}

/**
 * Finds the rows in the range of chunks that were measured; gives how many they are. Four u32 at `answers`: addresses of
 * their times, lags and start times (i64) and of where their values are (u64, address and length above 32 bits).
 */
export function readTyped(
  at: usize,
  end: usize,
  nanosFrom: i64,
  nanosEnd: i64,
  rows: u32,
  valueBytes: usize,
  work: usize,
  answers: usize,
): u32 {
  const desk = gather(at, end, nanosFrom, nanosEnd, rows, valueBytes, work);
  const row = rowAt(desk, nanosFrom);
  const place = <usize>row << 3;
  store<u32>(answers, <u32>(desk.times + place));
  store<u32>(answers, <u32>(desk.lags + place), 4);
  store<u32>(answers, <u32>(desk.starts + place), 8);
  store<u32>(answers, <u32>(desk.places + place), 12);
  return max(rowAt(desk, nanosEnd), row) - row;
}
