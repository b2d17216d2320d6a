// The front kernel: the body of a Prometheus remote write 1.0 request becomes rows of slot, timestamp and value in
// one walk. The plain twin is engine/front_twin.ts with engine/remote_write.ts.
//
// Memory, by address (each region is followed by slack or by another region):
//
//     state, hash keys | labels of one series, twice | canonical tags of one series
//     body as it came | body decompressed | rows: slots, timestamps, values | new slots | identity (identity.ts)
//
// A series is first compared, label by label and in place, with the series that followed the one before it last time
// (the `next` of its header). Only when it is another one its labels are gathered, sorted, written in canonical form and
// looked up. After a run of such misses the comparison is left out for a while.

import { compareBytes, copyBytes, equalBytes } from './bytes';
import {
  GENERATION,
  HEADERS,
  ID_HASH,
  ID_SCHEME,
  KEYS,
  LIVE_COUNT,
  NEW_COUNT,
  NEXT,
  REFUSED,
  SEGMENT_BYTES,
  SEGMENTS_USED,
  SLOT_COUNT,
  STATE,
  STATE_END,
  TABLE_MASK,
  TICK,
  USED,
  forgetNewSlots,
  headerOf,
  initIdentity,
  setWord,
  slotOfTags,
  tagsLengthOf,
  tagsOf,
  word,
} from './identity';
import { skipField, takeKey, takeLength, takeVarint, varintValue } from './protobuf';
import { decodeSnappy } from './snappy';

const MALFORMED: i32 = -10;
const TOO_MANY_ROWS: i32 = -11;
const NO_ROOM: i32 = -12;
/** Internal: a label follows the samples, so the labels must be gathered from the whole series. */
const LATE_LABEL: i32 = -100;

const TAGS_COUNT_MAX: u32 = 1024;
const TAGS_BYTES_MAX: u64 = 65_535;
const OVERSIZE_SLOT: u32 = 0;
const ROWS_MAX: u32 = 1 << 20;
const BODY_BYTES_MAX: usize = 38 << 20;
const RAW_BYTES_MAX: usize = 32 << 20;

/** Failed predictions in a row after which the next ones are left out, and how many series that lasts. */
const MISSES_MAX: u32 = 32;
const UNPREDICTED_SERIES: u32 = 1024;

/** name address u32 | name length u32 | value address u32 | value length u32 */
const LABEL_BYTES: usize = 16;
const LABELS: usize = 0x20000;
const LABELS_SORTED: usize = LABELS + 0x8000;
const HAS_SAMPLES: i32 = 1 << 16;

export const tagsScratch: usize = 0x30000;
export const body: usize = 0x60000;
const RAW: usize = body + BODY_BYTES_MAX + 0x10000;
export const rowSlots: usize = RAW + RAW_BYTES_MAX + 0x20000;
export const rowTimestamps: usize = rowSlots + ROWS_MAX * 4;
export const rowValues: usize = rowTimestamps + ROWS_MAX * 8;
export const newSlots: usize = rowValues + ROWS_MAX * 8;
const IDENTITY: usize = newSlots + ROWS_MAX * 4 + 0x10000;

/** Where the host writes 1 KiB of random bytes before `init`. */
export const hashKeys: usize = KEYS;

// Further words of the state.
const PREVIOUS: usize = STATE_END;
const MISSES: usize = STATE_END + 4;
const UNPREDICTED: usize = STATE_END + 8;
const HISTOGRAMS: usize = STATE_END + 12;
const BODY_HIGH: usize = STATE_END + 16;
const RAW_HIGH: usize = STATE_END + 20;
const ROWS_HIGH: usize = STATE_END + 24;

/** Lays the identity regions out; answers the end of the memory that is used, slack included. */
export function init(slotsMax: u32, tableSizeMax: u32, segmentCount: u32): usize {
  return initIdentity(IDENTITY, slotsMax, tableSizeMax, segmentCount) + 0x10000;
}

