// Prometheus' text exposition format, and OpenMetrics:
//
//     http_requests_total{method="post",code="200"} 1027 1395066363000
//     {"my.name",dc="eu"} 1
//
// In OpenMetrics times are seconds, and an exemplar may follow: ` # {trace_id="x"} 0.5 1395066363.1`. What makes a whole text none
// of OpenMetrics is told before (coordinator/api/lines/openmetrics). Comments are passed over, `# EOF` as well. The twin is
// engine/write_decoder/lines/exposition_twin.ts.

import {
  badLabelEnd,
  badLineEnd,
  badMetricNameEnd,
  badNumber,
  badTime,
  metricNameTwice,
  noExemplar,
  noLabelEquals,
  noLabelName,
  noLabelValue,
  noMetricName,
  noQuote,
  notUtf8,
  noTime,
  noValue,
  numberOutOfRange,
  tagsTooLong,
  tagTwice,
  timeOutOfRange,
  tooManyTags,
} from '../../lines/layout';
import { copyBytes, runesOf } from '../identity/bytes';
import { NEW_COUNT, recordOf, word } from '../identity/identity';
import { LABEL_BYTES } from '../identity/labels';
import { confirm, predictedSlot, slotOfLabels } from '../identity/lookup';
import { BODY, LABELS, NO_ROOM, OVERSIZE_SLOT, TAGS_BYTES_MAX, TAGS_COUNT_MAX } from '../identity/memory';
import {
  decimalBits,
  decimalDigits,
  decimalIsNegative,
  decimalIsOver,
  decimalNeedsHost,
  decimalPower,
  takeDigits,
  takeNumber,
} from './decimal';
import { integerFits, signedInteger, takeInteger } from './integer';
import { noteExposition, pastKnownExposition } from './known';
import {
  addRow,
  BACKSLASH,
  badLine,
  beginText,
  byteAt,
  classOf,
  COMMA,
  countNewTags,
  CROWDED,
  dropTexts,
  endsLine,
  EQUALS,
  INCOMPLETE,
  isCrowdedAlone,
  isFull,
  isSpace,
  LABEL_OVERHEAD,
  leaveNumber,
  LINE_FEED,
  NAME,
  NAME_LENGTH,
  NANOS_PER_MILLI,
  NOT_METRIC,
  NOT_TAG,
  pastComment,
  pastLine,
  QUOTE,
  scratchEnd,
  setTaken,
  sortLabels,
  takenAt,
  takenLength,
  useScratch,
} from './lines';

const HASH: u32 = 0x23;
const PLUS: u32 = 0x2b;
const MINUS: u32 = 0x2d;
const OPENING: u32 = 0x7b;
const CLOSING: u32 = 0x7d;
const SMALL_N: u32 = 0x6e;
/** Of a second in nanoseconds. */
const SECOND_POWER: i32 = 9;
const MILLIS_MAX: i64 = i64.MAX_VALUE / NANOS_PER_MILLI;

let endOfText: usize = 0;
let nowNanos: i64 = 0;
let isOpenMetrics: bool = false;

/** As `takeInflux`; times are milliseconds, or those of OpenMetrics. */
export function takeExposition(n: u32, isLast: bool, rowsMax: u32, now: i64, isOfOpenMetrics: bool): i32 {
  endOfText = beginText(n, isLast);
  nowNanos = now;
  isOpenMetrics = isOfOpenMetrics;
  let p = BODY;
  while (!isFull(rowsMax)) {
    while (p < endOfText && (isSpace(byteAt(p)) || endsLine(byteAt(p)))) p++;
    if (p >= endOfText) break;
    const past = byteAt(p) == HASH ? pastComment(p) : takeLine(p);
    if (past == CROWDED && isCrowdedAlone()) return NO_ROOM;
    if (past == INCOMPLETE || past == CROWDED) break;
    p = past;
  }
  return <i32>(min(p, endOfText) - BODY);
}

@inline
function pastSpaces(p: usize): usize {
  while (isSpace(byteAt(p))) p++;
  return p;
}

let problem: u32 = 0;
let problemAt: usize = 0;

@inline
function fail(at: usize, reason: u32): usize {
  problemAt = at;
  problem = reason;
  return 0;
}

let metricAt: usize = 0;
let metricLength: usize = 0;
/** Labels that have a value; they stand behind the metric's name. */
let tagCount: u32 = 0;
/** Bytes of the tags in normal form, at most. */
let tagBytes: u32 = 0;
let nanosOfTime: i64 = 0;

