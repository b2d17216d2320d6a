// The replay kernel: batches of the commit log (docs/formats/batch.md) become columns of rows with
// the slots of this boot. Whatever it does not take (-1) is read by engine/batch/read.ts, with
// which a fuzz compares it.
//
//     state | batch | slots u32 | generations u32 | times i64 | values f64 | slot maps

const STATE: usize = 0x10000;
const SLACK: usize = 0x1000;
const BATCH: usize = STATE + SLACK;
const BATCH_BYTES_MAX: usize = 4 << 20;
const ROWS_MAX: usize = 0x10000;
const SLOTS: usize = BATCH + BATCH_BYTES_MAX + SLACK;
const GENERATIONS: usize = SLOTS + ROWS_MAX * 4 + SLACK;
const TIMES: usize = GENERATIONS + ROWS_MAX * 4 + SLACK;
const VALUES: usize = TIMES + ROWS_MAX * 8 + SLACK;
const MAPS: usize = VALUES + ROWS_MAX * 8 + SLACK;

export const state: usize = STATE;
export const batch: usize = BATCH;
export const batchBytesMax: usize = BATCH_BYTES_MAX;
export const rowsMax: usize = ROWS_MAX;
export const slots: usize = SLOTS;
export const generations: usize = GENERATIONS;
export const times: usize = TIMES;
export const values: usize = VALUES;
export const maps: usize = MAPS;

const MAGIC: u32 = 0x42445354;
const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
const SECTION_BYTES: usize = 16;
const COLUMN_BYTES: usize = 16;
const COLUMN_COUNT: usize = 4;
const KIND_FLOAT_SAMPLES: u32 = 1;
const FLAG_DERIVES_VERSIONS: u32 = 1;
const VERSION_MAX: f64 = 9007199254740991;
const SAFE_MAX: u64 = 9007199254740991;

const ENCODING_RAW: u32 = 0;
const ENCODING_CONSTANT: u32 = 1;
const ENCODING_DELTA: u32 = 2;
const ENCODING_WHOLE: u32 = 3;

/**
 * An entry of a slot map: slot of this boot plus one (0: unknown, 2^32 - 1: not here), its
 * generation in the log, and that here.
 */
const MAP_ENTRY_BYTES: usize = 16;
const NOT_HERE: u32 = 0xffffffff;

// What `decode` tells of a batch, in the state.
const AT_VERSION: usize = 0;
const AT_FIRST: usize = 8;
const AT_LAST: usize = 16;
const AT_ROWS: usize = 24;
const AT_UNKNOWN: usize = 28;
const AT_NOT_HERE: usize = 32;
const AT_EXPONENT: usize = 36;
/** Where a varint that was read ends. */
const AT_CURSOR: usize = 40;
const AT_FLAGS: usize = 44;

/**
 * Reads the batch at `batch` and gives its rows of series that are here the slots of this boot.
 * Answers how many those are, or -1 for a batch that this kernel does not take: one that is
 * malformed, longer than its room, or with more than the columns of samples.
 * @param map entries by slot of the log
 */
export function decode(length: usize, map: usize, mapCount: u32): i32 {
  if (length < HEADER_BYTES + SECTION_BYTES || length > BATCH_BYTES_MAX) return -1;
  const version = load<f64>(BATCH, 16);
  if (
    load<u32>(BATCH) != MAGIC ||
    load<u16>(BATCH, 4) != FORMAT_VERSION ||
    load<u16>(BATCH, 6) != 1 ||
    <usize>load<u32>(BATCH, 8) != length ||
    load<u32>(BATCH, 12) > FLAG_DERIVES_VERSIONS ||
    load<u64>(BATCH, 24) != 0 ||
    !(version >= 0 && version <= VERSION_MAX && Math.trunc(version) == version)
  ) {
    return -1;
  }
  const section = BATCH + HEADER_BYTES;
  const exponent = <u32>load<u8>(section, 1);
  const rows = <usize>load<u32>(section, 4);
  const directory = <usize>load<u32>(section, 8);
  if (
    load<u8>(section) != KIND_FLOAT_SAMPLES ||
    load<u16>(section, 2) != COLUMN_COUNT ||
    (exponent != 0 && exponent != 3 && exponent != 6 && exponent != 9) ||
    rows == 0 ||
    rows > ROWS_MAX ||
    directory % 8 != 0 ||
    directory > length ||
    COLUMN_COUNT * COLUMN_BYTES > length - directory
  ) {
    return -1;
  }
  let seen: u32 = 0;
  for (let i: usize = 0; i < COLUMN_COUNT; i++) {
    const entry = BATCH + directory + i * COLUMN_BYTES;
    const id = <u32>load<u8>(entry);
    const encoding = <u32>load<u8>(entry, 1);
    const offset = <usize>load<u32>(entry, 4);
    const bytes = <usize>load<u32>(entry, 8);
    if (id < 1 || id > 4 || offset % 8 != 0 || offset > length || bytes > length - offset) return -1;
    seen |= 1 << id;
    const at = BATCH + offset;
    let isRead = false;
    if (id == 1) isRead = readU32(encoding, at, bytes, SLOTS, rows);
    else if (id == 2) isRead = readU32(encoding, at, bytes, GENERATIONS, rows);
    else if (id == 3) isRead = readTimes(encoding, at, bytes, rows);
    else isRead = readValues(encoding, at, bytes, rows);
    if (!isRead) return -1;
  }
  if (seen != 30) return -1;
  store<f64>(STATE, version, AT_VERSION);
  store<u32>(STATE, <u32>rows, AT_ROWS);
  store<u32>(STATE, exponent, AT_EXPONENT);
  store<u32>(STATE, load<u32>(BATCH, 12), AT_FLAGS);
  return place(rows, map, mapCount);
}

