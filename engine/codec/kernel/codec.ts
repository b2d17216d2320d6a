// Reads chunks (docs/formats/chunk.md, docs/formats/codec.md). chunk.ts and codec_twin.ts say the
// same at leisure; codec_fuzz.ts holds both equal. Bytes come from outside: every length is
// checked, and loads may touch up to 64 bytes after the end of the chunk, so each region of chunks
// has that much slack.
import {
  bookCount,
  bookSymbolCount,
  chunkRowsMax as layoutRowsMax,
  codeBitsMax,
  kindFloat as layoutFloat,
  kindFloatLags as layoutFloatLags,
  kindFloatStarts as layoutFloatStarts,
  kindRawFloat as layoutRawFloat,
  kindRows as layoutRows,
  kindTyped as layoutTyped,
  kindsAll as layoutKindsAll,
  kindsFloat as layoutKindsFloat,
  tableEntryBytes,
} from '../layout';
import {
  firstDelta,
  floorDiv,
  readRows,
  rowBytesMin,
  RowsFound,
  rowsFoundBytes,
  versionAt,
} from './rows';

export { floorDiv, versionAt };

/**
 * A chunk's header as read, and the reader's place in the payload. Lives in memory of the caller.
 */
@unmanaged
export class Chunk {
  firstNanos: i64;
  lastNanos: i64;
  /** Highest of the rows, or one that none of them is above. */
  version: i64;
  /** In time units. */
  first: i64;
  span: u64;
  unitNanos: i64;
  rowCount: u32;
  kind: u32;
  /** 1: rows have versions of their own, as lags that decoding fills. */
  hasRowVersions: u32;
  cursor: usize;
  end: usize;
  /** 1 once something was malformed; reads give 0 from then on. */
  failed: u32;
}
const chunkFieldsBytes: usize = 72;
/** Of a `Chunk` and what reading its rows finds. */
export const chunkStructBytes: usize = chunkFieldsBytes + rowsFoundBytes;

export const kindRaw: u32 = layoutRawFloat;
export const kindFloat: u32 = layoutFloat;
export const kindRows: u32 = layoutRows;
export const kindFloatLags: u32 = layoutFloatLags;
export const kindTyped: u32 = layoutTyped;
export const kindFloatStarts: u32 = layoutFloatStarts;
export const kindsFloat: u32 = layoutKindsFloat;
export const kindsAll: u32 = layoutKindsAll;
/** In front of the rows: the version that the first one is relative to. */
const rowsHeaderBytes: usize = 8;
export const chunkRowsMax: u32 = layoutRowsMax;
/** Decoding writes up to this many bytes after the last row of a column. */
export const columnSlackBytes: usize = 64;

/** As in lib/hybrid_clock.ts. */
export const versionMax: i64 = 9007199254740991;
// Places in the tables of engine/codec/books.ts.
export const bookLengthsOffset: usize = (bookCount * tableEntryBytes) << codeBitsMax;
export const bookCodesOffset: usize = bookLengthsOffset + bookCount * bookSymbolCount;

export const modeDecimal: u32 = 0;
export const modeBits: u32 = 1;
export const modeRaw: u32 = 2;
export const formLinear: u32 = 0;
export const formSparse: u32 = 1;
export const formPacked: u32 = 2;
export const formPackedWithLowBits: u32 = 3;

@inline
export function zigzag(value: i64): u64 {
  return <u64>((value << 1) ^ (value >> 63));
}

@inline
export function unzigzag(code: u64): i64 {
  return <i64>(code >> 1) ^ -<i64>(code & 1);
}

/** 10^exponent for 0 to 15, exactly. */
@inline
export function powerOfTen(exponent: u32): f64 {
  let power: u64 = 1;
  for (let i: u32 = 0; i < exponent; i++) power *= 10;
  return <f64>power;
}

export function unitNanosOf(code: u32): i64 {
  return code == 0 ? 1 : code == 1 ? 1000 : code == 2 ? 1000000 : 1000000000;
}

