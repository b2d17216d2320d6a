// The batch kernel: columns of rows become a compact batch (docs/formats/batch.md) for the commit
// log. The plain twin is engine/batch/encoder_twin.ts with engine/batch/columns.ts.
//
//     slots u32 | generations u32 | times i64 | values f64 | the batch

import { encodeDelta32, encodeDelta64, encodeWhole } from './columns';

const ROWS_MAX: usize = 1 << 20;
const SLACK: usize = 0x10000;

const SLOTS: usize = 0x10000;
const GENERATIONS: usize = SLOTS + ROWS_MAX * 4 + SLACK;
const TIMES: usize = GENERATIONS + ROWS_MAX * 4 + SLACK;
const VALUES: usize = TIMES + ROWS_MAX * 8 + SLACK;
const BATCH: usize = VALUES + ROWS_MAX * 8 + SLACK;

export const slots: usize = SLOTS;
export const generations: usize = GENERATIONS;
export const times: usize = TIMES;
export const values: usize = VALUES;
export const batch: usize = BATCH;
/** Bytes of memory that the kernel needs. */
export const memoryBytes: usize = BATCH + ROWS_MAX * 24 + 2 * SLACK;

const MAGIC: u32 = 0x42445354;
const FORMAT_VERSION: u16 = 1;
const HEADER_BYTES: usize = 32;
const SECTION_ENTRY_BYTES: usize = 16;
const COLUMN_ENTRY_BYTES: usize = 16;
const COLUMN_COUNT: usize = 4;
const KIND_FLOAT_SAMPLES: u8 = 1;

const ID_SLOT: u8 = 1;
const ID_GENERATION: u8 = 2;
const ID_TIMESTAMP: u8 = 3;
const ID_VALUE: u8 = 4;

const ENCODING_RAW: u8 = 0;
const ENCODING_DELTA: u8 = 2;
const ENCODING_WHOLE: u8 = 3;

/**
 * Lays the rows of the columns out as a batch at `batch`; answers its length in bytes. At least one
 * row.
 */
export function encodeBatch(rowCount: u32, version: f64, timeExponent: u32, flags: u32): u32 {
  const directory = BATCH + HEADER_BYTES + SECTION_ENTRY_BYTES;
  let at = directory + COLUMN_COUNT * COLUMN_ENTRY_BYTES;
  const count = <usize>rowCount;
  let length = encodeDelta32(SLOTS, count, at);
  at = place(directory, ID_SLOT, ENCODING_DELTA, SLOTS, count * 4, at, length);
  length = encodeDelta32(GENERATIONS, count, at);
  at = place(directory + 16, ID_GENERATION, ENCODING_DELTA, GENERATIONS, count * 4, at, length);
  length = encodeDelta64(TIMES, count, at);
  at = place(directory + 32, ID_TIMESTAMP, ENCODING_DELTA, TIMES, count * 8, at, length);
  length = encodeWhole(VALUES, count, at);
  at = place(directory + 48, ID_VALUE, ENCODING_WHOLE, VALUES, count * 8, at, length);
  const section = BATCH + HEADER_BYTES;
  store<u8>(section, KIND_FLOAT_SAMPLES);
  store<u8>(section, <u8>timeExponent, 1);
  store<u16>(section, <u16>COLUMN_COUNT, 2);
  store<u32>(section, rowCount, 4);
  store<u32>(section, <u32>(directory - BATCH), 8);
  store<u32>(section, 0, 12);
  store<u32>(BATCH, MAGIC);
  store<u16>(BATCH, FORMAT_VERSION, 4);
  store<u16>(BATCH, 1, 6);
  store<u32>(BATCH, <u32>(at - BATCH), 8);
  store<u32>(BATCH, flags, 12);
  store<f64>(BATCH, version, 16);
  store<u64>(BATCH, 0, 24);
  return <u32>(at - BATCH);
}

/**
 * Notes a column that was encoded at `at`, or puts it there raw (length 0); answers where the next
 * one goes.
 */
function place(
  entry: usize,
  id: u8,
  encoding: u8,
  raw: usize,
  rawBytes: usize,
  at: usize,
  encodedBytes: usize,
): usize {
  const length = encodedBytes == 0 ? rawBytes : encodedBytes;
  if (encodedBytes == 0) memory.copy(at, raw, rawBytes);
  store<u8>(entry, id);
  store<u8>(entry, encodedBytes == 0 ? ENCODING_RAW : encoding, 1);
  store<u16>(entry, 0, 2);
  store<u32>(entry, <u32>(at - BATCH), 4);
  store<u32>(entry, <u32>length, 8);
  store<u32>(entry, 0, 12);
  // The gap up to the next multiple of eight is zero.
  store<u64>(at + length, 0);
  return (at + length + 7) & ~7;
}
