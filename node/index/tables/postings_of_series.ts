/** Postings made from the terms of all series, for a loaded index. */
import { bitCount, type PostingsStore, wordsFor } from './postings.ts';
import type { SeriesTable } from './series_table.ts';
import type { TermDictionary } from './term_dictionary.ts';

/**
 * A list with a slot in each so many is collected as bits, and in no other form takes more
 * while it is.
 */
const slotsOfBit = 32;

/**
 * Fills the lists of all terms, which are empty.
 * @param counts by term how many series have it
 * @param slotsEnd all slots are below
 * @returns false when a series has a term twice
 */
export function loadTermPostings(
  series: SeriesTable,
  counts: Uint32Array,
  postings: PostingsStore,
  slotsEnd: number,
): boolean {
  const words = wordsFor(slotsEnd);
  const bitsFrom = Math.max(2, Math.ceil(slotsEnd / slotsOfBit));
  // All arrays of slots one after the other, then all bitsets.
  const starts = new Uint32Array(counts.length);
  let end = 0;
  for (let term = 0; term < counts.length; term++) {
    if (counts[term]! >= bitsFrom) continue;
    starts[term] = end;
    end += counts[term]!;
  }
  const bitsStart = end;
  for (let term = 0; term < counts.length; term++) {
    if (counts[term]! < bitsFrom) continue;
    starts[term] = end;
    end += words;
  }
  const values = new Uint32Array(end);
  scatter(series, values, starts, bitsStart);
  for (let term = 0; term < counts.length; term++) {
    const count = counts[term]!;
    // The start of an array has become its end.
    const at = starts[term]!;
    if (count >= bitsFrom) {
      const bits = values.subarray(at, at + words);
      if (countOf(bits) !== count) return false;
      postings.loadBits(term, bits, count);
    } else if (count > 0) {
      const list = values.subarray(at - count, at);
      for (let i = 1; i < count; i++) if (list[i] === list[i - 1]) return false;
      postings.load(term, list);
    }
  }
  return true;
}

function countOf(bits: Uint32Array): number {
  let count = 0;
  for (let i = 0; i < bits.length; i++) count += bitCount(bits[i]!);
  return count;
}

function scatter(
  series: SeriesTable,
  values: Uint32Array,
  starts: Uint32Array,
  bitsStart: number,
): void {
  const { present } = series;
  for (let word = 0; word < present.length; word++) {
    for (let left = present[word]!; left !== 0; left &= left - 1) {
      const slot = 32 * word + 31 - Math.clz32(left & -left);
      const termCount = series.termCount(slot);
      if (termCount === 0) continue;
      const start = series.termsStart(slot);
      const page = series.termsPage(slot);
      scatterOne(page, start, start + termCount, slot, values, starts, bitsStart);
    }
  }
}

/** Puts a slot into the lists of terms[start, end). */
function scatterOne(
  terms: Uint32Array,
  start: number,
  end: number,
  slot: number,
  values: Uint32Array,
  starts: Uint32Array,
  bitsStart: number,
): void {
  const word = slot >>> 5;
  const bit = 1 << (slot & 31);
  for (let i = start; i < end; i++) {
    const term = terms[i]!;
    const at = starts[term]!;
    if (at >= bitsStart) values[at + word]! |= bit;
    else {
      values[at] = slot;
      starts[term] = at + 1;
    }
  }
}

/**
 * Fills the lists of all fields, which are empty, from those of their terms.
 * @returns false when a series has two terms of a field
 */
export function loadFieldPostings(
  dictionary: TermDictionary,
  termPostings: PostingsStore,
  fieldPostings: PostingsStore,
  slotsEnd: number,
): boolean {
  const bits = new Uint32Array(wordsFor(slotsEnd));
  for (let index = 0; index < dictionary.fieldsEnd; index++) {
    if (!dictionary.hasField(index)) continue;
    const { terms, positionsEnd } = dictionary.field(index);
    bits.fill(0);
    let wanted = 0;
    for (let i = 0; i < positionsEnd; i++) {
      wanted += termPostings.count(terms[i]!);
      termPostings.orInto(terms[i]!, bits);
    }
    const count = countOf(bits);
    if (count !== wanted) return false;
    fieldPostings.loadBits(index, bits, count);
  }
  return true;
}
