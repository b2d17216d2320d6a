// Brings typed rows of one series together: columns in ascending time, every time once, and chunks of them.
import { Chunk, kindsAll, readHeader } from '../../../codec/kernel/codec';
import { typedColumnValuesMax, typedRowsMax } from '../../../codec/layout';
import { compareTyped, fieldsOf, orderOfWindows } from '../../../typed/kernel/check';
import { decodeTyped, TypedAnswer, typedDecodeBytes } from '../../../typed/kernel/decode';
import { encodeTyped, typedChunkBytesMax, typedEncodeBytes } from '../../../typed/kernel/encode';
import { placed } from '../../../typed/kernel/fields';
import { encoderAt, pageBytes, state, stateAt, tablesAt } from '../memory/pages';
import { beginTypedRows, readTypedRow, TypedRow } from './head_values';

const chunkAt: usize = stateAt + 2304;
const readRowAt: usize = stateAt + 2560;
const answerAt: usize = stateAt + 2624;

/** Fields of a chunk that is written, unless it is one row: half of what a reader takes, since some stand for absent ones. */
export const chunkFieldsMax: u32 = typedColumnValuesMax / 2;
/** Bytes of its values, unless it is one row. */
export const chunkValueBytesMax: u32 = 1 << 19;

@unmanaged
export class TypedDesk {
  rowCount: u32;
  /** Of these rows; times, lags and starts are i64, places u64 (`placed`). */
  times: usize;
  lags: usize;
  starts: usize;
  places: usize;
  /** Where sorted columns go before they change places with the others. */
  timesOther: usize;
  lagsOther: usize;
  startsOther: usize;
  placesOther: usize;
  /** Two columns of u32. */
  order: usize;
  orderOther: usize;
  /** Bytes of values go on here. */
  bytes: usize;
  work: usize;
}

/** Work space to write a chunk or to read one. */
@inline
function workBytes(): usize {
  return max(typedDecodeBytes, typedEncodeBytes(typedRowsMax, chunkFieldsMax));
}

/** Bytes for rows with values of so many bytes in all. */
export function typedDeskBytes(rows: u32, valueBytes: usize): usize {
  return 256 + (<usize>rows + 8) * 72 + valueBytes + 256 + workBytes() + 256;
}

export function openTypedDesk(at: usize, rows: u32, valueBytes: usize): TypedDesk {
  const desk = changetype<TypedDesk>(at);
  // Decoding writes up to 64 bytes after a column.
  const column = (<usize>rows + 8) << 3;
  let next = (at + offsetof<TypedDesk>() + 15) & ~15;
  desk.rowCount = 0;
  desk.times = next;
  desk.lags = next + column;
  desk.starts = next + column * 2;
  desk.places = next + column * 3;
  desk.timesOther = next + column * 4;
  desk.lagsOther = next + column * 5;
  desk.startsOther = next + column * 6;
  desk.placesOther = next + column * 7;
  desk.order = next + column * 8;
  desk.orderOther = desk.order + (column >> 1);
  next += column * 9;
  desk.bytes = next;
  desk.work = (next + valueBytes + 128 + 15) & ~15;
  return desk;
}

/** Adds a row whose value stays where it is. */
export function addTypedRow(desk: TypedDesk, nanos: i64, lag: i64, start: i64, value: u64): void {
  const place = <usize>desk.rowCount << 3;
  store<i64>(desk.times + place, nanos);
  store<i64>(desk.lags + place, lag);
  store<i64>(desk.starts + place, start);
  store<u64>(desk.places + place, value);
  desk.rowCount++;
}

/** Adds the rows of a head (head_values.ts). */
export function addTypedHead(desk: TypedDesk, head: usize, count: u32, blockStart: i64): void {
  const row = changetype<TypedRow>(readRowAt);
  beginTypedRows(row, blockStart);
  let at = head;
  for (let i: u32 = 0; i < count; i++) {
    at = readTypedRow(at, row, desk.bytes);
    desk.bytes += <usize>(row.value >> 32);
    addTypedRow(desk, row.nanos, row.lag, row.start, row.value);
  }
}

/** Header of a chunk of our own, typed or not, at `at`. */
export function typedHeaderAt(at: usize, end: usize): Chunk {
  const chunk = changetype<Chunk>(chunkAt);
  if (!readHeader(chunk, at, end, kindsAll)) unreachable();
  return chunk;
}

