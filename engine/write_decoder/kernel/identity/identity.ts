// Series identities: tags in normal form (labels.ts) to slots, under a memory budget.
//
//     partition       greatest index u32 | entries u32, by the upper bits of the hash
//     table entry     hash u32 | record address u32 (0 = empty), open addressing inside the partition
//     slot address    record address u32; (next free slot << 1) | 1 while the slot is free
//     record          slot u32 (0 = dead) | tags length u24 | text u8 | hash u32 | next slot u32 | last tick u32 | generation u32 |
//                     order u64 | sibling u32 | tags, gap to 4
//     segment info    end of its records u32 | tick of its last sweep u32
//
// Records are appended segment by segment, around in a circle. A segment that is met again is
// swept: series that were used since the last sweep move together at its start, as long as they
// fill at most half of it, the others are evicted. Series of the running body are never evicted,
// for its rows name their slots.

import { equalBytes } from './bytes';
import { HASH_KEY_BYTES, hashBytes } from './hash';

export const STATE: usize = 0x10000;
// Offsets of words in the state.
const SLOTS_MAX: usize = 0;
export const SLOT_COUNT: usize = 4;
export const LIVE_COUNT: usize = 8;
/** (first free slot << 1) | 1, as in the slot addresses. */
const FREE_HEAD: usize = 12;
const PARTITION_SHIFT: usize = 16;
/** Entries for which each partition has a place. */
const PARTITION_ENTRIES: usize = 20;
const SEGMENT_COUNT: usize = 24;
const SEGMENT_HEAD: usize = 28;
export const SEGMENTS_USED: usize = 32;
const RECORD_NEXT: usize = 36;
const RECORD_END: usize = 40;
export const TICK: usize = 44;
export const NEW_COUNT: usize = 48;
const RECORDS: usize = 52;
export const ID_HASH: usize = 56;
export const GENERATION: usize = 60;
export const REFUSED: usize = 64;
export const ID_SCHEME: usize = 68;
const TABLE: usize = 72;
const SEGMENT_INFO: usize = 76;
const ARENA: usize = 80;
/** Where a partition is copied to while it grows. */
const GROW_SCRATCH: usize = 84;
const TABLE_ENTRIES: usize = 88;
/** Counts the sweeps, after which records may stand elsewhere. */
export const SWEEPS: usize = 92;
export const STATE_END: usize = 128;

/** The first slots are never given: they stand for series that cannot be kept, by the reason. */
const REFUSED_SLOTS: u32 = 3;
/** Record of these slots, which has no tags; slot 0 stands for no series, too. */
export const RECORD_ZERO: usize = STATE + 0x800;
/** Random bytes that the host writes before `initIdentity`. */
export const KEYS: usize = STATE + 0x1000;

const SLOT: usize = 0;
const LENGTH: usize = 4;
const LENGTH_MASK: u32 = 0xff_ffff;
/** Format of the lines that began with these tags, as lines/known.ts has it. */
const TEXT: usize = 7;
const HASH: usize = 8;
const NEXT: usize = 12;
const USED: usize = 16;
/** Of the slot, here too: a row gets it from the line that is near already. */
const LIFE: usize = 20;
/** In which order the tags stand in such a line. */
const ORDER: usize = 24;
/** Generation of the next slot when its series has the same tags but for the metric's name; else 0. */
const SIBLING: usize = 32;
const RECORD_HEAD_BYTES: usize = 36;

const ENTRY_BYTES: usize = 8;
const SEGMENT_INFO_BYTES: usize = 8;
export const SEGMENT_BYTES: usize = 1 << 18;
/** The table is split, so that growing never enters more than a small part again. */
const PARTITIONS: usize = STATE + 0x2000;
const PARTITION_BYTES: usize = 8;
const PARTITION_BITS_MAX: u32 = 8;
/** A partition that has place for so many at least is never full: hashes spread evenly. */
const PARTITION_ENTRIES_MIN_BITS: u32 = 12;
const PARTITION_ENTRIES_FIRST: u32 = 16;
const PAGE_BYTES: usize = 1 << 16;

@inline
export function word(offset: usize): u32 {
  return load<u32>(STATE + offset);
}

@inline
export function setWord(offset: usize, value: u32): void {
  store<u32>(STATE + offset, value);
}

