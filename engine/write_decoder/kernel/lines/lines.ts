// What all formats of lines share: a text at BODY that ends with a line feed of ours, rows, bad lines, and texts that are not in
// a line as they are meant (escapes, names with other characters than a name may have).

import { hostNumbersMax, lineProblemsMax, newTagBytesAtOnce } from '../../lines/layout';
import { compareBytes, copyBytes, equalBytes, runesOf } from '../identity/bytes';
import { lifeOf, NEW_COUNT, recordOf, setWord, word } from '../identity/identity';
import { LABEL_BYTES, sortedLabels } from '../identity/labels';
import {
  BODY,
  LABELS,
  LINE_NUMBER_COUNT,
  LINE_NUMBERS,
  LINE_PROBLEM_COUNT,
  LINE_PROBLEMS,
  LINE_ROWS,
  LINE_TEXTS,
  LINES_CROWDED,
  NEW_TAG_BYTES,
  ROW_GENERATIONS,
  ROW_SLOTS,
  ROW_TIMESTAMPS,
  ROW_VALUES,
} from '../identity/memory';

/** Instead of a position: the text ends inside the line, and more of it will come. */
export const INCOMPLETE: usize = 0;
/** There is no room for the series of the line: it has to be read once more, by itself. */
export const CROWDED: usize = 1;

export const LINE_FEED: u32 = 0x0a;
export const RETURN: u32 = 0x0d;
export const TAB: u32 = 0x09;
export const SPACE: u32 = 0x20;
export const COMMA: u32 = 0x2c;
export const EQUALS: u32 = 0x3d;
export const QUOTE: u32 = 0x22;
export const BACKSLASH: u32 = 0x5c;

// Classes of bytes.
/** Ends a key or a value of Influx: comma, equals sign, space, backslash, control characters. */
export const KEY_STOP: u32 = 1;
/** Ends a measurement: the same but for the equals sign. */
export const MEASUREMENT_STOP: u32 = 2;
/** May not be in the name of a tag. */
export const NOT_TAG: u32 = 4;
/** May not be in the name of a metric. */
export const NOT_METRIC: u32 = 8;
export const NOT_ASCII: u32 = 16;
/** Ends a path of Graphite, or a tag of one: space, control characters, semicolon. */
export const PATH_STOP: u32 = 32;
/** May not be in a path that was cleaned up. */
export const NOT_PATH: u32 = 64;

export const NAME: usize = memory.data<u8>([0x5f, 0x5f, 0x6e, 0x61, 0x6d, 0x65, 0x5f, 0x5f, 0, 0, 0, 0, 0, 0, 0, 0]);
export const NAME_LENGTH: u32 = 8;
/** What a label takes in normal form beside its texts: at most three lengths of three bytes with their keys. */
export const LABEL_OVERHEAD: u32 = 12;

const CLASSES: usize = memory.data(256);
const PROBLEM_BYTES: usize = 12;
const NUMBER_BYTES: usize = 12;

let textEnd: usize = 0;
let isLastText: bool = false;
let scratch: usize = 0;

/** Before the first text. */
export function initLines(): void {
  for (let byte: u32 = 0; byte < 256; byte++) {
    const isControl = byte < 0x20 || byte == 0x7f;
    const isLetter = (byte | 0x20) - 0x61 < 26 || byte == 0x5f;
    const isDigit = byte - 0x30 < 10;
    let kinds: u32 = 0;
    if (isControl || byte == SPACE || byte == COMMA || byte == BACKSLASH) kinds |= KEY_STOP | MEASUREMENT_STOP;
    if (byte == EQUALS) kinds |= KEY_STOP;
    if (!isLetter && !isDigit) kinds |= NOT_TAG;
    if (!isLetter && !isDigit && byte != 0x3a) kinds |= NOT_METRIC;
    if (byte > 0x7f) kinds |= NOT_ASCII;
    if (isControl || byte == SPACE || byte == 0x3b) kinds |= PATH_STOP;
    // Of others `.`, `-`, `:` and `#` may be in one.
    const isOther = byte == 0x2e || byte == 0x2d || byte == 0x3a || byte == 0x23;
    if (!isLetter && !isDigit && !isOther) kinds |= NOT_PATH;
    store<u8>(CLASSES + <usize>byte, <u8>kinds);
  }
}

