// Native histograms of remote write: from the wire to typed values (docs/TYPED_ROWS.md), in the canonical form that
// engine/typed/histogram.ts makes. One that is no valid histogram is noted with the place where it stands, and is no
// value; only what is no protobuf makes the body malformed. The plain twin is engine/write_decoder/wire_histogram.ts.

import { typedBytesMax, typedFieldsMax } from '../../../codec/layout';
import { kindHistogram, typeBytes, typeDouble, typeInt, typeUint } from '../../../typed/kernel/fields';
import { setWord, word } from '../identity/identity';
import {
  HISTOGRAMS,
  HISTOGRAMS_MAX,
  HISTOGRAM_BYTES,
  HISTOGRAM_ENDS,
  HISTOGRAM_GENERATIONS,
  HISTOGRAM_SCRATCH,
  HISTOGRAM_SLOTS,
  HISTOGRAM_SOURCES,
  HISTOGRAM_STARTS,
  HISTOGRAM_TIMESTAMPS,
  HISTOGRAM_VALUES,
  HISTOGRAM_VALUE_BYTES_MAX,
  MALFORMED,
  RAW,
  TOO_MANY_HISTOGRAMS,
} from '../identity/memory';
import { skipField, takeKey, takeLength, takeVarint, varintValue } from '../wire/protobuf';

/** Most buckets of one side, empty ones included; as many spans and custom bounds. */
const PARTS_MAX: u32 = 1 << 16;
const LIST_BYTES: usize = <usize>PARTS_MAX * 8;

// Lists of the histogram that is read, of 8 bytes an entry.
const POSITIVE_SPANS: usize = HISTOGRAM_SCRATCH;
const NEGATIVE_SPANS: usize = POSITIVE_SPANS + LIST_BYTES;
const POSITIVE_DELTAS: usize = NEGATIVE_SPANS + LIST_BYTES;
const NEGATIVE_DELTAS: usize = POSITIVE_DELTAS + LIST_BYTES;
const POSITIVE_COUNTS: usize = NEGATIVE_DELTAS + LIST_BYTES;
const NEGATIVE_COUNTS: usize = POSITIVE_COUNTS + LIST_BYTES;
const CUSTOM_BOUNDS: usize = NEGATIVE_COUNTS + LIST_BYTES;
/** Indexes of the buckets that are kept, four bytes each. */
const POSITIVE_INDEXES: usize = CUSTOM_BOUNDS + LIST_BYTES;
const NEGATIVE_INDEXES: usize = POSITIVE_INDEXES + LIST_BYTES;

const TYPE_INT: u64 = <u64>typeInt;
const TYPE_UINT: u64 = <u64>typeUint;
const TYPE_DOUBLE: u64 = <u64>typeDouble;
const TYPE_BYTES: u64 = <u64>typeBytes;
const FIRST_BUCKET: u64 = 16;
const CUSTOM_SCHEMA: i32 = -53;
const SCHEMA_MIN: i32 = -4;
const SCHEMA_MAX: i32 = 8;
/** Finer ones than SCHEMA_MAX up to here are known, and made coarser. */
const SCHEMA_RESERVED_MAX: i32 = 52;
const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;
const NANOS_PER_MILLI: i64 = 1_000_000;
/** A start time beyond what nanoseconds can say is none. */
const START_MILLIS_MAX: i64 = 9_223_372_036_854;

let isFloat: bool = false;
let isZeroFloat: bool = false;
let countBits: u64 = 0;
let zeroBits: u64 = 0;
let sumBits: u64 = 0;
let thresholdBits: u64 = 0;
let schema: i32 = 0;
let hint: u64 = 0;
let timestampMillis: i64 = 0;
let startMillis: i64 = 0;
let positiveSpans: u32 = 0;
let negativeSpans: u32 = 0;
let positiveDeltas: u32 = 0;
let negativeDeltas: u32 = 0;
let positiveCounts: u32 = 0;
let negativeCounts: u32 = 0;
let customBounds: u32 = 0;
/** A list is longer than PARTS_MAX. */
let hasTooMany: bool = false;

/**
 * Takes the histogram in [p, end).
 * @param hasStart a start time is among the fields of this version of remote write
 * Answers 0, or a negative problem of the body.
 */
