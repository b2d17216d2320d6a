// Entries of what is known: words of their head, and the bytes by which they are found. The number of an entry is its address
// divided by four. One follows another when it was asked for right after it, and is expected there the next time.

/** Words of an entry's head; its key comes behind them. */
export const HASH: usize = 0;
export const PARENT: usize = 4;
export const EXTRA: usize = 8;
export const LENGTH: usize = 12;
export const NEXT: usize = 16;
export const SLOTS: usize = 20;
export const SLOT_COUNT: usize = 24;
export const KEY: usize = 28;

/** Of hashes that meet at one place: what finds none is made anew each time. */
const PROBES_MAX: u32 = 64;
const MIX: u64 = 0x9e3779b97f4a7c15;
const MIX_WORD: u64 = 0xff51afd7ed558ccd;

let table: usize = 0;
let mask: u32 = 0;
let seed: u64 = 0;
/** Entry that is no one's: what comes first follows it. */
let root: usize = 0;
let last: usize = 0;

/** What was not found last: its hash, and where in the table it would stand; 0 for nowhere. */
let missingHash: u32 = 0;
let missingPlace: usize = 0;

/** Memory is all zeros, and what nobody has touched takes none. */
export function initEntries(tableAt: usize, tableWords: u32, rootAt: usize, seedWord: u32): void {
  table = tableAt;
  mask = tableWords - 1;
  root = rootAt;
  seed = <u64>seedWord * MIX;
  last = root;
}

export function clearEntries(): void {
  memory.fill(table, 0, (<usize>mask + 1) << 2);
  memory.fill(root, 0, KEY);
  last = root;
}

/** What is asked for next followed nothing. */
export function beginEntries(): void {
  last = root;
}

@inline
export function addressOf(entry: u32): usize {
  return <usize>entry << 2;
}

@inline
export function numberOf(address: usize): u32 {
  return <u32>(address >> 2);
}

/** The entry that followed the last one before; 0 when there is none. */
@inline
export function expectedEntry(): usize {
  return addressOf(load<u32>(last, NEXT));
}

/** An entry is the last one, and followed the one that was. */
@inline
export function follow(entry: usize): void {
  store<u32>(last, numberOf(entry), NEXT);
  last = entry;
}

@inline
function isSame(a: usize, b: usize, length: usize): bool {
  if (length >= 16) {
    const rest = length - 16;
    for (let i: usize = 0; i < rest; i += 16) {
      if (v128.any_true(v128.xor(v128.load(a + i), v128.load(b + i)))) return false;
    }
    return !v128.any_true(v128.xor(v128.load(a + rest), v128.load(b + rest)));
  }
  if (length >= 8) {
    const rest = length - 8;
    return load<u64>(a) == load<u64>(b) && load<u64>(a + rest) == load<u64>(b + rest);
  }
  for (let i: usize = 0; i < length; i++) {
    if (load<u8>(a + i) != load<u8>(b + i)) return false;
  }
  return true;
}

/** Whether an entry stands below `parent`, and its key at `key`, of which `room` bytes may be read. */
@inline
export function standsAt(entry: usize, parent: u32, extra: u32, key: usize, room: usize): bool {
  const length = <usize>load<u32>(entry, LENGTH);
  return (
    length <= room &&
    load<u32>(entry, PARENT) == parent &&
    load<u32>(entry, EXTRA) == extra &&
    isSame(entry + KEY, key, length)
  );
}

function hashOf(parent: u32, extra: u32, key: usize, length: usize): u32 {
  let hash = seed ^ ((<u64>parent << 32) | <u64>extra) ^ (<u64>length * MIX_WORD);
  let i: usize = 0;
  for (; i + 8 <= length; i += 8) hash = rotl(hash ^ load<u64>(key + i), 29) * MIX;
  let rest: u64 = 0;
  for (; i < length; i++) rest = (rest << 8) | <u64>load<u8>(key + i);
  hash = (hash ^ rest ^ (hash >> 32)) * MIX_WORD;
  return <u32>(hash ^ (hash >> 33));
}

/** Entry of a key; 0 when there is none, which `addEntry` may make then. */
export function findEntry(parent: u32, extra: u32, key: usize, length: usize): usize {
  const expected = expectedEntry();
  if (expected != 0 && <usize>load<u32>(expected, LENGTH) == length && standsAt(expected, parent, extra, key, length)) {
    last = expected;
    return expected;
  }
  const hash = hashOf(parent, extra, key, length);
  missingHash = hash;
  missingPlace = 0;
  for (let probe: u32 = 0, i = hash & mask; probe < PROBES_MAX; probe++, i = (i + 1) & mask) {
    const place = table + (<usize>i << 2);
    const entry = addressOf(load<u32>(place));
    if (entry == 0) {
      missingPlace = place;
      return 0;
    }
    if (load<u32>(entry, HASH) != hash || <usize>load<u32>(entry, LENGTH) != length) continue;
    if (!standsAt(entry, parent, extra, key, length)) continue;
    follow(entry);
    return entry;
  }
  return 0;
}

/** Makes the entry of a key that was just not found. */
export function addEntry(entry: usize, parent: u32, extra: u32, key: usize, length: usize): void {
  store<u32>(entry, missingHash, HASH);
  store<u32>(entry, parent, PARENT);
  store<u32>(entry, extra, EXTRA);
  store<u32>(entry, <u32>length, LENGTH);
  store<u32>(entry, 0, NEXT);
  store<u32>(entry, 0, SLOTS);
  store<u32>(entry, 0, SLOT_COUNT);
  memory.copy(entry + KEY, key, length);
  if (missingPlace != 0) store<u32>(missingPlace, numberOf(entry));
  missingPlace = 0;
  follow(entry);
}
