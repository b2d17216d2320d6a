// Reads chunks of typed values: their columns first, then the values as strings, column by column. Bytes come from
// outside: every length and count is checked. chunk_twin.ts and columns_twin.ts say the same at leisure.
import {
  Chunk,
  decodeLags,
  decodeStarts,
  decodeTimes,
  decodeValues,
  fail,
  lagOfLast,
  readByte,
  readIntegers,
  readVarint,
  unzigzag,
  zigzag,
} from '../../codec/kernel/codec';
import { writeVarint } from '../../codec/kernel/integers';
import {
  fieldNumberMax,
  typedBytesMax,
  typedColumnValuesMax,
  typedDepthMax,
  typedFieldsMax,
  typedRowsMax,
} from '../../codec/layout';
import {
  doubleBitsOf,
  floatBitsOf,
  formEach,
  irregularFlag,
  kindHistogram,
  kindLast,
  placed,
  presenceRuns,
  presenceZeros,
  startsFlag,
  typeBits,
  typeBytes,
  typeDouble,
  typeFloat,
  typeInt,
  typeMessage,
  varintBytes,
} from './fields';

/** Rows of one kind and layout. */
@unmanaged
export class Group {
  layout: u64;
  kind: u32;
  rowCount: u32;
  /** Places (u16) of its rows in the chunk. */
  rows: usize;
}

/** A column as it was read. They are a list, in the order in which fields stand in a typed value. */
@unmanaged
export class Column {
  tag: u64;
  /** Of u64: integers, bits, where byte strings are, lengths of messages. */
  values: usize;
  /** Places (u16) of the rows that have the field. */
  rows: usize;
  count: u32;
  next: usize;
  /** The column of the messages that have it, 0 for none. */
  parent: usize;
  /** Place of its group among the groups. */
  group: u32;
  /** Its own among the columns, from 1 on, for who tells of them. */
  place: u32;
}

@unmanaged
export class Decoding {
  tables: usize;
  /** Work space from here on is free. */
  top: usize;
  last: usize;
  /** Of each row (u32): bytes of its typed value so far; then where the next field goes. */
  lengths: usize;
  /** Of each row (u32). */
  fieldCounts: usize;
  valuesLeft: i64;
  bytesLeft: i64;
  /** Whether the values are put together: their lengths are summed, and their fields checked. */
  isWhole: bool;
  group: u32;
  groups: usize;
  groupCount: u32;
}

/** Work space for a chunk. */
export const typedDecodeBytes: usize =
  // Of each value at most a column, its entry in a directory, the value, its row and a word of a dictionary.
  <usize>typedColumnValuesMax * 96 + (1 << 18);

/** In an answer: bytes of the typed values, and whether rows have starts. */
@unmanaged
export class TypedAnswer {
  bytes: u32;
  hasStarts: u32;
}

@inline
function take(d: Decoding, bytes: usize): usize {
  const at = (d.top + 7) & ~7;
  d.top = at + bytes;
  return at;
}

/**
 * Decodes the rows after a header of kind typed: int64 times, lags and starts, typed values one after the other, and
 * where each of them is (u64, `placed`). False when it is malformed.
 * @param bytes `typedBytesMax` and 16 more
 * @param work `typedDecodeBytes`
 */
export function decodeTyped(
  chunk: Chunk,
  tables: usize,
  times: usize,
  lags: usize,
  starts: usize,
  places: usize,
  bytes: usize,
  work: usize,
  answer: TypedAnswer,
): bool {
  const rowCount = chunk.rowCount;
  if (!readTimes(chunk, tables, times, lags, starts, answer)) return false;
  const d = changetype<Decoding>(work);
  const first = readColumns(d, chunk, tables, askedAll, work, true);
  if (first == 0) return false;

  let total: u64 = 0;
  for (let row: usize = 0; row < <usize>rowCount; row++) {
    const at = d.lengths + (row << 2);
    const begin = bytes + <usize>total;
    total += <u64>load<u32>(at);
    if (total > <u64>typedBytesMax) return false;
    store<u64>(places + (row << 3), placed(begin, <usize>load<u32>(at)));
    store<u32>(at, <u32>begin);
  }
  answer.bytes = <u32>total;
  for (let i: usize = 0; i < <usize>d.groupCount; i++) {
    writeHeads(d, changetype<Group>(d.groups + i * offsetof<Group>()));
  }
  writeColumns(d, changetype<Column>(first).next);
  return true;
}

