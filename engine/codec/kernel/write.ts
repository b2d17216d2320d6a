// Writes chunks (docs/formats/chunk.md, docs/formats/codec.md), byte for byte as codec_twin.ts and
// codec_integers.ts do, where the choices are explained.
import {
  kindFloat,
  kindRaw,
  kindRows,
  roundedMean,
  streamOfLags,
  streamOfVersions,
  unitNanosOf,
  versionAt,
  zigzag,
} from './codec';
import { writeIntegers, writeVarint } from './integers';
import { writeValues } from './values';

/**
 * Bytes that a chunk of so many rows may take, compressed or raw with versions, and written over.
 */
@inline
export function encodedBytesMax(rows: u32, hasStarts: bool = false): usize {
  return 256 + <usize>rows * (hasStarts ? 52 : 40);
}

/** Everything of a header but the length, at o. */
export function writeHeader(
  o: usize,
  kind: u32,
  unitCode: u32,
  rows: u32,
  firstNanos: i64,
  lastNanos: i64,
  lag: i64,
): usize {
  const unit = unitNanosOf(unitCode);
  store<u8>(o++, <u8>(kind | (unitCode << 4)));
  o = writeVarint(o, <u64>(rows - 1));
  const first = firstNanos / unit;
  o = writeVarint(o, zigzag(first));
  o = writeVarint(o, <u64>(lastNanos / unit - first));
  return writeVarint(o, zigzag(lag));
}

/** In the tag: rows have versions of their own. */
export const hasRowVersions: u32 = 64;
export const bodyOffset: usize = 4;

/** Puts the length before a body that was written at o + bodyOffset; gives the chunk's end. */
export function frame(o: usize, bodyEnd: usize): usize {
  const body = o + bodyOffset;
  const length = bodyEnd - body;
  const start = writeVarint(o, <u64>length);
  memory.copy(start, body, length);
  return start + length;
}

/** Header of a chunk whose rows have versions of their own. */
function writeRowsHeader(
  o: usize,
  kind: u32,
  rows: u32,
  firstNanos: i64,
  lastNanos: i64,
  version: i64,
): usize {
  let code: u32 = 3;
  while (
    code > 0 &&
    (firstNanos % unitNanosOf(code) != 0 || lastNanos % unitNanosOf(code) != 0)
  ) {
    code--;
  }
  return writeHeader(
    o,
    kind | hasRowVersions,
    code,
    rows,
    firstNanos,
    lastNanos,
    version - versionAt(lastNanos),
  );
}

/**
 * Copies rows in the form of rows.ts, with the version that the first is relative to before them,
 * as a chunk; gives its end.
 */
export function encodeRowsAsTheyAre(
  at: usize,
  length: usize,
  rows: u32,
  firstNanos: i64,
  lastNanos: i64,
  version: i64,
  out: usize,
): usize {
  const o = writeRowsHeader(out + bodyOffset, kindRows, rows, firstNanos, lastNanos, version);
  memory.copy(o, at, length);
  return frame(out, o + length);
}

/**
 * Writes rows as a raw chunk with their versions, none more than 2^32 - 1 below `version`. Gives its
 * end.
 */
export function encodeRaw(
  times: usize,
  values: usize,
  lags: usize,
  rows: u32,
  version: i64,
  out: usize,
): usize {
  const bytes = <usize>rows << 3;
  const first = load<i64>(times);
  const last = load<i64>(times + bytes - 8);
  let o = writeRowsHeader(out + bodyOffset, kindRaw, rows, first, last, version);
  memory.copy(o, times, bytes);
  memory.copy(o + bytes, values, bytes);
  o += bytes << 1;
  for (let i: usize = 0; i < <usize>rows; i++) {
    const rowVersion = load<i64>(lags + (i << 3)) + versionAt(load<i64>(times + (i << 3)));
    store<u32>(o, <u32>(version - rowVersion));
    o += 4;
  }
  return frame(out, o);
}

/**
 * Writes 1 to `encodeRowsMax` rows in strictly ascending time as a compressed chunk; gives its end.
 * @param scratch `encoderScratchBytes`
 * @param kind float: all rows have one version; float lags; float starts
 * @param lags of the rows; 0 when all have the same
 * @param lag of all rows, or the highest one; of kind float that of the last row
 * @param out `encodedBytesMax(rows)` free
 * @param starts of the rows, of kind float starts
 */
export function encodeChunk(
  scratch: usize,
  tables: usize,
  times: usize,
  values: usize,
  kind: u32,
  lags: usize,
  lag: i64,
  rows: u32,
  out: usize,
  starts: usize = 0,
): usize {
  const lastNanos = load<i64>(times + ((<usize>rows - 1) << 3));
  const firstNanos = load<i64>(times);
  const isRegular = stepsAreEqual(times, rows);
  const unitCode = timeUnitCode(times, isRegular ? min<u32>(rows, 2) : rows);
  const unit = unitNanosOf(unitCode);
  const body = out + bodyOffset;
  const tag = lags == 0 ? kind : kind | hasRowVersions;
  const control = writeHeader(body, tag, unitCode, rows, firstNanos, lastNanos, lag);
  let o = control + 1;
  if (!isRegular) o = writeTimes(scratch, tables, times, rows, unit, o);
  o = writeValues(scratch, tables, values, <usize>rows, control, o);
  if (!isRegular) store<u8>(control, load<u8>(control) | 128);
  if (lags != 0) o = writeLags(scratch, tables, times, lags, lag, rows, o);
  if (starts != 0) o = writeStarts(scratch, tables, times, starts, rows, o);
  return frame(out, o);
}