/** Span by steps to the nearest, halves away from zero. */
export function roundedMean(span: i64, steps: i64): i64 {
  const mean = span / steps;
  const rest = span % steps;
  if (rest < 0) return -rest * 2 >= steps ? mean - 1 : mean;
  return rest * 2 >= steps ? mean + 1 : mean;
}

export function fail(chunk: Chunk): void {
  chunk.failed = 1;
  chunk.cursor = chunk.end;
}

export function readByte(chunk: Chunk): u32 {
  const p = chunk.cursor;
  if (p >= chunk.end) {
    fail(chunk);
    return 0;
  }
  chunk.cursor = p + 1;
  return <u32>load<u8>(p);
}

export function readVarint(chunk: Chunk): u64 {
  let p = chunk.cursor;
  const end = chunk.end;
  let value: u64 = 0;
  for (let shift: u64 = 0; shift < 70 && p < end; shift += 7) {
    const byte = <u64>load<u8>(p++);
    if (shift == 63 && byte > 1) break;
    value |= (byte & 127) << shift;
    if (byte < 128) {
      chunk.cursor = p;
      return value;
    }
  }
  fail(chunk);
  return 0;
}

/**
 * Reads the header at p. False when it is malformed, or of a kind that the caller does not know; true leaves the
 * cursor at the payload.
 */
export function readHeader(
  chunk: Chunk,
  p: usize,
  end: usize,
  kinds: u32 = kindsFloat,
): bool {
  chunk.cursor = p;
  chunk.end = end;
  chunk.failed = 0;
  const length = readVarint(chunk);
  if (length > <u64>(chunk.end - chunk.cursor)) return false;
  chunk.end = chunk.cursor + <usize>length;
  const tag = readByte(chunk);
  const kind = tag & 15;
  chunk.kind = kind;
  chunk.hasRowVersions = (tag >> 6) & 1;
  if (tag & 128 || !((kinds >> kind) & 1)) return false;
  if (chunk.hasRowVersions ? kind == kindFloat : kind == kindRows) return false;
  const unit = unitNanosOf((tag >> 4) & 3);
  chunk.unitNanos = unit;
  const rowCountLess = readVarint(chunk);
  if (rowCountLess >= <u64>chunkRowsMax) return false;
  chunk.rowCount = <u32>rowCountLess + 1;
  const first = unzigzag(readVarint(chunk));
  const span = readVarint(chunk);
  const unitsMax = i64.MAX_VALUE / unit;
  if (first < i64.MIN_VALUE / unit || first > unitsMax) return false;
  if (span > <u64>unitsMax - <u64>first) return false;
  if ((chunk.rowCount == 1) != (span == 0)) return false;
  if (kind >= kindFloatLags && chunk.hasRowVersions && chunk.rowCount == 1) return false;
  chunk.first = first;
  chunk.span = span;
  chunk.firstNanos = first * unit;
  chunk.lastNanos = (first + <i64>span) * unit;
  const lag = unzigzag(readVarint(chunk));
  const reference = versionAt(chunk.lastNanos);
  if (lag < -reference || lag > versionMax - reference) return false;
  chunk.version = lag + reference;
  if (kind >= kindFloatLags && !chunk.hasRowVersions && lag < -versionAt(chunk.firstNanos)) {
    return false;
  }
  if (chunk.failed) return false;
  if (kind == kindRaw) {
    const rowBytes: u32 = chunk.hasRowVersions ? 20 : 16;
    if (chunk.end - chunk.cursor != <usize>(chunk.rowCount * rowBytes)) return false;
  } else if (kind == kindRows) {
    const bytesMin = rowsHeaderBytes + <usize>chunk.rowCount * rowBytesMin;
    if (chunk.end - chunk.cursor < bytesMin) return false;
  }
  return true;
}

