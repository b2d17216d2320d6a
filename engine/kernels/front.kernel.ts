// The front kernel: the body of a Prometheus remote write request, 1.0 or 2.0, becomes rows of slot, timestamp and value in
// one walk. The plain twin is engine/front_twin.ts with engine/remote_write.ts.
//
// A series is first compared, in place, with the series that followed the one before it last time. Only when it is
// another one, or in another form, its labels are gathered, sorted, written in normal form (labels.ts) and looked up. After a run of such
// misses the comparison is left out for a while, and series are looked up in groups: their table entries are read one
// behind the other, then their records, so that the waits for memory overlap.

import { equalBytes } from './bytes';
import {
  BODY,
  BODY_HIGH,
  CANONICAL,
  CANONICAL_BYTES_MAX,
  HISTOGRAMS,
  IDENTITY,
  ID_SCRATCH,
  LABEL_TEXT_BYTES,
  LATE_LABEL,
  MALFORMED,
  MISSES,
  NEW_SLOTS,
  NORMAL,
  NORMAL_BYTES_MAX,
  NORMAL_END,
  NO_ROOM,
  OVERSIZE_ROWS,
  OVERSIZE_SLOT,
  PREVIOUS,
  RAW,
  RAW_BYTES_MAX,
  RAW_HIGH,
  ROWS_HIGH,
  ROW_GENERATIONS,
  ROW_SLOTS,
  ROW_TIMESTAMPS,
  ROW_VALUES,
  STAGED,
  SYMBOLS_HIGH,
  TAGS_BYTES_MAX,
  UNPREDICTED,
  raiseWord,
} from './front_memory';
import { murmur3 } from './hash';
import {
  GENERATION,
  ID_HASH,
  ID_SCHEME,
  KEYS,
  LIVE_COUNT,
  NEW_COUNT,
  RECORD_ZERO,
  REFUSED,
  SEGMENTS_USED,
  SEGMENT_BYTES,
  SLOT_COUNT,
  TICK,
  firstCandidate,
  forgetNewSlots,
  hasTags,
  hashOfTags,
  initIdentity,
  isLive,
  knownSlotOf,
  markUsed,
  nextCandidate,
  nextOf,
  recordOf,
  setNext,
  setWord,
  slotAddress,
  slotOfRecord,
  slotOfTags,
  tableEntries,
  tagsLengthOf,
  tagsOf,
  word,
} from './identity';
import {
  HAS_SAMPLES,
  areGathered,
  canonicalOfNormal,
  gatherLabels,
  normalOfCanonical,
  normalTags,
} from './labels';
import { skipField, takeKey, takeLength, varintValue } from './protobuf';
import { HISTOGRAM_FIELD_V2, samples } from './samples';
import { gatherReferences, listSymbols, SERIES_KEY_V2 } from './symbols';
import { decodeSnappy } from './snappy';
import { ID_SCHEME_QUOTED, plainQuotedId } from './verdict';

/** Failed predictions in a row after which the next ones are left out, and how many series that lasts. */
const MISSES_MAX: u32 = 32;
const UNPREDICTED_SERIES: u32 = 1024;

/** Series that are looked up together. */
const STAGED_MAX: u32 = 32;
/** start u32 | end u32 | tags u32 (start: they are looked up where they stand) | tags length u32 (or NOT_KEPT) | hash u32 | slot u32 | record u32 | 0 */
const STAGED_BYTES: usize = 32;
/** Instead of a length: the series has no samples, or its tags are too many or too long. */
const NOT_KEPT: u32 = 0xffff_ffff;

export const body: usize = BODY;
export const raw: usize = RAW;
export const canonical: usize = CANONICAL;
export const rowSlots: usize = ROW_SLOTS;
export const rowGenerations: usize = ROW_GENERATIONS;
export const rowTimestamps: usize = ROW_TIMESTAMPS;
export const rowValues: usize = ROW_VALUES;
export const newSlots: usize = NEW_SLOTS;
/** Where the host writes 1 KiB of random bytes before `init`. */
export const hashKeys: usize = KEYS;

