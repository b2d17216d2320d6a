// Exemplars of remote write: from the wire to typed values of kind 4 (docs/EXEMPLARS.md), as engine/typed/exemplar.ts makes
// them. One that is none is noted with its reason and is no value; only what is no protobuf makes the body malformed. What is
// beyond the room for a body is passed over and counted. The plain twin is engine/write_decoder/exemplar_twin.ts.

import { kindExemplar, typeBytes, typeDouble } from '../../../typed/kernel/fields';
import { copyBytes, runesOf } from '../identity/bytes';
import { murmur3 } from '../identity/hash';
import { setWord, word } from '../identity/identity';
import { label, LABEL_BYTES, sortedLabels } from '../identity/labels';
import {
  EXEMPLARS,
  EXEMPLARS_LEFT_OUT,
  EXEMPLARS_MAX,
  EXEMPLAR_BYTES,
  EXEMPLAR_BYTES_MAX,
  EXEMPLAR_ENDS,
  EXEMPLAR_GENERATIONS,
  EXEMPLAR_LABELS_MAX,
  EXEMPLAR_PROBLEMS,
  EXEMPLAR_RUNES_MAX,
  EXEMPLAR_SLOTS,
  EXEMPLAR_TIMES,
  EXEMPLAR_VALUES,
  EXEMPLAR_VALUE_BYTES_MAX,
  LABELS,
  MALFORMED,
  SYMBOLS,
  SYMBOL_COUNT,
} from '../identity/memory';
import { skipField, takeKey, takeLength, takeVarint, varintValue } from '../wire/protobuf';

// `exemplarProblem` of engine/write_decoder/core.ts.
const TOO_LONG: u8 = 1;
const NOT_UTF8: u8 = 2;
const BAD_REFERENCE: u8 = 3;
const BAD_TIME: u8 = 4;

const NANOS_PER_MILLI: i64 = 1_000_000;
/** Times beyond are none that nanoseconds can say. */
const MILLIS_MAX: i64 = 9_223_372_036_853;
/** A character of UTF-8 has at most so many bytes. */
const RUNE_BYTES_MAX: u32 = 4;

let valueBits: u64 = 0;
let timestampMillis: i64 = 0;
/** Texts that were gathered at LABELS, two a label. */
let textCount: u32 = 0;
let problem: u8 = 0;

/**
 * Takes the exemplar in [p, end), of version 1 or 2.
 * Answers 0, or MALFORMED.
 */
export function takeExemplar(p: usize, end: usize, slot: u32, generation: u32, isV2: bool): i32 {
  const row = <usize>word(EXEMPLARS);
  const from = <usize>word(EXEMPLAR_BYTES);
  // Nobody looks at those that have no room: a body may be nothing else.
  if (row == <usize>EXEMPLARS_MAX || from + EXEMPLAR_VALUE_BYTES_MAX > <usize>EXEMPLAR_BYTES_MAX) {
    setWord(EXEMPLARS_LEFT_OUT, word(EXEMPLARS_LEFT_OUT) + 1);
    return 0;
  }
  if (!read(p, end, isV2)) return MALFORMED;
  const valueAt = EXEMPLAR_VALUES + from;
  const length = problem == 0 ? putValue(valueAt) : 0;
  let nanos: i64 = 0;
  if (problem == 0) {
    nanos = timestampMillis * NANOS_PER_MILLI + <i64>(murmur3(valueAt, length) % 1_000_000);
  }
  store<u32>(EXEMPLAR_SLOTS + (row << 2), slot);
  store<u32>(EXEMPLAR_GENERATIONS + (row << 2), generation);
  store<i64>(EXEMPLAR_TIMES + (row << 3), nanos);
  store<u32>(EXEMPLAR_ENDS + (row << 2), <u32>(from + length));
  store<u8>(EXEMPLAR_PROBLEMS + row, problem);
  setWord(EXEMPLARS, <u32>row + 1);
  setWord(EXEMPLAR_BYTES, <u32>(from + length));
  return 0;
}

