// Entries of what is known: words of their head, and the digest of the bytes by which they are found (digest.ts). The number of an
// entry is its address divided by four. One follows another when it was asked for right after it, and is expected there the next
// time.

import { DIGEST_BYTES, digestOf, digestWord, isDigest, storeDigest } from './digest';

/** Words of an entry; LENGTH is that of its key. */
export const HASH: usize = 0;
export const PARENT: usize = 4;
export const EXTRA: usize = 8;
export const LENGTH: usize = 12;
export const NEXT: usize = 16;
export const SLOTS: usize = 20;
export const SLOT_COUNT: usize = 24;
const DIGEST: usize = 28;
export const ENTRY_BYTES: usize = DIGEST + DIGEST_BYTES;

/** Of hashes that meet at one place: what finds none is made anew each time. */
const PROBES_MAX: u32 = 64;
const MIX: u64 = 0x9e3779b97f4a7c15;
const MIX_WORD: u64 = 0xff51afd7ed558ccd;

let table: usize = 0;
let mask: u32 = 0;
/** Entry that is no one's: what comes first follows it. */
let root: usize = 0;
let last: usize = 0;

/** What was not found last: its hash, and where in the table it would stand; 0 for nowhere. */
let missingHash: u32 = 0;
let missingPlace: usize = 0;

/** Memory is all zeros, and what nobody has touched takes none. */
export function initEntries(tableAt: usize, tableWords: u32, rootAt: usize): void {
  table = tableAt;
  mask = tableWords - 1;
  root = rootAt;
  last = root;
}

export function clearEntries(): void {
  memory.fill(table, 0, (<usize>mask + 1) << 2);
  memory.fill(root, 0, ENTRY_BYTES);
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

/** Whether an entry stands below `parent`, and its key at `key`, of which `room` bytes may be read. */
@inline
export function standsAt(entry: usize, parent: u32, extra: u32, key: usize, room: usize): bool {
  const length = <usize>load<u32>(entry, LENGTH);
  if (length > room || load<u32>(entry, PARENT) != parent || load<u32>(entry, EXTRA) != extra) return false;
  digestOf(key, length);
  return isDigest(entry + DIGEST);
}

/** Of the key whose digest was made last. */
function hashOf(parent: u32, extra: u32, length: usize): u32 {
  let hash = digestWord() ^ (((<u64>parent << 32) | <u64>extra) * MIX) ^ (<u64>length * MIX_WORD);
  hash = (hash ^ (hash >> 32)) * MIX_WORD;
  return <u32>(hash ^ (hash >> 33));
}

/** Entry of a key; 0 when there is none, which `addEntry` may make then. */
export function findEntry(parent: u32, extra: u32, key: usize, length: usize): usize {
  digestOf(key, length);
  const expected = expectedEntry();
  if (expected != 0 && isKnownAs(expected, parent, extra, length)) {
    last = expected;
    return expected;
  }
  const hash = hashOf(parent, extra, length);
  missingHash = hash;
  missingPlace = 0;
  for (let probe: u32 = 0, i = hash & mask; probe < PROBES_MAX; probe++, i = (i + 1) & mask) {
    const place = table + (<usize>i << 2);
    const entry = addressOf(load<u32>(place));
    if (entry == 0) {
      missingPlace = place;
      return 0;
    }
    if (load<u32>(entry, HASH) != hash || !isKnownAs(entry, parent, extra, length)) continue;
    follow(entry);
    return entry;
  }
  return 0;
}

/** Whether an entry is that of the key whose digest was made last. */
@inline
function isKnownAs(entry: usize, parent: u32, extra: u32, length: usize): bool {
  return (
    <usize>load<u32>(entry, LENGTH) == length &&
    load<u32>(entry, PARENT) == parent &&
    load<u32>(entry, EXTRA) == extra &&
    isDigest(entry + DIGEST)
  );
}

/** Makes the entry of a key that was just not found. */
export function addEntry(entry: usize, parent: u32, extra: u32, length: usize): void {
  store<u32>(entry, missingHash, HASH);
  store<u32>(entry, parent, PARENT);
  store<u32>(entry, extra, EXTRA);
  store<u32>(entry, <u32>length, LENGTH);
  store<u32>(entry, 0, NEXT);
  store<u32>(entry, 0, SLOTS);
  store<u32>(entry, 0, SLOT_COUNT);
  storeDigest(entry + DIGEST);
  if (missingPlace != 0) store<u32>(missingPlace, numberOf(entry));
  missingPlace = 0;
  follow(entry);
}