/** Reads what stands before the groups. */
export function readTimes(
  chunk: Chunk,
  tables: usize,
  times: usize,
  lags: usize,
  starts: usize,
  answer: TypedAnswer,
): bool {
  const rowCount = chunk.rowCount;
  if (rowCount > <u32>typedRowsMax) return false;
  const control = readByte(chunk);
  if (control & ~(startsFlag | irregularFlag)) return false;
  if (!decodeTimes(chunk, tables, times, (control & irregularFlag) != 0)) return false;
  if (chunk.hasRowVersions) decodeLags(chunk, tables, times, lags);
  else fillWith(lags, rowCount, lagOfLast(chunk));
  if (chunk.failed) return false;
  answer.hasStarts = control & startsFlag ? 1 : 0;
  if (answer.hasStarts) decodeStarts(chunk, tables, times, starts);
  else fillWith(starts, rowCount, 0);
  return !chunk.failed;
}

/**
 * Which columns are asked for: `askedAll`, or the address of a u64 count and, ascending, so many pairs of u64: number of
 * a field, and what is asked for of it. A column that is not asked for is passed over unread.
 */
export const askedAll: usize = 1;

/** What is asked for of a field; 0 for nothing. */
function askedOf(asked: usize, number: u64): usize {
  if (asked == askedAll) return askedAll;
  let low: usize = 0;
  let high = <usize>load<u64>(asked);
  while (low < high) {
    const middle = (low + high) >> 1;
    const found = load<u64>(asked + 8 + (middle << 4));
    if (found == number) return <usize>load<u64>(asked + 16 + (middle << 4));
    if (found < number) low = middle + 1;
    else high = middle;
  }
  return 0;
}

/**
 * Reads groups and columns after times, lags and starts. Gives the column, which is none, before the first one; 0 when
 * they are malformed.
 */
export function readColumns(
  d: Decoding,
  chunk: Chunk,
  tables: usize,
  asked: usize,
  work: usize,
  isWhole: bool,
): usize {
  const rowCount = chunk.rowCount;
  d.tables = tables;
  d.isWhole = isWhole;
  d.top = work + offsetof<Decoding>();
  d.valuesLeft = typedColumnValuesMax;
  d.bytesLeft = typedBytesMax;
  d.lengths = take(d, <usize>rowCount << 2);
  d.fieldCounts = take(d, <usize>rowCount << 2);
  memory.fill(d.fieldCounts, 0, <usize>rowCount << 2);
  // A column that is none stands before the first.
  const first = take(d, offsetof<Column>());
  d.last = first;
  changetype<Column>(first).next = 0;

  const groupCount = readVarint(chunk);
  if (groupCount == 0 || groupCount > <u64>rowCount) return 0;
  const groups = readGroups(d, chunk, <u32>groupCount);
  if (groups == 0) return 0;
  d.groups = groups;
  d.groupCount = <u32>groupCount;
  for (let i: usize = 0; i < <usize>groupCount; i++) {
    const group = changetype<Group>(groups + i * offsetof<Group>());
    if (group.rowCount == 0) return 0;
    d.group = <u32>i;
    const length = 1 + varintBytes(group.layout);
    for (let row: usize = 0; row < <usize>group.rowCount; row++) {
      store<u32>(d.lengths + (<usize>load<u16>(group.rows + (row << 1)) << 2), length);
    }
    readLevel(d, chunk, group.rows, group.rowCount, 0, asked, 0);
    if (chunk.failed) return 0;
  }
  return chunk.cursor == chunk.end ? first : 0;
}

export function fillWith(column: usize, rowCount: u32, value: i64): void {
  const end = column + (<usize>rowCount << 3);
  for (let p = column; p < end; p += 8) store<i64>(p, value);
}

/** Address of the groups with their rows, or 0. */
function readGroups(d: Decoding, chunk: Chunk, count: u32): usize {
  const rowCount = chunk.rowCount;
  const groups = take(d, <usize>count * offsetof<Group>());
  for (let i: usize = 0; i < <usize>count; i++) {
    const group = changetype<Group>(groups + i * offsetof<Group>());
    group.kind = readByte(chunk);
    group.layout = readVarint(chunk);
    group.rowCount = 0;
    if (chunk.failed || group.kind < kindHistogram || group.kind > kindLast) return 0;
    if (group.layout > <u64>9007199254740991) return 0;
    if (i == 0) continue;
    const before = changetype<Group>(groups + (i - 1) * offsetof<Group>());
    if (group.kind < before.kind) return 0;
    if (group.kind == before.kind && group.layout <= before.layout) return 0;
  }
  // Decoding writes up to 64 bytes after a column, over what is still free.
  const groupOfRow = take(d, <usize>rowCount << 3);
  if (count == 1) fillWith(groupOfRow, rowCount, 0);
  else readNumbers(d, chunk, groupOfRow, rowCount);
  if (chunk.failed) return 0;
  const end = groupOfRow + (<usize>rowCount << 3);
  for (let p = groupOfRow; p < end; p += 8) {
    if (load<u64>(p) >= <u64>count) return 0;
    changetype<Group>(groups + <usize>load<u64>(p) * offsetof<Group>()).rowCount++;
  }
  for (let i: usize = 0; i < <usize>count; i++) {
    const group = changetype<Group>(groups + i * offsetof<Group>());
    group.rows = take(d, <usize>group.rowCount << 1);
    group.rowCount = 0;
  }
  for (let row: usize = 0; row < <usize>rowCount; row++) {
    const place = <usize>load<u64>(groupOfRow + (row << 3));
    const group = changetype<Group>(groups + place * offsetof<Group>());
    store<u16>(group.rows + (<usize>group.rowCount << 1), <u16>row);
    group.rowCount++;
  }
  return groups;
}

