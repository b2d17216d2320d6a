/**
 * Sets of series slots as a query makes them, either sorted values or bits, and their algebra.
 * Inputs are never changed and may be borrowed from the postings; results are new or lie in scratch
 * memory that is taken back when the query ends.
 */
import { bitCount, hasBit, lowerBound } from '../tables/postings.ts';

export type SlotSet =
  | { readonly values: Uint32Array; readonly words: null }
  | { readonly values: null; readonly words: Uint32Array };

export const emptySet: SlotSet = { values: new Uint32Array(0), words: null };

/** Most bitsets kept for the next query. */
const scratchKeptMax = 8;

/** Bitsets of one length, used again from query to query: clearing is cheaper than allocating. */
export class ScratchBits {
  readonly #free: Uint32Array[];
  readonly #taken: Uint32Array[];
  #length: number;

  constructor() {
    this.#free = [];
    this.#taken = [];
    this.#length = 0;
  }

  /** Forgets what was taken before; all bitsets have this many words until the next call. */
  begin(length: number): void {
    this.release(0, emptySet);
    if (this.#length < length || this.#length > 4 * length) {
      this.#free.length = 0;
      this.#length = Math.ceil(length * 1.25);
    }
    this.#free.length = Math.min(this.#free.length, scratchKeptMax);
  }

  /** All zero. */
  take(): Uint32Array {
    const words = this.#free.pop()?.fill(0) ?? new Uint32Array(this.#length);
    this.#taken.push(words);
    return words;
  }

  /** How many are taken now; for `release`. */
  get mark(): number {
    return this.#taken.length;
  }

  /** Takes back what was taken since the mark, but for the words of `kept`. */
  release(mark: number, kept: SlotSet): void {
    for (const words of this.#taken.splice(mark)) {
      if (words === kept.words) this.#taken.push(words);
      else this.#free.push(words);
    }
  }

  get memoryBytes(): number {
    return (this.#free.length + this.#taken.length) * this.#length * 4;
  }
}

/** In memory of its own. */
export function copyOf(set: SlotSet): SlotSet {
  return set.words === null
    ? { values: set.values.slice(), words: null }
    : { values: null, words: set.words.slice() };
}

/** Number of slots in the set. */
export function countOf(set: SlotSet): number {
  if (set.words === null) return set.values.length;
  return popCount(set.words);
}

export function popCount(words: Uint32Array): number {
  let count = 0;
  for (let i = 0; i < words.length; i++) count += bitCount(words[i]!);
  return count;
}

export function intersect(a: SlotSet, b: SlotSet, scratch: ScratchBits): SlotSet {
  if (a.words === null) {
    if (b.words !== null) return { values: filterByBits(a.values, b.words, true), words: null };
    const [small, large] = a.values.length <= b.values.length ? [a, b] : [b, a];
    return { values: intersectSorted(small.values, large.values), words: null };
  }
  if (b.words === null) return { values: filterByBits(b.values, a.words, true), words: null };
  const words = scratch.take();
  const length = Math.min(a.words.length, b.words.length, words.length);
  for (let i = 0; i < length; i++) words[i] = a.words[i]! & b.words[i]!;
  return { values: null, words };
}

export function subtract(a: SlotSet, b: SlotSet, scratch: ScratchBits): SlotSet {
  if (a.words === null) {
    const values =
      b.words === null
        ? subtractSorted(a.values, b.values)
        : filterByBits(a.values, b.words, false);
    return { values, words: null };
  }
  const words = scratch.take();
  words.set(a.words.length > words.length ? a.words.subarray(0, words.length) : a.words);
  if (b.words === null) {
    for (let i = 0; i < b.values.length; i++) {
      words[b.values[i]! >>> 5]! &= ~(1 << (b.values[i]! & 31));
    }
  } else {
    const length = Math.min(b.words.length, words.length);
    for (let i = 0; i < length; i++) words[i]! &= ~b.words[i]!;
  }
  return { values: null, words };
}

/** Sets the bits of a set in `words`, which reach over all of its slots. */
export function orInto(set: SlotSet, words: Uint32Array): void {
  if (set.words === null) {
    const { values } = set;
    for (let i = 0; i < values.length; i++) words[values[i]! >>> 5]! |= 1 << (values[i]! & 31);
    return;
  }
  const length = Math.min(set.words.length, words.length);
  for (let i = 0; i < length; i++) words[i]! |= set.words[i]!;
}

function filterByBits(values: Uint32Array, words: Uint32Array, wanted: boolean): Uint32Array {
  const kept = new Uint32Array(values.length);
  let count = 0;
  for (let i = 0; i < values.length; i++) {
    if (hasBit(words, values[i]!) === wanted) kept[count++] = values[i]!;
  }
  return kept.subarray(0, count);
}

/**
 * Common values of two sorted arrays. Walks the small one and gallops in the large one: doubling
 * steps from where the last value was, then a binary search within the last step.
 */
export function intersectSorted(small: Uint32Array, large: Uint32Array): Uint32Array {
  const common = new Uint32Array(small.length);
  let count = 0;
  let at = 0;
  for (let i = 0; i < small.length && at < large.length; i++) {
    const value = small[i]!;
    at = gallop(large, at, value);
    if (at < large.length && large[at] === value) {
      common[count++] = value;
      at++;
    }
  }
  return common.subarray(0, count);
}

function subtractSorted(values: Uint32Array, without: Uint32Array): Uint32Array {
  const kept = new Uint32Array(values.length);
  let count = 0;
  let at = 0;
  for (let i = 0; i < values.length; i++) {
    at = gallop(without, at, values[i]!);
    if (at === without.length || without[at] !== values[i]) kept[count++] = values[i]!;
  }
  return kept.subarray(0, count);
}

/** First index from `start` on whose value is at least `value`. */
function gallop(values: Uint32Array, start: number, value: number): number {
  const length = values.length;
  if (start >= length || values[start]! >= value) return start;
  let step = 1;
  let low = start;
  while (low + step < length && values[low + step]! < value) {
    low += step;
    step *= 2;
  }
  return lowerBound(values, low + 1, Math.min(low + step, length), value);
}