/** Reads a line; answers the position behind it, INCOMPLETE or CROWDED. */
function takeLine(line: usize): usize {
  dropTexts();
  const predicted = predictedSlot();
  let p: usize = predicted == 0 ? 0 : pastKnownExposition(line, recordOf(predicted));
  const isKnown = p != 0;
  let tagsEnd: usize = 0;
  if (!isKnown) {
    tagsEnd = takeSeries(line);
    p = tagsEnd;
    if (p == 0) return badLine(line, problemAt, problem);
  }
  p = pastSpaces(p);
  const value = p;
  p = takeValue(p);
  if (p == 0) return badLine(line, problemAt, problem);
  const bits = decimalBits();
  const hostLength: usize = decimalNeedsHost() ? p - value : 0;
  p = takeTime(pastSpaces(p));
  if (p == 0) return badLine(line, problemAt, problem);
  const nanos = nanosOfTime;
  if (isOpenMetrics && byteAt(p) == HASH) {
    p = takeExemplar(p + 1);
    if (p == 0) return badLine(line, problemAt, problem);
  }
  if (!endsLine(byteAt(p))) return badLine(line, p, badLineEnd);
  const past = pastLine(p);
  if (past == INCOMPLETE) return past;
  let slot = <i32>predicted;
  if (isKnown) confirm(predicted, recordOf(predicted));
  else {
    const newBefore = word(NEW_COUNT);
    slot = slotOfLabels(tagCount + 1);
    if (slot < 0) return CROWDED;
    countNewTags(newBefore, tagBytes);
    if (slot != <i32>OVERSIZE_SLOT) noteExposition(line, tagsEnd, recordOf(slot));
  }
  if (hostLength != 0) leaveNumber(value, hostLength);
  addRow(<u32>slot, nanos, bits);
  return past;
}

/** Lists name and labels at LABELS; answers where they end, 0 for a bad line. */
function takeSeries(line: usize): usize {
  let p = line;
  while ((classOf(byteAt(p)) & NOT_METRIC) == 0) p++;
  if (p != line && byteAt(line) - 0x30 < 10) return fail(line, noMetricName);
  metricAt = line;
  metricLength = p - line;
  tagCount = 0;
  tagBytes = NAME_LENGTH + LABEL_OVERHEAD;
  const end = p;
  p = pastSpaces(p);
  if (byteAt(p) == OPENING) {
    p = takeLabels(p + 1, false);
    if (p == 0) return 0;
  } else {
    if (p == end && metricLength != 0 && !endsLine(byteAt(p))) return fail(p, badMetricNameEnd);
    p = end;
  }
  if (metricLength == 0) return fail(line, noMetricName);
  putLabel(LABELS, NAME, <usize>NAME_LENGTH, metricAt, metricLength);
  tagBytes += <u32>metricLength;
  if (tagBytes > <u32>TAGS_BYTES_MAX) return fail(line, tagsTooLong);
  return sortLabels(tagCount + 1) ? p : fail(line, tagTwice);
}

@inline
function putLabel(label: usize, name: usize, nameLength: usize, value: usize, valueLength: usize): void {
  store<u32>(label, <u32>name);
  store<u32>(label, <u32>nameLength, 4);
  store<u32>(label, <u32>value, 8);
  store<u32>(label, <u32>valueLength, 12);
}

/**
 * Lists the labels behind a brace, but for those without a value, and notes a metric's name among them; answers where they end,
 * 0 for a bad line.
 * @param isOfExemplar nothing is listed
 */
function takeLabels(p: usize, isOfExemplar: bool): usize {
  while (true) {
    p = pastSpaces(p);
    if (byteAt(p) == CLOSING) return p + 1;
    const key = p;
    const isQuoted = byteAt(p) == QUOTE;
    p = isQuoted ? takeQuoted(p + 1) : takeName(p);
    if (p == 0) return 0;
    const nameLength = takenLength();
    if (nameLength == 0) return fail(key, noLabelName);
    const name = takenAt();
    p = pastSpaces(p);
    if (byteAt(p) == EQUALS) {
      p = pastSpaces(p + 1);
      if (byteAt(p) != QUOTE) return fail(p, noLabelValue);
      p = takeQuoted(p + 1);
      if (p == 0) return 0;
      const valueLength = takenLength();
      if (valueLength != 0 && !isOfExemplar) {
        if (tagCount == TAGS_COUNT_MAX - 1) return fail(key, tooManyTags);
        tagCount++;
        putLabel(LABELS + <usize>tagCount * LABEL_BYTES, name, nameLength, takenAt(), valueLength);
        tagBytes += <u32>nameLength + LABEL_OVERHEAD + <u32>valueLength;
      }
      p = pastSpaces(p);
    } else {
      const isName = isQuoted && !isOfExemplar && (byteAt(p) == COMMA || byteAt(p) == CLOSING);
      if (!isName) return fail(p, noLabelEquals);
      if (metricLength != 0) return fail(key, metricNameTwice);
      metricAt = name;
      metricLength = nameLength;
    }
    if (byteAt(p) == COMMA) p++;
    else if (byteAt(p) != CLOSING) return fail(p, badLabelEnd);
  }
}