@inline
export function byteAt(p: usize): u32 {
  return <u32>load<u8>(p);
}

@inline
export function classOf(byte: u32): u32 {
  return <u32>load<u8>(CLASSES + <usize>byte);
}

/** Before the first text whose rows are written together. */
export function beginTexts(): void {
  setWord(NEW_TAG_BYTES, 0);
  setWord(LINE_ROWS, 0);
}

/** Starts a text of n bytes; answers its end. @param isLast nothing comes after it, not even the rest of a line */
export function beginText(n: u32, isLast: bool): usize {
  textEnd = BODY + <usize>n;
  isLastText = isLast;
  store<u8>(textEnd, <u8>LINE_FEED);
  setWord(LINE_PROBLEM_COUNT, 0);
  setWord(LINE_NUMBER_COUNT, 0);
  setWord(LINES_CROWDED, 0);
  return textEnd;
}

/** Notes that there is no room for the series of a line; answers whether there would be none either if it came first. */
export function isCrowdedAlone(): bool {
  setWord(LINES_CROWDED, 1);
  return word(LINE_ROWS) == 0;
}

/** Whether what was read so far is enough for one text. */
export function isFull(rowsMax: u32): bool {
  return areEnough(rowsMax) || word(LINE_NUMBER_COUNT) >= <u32>hostNumbersMax / 2;
}

/** Whether the rows so far are enough to be written. */
export function areEnough(rowsMax: u32): bool {
  return word(LINE_ROWS) >= rowsMax || word(NEW_TAG_BYTES) >= <u32>newTagBytesAtOnce || word(LINES_CROWDED) != 0;
}

/** The next line feed. */
export function lineFeedAfter(p: usize): usize {
  while (true) {
    const found = i8x16.bitmask(i8x16.eq(v128.load(p), i8x16.splat(<i8>LINE_FEED)));
    if (found != 0) return p + <usize>ctz(found);
    p += 16;
  }
}

/** Line feeds between the begin of the text and there. */
export function lineFeedsBefore(end: usize): u32 {
  let count: u32 = 0;
  for (let p: usize = BODY; p < end; p += 16) {
    let found = <u32>i8x16.bitmask(i8x16.eq(v128.load(p), i8x16.splat(<i8>LINE_FEED)));
    if (end - p < 16) found &= (<u32>1 << <u32>(end - p)) - 1;
    count += popcnt(found);
  }
  return count;
}

/** Whether a line that ends there may go on in the next text. */
@inline
export function isCut(end: usize): bool {
  return end >= textEnd && !isLastText;
}

/** Position behind a line that ends there, or INCOMPLETE. */
@inline
export function pastLine(end: usize): usize {
  return isCut(end) ? INCOMPLETE : end + 1;
}

/** Position behind a comment, or INCOMPLETE. */
export function pastComment(p: usize): usize {
  return pastLine(lineFeedAfter(p));
}

/** Between tokens of a line, but in Influx's, where a tab is none. */
@inline
export function isSpace(byte: u32): bool {
  return byte == SPACE || byte == TAB;
}

@inline
export function endsLine(byte: u32): bool {
  return byte == LINE_FEED || byte == RETURN;
}

/** Notes a bad line and passes it over; answers where to go on, or INCOMPLETE. @param at where it is bad */
export function badLine(line: usize, at: usize, reason: u32): usize {
  const end = lineFeedAfter(at);
  if (isCut(end)) return INCOMPLETE;
  noteProblem(line, at, reason);
  return min(end + 1, textEnd);
}

