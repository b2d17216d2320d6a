// Influx's line protocol:
//
//     measurement,key=value,key=value field=1.5,field=2i,field=t,field="text" 1700000000000000000
//
// Each field that is a number or a boolean is a row of the series `measurement_field` with the line's tags; texts are none, as
// at M3. The twin is engine/write_decoder/lines/influx_twin.ts.

import {
  badFieldEnd,
  badLineEnd,
  badNumber,
  badTime,
  lineTextBytesMax,
  noFieldEquals,
  noFieldKey,
  noFieldValue,
  noFields,
  noMeasurement,
  noQuote,
  noTagEquals,
  noTagKey,
  noTagValue,
  notUtf8,
  numberOutOfRange,
  tagTwice,
  tagsTooLong,
  timeOutOfRange,
  tooManyTags,
  tooMuchText,
} from '../../lines/layout';
import { compareBytes, copyBytes, equalBytes } from '../identity/bytes';
import {
  markUsed,
  NEW_COUNT,
  recordOf,
  setSibling,
  setWord,
  siblingOf,
  tagsLengthOf,
  word,
} from '../identity/identity';
import { LABEL_BYTES, sortedLabels } from '../identity/labels';
import { predictedSlot, slotOfLabels } from '../identity/lookup';
import {
  BODY,
  LABELS,
  LINE_FIELDS,
  LINE_FIELDS_HIGH,
  LINE_NUMBER_COUNT,
  LINE_ROWS,
  MISSES,
  NO_ROOM,
  OVERSIZE_SLOT,
  PREVIOUS,
  raiseWord,
  TAGS_BYTES_MAX,
  TAGS_COUNT_MAX,
} from '../identity/memory';
import { decimalBits, decimalNeedsHost, takeDecimal } from './decimal';
import {
  integerBits,
  integerFits,
  integerIsNegative,
  integerIsOver,
  signedInteger,
  takeInteger,
} from './integer';
import { firstName, firstNameLength, knownMeasurementLength, noteInflux, pastKnownInflux } from './known';
import {
  addRow,
  BACKSLASH,
  badLine,
  beginText,
  byteAt,
  COMMA,
  countNewTags,
  CROWDED,
  dropRows,
  dropTexts,
  endsLine,
  EQUALS,
  INCOMPLETE,
  isCrowdedAlone,
  isCut,
  isFull,
  isSameName,
  isTakenText,
  KEY_STOP,
  LABEL_OVERHEAD,
  leaveNumber,
  MEASUREMENT_STOP,
  NAME,
  NAME_LENGTH,
  nameTaken,
  NOT_METRIC,
  NOT_TAG,
  noteProblem,
  pastComment,
  pastLine,
  putName,
  QUOTE,
  scratchEnd,
  SPACE,
  takenAt,
  takenClasses,
  takenLength,
  takeText,
} from './lines';

/** key address u32 | key length u32 | classes of the key u32 | kind u32 | value bits u64 | text address u32 | text length u32 */
const FIELD_BYTES: usize = 32;
const NO_VALUE: u32 = 0;
const VALUE: u32 = 1;
/** The host reads it. */
const HOST_VALUE: u32 = 2;
const UNDERSCORE: u32 = 0x5f;
/** The name of a known series and what is beside it. */
const KNOWN_NAME_BYTES_MAX: usize = 256;

let endOfText: usize = 0;
let unitNanos: i64 = 1;
let defaultNanos: i64 = 0;
let timeMax: i64 = 0;

/**
 * Reads the lines of the n bytes at BODY until it has enough rows; answers how many bytes it has read, or NO_ROOM when there is
 * none for the series of the first line.
 * @param isLast nothing comes behind them
 * @param unit of the times in the lines, in nanoseconds
 * @param nanos time of lines that have none
 */
export function takeInflux(n: u32, isLast: bool, rowsMax: u32, unit: i64, nanos: i64): i32 {
  endOfText = beginText(n, isLast);
  unitNanos = unit;
  defaultNanos = nanos;
  timeMax = i64.MAX_VALUE / unit;
  let p = BODY;
  while (!isFull(rowsMax)) {
    while (p < endOfText && (byteAt(p) == SPACE || endsLine(byteAt(p)))) p++;
    if (p >= endOfText) break;
    const past = byteAt(p) == 0x23 ? pastComment(p) : takeLine(p);
    if (past == CROWDED && isCrowdedAlone()) return NO_ROOM;
    if (past == INCOMPLETE || past == CROWDED) break;
    p = past;
  }
  return <i32>(min(p, endOfText) - BODY);
}

@inline
function endsValue(byte: u32): bool {
  return byte == COMMA || byte == SPACE || endsLine(byte);
}

