// Lookups in groups, while predictions are left out: the table's places of all series of a group
// are read one after the other, then their records, so that the waits for memory overlap.

import {
  ID_SCRATCH,
  LATE_LABEL,
  NEW_SLOTS,
  NO_ROOM,
  OVERSIZE_SLOT,
  PREVIOUS,
  STAGED,
  TAGS_BYTES_MAX,
} from '../identity/memory';
import {
  RECORD_ZERO,
  SWEEPS,
  firstCandidate,
  hasTags,
  hashOfTags,
  knownSlotOf,
  lifeOf,
  nextCandidate,
  recordOf,
  setNext,
  setWord,
  slotOfRecord,
  slotOfTags,
  word,
} from '../identity/identity';
import { HAS_SAMPLES, gatherLabels, normalTags } from '../identity/labels';
import { samples } from './samples';

/** Series that are looked up together. */
export const STAGED_MAX: u32 = 32;
/**
 * start u32 | end u32 | tags u32 (start: they are looked up where they stand) | tags length u32 (or
 * NOT_KEPT) | hash u32 | slot u32 | record u32 | 0
 */
export const STAGED_BYTES: usize = 32;
/** Instead of a length: the series has no samples, or its tags are too many or too long. */
const NOT_KEPT: u32 = 0xffff_ffff;

/**
 * End of the labels when they stand first, each shorter than 128 bytes, with a sample after them;
 * else p. They may be the normal form as they are: what equals a record is.
 */
function labelsEndOf(p: usize, end: usize): usize {
  let q = p;
  while (end - q >= 2 && load<u8>(q) == 0x0a) {
    const length = <usize>load<u8>(q, 1);
    if (length >= 128 || length > end - q - 2) return p;
    q += 2 + length;
  }
  return q < end && load<u8>(q) == 0x12 && <u64>(q - p) <= TAGS_BYTES_MAX ? q : p;
}

/**
 * Prepares the lookup of one series; answers the bytes of its tags at scratch, or a negative
 * problem.
 */
export function stage(p: usize, end: usize, scratch: usize, staged: usize): i32 {
  store<u32>(staged, <u32>p);
  store<u32>(staged, <u32>end, 4);
  const labelsEnd = labelsEndOf(p, end);
  if (labelsEnd != p) {
    store<u32>(staged, <u32>p, 8);
    store<u32>(staged, <u32>(labelsEnd - p), 12);
    store<u32>(staged, hashOfTags(p, labelsEnd - p), 16);
    return 0;
  }
  const gathered = gatherLabels(p, end);
  if (gathered < 0) return gathered;
  let length: i32 = -1;
  if ((gathered & HAS_SAMPLES) != 0) {
    length = normalTags(<u32>gathered & (HAS_SAMPLES - 1), scratch);
  }
  store<u32>(staged, <u32>scratch, 8);
  store<u32>(staged, length < 0 ? NOT_KEPT : <u32>length, 12);
  store<u32>(staged, length < 0 ? 0 : hashOfTags(scratch, <usize>length), 16);
  return max(length, 0);
}

/**
 * Slot of a series whose labels were staged where they stand in the body and are no record; or a
 * negative problem.
 */
function slotOfWire(p: usize, end: usize): i32 {
  const gathered = gatherLabels(p, end);
  if (gathered < 0) return gathered;
  const length = normalTags(<u32>gathered & (HAS_SAMPLES - 1), ID_SCRATCH);
  if (length < 0) return <i32>OVERSIZE_SLOT;
  const slot = slotOfTags(ID_SCRATCH, length, hashOfTags(ID_SCRATCH, length), NEW_SLOTS);
  return slot == 0 ? NO_ROOM : <i32>slot;
}

/** Notes which series followed the one before. */
@inline
function follow(previous: usize, slot: u32): void {
  setNext(previous, slot);
  setWord(PREVIOUS, slot);
}

/**
 * Emits one staged series whose labels stand in the body; answers the number of rows, or a negative
 * problem.
 * @param previous record of the series before
 * @param record of this series, or that of slot 0 when it was not found
 */