export function idHash(): usize {
  return <usize>word(ID_HASH);
}
export function generation(): usize {
  return <usize>word(GENERATION);
}
export function refused(): usize {
  return <usize>word(REFUSED);
}
export function idScheme(): usize {
  return <usize>word(ID_SCHEME);
}
export function tagsAddress(slot: u32): usize {
  return tagsOf(headerOf(slot));
}
export function tagsLength(slot: u32): usize {
  return tagsLengthOf(headerOf(slot));
}
export function liveCount(): u32 {
  return word(LIVE_COUNT);
}
export function newCount(): u32 {
  return word(NEW_COUNT);
}
export function histogramCount(): u32 {
  return word(HISTOGRAMS);
}

/** Bytes of the memory that were written so far. */
export function touchedBytes(): f64 {
  const slots = <f64>word(SLOT_COUNT);
  const fixed = <f64>word(BODY_HIGH) + <f64>word(RAW_HIGH) + <f64>word(ROWS_HIGH) * 20 + <f64>body;
  const table = (<f64>word(TABLE_MASK) + 1) * 8;
  return fixed + slots * 42 + table + <f64>word(SEGMENTS_USED) * <f64>SEGMENT_BYTES;
}

/** Starts a body: nothing that it uses from now on is evicted before the next one. */
export function beginRows(): void {
  setWord(TICK, word(TICK) + 1);
  setWord(NEW_COUNT, 0);
  setWord(HISTOGRAMS, 0);
  const previous = word(PREVIOUS);
  if (previous != 0 && tagsOf(headerOf(previous)) == 0) setWord(PREVIOUS, 0);
}

/** Slot of the n bytes of canonical tags at `tagsScratch`, or a negative problem. */
export function slotOfScratch(n: u32): i32 {
  if (<u64>n > TAGS_BYTES_MAX) return <i32>OVERSIZE_SLOT;
  const slot = slotOfTags(tagsScratch, n, newSlots);
  return slot == 0 ? NO_ROOM : <i32>slot;
}

export function forgetNew(): void {
  forgetNewSlots(newSlots);
}

/** Reads the n bytes at `body`; answers the number of rows, or a negative problem that leaves nothing behind. */
export function remoteWrite(n: u32): i32 {
  beginRows();
  setWord(BODY_HIGH, max(word(BODY_HIGH), n));
  const rawLength = decodeSnappy(body, n, RAW, RAW_BYTES_MAX);
  if (rawLength < 0) return rawLength;
  setWord(RAW_HIGH, max(word(RAW_HIGH), <u32>rawLength));
  const outcome = walk(RAW, RAW + <usize>rawLength);
  if (outcome < 0) forgetNew();
  else setWord(ROWS_HIGH, max(word(ROWS_HIGH), <u32>outcome));
  return outcome;
}

function walk(p: usize, end: usize): i32 {
  let rowCount: i32 = 0;
  while (p < end) {
    let key: u32 = <u32>load<u8>(p);
    if (key == 0x0a) p++;
    else {
      p = takeKey(p, end);
      if (p == 0) return MALFORMED;
      key = <u32>varintValue();
      if (key >> 3 != 1) {
        p = skipField(p, end, key & 7);
        if (p == 0) return MALFORMED;
        continue;
      }
      if (key != 0x0a) return MALFORMED;
    }
    p = takeLength(p, end);
    if (p == 0) return MALFORMED;
    const seriesEnd = p + <usize>varintValue();
    rowCount = series(p, seriesEnd, rowCount);
    if (rowCount < 0) return rowCount;
    p = seriesEnd;
  }
  return rowCount;
}

