/**
 * Removal of many series in steps of some milliseconds. First the series leave the tables, so that
 * nobody finds them any more; then their slots are swept from the postings, list by list. Until
 * the last step a slot may stand in a list, so it must not be given to another series before.
 */
import { assert } from '#lib/assert.ts';
import { wordsFor } from './tables/postings.ts';
import type { IndexTables } from './tables/tables.ts';

/** Work of one step, in series that leave the tables: a millisecond or two. */
export const removalStepCost: number = 1000;
/** Values of a list that cost as much as one series. */
const valuesPerCost = 500;
/** What a list costs whatever its length. */
const listCost = 0.3;

export class Removal {
  readonly #tables: IndexTables;
  #slots: Uint32Array;
  readonly #bits: Uint32Array;
  readonly #terms: DistinctNumbers;
  readonly #fields: DistinctNumbers;
  readonly #stepCost: number;

  /** @param slots each once; not to be changed before the removal ends */
  constructor(tables: IndexTables, slots: Uint32Array, stepCost: number) {
    this.#tables = tables;
    this.#stepCost = stepCost;
    this.#slots = slots;
    this.#bits = new Uint32Array(wordsFor(tables.series.slotsEnd));
    this.#terms = new DistinctNumbers();
    this.#fields = new DistinctNumbers();
  }

  /** True when the slot belongs to this removal: it is not free yet. */
  holds(slot: number): boolean {
    const word = slot >>> 5;
    return word < this.#bits.length && (this.#bits[word]! & (1 << (slot & 31))) !== 0;
  }

  /**
   * @param onGone is told of every series when it leaves the tables
   * @param mayGo is asked at the step of a series whether it leaves
   * @returns after each step whether series are leaving still; then it is the turn of the lists
   */
  *steps(
    onGone: (slot: number) => void,
    mayGo: ((slot: number) => boolean) | null,
  ): Generator<boolean, void, void> {
    const { live, dictionary, fieldPostings, termPostings } = this.#tables;
    const slots = new Uint32Array(this.#slots.length);
    let gone = 0;
    for (let start = 0; start < this.#slots.length; start += this.#stepCost) {
      const some = this.#slots.subarray(start, start + this.#stepCost);
      const before = gone;
      for (let i = 0; i < some.length; i++) {
        const slot = some[i]!;
        if (mayGo !== null && !mayGo(slot)) continue;
        onGone(slot);
        this.#takeOut(slot);
        slots[gone++] = slot;
      }
      live.remove(slots.subarray(before, gone));
      yield start + this.#stepCost < this.#slots.length;
    }
    this.#slots = slots.subarray(0, gone);
    let cost = 0;
    for (let i = 0; i < this.#fields.count; i++) {
      const field = this.#fields.at(i);
      cost += listCost + fieldPostings.count(field) / valuesPerCost;
      fieldPostings.removeAll(field, this.#bits, this.#slots);
      if (cost < this.#stepCost) continue;
      cost = 0;
      yield false;
    }
    for (let i = 0; i < this.#terms.count; i++) {
      const term = this.#terms.at(i);
      const count = termPostings.count(term);
      termPostings.removeAll(term, this.#bits, this.#slots);
      if (termPostings.count(term) === 0) dictionary.remove(term);
      cost += listCost + count / valuesPerCost;
      if (cost < this.#stepCost) continue;
      cost = 0;
      yield false;
    }
    for (const _ of dictionary.compaction()) yield false;
  }

  #takeOut(slot: number): void {
    const { series, identities, dictionary } = this.#tables;
    assert(series.has(slot), 'a removed series is in the index');
    this.#bits[slot >>> 5]! |= 1 << (slot & 31);
    const termCount = series.termCount(slot);
    if (termCount > 0) {
      const page = series.termsPage(slot);
      const start = series.termsStart(slot);
      for (let at = start; at < start + termCount; at++) {
        if (this.#terms.add(page[at]!)) this.#fields.add(dictionary.fieldOfTerm(page[at]!));
      }
    }
    identities.remove(slot);
    series.remove(slot);
  }
}

/** A set of small numbers that keeps the order in which they came. */
class DistinctNumbers {
  #bits: Uint32Array;
  #values: Uint32Array;
  count: number;

  constructor() {
    this.#bits = new Uint32Array(8);
    this.#values = new Uint32Array(64);
    this.count = 0;
  }

  /** True when the number was not there. */
  add(value: number): boolean {
    const word = value >>> 5;
    const bit = 1 << (value & 31);
    if (word >= this.#bits.length) this.#bits = grown(this.#bits, word + 1);
    if ((this.#bits[word]! & bit) !== 0) return false;
    this.#bits[word]! |= bit;
    if (this.count === this.#values.length) this.#values = grown(this.#values, this.count + 1);
    this.#values[this.count++] = value;
    return true;
  }

  at(index: number): number {
    return this.#values[index]!;
  }
}

function grown(from: Uint32Array, least: number): Uint32Array {
  const to = new Uint32Array(Math.max(least, 2 * from.length));
  to.set(from);
  return to;
}