/**
 * Decodes the rows after a header: int64 nanoseconds and float64 values, `rowCount` each; after
 * all columns `columnSlackBytes` may be overwritten. False when the payload is malformed.
 * @param lags int64s of the rows, filled when they have lags of their own
 * @param starts the same, filled when they have start times
 */
export function decodeChunk(
  chunk: Chunk,
  tables: usize,
  times: usize,
  values: usize,
  lags: usize,
  starts: usize,
): bool {
  if (chunk.kind == kindRaw) return decodeRaw(chunk, times, values, lags);
  if (chunk.kind == kindRows) return decodeRows(chunk, times, values, lags);
  const control = readByte(chunk);
  if (!decodeTimes(chunk, tables, times, (control & 128) != 0)) return false;
  decodeValues(chunk, tables, values, control);
  if (chunk.hasRowVersions && !chunk.failed) decodeLags(chunk, tables, times, lags);
  if (chunk.kind == kindFloatStarts && !chunk.failed) decodeStarts(chunk, tables, times, starts);
  return !chunk.failed && chunk.cursor == chunk.end;
}

const streamOfStarts: u32 = 0;
const streamOfDistances: u32 = 1;

/** Start times of a chunk's rows, of which the times are known; int64 nanoseconds. */
export function decodeStarts(chunk: Chunk, tables: usize, times: usize, starts: usize): void {
  const form = readByte(chunk);
  if (form > streamOfDistances) return fail(chunk);
  const isOfStarts = form == streamOfStarts;
  const distance = unzigzag(readVarint(chunk));
  const first = isOfStarts ? chunk.firstNanos + distance : distance;
  if (chunk.rowCount > 1) readIntegers(chunk, tables, starts, chunk.rowCount, first, 0);
  else store<i64>(starts, first);
  if (chunk.failed || isOfStarts) return;
  for (let offset: usize = 0; offset < <usize>chunk.rowCount << 3; offset += 8) {
    store<i64>(starts + offset, load<i64>(starts + offset) + load<i64>(times + offset));
  }
}

/** Lowest and highest lag of a chunk that was decoded and has lags of its rows. */
export function lagsFoundOf(chunk: Chunk): RowsFound {
  return changetype<RowsFound>(changetype<usize>(chunk) + chunkFieldsBytes);
}

function decodeRaw(chunk: Chunk, times: usize, values: usize, lags: usize): bool {
  const rows = <usize>chunk.rowCount;
  const payload = chunk.cursor;
  memory.copy(times, payload, rows << 3);
  memory.copy(values, payload + (rows << 3), rows << 3);
  if (!timesAgree(chunk, times)) return false;
  if (!chunk.hasRowVersions) return true;
  const below = payload + (rows << 4);
  for (let i: usize = 0; i < rows; i++) {
    const rowVersion = chunk.version - <i64>load<u32>(below + (i << 2));
    if (rowVersion < 0) return false;
    store<i64>(lags + (i << 3), rowVersion - versionAt(load<i64>(times + (i << 3))));
  }
  findLags(chunk, lags);
  return true;
}

function decodeRows(chunk: Chunk, times: usize, values: usize, lags: usize): bool {
  const p = chunk.cursor + rowsHeaderBytes;
  const end = readRows(
    p,
    chunk.end,
    chunk.rowCount,
    chunk.firstNanos - firstDelta(p),
    load<i64>(chunk.cursor),
    chunk.version,
    times,
    values,
    lags,
    lagsFoundOf(chunk),
  );
  return end == chunk.end && timesAgree(chunk, times);
}

export const streamOfLags: u32 = 0;
export const streamOfVersions: u32 = 1;