/** Reads one series; answers the number of rows after it, or a negative problem. */
function series(p: usize, end: usize, rowCount: i32): i32 {
  const previous = headerOf(word(PREVIOUS));
  let predicted = load<u32>(previous, NEXT);
  if (predicted != 0) {
    const unpredicted = word(UNPREDICTED);
    const header = headerOf(predicted);
    if (unpredicted != 0) {
      setWord(UNPREDICTED, unpredicted - 1);
      predicted = 0;
    } else if (tagsOf(header) == 0) {
      predicted = 0;
    } else {
      const labelsEnd = matchLabels(tagsOf(header), tagsLengthOf(header), p, end);
      if (labelsEnd != 0) {
        const outcome = samples(labelsEnd, end, predicted, rowCount, false);
        if (outcome != LATE_LABEL) {
          store<u32>(header, word(TICK), USED);
          setWord(PREVIOUS, predicted);
          setWord(MISSES, 0);
          return outcome;
        }
      }
    }
  }
  const gathered = gatherLabels(p, end);
  if (gathered < 0) return gathered;
  if ((gathered & HAS_SAMPLES) == 0) return samples(p, end, OVERSIZE_SLOT, rowCount, true);
  const length = canonicalTags(<u32>gathered & (HAS_SAMPLES - 1));
  if (length < 0) return samples(p, end, OVERSIZE_SLOT, rowCount, true);
  const slot = slotAfter(predicted, <usize>length);
  if (slot == 0) return NO_ROOM;
  if (load<u32>(previous, NEXT) != slot) store<u32>(previous, slot, NEXT);
  setWord(PREVIOUS, slot);
  return samples(p, end, slot, rowCount, true);
}

/** Slot of the canonical tags in the scratch: the predicted one when it fits (0 = none), else by the table. */
function slotAfter(predicted: u32, length: usize): u32 {
  if (predicted != 0) {
    const header = headerOf(predicted);
    if (tagsLengthOf(header) == length && equalBytes(tagsOf(header), tagsScratch, length)) {
      store<u32>(header, word(TICK), USED);
      setWord(MISSES, 0);
      return predicted;
    }
    const misses = word(MISSES) + 1;
    if (misses > MISSES_MAX) {
      setWord(UNPREDICTED, UNPREDICTED_SERIES);
      setWord(MISSES, 0);
    } else setWord(MISSES, misses);
  }
  return slotOfTags(tagsScratch, length, newSlots);
}

/**
 * Compares the labels at p with canonical tags, as long as they stand in the usual form: sorted, name and value of each
 * in one byte of length. Answers the end of the labels, or 0 when they differ or stand in another form.
 */
function matchLabels(tags: usize, length: usize, p: usize, end: usize): usize {
  const tagsEnd = tags + length;
  while (tags < tagsEnd) {
    const nameLength = <usize>load<u16>(tags);
    const valueLength = <usize>load<u16>(tags + 2 + nameLength);
    const labelLength = nameLength + valueLength + 4;
    if (labelLength > 127) return 0;
    // Label key and length, name key and length in one comparison, then the same for the value.
    if (load<u32>(p) != (0x0a_000a | (<u32>labelLength << 8) | (<u32>nameLength << 24))) return 0;
    if (!equalBytes(tags + 2, p + 4, nameLength)) return 0;
    p += 4 + nameLength;
    if (load<u16>(p) != <u16>(0x12 | (valueLength << 8))) return 0;
    tags += 4 + nameLength;
    if (!equalBytes(tags, p + 2, valueLength)) return 0;
    p += 2 + valueLength;
    tags += valueLength;
  }
  return p <= end ? p : 0;
}

/**
 * Emits the rows of the samples between p and end. Labels are passed over when `labelsGathered`, else they are a
 * LATE_LABEL. Answers the number of rows after it, or a negative problem.
 */
function samples(p: usize, end: usize, slot: u32, rowCount: i32, labelsGathered: bool): i32 {
  let histograms: u32 = 0;
  while (p < end) {
    let key: u32 = <u32>load<u8>(p);
    if (key == 0x12 || (key == 0x0a && labelsGathered)) p++;
    else {
      p = takeKey(p, end);
      if (p == 0) return MALFORMED;
      key = <u32>varintValue();
      const field = key >> 3;
      if (field > 2) {
        if (field == 4) histograms++;
        p = skipField(p, end, key & 7);
        if (p == 0) return MALFORMED;
        continue;
      }
      if ((key & 7) != 2) return MALFORMED;
      if (field == 1 && !labelsGathered) return LATE_LABEL;
    }
    let sampleEnd: usize;
    if (p < end && load<u8>(p) < 128) {
      sampleEnd = <usize>load<u8>(p);
      p++;
      if (sampleEnd > end - p) return MALFORMED;
      sampleEnd += p;
    } else {
      p = takeLength(p, end);
      if (p == 0) return MALFORMED;
      sampleEnd = p + <usize>varintValue();
    }
    if (key == 0x0a) {
      p = sampleEnd;
      continue;
    }
    if (<u32>rowCount >= ROWS_MAX) return TOO_MANY_ROWS;
    if (!sample(p, sampleEnd, <usize>rowCount)) return MALFORMED;
    store<u32>(rowSlots + (<usize>rowCount << 2), slot);
    rowCount++;
    p = sampleEnd;
  }
  if (histograms != 0) setWord(HISTOGRAMS, word(HISTOGRAMS) + histograms);
  return rowCount;
}

