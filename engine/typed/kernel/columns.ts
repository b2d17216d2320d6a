// Reads the columns of a typed chunk that are asked for, for who wants numbers and not values whole.
import { Chunk } from '../../codec/kernel/codec';
import { Column, Decoding, Group, readColumns, readTimes, TypedAnswer } from './decode';
import { doubleBitsOf, typeBits, typeFloat, typeInt, typeUint } from './fields';

/** What is told of a column: u64 tag; u32 parent (its place from 1 on, 0 for none), group, rows, rows and values. */
export const columnEntryBytes: usize = 32;
/** Of a group: f64 layout, u32 kind, rows, and where their places (u16) are. */
export const groupEntryBytes: usize = 24;

/** In an answer: how many rows, columns and groups there are, and whether rows have starts. */
@unmanaged
export class ColumnsAnswer {
  rowCount: u32;
  columnCount: u32;
  groupCount: u32;
  hasStarts: u32;
}

/**
 * Decodes times, lags, starts and the columns that are asked for; numbers of all types become float64s. False when the
 * chunk is malformed, as far as it was read.
 * @param asked as in `readColumns`
 * @param groups room for an entry for each row
 * @param columns room for an entry for each value that a chunk may have
 */
export function decodeColumns(
  chunk: Chunk,
  tables: usize,
  asked: usize,
  times: usize,
  lags: usize,
  starts: usize,
  work: usize,
  groups: usize,
  columns: usize,
  answer: ColumnsAnswer,
): bool {
  const typed = changetype<TypedAnswer>(work);
  if (!readTimes(chunk, tables, times, lags, starts, typed)) return false;
  answer.hasStarts = typed.hasStarts;
  answer.rowCount = chunk.rowCount;
  const d = changetype<Decoding>(work + 16);
  const first = readColumns(d, chunk, tables, asked, work + 16, false);
  if (first == 0) return false;
  answer.groupCount = d.groupCount;
  for (let i: usize = 0; i < <usize>d.groupCount; i++) {
    const group = changetype<Group>(d.groups + i * offsetof<Group>());
    const entry = groups + i * groupEntryBytes;
    store<f64>(entry, <f64>group.layout);
    store<u32>(entry, group.kind, 8);
    store<u32>(entry, group.rowCount, 12);
    store<u32>(entry, <u32>group.rows, 16);
  }
  let count: u32 = 0;
  for (let at = changetype<Column>(first).next; at != 0; count++) {
    const column = changetype<Column>(at);
    at = column.next;
    toFloats(column);
    const entry = columns + <usize>count * columnEntryBytes;
    store<u64>(entry, column.tag);
    // A parent stands before its columns, and was told where it is.
    const parent = column.parent == 0 ? 0 : changetype<Column>(column.parent).place;
    store<u32>(entry, parent, 8);
    store<u32>(entry, column.group, 12);
    store<u32>(entry, column.count, 16);
    store<u32>(entry, <u32>column.rows, 20);
    store<u32>(entry, <u32>column.values, 24);
    column.place = count + 1;
  }
  answer.columnCount = count;
  return true;
}

/** Numbers in place; where byte strings are stays. */
function toFloats(column: Column): void {
  const type = <u32>(column.tag & ((1 << typeBits) - 1));
  const end = column.values + (<usize>column.count << 3);
  if (type == typeInt) {
    for (let p = column.values; p < end; p += 8) store<f64>(p, <f64>load<i64>(p));
  } else if (type == typeUint) {
    for (let p = column.values; p < end; p += 8) store<f64>(p, <f64>load<u64>(p));
  } else if (type == typeFloat) {
    for (let p = column.values; p < end; p += 8) store<u64>(p, doubleBitsOf(load<u64>(p)));
  }
}