function emitWire(at: usize, previous: usize, record: usize, rowCount: i32): i32 {
  const p = <usize>load<u32>(at);
  const end = <usize>load<u32>(at, 4);
  const length = <usize>load<u32>(at, 12);
  if (record == RECORD_ZERO) {
    // One before it in the group may have made it.
    const known = knownSlotOf(p, length, load<u32>(at, 16));
    if (known != 0) record = recordOf(known);
  }
  if (record != RECORD_ZERO) {
    const known = slotOfRecord(record);
    const outcome = samples(p + length, end, known, lifeOf(record), rowCount, false);
    if (outcome != LATE_LABEL) {
      follow(previous, known);
      return outcome;
    }
  }
  const sweeps = word(SWEEPS);
  const slot = slotOfWire(p, end);
  if (slot < 0) return slot;
  if (slot != <i32>OVERSIZE_SLOT) {
    follow(word(SWEEPS) == sweeps ? previous : recordOf(word(PREVIOUS)), slot);
  }
  return samples(p, end, slot, lifeOf(recordOf(slot)), rowCount, true);
}

/** The same of one whose tags were written in normal form. */
function emitNormal(at: usize, previous: usize, record: usize, rowCount: i32): i32 {
  const length = load<u32>(at, 12);
  if (length == NOT_KEPT) record = RECORD_ZERO;
  else {
    if (record == RECORD_ZERO) {
      const slot = slotOfTags(<usize>load<u32>(at, 8), <usize>length, load<u32>(at, 16), NEW_SLOTS);
      if (slot == 0) return NO_ROOM;
      record = recordOf(slot);
      previous = recordOf(word(PREVIOUS));
    }
    follow(previous, slotOfRecord(record));
  }
  const slot = slotOfRecord(record);
  return samples(<usize>load<u32>(at), <usize>load<u32>(at, 4), slot, lifeOf(record), rowCount, true);
}

/**
 * Looks the staged series up together and emits their rows; answers the number of rows, or a
 * negative problem.
 */
export function emitStaged(count: u32, rowCount: i32): i32 {
  const end = STAGED + <usize>count * STAGED_BYTES;
  for (let at = STAGED; at < end; at += STAGED_BYTES) {
    store<u32>(at, <u32>firstCandidate(load<u32>(at, 16)), 24);
  }
  // A fourth of the series stand behind the first place; by now the places are near.
  for (let at = STAGED; at < end; at += STAGED_BYTES) {
    if (<usize>load<u32>(at, 24) != RECORD_ZERO) continue;
    store<u32>(at, <u32>nextCandidate(load<u32>(at, 16)), 24);
  }
  // The lines of all records are on their way before the first one is compared.
  let touched: u32 = 0;
  for (let at = STAGED; at < end; at += STAGED_BYTES) {
    const record = <usize>load<u32>(at, 24);
    touched ^= load<u32>(record) ^ load<u32>(record, 64) ^ load<u32>(record, 128) ^ load<u32>(record, 192);
  }
  store<u32>(end, touched);
  // What is found is marked as used, so that no insertion of this group evicts it.
  for (let at = STAGED; at < end; at += STAGED_BYTES) {
    const record = <usize>load<u32>(at, 24);
    const isKnown = hasTags(record, <usize>load<u32>(at, 8), <usize>load<u32>(at, 12));
    store<u32>(at, isKnown ? slotOfRecord(record) : 0, 20);
  }
  const sweeps = word(SWEEPS);
  let previous = recordOf(word(PREVIOUS));
  for (let at = STAGED; at < end; at += STAGED_BYTES) {
    const slot = load<u32>(at, 20);
    let record = RECORD_ZERO;
    if (slot != 0) record = word(SWEEPS) == sweeps ? <usize>load<u32>(at, 24) : recordOf(slot);
    const isWire = load<u32>(at) == load<u32>(at, 8);
    rowCount = isWire
      ? emitWire(at, previous, record, rowCount)
      : emitNormal(at, previous, record, rowCount);
    if (rowCount < 0) return rowCount;
    const isPlain = slot != 0 && word(PREVIOUS) == slot && word(SWEEPS) == sweeps;
    previous = isPlain ? record : recordOf(word(PREVIOUS));
  }
  return rowCount;
}