let measurementAt: usize = 0;
let measurementLength: usize = 0;
let tagCount: u32 = 0;
/** Where measurement and tags of the line end. */
let tagsEnd: usize = 0;
/** Bytes of the tags in normal form, at most. */
let tagBytes: u32 = 0;
let fieldCount: u32 = 0;
let valueCount: u32 = 0;
let longestKey: u32 = 0;
let nanosOfLine: i64 = 0;
/** Of a line that is bad. */
let problem: u32 = 0;
let problemAt: usize = 0;

@inline
function fail(at: usize, reason: u32): usize {
  problemAt = at;
  problem = reason;
  return 0;
}

/** Reads a line; answers the position behind it, INCOMPLETE or CROWDED. */
function takeLine(line: usize): usize {
  const known = takeKnownLine(line);
  return known != INCOMPLETE ? known : takeAnyLine(line);
}

/**
 * Reads a line whose series are those that followed last time; answers the position behind it, or INCOMPLETE when it is no such
 * line. Then nothing was done.
 */
function takeKnownLine(line: usize): usize {
  let slot = predictedSlot();
  if (slot == 0) return INCOMPLETE;
  let record = recordOf(slot);
  const firstTagsLength = tagsLengthOf(record);
  let p = pastKnownInflux(line, record);
  if (p == 0) return INCOMPLETE;
  const measurement = knownMeasurementLength();
  while (byteAt(p) == SPACE) p++;
  let field = LINE_FIELDS;
  while (true) {
    const nameLength = firstNameLength(record);
    const name = firstName(record);
    if (nameLength <= measurement + 1 || byteAt(name + measurement) != UNDERSCORE) return INCOMPLETE;
    if (field != LINE_FIELDS && !equalBytes(name, line, measurement)) return INCOMPLETE;
    const keyLength = nameLength - measurement - 1;
    if (!equalBytes(p, name + measurement + 1, keyLength) || byteAt(p + keyLength) != EQUALS) return INCOMPLETE;
    p = takeValue(p + keyLength + 1, field);
    if (p == 0 || load<u32>(field, 12) == NO_VALUE) return INCOMPLETE;
    store<u32>(field, slot);
    field += FIELD_BYTES;
    if (byteAt(p) != COMMA) break;
    p++;
    slot = siblingOf(record);
    if (slot == 0) return INCOMPLETE;
    record = recordOf(slot);
  }
  const count = (field - LINE_FIELDS) / FIELD_BYTES;
  // More than `emit` reckons with.
  if (count * (2 * firstTagsLength + KNOWN_NAME_BYTES_MAX) > <usize>lineTextBytesMax) return INCOMPLETE;
  p = takeTime(p);
  if (p == 0) return INCOMPLETE;
  const past = pastLine(p);
  if (past == INCOMPLETE) return past;
  raiseWord(LINE_FIELDS_HIGH, <u32>count);
  for (let each = LINE_FIELDS; each < field; each += FIELD_BYTES) {
    const known = load<u32>(each);
    markUsed(recordOf(known));
    if (load<u32>(each, 12) == HOST_VALUE) leaveNumber(<usize>load<u32>(each, 24), <usize>load<u32>(each, 28));
    addRow(known, nanosOfLine, load<u64>(each, 16));
  }
  setWord(PREVIOUS, slot);
  setWord(MISSES, 0);
  return past;
}

function takeAnyLine(line: usize): usize {
  dropTexts();
  problem = 0;
  let p = takeTags(line);
  if (p != 0) p = takeFields(p);
  if (p != 0) p = takeTime(p);
  if (p == 0) return problem == 0 ? INCOMPLETE : badLine(line, problemAt, problem);
  const past = pastLine(p);
  if (past == INCOMPLETE || valueCount == 0) return past;
  const outcome = emit(line);
  if (outcome < 0) return CROWDED;
  if (outcome > 0) noteProblem(line, line, <u32>outcome);
  return past;
}

/** Lists the tags at LABELS. Answers where the fields begin; 0 for a bad line. */
function takeTags(line: usize): usize {
  let p = takeText(line, MEASUREMENT_STOP, false);
  if (takenLength() == 0) return fail(p, noMeasurement);
    if (!isTakenText()) return fail(p, notUtf8);
  nameTaken(NOT_METRIC);
  measurementAt = takenAt();
  measurementLength = takenLength();
  tagCount = 0;
  tagBytes = 0;
  while (byteAt(p) == COMMA) {
    const key = p + 1;
    p = takeText(key, KEY_STOP, true);
    if (takenLength() == 0) return fail(p, noTagKey);
    if (!isTakenText()) return fail(p, notUtf8);
    if (byteAt(p) != EQUALS) return fail(p, noTagEquals);
    if (tagCount == TAGS_COUNT_MAX - 1) return fail(key, tooManyTags);
    nameTaken(NOT_TAG);
    const label = LABELS + <usize>tagCount * LABEL_BYTES;
    store<u32>(label, <u32>takenAt());
    store<u32>(label, <u32>takenLength(), 4);
    tagBytes += <u32>takenLength() + LABEL_OVERHEAD;
    p = takeText(p + 1, KEY_STOP, true);
    if (takenLength() == 0) return fail(p, noTagValue);
    if (!isTakenText()) return fail(p, notUtf8);
    store<u32>(label, <u32>takenAt(), 8);
    store<u32>(label, <u32>takenLength(), 12);
    tagBytes += <u32>takenLength();
    tagCount++;
  }
  if (byteAt(p) != SPACE) return fail(p, noFields);
  tagsEnd = p;
  while (byteAt(p) == SPACE) p++;
  return p;
}

