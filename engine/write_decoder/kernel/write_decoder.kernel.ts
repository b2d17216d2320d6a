// The write decoder kernel: the body of a Prometheus remote write request, 1.0 or 2.0, becomes rows
// of slot, timestamp and value in one walk. The plain twin is
// engine/write_decoder/write_decoder_twin.ts with engine/write_decoder/remote_write_twin.ts.
//
// A series is first compared, in place, with the series that followed the one before it last time.
// Only when it is another one, or in another form, its labels are gathered, sorted, written in
// normal form (labels.ts) and looked up. After a run of such misses the comparison is left out for
// a while, and series are looked up in groups (staged.ts).

import { equalBytes } from './identity/bytes';
import {
  BODY,
  BODY_HIGH,
  CANONICAL,
  CANONICAL_BYTES_MAX,
  EXEMPLARS,
  EXEMPLARS_HIGH,
  EXEMPLARS_LEFT_OUT,
  EXEMPLAR_BYTES,
  EXEMPLAR_BYTES_HIGH,
  EXEMPLAR_ENDS,
  EXEMPLAR_GENERATIONS,
  EXEMPLAR_PROBLEMS,
  EXEMPLAR_SLOTS,
  EXEMPLAR_TIMES,
  EXEMPLAR_VALUES,
  FIRST_NAMELESS,
  HISTOGRAMS,
  HISTOGRAMS_HIGH,
  HISTOGRAM_BYTES,
  HISTOGRAM_BYTES_HIGH,
  HISTOGRAM_ENDS,
  HISTOGRAM_GENERATIONS,
  HISTOGRAM_SCRATCH,
  HISTOGRAM_SLOTS,
  HISTOGRAM_SOURCES,
  HISTOGRAM_STARTS,
  HISTOGRAM_TIMESTAMPS,
  HISTOGRAM_VALUES,
  IDENTITY,
  ID_SCRATCH,
  LABEL_TEXT_BYTES,
  LATE_LABEL,
  LINE_FIELDS_HIGH,
  LINE_NUMBERS,
  LINE_NUMBER_COUNT,
  LINE_PROBLEMS,
  LINE_PROBLEM_COUNT,
  LINE_ROWS,
  MALFORMED,
  METADATA,
  METADATA_ENTRIES,
  METADATA_ENTRY_BYTES,
  METADATA_HIGH,
  METADATA_LEFT_OUT,
  MISSES,
  NAMELESS_SLOT,
  NEW_SLOTS,
  NORMAL,
  NORMAL_BYTES_MAX,
  NORMAL_END,
  NO_ROOM,
  OVERSIZE_ROWS,
  OVERSIZE_SLOT,
  POWERS_OF_FIVE,
  PREVIOUS,
  RAW,
  RAW_BYTES_MAX,
  RAW_HIGH,
  ROWS_HIGH,
  ROW_GENERATIONS,
  ROW_SLOTS,
  ROW_STARTS,
  ROW_TIMESTAMPS,
  ROW_VALUES,
  STAGED,
  STARTS,
  STARTS_HIGH,
  SYMBOLS_HIGH,
  SYMBOL_COUNT,
  TAGS_COUNT_MAX,
  TYPE_TEXTS,
  UNPREDICTED,
  UNRESOLVED_SLOT,
  raiseWord,
} from './identity/memory';
import { murmur3 } from './identity/hash';
import { confirm, predictedSlot, slotOfGathered, slotOfLabels } from './identity/lookup';
import {
  GENERATION,
  ID_HASH,
  ID_SCHEME,
  KEYS,
  LIVE_COUNT,
  NEW_COUNT,
  REFUSED,
  SEGMENTS_USED,
  SEGMENT_BYTES,
  SLOT_COUNT,
  TICK,
  forgetNewSlots,
  hasTags,
  hashOfTags,
  initIdentity,
  isLive,
  lifeOf,
  markUsed,
  nextOf,
  recordOf,
  setNext,
  setWord,
  slotOfTags,
  tableEntries,
  tagsLengthOf,
  tagsOf,
  word,
} from './identity/identity';
import {
  HAS_SAMPLES,
  canonicalOfGathered,
  canonicalOfNormal,
  gatherLabels,
  normalOfCanonical,
  normalTags,
} from './identity/labels';
import { labelTypeAndUnit, takeFamily } from './remote_write/metadata';
import { skipField, takeKey, takeLength, varintValue } from './wire/protobuf';
import { takeHistogram } from './remote_write/histograms';
import { HISTOGRAM_FIELD_V2, samples } from './remote_write/samples';
import { STAGED_BYTES, STAGED_MAX, emitStaged, stage } from './remote_write/staged';
import { gatherReferences, hasName, listSymbols, SERIES_KEY_V2, UNRESOLVED } from './remote_write/symbols';
import { decodeSnappy } from './wire/snappy';
import {
  formatCarbon,
  formatCarbonCleanedUp,
  formatInflux,
  formatOpenMetrics,
} from '../lines/layout';
import { takeExposition } from './lines/exposition';
import { takeInflux } from './lines/influx';
import { areEnough, beginTexts, initLines, lineFeedsBefore, timesInMillis } from './lines/lines';
import { ID_SCHEME_PATH, ID_SCHEME_QUOTED, plainQuotedId } from './identity/verdict';
import { gatherPath, initPaths, isPath } from './identity/paths';
import { takeCarbon } from './lines/carbon';

