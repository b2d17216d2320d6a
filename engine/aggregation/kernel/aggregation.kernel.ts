// Rows of a series to windows (docs/AGGREGATION.md), and windows to typed chunks. All memory is the caller's: it lays out
// regions and passes their addresses. The facade is engine/aggregation/fold.ts, the twin fold_twin.ts.
import { encoderScratchBytes } from '../../codec/kernel/scratch';
import { writeVarint } from '../../codec/kernel/integers';
import { versionAt } from '../../codec/kernel/rows';
import { encodeRaw } from '../../codec/kernel/write';
import { encodeTyped, typedChunkBytesMax, typedEncodeBytes } from '../../typed/kernel/encode';
import { kindWindow, placed, typeBits, typeDouble, typeUint } from '../../typed/kernel/fields';

const staleBits: u64 = 0x7ff0000000000002;
/** Columns of windows: end, lag of its version, then those that are written: rows, lags, others, last, min, max, sum, resets, lastNumber, first. */
const columnCount: usize = 12;
const uintColumn: usize = 2;
const doubleColumn: usize = 5;
/** Of windowField (engine/typed/window.ts). */
const fieldDeletions: u64 = 1;
const fieldRows: u64 = 2;
const fieldsMax: u32 = 11;
/** Kind, layout, four numbers and seven float64s. */
const valueBytesMax: usize = 2 + 4 * 11 + 7 * 9;
/** Of lags that are added up: what a float64 has whole. */
const lagsMax: u64 = (1 << 53) - 1;
/** Of so many rows, one may be lower than the one before in what counts as a counter. */
const rowsAFall: u32 = 8;

@unmanaged
class Fold {
  resolution: i64;
  /** Of the window that is open; nothing is when `isOpen` is 0. */
  end: i64;
  isOpen: u32;
  /** Rows that are numbers, those that are none, and those that were lower than the one before. */
  count: u32;
  others: u32;
  falls: u32;
  /** Of rows that were written later than at their times. */
  lags: u64;
  /** The latest version of these, 0 for none. */
  version: i64;
  last: u64;
  min: f64;
  max: f64;
  sum: f64;
  resets: f64;
  first: f64;
  /** The last value. */
  before: f64;
  /** Windows that are closed. */
  windows: u32;
  capacity: u32;
  columns: usize;
}

/** Of the state of a series. */
export function foldBytes(): usize {
  return offsetof<Fold>();
}

/** Room for the columns of so many windows. */
export function columnsBytes(windows: u32): usize {
  return <usize>windows * 8 * columnCount;
}

/**
 * Begins a series.
 * @param fold `foldBytes`
 * @param columns `columnsBytes`
 */
export function beginFold(fold: usize, resolution: i64, columns: usize, capacity: u32): void {
  memory.fill(fold, 0, offsetof<Fold>());
  const f = changetype<Fold>(fold);
  f.resolution = resolution;
  f.columns = columns;
  f.capacity = capacity;
}

/**
 * Takes rows that come after those before, in strictly ascending time: i64 times and float64s.
 * @param lags i64 of each; 0 where none is above 0
 */
export function foldRows(fold: usize, times: usize, values: usize, lags: usize, rows: u32): void {
  const f = changetype<Fold>(fold);
  const bytes = <usize>rows << 3;
  for (let at: usize = 0; at < bytes; ) {
    const nanos = load<i64>(times + at);
    if (!f.isOpen || nanos > f.end) openWindow(f, nanos);
    const past = foldInWindow(f, times, values, at, bytes);
    if (lags != 0) {
      for (; at < past; at += 8) noteLag(f, load<i64>(times + at), load<i64>(lags + at));
    }
    at = past;
  }
}

/** Rows from `at` on that are in the open window; gives where those of others begin. What a window has is not in memory meanwhile. */
@inline
function foldInWindow(f: Fold, times: usize, values: usize, at: usize, bytes: usize): usize {
  const end = f.end;
  let count = f.count;
  let falls = f.falls;
  let others = f.others;
  let smallest = f.min;
  let largest = f.max;
  let sum = f.sum;
  let resets = f.resets;
  let before = f.before;
  let i = at;
  for (; i < bytes; i += 8) {
    if (load<i64>(times + i) > end) break;
    if (load<u64>(values + i) == staleBits) {
      others++;
      continue;
    }
    const value = load<f64>(values + i);
    if (count == 0) {
      f.first = value;
      smallest = value;
      largest = value;
      sum = value;
    } else {
      // A NaN alone stays one.
      if (value < smallest || smallest != smallest) smallest = value;
      if (value > largest || largest != largest) largest = value;
      sum += value;
      if (value < before) {
        resets += before;
        falls++;
      }
    }
    count++;
    before = value;
  }
  f.last = load<u64>(values + i - 8);
  f.count = count;
  f.falls = falls;
  f.others = others;
  f.min = smallest;
  f.max = largest;
  f.sum = sum;
  f.resets = resets;
  f.before = before;
  return i;
}

@inline
function noteLag(f: Fold, nanos: i64, lag: i64): void {
  if (lag <= 0) return;
  f.lags = min<u64>(f.lags + <u64>lag, lagsMax);
  f.version = max<i64>(f.version, versionAt(nanos) + lag);
}

