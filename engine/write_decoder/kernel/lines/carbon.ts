// Carbon's plaintext: a path, a number and seconds, with spaces or tabs between them.
//
//     servers.web1.cpu 12.5 1700000000
//     cpu;host=web1;region=eu 12.5 1700000000
//
// The nodes of a path are the tags __g0__, __g1__, … of its series (identity/paths.ts); with tags the path is the metric's name.
// The twin is engine/write_decoder/lines/carbon_twin.ts.

import {
  badLineEnd,
  badNumber,
  badPathEnd,
  badTime,
  emptyNode,
  noPath,
  notUtf8,
  noTagEquals,
  noTagKey,
  noTagValue,
  noTime,
  noValue,
  numberOutOfRange,
  pathTooLong,
  tagsTooLong,
  tagTwice,
  timeOutOfRange,
  tooManyTags,
  valueIsNan,
} from '../../lines/layout';
import { runesOf } from '../identity/bytes';
import { NEW_COUNT, recordOf, word } from '../identity/identity';
import { LABEL_BYTES } from '../identity/labels';
import { confirm, predictedSlot, slotOfLabels } from '../identity/lookup';
import { BODY, LABELS, NO_ROOM, TAGS_BYTES_MAX, TAGS_COUNT_MAX } from '../identity/memory';
import { NODE_OVERHEAD, slotOfPath } from '../identity/paths';
import { decimalBits, decimalIsOver, decimalNeedsHost, NAN_BITS, takeNumber } from './decimal';
import { integerFits, signedInteger, takeInteger } from './integer';
import { CARBON_TEXT, CLEAN_CARBON_TEXT, notePath, pastKnownPath } from './known';
import {
  addRow,
  badLine,
  beginText,
  byteAt,
  classOf,
  countNewTags,
  CROWDED,
  dropTexts,
  endsLine,
  EQUALS,
  INCOMPLETE,
  isCrowdedAlone,
  isFull,
  isSpace,
  isTakenText,
  LABEL_OVERHEAD,
  leaveNumber,
  LINE_FEED,
  NAME,
  NAME_LENGTH,
  nameTaken,
  NOT_ASCII,
  NOT_PATH,
  NOT_TAG,
  pastLine,
  PATH_STOP,
  RETURN,
  scratchEnd,
  setTaken,
  sortLabels,
  takenAt,
  takenLength,
  useScratch,
} from './lines';

const DOT: u32 = 0x2e;
const SEMICOLON: u32 = 0x3b;
const UNDERSCORE: u8 = 0x5f;
const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_MAX: i64 = i64.MAX_VALUE / NANOS_PER_SECOND - 1;

let endOfText: usize = 0;
let nowNanos: i64 = 0;
let cleansUp: bool = false;

/** As `takeInflux`; times are seconds, and -1 is now. @param isCleanedUp paths are made ones that every tool takes */
export function takeCarbon(n: u32, isLast: bool, rowsMax: u32, now: i64, isCleanedUp: bool): i32 {
  endOfText = beginText(n, isLast);
  nowNanos = now;
  cleansUp = isCleanedUp;
  let p = BODY;
  while (!isFull(rowsMax)) {
    while (p < endOfText && (isSpace(byteAt(p)) || endsLine(byteAt(p)))) p++;
    if (p >= endOfText) break;
    const past = takeLine(p);
    if (past == CROWDED && isCrowdedAlone()) return NO_ROOM;
    if (past == INCOMPLETE || past == CROWDED) break;
    p = past;
  }
  return <i32>(min(p, endOfText) - BODY);
}

let problem: u32 = 0;
let problemAt: usize = 0;

@inline
function fail(at: usize, reason: u32): usize {
  problemAt = at;
  problem = reason;
  return 0;
}

let pathAt: usize = 0;
let pathLength: usize = 0;
let isTagged: bool = false;
let tagCount: u32 = 0;
let tagBytes: u32 = 0;
let valueBits: u64 = 0;
let hostAt: usize = 0;
let hostLength: usize = 0;
let nanosOfLine: i64 = 0;