function readNumbers(d: Decoding, chunk: Chunk, out: usize, count: u32): void {
  const first = unzigzag(readVarint(chunk));
  if (count == 1) store<i64>(out, first);
  else readIntegers(chunk, d.tables, out, count, first, 0);
}

/** An entry of a directory: number, type and form, length. */
const entryBytes: usize = 16;

/** Reads the columns of some rows. */
function readLevel(
  d: Decoding,
  chunk: Chunk,
  rows: usize,
  rowCount: u32,
  depth: u32,
  asked: usize,
  parent: usize,
): void {
  const columnCount = readVarint(chunk);
  // Each takes three bytes.
  if (columnCount > <u64>(chunk.end - chunk.cursor) / 3) return fail(chunk);
  // Each has a value at least.
  d.valuesLeft -= <i64>columnCount;
  if (d.valuesLeft < 0) return fail(chunk);
  const entries = take(d, <usize>columnCount * entryBytes);
  if (!readDirectory(chunk, entries, <usize>columnCount)) return fail(chunk);
  const end = chunk.end;
  let number: u64 = 0;
  // The first of those of one number, which differ by their types.
  let same: usize = 0;
  for (let i: usize = 0; i < <usize>columnCount; i++) {
    const entry = entries + i * entryBytes;
    const length = <usize>load<u32>(entry, 12);
    if (length > end - chunk.cursor) return fail(chunk);
    const askedHere = askedOf(asked, load<u64>(entry));
    if (askedHere == 0) {
      chunk.cursor += length;
      continue;
    }
    chunk.end = chunk.cursor + length;
    const column = changetype<Column>(take(d, offsetof<Column>()));
    column.next = 0;
    column.parent = parent;
    column.group = d.group;
    changetype<Column>(d.last).next = changetype<usize>(column);
    d.last = changetype<usize>(column);
    if (load<u64>(entry) != number) same = changetype<usize>(column);
    number = load<u64>(entry);
    const typeAndForm = load<u32>(entry, 8);
    column.tag = (number << typeBits) | <u64>(typeAndForm & 7);
    readColumn(d, chunk, column, typeAndForm >> 3, rows, rowCount, depth, askedHere);
    if (chunk.failed || chunk.cursor != chunk.end) return fail(chunk);
    if (d.isWhole && !noteFields(d, column, same)) return fail(chunk);
    chunk.end = end;
  }
}

function readDirectory(chunk: Chunk, entries: usize, count: usize): bool {
  let number: u64 = 0;
  let typeBefore: u32 = 8;
  for (let i: usize = 0; i < count; i++) {
    const step = readVarint(chunk);
    const byte = readByte(chunk);
    const length = readVarint(chunk);
    const type = byte & 7;
    const form = byte >> 3;
    if (chunk.failed || step > <u64>fieldNumberMax) return false;
    number += step;
    if (type > typeMessage || number > <u64>fieldNumberMax) return false;
    if (step == 0 && type <= typeBefore) return false;
    typeBefore = type;
    if (form > 7 || (form & 3) > presenceZeros) return false;
    if (form & formEach && type != typeBytes) return false;
    if ((form & 3) == presenceZeros && type >= typeBytes) return false;
    if (length > <u64>(chunk.end - chunk.cursor)) return false;
    const entry = entries + i * entryBytes;
    store<u64>(entry, number);
    store<u32>(entry, byte, 8);
    store<u32>(entry, <u32>length, 12);
  }
  return true;
}