/** Lays the identity regions out; answers the end of the memory that is used, slack included. */
export function init(slotsMax: u32, tableSizeMax: u32, segmentCount: u32): usize {
  return initIdentity(IDENTITY, slotsMax, tableSizeMax, segmentCount, BODY) + 0x10000;
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
/** Writes the canonical tags of a slot to `canonical`; answers their length, 0 for a slot without a series. */
export function tags(slot: u32): usize {
  if (slot >= word(SLOT_COUNT) || !isLive(slot)) return 0;
  const record = recordOf(slot);
  return canonicalOfNormal(tagsOf(record), tagsLengthOf(record), CANONICAL);
}
/**
 * Writes the canonical tags of the `count` slots at `body` to `raw`, one behind the other, and over each slot the end of its
 * tags there. Answers how many there was room for.
 */
export function tagsOfAll(count: u32): u32 {
  const end = RAW + RAW_BYTES_MAX - CANONICAL_BYTES_MAX;
  let p = RAW;
  let done: u32 = 0;
  while (done < count && p < end) {
    const at = BODY + (<usize>done << 2);
    const slot = load<u32>(at);
    if (slot < word(SLOT_COUNT) && isLive(slot)) {
      const record = recordOf(slot);
      p += canonicalOfNormal(tagsOf(record), tagsLengthOf(record), p);
    }
    store<u32>(at, <u32>(p - RAW));
    done++;
  }
  raiseWord(RAW_HIGH, <u32>(p - RAW));
  return done;
}
export function liveCount(): u32 {
  return word(LIVE_COUNT);
}
export function newCount(): u32 {
  return word(NEW_COUNT);
}
export function hasOversizeRows(): u32 {
  return word(OVERSIZE_ROWS);
}
export function histogramCount(): u32 {
  return word(HISTOGRAMS);
}

/** Bytes of the memory that were written so far. */
export function touchedBytes(): f64 {
  const bodies = <f64>word(BODY_HIGH) + <f64>word(RAW_HIGH) + <f64>word(ROWS_HIGH) * 24 + <f64>BODY;
  const symbols = <f64>word(SYMBOLS_HIGH) * 8;
  const table = <f64>tableEntries() * 8;
  const segments = <f64>word(SEGMENTS_USED) * <f64>SEGMENT_BYTES;
  return bodies + symbols + <f64>word(SLOT_COUNT) * 14 + table + segments;
}

/** Starts a body: nothing that it uses from now on is evicted before the next one. */
export function beginRows(): void {
  setWord(TICK, word(TICK) + 1);
  setWord(NEW_COUNT, 0);
  setWord(HISTOGRAMS, 0);
  setWord(OVERSIZE_ROWS, 0);
  if (!isLive(word(PREVIOUS))) setWord(PREVIOUS, 0);
}

/** Slot of the n bytes of canonical tags at `canonical`, or a negative problem. */
export function slotOfCanonical(n: u32): i32 {
  const length = normalOfCanonical(CANONICAL, n, NORMAL);
  if (length == -1) return <i32>OVERSIZE_SLOT;
  if (length < 0) return length;
  const slot = slotOfTags(NORMAL, length, hashOfTags(NORMAL, length), NEW_SLOTS);
  return slot == 0 ? NO_ROOM : <i32>slot;
}

export function forgetNew(): void {
  forgetNewSlots(NEW_SLOTS);
}

/**
 * Gives the new series about which there is no doubt their quoted ID's hash, and moves the others to the front of the
 * list of new slots. Answers the number of those.
 */
export function judgePlainQuoted(): u32 {
  const count = word(NEW_COUNT);
  let asked: u32 = 0;
  for (let i: u32 = 0; i < count; i++) {
    const entry = NEW_SLOTS + (<usize>i << 2);
    const slot = load<u32>(entry);
    const idLength = plainQuotedId(CANONICAL, tags(slot), ID_SCRATCH);
    if (idLength != 0) {
      store<u32>(<usize>word(ID_HASH) + (<usize>slot << 2), murmur3(ID_SCRATCH, idLength));
      store<u8>(<usize>word(ID_SCHEME) + <usize>slot, ID_SCHEME_QUOTED);
    } else {
      const front = NEW_SLOTS + (<usize>asked << 2);
      store<u32>(entry, load<u32>(front));
      store<u32>(front, slot);
      asked++;
    }
  }
  return asked;
}

/**
 * Reads the n bytes at `body`, of version 1 or 2 of remote write; answers the number of rows, or a negative problem that leaves
 * nothing behind.
 */
export function remoteWrite(n: u32, version: u32): i32 {
  beginRows();
  raiseWord(BODY_HIGH, n);
  const rawLength = decodeSnappy(BODY, n, RAW, RAW_BYTES_MAX);
  if (rawLength < 0) return rawLength;
  raiseWord(RAW_HIGH, <u32>rawLength);
  const end = RAW + <usize>rawLength;
  const outcome = version == 2 ? walkV2(RAW, end) : walk(RAW, end);
  if (outcome < 0) forgetNew();
  else raiseWord(ROWS_HIGH, <u32>outcome);
  return outcome;
}

/** Version 2: labels are pairs of numbers in a table of texts, which may stand anywhere in the request. */
function walkV2(p: usize, end: usize): i32 {
  const symbolCount = listSymbols(p, end);
  if (symbolCount < 0) return symbolCount;
  raiseWord(SYMBOLS_HIGH, <u32>symbolCount);
  setWord(LABEL_TEXT_BYTES, 0);
  let rowCount: i32 = 0;
  while (p < end) {
    p = takeKey(p, end);
    // Nothing is malformed here: the symbols were listed by the same walk.
    const key = <u32>varintValue();
    if (key != SERIES_KEY_V2) {
      p = skipField(p, end, key & 7);
      continue;
    }
    p = takeLength(p, end);
    const seriesEnd = p + <usize>varintValue();
    rowCount = seriesV2(p, seriesEnd, <u32>symbolCount, rowCount);
    if (rowCount < 0) return rowCount;
    p = seriesEnd;
  }
  return rowCount;
}

function seriesV2(p: usize, end: usize, symbolCount: u32, rowCount: i32): i32 {
  const gathered = gatherReferences(p, end, symbolCount);
  if (gathered < 0) return gathered;
  let slot = <i32>OVERSIZE_SLOT;
  if ((gathered & HAS_SAMPLES) != 0) {
    const count = <u32>gathered & (HAS_SAMPLES - 1);
    let predicted = nextOf(recordOf(word(PREVIOUS)));
    if (predicted != 0 && !isLive(predicted)) predicted = 0;
    const record = recordOf(predicted);
    if (predicted != 0 && areGathered(tagsOf(record), tagsLengthOf(record), count)) {
      markUsed(record);
      setWord(PREVIOUS, predicted);
      setWord(MISSES, 0);
      slot = <i32>predicted;
    } else {
      slot = slotOfGathered(count, predicted);
      if (slot < 0) return slot;
    }
  }
  return samples(p, end, <u32>slot, rowCount, true, HISTOGRAM_FIELD_V2);
}

function walk(p: usize, end: usize): i32 {
  let rowCount: i32 = 0;
  let stagedCount: u32 = 0;
  let scratch = NORMAL;
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
    const unpredicted = word(UNPREDICTED);
    if (unpredicted == 0) rowCount = series(p, seriesEnd, rowCount);
    else {
      const length = stage(p, seriesEnd, scratch, STAGED + <usize>stagedCount * STAGED_BYTES);
      if (length < 0) return length;
      stagedCount++;
      // Wide stores go up to 15 bytes past the end.
      scratch += <usize>length + 16;
      setWord(UNPREDICTED, unpredicted - 1);
      const full = NORMAL_END - scratch < NORMAL_BYTES_MAX + 64;
      if (stagedCount == STAGED_MAX || full || unpredicted == 1) {
        rowCount = emitStaged(stagedCount, rowCount);
        stagedCount = 0;
        scratch = NORMAL;
      }
    }
    if (rowCount < 0) return rowCount;
    p = seriesEnd;
  }
  return stagedCount == 0 ? rowCount : emitStaged(stagedCount, rowCount);
}