function takeLine(line: usize): usize {
  dropTexts();
  const format = cleansUp ? CLEAN_CARBON_TEXT : CARBON_TEXT;
  const predicted = predictedSlot();
  const known: usize = predicted == 0 ? 0 : pastKnownPath(line, recordOf(predicted), format);
  let p = known != 0 ? pastSpaces(known) : takePath(line);
  if (p != 0) p = takeValue(p);
  if (p != 0) p = takeTime(p);
  if (p == 0) return badLine(line, problemAt, problem);
  const past = pastLine(p);
  if (past == INCOMPLETE) return past;
  let slot = <i32>predicted;
  if (known != 0) confirm(predicted, recordOf(predicted));
  else {
    const newBefore = word(NEW_COUNT);
    slot = isTagged ? slotOfLabels(tagCount + 1) : slotOfPath(pathAt, pathLength);
    if (slot < 0) return CROWDED;
    countNewTags(newBefore, tagBytes);
    if (!isTagged) notePath(line, recordOf(slot), format);
  }
  if (hostLength != 0) leaveNumber(hostAt, hostLength);
  addRow(<u32>slot, nanosOfLine, valueBits);
  return past;
}

/** Reads the path with its tags, which are listed at LABELS; answers where it ends, 0 for a bad line. */
function takePath(line: usize): usize {
  let p = line;
  let kinds: u32 = 0;
  let kind: u32;
  let dots: u32 = 0;
  let before: u32 = DOT;
  let emptyAt: usize = 0;
  for (let byte: u32; ((kind = classOf((byte = byteAt(p)))) & PATH_STOP) == 0; p++) {
    kinds |= kind;
    if (byte == DOT) {
      dots++;
      if (before == DOT && emptyAt == 0) emptyAt = p;
    }
    before = byte;
  }
  const end = p;
  if (end == line) return fail(p, byteAt(p) == SEMICOLON ? noPath : badPathEnd);
  if ((kinds & NOT_ASCII) != 0 && runesOf(line, end - line) < 0) return fail(line, notUtf8);
  pathAt = line;
  pathLength = end - line;
  tagCount = 0;
  isTagged = byteAt(p) == SEMICOLON;
  if (!isTagged) {
    if (!isSpace(byteAt(p))) return fail(p, byteAt(p) == LINE_FEED || byteAt(p) == RETURN ? noValue : badPathEnd);
    if (cleansUp) {
      if (emptyAt != 0 || before == DOT || (kinds & NOT_PATH) != 0) {
        cleanUp();
        if (pathLength == 0) return fail(line, noPath);
        dots = dotsIn(pathAt, pathLength);
      }
    } else {
      if (emptyAt != 0) return fail(emptyAt, emptyNode);
      // A dot at the end begins no node.
      if (before == DOT) {
        pathLength--;
        dots--;
      }
    }
    tagBytes = <u32>pathLength + (dots + 1) * NODE_OVERHEAD;
    if (dots >= TAGS_COUNT_MAX || tagBytes > <u32>TAGS_BYTES_MAX) return fail(line, pathTooLong);
  } else {
    p = takeTags(p);
    if (p == 0) return 0;
  }
  return pastSpaces(p);
}

@inline
function pastSpaces(p: usize): usize {
  while (isSpace(byteAt(p))) p++;
  return p;
}

function dotsIn(path: usize, n: usize): u32 {
  let dots: u32 = 0;
  for (let i: usize = 0; i < n; i++) dots += <u32>(byteAt(path + i) == DOT);
  return dots;
}

/** Leaves dots at begin and end out, and all but one of several; other characters than a path may have become an underscore. */
function cleanUp(): void {
  const target = scratchEnd();
  let o = target;
  let dots: u32 = 1;
  for (let i: usize = 0; i < pathLength; i++) {
    const byte = byteAt(pathAt + i);
    if (byte == DOT) {
      if (dots++ > 0) continue;
    } else dots = 0;
    if ((classOf(byte) & NOT_PATH) == 0) store<u8>(o++, <u8>byte);
    else if (o == target || load<u8>(o - 1) != UNDERSCORE) store<u8>(o++, UNDERSCORE);
  }
  while (o > target && byteAt(o - 1) == DOT) o--;
  pathAt = target;
  pathLength = o - target;
  useScratch(o);
}

