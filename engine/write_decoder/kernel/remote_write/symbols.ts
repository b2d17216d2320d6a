// Remote write 2.0 (io.prometheus.write.v2.Request): all texts of a request stand in one table, and
// a series names its labels by pairs of numbers, name and value. They are gathered like the labels
// of version 1.

import {
  LABELS,
  LABEL_TEXT_BYTES,
  LABEL_TEXT_BYTES_MAX,
  MALFORMED,
  SYMBOLS,
  SYMBOLS_MAX,
  TAGS_COUNT_MAX,
  TOO_MANY_SYMBOLS,
  TOO_MUCH_TEXT,
} from '../identity/memory';
import { setWord, word } from '../identity/identity';
import { HAS_SAMPLES, isNamed, LABEL_BYTES, NAME_WORD } from '../identity/labels';
import { skipField, takeKey, takeLength, takeVarint, varintValue } from '../wire/protobuf';

const SYMBOL_KEY: u32 = 0x22;
export const SERIES_KEY_V2: u32 = 0x2a;
/** Samples, histograms, exemplars and metadata are the fields after the labels up to this one. */
const LAST_FIELD: u32 = 5;
const REFERENCES_KEY: u32 = 0x0a;
const REFERENCE_KEY: u32 = 0x08;
/** In the answer of `gatherReferences`. */
export const UNRESOLVED: i32 = HAS_SAMPLES << 1;

/**
 * Lists the texts of a request at SYMBOLS and checks its outermost fields; answers the number of
 * texts or a negative problem.
 */
export function listSymbols(p: usize, end: usize): i32 {
  let count: u32 = 0;
  while (p < end) {
    p = takeKey(p, end);
    if (p == 0) return MALFORMED;
    const key = <u32>varintValue();
    if (key != SYMBOL_KEY) {
      const field = key >> 3;
      if ((field == 4 || field == 5) && key != SERIES_KEY_V2) return MALFORMED;
      p = skipField(p, end, key & 7);
      if (p == 0) return MALFORMED;
      continue;
    }
    p = takeLength(p, end);
    if (p == 0) return MALFORMED;
    if (count == SYMBOLS_MAX) return TOO_MANY_SYMBOLS;
    const entry = SYMBOLS + (<usize>count << 3);
    store<u32>(entry, <u32>p);
    store<u32>(entry, <u32>varintValue(), 4);
    count++;
    p += <usize>varintValue();
  }
  return <i32>count;
}

/**
 * Lists the labels of a series at LABELS, at most TAGS_COUNT_MAX + 1 of them. Answers their number,
 * with HAS_SAMPLES when anything but labels is among the fields, with UNRESOLVED when they are no pairs of texts that are
 * there, or a negative problem.
 */
export function gatherReferences(p: usize, end: usize, symbolCount: u32): i32 {
  let hasSamples: i32 = 0;
  let unresolved: i32 = 0;
  let count: u32 = 0;
  let textBytes = <u64>word(LABEL_TEXT_BYTES);
  while (p < end) {
    p = takeKey(p, end);
    if (p == 0) return MALFORMED;
    const key = <u32>varintValue();
    if (key == REFERENCES_KEY || key == REFERENCE_KEY) {
      // Packed, or one number a field.
      let partEnd = end;
      if (key == REFERENCES_KEY) {
        p = takeLength(p, end);
        if (p == 0) return MALFORMED;
        partEnd = p + <usize>varintValue();
        if (p == partEnd) continue;
      } else if (p == end) return MALFORMED;
      do {
        let reference = <u64>load<u8>(p);
        if (reference < 128) p++;
        else {
          p = takeVarint(p, partEnd);
          if (p == 0) return MALFORMED;
          reference = varintValue();
        }
        if (reference >= <u64>symbolCount) unresolved = UNRESOLVED;
        else {
          // A text of a label that is one too many stands at the same place again and again.
          const text = min(count, TAGS_COUNT_MAX * 2);
          const symbol = SYMBOLS + (<usize>reference << 3);
          store<u64>(LABELS + (<usize>text << 3), load<u64>(symbol));
          textBytes += <u64>load<u32>(symbol, 4);
        }
        count++;
      } while (key == REFERENCES_KEY && p < partEnd);
    } else {
      if (key >> 3 == 1) return MALFORMED;
      if (key >> 3 <= LAST_FIELD && (key & 7) == 2) hasSamples = HAS_SAMPLES;
      p = skipField(p, end, key & 7);
      if (p == 0) return MALFORMED;
    }
  }
  if ((count & 1) != 0) unresolved = UNRESOLVED;
  // A few bytes of a series may name much text, and all of it is looked at.
  if (textBytes > LABEL_TEXT_BYTES_MAX) return TOO_MUCH_TEXT;
  setWord(LABEL_TEXT_BYTES, <u32>textBytes);
  return <i32>min(count >> 1, TAGS_COUNT_MAX + 1) | hasSamples | unresolved;
}

/** Whether the metric's name is among the gathered labels. */
export function hasName(count: u32): bool {
  const end = LABELS + <usize>count * LABEL_BYTES;
  for (let entry = LABELS; entry < end; entry += LABEL_BYTES) {
    if (isNamed(entry, NAME_WORD)) return true;
  }
  return false;
}