/** Notes that a line is bad there. */
export function noteProblem(line: usize, at: usize, reason: u32): void {
  const count = word(LINE_PROBLEM_COUNT);
  if (count < <u32>lineProblemsMax) {
    const entry = LINE_PROBLEMS + <usize>count * PROBLEM_BYTES;
    store<u32>(entry, <u32>(line - BODY));
    store<u32>(entry, <u32>(at - BODY), 4);
    store<u32>(entry, reason, 8);
  }
  setWord(LINE_PROBLEM_COUNT, count + 1);
}

/** Adds a row. */
@inline
export function addRow(slot: u32, nanos: i64, bits: u64): void {
  const row = <usize>word(LINE_ROWS);
  store<u32>(ROW_SLOTS + (row << 2), slot);
  store<u32>(ROW_GENERATIONS + (row << 2), lifeOf(recordOf(slot)));
  store<i64>(ROW_TIMESTAMPS + (row << 3), nanos);
  store<u64>(ROW_VALUES + (row << 3), bits);
  setWord(LINE_ROWS, <u32>row + 1);
}

/** Takes the rows of a line away again. */
export function dropRows(rows: u32, numbers: u32): void {
  setWord(LINE_ROWS, rows);
  setWord(LINE_NUMBER_COUNT, numbers);
}

/** Has the host read the value of the row that comes next. A line has not more fields than there is room for. */
export function leaveNumber(at: usize, length: usize): void {
  const count = word(LINE_NUMBER_COUNT);
  const entry = LINE_NUMBERS + <usize>count * NUMBER_BYTES;
  store<u32>(entry, word(LINE_ROWS));
  store<u32>(entry, <u32>(at - BODY), 4);
  store<u32>(entry, <u32>length, 8);
  setWord(LINE_NUMBER_COUNT, count + 1);
}

/** Counts the tags of a series that is new. @param newBefore new ones before it was looked up */
@inline
export function countNewTags(newBefore: u32, tagBytes: u32): void {
  if (word(NEW_COUNT) != newBefore) setWord(NEW_TAG_BYTES, word(NEW_TAG_BYTES) + tagBytes);
}

// The text that was taken last: where it stands as it is meant, its length, and the classes of its characters together.
let textAt: usize = 0;
let textLength: usize = 0;
let textClasses: u32 = 0;

@inline
export function takenAt(): usize {
  return textAt;
}
@inline
export function takenLength(): usize {
  return textLength;
}
@inline
export function takenClasses(): u32 {
  return textClasses;
}

/** Whether the text that was taken last is UTF-8. */
@inline
export function isTakenText(): bool {
  return (textClasses & NOT_ASCII) == 0 || runesOf(textAt, textLength) >= 0;
}

/** As if this had been taken. */
@inline
export function setTaken(at: usize, length: usize, classes: u32): void {
  textAt = at;
  textLength = length;
  textClasses = classes;
}

/** No text of the line before is needed any more. */
@inline
export function dropTexts(): void {
  scratch = LINE_TEXTS;
}

/** Where the next text may be written. */
@inline
export function scratchEnd(): usize {
  return scratch;
}

/** Keeps what was written up to there. */
@inline
export function useScratch(end: usize): void {
  scratch = end;
}

/**
 * Takes a text up to a character of the class `stop`, which has backslashes in it; answers where it ends. A backslash goes
 * before spaces, commas and, `withEquals`, equals signs that belong to it, and is itself elsewhere.
 */
@inline
export function takeText(p: usize, stop: u32, withEquals: bool): usize {
  const start = p;
  let all: u32 = 0;
  let kinds: u32;
  while (((kinds = classOf(byteAt(p))) & stop) == 0) {
    all |= kinds;
    p++;
  }
  if (byteAt(p) == BACKSLASH) return takeEscapedText(start, p, all, stop, withEquals);
  textAt = start;
  textLength = p - start;
  textClasses = all;
  return p;
}