/** Lags of a compressed chunk: the first one, and a stream of them or of the versions. */
export function decodeLags(chunk: Chunk, tables: usize, times: usize, lags: usize): void {
  const form = readByte(chunk);
  if (form > streamOfVersions) return fail(chunk);
  const isOfVersions = form == streamOfVersions;
  const lag = lagOfLast(chunk);
  const first = lag - unzigzag(readVarint(chunk));
  const base = isOfVersions ? versionAt(chunk.firstNanos) : 0;
  readIntegers(chunk, tables, lags, chunk.rowCount, base + first, 0);
  if (chunk.failed) return;
  for (let offset: usize = 0; offset < <usize>chunk.rowCount << 3; offset += 8) {
    const atTime = versionAt(load<i64>(times + offset));
    if (isOfVersions) store<i64>(lags + offset, load<i64>(lags + offset) - atTime);
    if (load<i64>(lags + offset) < -atTime) return fail(chunk);
  }
  findLags(chunk, lags);
  if (lagsFoundOf(chunk).lagHighest != lag) fail(chunk);
}

/** Rows of the chunk have one lag, unless each has its own. */
@inline
export function hasLagsOfRows(chunk: Chunk): bool {
  return chunk.kind == kindFloatLags || chunk.kind == kindFloatStarts;
}

/**
 * The lag that the last row would have with the chunk's version: of kind float lags that of all
 * rows, or the highest one.
 */
export function lagOfLast(chunk: Chunk): i64 {
  return chunk.version - versionAt(chunk.lastNanos);
}

function findLags(chunk: Chunk, lags: usize): void {
  const found = lagsFoundOf(chunk);
  let lowest = i64.MAX_VALUE;
  let highest = i64.MIN_VALUE;
  for (let p = lags, end = lags + (<usize>chunk.rowCount << 3); p < end; p += 8) {
    const lag = load<i64>(p);
    lowest = min(lowest, lag);
    highest = max(highest, lag);
  }
  found.lagLowest = lowest;
  found.lagHighest = highest;
}

/** Ascending, and as the header says. */
function timesAgree(chunk: Chunk, times: usize): bool {
  const last = times + ((<usize>chunk.rowCount - 1) << 3);
  if (load<i64>(times) != chunk.firstNanos || load<i64>(last) != chunk.lastNanos) return false;
  let ascending = true;
  for (let p = times; p < last; p += 8) {
    ascending = ascending && load<i64>(p, 8) > load<i64>(p);
  }
  return ascending;
}

export function decodeTimes(chunk: Chunk, tables: usize, times: usize, isIrregular: bool): bool {
  const rows = chunk.rowCount;
  const unit = chunk.unitNanos;
  if (!isIrregular) {
    const steps = rows > 1 ? <u64>rows - 1 : 1;
    if (chunk.span % steps != 0) return false;
    fillLinear(times, rows, chunk.firstNanos, <i64>(chunk.span / steps) * unit);
    return true;
  }
  if (rows < 3) return false;
  const step = roundedMean(<i64>chunk.span, <i64>rows - 1);
  readIntegers(chunk, tables, times, rows, chunk.first, step);
  if (chunk.failed) return false;
  if (unit != 1) {
    const end = times + (<usize>rows << 3);
    for (let p = times; p < end; p += 8) store<i64>(p, load<i64>(p) * unit);
  }
  return timesAgree(chunk, times);
}

/** first, first + step, …; one row more than asked may be written. */
function fillLinear(out: usize, rows: u32, first: i64, step: i64): void {
  const end = out + (<usize>rows << 3);
  let pair = i64x2.replace_lane(i64x2.splat(first), 1, first + step);
  const stride = i64x2.splat(step << 1);
  for (let p = out; p < end; p += 16) {
    v128.store(p, pair);
    pair = i64x2.add(pair, stride);
  }
}

