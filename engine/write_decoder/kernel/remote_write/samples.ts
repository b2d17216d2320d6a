// The samples, native histograms and exemplars of one series: from the wire to rows.

import {
  EXEMPLARS,
  EXEMPLARS_LEFT_OUT,
  EXEMPLAR_BYTES,
  HISTOGRAMS,
  HISTOGRAM_BYTES,
  LATE_LABEL,
  MALFORMED,
  OVERSIZE_ROWS,
  raiseWord,
  ROWS_MAX,
  ROW_GENERATIONS,
  ROW_SLOTS,
  ROW_STARTS,
  ROW_TIMESTAMPS,
  ROW_VALUES,
  STARTS,
  TOO_MANY_ROWS,
  UNRESOLVED_SLOT,
} from '../identity/memory';
import { takeExemplar } from './exemplars';
import { startNanosOf, takeHistogram } from './histograms';
import { setWord, word } from '../identity/identity';
import { takeMetadata } from './metadata';
import { skipField, takeKey, takeLength, takeVarint, varintValue } from '../wire/protobuf';

/** Fields of a TimeSeries that hold native histograms, in version 1 and 2 of remote write. */
export const HISTOGRAM_FIELD: u32 = 4;
export const HISTOGRAM_FIELD_V2: u32 = 3;
/** Exemplars are the other one of these two fields. */
const HISTOGRAM_AND_EXEMPLAR: u32 = 7;
/** In version 2. */
const METADATA_FIELD: u32 = 5;

/**
 * Emits the rows of the samples between p and end, with the series' slot and its generation. Labels
 * are passed over when `labelsGathered`, else they are a LATE_LABEL. Answers the number of rows
 * after it, or a negative problem.
 */
export function samples(
  p: usize,
  end: usize,
  slot: u32,
  generation: u32,
  rowCount: i32,
  labelsGathered: bool,
  histogramField: u32 = HISTOGRAM_FIELD,
): i32 {
  const rowsBefore = rowCount;
  const histogramsBefore = word(HISTOGRAMS);
  const histogramBytesBefore = word(HISTOGRAM_BYTES);
  const exemplarsBefore = word(EXEMPLARS);
  const exemplarBytesBefore = word(EXEMPLAR_BYTES);
  const leftOutBefore = word(EXEMPLARS_LEFT_OUT);
  while (p < end) {
    let key: u32 = <u32>load<u8>(p);
    if (key == 0x12 || (key == 0x0a && labelsGathered)) p++;
    else {
      p = takeKey(p, end);
      if (p == 0) return MALFORMED;
      key = <u32>varintValue();
      const field = key >> 3;
      if (field == histogramField) {
        if ((key & 7) != 2) return MALFORMED;
        p = takeLength(p, end);
        if (p == 0) return MALFORMED;
        const past = p + <usize>varintValue();
        const problem = takeHistogram(p, past, slot, generation, histogramField == HISTOGRAM_FIELD_V2);
        if (problem < 0) return problem;
        p = past;
        continue;
      }
      const isV2 = histogramField == HISTOGRAM_FIELD_V2;
      const isExemplar = field == HISTOGRAM_AND_EXEMPLAR - histogramField;
      if (isExemplar || (field == METADATA_FIELD && isV2)) {
        if ((key & 7) != 2) return MALFORMED;
        p = takeLength(p, end);
        if (p == 0) return MALFORMED;
        const past = p + <usize>varintValue();
        const problem = isExemplar
          ? takeExemplar(p, past, slot, generation, isV2)
          : takeMetadata(p, past, slot, generation);
        if (problem < 0) return problem;
        p = past;
        continue;
      }
      if (field > 2 || (field == 1 && labelsGathered)) {
        p = skipField(p, end, key & 7);
        if (p == 0) return MALFORMED;
        continue;
      }
      if ((key & 7) != 2) return MALFORMED;
      if (field == 1) {
        // They come again with the series that all labels name.
        setWord(HISTOGRAMS, histogramsBefore);
        setWord(HISTOGRAM_BYTES, histogramBytesBefore);
        setWord(EXEMPLARS, exemplarsBefore);
        setWord(EXEMPLAR_BYTES, exemplarBytesBefore);
        setWord(EXEMPLARS_LEFT_OUT, leftOutBefore);
        return LATE_LABEL;
      }
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
    if (!sample(p, sampleEnd, <usize>rowCount, histogramField == HISTOGRAM_FIELD_V2)) return MALFORMED;
    store<u32>(ROW_SLOTS + (<usize>rowCount << 2), slot);
    store<u32>(ROW_GENERATIONS + (<usize>rowCount << 2), generation);
    rowCount++;
    p = sampleEnd;
  }
  if (slot <= UNRESOLVED_SLOT) {
    const has =
      rowCount != rowsBefore ||
      word(HISTOGRAMS) != histogramsBefore ||
      word(EXEMPLARS) != exemplarsBefore;
    if (has) setWord(OVERSIZE_ROWS, 1);
  }
  return rowCount;
}

/** Writes value and timestamp of one sample to its row, and its start time when this version has one. */
@inline
function sample(p: usize, end: usize, row: usize, hasStart: bool): bool {
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
        store<u64>(ROW_TIMESTAMPS + (row << 3), bits);
        store<u64>(ROW_VALUES + (row << 3), load<u64>(p, 1));
        return true;
      }
    }
  }
  return sampleOfFields(p, end, row, hasStart);
}

function sampleOfFields(p: usize, end: usize, row: usize, hasStart: bool): bool {
  store<u64>(ROW_TIMESTAMPS + (row << 3), 0);
  store<u64>(ROW_VALUES + (row << 3), 0);
  while (p < end) {
    p = takeKey(p, end);
    if (p == 0) return false;
    const key = <u32>varintValue();
    const field = key >> 3;
    if (field == 1) {
      if ((key & 7) != 1 || end - p < 8) return false;
      store<u64>(ROW_VALUES + (row << 3), load<u64>(p));
      p += 8;
    } else if (field == 2) {
      if ((key & 7) != 0) return false;
      p = takeVarint(p, end);
      if (p == 0) return false;
      store<u64>(ROW_TIMESTAMPS + (row << 3), varintValue());
    } else if (field == 3 && hasStart) {
      if ((key & 7) != 0) return false;
      p = takeVarint(p, end);
      if (p == 0) return false;
      store<i64>(ROW_STARTS + (row << 3), startNanosOf(<i64>varintValue()));
      raiseWord(STARTS, <u32>row + 1);
    } else {
      p = skipField(p, end, key & 7);
      if (p == 0) return false;
    }
  }
  return true;
}