/** Writes value and timestamp of one sample to its row. */
// @ts-ignore: decorator
@inline
function sample(p: usize, end: usize, row: usize): bool {
  // The usual form: value, then timestamp in at most eight bytes, nothing else.
  if (end - p >= 11 && load<u8>(p) == 9 && load<u8>(p, 9) == 16) {
    let bits = load<u64>(p, 10);
    const stops = ~bits & 0x8080_8080_8080_8080;
    if (stops != 0) {
      const lastBit = ctz(stops);
      if (p + 11 + <usize>(lastBit >> 3) == end) {
        bits &= 0xffff_ffff_ffff_ffff >> (63 - lastBit);
        bits &= 0x7f7f_7f7f_7f7f_7f7f;
        bits = (bits & 0x007f_007f_007f_007f) | ((bits & 0x7f00_7f00_7f00_7f00) >> 1);
        bits = (bits & 0x0000_3fff_0000_3fff) | ((bits & 0x3fff_0000_3fff_0000) >> 2);
        bits = (bits & 0x0fff_ffff) | ((bits & 0x0fff_ffff_0000_0000) >> 4);
        store<u64>(rowTimestamps + (row << 3), bits);
        store<u64>(rowValues + (row << 3), load<u64>(p, 1));
        return true;
      }
    }
  }
  return sampleOfFields(p, end, row);
}

function sampleOfFields(p: usize, end: usize, row: usize): bool {
  store<u64>(rowTimestamps + (row << 3), 0);
  store<u64>(rowValues + (row << 3), 0);
  while (p < end) {
    p = takeKey(p, end);
    if (p == 0) return false;
    const key = <u32>varintValue();
    const field = key >> 3;
    if (field == 1) {
      if ((key & 7) != 1 || end - p < 8) return false;
      store<u64>(rowValues + (row << 3), load<u64>(p));
      p += 8;
    } else if (field == 2) {
      if ((key & 7) != 0) return false;
      p = takeVarint(p, end);
      if (p == 0) return false;
      store<u64>(rowTimestamps + (row << 3), varintValue());
    } else {
      p = skipField(p, end, key & 7);
      if (p == 0) return false;
    }
  }
  return true;
}

/**
 * Lists the labels of a series at LABELS, at most TAGS_COUNT_MAX + 1 of them. Answers their number, with HAS_SAMPLES when
 * a sample is among the fields, or MALFORMED.
 */
function gatherLabels(p: usize, end: usize): i32 {
  let count: u32 = 0;
  let hasSamples: i32 = 0;
  while (p < end) {
    let key: u32 = <u32>load<u8>(p);
    if (key == 0x0a) p++;
    else {
      p = takeKey(p, end);
      if (p == 0) return MALFORMED;
      key = <u32>varintValue();
      if (key != 0x0a) {
        if (key >> 3 == 1) return MALFORMED;
        if (key == 0x12) hasSamples = HAS_SAMPLES;
        p = skipField(p, end, key & 7);
        if (p == 0) return MALFORMED;
        continue;
      }
    }
    let labelEnd: usize;
    if (p < end && load<u8>(p) < 128) {
      labelEnd = <usize>load<u8>(p);
      p++;
      if (labelEnd > end - p) return MALFORMED;
      labelEnd += p;
    } else {
      p = takeLength(p, end);
      if (p == 0) return MALFORMED;
      labelEnd = p + <usize>varintValue();
    }
    if (!label(p, labelEnd, LABELS + <usize>count * LABEL_BYTES)) return MALFORMED;
    if (count <= TAGS_COUNT_MAX) count++;
    p = labelEnd;
  }
  return <i32>count | hasSamples;
}

