// The facade is engine/series_cache/series_cache.ts. Memory is laid out by the host.
import { digestRandomBytes, initDigests } from './digest';
import { addEntry, ENTRY_BYTES, findEntry, initEntries, numberOf } from './entries';
import { earliestOfNumbers, initNumbers, latestOfNumbers, numbersAreCut, takeNumbers } from './otlp_numbers';

export const entryBytes: u32 = <u32>ENTRY_BYTES;

/** How many random bytes digests of keys need. */
export function randomBytes(keyBytesMax: u32): u32 {
  return <u32>digestRandomBytes(keyBytesMax);
}

let key: usize = 0;

/**
 * @param keyAt where keys are put that are looked for
 * @param table words of zeros, a power of two
 * @param root room for an entry without a key, zeros
 * @param random `randomBytes`, which nobody else knows
 * @param short room for 16 bytes
 * @param rows room for points of numbers, 32 bytes each
 * @param ends room for where they end, 4 bytes each
 */
export function init(
  keyAt: usize,
  table: usize,
  tableWords: u32,
  root: usize,
  random: usize,
  short: usize,
  rows: usize,
  ends: usize,
): void {
  key = keyAt;
  initDigests(random, short);
  initEntries(table, tableWords, root);
  initNumbers(rows, ends);
}

export { clearEntries, beginEntries } from './entries';

/** Number of the entry of the key that was put; 0 when there is none. */
export function find(parent: u32, extra: u32, length: u32): u32 {
  return numberOf(findEntry(parent, extra, key, <usize>length));
}

/** Makes an entry at an address of the key that was just not found. */
export function add(entry: usize, parent: u32, extra: u32, length: u32): void {
  addEntry(entry, parent, extra, <usize>length);
}

/**
 * Takes points of numbers below an entry from `at` on, each a field of its metric's data; answers how many. A row has u32 slot and
 * generation, i64 milliseconds, a float64, and i64 nanoseconds of the start, 0 for none.
 * @param withStarts 1: with their start times
 */
export function numbers(at: usize, end: usize, parent: u32, withStarts: u32, pointsMax: u32): u32 {
  return takeNumbers(at, end, parent, withStarts != 0, pointsMax);
}

/** 1 when the point behind those that were taken goes on behind the bytes. */
export function isCut(): u32 {
  return <u32>numbersAreCut();
}

/** Times of the points that were taken, in milliseconds. */
export function earliestMillis(): f64 {
  return earliestOfNumbers();
}
export function latestMillis(): f64 {
  return latestOfNumbers();
}