export function takeHistogram(p: usize, end: usize, slot: u32, generation: u32, hasStart: bool): i32 {
  const row = <usize>word(HISTOGRAMS);
  if (row == <usize>HISTOGRAMS_MAX) return TOO_MANY_HISTOGRAMS;
  if (!read(p, end, hasStart)) return MALFORMED;
  const from = <usize>word(HISTOGRAM_BYTES);
  // Wide stores go some bytes beyond.
  if (from + <usize>typedBytesMax > <usize>HISTOGRAM_VALUE_BYTES_MAX) return TOO_MANY_HISTOGRAMS;
  const valueEnd = value(HISTOGRAM_VALUES + from);
  const past = valueEnd == 0 ? from : valueEnd - HISTOGRAM_VALUES;
  store<u32>(HISTOGRAM_SLOTS + (row << 2), slot);
  store<u32>(HISTOGRAM_GENERATIONS + (row << 2), generation);
  store<i64>(HISTOGRAM_TIMESTAMPS + (row << 3), timestampMillis);
  store<i64>(HISTOGRAM_STARTS + (row << 3), startNanosOf(startMillis));
  store<u32>(HISTOGRAM_ENDS + (row << 2), <u32>past);
  store<u32>(HISTOGRAM_SOURCES + (row << 3), <u32>(p - RAW));
  store<u32>(HISTOGRAM_SOURCES + (row << 3), valueEnd == 0 ? <u32>(end - p) : 0, 4);
  setWord(HISTOGRAMS, <u32>row + 1);
  setWord(HISTOGRAM_BYTES, <u32>past);
  return 0;
}

/** Of a start time on the wire; 0 for none, and for one that nanoseconds cannot say. */
export function startNanosOf(millis: i64): i64 {
  return millis <= START_MILLIS_MAX && millis >= -START_MILLIS_MAX ? millis * NANOS_PER_MILLI : 0;
}

/** Reads the fields; false where they are malformed. */
function read(p: usize, end: usize, hasStart: bool): bool {
  isFloat = false;
  isZeroFloat = false;
  countBits = 0;
  zeroBits = 0;
  sumBits = 0;
  thresholdBits = 0;
  schema = 0;
  hint = 0;
  timestampMillis = 0;
  startMillis = 0;
  positiveSpans = 0;
  negativeSpans = 0;
  positiveDeltas = 0;
  negativeDeltas = 0;
  positiveCounts = 0;
  negativeCounts = 0;
  customBounds = 0;
  hasTooMany = false;
  while (p < end) {
    p = takeKey(p, end);
    if (p == 0) return false;
    const key = <u32>varintValue();
    const type = key & 7;
    const field = key >> 3;
    if (field > 17 || field == 0 || (field == 17 && !hasStart)) {
      p = skipField(p, end, type);
      if (p == 0) return false;
      continue;
    }
    switch (field) {
      case 8:
      case 11: {
        if (type != 2) return false;
        p = takeLength(p, end);
        if (p == 0) return false;
        const spanEnd = p + <usize>varintValue();
        if (!span(p, spanEnd, field == 8)) return false;
        p = spanEnd;
        continue;
      }
      case 9:
      case 12:
        p = takeList(p, end, type, 0, field == 9 ? NEGATIVE_DELTAS : POSITIVE_DELTAS, field == 9 ? negativeDeltas : positiveDeltas);
        if (field == 9) negativeDeltas = listLength;
        else positiveDeltas = listLength;
        break;
      case 10:
      case 13:
        p = takeList(p, end, type, 1, field == 10 ? NEGATIVE_COUNTS : POSITIVE_COUNTS, field == 10 ? negativeCounts : positiveCounts);
        if (field == 10) negativeCounts = listLength;
        else positiveCounts = listLength;
        break;
      case 16:
        p = takeList(p, end, type, 1, CUSTOM_BOUNDS, customBounds);
        customBounds = listLength;
        break;
      case 2:
      case 3:
      case 5:
      case 7:
        if (type != 1 || end - p < 8) return false;
        takeDouble(field, load<u64>(p));
        p += 8;
        break;
      default:
        if (type != 0) return false;
        p = takeVarint(p, end);
        if (p != 0) takeInteger(field, varintValue());
    }
    if (p == 0) return false;
  }
  return true;
}