export function decodeValues(chunk: Chunk, tables: usize, values: usize, control: u32): void {
  const rows = chunk.rowCount;
  const exponent = control & 15;
  const mode = (control >> 4) & 3;
  const hasExceptions = (control & 64) != 0;
  if ((mode != modeDecimal && exponent != 0) || mode > modeRaw) return fail(chunk);
  if (mode == modeRaw) {
    if (hasExceptions || chunk.end - chunk.cursor < <usize>rows << 3) return fail(chunk);
    memory.copy(values, chunk.cursor, <usize>rows << 3);
    chunk.cursor += <usize>rows << 3;
    return;
  }
  const first = unzigzag(readVarint(chunk));
  if (rows > 1) readIntegers(chunk, tables, values, rows, first, 0);
  else store<i64>(values, first);
  if (chunk.failed) return;
  const end = values + (<usize>rows << 3);
  if (mode == modeBits) {
    for (let p = values; p < end; p += 8) {
      const ordered = load<i64>(p);
      store<i64>(p, ordered ^ ((ordered >> 63) & i64.MAX_VALUE));
    }
  } else {
    fillDecimals(values, end, exponent);
  }
  if (hasExceptions) decodeExceptions(chunk, values);
}

/** Integers to floats in place: divided by 10^exponent. One row after the end may be written. */
function fillDecimals(values: usize, end: usize, exponent: u32): void {
  if (exponent == 0) {
    for (let p = values; p < end; p += 8) store<f64>(p, <f64>load<i64>(p));
    return;
  }
  const power = f64x2.splat(powerOfTen(exponent));
  for (let p = values; p < end; p += 16) {
    const pair = f64x2.replace_lane(f64x2.splat(<f64>load<i64>(p)), 1, <f64>load<i64>(p, 8));
    v128.store(p, f64x2.div(pair, power));
  }
}

function decodeExceptions(chunk: Chunk, values: usize): void {
  const rows = <u64>chunk.rowCount;
  const count = readVarint(chunk);
  if (count == 0 || count > rows) return fail(chunk);
  let rowNext: u64 = 0;
  for (let i: u64 = 0; i < count; i++) {
    const gap = readVarint(chunk);
    if (chunk.failed || gap >= rows - rowNext || chunk.end - chunk.cursor < 8) return fail(chunk);
    const row = rowNext + gap;
    store<u64>(values + (<usize>row << 3), load<u64>(chunk.cursor));
    chunk.cursor += 8;
    rowNext = row + 1;
  }
}

/** Reads an integer stream of at least two rows, of which the first is known, into int64s. */
export function readIntegers(
  chunk: Chunk,
  tables: usize,
  out: usize,
  rows: u32,
  first: i64,
  stepExpected: i64,
): void {
  const tag = readByte(chunk);
  const isLine = (tag & 16) != 0;
  const form = (tag >> 5) & 3;
  if ((form < formPacked && (tag & 15) != 0) || (form == formLinear && isLine)) return fail(chunk);
  const factor: i64 = tag & 128 ? <i64>readVarint(chunk) : 1;
  const step = unzigzag(readVarint(chunk)) + (tag & 128 ? 0 : stepExpected);
  const center = isLine ? unzigzag(readVarint(chunk)) : 0;
  if (chunk.failed) return;
  if (form == formLinear) return fillLinear(out, rows, first, step * factor);
  store<i64>(out, first);
  if (form == formSparse) {
    readSparse(chunk, out + 8, rows - 1, isLine);
    if (!chunk.failed) addLine(out + 8, rows - 1, first + center * factor, step * factor, factor);
    return;
  }
  const lowBits = form == formPackedWithLowBits ? readByte(chunk) : 0;
  if (lowBits > 63 || (form == formPackedWithLowBits && lowBits == 0)) return fail(chunk);
  const low = chunk.cursor;
  const lowBytes = <usize>(((rows - 1) * lowBits + 7) >> 3);
  if (lowBytes > chunk.end - chunk.cursor) return fail(chunk);
  chunk.cursor += lowBytes;
  const book = tag & 15;
  if (!isLine && lowBits == 0 && factor == 1) {
    // The most frequent stream: running sums from the first integer on are nearly it.
    readSymbols(chunk, tables, book, out + 8, rows - 1, first, true);
    if (!chunk.failed) addLine(out + 8, rows - 1, 0, step, 1);
    return;
  }
  if (isLine) readSymbols(chunk, tables, book, out + 8, rows - 1, 0, false);
  else readSymbols(chunk, tables, book, out + 8, rows - 1, 0, true);
  if (chunk.failed) return;
  if (lowBits != 0) addLowBits(out + 8, rows - 1, low, <u64>lowBits, isLine);
  addLine(out + 8, rows - 1, first + center * factor, step * factor, factor);
}