/** Of a WriteRequest of version 1. */
const METADATA_KEY: u32 = 0x1a;

export const body: usize = BODY;
export const raw: usize = RAW;
export const canonical: usize = CANONICAL;
export const rowSlots: usize = ROW_SLOTS;
export const rowGenerations: usize = ROW_GENERATIONS;
export const rowTimestamps: usize = ROW_TIMESTAMPS;
export const rowValues: usize = ROW_VALUES;
export const rowStarts: usize = ROW_STARTS;
export const newSlots: usize = NEW_SLOTS;
export const histogramSlots: usize = HISTOGRAM_SLOTS;
export const histogramGenerations: usize = HISTOGRAM_GENERATIONS;
export const histogramTimestamps: usize = HISTOGRAM_TIMESTAMPS;
export const histogramStarts: usize = HISTOGRAM_STARTS;
export const histogramEnds: usize = HISTOGRAM_ENDS;
export const histogramSources: usize = HISTOGRAM_SOURCES;
export const histogramValues: usize = HISTOGRAM_VALUES;
export const exemplarSlots: usize = EXEMPLAR_SLOTS;
export const exemplarGenerations: usize = EXEMPLAR_GENERATIONS;
export const exemplarTimes: usize = EXEMPLAR_TIMES;
export const exemplarEnds: usize = EXEMPLAR_ENDS;
export const exemplarProblems: usize = EXEMPLAR_PROBLEMS;
export const exemplarValues: usize = EXEMPLAR_VALUES;
export const metadataEntries: usize = METADATA_ENTRIES;
/** Where the host writes names of labels and types before `init` (memory.ts). */
export const typeTexts: usize = TYPE_TEXTS;
/** Where the host writes 1 KiB of random bytes before `init`. */
export const hashKeys: usize = KEYS;