/** Moves the rows of known series together, with their slots and generations of this boot. */
function place(rows: usize, map: usize, mapCount: u32): i32 {
  let taken: usize = 0;
  let unknown: u32 = 0;
  let notHere: u32 = 0;
  for (let row: usize = 0; row < rows; row++) {
    const slot = load<u32>(SLOTS + (row << 2));
    const generation = load<u32>(GENERATIONS + (row << 2));
    // A row of the batch's own dictionary, which it has not.
    if (generation == 0) return -1;
    const entry = map + <usize>slot * MAP_ENTRY_BYTES;
    const to = slot < mapCount && load<u32>(entry, 4) == generation ? load<u32>(entry) : 0;
    if (to == 0) {
      unknown++;
      continue;
    }
    if (to == NOT_HERE) {
      notHere++;
      continue;
    }
    store<u32>(SLOTS + (taken << 2), to - 1);
    store<u32>(GENERATIONS + (taken << 2), load<u32>(entry, 8));
    if (taken != row) {
      store<u64>(TIMES + (taken << 3), load<u64>(TIMES + (row << 3)));
      store<u64>(VALUES + (taken << 3), load<u64>(VALUES + (row << 3)));
    }
    taken++;
  }
  store<u32>(STATE, unknown, AT_UNKNOWN);
  store<u32>(STATE, notHere, AT_NOT_HERE);
  return <i32>taken;
}

/** The number at `at`, whose end goes to the state; more than SAFE_MAX when it is none. */
@inline
function varint(at: usize, end: usize): u64 {
  if (at < end) {
    const first = <u64>load<u8>(at);
    if (first < 128) {
      store<usize>(STATE, at + 1, AT_CURSOR);
      return first;
    }
  }
  return longVarint(at, end);
}

function longVarint(at: usize, end: usize): u64 {
  let value: u64 = 0;
  for (let shift: u64 = 0; shift < 56 && at < end; shift += 7) {
    const byte = <u64>load<u8>(at++);
    value |= (byte & 127) << shift;
    if (byte < 128) {
      store<usize>(STATE, at, AT_CURSOR);
      return value;
    }
  }
  return u64.MAX_VALUE;
}

@inline
function unzigzag(value: u64): i64 {
  return <i64>(value >> 1) ^ -(<i64>(value & 1));
}

function readU32(encoding: u32, at: usize, bytes: usize, out: usize, rows: usize): bool {
  if (encoding == ENCODING_RAW) {
    if (bytes != rows << 2) return false;
    memory.copy(out, at, bytes);
    return true;
  }
  if (encoding == ENCODING_CONSTANT) {
    if (bytes != 4) return false;
    fillU32(out, out + (rows << 2), load<u32>(at));
    return true;
  }
  if (encoding != ENCODING_DELTA || bytes < 4) return false;
  const end = at + bytes;
  const outEnd = out + (rows << 2);
  let value = <i64>load<u32>(at);
  store<u32>(out, <u32>value);
  let o = out + 4;
  let p = at + 4;
  while (o < outEnd) {
    const token = varint(p, end);
    if (token > SAFE_MAX) return false;
    p = load<usize>(STATE, AT_CURSOR);
    const delta = unzigzag(token >> 1);
    if ((token & 1) == 0) {
      value += delta;
      if (<u64>value > 0xffffffff) return false;
      store<u32>(o, <u32>value);
      o += 4;
      continue;
    }
    const more = varint(p, end);
    if (more > SAFE_MAX) return false;
    p = load<usize>(STATE, AT_CURSOR);
    if (more + 2 > <u64>((outEnd - o) >> 2)) return false;
    const runEnd = o + (<usize>(more + 2) << 2);
    if (delta == 0) {
      fillU32(o, runEnd, <u32>value);
      o = runEnd;
      continue;
    }
    for (; o < runEnd; o += 4) {
      value += delta;
      if (<u64>value > 0xffffffff) return false;
      store<u32>(o, <u32>value);
    }
  }
  return p == end;
}