/** Fills the column with its rows and values. */
function readColumn(
  d: Decoding,
  chunk: Chunk,
  column: Column,
  form: u32,
  rows: usize,
  rowCount: u32,
  depth: u32,
  asked: usize,
): void {
  const type = <u32>(column.tag & 7);
  column.rows = rows;
  column.count = rowCount;
  if ((form & 3) == presenceRuns) readRuns(d, chunk, column, rows, rowCount);
  if (chunk.failed) return;
  const count = column.count;
  // Of which the directory has counted one.
  d.valuesLeft -= <i64>count - 1;
  if (d.valuesLeft < 0) return fail(chunk);
  if (type == typeBytes) return readBytes(d, chunk, column, (form & formEach) != 0);
  const values = take(d, <usize>count << 3);
  column.values = values;
  if (type == typeMessage) return readMessages(d, chunk, column, depth, asked);
  if (type == typeDouble || type == typeFloat) {
    const control = readByte(chunk);
    if (control & irregularFlag) return fail(chunk);
    const chunkRows = chunk.rowCount;
    chunk.rowCount = count;
    decodeValues(chunk, d.tables, values, control);
    chunk.rowCount = chunkRows;
    if (chunk.failed) return;
    if (type == typeFloat) narrow(chunk, values, count);
  } else {
    readNumbers(d, chunk, values, count);
  }
  if (!chunk.failed && (form & 3) == presenceZeros) leaveOutZeros(d, chunk, column);
}

/** Lengths of runs of absent and present rows by turns, the first of absent ones. */
function readRuns(d: Decoding, chunk: Chunk, column: Column, rows: usize, rowCount: u32): void {
  const present = take(d, <usize>rowCount << 1);
  let count: usize = 0;
  let isPresent = false;
  for (let next: u64 = 0; next < <u64>rowCount; isPresent = !isPresent) {
    const length = readVarint(chunk);
    if (chunk.failed || length > <u64>rowCount - next) return fail(chunk);
    if (length == 0 && (isPresent || next > 0)) return fail(chunk);
    if (isPresent) {
      memory.copy(present + (count << 1), rows + (<usize>next << 1), <usize>length << 1);
      count += <usize>length;
    }
    next += length;
  }
  if (count == 0) return fail(chunk);
  d.top = present + (count << 1);
  column.rows = present;
  column.count = <u32>count;
}

/** Float64s to the float32s that they are. */
function narrow(chunk: Chunk, values: usize, count: u32): void {
  const end = values + (<usize>count << 3);
  for (let p = values; p < end; p += 8) {
    const bits = load<u64>(p);
    const floatBits = floatBitsOf(bits);
    if (doubleBitsOf(floatBits) != bits) return fail(chunk);
    store<u64>(p, floatBits);
  }
}

function leaveOutZeros(d: Decoding, chunk: Chunk, column: Column): void {
  const present = take(d, <usize>column.count << 1);
  let count: usize = 0;
  for (let i: usize = 0; i < <usize>column.count; i++) {
    const value = load<u64>(column.values + (i << 3));
    if (value == 0) continue;
    store<u64>(column.values + (count << 3), value);
    store<u16>(present + (count << 1), load<u16>(column.rows + (i << 1)));
    count++;
  }
  if (count == 0) return fail(chunk);
  column.rows = present;
  column.count = <u32>count;
}

function readBytes(d: Decoding, chunk: Chunk, column: Column, isEach: bool): void {
  const count = column.count;
  if (isEach) {
    const values = take(d, <usize>count << 3);
    column.values = values;
    readNumbers(d, chunk, values, count);
    if (chunk.failed) return;
    const end = values + (<usize>count << 3);
    for (let p = values; p < end; p += 8) {
      const length = load<u64>(p);
      if (length > <u64>(chunk.end - chunk.cursor) || !takeBytes(d, length)) return fail(chunk);
      store<u64>(p, placed(chunk.cursor, <usize>length));
      chunk.cursor += <usize>length;
    }
    return;
  }
  const distinctCount = readVarint(chunk);
  if (distinctCount == 0 || distinctCount > <u64>count) return fail(chunk);
  const entries = take(d, <usize>distinctCount << 3);
  for (let i: usize = 0; i < <usize>distinctCount; i++) {
    const length = readVarint(chunk);
    if (chunk.failed || length > <u64>(chunk.end - chunk.cursor)) return fail(chunk);
    store<u64>(entries + (i << 3), placed(chunk.cursor, <usize>length));
    chunk.cursor += <usize>length;
  }
  // After the dictionary, since decoding writes beyond them.
  const values = take(d, <usize>count << 3);
  column.values = values;
  if (distinctCount == 1) fillWith(values, count, 0);
  else readNumbers(d, chunk, values, count);
  if (chunk.failed) return;
  const end = values + (<usize>count << 3);
  for (let p = values; p < end; p += 8) {
    const place = load<u64>(p);
    if (place >= distinctCount) return fail(chunk);
    const entry = load<u64>(entries + (<usize>place << 3));
    if (!takeBytes(d, entry >> 32)) return fail(chunk);
    store<u64>(p, entry);
  }
}