function takeDouble(field: u32, bits: u64): void {
  if (field == 2) {
    isFloat = true;
    countBits = bits;
  } else if (field == 3) sumBits = bits;
  else if (field == 5) thresholdBits = bits;
  else {
    isZeroFloat = true;
    zeroBits = bits;
  }
}

function takeInteger(field: u32, bits: u64): void {
  if (field == 1) {
    isFloat = false;
    countBits = bits;
  } else if (field == 4) schema = signedOf(bits);
  else if (field == 6) {
    isZeroFloat = false;
    zeroBits = bits;
  } else if (field == 14) hint = bits;
  else if (field == 15) timestampMillis = <i64>bits;
  else startMillis = <i64>bits;
}

/** A sint32. */
@inline
function signedOf(bits: u64): i32 {
  const low = <u32>bits;
  return <i32>(low >> 1) ^ -<i32>(low & 1);
}

function span(p: usize, end: usize, isNegative: bool): bool {
  let offset: i32 = 0;
  let length: u32 = 0;
  while (p < end) {
    p = takeKey(p, end);
    if (p == 0) return false;
    const key = <u32>varintValue();
    if (key >> 3 > 2) p = skipField(p, end, key & 7);
    else {
      if ((key & 7) != 0) return false;
      p = takeVarint(p, end);
      if (key >> 3 == 1) offset = signedOf(varintValue());
      else length = <u32>varintValue();
    }
    if (p == 0) return false;
  }
  const count = isNegative ? negativeSpans : positiveSpans;
  if (count == PARTS_MAX) {
    hasTooMany = true;
    return true;
  }
  const entry = (isNegative ? NEGATIVE_SPANS : POSITIVE_SPANS) + (<usize>count << 3);
  store<i32>(entry, offset);
  store<u32>(entry, length, 4);
  if (isNegative) negativeSpans = count + 1;
  else positiveSpans = count + 1;
  return true;
}

/** Length of the list that `takeList` has added to. */
let listLength: u32 = 0;

/**
 * Adds the numbers of a field, packed or single, to a list.
 * @param wire 0 varints, 1 doubles
 * Answers the position after them, or 0.
 */
function takeList(p: usize, end: usize, type: u32, wire: u32, list: usize, length: u32): usize {
  listLength = length;
  let partEnd = end;
  if (type == 2) {
    p = takeLength(p, end);
    if (p == 0) return 0;
    partEnd = p + <usize>varintValue();
  } else if (type != wire) return 0;
  while (p < partEnd) {
    let bits: u64;
    if (wire == 1) {
      if (partEnd - p < 8) return 0;
      bits = load<u64>(p);
      p += 8;
    } else {
      bits = <u64>load<u8>(p);
      if (bits < 128) p++;
      else {
        p = takeVarint(p, partEnd);
        if (p == 0) return 0;
        bits = varintValue();
      }
    }
    if (listLength == PARTS_MAX) hasTooMany = true;
    else {
      store<u64>(list + (<usize>listLength << 3), bits);
      listLength++;
    }
    if (type != 2) return p;
  }
  return type == 2 ? p : 0;
}

/** Buckets that `keep` has kept, and what all of them have together. */
let keptCount: u32 = 0;
let keptTotal: u64 = 0;

/**
 * Goes through the buckets of one side: those that are not empty keep their index, in the coarser schema, and their count,
 * which take the first places of the lists.
 * @param coarser by how many halvings
 * Answers false when they are no buckets of a histogram.
 */
function keep(spans: usize, spanCount: u32, counts: usize, count: u32, indexes: usize, coarser: u32): bool {
  keptCount = 0;
  let next: i64 = 0;
  let bucket: u32 = 0;
  let running: i64 = 0;
  for (let i: u32 = 0; i < spanCount; i++) {
    const entry = spans + (<usize>i << 3);
    const offset = load<i32>(entry);
    const length = load<u32>(entry, 4);
    if (i > 0 && offset < 0) return false;
    if (length > count - bucket) return false;
    next += <i64>offset;
    for (let j: u32 = 0; j < length; j++, bucket++, next++) {
      let bits = load<u64>(counts + (<usize>bucket << 3));
      if (isFloat) {
        if (reinterpret<f64>(bits) < 0) return false;
      } else {
        running += <i64>(bits >> 1) ^ -<i64>(bits & 1);
        if (running < 0) return false;
        bits = <u64>running;
        // All numbers of a whole histogram stay below 2^63, so that nothing that is added wraps.
        keptTotal += bits;
        if (<i64>keptTotal < 0) return false;
      }
      if (bits == 0) continue;
      const index = coarser == 0 ? next : ((next - 1) >> coarser) + 1;
      if (index > <i64>i32.MAX_VALUE || index < <i64>i32.MIN_VALUE) return false;
      const last = <usize>keptCount - 1;
      if (keptCount > 0 && <i64>load<i32>(indexes + (last << 2)) == index) {
        const place = counts + (last << 3);
        if (isFloat) store<f64>(place, load<f64>(place) + reinterpret<f64>(bits));
        else store<u64>(place, load<u64>(place) + bits);
        continue;
      }
      store<i32>(indexes + (<usize>keptCount << 2), <i32>index);
      store<u64>(counts + (<usize>keptCount << 3), bits);
      keptCount++;
    }
  }
  return bucket == count;
}