/** Lists the fields. Answers where they end; 0 for a bad line, or for one that goes on in the next text. */
function takeFields(p: usize): usize {
  fieldCount = 0;
  valueCount = 0;
  longestKey = 0;
  while (true) {
    p = takeText(p, KEY_STOP, true);
    if (takenLength() == 0) return fail(p, noFieldKey);
    if (!isTakenText()) return fail(p, notUtf8);
    if (byteAt(p) != EQUALS) return fail(p, noFieldEquals);
    const field = LINE_FIELDS + <usize>fieldCount * FIELD_BYTES;
    store<u32>(field, <u32>takenAt());
    store<u32>(field, <u32>takenLength(), 4);
    store<u32>(field, takenClasses(), 8);
    longestKey = max(longestKey, <u32>takenLength());
    p = takeValue(p + 1, field);
    if (p == 0) return 0;
    fieldCount++;
    if (load<u32>(field, 12) != NO_VALUE) valueCount++;
    const byte = byteAt(p);
    if (byte != COMMA) {
      if (byte == SPACE || endsLine(byte)) break;
      return fail(p, badFieldEnd);
    }
    p++;
  }
  raiseWord(LINE_FIELDS_HIGH, fieldCount);
  return p;
}

/** Reads the value of a field; answers where it ends, 0 as above. */
function takeValue(p: usize, field: usize): usize {
  const byte = byteAt(p);
  if (byte - 0x30 < 10 || byte == 0x2d || byte == 0x2e) return takeNumber(p, field);
  if (byte == QUOTE) {
    store<u32>(field, NO_VALUE, 12);
    return takeQuoted(p);
  }
  const end = p + lengthOfBoolean(p);
  if (end == p || !endsValue(byteAt(end))) return fail(p, noFieldValue);
  const isTrue = (byte | 0x20) == 0x74;
  store<u32>(field, VALUE, 12);
  store<f64>(field, isTrue ? 1 : 0, 16);
  return end;
}

function takeNumber(p: usize, field: usize): usize {
  store<u32>(field, VALUE, 12);
  let end = takeInteger(p);
  if (end != 0) {
    const byte = byteAt(end);
    if (byte == 0x69 || byte == 0x75) {
      if (!endsValue(byteAt(end + 1)) || (byte == 0x75 && integerIsNegative())) return fail(p, badNumber);
      if (byte == 0x69 ? !integerFits() : integerIsOver()) return fail(p, numberOutOfRange);
      // A whole number has no negative zero.
      store<u64>(field, byte == 0x69 ? reinterpret<u64>(<f64>signedInteger()) : integerBits(), 16);
      return end + 1;
    }
    if (endsValue(byte) && !integerIsOver()) {
      store<u64>(field, integerBits(), 16);
      return end;
    }
  }
  end = takeDecimal(p);
  if (end == 0 || !endsValue(byteAt(end))) return fail(p, badNumber);
  const bits = decimalBits();
  if ((bits & 0x7ff0_0000_0000_0000) == 0x7ff0_0000_0000_0000) return fail(p, numberOutOfRange);
  store<u64>(field, bits, 16);
  if (decimalNeedsHost()) {
    store<u32>(field, HOST_VALUE, 12);
    store<u32>(field, <u32>p, 24);
    store<u32>(field, <u32>(end - p), 28);
  }
  return end;
}

/** Position behind the closing quote; 0 where there is none. */
function takeQuoted(p: usize): usize {
  for (let q = p + 1; q < endOfText; q++) {
    const byte = byteAt(q);
    if (byte == QUOTE) return q + 1;
    if (byte == BACKSLASH) {
      const next = byteAt(q + 1);
      if (next == QUOTE || next == BACKSLASH) q++;
    }
  }
  return isCut(endOfText) ? 0 : fail(p, noQuote);
}

// Texts as little-endian words.
const RUE: u32 = 0x65_7572;
const RUE_UPPER: u32 = 0x45_5552;
const ALSE: u32 = 0x6573_6c61;
const ALSE_UPPER: u32 = 0x4553_4c41;

