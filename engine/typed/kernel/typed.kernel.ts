// Typed rows to chunks and back. All memory is the caller's: it lays out regions and passes their addresses. The
// facade is engine/typed/codec.ts, the twin chunk_twin.ts.
import { Chunk, kindsAll, kindTyped, readHeader } from '../../codec/kernel/codec';
import { encoderScratchBytes } from '../../codec/kernel/scratch';
import { typedColumnValuesMax, typedRowsMax } from '../../codec/layout';
import { placed } from './fields';
import {
  columnEntryBytes,
  ColumnsAnswer,
  decodeColumns as decodeTypedColumns,
  groupEntryBytes,
} from './columns';
import { decodeTyped, TypedAnswer, typedDecodeBytes } from './decode';
import { encodeTyped, typedChunkBytesMax, typedEncodeBytes } from './encode';

export { chunkStructBytes } from '../../codec/kernel/codec';

/** Work space to write so many rows with so many fields in all. */
export function encodeBytes(rows: u32, fields: u32): usize {
  return (<usize>rows << 3) + typedEncodeBytes(rows, fields);
}

/** Work space to read a chunk. */
export function decodeBytes(): usize {
  return (<usize>typedRowsMax << 3) + typedDecodeBytes;
}

/** Of the region `scratch`. */
export function scratchBytes(): usize {
  return encoderScratchBytes;
}

/** Room for a chunk of so many rows, fields, and bytes of values. */
export function roomBytes(rows: u32, fields: u32, bytes: usize): usize {
  return typedChunkBytesMax(rows, fields, bytes);
}

/**
 * Writes rows in strictly ascending time as a chunk; gives its end, or 0 when they have more fields than was said.
 * Columns: i64 times and lags (1/64 milliseconds from time to version), i64 starts or address 0 for none, u32 ends of
 * the values, which lie one after the other at `bytes`.
 * @param work `encodeBytes`
 * @param out `roomBytes`
 */
export function encode(
  scratch: usize,
  tables: usize,
  times: usize,
  lags: usize,
  starts: usize,
  ends: usize,
  bytes: usize,
  rows: u32,
  fields: u32,
  work: usize,
  out: usize,
): usize {
  let start = bytes;
  for (let row: usize = 0; row < <usize>rows; row++) {
    const end = bytes + <usize>load<u32>(ends + (row << 2));
    store<u64>(work + (row << 3), placed(start, end - start));
    start = end;
  }
  const free = work + (<usize>rows << 3);
  return encodeTyped(scratch, tables, times, lags, starts, work, rows, fields, free, out);
}

/**
 * Reads the chunk in [at, end), after which 64 bytes may be looked at, into such columns. Gives how many rows there
 * are, or -1 when it is malformed. Two u32 at `answers`: bytes of the values, and whether rows have starts.
 * @param struct `chunkStructBytes`
 * @param work `decodeBytes`
 */
export function decode(
  struct: usize,
  tables: usize,
  at: usize,
  end: usize,
  times: usize,
  lags: usize,
  starts: usize,
  ends: usize,
  bytes: usize,
  work: usize,
  answers: usize,
): i32 {
  const chunk = changetype<Chunk>(struct);
  if (!readHeader(chunk, at, end, kindsAll) || chunk.kind != kindTyped) return -1;
  if (chunk.end != end) return -1;
  const answer = changetype<TypedAnswer>(answers);
  const free = work + (<usize>typedRowsMax << 3);
  if (!decodeTyped(chunk, tables, times, lags, starts, work, bytes, free, answer)) return -1;
  let valueEnd: u32 = 0;
  for (let row: usize = 0; row < <usize>chunk.rowCount; row++) {
    valueEnd += <u32>(load<u64>(work + (row << 3)) >> 32);
    store<u32>(ends + (row << 2), valueEnd);
  }
  return <i32>chunk.rowCount;
}

/** Room for what is told of groups, and of columns, of a chunk. */
export function groupsBytes(): usize {
  return <usize>typedRowsMax * groupEntryBytes;
}
export function columnsBytes(): usize {
  return <usize>typedColumnValuesMax * columnEntryBytes;
}

/**
 * Reads columns of the chunk in [at, end), after which 64 bytes may be looked at: those that are asked for, at `asked` a
 * u64 count and pairs of u64, number of a field and address of what is asked for of it, 1 for all of it; 1 for everything.
 * Gives 1, or 0 when it is malformed. Four u32 at `answers`: rows, columns, groups, and whether rows have starts. Entries
 * of 24 bytes at `groups` (f64 layout, u32 kind, rows, address of their places, u16), of 32 bytes at `columns` (u64 tag;
 * u32 place of its parent from 1 on or 0, group, rows, addresses of their places, u16, and of values: f64, of byte strings
 * their addresses and lengths, u32). They hold until the work space is used again.
 * @param work `decodeBytes`
 */
export function decodeColumns(
  struct: usize,
  tables: usize,
  at: usize,
  end: usize,
  asked: usize,
  times: usize,
  lags: usize,
  starts: usize,
  work: usize,
  groups: usize,
  columns: usize,
  answers: usize,
): bool {
  const chunk = changetype<Chunk>(struct);
  if (!readHeader(chunk, at, end, kindsAll) || chunk.kind != kindTyped) return false;
  if (chunk.end != end) return false;
  const answer = changetype<ColumnsAnswer>(answers);
  return decodeTypedColumns(
    chunk,
    tables,
    asked,
    times,
    lags,
    starts,
    work,
    groups,
    columns,
    answer,
  );
}