@inline
function slotAddress(slot: u32): usize {
  return <usize>word(RECORDS) + (<usize>slot << 2);
}

/** Record of a slot that is known to be live, or of slot 0. */
@inline
export function recordOf(slot: u32): usize {
  return <usize>load<u32>(slotAddress(slot));
}

/** Whether a slot has a series now. */
@inline
export function isLive(slot: u32): bool {
  return (load<u32>(slotAddress(slot)) & 1) == 0;
}

/** Generation of the slot of a record. */
@inline
export function lifeOf(record: usize): u32 {
  return load<u32>(record, LIFE);
}

@inline
export function tagsOf(record: usize): usize {
  return record + RECORD_HEAD_BYTES;
}

@inline
export function tagsLengthOf(record: usize): usize {
  return <usize>(load<u32>(record, LENGTH) & LENGTH_MASK);
}

/** Format of the text that the tags are known to stand like; 0 for none. */
@inline
export function textOf(record: usize): u8 {
  return load<u8>(record, TEXT);
}

@inline
export function orderOf(record: usize): u64 {
  return load<u64>(record, ORDER);
}

@inline
export function setText(record: usize, format: u8, order: u64): void {
  store<u8>(record, format, TEXT);
  store<u64>(record, order, ORDER);
}

/** The slot that followed this one last time. */
@inline
export function nextOf(record: usize): u32 {
  return load<u32>(record, NEXT);
}

@inline
export function setNext(record: usize, slot: u32): void {
  if (load<u32>(record, NEXT) == slot) return;
  store<u32>(record, slot, NEXT);
  store<u32>(record, 0, SIBLING);
}

/** Notes that the next series has the same tags but for the metric's name. */
@inline
export function setSibling(record: usize): void {
  store<u32>(record, lifeOf(recordOf(nextOf(record))), SIBLING);
}

/** The next series when it has the same tags but for the metric's name; 0 when it has not, or is not there any more. */
@inline
export function siblingOf(record: usize): u32 {
  const life = load<u32>(record, SIBLING);
  const next = nextOf(record);
  return life != 0 && isLive(next) && lifeOf(recordOf(next)) == life ? next : 0;
}

/** Keeps the record from being evicted during this body. */
@inline
export function markUsed(record: usize): void {
  store<u32>(record, word(TICK), USED);
}

@inline
export function hashOfTags(tags: usize, n: usize): u32 {
  return hashBytes(tags, n, KEYS);
}