function areBounds(): bool {
  if (reinterpret<f64>(thresholdBits) != 0 || negativeSpans != 0) return false;
  if ((isFloat ? negativeCounts : negativeDeltas) != 0) return false;
  for (let i: u32 = 0; i < customBounds; i++) {
    const at = CUSTOM_BOUNDS + (<usize>i << 3);
    const bound = load<f64>(at);
    if (!isFinite(bound)) return false;
    if (i > 0 && bound <= load<f64>(at - 8)) return false;
  }
  if (positiveSpans > 0 && load<i32>(POSITIVE_SPANS) < 0) return false;
  let length: u64 = 0;
  for (let i: u32 = 0; i < positiveSpans; i++) {
    const entry = POSITIVE_SPANS + (<usize>i << 3);
    length += <u64>load<i32>(entry) + <u64>load<u32>(entry, 4);
  }
  return length <= <u64>customBounds + 1;
}

/** Writes the value to `at`. Answers its end, or 0 when it is no histogram that can be stored. */
function value(at: usize): usize {
  if (hasTooMany || <usize>customBounds * 8 > <usize>typedBytesMax / 2) return 0;
  let p = at;
  if (sumBits == STALE_BITS) {
    store<u8>(p, <u8>kindHistogram);
    store<u8>(p, 0, 1);
    return putBits(p + 2, (6 << 3) | TYPE_DOUBLE, sumBits);
  }
  // The other one of a pair that says either is zero.
  const zero = isFloat == isZeroFloat ? zeroBits : 0;
  let coarser: u32 = 0;
  if (schema == CUSTOM_SCHEMA) {
    if (zero != 0 && !(isFloat && reinterpret<f64>(zero) == 0)) return 0;
    if (!areBounds()) return 0;
  } else {
    if (schema < SCHEMA_MIN || schema > SCHEMA_RESERVED_MAX || customBounds != 0) return 0;
    const threshold = reinterpret<f64>(thresholdBits);
    if (!(threshold >= 0 && threshold < Infinity)) return 0;
    if (schema > SCHEMA_MAX) {
      coarser = <u32>(schema - SCHEMA_MAX);
      schema = SCHEMA_MAX;
    }
  }
  keptTotal = isFloat ? 0 : zero;
  if (!isFloat && (<i64>zero < 0 || <i64>countBits < 0)) return 0;
  const positive = isFloat ? POSITIVE_COUNTS : POSITIVE_DELTAS;
  const positiveLength = isFloat ? positiveCounts : positiveDeltas;
  if (!keep(POSITIVE_SPANS, positiveSpans, positive, positiveLength, POSITIVE_INDEXES, coarser)) return 0;
  const positiveKept = keptCount;
  const negative = isFloat ? NEGATIVE_COUNTS : NEGATIVE_DELTAS;
  const negativeLength = isFloat ? negativeCounts : negativeDeltas;
  if (!keep(NEGATIVE_SPANS, negativeSpans, negative, negativeLength, NEGATIVE_INDEXES, coarser)) return 0;
  const negativeKept = keptCount;
  if (isFloat) {
    if (reinterpret<f64>(countBits) < 0 || reinterpret<f64>(zero) < 0) return 0;
  } else if (isNaN(reinterpret<f64>(sumBits)) ? keptTotal > countBits : keptTotal != countBits) return 0;
  // All seven others may be there.
  if (positiveKept + negativeKept + 7 > <u32>typedFieldsMax) return 0;
  const type = isFloat ? TYPE_DOUBLE : TYPE_UINT;
  store<u8>(p, <u8>kindHistogram);
  store<u8>(p, isFloat ? 1 : 0, 1);
  p += 2;
  if (schema != 0) p = putVarint(putVarint(p, (1 << 3) | TYPE_INT), <u64>((schema << 1) ^ (schema >> 31)));
  if (hint == 1 || hint == 3) p = putVarint(putVarint(p, (2 << 3) | TYPE_UINT), hint);
  if (reinterpret<f64>(thresholdBits) != 0) p = putBits(p, (3 << 3) | TYPE_DOUBLE, thresholdBits);
  if (countBits != 0) p = putCount(p, (4 << 3) | type, countBits);
  if (zero != 0 && schema != CUSTOM_SCHEMA) p = putCount(p, (5 << 3) | type, zero);
  if (sumBits != 0) p = putBits(p, (6 << 3) | TYPE_DOUBLE, sumBits);
  if (customBounds != 0) {
    const length = <usize>customBounds << 3;
    p = putVarint(putVarint(p, (7 << 3) | TYPE_BYTES), length);
    memory.copy(p, CUSTOM_BOUNDS, length);
    p += length;
  }
  return putBuckets(p, type, positive, positiveKept, negative, negativeKept);
}

