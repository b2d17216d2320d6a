// Metadata of remote write: type, help and unit of a metric family in version 1, of a series in version 2. Of each the places
// of its texts are noted, and a hash by which its reader sees that it is known already. What is beyond the room for a body is
// left out and counted. Where Prometheus' feature type-and-unit-labels is asked for, those of version 2 are labels of their series
// in the place of what the labels themselves say. The plain twin is engine/write_decoder/metadata_twin.ts.
//
//     entry    slot u32 | generation u32 | type u32 | problem u32 | hash u64 | name, help, unit: address u32, length u32 each

import { hashBytes } from '../identity/hash';
import { KEYS, setWord, word } from '../identity/identity';
import { isNamed, LABEL_BYTES, NAME_WORD } from '../identity/labels';
import {
  LABELS,
  MALFORMED,
  METADATA,
  METADATA_ENTRIES,
  METADATA_ENTRY_BYTES,
  METADATA_LEFT_OUT,
  METADATA_MAX,
  SYMBOLS,
  SYMBOL_COUNT,
  TAGS_COUNT_MAX,
  TYPE_TEXTS,
  TYPE_TEXT_BYTES,
} from '../identity/memory';
import { skipField, takeKey, takeLength, takeVarint, varintValue } from '../wire/protobuf';

const TYPE: usize = 8;
const PROBLEM: usize = 12;
const HASH: usize = 16;
const NAME: usize = 24;
const HELP: usize = 32;
const UNIT: usize = 40;
/** Keys of the other half of a hash. */
const OTHER_KEYS: usize = KEYS + 16;
const MIX: u32 = 0x9e3779b1;

/** Where the next entry stands, empty; 0 when there is no room. */
function nextEntry(slot: u32, generation: u32): usize {
  const count = word(METADATA);
  if (count == METADATA_MAX) {
    setWord(METADATA_LEFT_OUT, word(METADATA_LEFT_OUT) + 1);
    return 0;
  }
  const entry = METADATA_ENTRIES + <usize>count * METADATA_ENTRY_BYTES;
  memory.fill(entry, 0, METADATA_ENTRY_BYTES);
  store<u32>(entry, slot);
  store<u32>(entry, generation, 4);
  return entry;
}

/** Takes the MetricMetadata of version 1 in [p, end). Answers 0, or MALFORMED. */
export function takeFamily(p: usize, end: usize): i32 {
  const start = p;
  const entry = nextEntry(0, 0);
  while (p < end) {
    p = takeKey(p, end);
    if (p == 0) return MALFORMED;
    const key = <u32>varintValue();
    const type = key & 7;
    const field = key >> 3;
    if (field == 1) {
      if (type != 0) return MALFORMED;
      p = takeVarint(p, end);
      if (p == 0) return MALFORMED;
      if (entry != 0) store<u32>(entry, <u32>varintValue(), TYPE);
    } else if (field == 2 || field == 4 || field == 5) {
      if (type != 2) return MALFORMED;
      p = takeLength(p, end);
      if (p == 0) return MALFORMED;
      if (entry != 0) {
        const text = entry + (field == 2 ? NAME : field == 4 ? HELP : UNIT);
        store<u32>(text, <u32>p);
        store<u32>(text, <u32>varintValue(), 4);
      }
      p += <usize>varintValue();
    } else {
      p = skipField(p, end, type);
      if (p == 0) return MALFORMED;
    }
  }
  if (entry == 0) return 0;
  store<u32>(entry, hashBytes(start, end - start, KEYS), HASH);
  store<u32>(entry, hashBytes(start, end - start, OTHER_KEYS), HASH + 4);
  setWord(METADATA, word(METADATA) + 1);
  return 0;
}

/** Takes the Metadata of a series of version 2 in [p, end). Answers 0, or MALFORMED. */
export function takeMetadata(p: usize, end: usize, slot: u32, generation: u32): i32 {
  let metricType: u64 = 0;
  let help: u64 = 0;
  let unit: u64 = 0;
  while (p < end) {
    p = takeKey(p, end);
    if (p == 0) return MALFORMED;
    const key = <u32>varintValue();
    const field = key >> 3;
    if (field == 1 || field == 3 || field == 4) {
      if ((key & 7) != 0) return MALFORMED;
      p = takeVarint(p, end);
      if (p == 0) return MALFORMED;
      if (field == 1) metricType = varintValue();
      else if (field == 3) help = varintValue();
      else unit = varintValue();
    } else {
      p = skipField(p, end, key & 7);
      if (p == 0) return MALFORMED;
    }
  }
  // Prometheus sends an empty one where it knows nothing.
  if (metricType == 0 && help == 0 && unit == 0) return 0;
  const entry = nextEntry(slot, generation);
  if (entry == 0) return 0;
  store<u32>(entry, <u32>metricType, TYPE);
  const known = <u64>word(SYMBOL_COUNT);
  if (help >= known || unit >= known) store<u32>(entry, 1, PROBLEM);
  else {
    store<u64>(entry, load<u64>(SYMBOLS + (<usize>help << 3)), HELP);
    store<u64>(entry, load<u64>(SYMBOLS + (<usize>unit << 3)), UNIT);
    hashTexts(entry, KEYS, HASH);
    hashTexts(entry, OTHER_KEYS, HASH + 4);
  }
  setWord(METADATA, word(METADATA) + 1);
  return 0;
}