/** Reads the fields; false where they are malformed. */
function read(p: usize, end: usize, isV2: bool): bool {
  valueBits = 0;
  timestampMillis = 0;
  textCount = 0;
  problem = 0;
  while (p < end) {
    p = takeKey(p, end);
    if (p == 0) return false;
    const key = <u32>varintValue();
    const type = key & 7;
    const field = key >> 3;
    if (field == 1) {
      p = isV2 ? takeReferences(p, end, type) : takeLabel(p, end, type);
      if (p == 0) return false;
    } else if (field == 2) {
      if (type != 1 || end - p < 8) return false;
      valueBits = load<u64>(p);
      p += 8;
    } else if (field == 3) {
      if (type != 0) return false;
      p = takeVarint(p, end);
      if (p == 0) return false;
      timestampMillis = <i64>varintValue();
    } else {
      p = skipField(p, end, type);
      if (p == 0) return false;
    }
  }
  if ((textCount & 1) != 0 && problem == 0) problem = BAD_REFERENCE;
  if (problem == 0) problem = problemOfTexts();
  if (problem == 0 && (timestampMillis > MILLIS_MAX || timestampMillis < -MILLIS_MAX)) {
    problem = BAD_TIME;
  }
  return true;
}

function takeLabel(p: usize, end: usize, type: u32): usize {
  if (type != 2) return 0;
  p = takeLength(p, end);
  if (p == 0) return 0;
  const past = p + <usize>varintValue();
  // Of one too many the place is used again: it is looked at for its form alone.
  const place = min(textCount >> 1, EXEMPLAR_LABELS_MAX);
  if (!label(p, past, LABELS + <usize>place * LABEL_BYTES)) return 0;
  textCount += 2;
  return past;
}

/** Packed, or one number a field. */
function takeReferences(p: usize, end: usize, type: u32): usize {
  if (type != 0 && type != 2) return 0;
  let partEnd = end;
  if (type == 2) {
    p = takeLength(p, end);
    if (p == 0) return 0;
    partEnd = p + <usize>varintValue();
  }
  while (p < partEnd || type == 0) {
    p = takeVarint(p, partEnd);
    if (p == 0) return 0;
    const reference = varintValue();
    if (reference >= <u64>word(SYMBOL_COUNT)) problem = BAD_REFERENCE;
    else {
      const place = min(textCount, EXEMPLAR_LABELS_MAX * 2);
      const symbol = SYMBOLS + (<usize>reference << 3);
      store<u64>(LABELS + (<usize>place << 3), load<u64>(symbol));
    }
    textCount++;
    if (type == 0) break;
  }
  return p;
}

function problemOfTexts(): u8 {
  if (textCount > EXEMPLAR_LABELS_MAX * 2) return TOO_LONG;
  let runes: u32 = 0;
  // Lengths first: texts that are much too long are not looked at.
  let bytes: u64 = 0;
  for (let i: u32 = 0; i < textCount; i++) bytes += <u64>load<u32>(LABELS + (<usize>i << 3), 4);
  if (bytes > <u64>(EXEMPLAR_RUNES_MAX * RUNE_BYTES_MAX)) return TOO_LONG;
  for (let i: u32 = 0; i < textCount; i++) {
    const text = LABELS + (<usize>i << 3);
    const count = runesOf(<usize>load<u32>(text), <usize>load<u32>(text, 4));
    if (count < 0) return NOT_UTF8;
    runes += <u32>count;
  }
  return runes > EXEMPLAR_RUNES_MAX ? TOO_LONG : 0;
}

/** Writes the typed value; answers its length. */
function putValue(target: usize): usize {
  let p = target;
  store<u8>(p, <u8>kindExemplar);
  store<u8>(p, 0, 1);
  p += 2;
  if (valueBits != 0) {
    store<u8>(p, <u8>((1 << 3) | typeDouble));
    store<u64>(p, valueBits, 1);
    p += 9;
  }
  const count = textCount >> 1;
  if (count == 0) return p - target;
  const labels = sortedLabels(count);
  p = putTexts(p, 2, labels, count);
  return putTexts(p, 3, labels + 8, count) - target;
}

/** Writes a field of bytes with one of the two texts of each label, after its length. */
function putTexts(p: usize, number: u32, texts: usize, count: u32): usize {
  let size: usize = 0;
  for (let i: usize = 0; i < <usize>count; i++) {
    size += 2 + <usize>load<u32>(texts + i * LABEL_BYTES, 4);
  }
  store<u8>(p++, <u8>((number << 3) | typeBytes));
  let rest = size;
  for (; rest > 127; rest >>= 7) store<u8>(p++, <u8>(rest | 128));
  store<u8>(p++, <u8>rest);
  for (let i: usize = 0; i < <usize>count; i++) {
    const text = texts + i * LABEL_BYTES;
    const length = <usize>load<u32>(text, 4);
    store<u16>(p, <u16>length);
    copyBytes(p + 2, <usize>load<u32>(text), length);
    p += 2 + length;
  }
  return p;
}
