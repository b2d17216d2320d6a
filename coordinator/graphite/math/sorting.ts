/** Sorting of many numbers, a part at a time. */
import type { Work } from '#lib/turns/turns.ts';

/** Numbers that are sorted, or merged, in one go: about a millisecond. */
const sortedAtOnce = 16_384;
/** Of a number that is sorted with so many others, and of one that is merged, in units of work (lib/turns/turns.ts). */
const sortUnits = 15;
const mergeUnits = 3;

/**
 * Ascending, NaN behind all others, as `sort()` of the array has it.
 * @param values their order is lost
 */
export async function sortNumbers(values: Float64Array, work: Work): Promise<Float64Array> {
  const { length } = values;
  for (let from = 0; from < length; from += sortedAtOnce) {
    values.subarray(from, from + sortedAtOnce).sort();
    if (work.spend(sortUnits * sortedAtOnce)) await work.pause();
  }
  let sorted = values;
  let merged = length > sortedAtOnce ? new Float64Array(length) : values;
  for (let width = sortedAtOnce; width < length; width *= 2) {
    for (let from = 0; from < length; from += 2 * width) {
      const merge = new Merge(sorted, merged, from, width);
      while (merge.step()) {
        if (work.spend(mergeUnits * sortedAtOnce)) await work.pause();
      }
    }
    [sorted, merged] = [merged, sorted];
  }
  return sorted;
}

/** Of two neighbours, each of them sorted. */
class Merge {
  readonly #from: Float64Array;
  readonly #to: Float64Array;
  readonly #middle: number;
  readonly #past: number;
  #left: number;
  #right: number;
  #place: number;

  constructor(from: Float64Array, to: Float64Array, first: number, width: number) {
    this.#from = from;
    this.#to = to;
    this.#middle = Math.min(first + width, from.length);
    this.#past = Math.min(first + 2 * width, from.length);
    this.#left = first;
    this.#right = this.#middle;
    this.#place = first;
  }

  /** @returns false when there is nothing left */
  step(): boolean {
    const [from, to, middle, past] = [this.#from, this.#to, this.#middle, this.#past];
    let [left, right, place] = [this.#left, this.#right, this.#place];
    if (place === past) return false;
    const end = Math.min(past, place + sortedAtOnce);
    for (; place < end; place++) {
      const isLeft = right >= past || (left < middle && !isBefore(from[right]!, from[left]!));
      to[place] = from[isLeft ? left++ : right++]!;
    }
    [this.#left, this.#right, this.#place] = [left, right, place];
    return true;
  }
}

function isBefore(a: number, b: number): boolean {
  return a < b || (Number.isNaN(b) && !Number.isNaN(a));
}