function takeEscapedText(start: usize, p: usize, before: u32, stop: u32, withEquals: bool): usize {
  const length = p - start;
  copyBytes(scratch, start, length);
  let o = scratch + length;
  // A backslash has made this a text that is not as it stands; what it is made of matters for names alone.
  let all: u32 = before | NOT_TAG | NOT_METRIC;
  while (true) {
    let byte = byteAt(p);
    if (byte == BACKSLASH) {
      const next = byteAt(p + 1);
      if (next == SPACE || next == COMMA || (withEquals && next == EQUALS)) {
        byte = next;
        p++;
      }
    } else if ((classOf(byte) & stop) != 0) break;
    all |= classOf(byte);
    store<u8>(o++, <u8>byte);
    p++;
  }
  textAt = scratch;
  textLength = o - scratch;
  textClasses = all;
  scratch = o;
  return p;
}

/** Makes the text that was taken last a name: an underscore for each byte that may not be in it. @param not the class of these */
export function nameTaken(not: u32): void {
  const isOdd = (textClasses & not) != 0 || (textLength > 0 && byteAt(textAt) - 0x30 < 10);
  if (!isOdd) return;
  const from = textAt;
  textAt = scratch;
  scratch = putName(scratch, from, textLength, not);
  if (textLength > 0 && byteAt(textAt) - 0x30 < 10) store<u8>(textAt, 0x5f);
}

/** Writes a part of a name; answers where it ends. */
export function putName(target: usize, from: usize, length: usize, not: u32): usize {
  for (let i: usize = 0; i < length; i++) {
    const byte = byteAt(from + i);
    store<u8>(target + i, (classOf(byte) & not) != 0 ? 0x5f : <u8>byte);
  }
  return target + length;
}

/** Sorts the labels at LABELS, which are mostly in their order; answers false where two have one name. */
export function sortLabels(count: u32): bool {
  const end = LABELS + <usize>count * LABEL_BYTES;
  for (let label = LABELS + LABEL_BYTES; label < end; label += LABEL_BYTES) {
    const before = label - LABEL_BYTES;
    const order = compareBytes(load<u32>(before), load<u32>(before, 4), load<u32>(label), load<u32>(label, 4));
    if (order == 0) return false;
    if (order > 0) return sortAll(count);
  }
  return true;
}

function sortAll(count: u32): bool {
  const size = <usize>count * LABEL_BYTES;
  const sorted = sortedLabels(count);
  if (sorted != LABELS) memory.copy(LABELS, sorted, size);
  for (let label = LABELS + LABEL_BYTES; label < LABELS + size; label += LABEL_BYTES) {
    if (isSameName(label, label - LABEL_BYTES)) return false;
  }
  return true;
}

@inline
export function isSameName(a: usize, b: usize): bool {
  const length = <usize>load<u32>(a, 4);
  return length == <usize>load<u32>(b, 4) && equalBytes(<usize>load<u32>(a), <usize>load<u32>(b), length);
}

export const NANOS_PER_MILLI: i64 = 1_000_000;

/** Has the times of the first rows in milliseconds, when none is finer; answers whether they are. */
export function timesInMillis(rowCount: u32): bool {
  const end = ROW_TIMESTAMPS + (<usize>rowCount << 3);
  let lastNanos: i64 = 0;
  let lastMillis: i64 = 0;
  for (let p = ROW_TIMESTAMPS; p < end; p += 8) {
    const nanos = load<i64>(p);
    if (nanos != lastNanos) {
      lastMillis = nanos / NANOS_PER_MILLI;
      lastNanos = nanos;
      if (lastMillis * NANOS_PER_MILLI != nanos) {
        for (let q = ROW_TIMESTAMPS; q < p; q += 8) store<i64>(q, load<i64>(q) * NANOS_PER_MILLI);
        return false;
      }
    }
    store<i64>(p, lastMillis);
  }
  return true;
}
