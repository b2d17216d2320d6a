// Writes chunks of typed values, byte for byte as chunk_twin.ts and columns_twin.ts do: fields of all rows
// are laid out by column, level by level of messages, and each column is written in the form that suits it.
import { kindTyped, unitNanosOf, unzigzag, zigzag } from '../../codec/kernel/codec';
import { writeIntegers, writeVarint } from '../../codec/kernel/integers';
import { writeValues } from '../../codec/kernel/values';
import {
  bodyOffset,
  frame,
  hasRowVersions,
  stepsAreEqual,
  timeUnitCode,
  writeHeader,
  writeLags,
  writeStarts,
  writeTimes,
} from '../../codec/kernel/write';
import {
  doubleBitsOf,
  formEach,
  irregularFlag,
  placed,
  presenceAll,
  presenceRuns,
  presenceZeros,
  startsFlag,
  typeBits,
  typeBytes,
  typeDouble,
  typeFloat,
  typeInt,
  typeMessage,
  typeUint,
  varintAt,
  varintBytes,
  varintEnd,
} from './fields';

/** A column of a level. */
@unmanaged
class Found {
  tag: u64;
  count: u32;
  /** One more than the place of the column that came after it in the last row that had it; 0 when none did. */
  nextHint: u32;
  /** Of u64, in the order of rows: integers, bits of float64s, where byte strings and messages are. */
  values: usize;
  /** Places (u16) of its rows in the level. */
  rows: usize;
  form: u32;
  /** Of what is written of it. */
  bytes: u32;
}

/** A field of a row: its column, the row's place in the level, its value. */
const fieldBytes: usize = 16;

@unmanaged
class Encoding {
  scratch: usize;
  tables: usize;
  /** Work space from here on is free. */
  top: usize;
  /** Fields that there may still be. */
  valuesLeft: u32;
}

/** Work space for so many rows that have so many fields in all, also in messages. */
@inline
export function typedEncodeBytes(rows: u32, values: u32): usize {
  return 4096 + <usize>rows * 64 + <usize>values * 224;
}

/** Bytes that a chunk of so many rows, fields and bytes of values may take, and may be written over. */
@inline
export function typedChunkBytesMax(rows: u32, values: u32, bytes: usize): usize {
  return 1024 + <usize>rows * 64 + <usize>values * 48 + bytes;
}

@inline
function take(e: Encoding, bytes: usize): usize {
  const at = (e.top + 7) & ~7;
  e.top = at + bytes;
  return at;
}

/**
 * Writes 1 to `typedRowsMax` rows in strictly ascending time as a chunk of kind typed; gives its end, or 0 when they
 * have more fields than was said.
 * @param lags of the rows (i64)
 * @param starts of the rows (i64), or 0 when none has one
 * @param places where the typed values are (u64, `placed`)
 * @param scratch `encoderScratchBytes`
 * @param work `typedEncodeBytes`
 * @param out `typedChunkBytesMax` free
 */
export function encodeTyped(
  scratch: usize,
  tables: usize,
  times: usize,
  lags: usize,
  starts: usize,
  places: usize,
  rows: u32,
  values: u32,
  work: usize,
  out: usize,
): usize {
  const e = changetype<Encoding>(work);
  e.scratch = scratch;
  e.tables = tables;
  e.top = work + offsetof<Encoding>();
  e.valuesLeft = values;

  const firstNanos = load<i64>(times);
  const lastNanos = load<i64>(times + ((<usize>rows - 1) << 3));
  const isRegular = stepsAreEqual(times, rows);
  const unitCode = timeUnitCode(times, isRegular ? min<u32>(rows, 2) : rows);
  let lag = load<i64>(lags);
  let lagsDiffer = false;
  for (let offset: usize = 8; offset < <usize>rows << 3; offset += 8) {
    const other = load<i64>(lags + offset);
    if (other != lag) lagsDiffer = true;
    lag = max(lag, other);
  }
  const tag = lagsDiffer ? kindTyped | hasRowVersions : kindTyped;
  let o = writeHeader(out + bodyOffset, tag, unitCode, rows, firstNanos, lastNanos, lag);
  store<u8>(o++, <u8>((isRegular ? 0 : irregularFlag) | (starts == 0 ? 0 : startsFlag)));
  if (!isRegular) o = writeTimes(scratch, tables, times, rows, unitNanosOf(unitCode), o);
  if (lagsDiffer) o = writeLags(scratch, tables, times, lags, lag, rows, o);
  if (starts != 0) o = writeStarts(scratch, tables, times, starts, rows, o);
  o = writeGroups(e, places, rows, o);
  return o == 0 ? 0 : frame(out, o);
}