/** Adds the rows of the chunk whose header was read; false when it is malformed. */
export function addTypedChunk(desk: TypedDesk, chunk: Chunk): bool {
  const place = <usize>desk.rowCount << 3;
  const answer = changetype<TypedAnswer>(answerAt);
  const isGood = decodeTyped(
    chunk,
    tablesAt,
    desk.times + place,
    desk.lags + place,
    desk.starts + place,
    desk.places + place,
    desk.bytes,
    desk.work,
    answer,
  );
  if (!isGood) return false;
  desk.rowCount += chunk.rowCount;
  desk.bytes += <usize>answer.bytes;
  return true;
}

/** Above 0 when the first of two rows of one time stays: by what windows say, by lag, then kind and bytes, then start. */
export function orderOfTyped(
  lag: i64,
  value: u64,
  start: i64,
  lagOther: i64,
  valueOther: u64,
  startOther: i64,
): i32 {
  const ofWindows = orderOfWindows(value, valueOther);
  if (ofWindows != 0) return ofWindows;
  if (lag != lagOther) return lag > lagOther ? 1 : -1;
  const order = compareTyped(value, valueOther);
  if (order != 0) return order;
  return start > startOther ? 1 : start < startOther ? -1 : 0;
}

/** Puts the rows in order, and of those with one time keeps the one that wins. */
export function finishTypedDesk(desk: TypedDesk): void {
  if (isAscending(desk)) return;
  sortOrder(desk);
  let count: u32 = 0;
  for (let i: u32 = 0; i < desk.rowCount; i++) {
    const from = <usize>load<u32>(desk.order + (<usize>i << 2)) << 3;
    const nanos = load<i64>(desk.times + from);
    if (count != 0) {
      const last = (<usize>count - 1) << 3;
      if (load<i64>(desk.timesOther + last) == nanos) {
        const order = orderOfTyped(
          load<i64>(desk.lags + from),
          load<u64>(desk.places + from),
          load<i64>(desk.starts + from),
          load<i64>(desk.lagsOther + last),
          load<u64>(desk.placesOther + last),
          load<i64>(desk.startsOther + last),
        );
        if (order > 0) copyRow(desk, from, last);
        continue;
      }
    }
    copyRow(desk, from, <usize>count << 3);
    count++;
  }
  desk.rowCount = count;
  swapColumns(desk);
}

@inline
function copyRow(desk: TypedDesk, from: usize, to: usize): void {
  store<i64>(desk.timesOther + to, load<i64>(desk.times + from));
  store<i64>(desk.lagsOther + to, load<i64>(desk.lags + from));
  store<i64>(desk.startsOther + to, load<i64>(desk.starts + from));
  store<u64>(desk.placesOther + to, load<u64>(desk.places + from));
}

function swapColumns(desk: TypedDesk): void {
  const times = desk.times;
  const lags = desk.lags;
  const starts = desk.starts;
  const places = desk.places;
  desk.times = desk.timesOther;
  desk.lags = desk.lagsOther;
  desk.starts = desk.startsOther;
  desk.places = desk.placesOther;
  desk.timesOther = times;
  desk.lagsOther = lags;
  desk.startsOther = starts;
  desk.placesOther = places;
}

function isAscending(desk: TypedDesk): bool {
  const end = desk.times + (<usize>desk.rowCount << 3);
  for (let p = desk.times + 8; p < end; p += 8) {
    if (load<i64>(p) <= load<i64>(p - 8)) return false;
  }
  return true;
}

/** Places of the rows by ascending time: runs that ascend already are merged by pairs. */
function sortOrder(desk: TypedDesk): void {
  const count = desk.rowCount;
  for (let i: u32 = 0; i < count; i++) store<u32>(desk.order + (<usize>i << 2), i);
  for (let width: u32 = 1; width < count; width <<= 1) {
    for (let from: u32 = 0; from < count; from += width << 1) {
      mergeOrder(desk, from, min(from + width, count), min(from + (width << 1), count));
    }
    const order = desk.order;
    desk.order = desk.orderOther;
    desk.orderOther = order;
  }
}

function mergeOrder(desk: TypedDesk, from: u32, middle: u32, end: u32): void {
  let a = from;
  let b = middle;
  for (let out = from; out < end; out++) {
    let takesFirst = a < middle;
    if (takesFirst && b < end) {
      const left = load<u32>(desk.order + (<usize>a << 2));
      const right = load<u32>(desk.order + (<usize>b << 2));
      takesFirst =
        load<i64>(desk.times + (<usize>left << 3)) <= load<i64>(desk.times + (<usize>right << 3));
    }
    const taken = takesFirst ? a++ : b++;
    store<u32>(
      desk.orderOther + (<usize>out << 2),
      load<u32>(desk.order + (<usize>taken << 2)),
    );
  }
}