/** Of t, T, true, True, TRUE and the same of false; 0 for another text. */
function lengthOfBoolean(p: usize): usize {
  const byte = byteAt(p);
  const isUpper = byte < 0x60;
  const rest = load<u32>(p, 1);
  if ((byte | 0x20) == 0x74) {
    const three = rest & 0xff_ffff;
    if (three == RUE || (isUpper && three == RUE_UPPER)) return 4;
    return 1;
  }
  if ((byte | 0x20) != 0x66) return 0;
  return rest == ALSE || (isUpper && rest == ALSE_UPPER) ? 5 : 1;
}

/** Reads the time, if there is one; answers where the line ends, 0 for a bad line. */
function takeTime(p: usize): usize {
  while (byteAt(p) == SPACE) p++;
  nanosOfLine = defaultNanos;
  if (endsLine(byteAt(p))) return p;
  const end = takeInteger(p);
  if (end == 0) return fail(p, badTime);
  const time = signedInteger();
  if (!integerFits() || time > timeMax || time < -timeMax) return fail(p, timeOutOfRange);
  nanosOfLine = time * unitNanos;
  p = end;
  while (byteAt(p) == SPACE) p++;
  return endsLine(byteAt(p)) ? p : fail(p, badLineEnd);
}

/**
 * Makes rows of the fields: 0, or what is wrong with the tags. Negative when there is no room for their series: then there are
 * none.
 */
function emit(line: usize): i32 {
  const nameBytes = NAME_LENGTH + LABEL_OVERHEAD + <u32>measurementLength + 1 + longestKey;
  if (tagBytes + nameBytes > <u32>TAGS_BYTES_MAX) return tagsTooLong;
  if (<u64>(tagBytes + nameBytes) * <u64>valueCount > <u64>lineTextBytesMax) return tooMuchText;
  const name = placeOfName();
  if (name == 0) return tagTwice;
  const text = scratchEnd();
  copyBytes(text, measurementAt, measurementLength);
  store<u8>(text + measurementLength, 0x5f);
  const tail = text + measurementLength + 1;
  store<u32>(name, <u32>NAME);
  store<u32>(name, NAME_LENGTH, 4);
  store<u32>(name, <u32>text, 8);
  const rowsBefore = word(LINE_ROWS);
  const numbersBefore = word(LINE_NUMBER_COUNT);
  const end = LINE_FIELDS + <usize>fieldCount * FIELD_BYTES;
  let isKnown = false;
  let before = OVERSIZE_SLOT;
  for (let field = LINE_FIELDS; field < end; field += FIELD_BYTES) {
    const kind = load<u32>(field, 12);
    if (kind == NO_VALUE) continue;
    const key = <usize>load<u32>(field);
    const keyLength = <usize>load<u32>(field, 4);
    if ((load<u32>(field, 8) & NOT_METRIC) == 0) copyBytes(tail, key, keyLength);
    else putName(tail, key, keyLength, NOT_METRIC);
    store<u32>(name, <u32>(measurementLength + 1 + keyLength), 12);
    const newBefore = word(NEW_COUNT);
    const slot = slotOfLabels(tagCount + 1);
    if (slot < 0) {
      dropRows(rowsBefore, numbersBefore);
      return slot;
    }
    countNewTags(newBefore, tagBytes + nameBytes);
    if (before == OVERSIZE_SLOT) isKnown = noteInflux(line, tagsEnd, recordOf(slot));
    else if (isKnown && <u32>slot != OVERSIZE_SLOT) setSibling(recordOf(before));
    before = <u32>slot;
    if (kind == HOST_VALUE) leaveNumber(<usize>load<u32>(field, 24), <usize>load<u32>(field, 28));
    addRow(<u32>slot, nanosOfLine, load<u64>(field, 16));
  }
  return 0;
}

/** Sorts the tags and makes room for the name among them; answers its place, or 0 where two tags have one name. */
function placeOfName(): usize {
  const from = sortedLabels(tagCount);
  const tags = <usize>tagCount * LABEL_BYTES;
  let before: usize = 0;
  for (let at: usize = 0; at < tags; at += LABEL_BYTES) {
    if (at > 0 && isSameName(from + at, from + at - LABEL_BYTES)) return 0;
    const order = orderToName(from + at);
    if (order == 0) return 0;
    if (order < 0) before = at + LABEL_BYTES;
  }
  if (from != LABELS) memory.copy(LABELS, from, before);
  memory.copy(LABELS + before + LABEL_BYTES, from + before, tags - before);
  return LABELS + before;
}

/** Whether the label's name comes before `__name__` (negative), is it (0) or comes behind it. */
@inline
function orderToName(label: usize): i32 {
  const first = byteAt(<usize>load<u32>(label));
  if (first != 0x5f) return first < 0x5f ? -1 : 1;
  return compareBytes(<usize>load<u32>(label), <usize>load<u32>(label, 4), NAME, <usize>NAME_LENGTH);
}