/** Rows of one kind and layout. */
@unmanaged
class Group {
  layout: u64;
  kind: u32;
  rowCount: u32;
  /** Where the fields (u64) of its rows are. */
  fields: usize;
}

function groupAt(groups: usize, place: usize): Group {
  return changetype<Group>(groups + place * offsetof<Group>());
}

/** Place of the group of this kind and layout among those so far, in ascending order; it may be a new one. */
function placeOfGroup(groups: usize, count: usize, kind: u32, layout: u64): usize {
  let low: usize = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    const group = groupAt(groups, middle);
    if (group.kind < kind || (group.kind == kind && group.layout < layout)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function writeGroups(e: Encoding, places: usize, rows: u32, o: usize): usize {
  const groups = take(e, (<usize>rows + 1) * offsetof<Group>());
  let count: usize = 0;
  for (let row: usize = 0; row < <usize>rows; row++) {
    const p = <usize>(load<u64>(places + (row << 3)) & 0xffffffff);
    const kind = <u32>load<u8>(p);
    const layout = varintAt(p + 1);
    const place = placeOfGroup(groups, count, kind, layout);
    const group = groupAt(groups, place);
    if (place < count && group.kind == kind && group.layout == layout) {
      group.rowCount++;
      continue;
    }
    memory.copy(
      changetype<usize>(group) + offsetof<Group>(),
      changetype<usize>(group),
      (count - place) * offsetof<Group>(),
    );
    group.kind = kind;
    group.layout = layout;
    group.rowCount = 1;
    count++;
  }
  o = writeVarint(o, <u64>count);
  for (let i: usize = 0; i < count; i++) {
    const group = groupAt(groups, i);
    store<u8>(o, <u8>group.kind);
    o = writeVarint(o + 1, group.layout);
    group.fields = take(e, <usize>group.rowCount << 3);
    group.rowCount = 0;
  }
  for (let row: usize = 0; row < <usize>rows; row++) {
    const value = load<u64>(places + (row << 3));
    const p = <usize>(value & 0xffffffff);
    const layout = varintAt(p + 1);
    const place: usize =
      count == 1 ? 0 : placeOfGroup(groups, count, <u32>load<u8>(p), layout);
    const group = groupAt(groups, place);
    const head: usize = 1 + <usize>varintBytes(layout);
    const fields = placed(p + head, <usize>(value >> 32) - head);
    store<u64>(group.fields + (<usize>group.rowCount << 3), fields);
    group.rowCount++;
    store<i64>(e.scratch + (row << 3), <i64>place);
  }
  if (count > 1) o = writeStream(e, rows, o);
  for (let i: usize = 0; i < count; i++) {
    const group = groupAt(groups, i);
    o = writeLevel(e, group.fields, group.rowCount, o);
    if (o == 0) return 0;
  }
  return o;
}

/** Writes the integers of the scratch's first column, the first of them too. */
function writeStream(e: Encoding, count: u32, o: usize): usize {
  o = writeVarint(o, zigzag(load<i64>(e.scratch)));
  return count > 1 ? writeIntegers(e.scratch, e.tables, <usize>count, 0, o) : o;
}

/** The columns of a level while its fields are looked through. */
@unmanaged
class Level {
  found: usize;
  count: u32;
  /** Cells (u32) with one more than the place of a column; a power of two of them. */
  table: usize;
  mask: u32;
  fields: usize;
  fieldCount: u32;
}

@inline
function foundAt(level: Level, place: u32): Found {
  return changetype<Found>(level.found + <usize>place * offsetof<Found>());
}

/** Place of the column of the tag; it may be a new one. */
function columnOf(level: Level, tag: u64): u32 {
  let cell = <u32>((tag * 0x9e3779b97f4a7c15) >> 40) & level.mask;
  let place = load<u32>(level.table + (<usize>cell << 2));
  while (place != 0 && foundAt(level, place - 1).tag != tag) {
    cell = (cell + 1) & level.mask;
    place = load<u32>(level.table + (<usize>cell << 2));
  }
  if (place != 0) return place - 1;
  const found = foundAt(level, level.count);
  found.tag = tag;
  found.count = 0;
  found.nextHint = 0;
  level.count++;
  store<u32>(level.table + (<usize>cell << 2), level.count);
  return level.count - 1;
}

/** Writes the fields of some rows, which are at `places` (u64); gives the end, or 0 when there are too many. */
function writeLevel(e: Encoding, places: usize, rows: u32, o: usize): usize {
  const top = e.top;
  const level = changetype<Level>(take(e, offsetof<Level>()));
  let bytes: u64 = 0;
  for (let row: usize = 0; row < <usize>rows; row++) bytes += load<u64>(places + (row << 3)) >> 32;
  // A field takes two bytes at least.
  const fieldsMax = <u32>min<u64>(bytes >> 1, <u64>e.valuesLeft);
  level.fields = take(e, <usize>fieldsMax * fieldBytes);
  level.found = take(e, <usize>fieldsMax * offsetof<Found>());
  let cells: u32 = 16;
  while (cells < fieldsMax * 2) cells <<= 1;
  level.mask = cells - 1;
  level.table = take(e, <usize>cells << 2);
  memory.fill(level.table, 0, <usize>cells << 2);
  level.count = 0;
  level.fieldCount = 0;
  if (!findFields(level, places, rows, fieldsMax)) return 0;
  e.valuesLeft -= level.fieldCount;
  // Fields and columns as many as there are; the table is done with.
  const foundBytes = <usize>level.count * offsetof<Found>();
  e.top = level.fields + <usize>level.fieldCount * fieldBytes;
  const found = take(e, foundBytes);
  memory.copy(found, level.found, foundBytes);
  level.found = found;
  layOut(e, level);
  const order = sortedColumns(e, level);

  // The directory comes first, and is as long as it is when all columns are written.
  const bodies = o + 16 + <usize>level.count * 16;
  let end = bodies;
  for (let i: usize = 0; i < <usize>level.count; i++) {
    const column = foundAt(level, load<u32>(order + (i << 2)));
    const start = end;
    end = writeColumn(e, column, rows, end);
    if (end == 0) return 0;
    column.bytes = <u32>(end - start);
  }
  o = writeVarint(o, <u64>level.count);
  let number: u64 = 0;
  for (let i: usize = 0; i < <usize>level.count; i++) {
    const column = foundAt(level, load<u32>(order + (i << 2)));
    o = writeVarint(o, (column.tag >> typeBits) - number);
    number = column.tag >> typeBits;
    store<u8>(o, <u8>((column.tag & 7) | (<u64>column.form << 3)));
    o = writeVarint(o + 1, <u64>column.bytes);
  }
  memory.copy(o, bodies, end - bodies);
  e.top = top;
  return o + (end - bodies);
}

/** Lists the fields of all rows with their columns. */
function findFields(level: Level, places: usize, rows: u32, fieldsMax: u32): bool {
  let firstHint: u32 = 0;
  for (let row: u32 = 0; row < rows; row++) {
    const place = load<u64>(places + (<usize>row << 3));
    let p = <usize>(place & 0xffffffff);
    const end = p + <usize>(place >> 32);
    // One more than the place of the column that is likely to come.
    let hint = firstHint;
    let before: usize = 0;
    while (p < end) {
      if (level.fieldCount == fieldsMax) return false;
      let tag = <u64>load<u8>(p++);
      for (let shift: u64 = 7, byte = tag; byte >= 128; shift += 7) {
        byte = <u64>load<u8>(p++);
        tag = (tag & ((1 << shift) - 1)) | (byte << shift);
      }
      let column: u32;
      if (hint != 0 && foundAt(level, hint - 1).tag == tag) column = hint - 1;
      else {
        column = columnOf(level, tag);
        if (before == 0) firstHint = column + 1;
        else changetype<Found>(before).nextHint = column + 1;
      }
      const found = foundAt(level, column);
      found.count++;
      before = changetype<usize>(found);
      hint = found.nextHint;

      const type = <u32>(tag & 7);
      let value: u64;
      if (type == typeDouble) {
        value = load<u64>(p);
        p += 8;
      } else if (type == typeFloat) {
        value = doubleBitsOf(<u64>load<u32>(p));
        p += 4;
      } else {
        value = varintAt(p);
        p = varintEnd(p);
        if (type == typeInt) value = <u64>unzigzag(value);
        else if (type != typeUint) {
          const length = <usize>value;
          value = placed(p, length);
          p += length;
        }
      }
      const field = level.fields + <usize>level.fieldCount * fieldBytes;
      level.fieldCount++;
      store<u32>(field, column);
      store<u32>(field, row, 4);
      store<u64>(field, value, 8);
    }
  }
  return true;
}

/** Gives each column its values and rows. */
function layOut(e: Encoding, level: Level): void {
  for (let i: u32 = 0; i < level.count; i++) {
    const found = foundAt(level, i);
    found.values = take(e, <usize>found.count << 3);
    found.rows = take(e, <usize>found.count << 1);
    found.count = 0;
  }
  const end = level.fields + <usize>level.fieldCount * fieldBytes;
  for (let p = level.fields; p < end; p += fieldBytes) {
    const found = foundAt(level, load<u32>(p));
    const place = <usize>found.count;
    found.count++;
    store<u64>(found.values + (place << 3), load<u64>(p, 8));
    store<u16>(found.rows + (place << 1), <u16>load<u32>(p, 4));
  }
}

/** Places (u32) of the columns by ascending tags. They were found nearly so: a sort by gaps takes few steps. */
function sortedColumns(e: Encoding, level: Level): usize {
  const count = <isize>level.count;
  const order = take(e, <usize>count << 2);
  for (let i: isize = 0; i < count; i++) store<u32>(order + (<usize>i << 2), <u32>i);
  let gap: isize = 1;
  while (gap < count) gap = gap * 3 + 1;
  for (gap = gap / 3; gap > 0; gap = gap / 3) {
    for (let i = gap; i < count; i++) {
      const place = load<u32>(order + (<usize>i << 2));
      const tag = foundAt(level, place).tag;
      let at = i;
      for (; at >= gap; at -= gap) {
        const other = load<u32>(order + (<usize>(at - gap) << 2));
        if (foundAt(level, other).tag <= tag) break;
        store<u32>(order + (<usize>at << 2), other);
      }
      store<u32>(order + (<usize>at << 2), place);
    }
  }
  return order;
}

/** Writes a column and sets its form; gives the end, or 0 when there are too many fields. */
function writeColumn(e: Encoding, column: Found, rows: u32, o: usize): usize {
  const type = <u32>(column.tag & 7);
  let count = column.count;
  let values = column.values;
  const form = presenceOf(column, rows);
  column.form = form;
  if (form == presenceRuns) o = writeRuns(column, rows, o);
  if (type == typeMessage) return writeLevel(e, values, count, o);
  if (type == typeBytes) return writeBytes(e, column, o);
  if (form == presenceZeros) {
    // Nobody keeps it.
    const filled = (e.top + 7) & ~7;
    memory.fill(filled, 0, <usize>rows << 3);
    for (let i: usize = 0; i < <usize>count; i++) {
      const row = <usize>load<u16>(column.rows + (i << 1));
      store<u64>(filled + (row << 3), load<u64>(values + (i << 3)));
    }
    values = filled;
    count = rows;
  }
  if (type == typeDouble || type == typeFloat) {
    return writeValues(e.scratch, e.tables, values, <usize>count, o, o + 1);
  }
  memory.copy(e.scratch, values, <usize>count << 3);
  return writeStream(e, count, o);
}

function presenceOf(column: Found, rows: u32): u32 {
  if (column.count == rows) return presenceAll;
  const type = <u32>(column.tag & 7);
  if (type >= typeBytes || column.count * 2 < rows) return presenceRuns;
  if (runCount(column, rows) <= 4 + (rows >> 3)) return presenceRuns;
  const end = column.values + (<usize>column.count << 3);
  for (let p = column.values; p < end; p += 8) if (load<u64>(p) == 0) return presenceRuns;
  return presenceZeros;
}

/** How many runs of absent and present rows there are, the first of absent ones. */
function runCount(column: Found, rows: u32): u32 {
  let runs: u32 = 0;
  let next: u32 = u32.MAX_VALUE;
  const end = column.rows + (<usize>column.count << 1);
  for (let p = column.rows; p < end; p += 2) {
    const row = <u32>load<u16>(p);
    if (row != next) runs += 2;
    next = row + 1;
  }
  return next < rows ? runs + 1 : runs;
}

function writeRuns(column: Found, rows: u32, o: usize): usize {
  let next: u32 = 0;
  const end = column.rows + (<usize>column.count << 1);
  for (let p = column.rows; p < end; ) {
    const first = <u32>load<u16>(p);
    let past = first;
    for (; p < end && <u32>load<u16>(p) == past; p += 2) past++;
    o = writeVarint(o, <u64>(first - next));
    o = writeVarint(o, <u64>(past - first));
    next = past;
  }
  return next < rows ? writeVarint(o, <u64>(rows - next)) : o;
}

/** A dictionary of the column's byte strings, or each of them when most of them differ. */
function writeBytes(e: Encoding, column: Found, o: usize): usize {
  const count = column.count;
  const distinctMax = max<u32>(count >> 1, 1);
  // Nobody keeps these: cells (u32) with one more than a place, and the distinct strings (u64).
  let cells: u32 = 16;
  while (cells < distinctMax * 2) cells <<= 1;
  const table = (e.top + 7) & ~7;
  memory.fill(table, 0, <usize>cells << 2);
  const distinct = table + (<usize>cells << 2);
  let distinctCount: u32 = 0;
  for (let i: usize = 0; i < <usize>count; i++) {
    const value = load<u64>(column.values + (i << 3));
    let cell = hashOf(value) & (cells - 1);
    let place: u32 = 0;
    for (;;) {
      place = load<u32>(table + (<usize>cell << 2));
      if (place == 0 || areEqual(load<u64>(distinct + (<usize>(place - 1) << 3)), value)) break;
      cell = (cell + 1) & (cells - 1);
    }
    if (place == 0) {
      if (distinctCount == distinctMax) return writeEach(e, column, o);
      store<u64>(distinct + (<usize>distinctCount << 3), value);
      place = ++distinctCount;
      store<u32>(table + (<usize>cell << 2), place);
    }
    store<i64>(e.scratch + (i << 3), <i64>(place - 1));
  }
  o = writeVarint(o, <u64>distinctCount);
  for (let i: usize = 0; i < <usize>distinctCount; i++) {
    const value = load<u64>(distinct + (i << 3));
    o = writeVarint(o, value >> 32);
    o = copyBytes(value, o);
  }
  return distinctCount > 1 ? writeStream(e, count, o) : o;
}

function writeEach(e: Encoding, column: Found, o: usize): usize {
  column.form |= formEach;
  const end = column.values + (<usize>column.count << 3);
  for (let p = column.values; p < end; p += 8) {
    store<u64>(e.scratch + (p - column.values), load<u64>(p) >> 32);
  }
  o = writeStream(e, column.count, o);
  for (let p = column.values; p < end; p += 8) o = copyBytes(load<u64>(p), o);
  return o;
}

@inline
function copyBytes(value: u64, o: usize): usize {
  memory.copy(o, <usize>(value & 0xffffffff), <usize>(value >> 32));
  return o + <usize>(value >> 32);
}

function areEqual(a: u64, b: u64): bool {
  if (a >> 32 != b >> 32) return false;
  return memory.compare(<usize>(a & 0xffffffff), <usize>(b & 0xffffffff), <usize>(a >> 32)) == 0;
}

/** FNV-1a, with the upper bits over the lower ones. */
function hashOf(value: u64): u32 {
  const at = <usize>(value & 0xffffffff);
  const length = <usize>(value >> 32);
  let hash: u32 = <u32>length * 0x9e3779b1;
  const end = at + length;
  for (let p = at; p < end; p++) hash = (hash ^ <u32>load<u8>(p)) * 0x01000193;
  return hash ^ (hash >> 15);
}