/** Writes up to 12 bytes after the end. */
function fillU32(at: usize, end: usize, value: u32): void {
  const same = i32x4.splat(<i32>value);
  for (; at < end; at += 16) v128.store(at, same);
}

/** Writes up to 8 bytes after the end. */
function fillU64(at: usize, end: usize, value: u64): void {
  const same = i64x2.splat(<i64>value);
  for (; at < end; at += 16) v128.store(at, same);
}

/** The times, with their first and last one in the state. */
function readTimes(encoding: u32, at: usize, bytes: usize, rows: usize): bool {
  const end = at + bytes;
  const outEnd = TIMES + (rows << 3);
  if (encoding == ENCODING_RAW) {
    if (bytes != rows << 3) return false;
    memory.copy(TIMES, at, bytes);
    let first = i64.MAX_VALUE;
    let last = i64.MIN_VALUE;
    for (let o = TIMES; o < outEnd; o += 8) {
      first = min(first, load<i64>(o));
      last = max(last, load<i64>(o));
    }
    noteSpan(first, last);
    return true;
  }
  if (bytes < 8 || (encoding == ENCODING_CONSTANT && bytes != 8)) return false;
  let value = load<i64>(at);
  if (encoding == ENCODING_CONSTANT) {
    fillU64(TIMES, outEnd, <u64>value);
    noteSpan(value, value);
    return true;
  }
  if (encoding != ENCODING_DELTA) return false;
  let first = value;
  let last = value;
  store<i64>(TIMES, value);
  let o = TIMES + 8;
  let p = at + 8;
  while (o < outEnd) {
    const token = varint(p, end);
    if (token > SAFE_MAX) return false;
    p = load<usize>(STATE, AT_CURSOR);
    const delta = unzigzag(token >> 1);
    let count: u64 = 1;
    if (token & 1) {
      const more = varint(p, end);
      if (more > SAFE_MAX) return false;
      p = load<usize>(STATE, AT_CURSOR);
      count = more + 2;
      if (count > <u64>((outEnd - o) >> 3)) return false;
    }
    const runEnd = o + (<usize>count << 3);
    if (delta == 0) {
      fillU64(o, runEnd, <u64>value);
      o = runEnd;
      continue;
    }
    for (; o < runEnd; o += 8) {
      const next = value + delta;
      if (delta < 0 != next < value) return false;
      value = next;
      store<i64>(o, value);
    }
    first = min(first, value);
    last = max(last, value);
  }
  noteSpan(first, last);
  return p == end;
}

function noteSpan(first: i64, last: i64): void {
  store<i64>(STATE, first, AT_FIRST);
  store<i64>(STATE, last, AT_LAST);
}

function readValues(encoding: u32, at: usize, bytes: usize, rows: usize): bool {
  const end = at + bytes;
  const outEnd = VALUES + (rows << 3);
  if (encoding == ENCODING_RAW) {
    if (bytes != rows << 3) return false;
    memory.copy(VALUES, at, bytes);
    return true;
  }
  if (encoding == ENCODING_CONSTANT) {
    if (bytes != 8) return false;
    fillU64(VALUES, outEnd, load<u64>(at));
    return true;
  }
  if (encoding != ENCODING_WHOLE || bytes < 1 || load<u8>(at) > 1) return false;
  const isSigned = load<u8>(at) == 1;
  let p = at + 1;
  for (let o = VALUES; o < outEnd; o += 8) {
    const token = varint(p, end);
    if (token > SAFE_MAX) return false;
    p = load<usize>(STATE, AT_CURSOR);
    if (token != 0) {
      const whole = isSigned ? unzigzag(token - 1) : <i64>(token - 1);
      store<f64>(o, <f64>whole);
      continue;
    }
    if (end - p < 8) return false;
    store<u64>(o, load<u64>(p));
    p += 8;
  }
  return p == end;
}
