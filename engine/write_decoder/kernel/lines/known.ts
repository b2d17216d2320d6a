// Begins of lines that are known: compared as they stand with the tags of the series that they came to before, so that these are
// neither listed nor sorted. A record has the format of a line that began with the very bytes that are expected here, and the
// order of tags in it; the same bytes come to it again. It has to begin with the metric's name, and to have at most 16 other
// tags, each with less than 128 bytes.

import { equalBytes } from '../identity/bytes';
import { orderOf, setText, tagsLengthOf, tagsOf, textOf } from '../identity/identity';
import { isPath } from '../identity/paths';
import { byteAt, COMMA, EQUALS, isSpace, QUOTE, SPACE } from './lines';

export const INFLUX_TEXT: u8 = 1;
export const EXPOSITION_TEXT: u8 = 2;
export const CARBON_TEXT: u8 = 3;
export const CLEAN_CARBON_TEXT: u8 = 4;
/** A text that was compared in vain, since it is escaped or not as usual. */
const UNUSUAL: u8 = 0x80;

const OPENING: u32 = 0x7b;
const CLOSING: u32 = 0x7d;
const UNDERSCORE: u32 = 0x5f;
/** `="` as a little-endian word. */
const EQUALS_QUOTE: u32 = 0x223d;
/** Keys of a label and of its name, which are short. */
const LABEL_KEYS: u32 = 0x0a_000a;
const LABEL_KEYS_MASK: u32 = 0xff_80ff;
/** The same and the length of the name of the metric's name. */
const NAME_KEYS: u32 = 0x080a_000a;
const NAME_KEYS_MASK: u32 = 0xffff_80ff;
const NAME_WORD: u64 = 0x5f5f_656d_616e_5f5f;
const NAME_VALUE: usize = 14;
/** Of a label beside its texts. */
const LABEL_BYTES_MORE: usize = 6;
const TAGS_MAX: u32 = 16;
const ORDER_BITS: u64 = 4;
const ORDER_MASK: u64 = 15;
const TAG_STARTS: usize = memory.data(64);

/** Length of the metric's name when it is the first tag of a record and a short one; else 0. */
@inline
export function firstNameLength(record: usize): usize {
  const tags = tagsOf(record);
  const isFirst = (load<u32>(tags) & NAME_KEYS_MASK) == NAME_KEYS && load<u64>(tags, 4) == NAME_WORD;
  return isFirst ? <usize>load<u8>(tags, NAME_VALUE - 1) : 0;
}

@inline
export function firstName(record: usize): usize {
  return tagsOf(record) + NAME_VALUE;
}

/** How many bytes at a and b are equal, of n at most. */
@inline
function equalBytesOf(a: usize, b: usize, n: usize): usize {
  for (let i: usize = 0; i < n; i += 16) {
    const differing = ~<u32>i8x16.bitmask(i8x16.eq(v128.load(a + i), v128.load(b + i))) & 0xffff;
    if (differing != 0) return min(i + <usize>ctz(differing), n);
  }
  return n;
}

/** Lists where the tags of a record behind its metric's name stand; answers their number, or -1 when they are too many or too long. */
function listTags(tag: usize, end: usize): i32 {
  let count: u32 = 0;
  while (tag < end) {
    if (count == TAGS_MAX || (load<u32>(tag) & LABEL_KEYS_MASK) != LABEL_KEYS) return -1;
    store<u32>(TAG_STARTS + (<usize>count << 2), <u32>tag);
    tag += LABEL_BYTES_MORE + <usize>load<u8>(tag, 3);
    tag += <usize>load<u8>(tag - 1);
    count++;
  }
  return <i32>count;
}

@inline
function listedTag(at: u32): usize {
  return <usize>load<u32>(TAG_STARTS + (<usize>at << 2));
}

/** Where a tag of Influx ends when it stands at p; else 0. */
@inline
function pastInfluxTag(p: usize, tag: usize): usize {
  const keyLength = <usize>load<u8>(tag, 3);
  if (byteAt(p) != COMMA || !equalBytes(p + 1, tag + 4, keyLength)) return 0;
  p += 1 + keyLength;
  tag += LABEL_BYTES_MORE + keyLength;
  const valueLength = <usize>load<u8>(tag - 1);
  if (byteAt(p) != EQUALS || !equalBytes(p + 1, tag, valueLength)) return 0;
  p += 1 + valueLength;
  return byteAt(p) == COMMA || byteAt(p) == SPACE ? p : 0;
}

/** Where a label of Prometheus' text ends when it stands behind a comma or a brace at p; else 0. */
@inline
function pastLabel(p: usize, tag: usize): usize {
  const keyLength = <usize>load<u8>(tag, 3);
  if (!equalBytes(p + 1, tag + 4, keyLength)) return 0;
  p += 1 + keyLength;
  tag += LABEL_BYTES_MORE + keyLength;
  const valueLength = <usize>load<u8>(tag - 1);
  if (<u32>load<u16>(p) != EQUALS_QUOTE || !equalBytes(p + 2, tag, valueLength)) return 0;
  p += 2 + valueLength;
  return byteAt(p) == QUOTE && (byteAt(p + 1) == COMMA || byteAt(p + 1) == CLOSING) ? p + 1 : 0;
}