/** How many of ascending indexes are below zero. */
function belowZero(indexes: usize, count: u32): u32 {
  let low: u32 = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (load<i32>(indexes + (<usize>middle << 2)) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Of a bucket: both sides are mixed, by their distance from 1. */
@inline
function numberOf(indexes: usize, place: u32, side: u64): u64 {
  const index = <i64>load<i32>(indexes + (<usize>place << 2));
  return FIRST_BUCKET + ((<u64>((index << 1) ^ (index >> 63)) << 1) | side);
}

/** Merges four runs that ascend by number: of each side the indexes from 0 upwards, and those below downwards. */
function putBuckets(p: usize, type: u64, positive: usize, positiveKept: u32, negative: usize, negativeKept: u32): usize {
  let up = belowZero(POSITIVE_INDEXES, positiveKept);
  let down = up;
  let negativeUp = belowZero(NEGATIVE_INDEXES, negativeKept);
  let negativeDown = negativeUp;
  if (down == 0 && negativeKept == 0) {
    // The usual one.
    for (; up < positiveKept; up++) {
      p = putCount(p, (numberOf(POSITIVE_INDEXES, up, 0) << 3) | type, load<u64>(positive + (<usize>up << 3)));
    }
    return p;
  }
  for (let left = positiveKept + negativeKept; left > 0; left--) {
    let number: u64 = u64.MAX_VALUE;
    let run = 0;
    if (up < positiveKept) number = numberOf(POSITIVE_INDEXES, up, 0);
    if (down > 0) {
      const other = numberOf(POSITIVE_INDEXES, down - 1, 0);
      if (other < number) {
        number = other;
        run = 1;
      }
    }
    if (negativeUp < negativeKept) {
      const other = numberOf(NEGATIVE_INDEXES, negativeUp, 1);
      if (other < number) {
        number = other;
        run = 2;
      }
    }
    if (negativeDown > 0) {
      const other = numberOf(NEGATIVE_INDEXES, negativeDown - 1, 1);
      if (other < number) {
        number = other;
        run = 3;
      }
    }
    let place = up;
    if (run == 0) up++;
    else if (run == 1) place = --down;
    else if (run == 2) {
      place = negativeUp;
      negativeUp++;
    } else place = --negativeDown;
    const counts = run < 2 ? positive : negative;
    p = putCount(p, (number << 3) | type, load<u64>(counts + (<usize>place << 3)));
  }
  return p;
}

@inline
function putCount(p: usize, tag: u64, bits: u64): usize {
  if (isFloat) return putBits(p, tag, bits);
  return putVarint(putVarint(p, tag), bits);
}

@inline
function putBits(p: usize, tag: u64, bits: u64): usize {
  p = putVarint(p, tag);
  store<u64>(p, bits);
  return p + 8;
}

@inline
function putVarint(p: usize, value: u64): usize {
  while (value > 127) {
    store<u8>(p++, <u8>(value | 128));
    value >>= 7;
  }
  store<u8>(p, <u8>value);
  return p + 1;
}
