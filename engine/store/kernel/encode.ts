// Rows as chunks: with the version of each row where the memory keeps them, with start times where there are some.
import { kindFloat, kindFloatLags, kindFloatStarts, versionAt } from '../../codec/kernel/codec';
import { Desk, hasLags } from '../../codec/kernel/merge';
import { encodeChunk } from '../../codec/kernel/write';
import { encoderAt, state, tablesAt } from './memory/pages';

/**
 * Encodes the rows of a finished desk as chunks of even lengths up to a maximum; gives their end.
 */
export function encodeRows(desk: Desk, rowsMax: u32, out: usize): usize {
  const rowEnd = desk.rowCount;
  const chunkCount = (rowEnd + rowsMax - 1) / rowsMax;
  const rowsEach = chunkCount == 0 ? 0 : (rowEnd + chunkCount - 1) / chunkCount;
  for (let row: u32 = 0; row < rowEnd; row += rowsEach) {
    const place = <usize>row << 3;
    out = encodeRun(
      desk.times + place,
      desk.values + place,
      hasLags(desk) ? desk.lags + place : 0,
      desk.lagHighest,
      min(rowsEach, rowEnd - row),
      out,
      desk.starts == 0 ? 0 : desk.starts + place,
    );
  }
  return out;
}

/**
 * Encodes rows as one chunk: with the version of each row where the memory keeps them, else with
 * the highest one for all.
 * @param lags of the rows; 0 when all have `lag`
 * @param starts of the rows; 0 when none has one
 */
export function encodeRun(
  times: usize,
  values: usize,
  lags: usize,
  lag: i64,
  rows: u32,
  out: usize,
  starts: usize = 0,
): usize {
  if (starts != 0 && areZero(starts, rows)) starts = 0;
  if (!state().keepsRowVersions && starts == 0) {
    if (lags != 0) lag = lagOfHighestVersion(times, lags, rows);
    return encodeChunk(encoderAt, tablesAt, times, values, kindFloat, 0, lag, rows, out);
  }
  if (lags != 0) {
    let lowest = load<i64>(lags);
    lag = lowest;
    for (let p = lags + 8, end = lags + (<usize>rows << 3); p < end; p += 8) {
      lowest = min(lowest, load<i64>(p));
      lag = max(lag, load<i64>(p));
    }
    if (lowest == lag) lags = 0;
  }
  const kind = starts == 0 ? kindFloatLags : kindFloatStarts;
  return encodeChunk(encoderAt, tablesAt, times, values, kind, lags, lag, rows, out, starts);
}

function areZero(column: usize, rows: u32): bool {
  for (let p = column, end = column + (<usize>rows << 3); p < end; p += 8) {
    if (load<i64>(p) != 0) return false;
  }
  return true;
}

/**
 * The last row's lag with the highest version of all rows. While a batch is applied, a chunk of
 * older rows and such of the batch takes one less, so that a row of the batch that comes after
 * them still replaces an older one.
 */
function lagOfHighestVersion(times: usize, lags: usize, rows: u32): i64 {
  let lowest = i64.MAX_VALUE;
  let highest = i64.MIN_VALUE;
  let last: i64 = 0;
  for (let offset: usize = 0; offset < <usize>rows << 3; offset += 8) {
    last = versionAt(load<i64>(times + offset));
    const version = last + load<i64>(lags + offset);
    lowest = min(lowest, version);
    highest = max(highest, version);
  }
  const isOfBatch = highest == state().batchVersion && lowest < highest;
  return (isOfBatch ? highest - 1 : highest) - last;
}