/** Times that are not regular. */
export function writeTimes(
  scratch: usize,
  tables: usize,
  times: usize,
  rows: u32,
  unit: i64,
  o: usize,
): usize {
  for (let i: usize = 0; i < <usize>rows << 3; i += 8) {
    store<i64>(scratch + i, load<i64>(times + i) / unit);
  }
  const span = load<i64>(scratch + ((<usize>rows - 1) << 3)) - load<i64>(scratch);
  const step = roundedMean(span, <i64>rows - 1);
  return writeIntegers(scratch, tables, <usize>rows, step, o);
}

/** Lags that differ, of which `lag` is the highest. */
export function writeLags(
  scratch: usize,
  tables: usize,
  times: usize,
  lags: usize,
  lag: i64,
  rows: u32,
  o: usize,
): usize {
  const form = fillLagStream(scratch, times, lags, rows);
  store<u8>(o, <u8>form);
  o = writeVarint(o + 1, zigzag(lag - load<i64>(lags)));
  return writeIntegers(scratch, tables, <usize>rows, 0, o);
}

/** Start times (int64 nanoseconds), or how far they are from times: whichever change less often. */
export function writeStarts(
  scratch: usize,
  tables: usize,
  times: usize,
  starts: usize,
  rows: u32,
  o: usize,
): usize {
  let startChanges: u32 = 0;
  let distanceChanges: u32 = 0;
  let before: i64 = 0;
  for (let offset: usize = 0; offset < <usize>rows << 3; offset += 8) {
    const distance = load<i64>(starts + offset) - load<i64>(times + offset);
    store<i64>(scratch + offset, distance);
    if (offset != 0) {
      if (distance != before) distanceChanges++;
      if (load<i64>(starts + offset) != load<i64>(starts + offset - 8)) startChanges++;
    }
    before = distance;
  }
  const distance = load<i64>(scratch);
  const isOfStarts = startChanges <= distanceChanges;
  if (isOfStarts) memory.copy(scratch, starts, <usize>rows << 3);
  store<u8>(o, isOfStarts ? 0 : 1);
  o = writeVarint(o + 1, zigzag(distance));
  return rows > 1 ? writeIntegers(scratch, tables, <usize>rows, 0, o) : o;
}

/**
 * Fills lags, or the versions that they stand for, whichever change less often: lags of rows that
 * were written as they came about, versions of such that were written together.
 */
function fillLagStream(stream: usize, times: usize, lags: usize, rows: u32): u32 {
  let lagChanges: u32 = 0;
  let versionChanges: u32 = 0;
  let before: i64 = 0;
  for (let offset: usize = 0; offset < <usize>rows << 3; offset += 8) {
    const version = load<i64>(lags + offset) + versionAt(load<i64>(times + offset));
    store<i64>(stream + offset, version);
    if (offset != 0) {
      if (version != before) versionChanges++;
      if (load<i64>(lags + offset) != load<i64>(lags + offset - 8)) lagChanges++;
    }
    before = version;
  }
  if (versionChanges <= lagChanges) return streamOfVersions;
  memory.copy(stream, lags, <usize>rows << 3);
  return streamOfLags;
}

/** 0 ns, 1 µs, 2 ms, 3 s: the coarsest unit that all times are multiples of. */
export function timeUnitCode(times: usize, rows: u32): u32 {
  const end = times + (<usize>rows << 3);
  let code: u32 = 3;
  let unit = unitNanosOf(code);
  let inverse: f64 = 1 / <f64>unit;
  let before: i64 = 0;
  for (let p = times; p < end; p += 8) {
    const time = load<i64>(p);
    const step = time - before;
    before = time;
    // A step below 2^52 is a multiple when its rounded quotient gives it back.
    while (code > 0) {
      const isMultiple =
        step < 4503599627370496 && step >= 0
          ? <i64>nearest(<f64>step * inverse) * unit == step
          : step % unit == 0;
      if (isMultiple) break;
      code--;
      unit = unitNanosOf(code);
      inverse = 1 / <f64>unit;
    }
    if (code == 0) break;
  }
  return code;
}

export function stepsAreEqual(column: usize, rows: u32): bool {
  if (rows < 3) return true;
  const step = load<i64>(column, 8) - load<i64>(column);
  const steps = <usize>rows - 1;
  const paired = (steps & ~1) << 3;
  let differing = i64x2.splat(0);
  const first = i64x2.splat(step);
  for (let offset: usize = 0; offset < paired; offset += 16) {
    const pair = i64x2.sub(v128.load(column + offset, 8), v128.load(column + offset));
    differing = v128.or(differing, v128.xor(pair, first));
  }
  if (v128.any_true(differing)) return false;
  return !(steps & 1) || load<i64>(column + paired, 8) - load<i64>(column + paired) == step;
}
