// The labels of one series: gathered, sorted and written in normal form.
//
// The normal form is what Prometheus itself sends: label messages of a TimeSeries, sorted by name,
// name before value, both always there, shortest lengths. It says the same as the canonical layout
// of lib/tags.ts, one to one. Identities are kept in it because a usual series can then be compared
// with its record as it stands, whereas labels in any other order or encoding come to the same
// normal form first.

import { compareBytes, copyBytes, equalBytes } from './bytes';
import { LABELS, LABELS_SORTED, MALFORMED, TAGS_BYTES_MAX, TAGS_COUNT_MAX } from './memory';
import { skipField, takeKey, takeLength, varintValue } from '../wire/protobuf';

/** name address u32 | name length u32 | value address u32 | value length u32 */
export const LABEL_BYTES: usize = 16;
/** "__name__" as a little-endian word. */
export const NAME_WORD: u64 = 0x5f5f_656d_616e_5f5f;

/** Whether the name of a gathered label is these eight bytes. */
@inline
export function isNamed(entry: usize, word: u64): bool {
  return load<u32>(entry, 4) == 8 && load<u64>(<usize>load<u32>(entry)) == word;
}

/** In the answer of `gatherLabels`: a sample, a histogram or an exemplar is among the fields. */
export const HAS_SAMPLES: i32 = 1 << 16;

/**
 * Lists the labels of a series at LABELS, at most TAGS_COUNT_MAX + 1 of them. Answers their number,
 * with HAS_SAMPLES when a sample, a histogram or an exemplar is among the fields, or MALFORMED.
 */