/** Lays the identity regions out; answers the end of the memory that is used, slack included. */
export function init(slotsMax: u32, tableSizeMax: u32, segmentCount: u32): usize {
  initLines();
  initPaths();
  // No histogram is read while a series is looked up.
  return initIdentity(IDENTITY, slotsMax, tableSizeMax, segmentCount, HISTOGRAM_SCRATCH) + 0x10000;
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
/**
 * Writes the canonical tags of a slot to `canonical`; answers their length, 0 for a slot without a
 * series.
 */
export function tags(slot: u32): usize {
  if (slot >= word(SLOT_COUNT) || !isLive(slot)) return 0;
  return canonicalOfRecord(recordOf(slot), CANONICAL);
}
/** Writes the canonical tags of a record; answers their length. */
function canonicalOfRecord(record: usize, target: usize): usize {
  const tags = tagsOf(record);
  const n = tagsLengthOf(record);
  return isPath(tags, n)
    ? canonicalOfGathered(gatherPath(tags, n), target)
    : canonicalOfNormal(tags, n, target);
}
/**
 * Writes the canonical tags of the `count` slots at `body` to `raw`, one after the other, and over
 * each slot the end of its tags there. Answers how many there was room for.
 */
export function tagsOfAll(count: u32): u32 {
  const end = RAW + RAW_BYTES_MAX - CANONICAL_BYTES_MAX;
  let p = RAW;
  let done: u32 = 0;
  while (done < count && p < end) {
    const at = BODY + (<usize>done << 2);
    const slot = load<u32>(at);
    if (slot < word(SLOT_COUNT) && isLive(slot)) {
      p += canonicalOfRecord(recordOf(slot), p);
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
/** Rows of the body up to the last one that has a start time: 0 when none has. */
export function startCount(): u32 {
  return word(STARTS);
}
export function histogramCount(): u32 {
  return word(HISTOGRAMS);
}
export function exemplarCount(): u32 {
  return word(EXEMPLARS);
}
/** Exemplars of the body for which there was no room. */
export function exemplarsLeftOut(): u32 {
  return word(EXEMPLARS_LEFT_OUT);
}
export function metadataCount(): u32 {
  return word(METADATA);
}
/** Slot of the first series of the body that has no metric name, 0 for none. */
export function firstNameless(): u32 {
  return word(FIRST_NAMELESS);
}
export function metadataLeftOut(): u32 {
  return word(METADATA_LEFT_OUT);
}

/** Bytes of the memory that were written so far. */
export function touchedBytes(): f64 {
  const bodies = <f64>word(BODY_HIGH) + <f64>word(RAW_HIGH) + <f64>word(ROWS_HIGH) * 24 + <f64>BODY;
  const symbols = <f64>word(SYMBOLS_HIGH) * 8 + <f64>word(LINE_FIELDS_HIGH) * 32;
  const histograms = <f64>word(HISTOGRAMS_HIGH) * 36 + <f64>word(HISTOGRAM_BYTES_HIGH);
  const starts = <f64>max(word(STARTS_HIGH), word(STARTS)) * 8;
  const table = <f64>tableEntries() * 8;
  const segments = <f64>word(SEGMENTS_USED) * <f64>SEGMENT_BYTES;
  const exemplars = <f64>word(EXEMPLARS_HIGH) * 21 + <f64>word(EXEMPLAR_BYTES_HIGH);
  const metadata = <f64>word(METADATA_HIGH) * <f64>METADATA_ENTRY_BYTES;
  return bodies + symbols + histograms + exemplars + metadata + starts + <f64>word(SLOT_COUNT) * 14 + table + segments;
}

/** As in core.ts. */
const PACKED_SAMPLE_BYTES: u32 = 32;

/** Starts a body: nothing that it uses from now on is evicted before the next one. */
export function beginRows(): void {
  setWord(TICK, word(TICK) + 1);
  setWord(NEW_COUNT, 0);
  setWord(HISTOGRAMS, 0);
  setWord(HISTOGRAM_BYTES, 0);
  setWord(EXEMPLARS, 0);
  setWord(EXEMPLAR_BYTES, 0);
  setWord(EXEMPLARS_LEFT_OUT, 0);
  setWord(METADATA, 0);
  setWord(METADATA_LEFT_OUT, 0);
  setWord(FIRST_NAMELESS, 0);
  if (word(STARTS) != 0) {
    raiseWord(STARTS_HIGH, word(STARTS));
    memory.fill(ROW_STARTS, 0, <usize>word(STARTS) << 3);
    setWord(STARTS, 0);
  }
  setWord(OVERSIZE_ROWS, 0);
  if (!isLive(word(PREVIOUS))) setWord(PREVIOUS, 0);
  // The body's first series is noted in its record, so making room for that one must not take it
  // away.
  markUsed(recordOf(word(PREVIOUS)));
}

/** Slot of the n bytes of canonical tags at `canonical`, or a negative problem. */
export function slotOfCanonical(n: u32): i32 {
  const length = normalOfCanonical(CANONICAL, n, NORMAL);
  if (length == -1) return <i32>OVERSIZE_SLOT;
  if (length < 0) return length;
  const slot = slotOfTags(NORMAL, length, hashOfTags(NORMAL, length), NEW_SLOTS);
  return slot == 0 ? NO_ROOM : <i32>slot;
}

/** Keeps the series of a slot for this body; answers 0 when the slot is another one's, or nobody's. */
export function useSlot(slot: u32, generation: u32): u32 {
  if (slot >= word(SLOT_COUNT) || !isLive(slot)) return 0;
  const record = recordOf(slot);
  if (lifeOf(record) != generation) return 0;
  markUsed(record);
  return 1;
}

let hasPackedStarts: bool = false;

/**
 * Takes the n packed samples at `raw` as rows from `row` on; answers how many before one whose slot is another one's, or nobody's.
 */
export function addPackedSamples(row: u32, n: u32): u32 {
  hasPackedStarts = false;
  raiseWord(RAW_HIGH, n * PACKED_SAMPLE_BYTES);
  for (let i: u32 = 0; i < n; i++) {
    const sample = RAW + <usize>(i * PACKED_SAMPLE_BYTES);
    const slot = load<u32>(sample);
    const generation = load<u32>(sample, 4);
    if (useSlot(slot, generation) == 0) return i;
    if (slot == OVERSIZE_SLOT) setWord(OVERSIZE_ROWS, 1);
    const at = <usize>(row + i);
    store<u32>(ROW_SLOTS + (at << 2), slot);
    store<u32>(ROW_GENERATIONS + (at << 2), generation);
    store<i64>(ROW_TIMESTAMPS + (at << 3), load<i64>(sample, 8));
    store<u64>(ROW_VALUES + (at << 3), load<u64>(sample, 16));
    const start = load<i64>(sample, 24);
    if (start == 0) continue;
    store<i64>(ROW_STARTS + (at << 3), start);
    hasPackedStarts = true;
  }
  return n;
}

/** 1 when some that were taken have a start time. */
export function packedHaveStarts(): u32 {
  return <u32>hasPackedStarts;
}

/**
 * Takes the histogram whose message, of version 2, is the n bytes at `raw`; answers 0, 1 when it is none that can be stored, or a
 * negative problem.
 */
export function addHistogram(n: u32, slot: u32, generation: u32): i32 {
  raiseWord(RAW_HIGH, n);
  const row = word(HISTOGRAMS);
  const outcome = takeHistogram(RAW, RAW + <usize>n, slot, generation, true);
  if (outcome < 0) return outcome;
  const isBad = load<u32>(HISTOGRAM_SOURCES + (<usize>row << 3), 4) != 0;
  if (isBad) setWord(HISTOGRAMS, row);
  return isBad ? 1 : 0;
}

/** Ends rows that the host has put in place. @param startCount up to the last one that has a start time */
export function endRows(rowCount: u32, startCount: u32): void {
  setWord(STARTS, startCount);
  raiseWord(ROWS_HIGH, rowCount);
  raiseWord(HISTOGRAMS_HIGH, word(HISTOGRAMS));
  raiseWord(HISTOGRAM_BYTES_HIGH, word(HISTOGRAM_BYTES));
}

export function forgetNew(): void {
  setWord(HISTOGRAMS, 0);
  setWord(EXEMPLARS, 0);
  setWord(METADATA, 0);
  setWord(FIRST_NAMELESS, 0);
  forgetNewSlots(NEW_SLOTS);
}

/**
 * Judges new series about which there is no doubt: paths, and with `plainQuoted` 1 those whose quoted ID needs no escapes. They
 * get scheme and hash of their ID; the others move to the front of the list of new slots. Answers the number of those.
 */
export function judgePlain(plainQuoted: u32): u32 {
  const count = word(NEW_COUNT);
  let asked: u32 = 0;
  for (let i: u32 = 0; i < count; i++) {
    const entry = NEW_SLOTS + (<usize>i << 2);
    const slot = load<u32>(entry);
    const record = recordOf(slot);
    const path = tagsOf(record);
    const n = tagsLengthOf(record);
    if (isPath(path, n)) {
      settle(slot, murmur3(path, n), ID_SCHEME_PATH);
      continue;
    }
    const idLength: usize = plainQuoted == 0 ? 0 : plainQuotedId(CANONICAL, tags(slot), ID_SCRATCH);
    if (idLength != 0) settle(slot, murmur3(ID_SCRATCH, idLength), ID_SCHEME_QUOTED);
    else {
      const front = NEW_SLOTS + (<usize>asked << 2);
      store<u32>(entry, load<u32>(front));
      store<u32>(front, slot);
      asked++;
    }
  }
  return asked;
}

function settle(slot: u32, idHash: u32, idScheme: u8): void {
  store<u32>(<usize>word(ID_HASH) + (<usize>slot << 2), idHash);
  store<u8>(<usize>word(ID_SCHEME) + <usize>slot, idScheme);
}

/**
 * Reads the n bytes at `body`, of version 1 or 2 of remote write; answers the number of rows, or a
 * negative problem that leaves nothing behind.
 * @param typeAndUnit 1: those of the metadata of version 2 become labels
 */
export function remoteWrite(n: u32, version: u32, typeAndUnit: u32): i32 {
  beginRows();
  raiseWord(BODY_HIGH, n);
  const rawLength = decodeSnappy(BODY, n, RAW, RAW_BYTES_MAX);
  if (rawLength < 0) return rawLength;
  raiseWord(RAW_HIGH, <u32>rawLength);
  const end = RAW + <usize>rawLength;
  const outcome = version == 2 ? walkV2(RAW, end, typeAndUnit != 0) : walk(RAW, end);
  raiseWord(HISTOGRAMS_HIGH, word(HISTOGRAMS));
  raiseWord(HISTOGRAM_BYTES_HIGH, word(HISTOGRAM_BYTES));
  raiseWord(EXEMPLARS_HIGH, word(EXEMPLARS));
  raiseWord(EXEMPLAR_BYTES_HIGH, word(EXEMPLAR_BYTES));
  raiseWord(METADATA_HIGH, word(METADATA));
  if (outcome < 0) forgetNew();
  else raiseWord(ROWS_HIGH, <u32>outcome);
  return outcome;
}

/** Where the host writes powers of five before `init` (memory.ts). */
export const powersOfFive: usize = POWERS_OF_FIVE;
export const lineProblems: usize = LINE_PROBLEMS;
export const lineNumbers: usize = LINE_NUMBERS;

/**
 * Reads lines of the n bytes at `body`, which has room for one more, until there are `rowsMax` rows, or those of the line that
 * brings more; answers how many bytes were read, or a negative problem that leaves nothing behind. Rows have their times in
 * nanoseconds.
 * @param format of lines/layout.ts
 * @param isMore 1: its rows come to those of the texts before
 * @param isLast 1: nothing comes behind them
 * @param unitNanos of times in the lines, where the format does not say it
 * @param nanos time of a line that has none
 */
export function lines(
  format: u32,
  n: u32,
  isMore: u32,
  isLast: u32,
  rowsMax: u32,
  unitNanos: i64,
  nanos: i64,
): i32 {
  if (isMore == 0) {
    beginRows();
    beginTexts();
  }
  raiseWord(BODY_HIGH, n);
  const isEnd = isLast != 0;
  let outcome: i32;
  if (format == formatInflux) outcome = takeInflux(n, isEnd, rowsMax, unitNanos, nanos);
  else if (format == formatCarbon) outcome = takeCarbon(n, isEnd, rowsMax, nanos, false);
  else if (format == formatCarbonCleanedUp) outcome = takeCarbon(n, isEnd, rowsMax, nanos, true);
  else outcome = takeExposition(n, isEnd, rowsMax, nanos, format == formatOpenMetrics);
  if (outcome < 0) forgetNew();
  else raiseWord(ROWS_HIGH, word(LINE_ROWS));
  return outcome;
}
export function lineRowCount(): u32 {
  return word(LINE_ROWS);
}
/** 1 when the rows so far are enough to be written. */
export function linesAreEnough(rowsMax: u32): u32 {
  return <u32>areEnough(rowsMax);
}
/** Bad lines; the first ones are listed. */
export function lineProblemCount(): u32 {
  return word(LINE_PROBLEM_COUNT);
}
/** Rows whose values the host has to read. */
export function lineNumberCount(): u32 {
  return word(LINE_NUMBER_COUNT);
}
/** Line feeds in the first n bytes of the text. */
export function lineFeeds(n: u32): u32 {
  return lineFeedsBefore(BODY + <usize>n);
}
/** Has the times of rows, which are in nanoseconds, in milliseconds, when none is finer; answers 1 when they are. */
export function rowTimesInMillis(rowCount: u32): u32 {
  return <u32>timesInMillis(rowCount);
}

/**
 * Version 2: labels are pairs of numbers in a table of texts, which may stand anywhere in the
 * request.
 */
function walkV2(p: usize, end: usize, typeAndUnit: bool): i32 {
  const symbolCount = listSymbols(p, end);
  if (symbolCount < 0) return symbolCount;
  raiseWord(SYMBOLS_HIGH, <u32>symbolCount);
  setWord(SYMBOL_COUNT, <u32>symbolCount);
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
    rowCount = seriesV2(p, seriesEnd, <u32>symbolCount, rowCount, typeAndUnit);
    if (rowCount < 0) return rowCount;
    p = seriesEnd;
  }
  return rowCount;
}

function seriesV2(p: usize, end: usize, symbolCount: u32, rowCount: i32, typeAndUnit: bool): i32 {
  const gathered = gatherReferences(p, end, symbolCount);
  if (gathered < 0) return gathered;
  let slot = <i32>OVERSIZE_SLOT;
  let count = <u32>gathered & (HAS_SAMPLES - 1);
  if (typeAndUnit && (gathered & UNRESOLVED) == 0) count = labelTypeAndUnit(p, end, symbolCount, count);
  if ((gathered & UNRESOLVED) != 0) slot = <i32>UNRESOLVED_SLOT;
  else if (count <= TAGS_COUNT_MAX && !hasName(count)) {
    slot = <i32>NAMELESS_SLOT;
    if ((gathered & HAS_SAMPLES) != 0 && word(FIRST_NAMELESS) == 0) {
      // One is kept all the same, so that its labels can be told.
      const first = slotOfGathered(count, 0);
      if (first < 0) return first;
      setWord(FIRST_NAMELESS, <u32>first);
    }
  } else if ((gathered & HAS_SAMPLES) != 0) {
    slot = slotOfLabels(count);
    if (slot < 0) return slot;
  }
  return samples(p, end, <u32>slot, lifeOf(recordOf(slot)), rowCount, true, HISTOGRAM_FIELD_V2);
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
      if (key == METADATA_KEY) {
        p = takeLength(p, end);
        if (p == 0) return MALFORMED;
        const past = p + <usize>varintValue();
        if (takeFamily(p, past) < 0) return MALFORMED;
        p = past;
        continue;
      }
      if (key >> 3 == METADATA_KEY >> 3) return MALFORMED;
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
  const predicted = predictedSlot();
  if (predicted != 0) {
    const record = recordOf(predicted);
    const length = tagsLengthOf(record);
    if (length <= end - p && equalBytes(tagsOf(record), p, length)) {
      const outcome = samples(p + length, end, predicted, lifeOf(record), rowCount, false);
      if (outcome != LATE_LABEL) {
        confirm(predicted, record);
        return outcome;
      }
    }
  }
  const gathered = gatherLabels(p, end);
  if (gathered < 0) return gathered;
  let slot = <i32>OVERSIZE_SLOT;
  if ((gathered & HAS_SAMPLES) != 0) {
    slot = slotOfGathered(<u32>gathered & (HAS_SAMPLES - 1), predicted);
    if (slot < 0) return slot;
  }
  return samples(p, end, <u32>slot, lifeOf(recordOf(slot)), rowCount, true);
}