function takeBytes(d: Decoding, length: u64): bool {
  d.bytesLeft -= <i64>length;
  return d.bytesLeft >= 0;
}

function readMessages(
  d: Decoding,
  chunk: Chunk,
  column: Column,
  depth: u32,
  asked: usize,
): void {
  if (depth == typedDepthMax) return fail(chunk);
  const lengths = d.lengths;
  for (let i: usize = 0; i < <usize>column.count; i++) {
    const row = <usize>load<u16>(column.rows + (i << 1));
    store<u64>(column.values + (i << 3), <u64>load<u32>(lengths + (row << 2)));
  }
  readLevel(d, chunk, column.rows, column.count, depth + 1, asked, changetype<usize>(column));
  if (chunk.failed) return;
  for (let i: usize = 0; i < <usize>column.count; i++) {
    const row = <usize>load<u16>(column.rows + (i << 1));
    const at = column.values + (i << 3);
    store<u64>(at, <u64>load<u32>(lengths + (row << 2)) - load<u64>(at));
  }
}

/** Counts the column's fields and their bytes; false when a row has too many of them, or one twice. */
function noteFields(d: Decoding, column: Column, same: usize): bool {
  for (let at = same; at != changetype<usize>(column); at = changetype<Column>(at).next) {
    if (haveCommonRow(changetype<Column>(at), column)) return false;
  }
  const type = <u32>(column.tag & 7);
  const tagBytes = varintBytes(column.tag);
  for (let i: usize = 0; i < <usize>column.count; i++) {
    const row = <usize>load<u16>(column.rows + (i << 1));
    const value = load<u64>(column.values + (i << 3));
    const fieldCount = d.fieldCounts + (row << 2);
    if (load<u32>(fieldCount) == typedFieldsMax) return false;
    store<u32>(fieldCount, load<u32>(fieldCount) + 1);
    const length = d.lengths + (row << 2);
    store<u32>(length, load<u32>(length) + tagBytes + bytesOfValue(type, value));
  }
  return true;
}

/** What the value takes; of a message only its length, since its fields are columns of their own. */
function bytesOfValue(type: u32, value: u64): u32 {
  if (type == typeInt) return varintBytes(zigzag(<i64>value));
  if (type == typeDouble) return 8;
  if (type == typeFloat) return 4;
  if (type == typeBytes) return varintBytes(value >> 32) + <u32>(value >> 32);
  return varintBytes(value);
}

function haveCommonRow(a: Column, b: Column): bool {
  let i: usize = 0;
  let j: usize = 0;
  while (i < <usize>a.count && j < <usize>b.count) {
    const left = load<u16>(a.rows + (i << 1));
    const right = load<u16>(b.rows + (j << 1));
    if (left == right) return true;
    if (left < right) i++;
    else j++;
  }
  return false;
}

/** Kind and layout of each row of a group. */
function writeHeads(d: Decoding, group: Group): void {
  for (let i: usize = 0; i < <usize>group.rowCount; i++) {
    const cursor = d.lengths + (<usize>load<u16>(group.rows + (i << 1)) << 2);
    const o = <usize>load<u32>(cursor);
    store<u8>(o, <u8>group.kind);
    store<u32>(cursor, <u32>writeVarint(o + 1, group.layout));
  }
}

function writeColumns(d: Decoding, first: usize): void {
  for (let at = first; at != 0; at = changetype<Column>(at).next) {
    const column = changetype<Column>(at);
    const type = <u32>(column.tag & 7);
    for (let i: usize = 0; i < <usize>column.count; i++) {
      const cursor = d.lengths + (<usize>load<u16>(column.rows + (i << 1)) << 2);
      const value = load<u64>(column.values + (i << 3));
      let o = writeVarint(<usize>load<u32>(cursor), column.tag);
      if (type == typeDouble) {
        store<u64>(o, value);
        o += 8;
      } else if (type == typeFloat) {
        store<u32>(o, <u32>value);
        o += 4;
      } else if (type == typeBytes) {
        o = writeVarint(o, value >> 32);
        memory.copy(o, <usize>(value & 0xffffffff), <usize>(value >> 32));
        o += <usize>(value >> 32);
      } else {
        o = writeVarint(o, type == typeInt ? zigzag(<i64>value) : value);
      }
      store<u32>(cursor, <u32>o);
    }
  }
}
