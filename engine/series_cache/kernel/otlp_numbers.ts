// Points of numbers of OTLP as most are: times, a value, and attributes one after the other whose series is known, each field
// once and written as its specification has it. What is anything else is left to the host (engine/otlp/points/points.ts).

import {
  addressOf,
  expectedEntry,
  findEntry,
  follow,
  LENGTH,
  SLOT_COUNT,
  SLOTS,
  standsAt,
} from './entries';

/** Keys of fields, with how these are written. */
const POINTS: u32 = (1 << 3) | 2;
const START: u32 = (2 << 3) | 1;
const TIME: u32 = (3 << 3) | 1;
const DOUBLE: u32 = (4 << 3) | 1;
const INT: u32 = (6 << 3) | 1;
const ATTRIBUTE: u32 = (7 << 3) | 2;
const FIXED_BYTES: usize = 9;

const NANOS_OF_MILLI: u64 = 1_000_000;
/** A start time beyond what int64 nanoseconds can say is none. */
const START_MILLIS_MAX: u64 = 9_223_372_036_854;

/** Of a row: slot, generation, milliseconds, bits of the value, and the start in nanoseconds, 0 for none. */
const ROW_BYTES: usize = 32;
const GENERATION: usize = 4;
const MILLIS: usize = 8;
const VALUE: usize = 16;
const START_NANOS: usize = 24;

/** Rows of the points that were taken, and where these end. */
let rows: usize = 0;
let ends: usize = 0;

let taken: u32 = 0;
let isCut: bool = false;
let earliest: u64 = 0;
let latest: u64 = 0;

export function initNumbers(rowsAt: usize, endsAt: usize): void {
  rows = rowsAt;
  ends = endsAt;
}

/** Whether the next point goes on behind the bytes. */
export function numbersAreCut(): bool {
  return isCut;
}

export function earliestOfNumbers(): f64 {
  return <f64>earliest;
}

export function latestOfNumbers(): f64 {
  return <f64>latest;
}

let past: usize = 0;

/** A length in three bytes at most; `past` is behind it. -1 when it is cut off or longer. */
@inline
function lengthAt(at: usize, end: usize): i32 {
  let length: u32 = 0;
  for (let shift: u32 = 0; shift < 21 && at < end; shift += 7) {
    const byte = <u32>load<u8>(at++);
    length |= (byte & 127) << shift;
    if (byte < 128) {
      past = at;
      return <i32>length;
    }
  }
  return -1;
}

/** Takes points below an entry from `at` on, until there are `pointsMax` or one is not as most are; answers how many. */
export function takeNumbers(at: usize, end: usize, parent: u32, withStarts: bool, pointsMax: u32): u32 {
  taken = 0;
  isCut = false;
  earliest = u64.MAX_VALUE;
  latest = 0;
  while (at < end && taken < pointsMax && <u32>load<u8>(at) == POINTS) {
    const length = lengthAt(at + 1, end);
    if (length < 0 || <usize>length > end - past) {
      isCut = true;
      break;
    }
    const point = past;
    at = point + <usize>length;
    if (!takePoint(point, at, parent, withStarts)) break;
  }
  return taken;
}

function takePoint(at: usize, end: usize, parent: u32, withStarts: bool): bool {
  const pointEnd = end;
  let startAt: usize = 0;
  let timeAt: usize = 0;
  let doubleAt: usize = 0;
  let intAt: usize = 0;
  let entry: usize = 0;
  while (at < end) {
    const key = <u32>load<u8>(at);
    if (key == ATTRIBUTE) {
      if (entry != 0) return false;
      entry = entryAt(at, end, parent);
      if (entry == 0) return false;
      at += <usize>load<u32>(entry, LENGTH);
      continue;
    }
    if (end - at < FIXED_BYTES) return false;
    if (key == TIME) timeAt = at + 1;
    else if (key == INT) intAt = at + 1;
    else if (key == DOUBLE) doubleAt = at + 1;
    else if (key == START) startAt = at + 1;
    else return false;
    at += FIXED_BYTES;
  }
  if (timeAt == 0 || (doubleAt == 0) == (intAt == 0)) return false;
  const millis = load<u64>(timeAt) / NANOS_OF_MILLI;
  if (millis == 0) return false;
  if (entry == 0) entry = findEntry(parent, 0, end, 0);
  if (entry == 0 || load<u32>(entry, SLOT_COUNT) != 1) return false;
  const slot = addressOf(load<u32>(entry, SLOTS));
  let start: u64 = 0;
  if (withStarts && startAt != 0) {
    start = load<u64>(startAt) / NANOS_OF_MILLI;
    if (start > START_MILLIS_MAX) start = 0;
  }
  const row = rows + <usize>taken * ROW_BYTES;
  store<u32>(row, load<u32>(slot));
  store<u32>(row, load<u32>(slot, 4), GENERATION);
  store<u64>(row, millis, MILLIS);
  if (intAt == 0) store<u64>(row, load<u64>(doubleAt), VALUE);
  else store<f64>(row, <f64>load<i64>(intAt), VALUE);
  store<u64>(row, start * NANOS_OF_MILLI, START_NANOS);
  store<u32>(ends + (<usize>taken << 2), <u32>pointEnd);
  taken++;
  earliest = min(earliest, millis);
  latest = max(latest, millis);
  return true;
}

/** Entry of the attributes at `at`, of which it has all; else 0. */
@inline
function entryAt(at: usize, end: usize, parent: u32): usize {
  const expected = expectedEntry();
  if (expected != 0 && standsAt(expected, parent, 0, at, end - at)) {
    const length = <usize>load<u32>(expected, LENGTH);
    const behind = at + length;
    if (length != 0 && (behind == end || <u32>load<u8>(behind) != ATTRIBUTE)) {
      follow(expected);
      return expected;
    }
  }
  let attributesEnd = at;
  while (attributesEnd < end && <u32>load<u8>(attributesEnd) == ATTRIBUTE) {
    const length = lengthAt(attributesEnd + 1, end);
    if (length < 0 || <usize>length > end - past) return 0;
    attributesEnd = past + <usize>length;
  }
  return findEntry(parent, 0, at, attributesEnd - at);
}