/** Takes the name of a label without quotes, nothing where there is none; answers where it ends. */
@inline
function takeName(p: usize): usize {
  const start = p;
  if (byteAt(p) - 0x30 >= 10) {
    while ((classOf(byteAt(p)) & NOT_TAG) == 0) p++;
  }
  setTaken(start, p - start, 0);
  return p;
}

/** Takes a text behind a quote; answers the position behind the closing one, 0 for a bad line. */
function takeQuoted(p: usize): usize {
  const start = p;
  let notAscii: u32 = 0;
  while (true) {
    const bytes = v128.load(p);
    const quotes = i8x16.eq(bytes, i8x16.splat(<i8>QUOTE));
    const backslashes = i8x16.eq(bytes, i8x16.splat(<i8>BACKSLASH));
    const feeds = i8x16.eq(bytes, i8x16.splat(<i8>LINE_FEED));
    const stops = <u32>i8x16.bitmask(v128.or(v128.or(quotes, backslashes), feeds));
    const high = <u32>i8x16.bitmask(bytes);
    if (stops != 0) {
      const n = ctz(stops);
      notAscii |= high & ((<u32>1 << n) - 1);
      p += <usize>n;
      break;
    }
    notAscii |= high;
    p += 16;
  }
  const byte = byteAt(p);
  if (byte == BACKSLASH) return takeEscaped(start, p);
  if (byte != QUOTE) return fail(start - 1, noQuote);
  setTaken(start, p - start, 0);
  return notAscii == 0 || runesOf(start, p - start) >= 0 ? p + 1 : fail(start, notUtf8);
}

/** The same of a text whose first backslash stands at p: one goes before backslashes, quotes and `n`, and is itself elsewhere. */
function takeEscaped(start: usize, p: usize): usize {
  const text = scratchEnd();
  copyBytes(text, start, p - start);
  let o = text + (p - start);
  while (true) {
    let byte = byteAt(p);
    if (byte == QUOTE) break;
    if (byte == LINE_FEED) return fail(start - 1, noQuote);
    if (byte == BACKSLASH) {
      const next = byteAt(p + 1);
      if (next == QUOTE || next == BACKSLASH) {
        byte = next;
        p++;
      } else if (next == SMALL_N) {
        byte = LINE_FEED;
        p++;
      }
    }
    store<u8>(o++, <u8>byte);
    p++;
  }
  useScratch(o);
  setTaken(text, o - text, 0);
  return runesOf(text, o - text) >= 0 ? p + 1 : fail(start, notUtf8);
}

/** Reads a number; answers where it ends, 0 for a bad line. */
function takeValue(p: usize): usize {
  if (endsLine(byteAt(p))) return fail(p, noValue);
  const end = takeNumber(p);
  if (end == 0 || !(isSpace(byteAt(end)) || endsLine(byteAt(end)))) return fail(p, badNumber);
  return decimalIsOver() ? fail(p, numberOutOfRange) : end;
}

/** Reads the time, if there is one; answers where what follows it begins, 0 for a bad line. */
function takeTime(p: usize): usize {
  nanosOfTime = nowNanos;
  const byte = byteAt(p);
  if (endsLine(byte) || (isOpenMetrics && byte == HASH)) return p;
  const end = isOpenMetrics ? takeSeconds(p) : takeMillis(p);
  return end == 0 ? 0 : pastSpaces(end);
}

function takeMillis(p: usize): usize {
  const end = takeInteger(p);
  if (end == 0) return fail(p, badTime);
  const millis = signedInteger();
  if (!integerFits() || millis > MILLIS_MAX || millis < -MILLIS_MAX) return fail(p, timeOutOfRange);
  nanosOfTime = millis * NANOS_PER_MILLI;
  return end;
}

/** A decimal, cut to nanoseconds. */
function takeSeconds(p: usize): usize {
  const start = p + <usize>(byteAt(p) == PLUS);
  if (start != p && byteAt(start) == MINUS) return fail(p, noTime);
  const end = takeDigits(start);
  if (end == 0) return fail(p, noTime);
  let nanos = decimalDigits();
  let power = decimalPower() + SECOND_POWER;
  for (; power < 0 && nanos != 0; power++) nanos /= 10;
  for (; power > 0 && nanos != 0; power--) {
    if (nanos > u64.MAX_VALUE / 10) return fail(p, timeOutOfRange);
    nanos *= 10;
  }
  if (nanos > <u64>i64.MAX_VALUE) return fail(p, timeOutOfRange);
  nanosOfTime = decimalIsNegative() ? -<i64>nanos : <i64>nanos;
  return end;
}

/** Passes over an exemplar behind its `#`; answers where it ends, 0 for a bad line. */
function takeExemplar(p: usize): usize {
  p = pastSpaces(p);
  if (byteAt(p) != OPENING) return fail(p, noExemplar);
  p = takeLabels(p + 1, true);
  if (p != 0) p = takeValue(pastSpaces(p));
  return p == 0 ? 0 : takeTime(pastSpaces(p));
}
