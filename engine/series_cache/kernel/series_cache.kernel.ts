// The facade is engine/series_cache/series_cache.ts. Memory is laid out by the host.
import { addEntry, findEntry, initEntries, numberOf } from './entries';
import { columnsBytes, earliestOfNumbers, initNumbers, latestOfNumbers, numbersAreCut, numbersHaveStarts, takeNumbers } from './otlp_numbers';

/** Of an entry beside its key. */
export const entryHeadBytes: u32 = 28;

let key: usize = 0;

/**
 * @param keyAt where keys are put that are looked for
 * @param table words of zeros, a power of two
 * @param root room for an entry without a key, zeros
 * @param columns `numbersBytes`
 */
export function init(
  keyAt: usize,
  table: usize,
  tableWords: u32,
  root: usize,
  seed: u32,
  columns: usize,
  pointsMax: u32,
): void {
  key = keyAt;
  initEntries(table, tableWords, root, seed);
  initNumbers(columns, pointsMax);
}

export { clearEntries, beginEntries } from './entries';

/** Number of the entry of the key that was put; 0 when there is none. */
export function find(parent: u32, extra: u32, length: u32): u32 {
  return numberOf(findEntry(parent, extra, key, <usize>length));
}

/** Makes an entry at an address of the key that was just not found. */
export function add(entry: usize, parent: u32, extra: u32, length: u32): void {
  addEntry(entry, parent, extra, key, <usize>length);
}

/** Of columns of so many points, in this order: i64 times in milliseconds, float64s, i64 starts in nanoseconds, u32 slots, generations and where the points end. */
export function numbersBytes(points: u32): usize {
  return columnsBytes(points);
}

/**
 * Takes points of numbers below an entry from `at` on, each a field of its metric's data; answers how many.
 * @param withStarts 1: with their start times
 */
export function numbers(at: usize, end: usize, parent: u32, withStarts: u32, pointsMax: u32): u32 {
  return takeNumbers(at, end, parent, withStarts != 0, pointsMax);
}

/** 1 when the point behind those that were taken goes on behind the bytes. */
export function isCut(): u32 {
  return <u32>numbersAreCut();
}

/** 1 when some that were taken have a start time. */
export function hasStarts(): u32 {
  return <u32>numbersHaveStarts();
}

/** Times of the points that were taken, in milliseconds. */
export function earliestMillis(): f64 {
  return earliestOfNumbers();
}
export function latestMillis(): f64 {
  return latestOfNumbers();
}