/** Lists the tags behind a path, and the path as the metric's name; answers where they end. */
function takeTags(p: usize): usize {
  tagBytes = NAME_LENGTH + LABEL_OVERHEAD + <u32>pathLength;
  while (byteAt(p) == SEMICOLON) {
    const key = p + 1;
    p = takeToken(key, EQUALS);
    if (p == 0) return 0;
    if (takenLength() == 0) return fail(p, noTagKey);
    if (byteAt(p) != EQUALS) return fail(p, noTagEquals);
    const isName = takenLength() == 4 && load<u32>(key) == 0x656d_616e;
    if (tagCount == TAGS_COUNT_MAX - 1) return fail(key, tooManyTags);
    nameTaken(NOT_TAG);
    const label = LABELS + <usize>tagCount * LABEL_BYTES;
    store<u32>(label, <u32>takenAt());
    store<u32>(label, <u32>takenLength(), 4);
    p = takeToken(p + 1, SEMICOLON);
    if (p == 0) return 0;
    if (takenLength() == 0) return fail(p, noTagValue);
    // The path is the name, whatever a tag says.
    if (isName) continue;
    store<u32>(label, <u32>takenAt(), 8);
    store<u32>(label, <u32>takenLength(), 12);
    tagBytes += <u32>load<u32>(label, 4) + LABEL_OVERHEAD + <u32>takenLength();
    tagCount++;
  }
  if (!isSpace(byteAt(p))) return fail(p, endsLine(byteAt(p)) ? noValue : badPathEnd);
  if (tagBytes > <u32>TAGS_BYTES_MAX) return fail(pathAt, tagsTooLong);
  const label = LABELS + <usize>tagCount * LABEL_BYTES;
  store<u32>(label, <u32>NAME);
  store<u32>(label, NAME_LENGTH, 4);
  store<u32>(label, <u32>pathAt, 8);
  store<u32>(label, <u32>pathLength, 12);
  return sortLabels(tagCount + 1) ? p : fail(pathAt, tagTwice);
}

/** Takes a text up to that character, a semicolon or what ends a path; answers its end, 0 when it is not UTF-8. */
function takeToken(p: usize, stop: u32): usize {
  const start = p;
  let kinds: u32 = 0;
  let kind: u32;
  for (let byte: u32; ((kind = classOf((byte = byteAt(p)))) & PATH_STOP) == 0 && byte != stop; p++) kinds |= kind;
  setTaken(start, p - start, kinds);
  return isTakenText() ? p : fail(start, notUtf8);
}

function takeValue(p: usize): usize {
  if (endsLine(byteAt(p))) return fail(p, noValue);
  let end = takeNumber(p);
  if (end == 0) return fail(p, badNumber);
  if (!isSpace(byteAt(end))) return endsLine(byteAt(end)) ? fail(end, noTime) : fail(p, badNumber);
  valueBits = decimalBits();
  if (valueBits == NAN_BITS) return fail(p, valueIsNan);
  if (decimalIsOver()) return fail(p, numberOutOfRange);
  hostAt = p;
  hostLength = decimalNeedsHost() ? end - p : 0;
  while (isSpace(byteAt(end))) end++;
  return end;
}

/** Reads seconds, whole or not; answers where the line ends, 0 for a bad line. */
function takeTime(p: usize): usize {
  if (endsLine(byteAt(p))) return fail(p, noTime);
  let end = takeInteger(p);
  if (end == 0) return fail(p, badTime);
  const seconds = signedInteger();
  const isNegative = byteAt(p) == 0x2d;
  if (!integerFits() || seconds > SECONDS_MAX || seconds < -SECONDS_MAX) return fail(p, timeOutOfRange);
  let fraction: i64 = 0;
  if (byteAt(end) == DOT) {
    let unit = NANOS_PER_SECOND;
    end++;
    for (let digit: u32; (digit = byteAt(end) - 0x30) < 10; end++) {
      unit /= 10;
      fraction += <i64>digit * unit;
    }
  }
  nanosOfLine =
    isNegative && seconds == -1 && fraction == 0 ? nowNanos : seconds * NANOS_PER_SECOND + (isNegative ? -fraction : fraction);
  while (isSpace(byteAt(end))) end++;
  return endsLine(byteAt(end)) ? end : fail(end, badLineEnd);
}