/**
 * Turns offsets from a line into what they stand for: base + (row + 1) * step + offset * factor.
 */
function addLine(out: usize, count: u32, base: i64, step: i64, factor: i64): void {
  const end = out + (<usize>count << 3);
  if (factor != 1) {
    for (let p = out; p < end; p += 8) {
      base += step;
      store<i64>(p, base + load<i64>(p) * factor);
    }
    return;
  }
  if (base == 0 && step == 0) return;
  let pair = i64x2.replace_lane(i64x2.splat(base + step), 1, base + (step << 1));
  const stride = i64x2.splat(step << 1);
  for (let p = out; p < end; p += 16) {
    v128.store(p, i64x2.add(v128.load(p), pair));
    pair = i64x2.add(pair, stride);
  }
}

/** Puts the low bits under the residuals (line) or under their running sums. */
function addLowBits(out: usize, count: u32, low: usize, lowBits: u64, isLine: bool): void {
  const end = out + (<usize>count << 3);
  const mask: u64 = (1 << lowBits) - 1;
  let bit: u64 = 0;
  let sum: u64 = 0;
  for (let p = out; p < end; p += 8) {
    const at = low + <usize>(bit >> 3);
    const skip = bit & 7;
    let bits = load<u64>(at) >> skip;
    // The shift by 64 that skip 0 would need is never reached: 64 bits hold 63.
    if (lowBits + skip > 64) bits |= load<u64>(at, 8) << (64 - skip);
    bits &= mask;
    sum = isLine ? bits : sum + bits;
    store<u64>(p, (load<u64>(p) << lowBits) + sum);
    bit += lowBits;
  }
}

/**
 * Residuals that are not zero, with gaps; gives running sums unless the residuals are from a line.
 */
function readSparse(chunk: Chunk, out: usize, count: u32, isLine: bool): void {
  memory.fill(out, 0, <usize>count << 3);
  const nonZeroCount = readVarint(chunk);
  if (nonZeroCount > <u64>count) return fail(chunk);
  let rowNext: u64 = 0;
  for (let i: u64 = 0; i < nonZeroCount; i++) {
    const gap = readVarint(chunk);
    if (gap >= <u64>count - rowNext) return fail(chunk);
    const row = rowNext + gap;
    store<i64>(out + (<usize>row << 3), unzigzag(readVarint(chunk)));
    if (chunk.failed) return;
    rowNext = row + 1;
  }
  if (isLine) return;
  const end = out + (<usize>count << 3);
  let sum: i64 = 0;
  for (let p = out; p < end; p += 8) {
    sum += load<i64>(p);
    store<i64>(p, sum);
  }
}

/** Zigzag code written out after an escape at the bit; `escapeBits` says how long it was. */
@inline
function escapedCode(p: usize, bit: u64): u64 {
  const window = load<u64>(p + <usize>(bit >> 3)) >> (bit & 7);
  const overBits = (window & 63) + 1;
  const from = bit + 6;
  const at = p + <usize>(from >> 3);
  const skip = from & 7;
  let over = load<u64>(at) >> skip;
  if (overBits + skip > 64) over |= load<u64>(at, 8) << (64 - skip);
  if (overBits < 64) over &= (1 << overBits) - 1;
  return over + 15;
}

@inline
function escapeBits(p: usize, bit: u64): u64 {
  return 7 + ((load<u64>(p + <usize>(bit >> 3)) >> (bit & 7)) & 63);
}