/** Reads one series; answers the number of rows after it, or a negative problem. */
function series(p: usize, end: usize, rowCount: i32): i32 {
  let predicted = nextOf(recordOf(word(PREVIOUS)));
  if (predicted != 0) {
    if (!isLive(predicted)) predicted = 0;
    else {
      const record = recordOf(predicted);
      const length = tagsLengthOf(record);
      if (length <= end - p && equalBytes(tagsOf(record), p, length)) {
        const outcome = samples(p + length, end, predicted, rowCount, false);
        if (outcome != LATE_LABEL) {
          markUsed(record);
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
  const slot = slotOfGathered(<u32>gathered & (HAS_SAMPLES - 1), predicted);
  return slot < 0 ? slot : samples(p, end, <u32>slot, rowCount, true);
}

/** Slot of the gathered labels, which is the next prediction's begin; or NO_ROOM. */
function slotOfGathered(count: u32, predicted: u32): i32 {
  const length = normalTags(count, NORMAL);
  if (length < 0) return <i32>OVERSIZE_SLOT;
  const slot = slotAfter(predicted, <usize>length);
  if (slot == 0) return NO_ROOM;
  // By slot, for an insertion may have moved the record.
  setNext(recordOf(word(PREVIOUS)), slot);
  setWord(PREVIOUS, slot);
  return <i32>slot;
}

/** Slot of the tags at NORMAL: the predicted one when it fits (0 = none), else by the table. */
function slotAfter(predicted: u32, length: usize): u32 {
  if (predicted != 0) {
    if (hasTags(recordOf(predicted), NORMAL, length)) {
      setWord(MISSES, 0);
      return predicted;
    }
    const misses = word(MISSES) + 1;
    setWord(MISSES, misses);
    if (misses > MISSES_MAX) {
      setWord(UNPREDICTED, UNPREDICTED_SERIES);
      setWord(MISSES, 0);
    }
  }
  return slotOfTags(NORMAL, length, hashOfTags(NORMAL, length), NEW_SLOTS);
}

/**
 * End of the labels when they stand first, each shorter than 128 bytes, with a sample behind them; else p. They may be the normal
 * form as they are: what equals a record is.
 */
function labelsEndOf(p: usize, end: usize): usize {
  let q = p;
  while (end - q >= 2 && load<u8>(q) == 0x0a) {
    const length = <usize>load<u8>(q, 1);
    if (length >= 128 || length > end - q - 2) return p;
    q += 2 + length;
  }
  return q < end && load<u8>(q) == 0x12 && <u64>(q - p) <= TAGS_BYTES_MAX ? q : p;
}

/** Prepares the lookup of one series; answers the bytes of its tags at scratch, or a negative problem. */
function stage(p: usize, end: usize, scratch: usize, staged: usize): i32 {
  store<u32>(staged, <u32>p);
  store<u32>(staged, <u32>end, 4);
  const labelsEnd = labelsEndOf(p, end);
  if (labelsEnd != p) {
    store<u32>(staged, <u32>p, 8);
    store<u32>(staged, <u32>(labelsEnd - p), 12);
    store<u32>(staged, hashOfTags(p, labelsEnd - p), 16);
    return 0;
  }
  const gathered = gatherLabels(p, end);
  if (gathered < 0) return gathered;
  let length: i32 = -1;
  if ((gathered & HAS_SAMPLES) != 0) {
    length = normalTags(<u32>gathered & (HAS_SAMPLES - 1), scratch);
  }
  store<u32>(staged, <u32>scratch, 8);
  store<u32>(staged, length < 0 ? NOT_KEPT : <u32>length, 12);
  store<u32>(staged, length < 0 ? 0 : hashOfTags(scratch, <usize>length), 16);
  return max(length, 0);
}

/** Slot of a series whose labels were staged where they stand in the body and are no record; or a negative problem. */
function slotOfWire(p: usize, end: usize): i32 {
  const gathered = gatherLabels(p, end);
  if (gathered < 0) return gathered;
  const length = normalTags(<u32>gathered & (HAS_SAMPLES - 1), ID_SCRATCH);
  if (length < 0) return <i32>OVERSIZE_SLOT;
  const slot = slotOfTags(ID_SCRATCH, length, hashOfTags(ID_SCRATCH, length), NEW_SLOTS);
  return slot == 0 ? NO_ROOM : <i32>slot;
}

/** Emits one staged series whose labels stand in the body; answers the number of rows, or a negative problem. */
function emitWire(p: usize, end: usize, length: usize, hash: u32, candidate: u32, rowCount: i32): i32 {
  const known = candidate != 0 ? candidate : knownSlotOf(p, length, hash);
  let outcome = LATE_LABEL;
  let slot = <i32>known;
  if (known != 0) outcome = samples(p + length, end, known, rowCount, false);
  if (outcome == LATE_LABEL) {
    slot = slotOfWire(p, end);
    if (slot < 0) return slot;
    outcome = samples(p, end, slot, rowCount, true);
  }
  if (slot != <i32>OVERSIZE_SLOT) {
    setNext(recordOf(word(PREVIOUS)), slot);
    setWord(PREVIOUS, slot);
  }
  return outcome;
}

/** Looks the staged series up together and emits their rows; answers the number of rows, or a negative problem. */
function emitStaged(count: u32, rowCount: i32): i32 {
  const end = STAGED + <usize>count * STAGED_BYTES;
  for (let at = STAGED; at < end; at += STAGED_BYTES) {
    store<u32>(at, <u32>firstCandidate(load<u32>(at, 16)), 24);
  }
  // A fourth of the series stand behind the first place; by now the places are near.
  for (let at = STAGED; at < end; at += STAGED_BYTES) {
    if (<usize>load<u32>(at, 24) != RECORD_ZERO) continue;
    store<u32>(at, <u32>nextCandidate(load<u32>(at, 16)), 24);
  }
  // The lines of all records are on their way before the first one is compared.
  let touched: u32 = 0;
  for (let at = STAGED; at < end; at += STAGED_BYTES) {
    const record = <usize>load<u32>(at, 24);
    touched ^= load<u32>(record) ^ load<u32>(record, 64) ^ load<u32>(record, 128) ^ load<u32>(record, 192);
  }
  // What is found is marked as used, so that no insertion of this group evicts it.
  for (let at = STAGED; at < end; at += STAGED_BYTES) {
    const record = <usize>load<u32>(at, 24);
    const isKnown = hasTags(record, <usize>load<u32>(at, 8), <usize>load<u32>(at, 12));
    const slot = isKnown ? slotOfRecord(record) : 0;
    touched ^= load<u32>(slotAddress(slot));
    store<u32>(at, slot, 20);
  }
  store<u32>(end, touched);
  for (let at = STAGED; at < end; at += STAGED_BYTES) {
    const length = load<u32>(at, 12);
    let slot = load<u32>(at, 20);
    const p = <usize>load<u32>(at);
    if (p == <usize>load<u32>(at, 8)) {
      rowCount = emitWire(p, load<u32>(at, 4), length, load<u32>(at, 16), slot, rowCount);
      if (rowCount < 0) return rowCount;
      continue;
    }
    if (length == NOT_KEPT) slot = OVERSIZE_SLOT;
    else {
      if (slot == 0) slot = slotOfTags(<usize>load<u32>(at, 8), <usize>length, load<u32>(at, 16), NEW_SLOTS);
      if (slot == 0) return NO_ROOM;
      setNext(recordOf(word(PREVIOUS)), slot);
      setWord(PREVIOUS, slot);
    }
    rowCount = samples(<usize>load<u32>(at), <usize>load<u32>(at, 4), slot, rowCount, true);
    if (rowCount < 0) return rowCount;
  }
  return rowCount;
}