/** Of longer texts so many bytes count, and the length: a long one may be that of every series. */
const HASHED_BYTES_MAX: usize = 4096;

function hashText(text: usize, keys: usize): u32 {
  const length = <usize>load<u32>(text, 4);
  return hashBytes(<usize>load<u32>(text), min(length, HASHED_BYTES_MAX), keys) + <u32>length * MIX;
}

function hashTexts(entry: usize, keys: usize, at: usize): void {
  const help = hashText(entry + HELP, keys);
  const unit = hashText(entry + UNIT, keys);
  store<u32>(entry + at, ((help * MIX) ^ rotl(unit, 15)) * MIX + load<u32>(entry, TYPE));
}

const METADATA_KEY: u32 = 0x2a;
const TYPE_KEY: u32 = 0x08;
const UNIT_KEY: u32 = 0x20;
/** The last type that there is; others are unknown. */
const TYPE_MAX: u64 = 7;
/** Place of the names among the texts of types. */
const TYPE_NAME: u64 = 0;
const UNIT_NAME: u64 = 8;
// Their texts as little-endian words.
const TYPE_WORD: u64 = 0x5f5f_6570_7974_5f5f;
const UNIT_WORD: u64 = 0x5f5f_7469_6e75_5f5f;

/**
 * Puts the labels of the metadata of a series that was gathered from [p, end) among its labels at LABELS; answers how many
 * there are then. Metadata that are malformed change nothing: whoever takes them refuses the body.
 */
export function labelTypeAndUnit(p: usize, end: usize, symbolCount: u32, count: u32): u32 {
  if (count > TAGS_COUNT_MAX) return count;
  let metricType: u64 = 0;
  let unit: u64 = 0;
  while (p < end) {
    p = takeKey(p, end);
    const key = <u32>varintValue();
    if (key != METADATA_KEY) {
      p = skipField(p, end, key & 7);
      continue;
    }
    p = takeLength(p, end);
    const past = p + <usize>varintValue();
    while (p < past) {
      p = takeKey(p, past);
      if (p == 0) return count;
      const inner = <u32>varintValue();
      p = inner == TYPE_KEY || inner == UNIT_KEY ? takeVarint(p, past) : skipField(p, past, inner & 7);
      if (p == 0) return count;
      if (inner == TYPE_KEY) metricType = varintValue();
      else if (inner == UNIT_KEY) unit = varintValue();
    }
  }
  if (unit >= <u64>symbolCount) return count;
  if (metricType > TYPE_MAX) metricType = 0;
  const unitText = SYMBOLS + (<usize>unit << 3);
  const hasUnit = load<u32>(unitText, 4) != 0;
  if (metricType == 0 && !hasUnit) return count;
  const kept = leaveOut(count);
  let at = LABELS;
  // In their order, so that the series is known again as it stands.
  if (kept > 0 && isNamed(at, NAME_WORD)) at += LABEL_BYTES;
  const added: u32 = (metricType == 0 ? 0 : 1) + (hasUnit ? 1 : 0);
  const keptEnd = LABELS + <usize>kept * LABEL_BYTES;
  memory.copy(at + <usize>added * LABEL_BYTES, at, keptEnd - at);
  if (metricType != 0) {
    putText(at, TYPE_NAME);
    putText(at + 8, metricType);
    at += LABEL_BYTES;
  }
  if (hasUnit) {
    putText(at, UNIT_NAME);
    store<u64>(at, load<u64>(unitText), 8);
  }
  return kept + added;
}

/** Takes away the labels of these names; answers how many stay. */
function leaveOut(count: u32): u32 {
  let to = LABELS;
  const end = LABELS + <usize>count * LABEL_BYTES;
  for (let entry = LABELS; entry < end; entry += LABEL_BYTES) {
    if (isNamed(entry, TYPE_WORD) || isNamed(entry, UNIT_WORD)) continue;
    if (to != entry) memory.copy(to, entry, LABEL_BYTES);
    to += LABEL_BYTES;
  }
  return <u32>((to - LABELS) / LABEL_BYTES);
}

/** Writes where one of the texts of types stands. */
@inline
function putText(at: usize, place: u64): void {
  const text = TYPE_TEXTS + <usize>place * TYPE_TEXT_BYTES;
  store<u32>(at, <u32>text);
  store<u32>(at, load<u8>(text + TYPE_TEXT_BYTES - 1), 4);
}