export function gatherLabels(p: usize, end: usize): i32 {
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
        if (key == 0x12 || key == 0x22 || key == 0x1a) hasSamples = HAS_SAMPLES;
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

/** Writes where name and value of one label stand to target; false when it is malformed. */
export function label(p: usize, end: usize, target: usize): bool {
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

/**
 * Writes the gathered labels to target in normal form; answers the length, or -1 when they are too
 * many or too long. At most NORMAL_BYTES_MAX are written.
 */
export function normalTags(count: u32, target: usize): i32 {
  if (count > TAGS_COUNT_MAX) return -1;
  let size: u64 = 0;
  for (let i: u32 = 0; i < count; i++) {
    const entry = LABELS + <usize>i * LABEL_BYTES;
    size += 4 + <u64>load<u32>(entry, 4) + <u64>load<u32>(entry, 12);
  }
  if (size > TAGS_BYTES_MAX) return -1;
  const labels = sortedLabels(count);
  let p = target;
  for (let i: u32 = 0; i < count; i++) {
    const entry = labels + <usize>i * LABEL_BYTES;
    p = putLabel(
      p,
      <usize>load<u32>(entry),
      <usize>load<u32>(entry, 4),
      <usize>load<u32>(entry, 8),
      <usize>load<u32>(entry, 12),
    );
  }
  return <i32>(p - target);
}

/**
 * Whether tags in normal form are the gathered labels as they stand. Long texts are never found to
 * be equal.
 */
export function areGathered(tags: usize, n: usize, count: u32): bool {
  let p = tags;
  const end = tags + n;
  const labelsEnd = LABELS + <usize>count * LABEL_BYTES;
  for (let entry = LABELS; entry < labelsEnd; entry += LABEL_BYTES) {
    const nameLength = <usize>load<u32>(entry, 4);
    const valueLength = <usize>load<u32>(entry, 12);
    const labelLength = nameLength + valueLength + 4;
    if (labelLength > 127 || labelLength + 2 > end - p) return false;
    if (load<u32>(p) != (0x0a_000a | (<u32>labelLength << 8) | (<u32>nameLength << 24))) return false;
    if (!equalBytes(p + 4, <usize>load<u32>(entry), nameLength)) return false;
    p += 4 + nameLength;
    if (!equalBytes(p + 2, <usize>load<u32>(entry, 8), valueLength)) return false;
    p += 2 + valueLength;
  }
  return p == end;
}

/** Writes one label in normal form; answers the position after it. */
@inline
function putLabel(p: usize, name: usize, nameLength: usize, value: usize, valueLength: usize): usize {
  const labelLength = nameLength + valueLength + 4;
  if (labelLength < 128) {
    store<u32>(p, 0x0a_000a | (<u32>labelLength << 8) | (<u32>nameLength << 24));
    copyBytes(p + 4, name, nameLength);
    p += 4 + nameLength;
    store<u16>(p, <u16>(0x12 | (valueLength << 8)));
    copyBytes(p + 2, value, valueLength);
    return p + 2 + valueLength;
  }
  const textsLength = labelLength - 2 + varintBytes(nameLength) + varintBytes(valueLength);
  p = putText(p, 0x0a, textsLength);
  p = putText(p, 0x0a, nameLength);
  copyBytes(p, name, nameLength);
  p = putText(p + nameLength, 0x12, valueLength);
  copyBytes(p, value, valueLength);
  return p + valueLength;
}

function varintBytes(value: usize): usize {
  return value < 1 << 7 ? 1 : value < 1 << 14 ? 2 : 3;
}

/** Writes the key and the length of a text. */
function putText(p: usize, key: u8, length: usize): usize {
  store<u8>(p++, key);
  while (length > 127) {
    store<u8>(p++, <u8>(length | 128));
    length >>= 7;
  }
  store<u8>(p, <u8>length);
  return p + 1;
}

/** Writes gathered labels, sorted, in the canonical layout; answers the length. */
export function canonicalOfGathered(count: u32, target: usize): usize {
  const start = target;
  const labels = sortedLabels(count);
  for (let i: u32 = 0; i < count; i++) {
    const entry = labels + <usize>i * LABEL_BYTES;
    for (let text: usize = 0; text < 16; text += 8) {
      const length = <usize>load<u32>(entry + text, 4);
      store<u16>(target, <u16>length);
      copyBytes(target + 2, <usize>load<u32>(entry + text), length);
      target += 2 + length;
    }
  }
  return target - start;
}

/** Writes tags in normal form to target in the canonical layout; answers the length. */
export function canonicalOfNormal(tags: usize, n: usize, target: usize): usize {
  const start = target;
  const end = tags + n;
  let p = tags;
  while (p < end) {
    // Key and length of the label, then of its name, then of its value.
    p = takeLength(p + 1, end);
    for (let text = 0; text < 2; text++) {
      p = takeLength(p + 1, end);
      const length = <usize>varintValue();
      store<u16>(target, <u16>length);
      copyBytes(target + 2, p, length);
      target += 2 + length;
      p += length;
    }
  }
  return target - start;
}

/**
 * Writes tags in the canonical layout to target in normal form; answers the length, -1 when they
 * are too many or too long, or MALFORMED.
 */
export function normalOfCanonical(tags: usize, n: usize, target: usize): i32 {
  if (<u64>n > TAGS_BYTES_MAX) return -1;
  const end = tags + n;
  const start = target;
  let count: u32 = 0;
  for (let p = tags; p < end; count++) {
    if (count == TAGS_COUNT_MAX) return -1;
    if (end - p < 4) return MALFORMED;
    const name = p + 2;
    const nameLength = <usize>load<u16>(p);
    if (nameLength > end - name - 2) return MALFORMED;
    const value = name + nameLength + 2;
    const valueLength = <usize>load<u16>(value - 2);
    if (valueLength > end - value) return MALFORMED;
    target = putLabel(target, name, nameLength, value, valueLength);
    p = value + valueLength;
  }
  return <i32>(target - start);
}

/**
 * Address of the gathered labels in their order: by name, then by value. Merges runs, back and
 * forth.
 */
export function sortedLabels(count: u32): usize {
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