function label(p: usize, end: usize, target: usize): bool {
  // The usual form: name, then value, one byte of length each.
  if (end - p >= 4 && load<u8>(p) == 0x0a) {
    const nameLength = <usize>load<u8>(p, 1);
    if (nameLength < 128 && nameLength <= end - p - 4) {
      const value = p + 2 + nameLength;
      const valueLength = <usize>load<u8>(value, 1);
      if (load<u8>(value) == 0x12 && valueLength < 128 && value + 2 + valueLength == end) {
        store<u32>(target, <u32>(p + 2));
        store<u32>(target, <u32>nameLength, 4);
        store<u32>(target, <u32>(value + 2), 8);
        store<u32>(target, <u32>valueLength, 12);
        return true;
      }
    }
  }
  store<u32>(target, <u32>p);
  store<u32>(target, 0, 4);
  store<u32>(target, <u32>p, 8);
  store<u32>(target, 0, 12);
  while (p < end) {
    p = takeKey(p, end);
    if (p == 0) return false;
    const key = <u32>varintValue();
    const field = key >> 3;
    if (field > 2) {
      p = skipField(p, end, key & 7);
      if (p == 0) return false;
      continue;
    }
    if ((key & 7) != 2) return false;
    p = takeLength(p, end);
    if (p == 0) return false;
    const text = target + (<usize>(field - 1) << 3);
    store<u32>(text, <u32>p);
    store<u32>(text, <u32>varintValue(), 4);
    p += <usize>varintValue();
  }
  return true;
}

/** Writes the gathered labels to the scratch, sorted; answers the length, or -1 when they are too many or too long. */
function canonicalTags(count: u32): i32 {
  if (count > TAGS_COUNT_MAX) return -1;
  const labels = sortedLabels(count);
  let size: u64 = 0;
  for (let i: u32 = 0; i < count; i++) {
    const entry = labels + <usize>i * LABEL_BYTES;
    size += 4 + <u64>load<u32>(entry, 4) + <u64>load<u32>(entry, 12);
  }
  if (size > TAGS_BYTES_MAX) return -1;
  let target = tagsScratch;
  for (let i: u32 = 0; i < count; i++) {
    const entry = labels + <usize>i * LABEL_BYTES;
    for (let text = entry; text < entry + LABEL_BYTES; text += 8) {
      const length = <usize>load<u32>(text, 4);
      store<u16>(target, <u16>length);
      copyBytes(target + 2, <usize>load<u32>(text), length);
      target += 2 + length;
    }
  }
  return <i32>size;
}

/** Address of the gathered labels in their order: by name, then by value. Merges runs, back and forth. */
function sortedLabels(count: u32): usize {
  let sorted = true;
  for (let i: u32 = 1; i < count && sorted; i++) {
    const entry = LABELS + <usize>i * LABEL_BYTES;
    sorted = compareLabels(entry - LABEL_BYTES, entry) <= 0;
  }
  let from = LABELS;
  if (sorted) return from;
  let to = LABELS_SORTED;
  for (let width: u32 = 1; width < count; width <<= 1) {
    for (let start: u32 = 0; start < count; start += width << 1) {
      const middle = min(start + width, count);
      const end = min(middle + width, count);
      let left = start;
      let right = middle;
      for (let i = start; i < end; i++) {
        const a = from + <usize>left * LABEL_BYTES;
        const b = from + <usize>right * LABEL_BYTES;
        const takeLeft = left < middle && (right >= end || compareLabels(a, b) <= 0);
        v128.store(to + <usize>i * LABEL_BYTES, v128.load(takeLeft ? a : b));
        if (takeLeft) left++;
        else right++;
      }
    }
    const swapped = from;
    from = to;
    to = swapped;
  }
  return from;
}

function compareLabels(a: usize, b: usize): i32 {
  const order = compareBytes(load<u32>(a), load<u32>(a, 4), load<u32>(b), load<u32>(b, 4));
  if (order != 0) return order;
  return compareBytes(load<u32>(a, 8), load<u32>(a, 12), load<u32>(b, 8), load<u32>(b, 12));
}