/** Stores the residuals of a table's entry, or their sums with what went before: eight rows. */
@inline
function storeEntry(o: usize, entry: usize, sum: i64, isSum: bool): void {
  let bytes = v128.load64_zero(entry);
  if (!isSum) bytes = i8x16.sub(bytes, i64x2.shl(bytes, 8));
  const words = i16x8.extend_low_i8x16_s(bytes);
  const low = i32x4.extend_low_i16x8_s(words);
  const high = i32x4.extend_high_i16x8_s(words);
  const base = i64x2.splat(sum);
  v128.store(o, i64x2.add(base, i64x2.extend_low_i32x4_s(low)));
  v128.store(o, i64x2.add(base, i64x2.extend_high_i32x4_s(low)), 16);
  v128.store(o, i64x2.add(base, i64x2.extend_low_i32x4_s(high)), 32);
  v128.store(o, i64x2.add(base, i64x2.extend_high_i32x4_s(high)), 48);
}

/** Reads Huffman symbols; with isSum as running sums of their residuals from `sum` on. */
@inline
function readSymbols(
  chunk: Chunk,
  tables: usize,
  book: u32,
  out: usize,
  count: u32,
  sum: i64,
  isSum: bool,
): void {
  const table = tables + (<usize>book << 15);
  const p = chunk.cursor;
  const bitEnd = <u64>(chunk.end - chunk.cursor) << 3;
  const end = out + (<usize>count << 3);
  let bit: u64 = 0;
  let o = out;
  // One load of 57 bits or more serves three looks into the table, up to eight rows each. While
  // enough rows are left no bits after the last symbol are taken for more.
  while (o + 192 <= end) {
    let window = load<u64>(p + <usize>(bit >> 3)) >> (bit & 7);
    let info: u32 = 0;
    for (let look = 0; look < 3; look++) {
      const entry = table + (<usize>(window & 2047) << 4);
      storeEntry(o, entry, sum, isSum);
      info = load<u32>(entry, 8);
      const bits = <u64>((info >> 8) & 255);
      window >>= bits;
      bit += bits;
      o += <usize>(info & 255) << 3;
      if (isSum) sum += <i64>(<i32>info >> 24);
      if (info & 0x10000) break;
    }
    if (info & 0x10000) {
      const residual = unzigzag(escapedCode(p, bit));
      bit += escapeBits(p, bit);
      if (isSum) sum += residual;
      store<i64>(o, isSum ? sum : residual);
      o += 8;
    }
    if (bit > bitEnd) return fail(chunk);
  }
  while (o + 64 <= end) {
    const window = load<u64>(p + <usize>(bit >> 3)) >> (bit & 7);
    const entry = table + (<usize>(window & 2047) << 4);
    storeEntry(o, entry, sum, isSum);
    const info = load<u32>(entry, 8);
    bit += <u64>((info >> 8) & 255);
    o += <usize>(info & 255) << 3;
    if (isSum) sum += <i64>(<i32>info >> 24);
    if (info & 0x10000) {
      const residual = unzigzag(escapedCode(p, bit));
      bit += escapeBits(p, bit);
      if (isSum) sum += residual;
      store<i64>(o, isSum ? sum : residual);
      o += 8;
    }
    if (bit > bitEnd) return fail(chunk);
  }
  const lengths = tables + bookLengthsOffset + (<usize>book << 4);
  while (o < end) {
    const window = load<u64>(p + <usize>(bit >> 3)) >> (bit & 7);
    const entry = table + (<usize>(window & 2047) << 4);
    let residual: i64;
    if (load<u8>(entry, 8) != 0) {
      residual = <i64>load<i8>(entry);
      bit += <u64>load<u8>(lengths + <usize>zigzag(residual));
    } else {
      bit += <u64>load<u8>(entry, 9);
      residual = unzigzag(escapedCode(p, bit));
      bit += escapeBits(p, bit);
    }
    sum += residual;
    store<i64>(o, isSum ? sum : residual);
    o += 8;
    if (bit > bitEnd) return fail(chunk);
  }
  chunk.cursor += <usize>((bit + 7) >> 3);
}