let foundOrder: u64 = 0;

/** Where the listed tags end when they stand at p in some order, which is `foundOrder`; else 0. */
function pastTagsInAnyOrder(p: usize, count: u32, isInflux: bool): usize {
  foundOrder = 0;
  let taken: u32 = 0;
  for (let i: u32 = 0; i < count; i++) {
    let past: usize = 0;
    let at: u32 = 0;
    for (; at < count && past == 0; at++) {
      if (((taken >> at) & 1) == 0) past = isInflux ? pastInfluxTag(p, listedTag(at)) : pastLabel(p, listedTag(at));
    }
    if (past == 0) return 0;
    p = past;
    taken |= 1 << (at - 1);
    foundOrder |= <u64>(at - 1) << (ORDER_BITS * <u64>i);
  }
  return p;
}

let measurementLength: usize = 0;

/** Of the measurement that was passed last. */
@inline
export function knownMeasurementLength(): usize {
  return measurementLength;
}

/**
 * Where measurement and tags of a line of Influx end when they are those of the record, whose metric's name has a field's name
 * behind the measurement; else 0.
 * @param isKnown they have their order
 */
@inline
function pastInfluxSeries(line: usize, record: usize, isKnown: bool): usize {
  const nameLength = firstNameLength(record);
  const name = firstName(record);
  const length = equalBytesOf(line, name, nameLength);
  if (length == 0 || length + 1 >= nameLength || byteAt(name + length) != UNDERSCORE) return 0;
  measurementLength = length;
  let p = line + length;
  const count = listTags(name + nameLength, tagsOf(record) + tagsLengthOf(record));
  if (count < 0) return 0;
  if (isKnown) {
    let order = orderOf(record);
    for (let i = 0; i < count; i++) {
      p = pastInfluxTag(p, listedTag(<u32>(order & ORDER_MASK)));
      if (p == 0) return 0;
      order >>= ORDER_BITS;
    }
  } else p = pastTagsInAnyOrder(p, <u32>count, true);
  return p != 0 && byteAt(p) == SPACE ? p : 0;
}

export function pastKnownInflux(line: usize, record: usize): usize {
  return textOf(record) == INFLUX_TEXT ? pastInfluxSeries(line, record, true) : 0;
}

/** Notes how measurement and tags of a line stand that were found to be those of the record, and to end there; answers whether they may. */
export function noteInflux(line: usize, end: usize, record: usize): bool {
  if (textOf(record) == (INFLUX_TEXT | UNUSUAL)) return false;
  const isUsual = pastInfluxSeries(line, record, false) == end;
  setText(record, isUsual ? INFLUX_TEXT : INFLUX_TEXT | UNUSUAL, foundOrder);
  return isUsual;
}

/** Where name and labels of a line of Prometheus' text end when they are those of the record; else 0. */
@inline
function pastExpositionSeries(line: usize, record: usize, isKnown: bool): usize {
  const nameLength = firstNameLength(record);
  const name = firstName(record);
  if (nameLength == 0 || !equalBytes(line, name, nameLength)) return 0;
  let p = line + nameLength;
  const count = listTags(name + nameLength, tagsOf(record) + tagsLengthOf(record));
  if (count < 0) return 0;
  // Labels may follow spaces.
  if (count == 0) return byteAt(p) == SPACE && byteAt(p + 1) > SPACE && byteAt(p + 1) != OPENING ? p : 0;
  if (byteAt(p) != OPENING) return 0;
  if (isKnown) {
    let order = orderOf(record);
    p = pastLabel(p, listedTag(<u32>(order & ORDER_MASK)));
    for (let i = 1; i < count; i++) {
      order >>= ORDER_BITS;
      if (p == 0 || byteAt(p) != COMMA) return 0;
      p = pastLabel(p, listedTag(<u32>(order & ORDER_MASK)));
    }
  } else p = pastTagsInAnyOrder(p, <u32>count, false);
  return p != 0 && byteAt(p) == CLOSING ? p + 1 : 0;
}

export function pastKnownExposition(line: usize, record: usize): usize {
  return textOf(record) == EXPOSITION_TEXT ? pastExpositionSeries(line, record, true) : 0;
}

/** As `noteInflux`. */
export function noteExposition(line: usize, end: usize, record: usize): void {
  if (textOf(record) == (EXPOSITION_TEXT | UNUSUAL)) return;
  const isUsual = pastExpositionSeries(line, record, false) == end;
  setText(record, isUsual ? EXPOSITION_TEXT : EXPOSITION_TEXT | UNUSUAL, foundOrder);
}

/** Where the path of a line of Carbon ends when it is that of the record; else 0. @param format of its paths */
@inline
export function pastKnownPath(line: usize, record: usize, format: u8): usize {
  return textOf(record) == format ? pastPath(line, record) : 0;
}

/** As `noteInflux`. */
@inline
export function notePath(line: usize, record: usize, format: u8): void {
  if (pastPath(line, record) != 0) setText(record, format, 0);
}

@inline
function pastPath(line: usize, record: usize): usize {
  const tags = tagsOf(record);
  const n = tagsLengthOf(record);
  return isPath(tags, n) && equalBytes(line, tags, n) && isSpace(byteAt(line + n)) ? line + n : 0;
}