function pageAlign(address: usize): usize {
  return (address + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

/**
 * Lays the regions out after `base` in a memory of zeros. The table's greatest size is a power of
 * two above slotsMax. Answers the address after the last one.
 */
export function initIdentity(
  base: usize,
  slotsMax: u32,
  tableSizeMax: u32,
  segmentCount: u32,
  growScratch: usize,
): usize {
  setWord(SLOTS_MAX, slotsMax);
  setWord(SLOT_COUNT, REFUSED_SLOTS);
  const partitionBits = min(PARTITION_BITS_MAX, <u32>ctz(tableSizeMax) - PARTITION_ENTRIES_MIN_BITS);
  setWord(PARTITION_SHIFT, 32 - partitionBits);
  setWord(PARTITION_ENTRIES, tableSizeMax >> partitionBits);
  for (let i: u32 = 0; i < (<u32>1 << partitionBits); i++) {
    store<u32>(PARTITIONS + <usize>i * PARTITION_BYTES, PARTITION_ENTRIES_FIRST - 1);
  }
  setWord(TABLE_ENTRIES, PARTITION_ENTRIES_FIRST << partitionBits);
  setWord(GROW_SCRATCH, <u32>growScratch);
  setWord(SEGMENT_COUNT, segmentCount);
  setWord(RECORDS, <u32>base);
  for (let slot: usize = 0; slot < REFUSED_SLOTS; slot++) {
    store<u32>(base + (slot << 2), <u32>RECORD_ZERO);
  }
  store<u32>(RECORD_ZERO, 1, LIFE);
  base = pageAlign(base + <usize>slotsMax * 4);
  setWord(ID_HASH, <u32>base);
  base = pageAlign(base + <usize>slotsMax * 4);
  setWord(GENERATION, <u32>base);
  for (let slot: usize = 0; slot < REFUSED_SLOTS; slot++) store<u32>(base + (slot << 2), 1);
  base = pageAlign(base + <usize>slotsMax * 4);
  setWord(REFUSED, <u32>base);
  base = pageAlign(base + <usize>slotsMax);
  setWord(ID_SCHEME, <u32>base);
  base = pageAlign(base + <usize>slotsMax);
  setWord(TABLE, <u32>base);
  base = pageAlign(base + <usize>tableSizeMax * ENTRY_BYTES);
  setWord(SEGMENT_INFO, <u32>base);
  base = pageAlign(base + <usize>segmentCount * SEGMENT_INFO_BYTES);
  setWord(ARENA, <u32>base);
  setWord(FREE_HEAD, 1);
  setWord(SEGMENTS_USED, 1);
  setWord(RECORD_NEXT, <u32>base);
  setWord(RECORD_END, <u32>(base + SEGMENT_BYTES));
  return base + <usize>segmentCount * SEGMENT_BYTES;
}

/**
 * Slot of these tags, which is marked as used; made when they are new (and listed at `newSlots`).
 * 0: no room.
 */
export function slotOfTags(tags: usize, n: usize, hash: u32, newSlots: usize): u32 {
  const slot = knownSlotOf(tags, n, hash);
  return slot != 0 ? slot : insert(tags, n, hash, newSlots);
}

@inline
function partitionOf(hash: u32): usize {
  return <usize>(hash >> word(PARTITION_SHIFT));
}

@inline
function entriesOf(partition: usize): usize {
  return <usize>word(TABLE) + partition * <usize>word(PARTITION_ENTRIES) * ENTRY_BYTES;
}

@inline
function maskOf(partition: usize): u32 {
  return load<u32>(PARTITIONS + partition * PARTITION_BYTES);
}

/** Slot of these tags, which is marked as used; 0 when there is none. */
export function knownSlotOf(tags: usize, n: usize, hash: u32): u32 {
  const partition = partitionOf(hash);
  const table = entriesOf(partition);
  const mask = maskOf(partition);
  let i = hash & mask;
  while (true) {
    const entry = table + <usize>i * ENTRY_BYTES;
    const record = <usize>load<u32>(entry, 4);
    if (record == 0) return 0;
    if (load<u32>(entry) == hash && hasTags(record, tags, n)) return slotOfRecord(record);
    i = (i + 1) & mask;
  }
}

/** Whether the record has these tags; then it is marked as used. */
@inline
export function hasTags(record: usize, tags: usize, n: usize): bool {
  if (tagsLengthOf(record) != n || !equalBytes(tagsOf(record), tags, n)) return false;
  markUsed(record);
  return true;
}

/**
 * Record at the first place of the table where this hash may stand, or that of slot 0: a guess that
 * `hasTags` must confirm.
 */
@inline
export function firstCandidate(hash: u32): usize {
  const partition = partitionOf(hash);
  const entry = entriesOf(partition) + <usize>(hash & maskOf(partition)) * ENTRY_BYTES;
  const isHit = load<u32>(entry, 4) != 0 && load<u32>(entry) == hash;
  return select<usize>(<usize>load<u32>(entry, 4), RECORD_ZERO, isHit);
}

/**
 * Record at whichever place of the table this hash stands, or that of slot 0; confirmed by
 * `hasTags` too. The table's lines of a whole group are near when `firstCandidate` has looked at
 * them.
 */
export function nextCandidate(hash: u32): usize {
  const partition = partitionOf(hash);
  const table = entriesOf(partition);
  const mask = maskOf(partition);
  let i = hash & mask;
  while (true) {
    const entry = table + <usize>i * ENTRY_BYTES;
    const record = <usize>load<u32>(entry, 4);
    if (record == 0) return RECORD_ZERO;
    if (load<u32>(entry) == hash) return record;
    i = (i + 1) & mask;
  }
}

@inline
export function slotOfRecord(record: usize): u32 {
  return load<u32>(record, SLOT);
}

function insert(tags: usize, n: usize, hash: u32, newSlots: usize): u32 {
  const slot = takeSlot();
  if (slot == 0) return 0;
  const record = takeRecord(recordBytes(n));
  if (record == 0) {
    giveBack(slot);
    return 0;
  }
  store<u32>(record, slot, SLOT);
  store<u32>(record, <u32>n, LENGTH);
  store<u32>(record, hash, HASH);
  store<u32>(record, 0, NEXT);
  store<u64>(record, 0, ORDER);
  store<u32>(record, 0, SIBLING);
  markUsed(record);
  memory.copy(tagsOf(record), tags, n);
  store<u32>(slotAddress(slot), <u32>record);
  const generation = <usize>word(GENERATION) + (<usize>slot << 2);
  if (load<u32>(generation) == 0) store<u32>(generation, 1);
  store<u32>(record, load<u32>(generation), LIFE);
  store<u32>(<usize>word(ID_HASH) + (<usize>slot << 2), 0);
  store<u8>(<usize>word(REFUSED) + <usize>slot, 0);
  store<u8>(<usize>word(ID_SCHEME) + <usize>slot, 0);
  setWord(LIVE_COUNT, word(LIVE_COUNT) + 1);
  addEntry(hash, record);
  const newCount = word(NEW_COUNT);
  store<u32>(newSlots + (<usize>newCount << 2), slot);
  setWord(NEW_COUNT, newCount + 1);
  return slot;
}

@inline
function recordBytes(tagsLength: usize): usize {
  return (RECORD_HEAD_BYTES + tagsLength + 3) & ~3;
}

function addEntry(hash: u32, record: usize): void {
  const partition = partitionOf(hash);
  const at = PARTITIONS + partition * PARTITION_BYTES;
  const count = load<u32>(at, 4) + 1;
  store<u32>(at, count, 4);
  const mask = load<u32>(at);
  if (count > mask >> 1 && mask + 1 < word(PARTITION_ENTRIES)) growPartition(partition, mask);
  place(entriesOf(partition), load<u32>(at), hash, record);
}

function place(table: usize, mask: u32, hash: u32, record: usize): void {
  let i = hash & mask;
  while (load<u32>(table + <usize>i * ENTRY_BYTES, 4) != 0) i = (i + 1) & mask;
  store<u32>(table + <usize>i * ENTRY_BYTES, hash);
  store<u32>(table + <usize>i * ENTRY_BYTES, <u32>record, 4);
}

/** Doubles a partition in its place and enters all of it again. */
function growPartition(partition: usize, mask: u32): void {
  const table = entriesOf(partition);
  const size = (<usize>mask + 1) * ENTRY_BYTES;
  const copy = <usize>word(GROW_SCRATCH);
  memory.copy(copy, table, size);
  memory.fill(table, 0, size << 1);
  const larger = (mask << 1) | 1;
  store<u32>(PARTITIONS + partition * PARTITION_BYTES, larger);
  setWord(TABLE_ENTRIES, word(TABLE_ENTRIES) + mask + 1);
  for (let entry = copy; entry < copy + size; entry += ENTRY_BYTES) {
    const record = <usize>load<u32>(entry, 4);
    if (record != 0) place(table, larger, load<u32>(entry), record);
  }
}

function takeSlot(): u32 {
  let sweepsLeft = word(SEGMENT_COUNT);
  while (true) {
    const free = word(FREE_HEAD) >> 1;
    if (free != 0) {
      setWord(FREE_HEAD, load<u32>(slotAddress(free)));
      return free;
    }
    const slotCount = word(SLOT_COUNT);
    if (slotCount < word(SLOTS_MAX)) {
      setWord(SLOT_COUNT, slotCount + 1);
      // Marked as free until its record is there, for a sweep may come before.
      store<u32>(slotAddress(slotCount), 1);
      return slotCount;
    }
    if (sweepsLeft-- == 0) return 0;
    nextSegment();
  }
}

function giveBack(slot: u32): void {
  store<u32>(slotAddress(slot), word(FREE_HEAD));
  setWord(FREE_HEAD, (slot << 1) | 1);
}

function takeRecord(size: usize): usize {
  let sweepsLeft = word(SEGMENT_COUNT);
  while (true) {
    const record = <usize>word(RECORD_NEXT);
    if (size <= <usize>word(RECORD_END) - record) {
      setWord(RECORD_NEXT, <u32>(record + size));
      return record;
    }
    if (sweepsLeft-- == 0) return 0;
    nextSegment();
  }
}

@inline
function segmentInfo(segment: u32): usize {
  return <usize>word(SEGMENT_INFO) + <usize>segment * SEGMENT_INFO_BYTES;
}

function nextSegment(): void {
  let segment = word(SEGMENT_HEAD);
  store<u32>(segmentInfo(segment), word(RECORD_NEXT));
  segment = segment + 1 == word(SEGMENT_COUNT) ? 0 : segment + 1;
  setWord(SEGMENT_HEAD, segment);
  const start = <usize>word(ARENA) + <usize>segment * SEGMENT_BYTES;
  let next = start;
  if (segment < word(SEGMENTS_USED)) next = sweep(segment, start);
  else setWord(SEGMENTS_USED, segment + 1);
  setWord(RECORD_NEXT, <u32>next);
  setWord(RECORD_END, <u32>(start + SEGMENT_BYTES));
}

/** Evicts what was not used since the last sweep; answers the end of what stays. */
function sweep(segment: u32, start: usize): usize {
  setWord(SWEEPS, word(SWEEPS) + 1);
  const info = segmentInfo(segment);
  const end = <usize>load<u32>(info);
  const lastSweep = load<u32>(info, 4);
  const tick = word(TICK);
  let kept = start;
  for (let record = start; record < end; ) {
    const size = recordBytes(tagsLengthOf(record));
    const slot = load<u32>(record, SLOT);
    if (slot != 0) {
      const used = load<u32>(record, USED);
      const wanted = <i32>(used - lastSweep) > 0 && kept - start + size <= SEGMENT_BYTES / 2;
      if (used == tick || wanted) {
        if (kept != record) {
          moveEntry(load<u32>(record, HASH), record, kept);
          memory.copy(kept, record, size);
          store<u32>(slotAddress(slot), <u32>kept);
        }
        kept += size;
      } else {
        evict(slot, record);
      }
    }
    record += size;
  }
  store<u32>(info, tick, 4);
  return kept;
}

/** Takes a slot away from its series. */
function evict(slot: u32, record: usize): void {
  removeEntry(load<u32>(record, HASH), record);
  store<u32>(record, 0, SLOT);
  giveBack(slot);
  setWord(LIVE_COUNT, word(LIVE_COUNT) - 1);
  // Readers that kept the old generation see that the slot is not theirs, also while nobody has it.
  const generation = <usize>word(GENERATION) + (<usize>slot << 2);
  store<u32>(generation, max<u32>(load<u32>(generation) + 1, 1));
}

/** Notes in its table entry that a record moves. */
function moveEntry(hash: u32, record: usize, target: usize): void {
  const partition = partitionOf(hash);
  const table = entriesOf(partition);
  const mask = maskOf(partition);
  let i = hash & mask;
  while (load<u32>(table + <usize>i * ENTRY_BYTES, 4) != <u32>record) i = (i + 1) & mask;
  store<u32>(table + <usize>i * ENTRY_BYTES, <u32>target, 4);
}

/** Removes a table entry and closes the gap, so that probes need no tombstones. */
function removeEntry(hash: u32, record: usize): void {
  const partition = partitionOf(hash);
  const at = PARTITIONS + partition * PARTITION_BYTES;
  store<u32>(at, load<u32>(at, 4) - 1, 4);
  const table = entriesOf(partition);
  const mask = load<u32>(at);
  let gap = hash & mask;
  while (load<u32>(table + <usize>gap * ENTRY_BYTES, 4) != <u32>record) gap = (gap + 1) & mask;
  let i = gap;
  while (true) {
    i = (i + 1) & mask;
    const entry = table + <usize>i * ENTRY_BYTES;
    if (load<u32>(entry, 4) == 0) break;
    const home = load<u32>(entry) & mask;
    // An entry may move to the gap unless its home lies after the gap.
    if (((i - home) & mask) < ((i - gap) & mask)) continue;
    store<u64>(table + <usize>gap * ENTRY_BYTES, load<u64>(entry));
    gap = i;
  }
  store<u64>(table + <usize>gap * ENTRY_BYTES, 0);
}

/** Entries of the table for which memory was used. */
export function tableEntries(): u32 {
  return word(TABLE_ENTRIES);
}

/** Takes the slots of this body's new series away again. */
export function forgetNewSlots(newSlots: usize): void {
  const newCount = word(NEW_COUNT);
  for (let i: u32 = 0; i < newCount; i++) {
    const slot = load<u32>(newSlots + (<usize>i << 2));
    evict(slot, recordOf(slot));
  }
  setWord(NEW_COUNT, 0);
}