function openWindow(f: Fold, nanos: i64): void {
  const isNext = f.isOpen && nanos - f.end <= f.resolution;
  if (f.isOpen) closeWindow(f);
  if (isNext) {
    f.end += f.resolution;
  } else {
    const rest = nanos % f.resolution;
    f.end = rest > 0 ? nanos - rest + f.resolution : nanos - rest;
  }
  f.isOpen = 1;
  f.count = 0;
  f.others = 0;
  f.falls = 0;
  f.lags = 0;
  f.version = 0;
  f.min = 0;
  f.max = 0;
  f.sum = 0;
  f.resets = 0;
}

@inline
function columnAt(f: Fold, column: usize, window: u32): usize {
  return f.columns + ((column * <usize>f.capacity + <usize>window) << 3);
}

function closeWindow(f: Fold): void {
  if (f.windows == f.capacity) unreachable();
  const window = f.windows++;
  store<i64>(columnAt(f, 0, window), f.end);
  store<i64>(columnAt(f, 1, window), max<i64>(f.version - versionAt(f.end), 0));
  store<u64>(columnAt(f, 2, window), <u64>f.count + <u64>f.others);
  store<u64>(columnAt(f, 3, window), f.lags);
  store<u64>(columnAt(f, 4, window), <u64>f.others);
  store<u64>(columnAt(f, 5, window), f.last);
  store<f64>(columnAt(f, 6, window), f.min);
  store<f64>(columnAt(f, 7, window), f.max);
  store<f64>(columnAt(f, 8, window), f.sum);
  const resets = resetsOf(f);
  store<f64>(columnAt(f, 9, window), resets);
  const hidesNumber = f.last == staleBits && f.count > 0;
  store<f64>(columnAt(f, 10, window), hidesNumber ? f.before : 0);
  // Of any other counter it is the smallest one.
  store<f64>(columnAt(f, 11, window), resets != 0 ? f.first : 0);
  f.isOpen = 0;
}

/** 0 for what is no counter. */
function resetsOf(f: Fold): f64 {
  return f.falls > max<u32>(1, f.count / rowsAFall) || f.min < 0 ? 0 : f.resets;
}

/** Closes the last window; gives how many there are. Then columns of 8 bytes a window lie `capacity` windows apart. */
export function endFold(fold: usize): u32 {
  const f = changetype<Fold>(fold);
  if (f.isOpen) closeWindow(f);
  return f.windows;
}

/** Room for a chunk of so many rows as they are. */
export function rawBytes(rows: u32): usize {
  return 64 + <usize>rows * 20;
}

/**
 * Writes rows in strictly ascending time as a chunk of floats as they are, all with the version of the last; gives its end.
 * @param lags room for i64 of the rows
 * @param out `rawBytes`
 */
export function encodeFloats(times: usize, values: usize, lags: usize, rows: u32, out: usize): usize {
  const bytes = <usize>rows << 3;
  const version = versionAt(load<i64>(times + bytes - 8));
  for (let i: usize = 0; i < bytes; i += 8) {
    store<i64>(lags + i, version - versionAt(load<i64>(times + i)));
  }
  return encodeRaw(times, values, lags, rows, version, out);
}

/** Of the region `scratch`. */
export function scratchBytes(): usize {
  return encoderScratchBytes;
}

/** Work space to write so many windows. */
export function encodeBytes(windows: u32): usize {
  return <usize>windows * (8 + valueBytesMax) + 64 + typedEncodeBytes(windows, windows * fieldsMax);
}

/** Room for a chunk of so many windows. */
export function chunkBytes(windows: u32): usize {
  return typedChunkBytesMax(windows, windows * fieldsMax, <usize>windows * valueBytesMax);
}

/**
 * Writes windows from `first` on as a typed chunk; gives its end. Their versions are those of their times, or of rows that
 * were written later.
 * @param deletions of all windows, as doubles: version of the last deletion that its rows were without; 0 where there is none
 *   of any
 * @param scratch `scratchBytes`
 * @param work `encodeBytes`
 * @param out `chunkBytes`
 */
export function encodeWindows(
  fold: usize,
  first: u32,
  count: u32,
  deletions: usize,
  scratch: usize,
  tables: usize,
  work: usize,
  out: usize,
): usize {
  const f = changetype<Fold>(fold);
  const places = work;
  let o = places + (<usize>count << 3);
  let fields: u32 = 0;
  for (let i: u32 = 0; i < count; i++) {
    const start = o;
    const window = first + i;
    store<u8>(o, <u8>kindWindow);
    store<u8>(o, 0, 1);
    o += 2;
    const version = deletions == 0 ? 0 : <u64>load<f64>(deletions + (<usize>window << 3));
    if (version != 0) {
      store<u8>(o, <u8>((fieldDeletions << typeBits) | <u64>typeUint));
      o = writeVarint(o + 1, version);
      fields++;
    }
    for (let column = uintColumn; column < columnCount; column++) {
      const bits = load<u64>(columnAt(f, column, window));
      // A field that is not there is zero.
      if (bits == 0) continue;
      const isDouble = column >= doubleColumn;
      const field = fieldRows + <u64>(column - uintColumn);
      store<u8>(o, <u8>((field << typeBits) | <u64>(isDouble ? typeDouble : typeUint)));
      if (isDouble) {
        store<u64>(o, bits, 1);
        o += 9;
      } else {
        o = writeVarint(o + 1, bits);
      }
      fields++;
    }
    store<u64>(places + (<usize>i << 3), placed(start, o - start));
  }
  const free = (o + 63) & ~63;
  return encodeTyped(
    scratch,
    tables,
    columnAt(f, 0, first),
    columnAt(f, 1, first),
    0,
    places,
    count,
    fields,
    free,
    out,
  );
}