/** Values of a part, in bytes: with more, nothing comes to it any more. */
const partBytesMax: u64 = 64 << 20;
const partRowsMax: u32 = 1 << 24;

/**
 * Whether a part of so many rows, fields and bytes of values can be merged however full the memory is: its desk and
 * what is written fit into what admission leaves (`reserveOf` and `headroomOf` of store.ts).
 */
export function isMergeableTyped(rows: u32, fields: u64, valueBytes: u64): bool {
  if (valueBytes > partBytesMax || rows > partRowsMax || fields > partBytesMax) return false;
  const work =
    <u64>typedDeskBytes(rows, <usize>valueBytes) +
    <u64>typedLongBytesMax(rows, fields, <usize>valueBytes);
  return work <= max<u64>(24 << 20, <u64>state().pageMax * pageBytes / 16);
}

/** At most so many bytes are the chunks of so many rows, fields and bytes of values. */
export function typedLongBytesMax(rows: u32, fields: u64, valueBytes: usize): usize {
  // A chunk has as many fields or bytes as it may have with the first row of the next one, at worst.
  const chunks = (fields << 1) / chunkFieldsMax + <u64>(valueBytes / (chunkValueBytesMax >> 1)) + 2;
  return typedChunkBytesMax(rows, 0, valueBytes) + <usize>(fields * 48 + chunks * 2048);
}

/** Encodes the rows of a finished desk as chunks that are as long as they may be; gives their end. */
export function encodeTypedDesk(desk: TypedDesk, out: usize): usize {
  for (let row: u32 = 0; row < desk.rowCount; ) {
    const first = row;
    let fields: u32 = 0;
    let bytes: u32 = 0;
    for (; row < desk.rowCount && row - first < <u32>typedRowsMax; row++) {
      const value = load<u64>(desk.places + (<usize>row << 3));
      const at = <usize>(value & 0xffffffff);
      const length = <u32>(value >> 32);
      const count = fieldsOf(at, at + <usize>length);
      if (row > first && (fields + count > chunkFieldsMax || bytes + length > chunkValueBytesMax)) {
        break;
      }
      fields += count;
      bytes += length;
    }
    out = encodeTypedRun(desk, first, row - first, fields, out);
  }
  return out;
}

function encodeTypedRun(desk: TypedDesk, first: u32, count: u32, fields: u32, out: usize): usize {
  const place = <usize>first << 3;
  let hasStarts = false;
  for (let i: usize = 0; i < <usize>count << 3; i += 8) {
    if (load<i64>(desk.starts + place + i) != 0) hasStarts = true;
  }
  const end = encodeTyped(
    encoderAt,
    tablesAt,
    desk.times + place,
    desk.lags + place,
    hasStarts ? desk.starts + place : 0,
    desk.places + place,
    count,
    fields,
    desk.work,
    out,
  );
  if (end == 0) unreachable();
  return end;
}

/** Room for a copy of a value and where it is. */
export function copyOf(value: u64, to: usize): u64 {
  memory.copy(to, <usize>(value & 0xffffffff), <usize>(value >> 32));
  return placed(to, <usize>(value >> 32));
}

/** Bytes of the values of a desk's rows. */
export function bytesOfDesk(desk: TypedDesk): u64 {
  let bytes: u64 = 0;
  const end = desk.places + (<usize>desk.rowCount << 3);
  for (let p = desk.places; p < end; p += 8) bytes += load<u64>(p) >> 32;
  return bytes;
}

/** Fields of these values. */
export function fieldsOfDesk(desk: TypedDesk): u64 {
  let fields: u64 = 0;
  const end = desk.places + (<usize>desk.rowCount << 3);
  for (let p = desk.places; p < end; p += 8) {
    const at = <usize>(load<u64>(p) & 0xffffffff);
    fields += <u64>fieldsOf(at, at + <usize>(load<u64>(p) >> 32));
  }
  return fields;
}

/** First row of a finished desk at or after the time. */
export function rowAt(desk: TypedDesk, nanos: i64): u32 {
  let low: u32 = 0;
  let high = desk.rowCount;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (load<i64>(desk.times + (<usize>middle << 3)) < nanos) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Leaves the rows in [start, end) on a finished desk; false when there are none. */
export function keepTypedRange(desk: TypedDesk, start: i64, end: i64): bool {
  const first = rowAt(desk, start);
  const past = rowAt(desk, end);
  if (first >= past) return false;
  const place = <usize>first << 3;
  desk.times += place;
  desk.lags += place;
  desk.starts += place;
  desk.places += place;
  desk.rowCount = past - first;
  return true;
}
